"""What is recorded is a whole bag at any moment, comes back byte for byte, and what did not come in is counted."""

import json
import resource
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from mcap.reader import make_reader
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_typestore

from trimtab.bag import write_log
from trimtab.errors import RecordingError
from trimtab.names import STORAGES
from trimtab.plant import load_gap
from trimtab.recording.context import RecordingContext
from trimtab.recording.describe import describe, revision
from trimtab.recording.losses import SECOND, SequenceGaps, StampGaps
from trimtab.recording.metadata import BagTopic, known_topic, qos_profile
from trimtab.recording.recording import CLOCK_SET_BACK, ENDED, Recording
from trimtab.recording.writer import BagWriter
from trimtab.reference import make_reference
from trimtab.simulate import simulate

STORE = get_typestore(Stores.ROS2_JAZZY)
STATES = known_topic("/joint_states", "sensor_msgs/msg/JointState", [qos_profile(reliable=False, latched=False, depth=5)])
DIAGNOSTICS = known_topic("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray")
TOPICS = [STATES, DIAGNOSTICS]
Row = tuple[str, int, bytes]

by_storage = pytest.mark.parametrize("storage", STORAGES)


def rows_of(bag: Path) -> list[Row]:
    """Topic, stamp and bytes of all messages, as rosbags reads them."""
    with Reader(bag) as reader:
        return [(connection.topic, stamp, bytes(data)) for connection, stamp, data in reader.messages()]


def custom_of(bag: Path) -> dict[str, str]:
    document = yaml.safe_load((bag / "metadata.yaml").read_text(encoding="utf-8"))
    found: dict[str, str] = document["rosbag2_bagfile_information"]["custom_data"]
    return found


def make_rows(count: int, start: int = SECOND) -> list[Row]:
    random = np.random.default_rng(5)
    names = [topic.name for topic in TOPICS]
    return [(names[i % 3 == 2], start + 1000 * i, random.bytes(40 + i % 7)) for i in range(count)]


class Script:
    """Writes rows to a new bag."""

    def __init__(self, folder: Path, storage: str, custom: dict[str, str] | None = None) -> None:
        self.writer = BagWriter(folder, storage, custom)
        self.numbers = {topic.name: self.writer.add_topic(topic) for topic in TOPICS}

    def write(self, rows: list[Row]) -> None:
        for topic, stamp, data in rows:
            self.writer.write(self.numbers[topic], stamp, data)


@by_storage
def test_a_bag_comes_back_byte_for_byte(tmp_path: Path, storage: str) -> None:
    told = {"contract": "# of the arm\nrate: 5e2\n", "revision": "1234e567", "residual": "off", "x": "yes\n \n"}
    script = Script(tmp_path / "bag", storage, told)
    rows = make_rows(1000)
    script.write(rows)
    script.writer.close()
    assert rows_of(tmp_path / "bag") == rows
    assert custom_of(tmp_path / "bag") == told
    with Reader(tmp_path / "bag") as reader:
        assert reader.message_count == 1000
        assert (reader.start_time, reader.duration) == (SECOND, 999_001)
        found = {connection.topic: connection for connection in reader.connections}
    for topic in TOPICS:
        connection = found[topic.name]
        assert (connection.msgtype, connection.digest) == (topic.type, STORE.hash_rihs01(topic.type))
        assert connection.msgdef.data == topic.definition
        extension: Any = connection.ext
        assert len(extension.offered_qos_profiles) == len(topic.qos)
    extension = found[STATES.name].ext
    assert extension.offered_qos_profiles[0].reliability.name == "BEST_EFFORT"


@by_storage
def test_after_every_save_the_folder_is_a_whole_bag(tmp_path: Path, storage: str) -> None:
    script = Script(tmp_path / "bag", storage, {"arm": "wam"})
    script.writer.save()
    written: list[Row] = []
    for i in range(5):
        copy = tmp_path / f"copy{i}"
        shutil.copytree(tmp_path / "bag", copy)
        assert rows_of(copy) == written
        assert custom_of(copy) == {"arm": "wam"}
        with Reader(copy) as reader:
            assert reader.message_count == len(written)
        rows = make_rows(300, (i + 1) * SECOND)
        script.write(rows)
        script.writer.save()
        written += rows
    script.writer.abandon()


def test_a_large_bag_comes_back_in_chunks(tmp_path: Path) -> None:
    script = Script(tmp_path / "bag", "mcap")
    rows = [(STATES.name, SECOND + i, np.random.default_rng(i).bytes(100_000)) for i in range(60)]
    script.write(rows)
    script.writer.close()
    assert rows_of(tmp_path / "bag") == rows


WRITE_UNTIL_KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_recording import Script, make_rows
script = Script(Path(sys.argv[2]), sys.argv[3])
for i in range(100_000):
    script.write(make_rows(50, i * 10**6))
    script.writer.save()
    print(script.writer.saved, flush=True)
