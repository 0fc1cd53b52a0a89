"""Runs as rosbag2 bags (MCAP): what `ros2 bag` plays and Foxglove opens, and what a log of a robot looks like.

Topics carry the names that the nodes use without a namespace. A torque command bears the stamp of the state it answers.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.interfaces import Connection
from rosbags.rosbag2 import Reader, StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore
from rosbags.typesys.store import Typestore

from trimtab.arm import Arm
from trimtab.errors import JointNamesError, LogError, NotFiniteError, TrimtabError
from trimtab.reference import Trajectory
from trimtab.runlog import RunLog
from trimtab.typing import FloatArray

STATES = "/joint_states"
TORQUES = "/torque_command"
RESIDUALS = "/residual_torque"
REFERENCE = "/reference"
JOINT_STATE = "sensor_msgs/msg/JointState"
JOINT_TRAJECTORY = "trajectory_msgs/msg/JointTrajectory"
START = 1_000_000_000  # ns; stamp of a run's first row, since ROS takes a stamp of zero for "not set"
SECOND = 1_000_000_000  # ns


@dataclass(frozen=True)
class BagLog:
    """States and the torques that answered them, row by row, in the arm's joint order."""

    t: FloatArray
    """Stamps of the states, from 0, strictly increasing, (n,) [s]."""
    q: FloatArray
    """Measured positions, (n, dof) [rad]."""
    qd: FloatArray
    """Measured velocities, (n, dof) [rad/s]."""
    torque: FloatArray
    """What was sent, (n, dof) [Nm]."""
    dropped: int
    """Messages left out: states without a torque, torques without a state, and all but the last of one stamp."""


