"""`trimtab up`: starts the plan, ends it on Ctrl-C, and tells when a node fails."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trimtab.arm import load_arm
from trimtab.bag import read_log
from trimtab.cli.main import main
from trimtab.errors import ConfigError
from trimtab_ros.topics import JOINT_STATES
from trimtab_ros.up import parse_assignments

UP = [sys.executable, "-m", "trimtab.cli.main", "up"]


@pytest.fixture
def up(graph):
    """Starts `trimtab up` in the graph's domain; ended with the test."""
    started = []

    def start(*arguments: str) -> "subprocess.Popen[str]":
        output = (graph.folder / "up.out").open("w")
        process = subprocess.Popen(
            [*UP, *arguments],
            env=graph.environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        output.close()
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(30)


def children_of(pid: int) -> list[int]:
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.unhurried
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("delivery", "count"), [("composed", 2), ("processes", 3)])
def test_a_signal_ends_everything_cleanly(graph, up, delivery, count, number):
    states = graph.collect(JOINT_STATES)
    process = up("arm:=so101", "repeat:=0", f"delivery:={delivery}", "state_timeout:=1.0", "command_timeout:=1.0")
    graph.until(lambda: len(states) > 10, "states")
    children = children_of(process.pid)
    assert len(children) == count
    process.send_signal(number)
    assert process.wait(30) == 0, (graph.folder / "up.out").read_text()
    assert all(gone(child) for child in children)


@pytest.mark.unhurried
def test_ctrl_c_while_starting_ends_everything_too(graph, up):
    process = up("arm:=so101")
    graph.until(lambda: len(children_of(process.pid)) == 2, "two children")
    children = children_of(process.pid)
    process.send_signal(signal.SIGINT)
    process.wait(30)
    assert all(gone(child) for child in children)


@pytest.mark.unhurried
def test_a_node_that_dies_ends_the_others_and_is_told(graph, up):
    states = graph.collect(JOINT_STATES)
    process = up("arm:=so101", "reference:=none", "delivery:=processes")
    graph.until(lambda: states, "states")
    children = children_of(process.pid)
    os.kill(children[1], signal.SIGKILL)
    assert process.wait(30) == 128 + signal.SIGKILL
    assert all(gone(child) for child in children)
    assert "controller ended with exit code -9" in (graph.folder / "up.out").read_text()


@pytest.mark.unhurried
def test_a_node_that_cannot_start_gives_its_exit_code(graph, up):
    process = up("friction_file:=/nowhere/friction.yaml")
    assert process.wait(60) == 1
    assert "/nowhere/friction.yaml: cannot be read" in (graph.folder / "up.out").read_text()


def test_dry_run_prints_the_plan(capsys):
    assert main(["up", "--dry-run", "arm:=wam", "namespace:=left"]) == 0
    printed = capsys.readouterr().out
    assert "left arm/sim_bridge" in printed
    assert "'arm': 'wam'" in printed


@pytest.mark.parametrize(
    ("argument", "reason"),
    [("arm:=ur99", "arm:=ur99 is not known"), ("arm=wam", "not of the form name:=value"), ("speed:=2", "unknown argument")],
)
def test_bad_arguments_start_nothing(capsys, argument, reason):
    assert main(["up", argument]) == 2
    assert reason in capsys.readouterr().err


def test_a_bag_that_exists_starts_nothing(capsys, tmp_path):
    assert main(["up", "record:=true", f"record_directory:={tmp_path}"]) == 2
    assert "no bag is written over" in capsys.readouterr().err


def test_an_argument_given_twice():
    with pytest.raises(ConfigError, match="arm is given twice"):
        parse_assignments(["arm:=wam", "arm:=ur5e"])


def test_recording_leaves_a_readable_bag(graph, up):
    from rosbags.rosbag2 import Reader

    bag = graph.folder / "bag"
    process = up("arm:=so101", "mode:=lockstep", "duration:=2.0", "record:=true", f"record_directory:={bag}")

    def recorded() -> int:
        """Messages, counted from when all topics have been heard: two nodes may take seconds to find each other."""
        status = graph.status("recorder")
        values = {item.key: item.value for item in status.values} if status else {}
        if values.get("silent", "all") == "/residual_torque":
            heard.append(int(values["messages"]))
        return heard[-1] - heard[0] if heard else 0

    heard: list[int] = []
    graph.until(lambda: recorded() > 2000, "2000 recorded messages")
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    assert len(read_log(bag, load_arm("so101")).t) > 400  # messages as DDS lays them out
    with Reader(bag) as reader:
        counts = {connection.topic: connection.msgcount for connection in reader.connections}
    assert counts["/joint_states"] > 400
    assert counts["/torque_command"] > 400
    assert counts["/reference"] == 1
    assert counts["/diagnostics"] >= 1


def test_a_pause_of_the_launcher_is_no_fault(graph, up):
    """The nodes do not depend on the launcher once they run."""
    states = graph.collect(JOINT_STATES)
    process = up("arm:=so101", "reference:=none", "state_timeout:=1.0", "command_timeout:=1.0")
    graph.until_status("sim_bridge", "following commands")
    os.kill(process.pid, signal.SIGSTOP)
    try:
        before = len(states)
        deadline = time.monotonic() + 60
        graph.until(lambda: len(states) > before + 200 or time.monotonic() > deadline, "states while the launcher is paused")
        assert graph.status("sim_bridge").message.startswith("following commands")  # late ones are the machine's affair
    finally:
        os.kill(process.pid, signal.SIGCONT)


@pytest.mark.unhurried
def test_a_node_does_not_outlive_its_launcher(graph, up):
    """`trimtab up` killed outright: the nodes end by themselves."""
    states = graph.collect(JOINT_STATES)
    process = up("arm:=so101", "reference:=none")
    graph.until(lambda: states, "states")
    children = children_of(process.pid)
    assert len(children) == 1
    process.kill()
    process.wait()
    graph.until(lambda: all(gone(child) for child in children), "the nodes to end")


def test_the_death_of_the_residual_ends_nobody_else(graph, up):
    states = graph.collect(JOINT_STATES)
    arguments = ("arm:=so101", "reference:=none", "delivery:=processes", "residual:=on")
    process = up(*arguments, "state_timeout:=1.0", "command_timeout:=1.0")
    graph.until_status("residual", "offering")

    def heard() -> bool:
        values = getattr(graph.status("controller"), "values", [])
        return any(pair.key == "residual_limits" and "evidence" in pair.value for pair in values)

    graph.until(heard, "the controller to hear the residual")  # one that it has never heard is not missed
    victim = next(child for child in children_of(process.pid) if "residual" in Path(f"/proc/{child}/cmdline").read_text())
    os.kill(victim, signal.SIGKILL)
    output = graph.folder / "up.out"
    graph.until(lambda: "residual ended with exit code -9; the others go on without it" in output.read_text(), "the news")
    graph.until_status("controller", "residual off")
    count = len(states)
    graph.until(lambda: len(states) > count + 50, "more states")
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0, output.read_text()
