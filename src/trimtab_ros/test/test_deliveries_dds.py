"""One graph, two deliveries: the same torques bit for bit, the same topics in a bag, and safe when something stops."""

import fcntl
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rosbags.rosbag2 import Reader

from trimtab.arm import load_arm
from trimtab.dynamics import RigidBody
from trimtab.names import COMPOSED, DELIVERIES, PROCESSES
from trimtab.plant import load_gap
from trimtab.reference import make_reference
from trimtab.simulate import identify_friction
from trimtab_ros.messages import classical_array, to_nanoseconds, to_seconds, to_time, torque_array, trajectory_message
from trimtab_ros.topics import JOINT_STATES, REFERENCE, TORQUE_COMMAND

ARM = load_arm("so101")
ERROR = b"\x02"
DEEP = QoSProfile(depth=5000, reliability=ReliabilityPolicy.BEST_EFFORT)
LEAD, LASTS = 10.0, 4.0  # s of simulated time: from a reference's sending to its beginning, and how long it takes
RUNS = 4  # of which one must have been heard well
PAUSE = 1.0  # s
INSIDE = "TRIMTAB_TEST_OWN_NETWORK"


def value_of(status, key) -> str:
    return next(pair.value for pair in status.values if pair.key == key)


# The same in both deliveries


def newest(commands):
    """The stamp that came last [ns]; looking at all of them after each message would let the next ones pile up."""
    return next(reversed(commands))


def send_reference(graph, publisher, commands, starts):
    """Sends the reference until the controller takes it; gives its beginning [s], `starts` or one that lies ahead.

    Lockstep does not wait for a message to arrive: one that begins too soon comes too late, and the next lies further ahead.
    """
    message = trajectory_message(make_reference("plum", RigidBody(ARM), LASTS), ARM.joints, lead=1.0)
    graph.until(lambda: commands, "a command")
    accepted, lead = False, LEAD
    while not accepted:
        stamp = newest(commands) + round(lead * 1e9) if starts is None else round(starts * 1e9)
        message.header.stamp = to_time(stamp)
        refused = graph.said().count("reference refused")
        publisher.publish(message)
        told = graph.until(lambda: re.findall("reference (accepted|refused)", graph.said())[refused:], "an answer")  # noqa: B023
        accepted, lead = "accepted" in told, 2.0 * lead
        assert accepted or starts is None, "too late to compare"
    return stamp * 1e-9


def run_in_lockstep(graph, delivery, friction, starts=None):
    """The committed model at work on a reference: torque and learned part by stamp, topics, when the reference began."""
    order, commands = ARM.order(), {}

    def on_command(message):
        torque = torque_array(message, order)
        commands[to_nanoseconds(message.header.stamp)] = (torque, torque - classical_array(message, order))

    subscription = graph.node.create_subscription(TORQUE_COMMAND.type, TORQUE_COMMAND.name, on_command, DEEP)
    bag = Path(tempfile.mkdtemp(dir=graph.folder)) / "bag"
    given = {"arm": ARM.name, "plant": "worn", "mode": "lockstep", "reference": "none", "delivery": delivery}
    given |= {"controller": "friction+adaptive+observer", "friction_file": str(friction), "residual": "on"}
    given |= {"record": "true", "record_directory": str(bag)}
    publisher = graph.publisher(REFERENCE)
    graph.statuses.clear()
    # Who drives the arm comes last: the first state must find residual and controller there.
    graph.start_plan(only=("controller", "residual", "recorder"), **given)
    if delivery == PROCESSES:
        graph.until_status("controller", "waiting for the first state")
        graph.until_status("residual", "waiting for states")
    graph.until_status("recorder", "recording")
    graph.start_plan(only=("arm", "sim_bridge"), **given)
    listeners = 2 if delivery == COMPOSED else 3
    graph.until(lambda: publisher.get_subscription_count() == listeners, "controller, recorder and residual to listen")
    starts = send_reference(graph, publisher, commands, starts)
    end = (starts + 1.0 + LASTS) * 1e9
    graph.until(lambda: newest(commands) > end, "the reference's end", patience=120)
    graph.until(lambda: value_of(graph.status("recorder"), "silent") == "", "all topics in the bag")
    graph.node.destroy_subscription(subscription)
    graph.node.destroy_publisher(publisher)
    for name in [*graph.children]:
        graph.children[name].send_signal(signal.SIGINT)
        assert graph.children.pop(name).wait(30) == 0
        graph.output_file(name).unlink()
    with Reader(bag) as reader:
        topics = {(connection.topic, connection.msgtype) for connection in reader.connections if connection.msgcount}
    return commands, topics, starts


