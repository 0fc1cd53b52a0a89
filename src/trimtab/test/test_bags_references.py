"""A reference counts from the state after which the controller says that it took it, not from when it was recorded."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rosbags.rosbag2 import StoragePlugin, Writer

from trimtab.arm import Arm
from trimtab.bag import types
from trimtab.bags.reading import LogReader
from trimtab.bags.topics import DIAGNOSTIC_ARRAY, DIAGNOSTICS, JOINT_STATE, JOINT_TRAJECTORY, REFERENCE, STATES

SECOND, PERIOD, START = 10**9, 2_000_000, 5 * 10**9
STATE_COUNT = 2000
Message = tuple[str, str, int, Any]


def kind(name: str) -> Any:
    kinds: Any = types().types
    return kinds[name]


def header(stamp: int) -> Any:
    return kind("std_msgs/msg/Header")(kind("builtin_interfaces/msg/Time")(*divmod(stamp, SECOND)), "")


def states(arm: Arm) -> Iterable[Message]:
    still, nothing = np.zeros(arm.dof), np.empty(0)
    for i in range(STATE_COUNT):
        stamp = START + i * PERIOD
        yield STATES, JOINT_STATE, stamp + 1000, kind(JOINT_STATE)(header(stamp), list(arm.joints), still, still, nothing)


def reference(arm: Arm, time: int) -> Message:
    nothing, still = np.empty(0), np.zeros(arm.dof)
    point = kind("trajectory_msgs/msg/JointTrajectoryPoint")
    duration = kind("builtin_interfaces/msg/Duration")
    points = [point(still, still, still, nothing, duration(second, 0)) for second in (1, 2)]
    return REFERENCE, JOINT_TRAJECTORY, time, kind(JOINT_TRAJECTORY)(header(0), list(arm.joints), points)


def word(time: int, taken: int, refused: int, after: int, name: str = "controller: loop") -> Message:
    values = {"references_accepted": taken, "references_refused": refused, "reference_after_ns": after}
    pairs = [kind("diagnostic_msgs/msg/KeyValue")(key, str(value)) for key, value in values.items()]
    status = kind("diagnostic_msgs/msg/DiagnosticStatus")(0, name, "holding", "ur5e", pairs)
    return DIAGNOSTICS, DIAGNOSTIC_ARRAY, time, kind(DIAGNOSTIC_ARRAY)(header(time), [status])


def rows_of_references(folder: Path, arm: Arm, messages: Iterable[Message], delivery: str = "composed") -> list[int]:
    """The first row for which each reference counts."""
    with Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        writer.set_custom_data("delivery", delivery)
        connections: dict[str, Any] = {}
        for topic, name, time, message in sorted([*states(arm), *messages], key=lambda one: one[2]):
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, name, typestore=types())
            writer.write(connections[topic], time, types().serialize_cdr(message, name))
    found, rows = [], 0
    for block in LogReader(folder, arm).blocks():
        found += [rows + row for row, _ in block.references]
        rows += len(block)
    assert rows == STATE_COUNT
    return found


def state(number: int) -> int:
    return START + number * PERIOD


def test_it_counts_from_the_state_that_the_controller_names(tmp_path: Path, ur5e: Arm) -> None:
    messages = [word(state(50), 0, 0, -1), reference(ur5e, state(100)), word(state(700), 1, 0, state(620))]
    assert rows_of_references(tmp_path / "bag", ur5e, messages) == [621]


def test_a_refused_one_does_not_take_the_word_on_the_next(tmp_path: Path, ur5e: Arm) -> None:
    messages = [reference(ur5e, state(100)), reference(ur5e, state(200))]
    messages += [word(state(300), 0, 1, -1), word(state(310), 1, 1, state(305))]
    assert rows_of_references(tmp_path / "bag", ur5e, messages) == [100, 306]


def test_a_word_that_was_lost_leaves_the_time_of_recording(tmp_path: Path, ur5e: Arm) -> None:
    messages = [reference(ur5e, state(100)), reference(ur5e, state(200)), word(state(400), 2, 0, state(305))]
    messages += [reference(ur5e, state(500)), word(state(600), 3, 0, state(550))]
    assert rows_of_references(tmp_path / "bag", ur5e, messages) == [100, 200, 551]


@pytest.mark.parametrize(
    ("name", "delivery"), [("left/controller: loop", "composed"), ("controller: loop", "loop"), ("controller: loop", "")]
)
def test_nobody_else_is_believed(tmp_path: Path, ur5e: Arm, name: str, delivery: str) -> None:
    messages = [reference(ur5e, state(100)), word(state(700), 1, 0, state(620), name)]
    assert rows_of_references(tmp_path / "bag", ur5e, messages, delivery) == [100]
