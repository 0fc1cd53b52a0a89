"""A bag played to live nodes: the answers are those of the library bit for bit, and whatever is lost is told."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from bundle_maker import make_bundle
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rosbags.rosbag2 import Reader, StoragePlugin, Writer

from trimtab.arm import load_arm
from trimtab.bag import read_log, types, write_log
from trimtab.bags.topics import JOINT_STATE, JOINT_TRAJECTORY
from trimtab.cli.main import main
from trimtab.control import make_controller
from trimtab.dynamics import RigidBody
from trimtab.plant import load_gap
from trimtab.reference import Trajectory, make_reference
from trimtab.simulate import simulate
from trimtab.step import ControlStep
from trimtab_ros.messages import torque_message
from trimtab_ros.plan import replay_plan
from trimtab_ros.topics import DIAGNOSTICS, JOINT_STATES, TORQUE_COMMAND

pytestmark = pytest.mark.unhurried

ARM = load_arm("so101")
RUNS = 5  # in real time, of which one must not have been held up by the machine


@pytest.fixture(scope="module")
def bag(tmp_path_factory):
    trajectory = make_reference("reach", RigidBody(ARM), 1.6)
    log = simulate(ARM, load_gap("worn", ARM), "pd", trajectory, reference="reach")
    return write_log(tmp_path_factory.mktemp("bags") / "pd", log)


def up(graph, *arguments):
    """`trimtab up` to its end: exit code, what it printed."""
    command = [sys.executable, "-m", "trimtab.cli.main", "up", *arguments]
    done = subprocess.run(command, env=graph.environment, capture_output=True, text=True, timeout=180)
    return done.returncode, done.stdout + done.stderr


def told(bag):
    return yaml.safe_load((bag / "metadata.yaml").read_text())["rosbag2_bagfile_information"]["custom_data"]


def counts(bag):
    with Reader(bag) as reader:
        return {connection.topic: connection.msgcount for connection in reader.connections}


def recomputed(bag):
    """The torques of the same controller in this process: the state that comes first, the reference, then all states."""
    log = read_log(bag, ARM)
    with Reader(bag) as reader:
        (connection,) = [one for one in reader.connections if one.topic == "/reference"]
        message = types().deserialize_cdr(next(reader.messages([connection]))[2], JOINT_TRAJECTORY)
    times = [point.time_from_start.sec + point.time_from_start.nanosec / 1e9 for point in message.points]
    columns = ([getattr(point, name) for point in message.points] for name in ("positions", "velocities", "accelerations"))
    body = RigidBody(ARM)
    step = ControlStep(ARM, body, make_controller("pd", ARM, body))
    stamps = [1_000_000_000 + round(t * 1e9) for t in log.t]
    step.step(log.q[0], log.qd[0], (stamps[0] - round(ARM.period * 1e9)) * 1e-9)
    step.follow(Trajectory(np.array(times), *map(np.array, columns)), 1.0)
    return np.array([step.step(q, qd, s * 1e-9).torque for q, qd, s in zip(log.q, log.qd, stamps, strict=True)])


@pytest.mark.parametrize("pace", ["0", "1.0"])
def test_live_answers_are_those_of_the_library(graph, bag, pace):
    answers = graph.folder / "answers"
    code, said = up(graph, f"bag:={bag}", "arm:=so101", "controller:=pd", f"pace:={pace}", f"answers:={answers}")
    assert code == 0, said
    live, recorded = read_log(answers, ARM), read_log(bag, ARM)
    assert np.array_equal(live.q, recorded.q)
    assert np.array_equal(live.qd, recorded.qd)
    assert np.array_equal(live.torque, recomputed(bag))
    # The bag's run had the reference before it was rounded to nanoseconds.
    assert np.allclose(live.torque, recorded.torque, atol=1e-5)
    assert told(answers)["lost_torque_command"] == "0"
    assert told(answers)["states_sent"] == str(len(recorded.t))
    assert (told(answers)["plant"], told(answers)["driver"]) == ("worn", "replayer")


def judged(bag, bundle, folder):
    """Outcome of each check of `trimtab replay`, but for what a step takes on this machine."""
    file = folder / "verdict.json"
    assert main(["replay", str(bag), "--arm", "so101", "--candidate", str(bundle), "--json", str(file)]) in (0, 1, 3)
    checks = json.loads(file.read_text())["verdict"]["checks"]
    return {(one["criterion"], one["context"]): one["outcome"] for one in checks if one["criterion"] != "late"}


def test_the_verdict_on_the_answers_is_that_on_the_bag(graph, bag):
    """The controller that answers in a process of its own is the one that the verdict runs."""
    answers, bundle = graph.folder / "answers", make_bundle(graph.folder, ARM)
    code, said = up(graph, f"bag:={bag}", "arm:=so101", "controller:=pd", "pace:=0", f"answers:={answers}")
    assert code == 0, said
    live, offline = judged(answers, bundle, graph.folder), judged(bag, bundle, graph.folder)
    assert live == offline
    assert live["agreement", "all"] == "pass"


def test_the_residual_answers_every_state_too(graph, bag):
    answers, bundle = graph.folder / "answers", make_bundle(graph.folder, ARM)
    given = (f"bag:={bag}", "arm:=so101", "controller:=pd", "residual:=on", f"model:={bundle}", "pace:=0")
    code, said = up(graph, *given, f"answers:={answers}")
    assert code == 0, said
    found = counts(answers)
    assert found["/torque_command"] == found["/joint_states"] == counts(bag)["/joint_states"]
    assert found["/residual_torque"] == found["/joint_states"]  # where nobody is late


class Forgetful:
    """A controller that answers, but for some of the states."""

    def __init__(self, graph, forgets):
        self.graph, self.forgets, self.count = graph, forgets, 0
        self.commands, self.diagnostics = graph.publisher(TORQUE_COMMAND), graph.publisher(DIAGNOSTICS)
        graph.listen(JOINT_STATES, self.on_state)

    def on_state(self, message):
        self.count += 1
        if self.count < 3 or self.count % self.forgets:
            answer = torque_message(0, ARM.joints, np.zeros(ARM.dof))
            answer.header.stamp = message.header.stamp
            self.commands.publish(answer)

    def speak(self):
        values = {"references_accepted": "1", "references_refused": "0", "deadline_misses": "0", "fault": "nominal"}
        pairs = [KeyValue(key=key, value=value) for key, value in values.items()]
        status = DiagnosticStatus(level=b"\0", name="controller: loop", message="following", values=pairs)
        self.diagnostics.publish(DiagnosticArray(status=[status]))


def player(graph, bag, **given):
    """Starts the player alone; the bag's reference is left out, since only a real controller takes one."""
    arguments = {"bag": str(bag), "arm": "so101", "answers": str(graph.folder / "answers"), **given}
    (process,) = [one for one in replay_plan(arguments) if one.name == "replayer"]
    process.parameters.update(reference="/none", patience=60.0)
    return graph.start(process)


