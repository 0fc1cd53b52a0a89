"""The residual over DDS: offered, judged, switched off, killed, swapped; the arm tracks whatever happens to it."""

import json
import signal

import numpy as np
import pytest
from bundle_maker import edit_manifest, make_bundle
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from std_srvs.srv import Trigger

from trimtab.arm import load_arm
from trimtab.plant import load_gap
from trimtab.simulate import identify_friction
from trimtab_ros.messages import (
    CONFIDENCE,
    LIVE,
    classical_array,
    residual_offer,
    state_arrays,
    state_message,
    to_nanoseconds,
    torque_array,
)
from trimtab_ros.topics import JOINT_STATES, RESIDUAL_TORQUE, TORQUE_COMMAND

ARM = load_arm("so101")
WARN = b"\x01"
PATIENT = {"state_timeout": "1.0", "command_timeout": "1.0"}


def value_of(status, key) -> str:
    return next(pair.value for pair in status.values if pair.key == key)


def call(graph, service, kind=Trigger, request=None):
    client = graph.node.create_client(kind, service)
    graph.until(client.service_is_ready, service)
    future = client.call_async(request or kind.Request())
    graph.until(future.done, f"an answer of {service}")
    return future.result()


class Stream:
    """The test in the role of a driver: one state after the other, each answered before the next is sent."""

    def __init__(self, graph):
        self.graph = graph
        self.states = graph.publisher(JOINT_STATES)
        self.answers = {}
        graph.listen(RESIDUAL_TORQUE, lambda m: self.answers.setdefault(to_nanoseconds(m.header.stamp), m))
        self.stamp = 1_000_000_000

    def ask(self, q=None):
        """Sends one state, again while it is lost, until it is answered; gives the answer."""
        self.stamp += round(ARM.period * 1e9)
        message = state_message(self.stamp, ARM.joints, ARM.home if q is None else q, np.zeros(ARM.dof))

        def answered():
            self.states.publish(message)
            self.graph.executor.spin_once(timeout_sec=0.02)
            return self.answers.get(self.stamp)

        return self.graph.until(answered, "an answer to a state")


@pytest.fixture
def bundle(tmp_path):
    return make_bundle(tmp_path, ARM, quantities=("q_des", "qd_des", "qdd_des"))


def start_residual(graph, bundle, **arguments):
    given = {"arm": "so101", "reference": "none", "residual": "on", "model": str(bundle), **arguments}
    graph.start_plan(only=("residual",), **given)
    stream = Stream(graph)
    stream.ask()
    return stream


@pytest.mark.unhurried
def test_each_state_gets_an_answer_that_says_what_it_was_made_for(graph, bundle):
    stream = start_residual(graph, bundle)
    message = stream.ask()
    offer, desired, live = residual_offer(message, ARM.order())
    assert live
    assert 0.0 <= offer.confidence <= 1.0
    assert np.abs(offer.torque).max() > 0.0
    np.testing.assert_allclose(desired, ARM.home)
    assert offer.stamp == pytest.approx(stream.stamp * 1e-9)
    status = graph.until_status("residual", "offering")
    assert value_of(status, "model") == "mlp/1"


@pytest.mark.unhurried
def test_a_shadow_says_so(graph, bundle):
    message = start_residual(graph, bundle, residual="shadow").ask()
    assert not residual_offer(message, ARM.order())[2]
    graph.until_status("residual", "shadow")


def test_a_bundle_is_swapped_while_every_state_is_answered(graph, bundle, tmp_path):
    other = make_bundle(tmp_path, ARM, quantities=("q_des", "qd_des", "qdd_des"), seed=3, version="2")
    stream = start_residual(graph, bundle)
    before = residual_offer(stream.ask(), ARM.order())[0].torque
    set_model(graph, other)
    assert call(graph, "/residual/swap").success

    def swapped():
        now = residual_offer(stream.ask(), ARM.order())[0].torque  # no state stays without an answer meanwhile
        return not np.allclose(now, before) and now

    assert graph.until(lambda: swapped() is not False, "the other model's answer")
    assert value_of(graph.until_status("residual", "offering"), "model") == "mlp/2"
    assert "swapped: mlp/2 is at work" in graph.output("residual")


