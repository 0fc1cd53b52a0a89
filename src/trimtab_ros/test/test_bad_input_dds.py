"""Bad input over DDS: each kind is named, the arm is safe, and only an explicit reset brings it back."""

import signal

import numpy as np
import pytest
from builtin_interfaces.msg import Duration
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from trimtab.arm import load_arm
from trimtab.dynamics import RigidBody
from trimtab_ros.messages import state_message, to_nanoseconds, torque_array
from trimtab_ros.topics import JOINT_STATES, REFERENCE, TORQUE_COMMAND

pytestmark = pytest.mark.unhurried

ARM = "wam"  # the stack owns its gravity, so that every torque differs from zero
ERROR = b"\x02"


class Driver:
    """The test in the role of a driver: publishes states, collects torque commands."""

    def __init__(self, graph):
        self.graph = graph
        self.arm = load_arm(ARM)
        self.order = self.arm.order()
        self.states = graph.publisher(JOINT_STATES)
        self.commands = graph.collect(TORQUE_COMMAND)
        self.stamp = 1_000_000_000

    def message(self, **changes) -> JointState:
        self.stamp += 2_000_000
        message = state_message(self.stamp, self.arm.joints, self.arm.home, np.zeros(self.arm.dof))
        for field, value in changes.items():
            setattr(message, field, value)
        return message

    def answered(self) -> np.ndarray:
        """Sends states until one is answered; gives that torque."""
        del self.commands[:]

        def ask():
            self.states.publish(self.message())
            self.graph.executor.spin_once(timeout_sec=0.01)
            return bool(self.commands)

        self.graph.until(ask, "an answer to a state")
        return torque_array(self.commands[-1], self.order)

    def unanswered(self, message: JointState, reason: str) -> None:
        """Sends one bad state: the controller stops commanding and says why."""
        self.graph.statuses.clear()
        self.states.publish(message)
        status = self.graph.until_status("controller", reason)
        assert status.level == ERROR
        self.silent()
        assert reason in self.graph.output("controller")

    def silent(self) -> None:
        """Sends good states: a latched controller answers none of them (answers to older ones may still be on their way)."""
        latched = self.stamp
        for _ in range(20):
            self.states.publish(self.message())
            self.graph.executor.spin_once(timeout_sec=0.01)
        late = [command for command in self.commands if to_nanoseconds(command.header.stamp) > latched]
        assert not late, "a latched controller must not command"


@pytest.fixture
def driver(graph):
    graph.start_plan(only=("controller",), arm=ARM, reference="none", state_timeout="30.0")
    driver = Driver(graph)
    driver.answered()
    return driver


def test_a_state_holds_the_arm_against_gravity(driver):
    gravity = RigidBody(driver.arm).gravity(driver.arm.home)
    np.testing.assert_allclose(driver.answered(), gravity, atol=1e-9)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("field", ["position", "velocity"])
def test_not_finite_state(driver, field, bad):
    values = list(driver.arm.home if field == "position" else np.zeros(driver.arm.dof))
    values[3] = bad
    driver.unanswered(driver.message(**{field: values}), f"{field} of joint 'elbow' is {bad}")
    assert "was stop" in driver.graph.reset("controller")
    assert np.isfinite(driver.answered()).all()


def test_permuted_joints_give_the_same_torque(driver):
    straight = driver.answered()
    order = np.random.default_rng(0).permutation(driver.arm.dof)
    names = [driver.arm.joints[i] for i in order]
    del driver.commands[:]

    def ask():
        driver.states.publish(driver.message(name=names, position=list(driver.arm.home[order])))
        driver.graph.executor.spin_once(timeout_sec=0.01)
        return bool(driver.commands)

    driver.graph.until(ask, "an answer to a permuted state")
    np.testing.assert_array_equal(torque_array(driver.commands[-1], driver.order), straight)


def test_missing_joint(driver):
    keep = [i for i, joint in enumerate(driver.arm.joints) if joint != "twist"]
    message = driver.message(
        name=[driver.arm.joints[i] for i in keep],
        position=[float(driver.arm.home[i]) for i in keep],
        velocity=[0.0] * len(keep),
    )
    driver.unanswered(message, "joint 'twist' is missing")


def test_wrong_length(driver):
    driver.unanswered(driver.message(velocity=[]), "velocity has 0 values for 7 joints")


def test_bytes_that_are_no_state_are_dropped_and_told(driver):
    graph, said = driver.graph, "joint_states: what came is no JointState and was dropped: it ends in the middle"
    driver.states.publish(serialize_message(driver.message())[:60])
    graph.until(lambda: said in graph.output("controller"), "a line about the damaged state")
    assert np.isfinite(driver.answered()).all()  # the next good one is answered: a time-out decides, not a stray packet


def test_time_that_goes_backwards(driver):
    driver.unanswered(
        state_message(5, driver.arm.joints, driver.arm.home, np.zeros(driver.arm.dof)), "the state's stamp went from"
    )


