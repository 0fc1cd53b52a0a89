"""A JointTrajectory message, of rclpy's or of a bag's classes, as a trajectory of the library."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from trimtab.errors import JointNamesError, ReferenceRefused, TrimtabError
from trimtab.joints import JointOrder
from trimtab.reference.trajectory import Trajectory
from trimtab.typing import FloatArray

SECOND = 1_000_000_000  # ns


def trajectory_of(message: Any, order: JointOrder) -> Trajectory:
    """The trajectory of a message, refused whole if any point of it is unusable.

    Positions alone are joined by the smoothest curve; velocities and accelerations, where given, are kept.
    """
    try:
        index = order.index(message.joint_names)
    except JointNamesError as error:
        raise ReferenceRefused(str(error)) from error
    extra = set(message.joint_names) - set(order.joints)
    if extra:
        raise ReferenceRefused(f"joint '{min(extra)}' is not one of {', '.join(order.joints)}")
    points = message.points
    times = (point.time_from_start for point in points)
    t = np.array([(int(time.sec) * SECOND + int(time.nanosec)) / SECOND for time in times])
    q = _column(points, "positions", message.joint_names, order, index)
    qd = _column(points, "velocities", message.joint_names, order, index)
    qdd = _column(points, "accelerations", message.joint_names, order, index)
    if q is None:
        raise ReferenceRefused("a trajectory needs positions at every point")
    if qd is not None and qdd is not None:
        return Trajectory(t, q, qd, qdd)
    return Trajectory.through(t, q, qd)


def _column(
    points: Sequence[Any], field: str, names: Sequence[str], order: JointOrder, index: np.ndarray
) -> FloatArray | None:
    """One field of all points, (n, dof); None where no point has it. Some points with and some without is refused."""
    rows = [getattr(point, field) for point in points]
    if not any(len(row) for row in rows):
        return None
    for i, row in enumerate(rows):
        if len(row) != len(names):
            raise ReferenceRefused(f"point {i} has {len(row)} {field} for {len(names)} joints")
    values = np.array(rows, dtype=np.float64)[:, index]
    for i, row in enumerate(values):
        try:
            order.require_finite(row, f"{field} of point {i}")
        except TrimtabError as error:
            raise ReferenceRefused(str(error)) from error
    return values