def write_log(folder: Path, log: RunLog) -> Path:
    """Writes a run as one bag: the folder with all of it, or no folder. Gives the folder.

    Rows for which nothing was sent (torque NaN) have a state and no torque command.
    """
    if folder.exists():
        raise LogError(f"{folder}: exists already and a bag is never overwritten; remove it or choose another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    # The writer names its file after its folder: the bag grows under its own name inside a hidden one, then moves out.
    hidden = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    growing = hidden / folder.name
    try:
        with Writer(growing, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
            _write(writer, log)
        for file in growing.iterdir():
            _to_disk(file)
        growing.rename(folder)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
    return folder


def read_log(path: Path, arm: Arm, *, states: str = STATES, torques: str = TORQUES) -> BagLog:
    """Reads states and torque commands of an arm from a bag (a folder, or a bare .mcap or .db3 file).

    Joints are matched by name. A torque belongs to the state of the same stamp; what has no partner is left out and counted.
    """
    order = arm.order()
    q: dict[int, FloatArray] = {}
    qd: dict[int, FloatArray] = {}
    sent: dict[int, FloatArray] = {}
    count = 0
    for topic, message in _messages(path, {states, torques}):
        count += (topic == states) + (topic == torques)
        stamp = message.header.stamp.sec * SECOND + message.header.stamp.nanosec
        try:
            if topic == states:
                q[stamp] = order.arrange(message.name, message.position, "position")
                qd[stamp] = order.arrange(message.name, message.velocity, "velocity")
            if topic == torques:  # may be the states' own topic: a robot that measures its effort
                sent[stamp] = order.arrange(message.name, message.effort, "effort")
        except JointNamesError as error:
            raise LogError(f"{path}: {topic}: {error}; is it the right topic, of the arm '{arm.name}'?") from error
        except NotFiniteError as error:
            at = f"{stamp / SECOND:.6f} s"
            raise LogError(f"{path}: {topic}: {error} at {at}; cut the bag before that or record it again") from error
    paired = sorted(q.keys() & sent.keys())
    if not paired:
        raise LogError(
            f"{path}: no message of {torques} has the stamp of one of {states}; "
            "a torque command must bear the stamp of the state it answers"
        )
    return BagLog(
        t=(np.array(paired, dtype=np.int64) - paired[0]) / float(SECOND),
        q=np.array([q[stamp] for stamp in paired]),
        qd=np.array([qd[stamp] for stamp in paired]),
        torque=np.array([sent[stamp] for stamp in paired]),
        dropped=count - 2 * len(paired),
    )


@cache
def _types() -> Typestore:
    return get_typestore(Stores.ROS2_JAZZY)


def _header(stamp: int) -> Any:
    kinds: Any = _types().types
    return kinds["std_msgs/msg/Header"](kinds["builtin_interfaces/msg/Time"](*divmod(stamp, SECOND)), "")


def _write(writer: Writer, log: RunLog) -> None:
    store = _types()
    make: Any = store.types[JOINT_STATE]
    names = list(log.joints)
    nothing = np.empty(0)
    for key in ("arm", "plant", "reference", "controller", "seed"):
        writer.set_custom_data(key, str(getattr(log, key)))
    writer.set_custom_data("faults", json.dumps([asdict(fault) | {"level": fault.level.label} for fault in log.faults]))
    reference = writer.add_connection(REFERENCE, JOINT_TRAJECTORY, typestore=store)
    states = writer.add_connection(STATES, JOINT_STATE, typestore=store)
    torques = writer.add_connection(TORQUES, JOINT_STATE, typestore=store)
    residuals = None if log.residual is None else writer.add_connection(RESIDUALS, JOINT_STATE, typestore=store)
    writer.write(reference, START, store.serialize_cdr(_trajectory(log.trajectory, names), JOINT_TRAJECTORY))
    for i, instant in enumerate(log.t):
        stamp = START + round(instant * SECOND)
        header = _header(stamp)
        state = make(header, names, log.q[i], log.qd[i], nothing)
        writer.write(states, stamp, store.serialize_cdr(state, JOINT_STATE))
        if np.isfinite(log.torque[i]).all():
            command = make(header, names, nothing, nothing, log.torque[i])
            writer.write(torques, stamp, store.serialize_cdr(command, JOINT_STATE))
            if residuals is not None and log.residual is not None:
                learned = make(header, names, nothing, nothing, log.residual[i])
                writer.write(residuals, stamp, store.serialize_cdr(learned, JOINT_STATE))


def _trajectory(trajectory: Trajectory, names: list[str]) -> Any:
    """The whole trajectory as one message, starting at the stamp of the run's first row."""
    kinds: Any = _types().types
    point, duration = kinds["trajectory_msgs/msg/JointTrajectoryPoint"], kinds["builtin_interfaces/msg/Duration"]
    rows = zip(trajectory.t, trajectory.q, trajectory.qd, trajectory.qdd, strict=True)
    points = [point(q, qd, qdd, np.empty(0), duration(*divmod(round(t * SECOND), SECOND))) for t, q, qd, qdd in rows]
    return kinds[JOINT_TRAJECTORY](_header(START), names, points)


def _to_disk(file: Path) -> None:
    """Makes sure that the content is there before the name is."""
    with file.open("rb") as stream:
        os.fsync(stream.fileno())


def _messages(path: Path, topics: set[str]) -> Iterator[tuple[str, Any]]:
    """All messages of some topics, by topic; refuses a bag that lacks one of them or holds fewer than it promises."""
    with _opened(path) as reader:
        connections = [connection for topic in sorted(topics) for connection in _connections(path, reader, topic)]
        count = 0
        for connection, _, data in reader.messages(connections):
            count += 1
            yield connection.topic, _types().deserialize_cdr(data, connection.msgtype)
        promised = sum(connection.msgcount for connection in connections)
        if count < promised:
            raise LogError(f"{path}: holds {count} of {promised} messages, so it was cut off; {_repair(path)}")


def _connections(path: Path, reader: Reader, topic: str) -> list[Connection]:
    found = [connection for connection in reader.connections if connection.topic == topic]
    if not found:
        known = ", ".join(sorted({connection.topic for connection in reader.connections})) or "none"
        raise LogError(f"{path}: has no topic {topic} (it has: {known}); record it, or name the topic that stands for it")
    for connection in found:
        if connection.msgtype != JOINT_STATE:
            raise LogError(f"{path}: {topic} is {connection.msgtype}, it must be {JOINT_STATE}; name another topic")
    if sum(connection.msgcount for connection in found) == 0:
        raise LogError(f"{path}: {topic} has no messages; record again while the arm is running")
    return found


@contextmanager
def _opened(path: Path) -> Iterator[Reader]:
    if not path.exists():
        raise LogError(f"{path}: does not exist; give the folder of a bag")
    if path.is_dir() and not (path / "metadata.yaml").is_file():
        raise LogError(f"{path}: is no bag, or its recording was cut off: metadata.yaml is missing; {_repair(path)}")
    try:
        with Reader(path) as reader:
            yield reader
    except TrimtabError:
        raise
    except Exception as error:  # a damaged file makes the library run into whatever the bytes happen to be
        reason = str(error).rstrip(".") or type(error).__name__
        raise LogError(f"{path}: cannot be read, it is damaged or was cut off ({reason}); {_repair(path)}") from error


def _repair(path: Path) -> str:
    return f"record it again, or try `mcap recover` on its file and `ros2 bag reindex {path}`"
