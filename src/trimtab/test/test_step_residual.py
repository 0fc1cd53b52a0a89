"""A residual inside the control step: whatever it does, the classical torque goes on; doubts latch, a reset releases."""

import numpy as np
import pytest

from trimtab.arm import Arm
from trimtab.control import make_controller
from trimtab.dynamics import RigidBody
from trimtab.faults import Level
from trimtab.plant import load_gap
from trimtab.reference import Trajectory, make_reference
from trimtab.residual.offer import Offer
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
