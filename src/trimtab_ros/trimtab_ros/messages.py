"""Between messages and the library's arrays; joints are matched by name here and nowhere else."""

from collections.abc import Callable

import numpy as np
from builtin_interfaces.msg import Duration, Time
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from trimtab.bags.cdr import JointStateEncoder, ParsedJointState, Stamp
from trimtab.bags.topics import CONFIDENCE, LIVE, RESIDUAL_SUFFIX
from trimtab.errors import JointNamesError
from trimtab.joints import JointOrder
from trimtab.reference import Trajectory
from trimtab.residual.offer import Offer
from trimtab.typing import FloatArray
from trimtab_ros.streams import Command, Residual, State

NANOSECONDS = 1_000_000_000


def to_nanoseconds(time: Time | Duration | Stamp) -> int:
    """A stamp or duration as an integer [ns]."""
    return int(time.sec) * NANOSECONDS + int(time.nanosec)


def to_time(nanoseconds: int) -> Time:
    """A stamp of a number of nanoseconds."""
    return Time(sec=nanoseconds // NANOSECONDS, nanosec=nanoseconds % NANOSECONDS)


def to_seconds(time: Time | Duration | Stamp) -> float:
    """A stamp or duration [s]."""
    return to_nanoseconds(time) / NANOSECONDS


def state_arrays(message: JointState | ParsedJointState, order: JointOrder) -> tuple[FloatArray, FloatArray]:
    """Position [rad] and velocity [rad/s] in the arm's order; raises if either is missing or not finite."""
    return (
        order.arrange(message.name, message.position, "position"),
        order.arrange(message.name, message.velocity, "velocity"),
    )


def torque_array(message: JointState | ParsedJointState, order: JointOrder) -> FloatArray:
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


def torque_message(stamp: int, joints: tuple[str, ...], torque: FloatArray) -> JointState:
    """A torque command, stamped [ns] with the state that it answers."""
    message = JointState()
    message.header.stamp = to_time(stamp)
    message.name = list(joints)
    message.effort = torque.tolist()
    return message


def classical_array(message: JointState | ParsedJointState, order: JointOrder) -> FloatArray:
    """A command's torque without its learned part, in the arm's order [Nm]."""
    torque = torque_array(message, order)
    parts = dict(zip(message.name, message.effort, strict=True))
    learned = np.array([parts.get(joint + RESIDUAL_SUFFIX, 0.0) for joint in order.joints], dtype=np.float64)
    classical: FloatArray = torque - learned
    return classical


def state_encoder(joints: tuple[str, ...]) -> Callable[[State], bytes]:
    """What makes `joint_states`, as bytes: made for every state, so without the detour over a message."""
    encoder = JointStateEncoder(joints, position=True, velocity=True)
    return lambda state: encoder.encode(state.stamp, state.q.tolist(), state.qd.tolist())


def command_encoder(joints: tuple[str, ...]) -> Callable[[Command], bytes]:
    """What makes `torque_command`, as bytes; with an entry more per joint where a part of it is learned."""
    plain = JointStateEncoder(joints, effort=True)
    both = JointStateEncoder([*joints, *(joint + RESIDUAL_SUFFIX for joint in joints)], effort=True)

    def encode(command: Command) -> bytes:
        if command.learned is None:
            return plain.encode(command.stamp, command.torque.tolist())
        return both.encode(command.stamp, command.torque.tolist() + command.learned.tolist())

    return encode


def residual_encoder(joints: tuple[str, ...]) -> Callable[[Residual], bytes]:
    """What makes `residual_torque`, as bytes: effort [Nm], and the wanted position and velocity that it was made for."""
    encoder = JointStateEncoder([*joints, CONFIDENCE, LIVE], position=True, velocity=True, effort=True)

    def encode(answer: Residual) -> bytes:
        offer, desired = answer.offer, answer.desired
        effort = [*offer.torque.tolist(), offer.confidence, float(answer.live)]
        return encoder.encode(answer.stamp, [*desired.q.tolist(), 0.0, 0.0], [*desired.qd.tolist(), 0.0, 0.0], effort)

    return encode


def residual_offer(message: JointState | ParsedJointState, order: JointOrder) -> tuple[Offer, FloatArray, bool]:
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
