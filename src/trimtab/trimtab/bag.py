"""Runs as rosbag2 bags (MCAP): what `ros2 bag` plays and Foxglove opens, and what a log of a robot looks like.

Topics carry the names that the nodes use without a namespace. A torque command bears the stamp of the state it answers.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.typesys import Stores, get_typestore
from rosbags.typesys.store import Typestore

from trimtab.arm import Arm
from trimtab.bags.files import advice
from trimtab.bags.findings import Findings
from trimtab.bags.reading import LogReader
from trimtab.bags.topics import JOINT_STATE, JOINT_TRAJECTORY, REFERENCE, RESIDUALS, STATES, TORQUES, Topics
from trimtab.errors import LogError
from trimtab.recording.context import RecordingContext
from trimtab.recording.metadata import known_topic
from trimtab.recording.writer import BagWriter
from trimtab.reference import Trajectory
from trimtab.runlog import RunLog
from trimtab.typing import FloatArray

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


def write_log(folder: Path, log: RunLog, context: RecordingContext | None = None) -> Path:
    """Writes a run as one bag: the folder with all of it, or no folder. Gives the folder.

    context: what else the bag tells of itself, in the words of a recorded one. Rows for which nothing was sent
    (torque NaN) have a state and no torque command.
    """
    with whole_bag(folder, _custom(log, context)) as writer:
        _write(writer, log)
    return folder


@contextmanager
def whole_bag(folder: Path, custom: Mapping[str, str] | None = None) -> Iterator[BagWriter]:
    """A writer of a bag that is there with all of it when the block ends, and not at all when it fails.

    custom: what the bag tells of itself.
    """
    if folder.exists():
        raise LogError(f"{folder}: exists already and a bag is never overwritten; remove it or choose another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    # The writer names its file after its folder: the bag grows under its own name inside a hidden one, then moves out.
    hidden = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    growing = hidden / folder.name
    try:
        writer = BagWriter(growing, custom=custom)
        try:
            yield writer
            writer.close()
        except BaseException:
            writer.abandon()
            raise
        growing.rename(folder)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


def read_log(path: Path, arm: Arm, *, states: str = STATES, torques: str = TORQUES) -> BagLog:
    """Reads states and torque commands of an arm from a bag (a folder, or a bare .mcap or .db3 file), whole or not at all.

    Joints are matched by name. A torque belongs to the state of the same stamp; what has no partner is left out and counted.
    Where the states' own effort is the torque, it is taken as Nm. Parts of a damaged bag: `LogReader`.
    """
    reader = LogReader(path, arm, Topics(states, torques))
    found = reader.findings
    reader.require(torques)
    _require_whole(path, found)
    blocks: list[tuple[np.ndarray, FloatArray, FloatArray, FloatArray]] = []
    for rows in reader.blocks():
        answered = np.isfinite(rows.torque).all(axis=1)
        blocks.append((rows.stamp[answered], rows.q[answered], rows.qd[answered], rows.torque[answered]))
        if rows.segment > 0:
            before, after = found.jumps_back[0]
            raise LogError(
                f"{path}: the clock jumped back from {before / SECOND:.6f} s to {after / SECOND:.6f} s; cut the bag there"
            )
    if found.not_finite:
        raise LogError(f"{path}: {found.not_finite_first}; cut the bag before that or record it again")
    if found.foreign and not sum(len(block[0]) for block in blocks):
        raise LogError(f"{path}: {found.foreign_first}; is it the right topic, of the arm '{arm.name}'?")
    _require_whole(path, found)
    if not sum(len(block[0]) for block in blocks):
        raise LogError(
            f"{path}: no message of {torques} has the stamp of one of {states}; "
            "a torque command must bear the stamp of the state it answers"
        )
    stamp, q, qd, torque = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    count = found.messages[states] + found.messages[torques]
    return BagLog(t=(stamp - stamp[0]) / float(SECOND), q=q, qd=qd, torque=torque, dropped=count - 2 * len(stamp))


def _require_whole(path: Path, found: Findings) -> None:
    if found.partial:
        raise LogError(f"{path}: {found.partial[0]}; {advice(path)}")


@cache
def types() -> Typestore:
    """Every message type of the distribution."""
    return get_typestore(Stores.ROS2_JAZZY)


def _header(stamp: int) -> Any:
    kinds: Any = types().types
    return kinds["std_msgs/msg/Header"](kinds["builtin_interfaces/msg/Time"](*divmod(stamp, SECOND)), "")


def _custom(log: RunLog, context: RecordingContext | None) -> dict[str, str]:
    told = {key: str(getattr(log, key)) for key in ("arm", "plant", "reference", "controller", "seed")}
    told["faults"] = json.dumps([asdict(fault) | {"level": fault.level.label} for fault in log.faults])
    return told | (context.to_custom_data() if context is not None else {})


def _write(writer: BagWriter, log: RunLog) -> None:
    store = types()
    make: Any = store.types[JOINT_STATE]
    names = list(log.joints)
    nothing = np.empty(0)
    reference = writer.add_topic(known_topic(REFERENCE, JOINT_TRAJECTORY))
    states, torques = (writer.add_topic(known_topic(topic, JOINT_STATE)) for topic in (STATES, TORQUES))
    residuals = None if log.residual is None else writer.add_topic(known_topic(RESIDUALS, JOINT_STATE))
    writer.write(reference, START, bytes(store.serialize_cdr(_trajectory(log.trajectory, names), JOINT_TRAJECTORY)))
    for i, instant in enumerate(log.t):
        stamp = START + round(instant * SECOND)
        header = _header(stamp)
        state = make(header, names, log.q[i], log.qd[i], nothing)
        writer.write(states, stamp, bytes(store.serialize_cdr(state, JOINT_STATE)))
        if np.isfinite(log.torque[i]).all():
            command = make(header, names, nothing, nothing, log.torque[i])
            writer.write(torques, stamp, bytes(store.serialize_cdr(command, JOINT_STATE)))
            if residuals is not None and log.residual is not None:
                learned = make(header, names, nothing, nothing, log.residual[i])
                writer.write(residuals, stamp, bytes(store.serialize_cdr(learned, JOINT_STATE)))


def _trajectory(trajectory: Trajectory, names: list[str]) -> Any:
    """The whole trajectory as one message, starting at the stamp of the run's first row."""
    kinds: Any = types().types
    point, duration = kinds["trajectory_msgs/msg/JointTrajectoryPoint"], kinds["builtin_interfaces/msg/Duration"]
    rows = zip(trajectory.t, trajectory.q, trajectory.qd, trajectory.qdd, strict=True)
    points = [point(q, qd, qdd, np.empty(0), duration(*divmod(round(t * SECOND), SECOND))) for t, q, qd, qdd in rows]
    return kinds[JOINT_TRAJECTORY](_header(START), names, points)
