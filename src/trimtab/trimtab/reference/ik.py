"""Damped least squares inverse kinematics of the tool's position, within joint limits."""

import numpy as np

from trimtab.dynamics import RigidBody
from trimtab.errors import ReferenceRefused
from trimtab.typing import FloatArray

DAMPING = 0.02  # of the least squares, relative to the Jacobian's mean squared singular value: slow near singularities
ITERATIONS = 100
TOLERANCE = 1e-7  # m


def solve_position(body: RigidBody, target: FloatArray, start: FloatArray) -> FloatArray:
    """A posture near `start` whose tool is at `target` (3,) [m] in the base frame.

    Each step is clipped to the joint limits. Raises `ReferenceRefused` when 100 clipped iterations do not converge.
    """
    arm = body.arm
    q = np.array(start)
    for _ in range(ITERATIONS):
        error = target - body.tool_position(q)
        distance = float(np.linalg.norm(error))
        if distance < TOLERANCE:
            return q
        jacobian = body.tool_jacobian(q)
        # The damping fades with the error, so that convergence at the end is Newton's.
        damping = DAMPING * min(1.0, distance / 0.01) * float(np.trace(jacobian @ jacobian.T)) / 3.0
        inverse = jacobian.T @ np.linalg.inv(jacobian @ jacobian.T + damping * np.eye(3) + 1e-12 * np.eye(3))
        q = np.clip(q + inverse @ error, arm.lower, arm.upper)
    point = ", ".join(f"{value:.3f}" for value in target)
    raise ReferenceRefused(
        f"{arm.name} cannot put its tool at ({point}) m within its joint limits: {1000 * distance:.2f} mm are left"
    )
