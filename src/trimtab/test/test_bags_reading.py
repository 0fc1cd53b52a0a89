"""Reading bags as a stream: rows and answers by stamp, what is wrong is counted, and damage is never a traceback."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from trimtab.arm import Arm
from trimtab.bags.effort import effort_unit
from trimtab.bags.reading import LogReader, Rows
from trimtab.bags.topics import JOINT_STATE, STATES, TORQUES, Topics
from trimtab.errors import ConfigError, LogError, TrimtabError

STORE = get_typestore(Stores.ROS2_JAZZY)
SECOND, PERIOD = 10**9, 2_000_000
START = 5 * SECOND
Message = tuple[str, int, Any]


def message(stamp: int, names: Any, position: Any = (), velocity: Any = (), effort: Any = ()) -> Any:
    kinds: Any = STORE.types
    header = kinds["std_msgs/msg/Header"](kinds["builtin_interfaces/msg/Time"](*divmod(stamp, SECOND)), "")
    return kinds[JOINT_STATE](
        header, list(names), *(np.array(one, dtype=np.float64) for one in (position, velocity, effort))
    )


def write(folder: Path, messages: list[Message], plugin: StoragePlugin = StoragePlugin.MCAP, **compression: Any) -> Path:
    writer = Writer(folder, version=9, storage_plugin=plugin)
    if compression:
        writer.set_compression(**compression)
    with writer:
        connections = {
            topic: writer.add_connection(topic, JOINT_STATE, typestore=STORE)
            for topic in dict.fromkeys(m[0] for m in messages)
        }
        for topic, time, one in messages:
            writer.write(connections[topic], time, STORE.serialize_cdr(one, JOINT_STATE))
    return folder


def log(arm: Arm, stamps: list[int], first: int = 0, answered: bool = True) -> Iterator[Message]:
    """States at these stamps, numbered in their positions, with answers; recorded a period apart, whatever the stamps."""
    for i, stamp in enumerate(stamps):
        time = START + (first + i) * PERIOD
        yield STATES, time, message(stamp, arm.joints, np.full(arm.dof, 0.001 * i), np.arange(arm.dof))
        if answered:
            yield TORQUES, time + 1000, message(stamp, arm.joints, effort=np.full(arm.dof, 0.1 * i))


def stamps(count: int, start: int = START) -> list[int]:
    return [start + i * PERIOD for i in range(count)]


def read(path: Path, arm: Arm, **options: Any) -> tuple[list[Rows], LogReader]:
    reader = LogReader(path, arm, **options)
    return list(reader.blocks()), reader


def together(blocks: list[Rows], key: str) -> np.ndarray:
    return np.concatenate([getattr(one, key) for one in blocks])


@pytest.mark.parametrize("plugin", list(StoragePlugin))
@pytest.mark.parametrize("compression", [None, CompressionMode.MESSAGE, CompressionMode.FILE])
def test_rows_and_answers_come_from_any_storage(
    tmp_path: Path, ur5e: Arm, plugin: StoragePlugin, compression: CompressionMode | None
) -> None:
    options = {} if compression is None else {"fmt": CompressionFormat.ZSTD, "mode": compression}
    if compression and plugin is StoragePlugin.MCAP:
        options["mode"] = CompressionMode.STORAGE
    path = write(tmp_path / "bag", list(log(ur5e, stamps(3000))), plugin, **options)
    blocks, reader = read(path, ur5e)
    assert together(blocks, "stamp").tolist() == stamps(3000)
    np.testing.assert_array_equal(together(blocks, "torque")[:, 0], 0.1 * np.arange(3000))
    assert reader.findings.as_dict() == {
        "rows": 3000, "segments": 1, "period_s": 0.002, "messages": {STATES: 3000, TORQUES: 3000},
    }  # fmt: skip


def test_topics_one_after_the_other_in_the_file_are_matched_all_the_same(tmp_path: Path, ur5e: Arm) -> None:
    messages = list(log(ur5e, stamps(9000)))
    path = write(tmp_path / "bag", sorted(messages, key=lambda one: one[0]))
    blocks, reader = read(path, ur5e)
    assert sum(map(len, blocks)) == 9000
    assert reader.findings.without_command == reader.findings.commands_without_state == 0
    assert max(map(len, blocks)) < 8000


def test_what_is_wrong_with_stamps_is_told(tmp_path: Path, ur5e: Arm) -> None:
    good = stamps(200)
    odd = [*good[:50], good[49], *good[50:80], *good[90:100], good[97], *good[100:]]
    _, reader = read(write(tmp_path / "bag", list(log(ur5e, odd))), ur5e)
    found = reader.findings
    assert (found.gaps, found.repeated_stamps, found.late) == (1, 1, 1)
    assert found.longest_gap == pytest.approx(0.022)
    assert found.rows == 190
    assert found.commands_without_state == 2


def test_a_clock_that_jumps_back_begins_a_segment(tmp_path: Path, ur5e: Arm) -> None:
    first, second = stamps(300), stamps(300, START + 100 * PERIOD)
    messages = [*log(ur5e, first), *log(ur5e, second, first=300)]
    blocks, reader = read(write(tmp_path / "bag", messages), ur5e)
    assert reader.findings.segments == 2
    assert reader.findings.jumps_back == [(first[-1], second[0])]
    for segment, expected in ((0, first), (1, second)):
        part = [one for one in blocks if one.segment == segment]
        assert together(part, "stamp").tolist() == expected
        # The same stamps came twice: each state has the answer of its own time.
        np.testing.assert_array_equal(together(part, "torque")[:, 0], 0.1 * np.arange(300))


def test_states_without_answers_and_answers_without_states_are_counted(tmp_path: Path, ur5e: Arm) -> None:
    messages = list(log(ur5e, stamps(100)))
    del messages[40], messages[21]  # a state, and the answer to the tenth
    _, reader = read(write(tmp_path / "bag", messages), ur5e)
    assert reader.findings.without_command == 1
    assert reader.findings.commands_without_state == 1


def test_numbers_that_are_not_finite_cost_their_row_and_are_told(tmp_path: Path, ur5e: Arm) -> None:
    messages = list(log(ur5e, stamps(20)))
    messages[8][2].position[2] = np.nan
    blocks, reader = read(write(tmp_path / "bag", messages), ur5e)
    assert sum(map(len, blocks)) == 19
    assert reader.findings.not_finite == 1
    assert reader.findings.not_finite_first == "/joint_states: position of joint 'elbow_joint' is nan at 5.008000 s"


def test_effort_is_used_only_where_its_unit_is_declared(tmp_path: Path, ur5e: Arm) -> None:
    rows = [(STATES, START, message(START, ur5e.joints, ur5e.home, ur5e.home * 0.0, np.arange(6) * 1000.0))]
    path = write(tmp_path / "bag", rows)
    blocks, reader = read(path, ur5e)
    assert np.isnan(blocks[0].effort).all()
    assert reader.findings.undeclared_effort == 1
    constants = ",".join(f"{joint}={i + 1}" for i, joint in enumerate(ur5e.joints))
    blocks, reader = read(path, ur5e, effort=effort_unit(f"mA:{constants}", ur5e))
    np.testing.assert_allclose(blocks[0].effort[0], np.arange(6) * np.arange(1, 7))
    assert reader.findings.undeclared_effort == 0
    blocks, reader = read(path, ur5e, effort=effort_unit("none", ur5e), effort_declared=True)
    assert reader.findings.undeclared_effort == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("mNm", "unit 'mNm' is not known"),
        ("A", "needs torque constants"),
        ("A:elbow=1", "'elbow' is no joint"),
        ("A:elbow_joint=1", "has none"),
        ("A:x", "no finite number"),
        ("Nm:1", "takes no"),
    ],
)
def test_a_bad_effort_unit_is_refused(ur5e: Arm, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        effort_unit(text, ur5e)


def test_names_within_a_namespace(tmp_path: Path, ur5e: Arm) -> None:
    messages = [(f"/left{topic}", time, one) for topic, time, one in log(ur5e, stamps(5))]
    blocks, _ = read(write(tmp_path / "bag", messages), ur5e, topics=Topics().under("left"))
    assert sum(map(len, blocks)) == 5


def test_states_without_stamps_are_read_by_the_time_of_recording(tmp_path: Path, ur5e: Arm) -> None:
    blocks, reader = read(write(tmp_path / "bag", list(log(ur5e, [0] * 10, answered=False))), ur5e)
    assert together(blocks, "stamp").tolist() == stamps(10)
    assert any("bears no stamps" in note for note in reader.findings.notes)


def test_messages_of_others_are_passed_over_but_a_bag_of_others_is_refused(tmp_path: Path, ur5e: Arm) -> None:
    other = [(STATES, START + 1, message(START, ["gripper"], [1.0], [0.0]))]
    _, reader = read(write(tmp_path / "mixed", [*log(ur5e, stamps(5)), *other]), ur5e)
    assert reader.findings.foreign == 1
    with pytest.raises(LogError, match=r"joint 'shoulder_pan_joint' is missing .* of the arm 'ur5e'"):
        read(write(tmp_path / "other", other), ur5e)


def test_another_definition_of_the_type_is_refused(tmp_path: Path, ur5e: Arm) -> None:
    path = write(tmp_path / "bag", list(log(ur5e, stamps(5))))
    metadata = path / "metadata.yaml"
    document = yaml.safe_load(metadata.read_text())
    for row in document["rosbag2_bagfile_information"]["topics_with_message_count"]:
        row["topic_metadata"]["type_description_hash"] = "RIHS01_" + 64 * "0"
    metadata.write_text(yaml.safe_dump(document))
    with pytest.raises(LogError, match="another definition of sensor_msgs/msg/JointState"):
        LogReader(path, ur5e)


def test_split_files_are_one_log_and_a_lost_one_is_told(tmp_path: Path, ur5e: Arm) -> None:
    parts = [write(tmp_path / f"bag_{i}", list(log(ur5e, stamps(100, START + i * SECOND), first=i * 500))) for i in range(3)]
    whole = tmp_path / "whole"
    whole.mkdir()
    document = yaml.safe_load((parts[0] / "metadata.yaml").read_text())
    information = document["rosbag2_bagfile_information"]
    information["relative_file_paths"] = [f"bag_{i}.mcap" for i in range(3)]
    for row in information["topics_with_message_count"]:
        row["message_count"] = 300
    (whole / "metadata.yaml").write_text(yaml.safe_dump(document))
    for part in parts:
        (part / f"{part.name}.mcap").rename(whole / f"{part.name}.mcap")
    blocks, reader = read(whole, ur5e)
    assert len(together(blocks, "stamp")) == 300
    assert reader.findings.partial == []
    (whole / "bag_1.mcap").unlink()
    blocks, reader = read(whole, ur5e)
    assert len(together(blocks, "stamp")) == 200
    assert "the file bag_1.mcap is missing" in reader.findings.partial


def test_without_metadata_the_files_are_read_and_the_loss_is_told(tmp_path: Path, ur5e: Arm) -> None:
    path = write(tmp_path / "bag", list(log(ur5e, stamps(50))))
    (path / "metadata.yaml").unlink()
    blocks, reader = read(path, ur5e)
    assert len(together(blocks, "stamp")) == 50
    assert "metadata.yaml is missing" in reader.findings.partial[0]


def test_an_empty_folder_and_an_empty_bag_are_refused(tmp_path: Path, ur5e: Arm) -> None:
    (tmp_path / "nothing").mkdir()
    with pytest.raises(LogError, match=r"metadata\.yaml is missing"):
        LogReader(tmp_path / "nothing", ur5e)
    with pytest.raises(LogError, match=r"cannot be read|no topic"):
        LogReader(write(tmp_path / "empty", []), ur5e)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of two bags, by suffix."""
    from trimtab.arm import load_arm

    folder, arm = tmp_path_factory.mktemp("whole"), load_arm("so101")
    files = {}
    for plugin, suffix in ((StoragePlugin.MCAP, "mcap"), (StoragePlugin.SQLITE3, "db3")):
        path = write(folder / suffix, list(log(arm, stamps(6000))), plugin)
        files[suffix] = (path / f"{suffix}.{suffix}").read_bytes()
    return files


