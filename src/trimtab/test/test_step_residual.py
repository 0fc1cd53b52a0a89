"""A residual inside the control step: whatever it does, the classical torque goes on; doubts latch, a reset releases."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.arm import Arm, load_arm
from trimtab.control import make_controller
from trimtab.dynamics import RigidBody
from trimtab.faults import Level
from trimtab.plant import load_gap
from trimtab.reference import Trajectory, make_reference
from trimtab.residual.offer import Offer
from trimtab.safety import SafetyFilter
from trimtab.safety.evidence import Evidence
from trimtab.simulate import simulate
from trimtab.step import ControlStep


class Scripted:
    """Offers what a function of time says; None for nothing, an exception is raised."""

    def __init__(self, say) -> None:
        self.say = say
        self.resets = 0

    def reset(self) -> None:
        self.resets += 1

    def offer(self, sample, classical, now):
        said = self.say(now)
        if isinstance(said, Exception):
            raise said
        return said if said is None or isinstance(said, Offer) else Offer(np.asarray(said, float), 1.0, now)


class Trusting(Evidence):
    """Believes in everything."""

    def learn(self) -> None:
        self.trust = 1.0


BROKEN = {
    "an exception": RuntimeError("session lost"),
    "nan": np.full(6, np.nan),
    "one infinity": np.array([0.0, np.inf, 0.0, 0.0, 0.0, 0.0]),
    "wrong length": np.zeros(4),
    "empty": np.zeros(0),
    "confidence of nan": Offer(np.zeros(6), float("nan"), 1e9),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_residual_is_switched_off_and_the_classical_run_goes_on_bit_for_bit(ur5e: Arm, what: str) -> None:
    trajectory = make_reference("plum", RigidBody(ur5e), 3.0)
    gap = load_gap("worn", ur5e)
    alone = simulate(ur5e, gap, "observer", trajectory)
    log = simulate(
        ur5e, gap, "observer", trajectory, residual=Scripted(lambda now: BROKEN[what] if now > 1.0 else np.zeros(6))
    )
    assert log.fault is not None
    assert log.fault.level is Level.RESIDUAL_OFF
    assert log.fault.reason.startswith("residual: ")
    assert log.fault.time == pytest.approx(1.0, abs=2 * ur5e.period)
    assert log.fault.snapshot is not None
    assert len(log.fault.snapshot["q"]) == 6
    assert log.torque.tobytes() == alone.torque.tobytes()


@pytest.mark.parametrize(
    "said",
    [
        "text",
        Offer([0.0] * 6, 1.0, 0.0),  # type: ignore[arg-type]
        Offer(np.zeros(6), None, 0.0),  # type: ignore[arg-type]
        Offer(np.zeros(6), 1.0, None),  # type: ignore[arg-type]
        Offer(np.zeros(6, dtype=object), 1.0, 0.0),
        Offer(np.full(6, 1j), 1.0, 0.0),
    ],
    ids=["no offer", "a list", "no confidence", "no stamp", "objects", "complex numbers"],
)
def test_a_source_that_breaks_its_contract_is_switched_off(ur5e: Arm, said) -> None:
    class Broken(Scripted):
        def offer(self, sample, classical, now):
            return said

    step = make_step(ur5e, Broken(None))
    for k in range(30):
        result = step.step(np.array(ur5e.home), np.zeros(6), k * ur5e.period)
        assert result.torque is not None
        assert np.isfinite(result.torque).all()
    assert not step.safety.residual.any()


@settings(max_examples=300)
@given(
    exponent=st.integers(-320, 308),
    error=st.floats(0.0, 0.3),
    count=st.integers(2, 40),
    authority=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_no_magnitude_of_an_offer_gets_an_exception_out_of_a_step(exponent, error, count, authority) -> None:
    arm = load_arm("so101")
    step = make_step(
        arm, Scripted(lambda now: np.full(5, float(f"1e{exponent}")) * (1.0 if error < 0.1 else -1.0)), "observer"
    )
    step.authority = authority
    for k in range(count):
        q = arm.home + (error if k else 0.0)
        result = step.step(q, np.zeros(5), k * arm.period)
        assert result.torque is not None
        assert (np.abs(result.torque) <= arm.torque).all()


def test_forgiven_while_it_fades_the_residual_does_not_jump(ur5e: Arm) -> None:
    size = 0.02 * ur5e.torque
    body = RigidBody(ur5e)
    safety = SafetyFilter(ur5e, body, evidence=Trusting(ur5e, body))
    source = Scripted(lambda now: size if now < 1.0 else np.full(6, np.nan))
    step = ControlStep(ur5e, body, make_controller("pd", ur5e, body), residual=source, safety=safety)
    now = drive(step, 1.0)
    np.testing.assert_allclose(safety.residual, size)
    now = drive(step, 2 * ur5e.period, now)
    assert step.latch.level is Level.RESIDUAL_OFF
    fading = safety.residual.copy()
    assert fading.any()
    assert step.reset_residual()
    source.say = lambda now: np.zeros(6)
    drive(step, ur5e.period, now)
    slew = ur5e.residual.slew * ur5e.period * ur5e.torque
    assert (np.abs(safety.residual - fading) <= slew * (1 + 1e-9)).all()


def make_step(arm: Arm, source, controller: str = "computed_torque") -> ControlStep:
    body = RigidBody(arm)
    return ControlStep(arm, body, make_controller(controller, arm, body), residual=source)


def drive(step: ControlStep, seconds: float, start: float = 0.0) -> float:
    """States at rest at home; gives the time after the last."""
    arm = step.arm
    count = round(seconds * arm.rate)
    for k in range(count):
        step.step(np.array(arm.home), np.zeros(arm.dof), start + k * arm.period)
    return start + count * arm.period


def test_silence_latches_and_only_a_reset_brings_the_residual_back(so101: Arm) -> None:
    source = Scripted(lambda now: None if 1.0 < now < 2.0 else np.zeros(5))
    step = make_step(so101, source)
    now = drive(step, 1.5)
    assert step.latch.level is Level.RESIDUAL_OFF
    assert "no residual for" in str(step.latch)
    now = drive(step, 1.5, now)
    assert step.latch.level is Level.RESIDUAL_OFF, "the source is back, nobody has reset"
    step.reset()
    assert source.resets == 1
    drive(step, 0.5, now)
    assert step.latch.level is Level.NOMINAL


def test_without_the_residual_the_arm_still_takes_references(so101: Arm) -> None:
    step = make_step(so101, Scripted(lambda now: np.full(5, np.nan)))
    now = drive(step, 0.1)
    assert step.latch.level is Level.RESIDUAL_OFF
    rest = np.zeros((1, so101.dof))
    step.follow(Trajectory(np.array([2.0]), np.array(so101.home)[None, :] + 0.1, rest, rest), now)
    assert step.busy(now + 1.0)


def test_a_worse_fault_climbs_over_residual_off_and_ends_the_residual(so101: Arm) -> None:
    step = make_step(so101, Scripted(lambda now: np.full(5, np.nan)))
    now = drive(step, 0.1)
    step.step(np.array(so101.home), 2.0 * so101.velocity, now)
    assert step.latch.level is Level.DAMP
    assert [fault.level for fault in step.latch.history] == [Level.RESIDUAL_OFF, Level.DAMP]
    assert not step.safety.residual.any()


def test_no_residual_is_asked_for_once_it_is_off(so101: Arm) -> None:
    asked: list[float] = []

    def say(now: float):
        asked.append(now)
        return np.full(5, np.nan)

    drive(make_step(so101, Scripted(say)), 0.2)
    assert len(asked) == 1


def test_an_observer_does_not_compensate_what_the_residual_explains(so101: Arm) -> None:
    """Told of the residual as if it were classical torque, the observer would add the same compensation again."""
    body = RigidBody(so101)
    stack = make_controller("observer", so101, body)
    residual = 0.05 * so101.torque
    seen = []
    stack.compensators[0].applied = seen.append  # type: ignore[method-assign]
    stack.applied(so101.torque * 0.2, residual)
    np.testing.assert_allclose(seen[0], so101.torque * 0.2 - residual)


@settings(max_examples=20, deadline=None)
@given(st.randoms(use_true_random=False), st.lists(st.integers(10, 390), max_size=2))
def test_when_it_is_learned_changes_nothing(random, gaps: list[int]) -> None:
    """A loop learns after its command is written, a simulation when the next step comes: the same torques, bit for bit."""
    arm = load_arm("ur5e")
    trajectory = make_reference("plum", RigidBody(arm), 3.0)

    def run(learns) -> tuple[bytes, float]:
        body = RigidBody(arm)
        step = ControlStep(
            arm, body, make_controller("observer", arm, body, None), 1.0, Scripted(lambda _: 0.02 * arm.torque)
        )
        now, torques = 0.0, []
        for i in range(400):
            now += 20 * arm.period if i in gaps else arm.period  # a gap: nothing is proven any more
            wanted = trajectory.at(now)
            if i == 1:
                step.follow(trajectory, now)
            result = step.step(wanted.q + 1e-4 * np.sin(5.0 * now), wanted.qd, now)
            torques.append(result.torque)
            if learns():
                step.learn()
        return np.array(torques).tobytes(), step.safety.trust

    assert run(lambda: random.random() < 0.5) == run(lambda: False) == run(lambda: True)
