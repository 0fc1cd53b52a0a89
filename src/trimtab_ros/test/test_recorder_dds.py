"""The recorder over real DDS: killed, without a disk or too slow, it leaves what it saved and tells what is missing."""

import json
import os
import resource
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from rosbags.rosbag2 import Reader

from trimtab.arm import load_arm
from trimtab.cli.main import main
from trimtab.names import STORAGES
from trimtab.recording.context import RecordingContext
from trimtab.recording.recording import ENDED
from trimtab_ros.record import line_of
from trimtab_ros.topics import JOINT_STATES

ARM = load_arm("so101")
RECORD = [sys.executable, "-m", "trimtab.cli.main", "record"]
RUNNING = {"arm": "so101", "mode": "lockstep", "duration": "2.0", "repeat": "0"}


def value_of(status, key: str) -> str:
    return next((pair.value for pair in status.values if pair.key == key), "") if status is not None else ""


def count_of(graph, key: str) -> int:
    return int(value_of(graph.status("recorder"), key) or 0)


def custom_of(bag: Path) -> dict[str, str]:
    found = yaml.safe_load((bag / "metadata.yaml").read_text())["rosbag2_bagfile_information"]["custom_data"]
    assert all(isinstance(value, str) for value in found.values())
    return found


def stamps_of(bag: Path, topic: str = "/joint_states") -> list[int]:
    """Stamps of a topic's messages [ns]."""
    with Reader(bag) as reader:
        connections = [one for one in reader.connections if one.topic == topic]
        pairs = [struct.unpack_from("<iI", data, 4) for _, _, data in reader.messages(connections)]
    return [seconds * 10**9 + nanoseconds for seconds, nanoseconds in pairs]


def messages_of(bag: Path) -> int:
    with Reader(bag) as reader:
        return sum(1 for _ in reader.messages())


@pytest.mark.parametrize("storage", STORAGES)
def test_a_killed_recorder_leaves_a_whole_bag(graph, storage):
    bag = graph.folder / "bag"
    labels = "payload=1kg,x_operator=somebody"
    given = {**RUNNING, "plant": "worn", "record": "true", "record_directory": str(bag), "delivery": "composed"}
    graph.start_plan(**given, record_storage=storage, labels=labels)
    graph.until(lambda: count_of(graph, "saved") > 1000, "1000 messages on the disk")
    saved = count_of(graph, "saved")
    graph.kill("recorder")
    assert messages_of(bag) >= saved
    stamps = stamps_of(bag)
    assert stamps == sorted(stamps)
    told = custom_of(bag)
    assert ENDED not in told
    context = RecordingContext.from_custom_data(told)
    assert context.contract == ARM.file.read_text()
    assert (context.arm, context.plant, context.driver, context.controller) == ("so101", "worn", "sim", "computed_torque")
    assert (context.delivery, context.reference, context.residual, context.seed) == ("composed", "plum", "off", "0")
    assert context.labels == {"payload": "1kg", "x_operator": "somebody"}
    # The robot does not need it.
    states = graph.collect(JOINT_STATES)
    graph.until(lambda: len(states) > 100, "more states")


def test_what_came_too_fast_is_counted(graph):
    """The recorder stands still for a while: what the network could not keep for it is missing, and every bit of it told."""
    bag = graph.folder / "bag"
    graph.start_plan(**RUNNING, record="true", record_directory=str(bag), delivery="composed")
    graph.until(lambda: count_of(graph, "saved") > 500, "the recording")
    states, recorder = graph.collect(JOINT_STATES), graph.children["recorder"]
    recorder.send_signal(signal.SIGSTOP)
    try:
        graph.until(lambda: len(states) > 2000, "more than the network keeps")
    finally:
        recorder.send_signal(signal.SIGCONT)
    graph.until(lambda: count_of(graph, "lost_on_network") > 0, "the loss to be told")
    graph.until(lambda: "messages lost on the network" in graph.output("recorder"), "the loss in the log")
    assert "messages lost on the network" in graph.status("recorder").message
    recorder.send_signal(signal.SIGINT)
    assert recorder.wait(60) == 0
    graph.children.pop("recorder")
    told = custom_of(bag)
    assert told[ENDED]
    lost = json.loads(told["lost_on_network"])
    assert lost["/joint_states"] > 0
    stamps = sorted(set(stamps_of(bag)))
    period = round(ARM.period * 1e9)
    assert int(told["missing_states"]) == (stamps[-1] - stamps[0]) // period + 1 - len(stamps)
    # A state may be sent twice in lockstep; a lost copy is no missing state.
    assert lost["/joint_states"] >= int(told["missing_states"]) > 0