@pytest.mark.parametrize("suffix", ["mcap", "db3"])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_gives_a_part_or_a_clear_error(
    tmp_path: Path, whole: dict[str, bytes], so101: Arm, suffix: str, data: st.DataObject
) -> None:
    content = bytearray(whole[suffix])
    size = len(content)
    near_an_end = st.one_of(st.integers(0, size - 1), st.integers(0, 400), st.integers(size - 1500, size - 1))
    for place in data.draw(st.lists(near_an_end, max_size=4)):
        content[place] ^= data.draw(st.integers(1, 255))
    del content[data.draw(st.one_of(st.just(size), near_an_end)) :]
    file = tmp_path / f"x.{suffix}"
    file.write_bytes(content)
    before = file.read_bytes()
    try:
        blocks, reader = read(file, so101)
    except TrimtabError as error:
        assert str(file) in str(error)  # noqa: PT017
    else:
        rows = sum(map(len, blocks))
        assert rows <= 6000
        assert rows == reader.findings.rows
        found = reader.findings
        if len(content) < size:
            assert found.partial
    assert file.read_bytes() == before


def test_what_lies_before_a_cut_is_read(tmp_path: Path, whole: dict[str, bytes], so101: Arm) -> None:
    file = tmp_path / "x.mcap"
    file.write_bytes(whole["mcap"][: int(0.8 * len(whole["mcap"]))])
    blocks, reader = read(file, so101)
    rows = together(blocks, "stamp")
    assert 1000 < len(rows) < 6000
    assert rows.tolist() == stamps(len(rows))
    assert reader.findings.partial


