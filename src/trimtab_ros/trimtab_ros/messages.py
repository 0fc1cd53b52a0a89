"""Between messages and the library's arrays; joints are matched by name here and nowhere else."""

from array import array

import numpy as np
from builtin_interfaces.msg import Duration, Time
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from trimtab.control import Desired
from trimtab.errors import JointNamesError, ReferenceRefused, TrimtabError
from trimtab.joints import JointOrder
from trimtab.reference import Trajectory
from trimtab.residual.offer import Offer
from trimtab.typing import FloatArray

NANOSECONDS = 1_000_000_000


def to_nanoseconds(time: Time | Duration) -> int:
    """A stamp or duration as an integer [ns]."""
    return int(time.sec) * NANOSECONDS + int(time.nanosec)


def to_time(nanoseconds: int) -> Time:
    """A stamp of a number of nanoseconds."""
    return Time(sec=nanoseconds // NANOSECONDS, nanosec=nanoseconds % NANOSECONDS)


def to_seconds(time: Time | Duration) -> float:
    """A stamp or duration [s]."""
    return to_nanoseconds(time) / NANOSECONDS


def state_arrays(message: JointState, order: JointOrder) -> tuple[FloatArray, FloatArray]:
    """Position [rad] and velocity [rad/s] in the arm's order; raises if either is missing or not finite."""
    return (
        order.arrange(message.name, message.position, "position"),
        order.arrange(message.name, message.velocity, "velocity"),
    )


def torque_array(message: JointState, order: JointOrder) -> FloatArray:
    """Torque [Nm] in the arm's order; raises if it is missing or not finite."""
    return order.arrange(message.name, message.effort, "effort")


def state_message(stamp: int, joints: tuple[str, ...], q: FloatArray, qd: FloatArray) -> JointState:
    """A measured state; stamp [ns]."""
    message = JointState()
    message.header.stamp = to_time(stamp)
    message.name = list(joints)
    message.position = q.tolist()
    message.velocity = qd.tolist()
    return message


RESIDUAL_SUFFIX = "/residual"
"""Behind a joint's name, in a torque command: how much of that joint's torque is learned."""


def torque_message(
    stamp: Time, joints: tuple[str, ...], torque: FloatArray, residual: FloatArray | None = None
) -> JointState:
    """A torque command, stamped with the state that it answers; `residual` is the learned part of it [Nm]."""
    message = JointState()
    message.header.stamp = stamp
    message.name = list(joints)
    message.effort = torque.tolist()
    if residual is not None:
        message.name += [joint + RESIDUAL_SUFFIX for joint in joints]
        message.effort += array("d", residual)
    return message


def classical_array(message: JointState, order: JointOrder) -> FloatArray:
    """A command's torque without its learned part, in the arm's order [Nm]."""
    torque = torque_array(message, order)
    parts = dict(zip(message.name, message.effort, strict=True))
    learned = np.array([parts.get(joint + RESIDUAL_SUFFIX, 0.0) for joint in order.joints], dtype=np.float64)
    classical: FloatArray = torque - learned
    return classical


CONFIDENCE, LIVE = "confidence", "live"
"""Entries of a residual message beside the joints: how sure the model is (0 to 1), and 0 where it is only a shadow."""


def residual_message(offer: Offer, stamp: Time, joints: tuple[str, ...], desired: Desired, live: bool) -> JointState:
    """A residual torque as effort [Nm], with the wanted position and velocity that it was made for."""
    message = JointState()
    message.header.stamp = stamp
    message.name = [*joints, CONFIDENCE, LIVE]
    message.position = [*desired.q.tolist(), 0.0, 0.0]
    message.velocity = [*desired.qd.tolist(), 0.0, 0.0]
    message.effort = [*offer.torque.tolist(), offer.confidence, float(live)]
    return message


def residual_offer(message: JointState, order: JointOrder) -> tuple[Offer, FloatArray, bool]:
    """The offer, the wanted positions that it was made for [rad], and whether it is meant to act.

    Raises where joints or entries are missing. Numbers that are not finite pass: the safety filter says which one it was.
    """
    index = order.index(message.name)
    rows = [np.asarray(row, dtype=np.float64) for row in (message.position, message.effort)]
    for what, row in zip(("position", "effort"), rows, strict=True):
        if row.shape != (len(message.name),):
            raise JointNamesError(f"{what} has {row.size} values for {len(message.name)} names")
    values = dict(zip(message.name, message.effort, strict=True))
    for entry in (CONFIDENCE, LIVE):
        if entry not in values:
            raise JointNamesError(f"the entry '{entry}' is missing")
    offer = Offer(rows[1][index], float(values[CONFIDENCE]), to_seconds(message.header.stamp))
    return offer, rows[0][index], values[LIVE] == 1.0


def to_trajectory(message: JointTrajectory, order: JointOrder) -> Trajectory:
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
    t = np.array([to_seconds(point.time_from_start) for point in points])
    q = _column(points, "positions", message.joint_names, order, index)
    qd = _column(points, "velocities", message.joint_names, order, index)
    qdd = _column(points, "accelerations", message.joint_names, order, index)
    if q is None:
        raise ReferenceRefused("a trajectory needs positions at every point")
    if qd is not None and qdd is not None:
        return Trajectory(t, q, qd, qdd)
    return Trajectory.through(t, q, qd)


def _column(
    points: list[JointTrajectoryPoint], field: str, names: list[str], order: JointOrder, index: np.ndarray
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


def start_of(message: JointTrajectory, now: int) -> float:
    """When a trajectory starts [s]: at its stamp, or `now` [ns] where it has none."""
    return to_seconds(message.header.stamp) or now / NANOSECONDS


def trajectory_message(trajectory: Trajectory, joints: tuple[str, ...], lead: float) -> JointTrajectory:
    """A trajectory as a message that starts on arrival; `lead` [s] is the time given to get to its first point."""
    message = JointTrajectory(joint_names=list(joints))
    for t, q, qd, qdd in zip(trajectory.t, trajectory.q, trajectory.qd, trajectory.qdd, strict=True):
        nanoseconds = round((float(t) + lead) * NANOSECONDS)
        duration = Duration(sec=nanoseconds // NANOSECONDS, nanosec=nanoseconds % NANOSECONDS)
        message.points.append(
            JointTrajectoryPoint(
                positions=q.tolist(), velocities=qd.tolist(), accelerations=qdd.tolist(), time_from_start=duration
            )
        )
    return message
