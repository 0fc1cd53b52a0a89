"""Refuses a trajectory as a whole when any instant of it breaks a limit of the arm."""

import numpy as np

from trimtab.arm import Arm
from trimtab.errors import ReferenceRefused
from trimtab.reference.trajectory import Trajectory

TOLERANCE = 1e-9
END_SPEED_TOLERANCE = 0.01  # share of the velocity limit


def check_trajectory(arm: Arm, trajectory: Trajectory) -> None:
    """Raises `ReferenceRefused` with the joint, the value and the limit."""
    if trajectory.dof != arm.dof:
        raise ReferenceRefused(f"the trajectory has {trajectory.dof} joints, {arm.name} has {arm.dof}")
    extremes = trajectory.extremes()
    for i, joint in enumerate(arm.joints):
        low, high, fastest = extremes.low[i], extremes.high[i], extremes.fastest[i]
        if not low >= arm.lower[i] - TOLERANCE:  # also when it overflows
            raise ReferenceRefused(
                f"joint '{joint}' is asked to go to {_show(low)} rad, its lower limit is {_show(arm.lower[i])}"
            )
        if not high <= arm.upper[i] + TOLERANCE:
            raise ReferenceRefused(
                f"joint '{joint}' is asked to go to {_show(high)} rad, its upper limit is {_show(arm.upper[i])}"
            )
        if not fastest <= arm.velocity[i] + TOLERANCE:
            raise ReferenceRefused(
                f"joint '{joint}' is asked to move at {_show(fastest)} rad/s, its velocity limit is {_show(arm.velocity[i])}"
            )
    ending = np.abs(trajectory.qd[-1]) / arm.velocity
    if ending.max() > END_SPEED_TOLERANCE:
        i = int(ending.argmax())
        raise ReferenceRefused(
            f"the trajectory ends with joint '{arm.joints[i]}' at {trajectory.qd[-1, i]:.3f} rad/s; it must end at rest"
        )


def _show(value: float) -> str:
    """A number as people read it; one that overflowed need not fill the screen."""
    return f"{value:.4f}" if abs(value) < 1e4 else f"{value:.4g}"
