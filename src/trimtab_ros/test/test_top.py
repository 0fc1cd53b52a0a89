"""`trimtab top`: what is said on /diagnostics is shown, over real DDS."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from trimtab.cli.main import main
from trimtab_ros.top import nothing
from trimtab_ros.topics import DIAGNOSTICS

TOP = [sys.executable, "-m", "trimtab.cli.main", "top"]
OFTEN = 0.1  # s between two messages of the test's nodes


@pytest.fixture
def top(graph):
    """Starts `trimtab top` in the graph's domain; ended with the test."""
    started = []

    def start(*arguments: str) -> "subprocess.Popen[str]":
        with (graph.folder / "top.out").open("w") as output, (graph.folder / "top.err").open("w") as errors:
            process = subprocess.Popen(
                [*TOP, *arguments], env=graph.environment, stdout=output, stderr=errors, text=True, start_new_session=True
            )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait(30)


def shown(folder: Path) -> str:
    return (folder / "top.out").read_text()


def rows_of(text: str) -> dict[str, list[str]]:
    """Words of the rows below the first table's header, by stage."""
    return {words[0]: words[1:] for line in text.partition("---\n")[2].splitlines() if (words := line.split())}


def status(
    name: str, arm: str, level: bytes = DiagnosticStatus.OK, message: str = "well", **values: str
) -> DiagnosticStatus:
    pairs = [KeyValue(key=key, value=value) for key, value in values.items()]
    return DiagnosticStatus(name=name, hardware_id=arm, level=level, message=message, values=pairs)


STATUSES = [
    status(
        "left/sim_bridge: loop",
        "ur5e",
        rate_hz="499.871",
        expected_rate_hz="500.000",
        deadline_misses="4",
        fault="nominal",
        timing_read_us="p50 8.0 p95 9.0 p99 10.0 max 11.5",
        timing_controller_us="",
        timing_write_us="p50 one p95 two p99 three max four",
        timing_cycle_us="p50 500.0 p95 600.0 p99 1000.0 max 3000.0",
    ),
    status(
        "left/controller: loop",
        "ur5e",
        DiagnosticStatus.WARN,
        "residual off: it failed",
        expected_rate_hz="500.000",
        fault="residual off: it failed",
        timing_controller_us="p50 100.0 p95 150.0 p99 200.0 max 250.5",
    ),
    status("right/sim_bridge: loop", "wam", expected_rate_hz="500.000", timing_read_us="p50 1.0 p95 2.0 p99 3.0 max 4.0"),
    status("battery", "somebody else's"),
]


@pytest.fixture
def speaking(graph):
    """Nodes that say the same over and over."""
    publisher = graph.publisher(DIAGNOSTICS)
    graph.node.create_timer(OFTEN, lambda: publisher.publish(DiagnosticArray(status=STATUSES)))


@pytest.mark.unhurried
@pytest.mark.usefixtures("speaking")
def test_one_picture_of_every_robot(graph, top):
    process = top("--once", "--patience", "60")
    graph.until(lambda: process.poll() is not None, "the picture")
    assert process.returncode == 0, (graph.folder / "top.err").read_text()
    text = shown(graph.folder)
    left, right = text.split("\n\nwam at /right")
    assert left.startswith("ur5e at /left: 499.9 of 500 Hz\ndeadline misses: 0 in the last second, 4 in all\n")
    assert "\nwarning: controller: residual off: it failed\n" in left
    rows = rows_of(left)
    assert rows["read"] == ["8.0", "9.0", "10.0", "11.5", "....................", "0.5", "%"]
    assert rows["controller"][:4] == ["100.0", "150.0", "200.0", "250.5"]
    assert rows["write"] == rows["residual"] == ["-", "-", "-", "-"]
    assert rows["cycle"][4:] == ["##########..........", "50.0", "%"]
    assert " 4.0 " in right
    assert "battery" not in text
    assert "\x1b" not in text


@pytest.mark.unhurried
@pytest.mark.usefixtures("speaking")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_picture_a_second_of_one_robot_until_it_is_told_to_end(graph, top, number):
    process = top("--namespace", "right")
    graph.until(lambda: shown(graph.folder).count("wam at /right") >= 2, "two pictures")
    process.send_signal(number)
    graph.until(lambda: process.poll() is not None, "the end")
    assert process.returncode == 0, (graph.folder / "top.err").read_text()
    assert "ur5e" not in shown(graph.folder)


@pytest.mark.unhurried
def test_silence_is_told_with_what_to_look_at(graph, top):
    process = top("--once", "--patience", "0.5")
    graph.until(lambda: process.poll() is not None, "the end")
    assert process.returncode == 1
    assert shown(graph.folder) == ""
    said = (graph.folder / "top.err").read_text()
    assert "nothing on /diagnostics" in said
    assert "`trimtab up`" in said
    assert f"ROS_DOMAIN_ID (here {graph.environment['ROS_DOMAIN_ID']})" in said


def test_the_namespace_that_is_silent_is_named():
    assert nothing("/left").startswith("nothing on /diagnostics of namespace /left ")


def test_real_nodes_tell_their_stages(graph, top):
    graph.start_plan(arm="so101", reference="none", mode="lockstep", delivery="composed")
    graph.until_status("controller", "holding")
    graph.until_status("sim_bridge", "following commands")
    process = top("--once", "--patience", "60")
    graph.until(lambda: process.poll() is not None, "the picture")
    assert process.returncode == 0, (graph.folder / "top.err").read_text()
    text = shown(graph.folder)
    assert text.startswith("so101 at /: ")
    rows = rows_of(text)
    assert float(rows["read"][0]) > 0.0
    assert float(rows["controller"][0]) > 0.0


@pytest.mark.parametrize("arguments", [["--seconds", "0"], ["--once", "--patience", "nan"]])
def test_a_time_that_is_none_is_refused(arguments, capsys):
    assert main(["top", *arguments]) == 2
    assert "give a number of seconds above zero" in capsys.readouterr().err