"""


@by_storage
def test_what_was_saved_survives_a_kill(tmp_path: Path, storage: str) -> None:
    command = [sys.executable, "-c", WRITE_UNTIL_KILLED, str(Path(__file__).parent), str(tmp_path / "bag"), storage]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        saved = [int(process.stdout.readline()) for _ in range(20)]
        process.send_signal(signal.SIGKILL)
        saved += [int(line) for line in process.stdout]
    rows = rows_of(tmp_path / "bag")
    assert len(rows) >= saved[-1] >= 1000
    assert rows == [row for i in range(len(rows) // 50) for row in make_rows(50, i * 10**6)]


@by_storage
def test_a_full_disk_is_told_and_what_was_saved_stays_readable(tmp_path: Path, storage: str) -> None:
    script = Script(tmp_path / "bag", storage, {"arm": "wam"})
    rows = make_rows(2000)
    script.write(rows[:500])
    script.writer.save()
    size = sum(file.stat().st_size for file in (tmp_path / "bag").iterdir())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 1000, before[1]))
    try:
        script.write(rows[500:])
        with pytest.raises(RecordingError, match=r"cannot be written .*first 500 messages are saved and readable"):
            script.writer.save()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    script.writer.abandon()
    assert rows_of(tmp_path / "bag") == rows[:500]
    assert custom_of(tmp_path / "bag") == {"arm": "wam"}


@by_storage
@pytest.mark.parametrize("gone", ["removed", "moved"])
def test_a_bag_that_vanishes_is_told(tmp_path: Path, storage: str, gone: str) -> None:
    script = Script(tmp_path / "bag", storage)
    script.writer.save()
    script.write(make_rows(10))
    if gone == "removed":
        shutil.rmtree(tmp_path / "bag")
    else:
        (tmp_path / "bag").rename(tmp_path / "elsewhere")
    with pytest.raises(RecordingError, match=r"moved or removed while it was recorded|cannot be written"):
        script.writer.save()
    script.writer.abandon()
    assert not (tmp_path / "bag").exists()


@by_storage
def test_nothing_is_written_over(tmp_path: Path, storage: str) -> None:
    Script(tmp_path / "bag", storage).writer.close()
    content = {file.name: file.read_bytes() for file in (tmp_path / "bag").iterdir()}
    with pytest.raises(RecordingError, match="never overwritten"):
        BagWriter(tmp_path / "bag", storage)
    assert {file.name: file.read_bytes() for file in (tmp_path / "bag").iterdir()} == content


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordingError, match="cannot be written"):
        BagWriter(tmp_path / "file" / "bag")


# The thread


class Slow(BagWriter):
    """A writer whose disk takes nothing until it is let go."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.free = threading.Event()

    def write(self, number: int, stamp: int, data: bytes, sequence: int = 0, sent: int | None = None) -> None:
        self.free.wait()
        super().write(number, stamp, data, sequence, sent)


def test_what_is_dropped_is_counted_and_shows_in_the_bag(tmp_path: Path) -> None:
    writer = Slow(tmp_path / "bag")
    recording = Recording(writer, TOPICS, room=10)
    taken = [recording.put(STATES.name, b"x", SECOND + i) for i in range(100)]
    assert 10 <= sum(taken) < 100
    writer.free.set()
    recording.finish()
    lost = 100 - sum(taken)
    assert recording.losses.queue == {STATES.name: lost}
    assert f"{lost} messages dropped" in recording.losses.text()
    told = custom_of(tmp_path / "bag")
    assert json.loads(told["lost_in_queue"]) == {STATES.name: lost}
    assert told["lost_on_network"] == "{}"
    assert told["missing_states"] == "0"
    assert told[ENDED]
    assert [stamp - SECOND for _, stamp, _ in rows_of(tmp_path / "bag")] == [i for i, came in enumerate(taken) if came]
    with (tmp_path / "bag" / "bag.mcap").open("rb") as stream:
        sequences = [message.sequence for _, _, message in make_reader(stream).iter_messages()]
    assert sequences == [i + 1 for i, came in enumerate(taken) if came]


@by_storage
def test_a_recording_saves_by_itself_and_ends_whole(tmp_path: Path, storage: str) -> None:
    recording = Recording(BagWriter(tmp_path / "bag", storage), TOPICS)
    assert rows_of(tmp_path / "bag") == []
    rows = make_rows(100)
    for topic, stamp, data in rows:
        assert recording.put(topic, data, stamp)
    while recording.saved < 100:
        threading.Event().wait(0.01)
    assert rows_of(tmp_path / "bag") == rows
    assert ENDED not in custom_of(tmp_path / "bag")
    recording.finish()
    assert recording.losses.text() == ""
    assert ENDED in custom_of(tmp_path / "bag")


