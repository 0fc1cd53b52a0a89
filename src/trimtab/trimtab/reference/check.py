"""Refuses a trajectory as a whole when any instant of it breaks a limit of the arm."""

import numpy as np

from trimtab.arm import Arm
from trimtab.errors import ReferenceRefused
from trimtab.reference.trajectory import Trajectory

SAMPLES_PER_KNOT = 64  # a quintic may overshoot between knots
TOLERANCE = 1e-9
END_SPEED_TOLERANCE = 0.01  # share of the velocity limit


def check_trajectory(arm: Arm, trajectory: Trajectory) -> None:
    """Raises `ReferenceRefused` with the joint, the value and the limit."""
    if trajectory.dof != arm.dof:
        raise ReferenceRefused(f"the trajectory has {trajectory.dof} joints, {arm.name} has {arm.dof}")
    q, qd = trajectory.extremes(SAMPLES_PER_KNOT)
    for i, joint in enumerate(arm.joints):
        low, high = q[:, i].min(), q[:, i].max()
        if low < arm.lower[i] - TOLERANCE:
            raise ReferenceRefused(f"joint '{joint}' is asked to go to {low:.4f} rad, its lower limit is {arm.lower[i]:.4f}")
        if high > arm.upper[i] + TOLERANCE:
            raise ReferenceRefused(
                f"joint '{joint}' is asked to go to {high:.4f} rad, its upper limit is {arm.upper[i]:.4f}"
            )
        fastest = np.abs(qd[:, i]).max()
        if fastest > arm.velocity[i] + TOLERANCE:
            raise ReferenceRefused(
                f"joint '{joint}' is asked to move at {fastest:.4f} rad/s, its velocity limit is {arm.velocity[i]:.4f}"
            )
    ending = np.abs(trajectory.qd[-1]) / arm.velocity
    if ending.max() > END_SPEED_TOLERANCE:
        i = int(ending.argmax())
        raise ReferenceRefused(
            f"the trajectory ends with joint '{arm.joints[i]}' at {trajectory.qd[-1, i]:.3f} rad/s; it must end at rest"
        )
