"""A bag that was cut off at any byte, damaged, or that lost its metadata gives what is left of it, and stays as it is."""

import json
import sqlite3
import tempfile
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from mcap.writer import CompressionType, Writer
from rosbags.rosbag2 import Reader, StoragePlugin
from rosbags.rosbag2 import Writer as RosbagsWriter
from rosbags.typesys import Stores, get_typestore

from trimtab.cli.main import main
from trimtab.errors import RecordingError
from trimtab.names import STORAGES
from trimtab.recording.metadata import known_topic, qos_profile
from trimtab.recording.repair import DAMAGE, REPAIRED, Repaired, files_of, repair
from trimtab.recording.writer import SUFFIXES, BagWriter

STORE = get_typestore(Stores.ROS2_JAZZY)
STATES = known_topic("/joint_states", "sensor_msgs/msg/JointState", [qos_profile(reliable=False, latched=False, depth=5)])
REFERENCE = known_topic("/reference", "trajectory_msgs/msg/JointTrajectory")
SAVES, ROWS = 6, 40

by_storage = pytest.mark.parametrize("storage", STORAGES)


def row(i: int) -> tuple[int, bytes]:
    return 10**9 + 1000 * i, np.random.default_rng(i).bytes(30)


def rows_of(bag: Path) -> list[tuple[int, bytes]]:
    with Reader(bag) as reader:
        return [(stamp, bytes(data)) for _, stamp, data in reader.messages()]


def custom_of(bag: Path) -> dict[str, str]:
    found = yaml.safe_load((bag / "metadata.yaml").read_text())["rosbag2_bagfile_information"]["custom_data"]
    return {str(key): str(value) for key, value in found.items()}