def test_answers_that_get_lost_fail_the_replay(graph, bag):
    controller = Forgetful(graph, forgets=50)
    child = player(graph, bag)
    while child.poll() is None:
        controller.speak()
        graph.executor.spin_once(timeout_sec=0.02)
        for _ in range(50):
            graph.executor.spin_once(timeout_sec=0.001)
    assert child.wait() == 1
    said = graph.output("replayer")
    states = counts(bag)["/joint_states"]
    lost = states - counts(graph.folder / "answers")["/torque_command"]
    assert lost >= states // 50 - 1
    assert f"{lost} of {states} states have no torque_command" in said
    assert "of these 0 states never reached the controller" in said
    assert told(graph.folder / "answers")["lost_torque_command"] == str(lost)


def test_it_waits_for_listeners_and_a_signal_ends_it(graph, bag):
    child = player(graph, bag)
    graph.until_status("replayer", "waiting for subscribers")
    child.send_signal(signal.SIGINT)
    assert child.wait(30) in (0, 1)
    assert not (graph.folder / "answers").exists()


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (("bag:=/nowhere",), "/nowhere: does not exist"),
        (("arm:=wam",), "joint 'base_yaw' is missing"),
        (("states:=/left/joint_states",), "has no states on /left/joint_states"),
    ],
)
def test_what_cannot_be_played_ends_everything_with_the_reason(graph, bag, given, reason):
    names = {text.partition(":=")[0] for text in given}
    rest = [text for text in (f"bag:={bag}", "arm:=so101", "controller:=pd") if text.partition(":=")[0] not in names]
    code, said = up(graph, *given, *rest, f"answers:={graph.folder / 'answers'}")
    assert code == 1
    assert reason in said
    assert not Path(graph.folder / "answers").exists()


