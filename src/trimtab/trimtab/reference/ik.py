"""Damped least squares inverse kinematics of the tool's position, within joint limits."""

import numpy as np

from trimtab.dynamics import RigidBody
from trimtab.errors import ReferenceRefused
from trimtab.typing import FloatArray

DAMPING = 0.02  # of the least squares, relative to the arm's largest singular value squared: slow near singularities
ITERATIONS = 100
TOLERANCE = 1e-7  # m
NULL_SPACE_GAIN = 0.05  # pull towards the preferred posture in directions that the tool does not see


def solve_position(body: RigidBody, target: FloatArray, start: FloatArray, preferred: FloatArray) -> FloatArray:
    """The posture nearest to `start` whose tool is at `target` (3,) [m] in the base frame.

    Raises `ReferenceRefused` when no posture within the limits reaches the point.
    """
    arm = body.arm
    q = np.array(start)
    identity = np.eye(arm.dof)
    for _ in range(ITERATIONS):
        error = target - body.tool_position(q)
        distance = float(np.linalg.norm(error))
        if distance < TOLERANCE:
            return q
        jacobian = body.tool_jacobian(q)
        # The damping fades with the error, so that convergence at the end is Newton's.
        damping = DAMPING * min(1.0, distance / 0.01) * float(np.trace(jacobian @ jacobian.T)) / 3.0
        inverse = jacobian.T @ np.linalg.inv(jacobian @ jacobian.T + damping * np.eye(3) + 1e-12 * np.eye(3))
        step = inverse @ error + NULL_SPACE_GAIN * (identity - inverse @ jacobian) @ (preferred - q) * min(1.0, distance)
        q = np.clip(q + step, arm.lower, arm.upper)
    point = ", ".join(f"{value:.3f}" for value in target)
    raise ReferenceRefused(
        f"{arm.name} cannot put its tool at ({point}) m within its joint limits: {1000 * distance:.2f} mm are left"
    )