def test_a_chunk_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path, so101: Arm) -> None:
    path = write(tmp_path / "bag", list(log(so101, stamps(500))))  # all of it in one chunk
    content = (path / "bag.mcap").read_bytes()
    file = tmp_path / "x.mcap"
    file.write_bytes(content[: len(content) // 2])
    blocks, reader = read(file, so101)
    assert 200 < len(together(blocks, "stamp")) < 500
    assert reader.findings.partial


def test_joints_in_any_order(tmp_path: Path, ur5e: Arm) -> None:
    turned = replace(ur5e, joints=ur5e.joints[::-1])
    path = write(tmp_path / "bag", list(log(ur5e, stamps(5))))
    np.testing.assert_array_equal(read(path, turned)[0][0].qd[:, ::-1], read(path, ur5e)[0][0].qd)


def test_a_real_recording_is_read_as_it_is(so101: Arm) -> None:
    """The WidowX-200 of a public data set: 100 Hz, effort in mA, gaps and repeated rows."""
    root = os.environ.get("TRIMTAB_DATA", "")
    path = Path(root) / "widowx200_bag"
    if not root or not path.is_dir():
        pytest.skip("TRIMTAB_DATA does not name a folder with recordings of real robots")
    arm = replace(so101, joints=("waist", "shoulder", "elbow", "wrist_angle", "wrist_rotate"))
    topics = Topics(states="/wx200/joint_states")
    blocks, reader = read(path, arm, topics=topics, effort=effort_unit("mA:1.8", arm))
    found = reader.findings
    assert (found.rows, found.segments, found.without_command) == (10598, 1, 10598)
    assert found.period == pytest.approx(0.01, rel=0.01)
    assert found.longest_gap == pytest.approx(0.064, abs=0.001)
    assert found.gaps > 0
    assert found.repeated_rows > 0
    assert np.isfinite(together(blocks, "effort")).all()