def moving_stamps(commands, starts):
    """Stamps of the commands that were heard while the arm was to move."""
    return {stamp for stamp in commands if stamp > (starts + 1.0) * 1e9}


def test_both_deliveries_give_the_same_torques_bit_for_bit_and_bags_with_the_same_topics(graph, tmp_path):
    friction = tmp_path / "friction.yaml"
    identify_friction(ARM, load_gap("worn", ARM)).save(friction, ARM.name, "a sweep on worn")
    enough = 0.5 * LASTS * ARM.rate
    for _ in range(RUNS):  # best effort: on a busy machine this test may hear too little of a loop that waits for nobody
        composed, composed_topics, starts = run_in_lockstep(graph, COMPOSED, friction)
        if len(moving_stamps(composed, starts)) > 1.5 * enough:
            break
    processes, process_topics, _ = run_in_lockstep(graph, PROCESSES, friction, starts)
    moving = moving_stamps(composed, starts) & moving_stamps(processes, starts)
    assert len(moving) > enough
    assert max(np.abs(composed[stamp][1]).max() for stamp in moving) > 1e-3, "the learned torque must be at work"
    differing = [stamp for stamp in composed if stamp in processes and (composed[stamp][0] != processes[stamp][0]).any()]
    assert not differing, f"{len(differing)} torques differ, the first at {min(differing) * 1e-9} s"
    assert composed_topics == process_topics
    assert {topic for topic, _ in composed_topics} >= {"/joint_states", "/torque_command", "/residual_torque", "/reference"}


def test_a_composed_process_tells_all_stages_and_thins_what_dds_gets(graph):
    states = graph.collect(JOINT_STATES)
    given = {"arm": "so101", "reference": "none", "residual": "on", "delivery": COMPOSED, "publish_every": "10"}
    graph.start_plan(**given, state_timeout="1.0", command_timeout="1.0")
    graph.until_status("sim_bridge", "following commands")
    graph.statuses["sim_bridge"] = []
    status = graph.until_status("sim_bridge", "following commands")
    assert value_of(status, "delivery") == COMPOSED
    for stage in ("read", "residual", "controller", "filter", "write", "publish", "cycle", "answer"):
        assert value_of(status, f"timing_{stage}_us").startswith("p50 "), stage
    graph.until(lambda: len(states) > 20, "states")
    steps = np.diff([to_nanoseconds(state.header.stamp) for state in states])
    assert steps.min() == pytest.approx(10e9 * ARM.period, rel=1e-3)


# When something stops


def start_moving(graph, delivery, **more):
    """An arm under way, and its states as they come."""
    graph.start_plan(arm="so101", duration="4.0", repeat="0", residual="on", delivery=delivery, **more)
    states = graph.collect(JOINT_STATES)
    graph.until_status("controller", "following")
    graph.until_status("residual", "offering")
    graph.until(lambda: states and np.abs(states[-1].velocity).max() > 0.1, "the arm to move")
    return states


def recover(graph):
    """What docs/nodes.md says: the controller, the bridge, then the reference."""
    graph.reset("controller")
    graph.reset("sim_bridge")
    graph.until_status("sim_bridge", "following commands")
    graph.reset("reference")
    graph.until_status("controller", "following")


@pytest.mark.parametrize(
    ("delivery", "victim", "told"),
    [
        (PROCESSES, "sim_bridge", {"controller": "stop: no state for", "sim_bridge": "no command for"}),
        (PROCESSES, "controller", {"sim_bridge": "no command for", "controller": "stop: no state for"}),
        (PROCESSES, "residual", {"controller": "residual off: residual: no residual for"}),
        (PROCESSES, "reference", {}),
        (COMPOSED, "arm", {"controller": "stop: no state for", "sim_bridge": "no command for"}),
        (COMPOSED, "reference", {}),
    ],
)
def test_a_pause_of_a_second_is_safe_and_told(graph, delivery, victim, told):
    states = start_moving(graph, delivery, state_timeout="0.6", command_timeout="0.6")
    child = graph.children[victim]
    child.send_signal(signal.SIGSTOP)
    try:
        graph.spin(PAUSE)
    finally:
        child.send_signal(signal.SIGCONT)
    for node, text in told.items():
        graph.until_status(node, text)
        assert text in graph.output("arm" if delivery == COMPOSED else node)
    count = len(states)
    graph.until(lambda: len(states) > count + 100, "states after the pause")
    fastest = max(np.abs(state.velocity).max() for state in states)
    assert fastest < 1.5 * ARM.velocity.max()
    if "sim_bridge" in told:
        graph.until(lambda: np.abs(states[-1].velocity).max() < 1e-2, "the arm to come to rest")
        recover(graph)
    elif not told:
        assert not [s.message for node in ("controller", "sim_bridge") for s in graph.statuses[node] if s.level == ERROR]


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_a_killed_reference_stops_nothing_and_a_new_one_goes_on(graph, delivery):
    start_moving(graph, delivery, state_timeout="1.0", command_timeout="1.0")
    graph.kill("reference")
    graph.until_status("controller", "holding")  # it finishes what it has
    graph.start_plan(only=("reference",), arm="so101", duration="4.0", residual="on", delivery=delivery)
    graph.statuses["controller"] = []
    graph.until_status("controller", "following")


