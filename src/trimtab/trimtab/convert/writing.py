"""Writes a foreign run as a bag, with all its gaps and repeats, and with its oddities in the metadata."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from trimtab.bag import SECOND, START, types, whole_bag
from trimtab.bags.topics import JOINT_STATE, JOINT_TRAJECTORY, REFERENCE, STATES, TORQUES
from trimtab.convert.recording import ForeignRun
from trimtab.recording.context import RecordingContext
from trimtab.recording.metadata import known_topic
from trimtab.typing import FloatArray

STEPS = 1000  # rows between two looks of the progress bar
_CHUNK = 1 << 20


def write_run(
    folder: Path,
    run: ForeignRun,
    context: RecordingContext,
    origin: Mapping[str, str],
    progress: Callable[[int], object] | None = None,
) -> Path:
    """Writes one run as one bag: the folder with all of it, or no folder. Gives the folder.

    origin: where the run comes from, for the metadata. progress: told how many rows were written since the last time.
    """
    store = types()
    make: Any = store.types[JOINT_STATE]
    names, nothing = list(run.joints), np.empty(0)
    stamps = START + np.round(run.t * SECOND).astype(np.int64)
    with whole_bag(folder, context.to_custom_data() | dict(origin) | _told(run)) as writer:
        states = writer.add_topic(known_topic(STATES, JOINT_STATE))
        if run.q_des is not None:
            reference = writer.add_topic(known_topic(REFERENCE, JOINT_TRAJECTORY))
            message = _trajectory(store, names, run.t, run.q_des, run.qd_des)
            writer.write(reference, START, bytes(store.serialize_cdr(message, JOINT_TRAJECTORY)))
        torques = None if run.sent is None else writer.add_topic(known_topic(TORQUES, JOINT_STATE))
        for i, stamp in enumerate(stamps.tolist()):
            header = _header(store, stamp)
            velocity = nothing if run.qd is None else run.qd[i]
            effort = nothing if run.effort is None else run.effort[i]
            state = make(header, names, run.q[i], velocity, effort)
            writer.write(states, stamp, bytes(store.serialize_cdr(state, JOINT_STATE)))
            if torques is not None and run.sent is not None and i < len(run.sent):
                command = make(header, names, nothing, nothing, run.sent[i])
                writer.write(torques, stamp, bytes(store.serialize_cdr(command, JOINT_STATE)))
            if progress is not None and i % STEPS == STEPS - 1:
                progress(STEPS)
    return folder


def sha256_of(file: Path) -> str:
    """Hash of a file, read piece by piece."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while piece := stream.read(_CHUNK):
            digest.update(piece)
    return digest.hexdigest()


def _told(run: ForeignRun) -> dict[str, str]:
    """What the bag says of the run itself."""
    torque = "none" if run.sent is None else "recorded" if run.reconstructed is None else "reconstructed"
    told = {"run": run.name, "rate": f"{run.rate:.6g}", "torque_command": torque, **run.oddities.to_custom_data()}
    if run.reconstructed is not None:
        told["torque_command_pd"] = json.dumps(asdict(run.reconstructed))
    if run.effort is not None:
        told["effort_unit"] = run.effort_unit
    return told


def _header(store: Any, stamp: int) -> Any:
    return store.types["std_msgs/msg/Header"](store.types["builtin_interfaces/msg/Time"](*divmod(stamp, SECOND)), "")


def _trajectory(store: Any, names: list[str], t: FloatArray, q: FloatArray, qd: FloatArray | None) -> Any:
    """What was wanted, as one message that starts with the first row; accelerations are left open, nobody recorded them."""
    point, duration = (
        store.types[f"{package}/msg/{name}"]
        for package, name in (("trajectory_msgs", "JointTrajectoryPoint"), ("builtin_interfaces", "Duration"))
    )
    nothing = np.empty(0)
    rows = zip(np.round(t[: len(q)] * SECOND).astype(np.int64).tolist(), q, strict=True)
    points = [
        point(row, nothing if qd is None else qd[i], nothing, nothing, duration(*divmod(instant, SECOND)))
        for i, (instant, row) in enumerate(rows)
    ]
    return store.types[JOINT_TRAJECTORY](_header(store, START), names, points)