def trajectory(driver, q, t=2.0, names=None) -> JointTrajectory:
    point = JointTrajectoryPoint(positions=[float(v) for v in q])
    point.time_from_start = Duration(sec=int(t), nanosec=int((t % 1) * 1e9))
    return JointTrajectory(joint_names=list(names or driver.arm.joints), points=[point])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda q: q.__setitem__(3, float("nan")), "positions of point 0 of joint 'elbow' is nan"),
        (lambda q: q.__setitem__(1, 2.5), "joint 'base_pitch' is asked to go to 2.5000 rad, its upper limit is 1.9850"),
        (lambda q: q.__setitem__(0, -2.55), "rad/s, its velocity limit is 2.0000"),
    ],
)
def test_bad_reference_is_refused_whole(driver, change, reason):
    references = driver.graph.publisher(REFERENCE)
    driver.graph.until(lambda: references.get_subscription_count() == 1, "the controller to listen")
    q = np.array(driver.arm.home)
    change(q)
    references.publish(trajectory(driver, q))
    driver.graph.until(lambda: reason in driver.graph.output("controller"), reason)
    # Nothing of it is used: the arm goes on holding as before, and nothing is latched.
    gravity = RigidBody(driver.arm).gravity(driver.arm.home)
    np.testing.assert_allclose(driver.answered(), gravity, atol=1e-9)
    # A good one is taken afterwards.
    q = np.array(driver.arm.home)
    q[0] += 0.1
    references.publish(trajectory(driver, q))
    driver.graph.until(lambda: "reference accepted" in driver.graph.output("controller"), "the good reference")


def test_reference_for_other_joints(driver):
    references = driver.graph.publisher(REFERENCE)
    driver.graph.until(lambda: references.get_subscription_count() == 1, "the controller to listen")
    references.publish(trajectory(driver, np.zeros(6), names=load_arm("ur5e").joints))
    driver.graph.until(lambda: "joint 'base_yaw' is missing" in driver.graph.output("controller"), "the refusal")


@pytest.mark.real_time
def test_stale_state_stops_commanding(graph):
    graph.start_plan(only=("controller",), arm=ARM, reference="none", state_timeout="0.5")
    driver = Driver(graph)
    driver.answered()
    graph.statuses.clear()
    status = graph.until_status("controller", "no state for")  # silence is the event
    assert status.level == ERROR
    driver.silent()
    graph.reset("controller")
    driver.answered()


def start_bridge(graph, **arguments):
    graph.start_plan(only=("sim_bridge",), arm=ARM, reference="none", **arguments)
    states = graph.collect(JOINT_STATES)
    commands = graph.publisher(TORQUE_COMMAND)
    graph.until(lambda: states, "a state")
    return states, commands


def command(arm, state, effort=None, names=None) -> JointState:
    message = JointState(name=list(names or arm.joints), effort=list(np.zeros(arm.dof) if effort is None else effort))
    message.header.stamp = state.header.stamp
    return message


def refusal(graph, send, reason):
    """Sends a bad command until the bridge refuses it: the first may come before it has found the publisher."""

    def refused():
        send()
        return (status := graph.status("sim_bridge")) is not None and reason in status.message and status

    return graph.until(refused, f"diagnostics of sim_bridge with '{reason}'")


@pytest.mark.real_time
@pytest.mark.parametrize(
    ("effort", "names", "reason"),
    [
        ([0.0, 0.0, float("nan"), 0.0, 0.0, 0.0, 0.0], None, "effort of joint 'twist' is nan"),
        ([0.0] * 6, None, "effort has 6 values for 7 joints"),
        ([0.0] * 7, ["a", "b", "c", "d", "e", "f", "g"], "joint 'base_yaw' is missing"),
    ],
)
def test_bad_command_damps_the_arm(graph, effort, names, reason):
    arm = load_arm(ARM)
    states, commands = start_bridge(graph)
    graph.until(lambda: commands.get_subscription_count() == 1, "the bridge to listen")
    assert refusal(graph, lambda: commands.publish(command(arm, states[-1], effort, names)), reason).level == ERROR
    # Damped with gravity compensation: the arm does not fall.
    del states[:]
    graph.until(lambda: len(states) > 200, "more states")
    assert np.abs(np.array(states[-1].position) - arm.home).max() < 0.01