def set_loopback(up: bool) -> None:
    """Takes this network namespace's loopback up or down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh", b"lo", 0)
        flags = struct.unpack("16sh", fcntl.ioctl(control, 0x8913, request))[1]  # SIOCGIFFLAGS
        flags = flags | 1 if up else flags & ~1  # IFF_UP
        fcntl.ioctl(control, 0x8914, struct.pack("16sh", b"lo", flags))  # SIOCSIFFLAGS


@pytest.fixture
def own_network(monkeypatch):
    """This process has a network namespace of its own; its loopback is up, and the only way from node to node."""
    # With LOCALHOST, rmw_fastrtps takes shared memory whatever FASTDDS_BUILTIN_TRANSPORTS says.
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "SUBNET")
    monkeypatch.setenv("FASTDDS_BUILTIN_TRANSPORTS", "UDPv4")
    set_loopback(up=True)
    yield
    set_loopback(up=True)


@pytest.mark.skipif(INSIDE not in os.environ, reason="run by test_dds_gone_and_back in a network of its own")
def test_inside_a_network_that_goes_down(own_network, graph):
    states = start_moving(graph, COMPOSED, state_timeout="0.6", command_timeout="0.6")
    graph.statuses.clear()
    set_loopback(up=False)
    graph.spin(0.5)  # what was on its way
    count, last = len(states), to_seconds(states[-1].header.stamp)
    graph.spin(3.0)
    assert len(states) <= count + 1, "nothing may come through"
    graph.statuses.clear()
    set_loopback(up=True)
    graph.until(lambda: len(states) > count + 200, "states once the network is back")
    graph.until_status("controller", "")
    for node in ("controller", "sim_bridge"):
        status = graph.until_status(node, "")
        assert status.level != ERROR, status.message
        assert value_of(status, "fault") == "nominal"
    stamps = [to_seconds(state.header.stamp) for state in states[count:]]
    assert stamps[0] > last + 3.0, "the loop ran on meanwhile"
    assert "stop:" not in graph.output("arm")
    assert "damp:" not in graph.output("arm")


@pytest.mark.real_time
def test_dds_gone_and_back(tmp_path):
    """The network under a composed arm goes down for seconds: the loop runs on, without a fault."""
    inside = ["unshare", "--map-root-user", "--net"]
    try:
        allowed = subprocess.run([*inside, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        allowed = False
    if not allowed:
        pytest.skip("this machine allows no network namespaces (unshare --map-root-user --net)")
    test = f"{Path(__file__)}::{test_inside_a_network_that_goes_down.__name__}"
    command = [
        *inside,
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--basetemp",
        str(tmp_path / "in"),
        test,
    ]
    run = subprocess.run(command, env={**os.environ, INSIDE: "1"}, capture_output=True, text=True, timeout=200, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "1 passed" in run.stdout


# For a while


def memory_of(pid: int) -> float:
    """Resident memory [MiB]."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def test_half_a_minute_at_500_hz_keeps_memory_flat_and_misses_no_reset(graph):
    """The short form of the soak in docs/delivery.md."""
    given = {"arm": "ur5e", "plant": "worn", "controller": "observer", "residual": "on", "delivery": COMPOSED}
    graph.start_plan(**given, reference="infinity", repeat="0", duration="4.0", state_timeout="1.0", command_timeout="1.0")
    graph.until_status("controller", "following")
    graph.spin(5.0)
    arm = graph.children["arm"]
    before = memory_of(arm.pid)
    for _ in range(6):
        graph.spin(4.0)
        assert "holding where the arm is" in graph.reset("controller")
        assert "forgotten" in graph.reset("residual")
        graph.reset("reference")
        graph.until_status("controller", "following")
    status = graph.until_status("sim_bridge", "following commands")
    assert value_of(status, "fault") == "nominal"
    assert value_of(status, "unpublished") == "0"
    assert memory_of(arm.pid) < before + 3.0