@by_storage
def test_times_of_arrival_never_go_back(tmp_path: Path, storage: str) -> None:
    """Topics overtake each other by a little; a clock that is set goes back by much."""
    recording = Recording(BagWriter(tmp_path / "bag", storage), TOPICS)
    hour = 3600 * SECOND
    for stamp in (2 * hour, 2 * hour + 5, 2 * hour + 3, hour, hour + 10, hour + 8):
        recording.put(STATES.name, b"x", stamp)
    while recording.saved < 6:
        threading.Event().wait(0.01)
    stamps = [stamp - 2 * hour for _, stamp, _ in rows_of(tmp_path / "bag")]
    recording.finish()
    assert stamps == [0, 5, 5, 5, 15, 15]
    assert custom_of(tmp_path / "bag")[CLOCK_SET_BACK] == "3600.000"


def test_an_error_of_the_thread_reaches_who_ends_it(tmp_path: Path) -> None:
    recording = Recording(BagWriter(tmp_path / "bag"), TOPICS)
    shutil.rmtree(tmp_path / "bag")
    while recording.error is None:
        threading.Event().wait(0.01)
    assert not recording.put(STATES.name, b"x", SECOND)
    assert recording.losses.queue == {STATES.name: 1}
    with pytest.raises(RecordingError):
        recording.finish()


@given(steps=st.lists(st.tuples(st.integers(1, 50), st.floats(-0.4, 0.4)), max_size=30), big=st.booleans())
def test_gaps_in_stamps_are_counted(steps: list[tuple[int, float]], big: bool) -> None:
    gaps, period = StampGaps(0.002), 2_000_000
    at = 10 * SECOND
    found = 0
    for stride, jitter in [(1, 0.0), *steps]:
        at += stride * period
        seconds, nanoseconds = divmod(at + round(jitter * period / 2), SECOND)
        order: Any = "big" if big else "little"
        data = bytes([0, not big, 0, 0]) + seconds.to_bytes(4, order) + nanoseconds.to_bytes(4, order) + b"rest"
        found += gaps.count(data)
        assert gaps.count(data) == 0  # the same again
    assert found == sum(stride - 1 for stride, _ in steps)


@given(st.binary(max_size=20))
def test_bytes_that_are_no_message_have_no_gap(data: bytes) -> None:
    assert StampGaps(0.002).count(data) == 0


@given(
    lost=st.lists(st.sets(st.integers(0, 19), max_size=6), min_size=1, max_size=3), order=st.randoms(use_true_random=False)
)
def test_holes_in_sequence_numbers_are_counted_for_each_sender(lost: list[set[int]], order: Any) -> None:
    """Senders count from far apart, as they began at different times; what is lost at the very ends cannot be known."""
    arriving = [[1000 * i + n for n in range(20) if n not in missing] for i, missing in enumerate(lost)]
    known = sum(numbers[-1] - numbers[0] + 1 - len(numbers) for numbers in arriving)
    gaps = SequenceGaps(lambda: len(arriving))
    for numbers in arriving:  # all are heard once before anything is missing
        assert gaps.count(numbers.pop(0)) == 0
    found = 0
    while any(arriving):
        found += gaps.count(order.choice([numbers for numbers in arriving if numbers]).pop(0))
    assert found == known


def test_a_sender_that_starts_anew_lost_nothing() -> None:
    gaps = SequenceGaps(lambda: 1)
    assert [gaps.count(number) for number in (7, 8, 9, 1, 2, 5)] == [0, 0, 0, 0, 0, 2]


# What it tells of itself


def test_a_context_has_contract_bundle_and_revision(ur5e: Any) -> None:
    context = describe(ur5e, namespace="/left", model="mlp/1", labels={"tool": "gripper"})
    assert context.contract == ur5e.file.read_text(encoding="utf-8")
    assert len(context.contract_sha256) == len(context.bundle_sha256) == 64
    assert (context.arm, context.bundle, context.namespace) == ("ur5e", "mlp/1", "left")
    assert (context.revision, context.dirty) == revision()
    assert context.started.startswith("20")


def test_outside_of_a_checkout_the_revision_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    revision.cache_clear()
    monkeypatch.setenv("PATH", "/nowhere")
    assert revision() == ("unknown", "unknown")
    revision.cache_clear()


def test_a_run_describes_itself_like_a_recording(tmp_path: Path, so101: Any) -> None:
    from trimtab.dynamics import RigidBody

    log = simulate(so101, load_gap("worn", so101), "pd", make_reference("reach", RigidBody(so101), 1.5), reference="reach")
    context = describe(so101, plant="worn", controller="pd", seed="0", reference="reach")
    told = custom_of(write_log(tmp_path / "bag", log, context))
    assert RecordingContext.from_custom_data(told) == context
    assert told["faults"] == "[]"


def test_topics_are_given_once(tmp_path: Path) -> None:
    script = Script(tmp_path / "bag", "mcap")
    with pytest.raises(RecordingError, match="is recorded already"):
        script.writer.add_topic(BagTopic(STATES.name, STATES.type, "", "ros2msg", ""))
    script.writer.abandon()