@pytest.mark.real_time
def test_killed_controller_damps_the_arm_until_reset(graph):
    arm = load_arm(ARM)
    graph.start_plan(arm=ARM, duration="4.0", repeat="0", state_timeout="1.0", command_timeout="0.5")
    states = graph.collect(JOINT_STATES)
    graph.until_status("controller", "following")
    graph.until(lambda: states and np.abs(states[-1].velocity).max() > 0.1, "the arm to move")
    graph.kill("controller")
    assert graph.until_status("sim_bridge", "no command for").level == ERROR
    graph.until(lambda: np.abs(states[-1].velocity).max() < 1e-3, "the arm to come to rest")
    assert np.all(np.array(states[-1].position) > arm.lower)
    # A new controller alone changes nothing: the bridge is latched.
    graph.start_plan(only=("controller",), arm=ARM, reference="none", state_timeout="1.0")
    graph.until_status("controller", "holding")
    graph.statuses["sim_bridge"] = []
    assert "no command for" in graph.until_status("sim_bridge", "").message
    graph.reset("sim_bridge")
    graph.until_status("sim_bridge", "following commands")


@pytest.mark.real_time
def test_killed_bridge_stops_the_controller_until_reset(graph):
    graph.start_plan(arm=ARM, reference="none", state_timeout="0.5", command_timeout="1.0")
    graph.until_status("controller", "holding")
    graph.kill("sim_bridge")
    assert graph.until_status("controller", "no state for").level == ERROR
    commands = graph.collect(TORQUE_COMMAND)
    graph.start_plan(only=("sim_bridge",), arm=ARM, reference="none", command_timeout="1.0")
    graph.statuses.pop("sim_bridge", None)
    graph.until_status("sim_bridge", "waiting for the first command")
    assert not commands, "a latched controller must not command a new bridge"
    graph.reset("controller")
    graph.until_status("sim_bridge", "following commands")


@pytest.mark.parametrize(
    ("node", "parameter", "value", "reason"),
    [
        ("controller", "arm", "ur99", "unknown arm 'ur99'; known: open_manipulator_x, so101, ur5e, wam"),
        ("controller", "controller", "pid", "unknown controller 'pid'"),
        ("controller", "controller", "friction", "needs an identified friction model"),
        ("sim_bridge", "plant", "moon", "unknown plant 'moon'"),
        ("sim_bridge", "mode", "warp", "parameter mode is 'warp'; known: real_time, lockstep"),
        ("reference", "reference", "square", "parameter reference is 'square'"),
        ("controller", "state_timeout", -1.0, "state_timeout"),
    ],
)
def test_bad_parameter_ends_the_node_with_its_reason(graph, node, parameter, value, reason):
    from trimtab_ros.plan import plan

    process = next(process for process in plan({"delivery": "processes"}) if process.name == node)
    process.parameters[parameter] = value
    assert graph.start(process).wait(timeout=60) == 1
    assert reason in graph.output(node)


@pytest.mark.parametrize(("content", "reason"), [("arm: [", "is not valid YAML"), ("arm: ur5e\n", "urdf is missing")])
def test_malformed_contract_ends_the_node_with_file_and_field(graph, content, reason):
    from trimtab_ros.plan import plan

    file = graph.folder / "broken.yaml"
    file.write_text(content)
    process = next(process for process in plan({"delivery": "processes"}) if process.name == "controller")
    process.parameters["arm"] = str(file)
    assert graph.start(process).wait(timeout=60) == 1
    assert str(file) in graph.output("controller")
    assert reason in graph.output("controller")


def test_the_torque_of_an_older_state_is_never_sent_again(driver):
    """A bad state, sent again: there is no answer to it, and the last good answer must not stand in."""
    bad = driver.message(velocity=[float("nan")] * driver.arm.dof)
    driver.unanswered(bad, "velocity of joint 'base_yaw' is nan")
    del driver.commands[:]
    for _ in range(20):
        driver.states.publish(bad)
        driver.graph.executor.spin_once(timeout_sec=0.01)
    assert not driver.commands


@pytest.mark.real_time
def test_a_command_for_a_state_that_was_never_sent_damps_the_arm(graph):
    arm = load_arm(ARM)
    states, commands = start_bridge(graph)
    graph.until(lambda: commands.get_subscription_count() == 1, "the bridge to listen")
    message = command(arm, states[-1])
    message.header.stamp.sec += 100
    assert refusal(graph, lambda: commands.publish(message), "answers a state that was never sent").level == ERROR


@pytest.mark.real_time
def test_a_stalled_bridge_does_not_throw_the_arm(graph):
    """What a late process missed is simulated with damping that sees the present speed, not the one before the stall."""
    graph.start_plan(arm=ARM, duration="4.0", repeat="0", state_timeout="5.0", command_timeout="5.0")
    states = graph.collect(JOINT_STATES)
    graph.until(lambda: states and np.abs(states[-1].velocity).max() > 0.3, "the arm to move")
    bridge = graph.children["sim_bridge"]
    bridge.send_signal(signal.SIGSTOP)
    before = len(states)
    graph.spin(0.4)
    bridge.send_signal(signal.SIGCONT)
    graph.until(lambda: len(states) > before + 200, "states after the stall")
    fastest = max(np.abs(state.velocity).max() for state in states[before:])
    assert fastest < 1.5 * load_arm(ARM).velocity.max()
