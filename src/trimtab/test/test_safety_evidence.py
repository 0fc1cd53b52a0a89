"""Evidence: a residual earns authority where it helps, and loses it when it stops helping."""

from dataclasses import replace

import numpy as np
import pytest

from trimtab.arm import Arm
from trimtab.dynamics import RigidBody
from trimtab.plant import load_gap
from trimtab.reference import make_reference
from trimtab.residual.offer import Offer
from trimtab.safety import Limit
from trimtab.safety.evidence import PROOF, Evidence
from trimtab.safety.kernels import FALL
from trimtab.simulate import simulate
from trimtab.typing import FloatArray


class TrueFriction:
    """The plant's own friction at the wanted speed: what a perfect model would say. Times a factor per joint."""

    def __init__(self, arm: Arm, plant: str, factor: FloatArray | float = 1.0, turns_at: float = np.inf) -> None:
        self.gap = load_gap(plant, arm)
        self.arm, self.factor, self.turns_at = arm, factor, turns_at

    def reset(self) -> None:
        pass

    def offer(self, sample, classical, now) -> Offer:
        friction, qd = self.gap.friction, sample.desired.qd
        assert friction is not None
        extra = (friction.breakaway - friction.coulomb) * np.exp(-((qd / friction.stribeck_speed) ** 2))
        torque = (friction.coulomb + extra) * np.tanh(qd / (0.01 * self.arm.velocity)) + friction.viscous * qd
        return Offer(torque * self.factor * (1.0 if now < self.turns_at else -1.0), 1.0, now)


def rmse(log) -> float:
    return float(np.sqrt(np.mean((log.q_des - log.q) ** 2)))


@pytest.fixture(scope="module")
def trajectory(arm: Arm, body: RigidBody):
    return make_reference("plum", body, 8.0)  # the first second proves, and only then something may act


def run(arm: Arm, trajectory, source=None, controller="observer", **options):
    roomy = replace(arm, residual=replace(arm.residual, size=0.1))  # evidence alone is to decide here, not size
    return simulate(roomy, load_gap("worn", roomy), controller, trajectory, residual=source, **options)


def test_a_residual_that_helps_earns_authority_and_helps(arm: Arm, trajectory) -> None:
    log = run(arm, trajectory, TrueFriction(arm, "worn"), "computed_torque")
    assert log.fault is None
    assert rmse(log) < 0.8 * rmse(run(arm, trajectory, controller="computed_torque"))
    assert log.residual is not None
    assert log.limits is not None
    assert not log.residual[log.t < PROOF - 3.0 * arm.period].any(), "nothing is proven at the start"
    assert (log.limits[:50] & Limit.EVIDENCE).all()


@pytest.mark.parametrize("factor", [-1.0, -0.3])
def test_a_residual_that_harms_earns_next_to_nothing(arm: Arm, trajectory, factor: float) -> None:
    log = run(arm, trajectory, TrueFriction(arm, "worn", factor))
    assert rmse(log) < 1.05 * rmse(run(arm, trajectory))


def test_a_residual_that_is_too_strong_is_scaled_down_to_what_helps(ur5e: Arm) -> None:
    trajectory = make_reference("plum", RigidBody(ur5e), 5.0)
    right, strong = (run(ur5e, trajectory, TrueFriction(ur5e, "worn", factor)) for factor in (1.0, 2.0))
    assert right.residual is not None
    assert strong.residual is not None
    assert rmse(strong) < 0.8 * rmse(run(ur5e, trajectory))
    assert np.abs(strong.residual).mean() < 1.4 * np.abs(right.residual).mean()


def test_a_residual_that_turns_bad_loses_authority_before_it_does_harm(arm: Arm, trajectory) -> None:
    log = run(arm, trajectory, TrueFriction(arm, "worn", turns_at=4.0))
    assert rmse(log) < 1.05 * rmse(run(arm, trajectory))
    assert log.residual is not None
    late, early = np.abs(log.residual[log.t > 5.0]).mean(), np.abs(log.residual[(log.t > 3.0) & (log.t < 4.0)]).mean()
    assert late < 0.2 * early


def test_shadow_judges_and_adds_nothing(ur5e: Arm) -> None:
    trajectory = make_reference("reach", RigidBody(ur5e), 3.0)
    alone = run(ur5e, trajectory)
    shadow = run(ur5e, trajectory, TrueFriction(ur5e, "worn"), authority=0.0)
    assert shadow.residual is not None
    assert not shadow.residual.any()
    assert shadow.torque.tobytes() == alone.torque.tobytes()


def test_the_error_without_the_residual_is_estimated_well(ur5e: Arm) -> None:
    """Against a run that really was without it."""
    body = RigidBody(ur5e)
    trajectory = make_reference("plum", body, 5.0)
    for controller, bandwidth in (("computed_torque", 0.0), ("observer", ur5e.observer.bandwidth)):
        alone, helped = (run(ur5e, trajectory, source, controller) for source in (None, TrueFriction(ur5e, "worn")))
        assert helped.residual is not None
        evidence = Evidence(ur5e, body, bandwidth)
        estimated = []
        applied = np.vstack([np.zeros(6), helped.residual[:-1]])
        for i in range(len(helped.t)):
            evidence.update(helped.q[i], helped.q_des[i] - helped.q[i], applied[i], applied[i], ur5e.period)
            estimated.append(evidence.errors().without)
        truth = np.sqrt(np.mean(np.sum((alone.q_des - alone.q) ** 2, axis=1)))
        assert np.sqrt(np.mean(np.square(estimated))) == pytest.approx(truth, rel=0.3)


def test_small_errors_prove_nothing(ur5e: Arm) -> None:
    evidence = Evidence(ur5e, RigidBody(ur5e))
    for k in range(2000):
        noise = 1e-5 * np.sin(0.1 * k) * np.ones(6)
        evidence.update(ur5e.home, noise, np.zeros(6), 1e-3 * noise * ur5e.torque, ur5e.period)
    assert evidence.trust < 0.05


def steady(arm: Arm, evidence: Evidence, error: float, applied: float, offered: float, seconds: float) -> list[float]:
    """Trust from step to step, with an error [rad] and with torques that would move all joints by so much [rad]."""
    stiffness = RigidBody(arm).mass_matrix(arm.home) * arm.bandwidth**2
    ones = np.ones(arm.dof)
    rows = []
    for _ in range(round(seconds * arm.rate)):
        evidence.update(arm.home, error * ones, stiffness @ (applied * ones), stiffness @ (offered * ones), arm.period)
        rows.append(evidence.trust)
    return rows


def test_a_doubt_takes_trust_away_as_fast_as_evidence_that_turns(ur5e: Arm) -> None:
    evidence = Evidence(ur5e, RigidBody(ur5e))
    assert steady(ur5e, evidence, 0.01, 0.0, 0.01, 3.0)[-1] == pytest.approx(1.0)
    evidence.doubt(0.25 * FALL)
    assert evidence.trust == pytest.approx(0.75)
    evidence.doubt(1.0)
    assert evidence.trust == 0.0


def test_what_has_done_harm_earns_nothing_however_good_it_looks(ur5e: Arm) -> None:
    """Most of the error comes from what was applied; what is offered now would help against the rest."""
    harmed, spared = (Evidence(ur5e, RigidBody(ur5e)) for _ in range(2))
    assert steady(ur5e, harmed, 0.01, -0.009, 0.001, 4.0)[-1] == 0.0
    assert steady(ur5e, spared, 0.001, 0.0, 0.001, 4.0)[-1] > 0.9
