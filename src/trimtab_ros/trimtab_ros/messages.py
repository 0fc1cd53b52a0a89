"""Between messages and the library's arrays; joints are matched by name here and nowhere else."""

from array import array

import numpy as np
from builtin_interfaces.msg import Duration, Time
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from trimtab.bags.topics import CONFIDENCE, LIVE, RESIDUAL_SUFFIX
from trimtab.control import Desired
from trimtab.errors import JointNamesError
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


def torque_message(
    stamp: int, joints: tuple[str, ...], torque: FloatArray, residual: FloatArray | None = None
) -> JointState:
    """A torque command, stamped [ns] with the state that it answers; `residual` is the learned part of it [Nm]."""
    message = JointState()
    message.header.stamp = to_time(stamp)
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


def residual_message(offer: Offer, stamp: int, joints: tuple[str, ...], desired: Desired, live: bool) -> JointState:
    """A residual torque as effort [Nm], with the wanted position and velocity that it was made for."""
    message = JointState()
    message.header.stamp = to_time(stamp)
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