def content_of(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def write_bag(folder: Path, storage: str, *, closed: bool) -> list[int]:
    """A bag that was saved a few times; gives the data file's size after each save, by which all before is in it."""
    writer = BagWriter(folder, storage, {"arm": "wam"})
    states, _ = writer.add_topic(STATES), writer.add_topic(REFERENCE)
    sizes = []
    for save in range(SAVES):
        for i in range(save * ROWS, (save + 1) * ROWS):
            writer.write(states, *row(i))
        writer.save()
        sizes.append((folder / f"{folder.name}{SUFFIXES[storage]}").stat().st_size)
    if closed:
        writer.close()
    else:
        writer.abandon()
    return sizes


@pytest.fixture(scope="module", params=[True, False], ids=["closed", "cut"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """An MCAP file, and its size after each save."""
    folder = tmp_path_factory.mktemp("whole") / "bag"
    sizes = write_bag(folder, "mcap", closed=request.param)
    return folder / "bag.mcap", sizes


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("database") / "bag"
    write_bag(folder, "sqlite3", closed=True)
    return folder / "bag.db3"


def repaired(file: Path) -> Repaired | None:
    """None where not one message can be read."""
    try:
        return repair(file)
    except RecordingError as error:
        if "not one message can be read" not in str(error):
            raise
        return None


@given(share=st.floats(0.0, 1.0))
def test_a_file_cut_at_any_byte_gives_all_that_was_saved_before(whole: tuple[Path, list[int]], share: float) -> None:
    content, sizes = whole[0].read_bytes(), whole[1]
    cut = round(share * len(content))
    saved = ROWS * sum(size <= cut for size in sizes)
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "bag.mcap"
        file.write_bytes(content[:cut])
        done = repaired(file)
        if done is None:
            assert saved == 0
            assert [one.name for one in Path(name).iterdir()] == ["bag.mcap"]
            return
        assert done.counts[STATES.name] >= saved
        assert rows_of(done.folder) == [row(i) for i in range(done.counts[STATES.name])]
        assert custom_of(done.folder)["arm"] == "wam"
        assert bool(done.damage) == (cut < len(content))
        assert file.read_bytes() == content[:cut]


@given(share=st.floats(0.0, 1.0))
def test_a_database_cut_at_any_byte_gives_rows_from_its_start(database: Path, share: float) -> None:
    content = database.read_bytes()
    cut = round(share * len(content))
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "bag.db3"
        file.write_bytes(content[:cut])
        done = repaired(file)
        if done is None:
            assert cut < len(content)
            return
        found = rows_of(done.folder)
        assert found == [row(i) for i in range(len(found))]
        assert len(found) == SAVES * ROWS or done.damage


def test_half_a_page_of_a_database_is_not_taken_for_a_whole_one(database: Path, tmp_path: Path) -> None:
    """Its oldest row stands at its very end, so that a cut through that row would leave zeros in it."""
    content, page = database.read_bytes(), 4096
    for i, end in enumerate(range(2 * page, len(content), page)):
        file = tmp_path / str(i) / "bag.db3"
        file.parent.mkdir()
        file.write_bytes(content[: end - 10])
        done = repaired(file)
        found = rows_of(done.folder) if done is not None else []
        assert found == [row(i) for i in range(len(found))]


@given(share=st.floats(0.0, 1.0, exclude_max=True), flip=st.integers(1, 255))
def test_a_damaged_byte_never_gives_other_messages(whole: tuple[Path, list[int]], share: float, flip: int) -> None:
    content = bytearray(whole[0].read_bytes())
    content[int(share * len(content))] ^= flip
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "bag.mcap"
        file.write_bytes(content)
        done = repaired(file)
        assert done is None or set(rows_of(done.folder)) <= {row(i) for i in range(SAVES * ROWS)}


@by_storage
def test_lost_metadata_is_made_again(tmp_path: Path, storage: str) -> None:
    write_bag(tmp_path / "bag", storage, closed=True)
    with Reader(tmp_path / "bag") as reader:
        before = {one.topic: (one.msgtype, one.digest, one.msgcount, one.ext) for one in reader.connections}
    (tmp_path / "bag" / "metadata.yaml").unlink()
    content = content_of(tmp_path / "bag")
    done = repair(tmp_path / "bag")
    assert done.folder == tmp_path / "bag-repaired"
    assert (done.damage, done.promised) == ((), None)
    assert done.seconds == pytest.approx((SAVES * ROWS - 1) * 1e-6)
    with Reader(done.folder) as reader:
        assert {one.topic: (one.msgtype, one.digest, one.msgcount, one.ext) for one in reader.connections} == before
    assert rows_of(done.folder) == [row(i) for i in range(SAVES * ROWS)]
    assert content_of(tmp_path / "bag") == content
    told = custom_of(done.folder)
    assert told[REPAIRED]
    assert told[DAMAGE] == "none"


def test_a_half_done_transaction_is_taken_back_without_touching_the_bag(tmp_path: Path) -> None:
    write_bag(tmp_path / "bag", "sqlite3", closed=True)
    other = sqlite3.connect(tmp_path / "bag" / "bag.db3", isolation_level=None)
    other.execute("PRAGMA cache_size=1")  # so that what is not committed spills into the file
    other.execute("BEGIN")
    other.executemany("INSERT INTO messages VALUES(NULL, 1, ?, ?)", [row(1000 + i) for i in range(2000)])
    content = content_of(tmp_path / "bag")
    assert "bag.db3-journal" in content
    folder = tmp_path / "copy"
    folder.mkdir()
    for name, data in content.items():
        (folder / name).write_bytes(data)
    other.close()
    done = repair(folder)
    assert rows_of(done.folder) == [row(i) for i in range(SAVES * ROWS)]
    assert content_of(folder) == content


def test_the_parts_of_a_split_bag_become_one(tmp_path: Path) -> None:
    folder = tmp_path / "bag"
    folder.mkdir()
    for part in range(11):
        with (folder / f"bag_{part}.mcap").open("wb") as stream:
            writer = Writer(stream, compression=CompressionType.NONE, use_chunking=part % 2 == 0)
            writer.start("ros2")
            schema = writer.register_schema(STATES.type, "ros2msg", STATES.definition.encode())
            channel = writer.register_channel(STATES.name, "cdr", schema)
            writer.add_message(channel, row(part)[0], row(part)[1], row(part)[0])
            writer.finish()
    assert [file.stem for file in files_of(folder)] == [f"bag_{part}" for part in range(11)]
    done = repair(folder)
    assert rows_of(done.folder) == [row(part) for part in range(11)]
    with Reader(done.folder) as reader:
        assert reader.connections[0].digest == STATES.hash


@pytest.mark.parametrize("plugin", StoragePlugin)
def test_a_bag_of_another_writer_is_repaired(tmp_path: Path, plugin: StoragePlugin) -> None:
    with RosbagsWriter(tmp_path / "bag", version=8, storage_plugin=plugin) as writer:
        states = writer.add_connection(STATES.name, STATES.type, typestore=STORE)
        for i in range(100):
            writer.write(states, *row(i))
    (tmp_path / "bag" / "metadata.yaml").write_text("rosbag2_bagfile_information: [")
    assert rows_of(repair(tmp_path / "bag").folder) == [row(i) for i in range(100)]


@pytest.fixture
def cut(tmp_path: Path) -> Path:
    sizes = write_bag(tmp_path / "bag", "mcap", closed=True)
    with (tmp_path / "bag" / "bag.mcap").open("r+b") as stream:
        stream.truncate(sizes[2] + 10)
    return tmp_path / "bag"


def test_the_command_tells_what_was_saved(cut: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bag", "repair", str(cut), "--out", str(cut.parent / "mended")]) == 0
    printed = capsys.readouterr().out
    assert f"{3 * ROWS} /joint_states" in printed
    assert f"saved:   {3 * ROWS} messages of {SAVES * ROWS} that metadata.yaml told of" in printed
    assert "damaged: bag.mcap: it ends early: " in printed
    assert json.dumps(custom_of(cut.parent / "mended")).count("it ends early") == 1


def test_nothing_is_written_over(cut: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (cut.parent / "bag-repaired").mkdir()
    assert main(["bag", "repair", str(cut)]) == 2
    assert "never overwritten" in capsys.readouterr().err
    assert list((cut.parent / "bag-repaired").iterdir()) == []


@pytest.mark.parametrize(
    ("names", "reason"),
    [((), "holds no *.mcap or *.db3 file"), (("a.mcap", "b.db3"), "holds both"), (("a.mcap",), "not one message")],
)
def test_what_cannot_be_repaired_is_refused(
    tmp_path: Path, names: tuple[str, ...], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bag").mkdir()
    for name in names:
        (tmp_path / "bag" / name).write_bytes(b"")
    assert main(["bag", "repair", str(tmp_path / "bag")]) == 2
    assert reason in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["bag"]


def test_a_bag_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="does not exist"):
        repair(tmp_path / "bag")