@pytest.mark.unhurried
def test_a_bundle_that_does_not_fit_is_not_swapped_in(graph, bundle, tmp_path):
    other = make_bundle(tmp_path, ARM, version="2")
    edit_manifest(other, lambda document: document.update(rate=77))
    stream = start_residual(graph, bundle)
    before = residual_offer(stream.ask(), ARM.order())[0].torque
    set_model(graph, other)
    assert call(graph, "/residual/swap").success
    graph.until(lambda: "swap refused" in graph.output("residual"), "the refusal")
    assert "is for 77 Hz, so101 runs at 200 Hz" in graph.output("residual")
    np.testing.assert_array_equal(residual_offer(stream.ask(), ARM.order())[0].torque, before)


def set_model(graph, folder):
    value = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=str(folder))
    request = SetParameters.Request(parameters=[Parameter(name="model", value=value)])
    assert call(graph, "/residual/set_parameters", SetParameters, request).results[0].successful


@pytest.mark.unhurried
def test_a_bundle_of_another_arm_keeps_residual_and_controller_from_starting(graph, tmp_path):
    bundle = make_bundle(tmp_path, load_arm("wam"))
    for name in ("residual", "controller"):
        graph.start_plan(only=(name,), arm="so101", reference="none", residual="on", model=str(bundle))
        assert graph.children.pop(name).wait(60) == 1
        assert "is for the arm 'wam', not 'so101'; choose a bundle of this arm" in graph.output(name)


class Controlled:
    """A controller that gets its states and its residuals from the test."""

    def __init__(self, graph, bundle):
        self.graph = graph
        self.states, self.residuals = graph.publisher(JOINT_STATES), graph.publisher(RESIDUAL_TORQUE)
        self.commands = graph.collect(TORQUE_COMMAND)
        self.stamp = 1_000_000_000
        given = {"arm": "so101", "reference": "none", "residual": "on", "model": str(bundle), "state_timeout": "30.0"}
        graph.start_plan(only=("controller",), **given)
        graph.until(self.residuals.get_subscription_count, "the controller to listen")
        self.answered()

    def state(self):
        self.stamp += round(ARM.period * 1e9)
        return state_message(self.stamp, ARM.joints, ARM.home, np.zeros(ARM.dof))

    def answered(self):
        del self.commands[:]

        def ask():
            self.states.publish(self.state())
            self.graph.executor.spin_once(timeout_sec=0.01)
            return bool(self.commands)

        self.graph.until(ask, "an answer to a state")
        return torque_array(self.commands[-1], ARM.order())

    def residual(self, torque=None, names=None, **entries):
        message = self.state()
        message.name = list(names or [*ARM.joints, CONFIDENCE, LIVE])
        message.position = [*map(float, ARM.home), 0.0, 0.0]
        message.velocity = []
        torque = np.zeros(ARM.dof) if torque is None else torque
        message.effort = [*map(float, torque), entries.get("confidence", 1.0), 1.0]
        return message

    def refused(self, message, reason):
        """Sends a residual until it was judged: it is switched off, and the classical torque stays what it was."""
        before = self.answered()

        def send():
            message.header.stamp = self.state().header.stamp
            self.residuals.publish(message)
            self.answered()
            status = self.graph.status("controller")
            return status is not None and reason in status.message and status

        status = self.graph.until(send, f"'{reason}' on /diagnostics")
        assert status.level == WARN
        assert "residual off" in value_of(status, "fault")
        np.testing.assert_array_equal(self.answered(), before)


def test_a_residual_that_is_not_finite_is_switched_off_and_the_reason_told(graph, bundle):
    controlled = Controlled(graph, bundle)
    torque = np.zeros(ARM.dof)
    torque[1] = np.nan
    controlled.refused(controlled.residual(torque), "that of joint 'shoulder_lift' is nan")
    snapshot = json.loads(value_of(graph.status("controller"), "fault_snapshot"))
    assert snapshot["offered"][1] == "nan"
    assert len(snapshot["q"]) == ARM.dof


def test_a_residual_without_a_joint_or_with_strange_ones_is_switched_off(graph, bundle):
    controlled = Controlled(graph, bundle)
    strange = controlled.residual(names=["a", "b", "c", "d", "e", CONFIDENCE, LIVE])
    controlled.refused(strange, "residual refused: joint 'shoulder_pan' is missing")
    assert call(graph, "/controller/reset_residual").success
    nameless = controlled.residual(names=[*ARM.joints, "certainty", LIVE])
    controlled.refused(nameless, "the entry 'confidence' is missing")