def test_a_full_disk_ends_the_recorder_and_nobody_else(graph):
    bag = graph.folder / "bag"
    graph.start_plan(**RUNNING, record="true", record_directory=str(bag), delivery="composed")
    graph.until(lambda: count_of(graph, "saved") > 500, "the recording")
    recorder = graph.children.pop("recorder")
    saved = count_of(graph, "saved")
    limit = (bag / "bag.mcap").stat().st_size + 10_000
    resource.prlimit(recorder.pid, resource.RLIMIT_FSIZE, (limit, limit))
    graph.until(lambda: recorder.poll() is not None, "the recorder's end")
    assert recorder.returncode == 1
    said = graph.output("recorder")
    assert "recording ended: " in said
    assert "cannot be written" in said
    assert "saved and readable" in said
    assert "Traceback" not in said
    assert messages_of(bag) >= saved
    states = graph.collect(JOINT_STATES)
    graph.until(lambda: len(states) > 100, "more states")


@pytest.mark.unhurried
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"arm": "nobody"}, "unknown arm"),
        ({"labels": "paylod=1"}, "unknown label 'paylod'"),
        ({"model": "mlp", "arm": ""}, "needs the parameter arm"),
        ({"friction_file": "/nowhere.yaml", "controller": "friction"}, "/nowhere.yaml: cannot be read"),
        ({"directory": "/proc/bag"}, "cannot be written"),
    ],
)
def test_what_cannot_be_recorded_is_told_at_the_start(graph, arguments, problem):
    from trimtab_ros.plan import Process

    child = graph.start(Process("recorder", "", {"directory": str(graph.folder / "bag"), **arguments}))
    assert child.wait(60) == 1
    said = graph.output("recorder")
    graph.children.clear()
    assert problem in said
    assert "Traceback" not in said
    assert not (graph.folder / "bag").exists()


# `trimtab record`


@pytest.fixture
def record(graph):
    """Starts `trimtab record` in the graph's domain; ended with the test."""
    started = []

    def start(*arguments: str) -> "subprocess.Popen[str]":
        with (graph.folder / "record.out").open("w") as output, (graph.folder / "record.err").open("w") as errors:
            process = subprocess.Popen(
                [*RECORD, *arguments], env=graph.environment, stdout=output, stderr=errors, text=True, start_new_session=True
            )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait(30)


def test_a_running_robot_is_recorded_until_ctrl_c(graph, record):
    graph.start_plan(**RUNNING, plant="worn", controller="observer", namespace="left", delivery="composed")
    bag = graph.folder / "bag"
    graph.until_status("left/controller", "following")
    process = record("--namespace", "left", "--out", str(bag), "--label", "tool=gripper")

    def recorded() -> bool:
        assert process.poll() is None, (graph.folder / "record.err").read_text()
        return int(value_of(graph.status("left/recorder"), "saved") or 0) > 500

    graph.until(recorded, "500 messages")
    process.send_signal(signal.SIGINT)
    graph.until(lambda: process.poll() is not None, "the end")
    errors = (graph.folder / "record.err").read_text()
    assert process.returncode == 0, errors
    assert "recording: " in errors
    printed = (graph.folder / "record.out").read_text()
    assert f"{len(stamps_of(bag, '/left/joint_states'))} /left/joint_states" in printed
    assert f"bag:  {bag}" in printed
    context = RecordingContext.from_custom_data(custom_of(bag))
    assert (context.arm, context.namespace, context.labels) == ("so101", "left", {"tool": "gripper"})
    # Nobody told these but the nodes themselves.
    assert (context.plant, context.controller, context.driver) == ("worn", "observer", "sim")
    assert (context.reference, context.residual, context.bundle, context.seed) == ("plum", "off", "", "0")
    assert custom_of(bag)[ENDED]


@pytest.mark.unhurried
def test_where_nothing_comes_it_is_told(graph, record):
    process = record("--arm", "so101", "--out", str(graph.folder / "bag"), "--seconds", "0.5")
    graph.until(lambda: process.poll() is not None, "the end")
    assert process.returncode == 1
    assert "nothing came. Is a robot without a namespace running" in (graph.folder / "record.err").read_text()


@pytest.mark.unhurried
def test_an_arm_that_nobody_tells_is_asked_for(graph, record):
    process = record("--out", str(graph.folder / "bag"))
    graph.until(lambda: process.poll() is not None, "the end")
    assert process.returncode == 2
    assert "no controller answers, so the arm is not known; give --arm" in (graph.folder / "record.err").read_text()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--arm", "nobody"], "unknown arm 'nobody'"),
        (["--arm", "so101", "--label", "paylod=1kg"], "unknown label 'paylod'"),
        (["--arm", "so101", "--label", "site=here,there"], "must not have a comma"),
        (["--arm", "so101", "--seconds", "nan"], "give a number of seconds above zero"),
        (["--arm", "so101", "--publish-every", "0"], "is not within 1 to 1000"),
        (["--arm", "so101", "--out", os.sep], "never overwritten"),
    ],
)
def test_what_is_none_is_refused(arguments, problem, capsys):
    assert main(["record", *arguments]) == 2
    assert problem in capsys.readouterr().err


def test_the_progress_line_tells_messages_time_and_losses():
    assert line_of(12, 3.2, "") == "recording: 12 messages in 3 s, lost: nothing"
    assert line_of(12, 3.2, "7 messages dropped") == "recording: 12 messages in 3 s, lost: 7 messages dropped"