def test_a_bag_with_answers_is_never_overwritten(graph, bag):
    (graph.folder / "answers").mkdir()
    code, said = up(graph, f"bag:={bag}", "arm:=so101", f"answers:={graph.folder / 'answers'}")
    assert code == 2
    assert "exists already" in said


def stamp_of(message):
    """Stamp of a serialised JointState [ns]."""
    stamp = types().deserialize_cdr(message, JOINT_STATE).header.stamp
    return stamp.sec * 1_000_000_000 + stamp.nanosec


def undisturbed(bag, place):
    """A copy of a bag up to where the machine first held its nodes up: a state or an offer that is not there.

    Gives the length of that [s]. What was late, or got lost, cannot be known from a bag.
    """
    with Reader(bag) as reader:
        messages = list(reader.messages())
    states = [(stamp_of(data), at) for connection, at, data in messages if connection.topic == "/joint_states"]
    offers = {stamp_of(data) for connection, _, data in messages if connection.topic == "/residual_torque"}
    first = next(i for i, (stamp, _) in enumerate(states) if stamp in offers)  # before that the recorder did not hear them
    last = first
    while last + 1 < len(states) and states[last + 1][0] in offers:
        if states[last + 1][0] - states[last][0] > 1.5e9 * ARM.period:
            break
        last += 1
    with Writer(place, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        for key, value in told(bag).items():
            writer.set_custom_data(key, value)
        copies = {}
        for connection, at, data in messages:
            if at <= states[last][1]:
                if connection.id not in copies:
                    copies[connection.id] = writer.add_connection(connection.topic, connection.msgtype, typestore=types())
                writer.write(copies[connection.id], at, data)
    return (states[last][0] - states[0][0]) * 1e-9


@pytest.mark.real_time
def test_what_nodes_did_in_real_time_is_recomputed_from_their_bag(graph):
    """Within a thousandth of the torque limits: what was known before the first recorded state is not in the bag."""
    given = {"arm": "so101", "plant": "worn", "controller": "observer", "residual": "on", "delivery": "composed"}
    given |= {"duration": "3.0", "record": "true", "state_timeout": "1.0", "command_timeout": "1.0"}
    for run in range(RUNS):
        recorded, whole = graph.folder / f"recorded-{run}", graph.folder / f"whole-{run}"
        graph.statuses.clear()
        graph.start_plan(**given, record_directory=str(recorded))
        graph.until_status("controller", "following")
        graph.until_status("controller", "holding")
        for name in [*graph.children]:
            graph.children[name].send_signal(signal.SIGINT)
            graph.children.pop(name).wait(30)
        if undisturbed(recorded, whole) > 3.0:  # the motion's beginning is in it
            break
    result = graph.folder / "replay.json"
    main(["replay", str(whole), "--candidate", "mlp", "--json", str(result)])
    (found,) = json.loads(result.read_text())["results"]
    assert found["referenced"]
    assert found["faults"] == {}
    agreement = found["agreement"]
    assert agreement["rows"] > 2.0 * ARM.rate
    assert np.sqrt(agreement["squares"] / agreement["rows"]) < 1e-3