def test_permuted_names_are_no_fault(graph, bundle):
    controlled = Controlled(graph, bundle)
    message = controlled.residual(np.arange(5) * 0.001)
    for field in ("name", "position", "effort"):
        setattr(message, field, list(reversed(getattr(message, field))))
    offer, desired, live = residual_offer(message, ARM.order())
    np.testing.assert_allclose(offer.torque, np.arange(5) * 0.001)
    np.testing.assert_allclose(desired, ARM.home)
    assert live
    for _ in range(5):
        controlled.residuals.publish(message)
        controlled.answered()
    graph.statuses.clear()
    assert value_of(graph.until_status("controller", ""), "fault") == "nominal"


def test_killed_while_moving_the_arm_tracks_on_and_the_residual_returns_only_after_a_reset(graph, bundle):
    order, rows = ARM.order(), []
    graph.listen(JOINT_STATES, lambda m: rows.append(state_arrays(m, order)[0]))
    given = {"arm": "so101", "plant": "worn", "controller": "observer", "duration": "8.0", "repeat": "0", **PATIENT}
    given |= {"residual": "on", "model": str(bundle)}
    graph.start_plan(**given)
    graph.until(lambda: rows and np.abs(rows[-1] - rows[0]).max() > 0.05, "the arm to move")
    graph.until_status("residual", "offering")
    graph.until_status("controller", "following")
    graph.kill("residual")
    status = graph.until_status("controller", "residual off: residual: no residual for")
    assert status.level == WARN
    moved = len(rows)
    graph.until(lambda: len(rows) > moved + 200 and np.ptp(rows[moved:], axis=0).max() > 0.05, "the arm to move on")
    assert "hold" not in graph.output("controller")
    # The process is back, the latch is not.
    graph.start_plan(only=("residual",), **given)
    graph.statuses.clear()
    graph.until_status("residual", "offering")
    graph.until_status("controller", "residual off")
    answer = call(graph, "/controller/reset_residual")
    assert answer.success
    assert "the residual may act again" in answer.message
    graph.statuses.clear()
    graph.until_status("controller", "following")
    assert graph.children["controller"].poll() is None


def test_killed_at_work_its_torque_begins_to_fade_within_two_periods(graph, tmp_path):
    """The committed model on the stack that it was trained for; everything is judged by stamps, so no clock matters."""
    worn = load_gap("worn", ARM)
    identify_friction(ARM, worn).save(tmp_path / "friction.yaml", ARM.name, "a sweep on worn")
    offers, learned, order = [], [], ARM.order()
    graph.listen(RESIDUAL_TORQUE, lambda m: offers.append(to_nanoseconds(m.header.stamp)))

    def on_command(message):
        part = torque_array(message, order) - classical_array(message, order)
        learned.append((to_nanoseconds(message.header.stamp), np.abs(part).max()))

    graph.listen(TORQUE_COMMAND, on_command)
    given = {"arm": "so101", "plant": "worn", "controller": "friction+adaptive+observer", "duration": "8.0", "repeat": "0"}
    given |= {"friction_file": str(tmp_path / "friction.yaml"), "residual": "on", **PATIENT}
    graph.start_plan(**given)
    graph.until(lambda: sum(size > 1e-3 for _, size in learned[-50:]) > 40, "the residual at work")
    graph.kill("residual")
    last = max(offers)
    graph.until_status("controller", "residual off: residual: no residual for")
    last = max([last, *offers])
    period = round(ARM.period * 1e9)
    size = 0.0
    slewed = ARM.residual.slew * ARM.period * ARM.torque.max()
    for stamp, now in sorted(learned):
        if stamp > last + 3 * period and size > 0.0:
            assert now <= max(0.0, size - 0.5 * slewed) or now == 0.0, "it shrinks from step to step"
        size = now
    assert size == 0.0
    assert "hold" not in graph.output("controller")


def test_a_stopped_residual_process_is_noticed_too(graph, bundle):
    """SIGSTOP: the process is there, its answers are not."""
    given = {"arm": "so101", "reference": "none", "residual": "on", "model": str(bundle), **PATIENT}
    graph.start_plan(**given)
    graph.until_status("residual", "offering")
    graph.until_status("controller", "holding")
    child = graph.children["residual"]
    child.send_signal(signal.SIGSTOP)
    try:
        graph.until_status("controller", "no residual for")
    finally:
        child.send_signal(signal.SIGCONT)
