"""Whatever a model emits: torque within limits, residual within size, slew and energy, classical torque untouched."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.arm import Arm, load_arm
from trimtab.control.base import Desired, Sample
from trimtab.dynamics import RigidBody
from trimtab.names import arm_names
from trimtab.residual.offer import Offer
from trimtab.safety import Filtered, Limit, SafetyFilter, limit_names
from trimtab.safety.evidence import Evidence
from trimtab.typing import FloatArray

TINY = 1e-12  # rounding, relative to the torque limit

KINDS = (
    "helpful",
    "helpful",
    "constant",
    "huge",
    "nan",
    "infinite",
    "negative infinite",
    "mixed",
    "alternating",
    "noise",
    "permuted",
    "short",
    "long",
    "empty",
    "matrix",
    "missing",
    "delayed",
    "stale",
    "future",
    "unsure",
    "bad confidence",
    "confidence nan",
)


@cache
def bench(name: str) -> tuple[Arm, RigidBody]:
    arm = load_arm(name)
    return arm, RigidBody(arm)


def offered(kind: str, arm: Arm, k: int, now: float, random: np.random.Generator, pull: FloatArray) -> Offer | None:
    """What a model of some kind offers at step k."""
    dof, limit = arm.dof, arm.torque
    torque, confidence, stamp = 0.05 * limit * pull, 1.0, now
    if kind == "constant":
        torque = 0.08 * limit
    elif kind == "huge":
        torque = np.full(dof, 1e30)
    elif kind == "nan":
        torque[random.integers(dof)] = np.nan
    elif kind in ("infinite", "negative infinite"):
        torque[random.integers(dof)] = np.inf if kind == "infinite" else -np.inf
    elif kind == "mixed":
        torque = np.where(np.arange(dof) % 2, 1e308, -1e308)
    elif kind == "alternating":
        torque = limit * (1.0 - 2.0 * (k % 2))
    elif kind == "noise":
        torque = random.normal(0.0, limit)
    elif kind == "permuted":
        torque = random.permutation(torque)
    elif kind == "short":
        torque = torque[:-1]
    elif kind == "long":
        torque = np.append(torque, 1.0)
    elif kind == "empty":
        torque = np.empty(0)
    elif kind == "matrix":
        torque = np.outer(torque, torque)
    elif kind == "missing":
        return None
    elif kind == "delayed":
        stamp = now - 2.0 * arm.period
    elif kind == "stale":
        stamp = now - 7.0 * arm.period
    elif kind == "future":
        stamp = now + 1.0
    elif kind == "unsure":
        confidence = float(random.uniform())
    elif kind == "bad confidence":
        confidence = float(random.choice([-0.1, 1.1, 1e9]))
    elif kind == "confidence nan":
        confidence = float("nan")
    return Offer(torque, confidence, stamp)


class Trusting(Evidence):
    """Believes in everything: what is left is the work of the other limits."""

    def learn(self) -> None:
        self.trust = 1.0


class Rig:
    """A filter at a made-up arm that moves at random; every residual acts with full authority."""

    def __init__(self, name: str, seed: int) -> None:
        self.arm, body = bench(name)
        self.filter = SafetyFilter(self.arm, body, evidence=Trusting(self.arm, body))
        self.random = np.random.default_rng(seed)
        self.q = self.random.uniform(self.arm.lower, self.arm.upper)
        self.qd = self.random.uniform(-1.2, 1.2, self.arm.dof) * self.arm.velocity
        self.k = 0
        self.spent = 0.0

    def step(self, kind: str) -> tuple[FloatArray, Filtered, FloatArray]:
        arm, random = self.arm, self.random
        now = 1.0 + self.k * arm.period
        self.q = np.clip(self.q + self.qd * arm.period, arm.lower, arm.upper)
        self.qd = np.clip(
            self.qd + random.normal(0.0, 0.05, arm.dof) * arm.velocity, -1.4 * arm.velocity, 1.4 * arm.velocity
        )
        desired = Desired(self.q + random.normal(0.0, 1e-3, arm.dof), self.qd, np.zeros(arm.dof))
        classical = random.normal(0.0, 0.6, arm.dof) * arm.torque
        before = self.filter.residual
        offer = offered(kind, arm, self.k, now, random, np.sign(self.qd))
        made = self.filter.apply(classical, offer, Sample(self.q, self.qd, desired, arm.period), now)
        self.k += 1
        self.spent += float(np.maximum(made.residual * self.qd, 0.0).sum()) * arm.period
        return classical, made, before


@pytest.mark.parametrize("name", arm_names())
@settings(max_examples=2500)
@given(
    seed=st.integers(0, 2**32 - 1),
    runs=st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 12)), min_size=1, max_size=6),
)
def test_whatever_a_model_emits_it_cannot_harm(name: str, seed: int, runs: list[tuple[str, int]]) -> None:
    rig = Rig(name, seed)
    arm = rig.arm
    slew, size = arm.residual.slew * arm.period * arm.torque, arm.residual.size * arm.torque
    for kind, count in runs:
        for _ in range(count):
            classical, made, before = rig.step(kind)
            assert np.isfinite(made.torque).all()
            assert (np.abs(made.torque) <= arm.torque).all()
            assert (np.abs(made.residual) <= size * (1.0 + TINY)).all()
            assert (np.abs(made.learned) <= np.abs(made.residual) + TINY * arm.torque).all()
            assert (np.abs(made.residual - before) <= slew * (1.0 + TINY) + TINY * arm.torque).all()
            assert rig.spent <= arm.residual.tank + arm.residual.refill * rig.k * arm.period + 1e-9
            assert rig.filter.tank_level >= -1e-9
            if not made.residual.any():
                assert made.torque.tobytes() == np.clip(classical, -arm.torque, arm.torque).tobytes()


@pytest.mark.parametrize("name", arm_names())
@settings(max_examples=300)
@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(KINDS))
def test_a_residual_that_stays_away_is_gone_within_the_slew_limit(name: str, seed: int, kind: str) -> None:
    rig = Rig(name, seed)
    for _ in range(20):
        rig.step(kind)
    for _ in range(int(np.ceil(rig.arm.residual.size / (rig.arm.residual.slew * rig.arm.period))) + 1):
        classical, made, _ = rig.step("missing")
    assert not made.residual.any()
    assert made.torque.tobytes() == np.clip(classical, -rig.arm.torque, rig.arm.torque).tobytes()


@pytest.fixture
def rig() -> Rig:
    rig = Rig("ur5e", 1)
    rig.q, rig.qd = np.array(rig.arm.home), np.zeros(rig.arm.dof)
    return rig


def calm(rig: Rig, offer: Offer | None, q: FloatArray, qd: FloatArray, steps: int = 200) -> Filtered:
    """The same offer for a while, at one state, with full trust."""
    dof = rig.arm.dof
    for _ in range(steps):
        now = 1.0 + rig.k * rig.arm.period
        fresh = None if offer is None else replace(offer, stamp=now)
        sample = Sample(q, qd, Desired(q, qd, np.zeros(dof)), rig.arm.period)
        made = rig.filter.apply(np.zeros(dof), fresh, sample, now)
        rig.k += 1
    return made


def test_a_trusted_residual_within_all_limits_is_added_as_it_is(rig: Rig) -> None:
    wanted = 0.03 * rig.arm.torque
    made = calm(rig, Offer(wanted, 1.0, 0.0), rig.q, rig.qd)
    np.testing.assert_allclose(made.residual, wanted)
    np.testing.assert_allclose(made.torque, wanted)
    assert made.limits == 0
    assert made.doubt is None


def test_the_model_s_own_bounds_hold_where_they_are_tighter(rig: Rig) -> None:
    body = RigidBody(rig.arm)
    rig.filter = SafetyFilter(rig.arm, body, bounds=0.01 * rig.arm.torque, evidence=Trusting(rig.arm, body))
    made = calm(rig, Offer(0.03 * rig.arm.torque, 1.0, 0.0), rig.q, rig.qd, steps=30)
    np.testing.assert_allclose(made.residual, 0.01 * rig.arm.torque)
    assert made.limits & Limit.SIZE


def test_confidence_scales_authority_down_to_nothing(rig: Rig) -> None:
    wanted = 0.03 * rig.arm.torque
    half = calm(rig, Offer(wanted, 0.5, 0.0), rig.q, rig.qd)
    np.testing.assert_allclose(half.residual, 0.5 * wanted)
    assert half.limits & Limit.CONFIDENCE
    none = calm(rig, Offer(wanted, 0.0, 0.0), rig.q, rig.qd)
    assert not none.residual.any()


def test_near_a_position_limit_only_the_way_back_is_open(rig: Rig) -> None:
    arm = rig.arm
    q = np.array(arm.home)
    q[2] = arm.upper[2] - 0.5 * arm.residual.position_margin
    outwards = calm(rig, Offer(0.02 * arm.torque, 1.0, 0.0), q, rig.qd)
    assert outwards.limits & Limit.POSITION
    assert outwards.residual[2] == pytest.approx(0.01 * arm.torque[2])
    assert outwards.residual[1] == pytest.approx(0.02 * arm.torque[1])
    q[2] = arm.upper[2] + 0.01
    assert calm(rig, Offer(0.02 * arm.torque, 1.0, 0.0), q, rig.qd).residual[2] == 0.0
    back = calm(rig, Offer(-0.02 * arm.torque, 1.0, 0.0), q, rig.qd)
    assert back.residual[2] == pytest.approx(-0.02 * arm.torque[2])


def test_near_the_speed_limit_it_may_only_brake(rig: Rig) -> None:
    arm = rig.arm
    qd = np.zeros(arm.dof)
    qd[0] = arm.velocity[0]
    push = calm(rig, Offer(0.02 * arm.torque, 1.0, 0.0), rig.q, qd)
    assert push.limits & Limit.VELOCITY
    assert push.residual[0] == 0.0
    assert calm(rig, Offer(-0.02 * arm.torque, 1.0, 0.0), rig.q, qd).residual[0] == pytest.approx(-0.02 * arm.torque[0])


def test_a_residual_that_pumps_runs_out_of_energy(rig: Rig) -> None:
    arm = rig.arm
    qd = 0.8 * arm.velocity
    made = calm(rig, Offer(0.1 * arm.torque, 1.0, 0.0), rig.q, qd, steps=3000)
    assert made.limits & Limit.ENERGY
    power = float((made.residual * qd).sum())
    assert power == pytest.approx(arm.residual.refill, rel=0.1), "in the long run it gets what flows in, and no more"
    braking = calm(rig, Offer(-0.1 * arm.torque, 1.0, 0.0), rig.q, qd, steps=500)
    assert rig.filter.tank_level == pytest.approx(arm.residual.tank), "braking costs nothing"
    assert not braking.limits & Limit.ENERGY


def test_beyond_the_speed_trip_there_is_no_residual(rig: Rig) -> None:
    calm(rig, Offer(0.05 * rig.arm.torque, 1.0, 0.0), rig.q, rig.qd)
    fast = 1.6 * rig.arm.velocity
    assert not calm(rig, Offer(0.05 * rig.arm.torque, 1.0, 0.0), rig.q, fast, steps=1).residual.any()


@pytest.mark.parametrize(
    ("offer", "reason"),
    [
        (Offer(np.full(6, np.nan), 1.0, 1.0), "not finite: that of joint 'shoulder_pan_joint' is nan"),
        (Offer(np.zeros(5), 1.0, 1.0), "5 values for 6 joints"),
        (Offer(np.zeros((6, 1)), 1.0, 1.0), "6 values for 6 joints"),
        (Offer(np.zeros(6), 1.5, 1.0), "confidence is 1.5"),
        (Offer(np.zeros(6), 1.0, 9.0), "answers a state that lies 8.000 s ahead"),
        (Offer(np.zeros(6), 1.0, float("nan")), "answers a state that lies nan s ahead"),
    ],
)
def test_a_doubt_says_what_is_wrong(rig: Rig, offer: Offer, reason: str) -> None:
    sample = Sample(rig.q, rig.qd, Desired(rig.q, rig.qd, rig.qd), rig.arm.period)
    made = rig.filter.apply(np.zeros(6), offer, sample, 1.0)
    assert made.doubt is not None
    assert reason in made.doubt


def test_silence_is_a_doubt_only_after_there_was_something(rig: Rig) -> None:
    assert calm(rig, None, rig.q, rig.qd, steps=500).doubt is None
    calm(rig, Offer(np.zeros(6), 1.0, 0.0), rig.q, rig.qd, steps=1)
    allowed = round(rig.arm.timeouts.command * rig.arm.rate)
    assert calm(rig, None, rig.q, rig.qd, steps=allowed - 1).doubt is None
    doubt = calm(rig, None, rig.q, rig.qd, steps=3).doubt
    assert doubt is not None
    assert "no residual for" in doubt


def test_an_answer_within_two_periods_of_the_state_counts_and_others_do_not(rig: Rig) -> None:
    sample = Sample(rig.q, rig.qd, Desired(rig.q, rig.qd, rig.qd), rig.arm.period)
    for age, missing in ((0, False), (1, False), (2, False), (3, True), (-1, False), (-2, False), (-3, True)):
        made = rig.filter.apply(np.zeros(6), Offer(np.zeros(6), 1.0, 1.0 - age * rig.arm.period), sample, 1.0)
        assert bool(made.limits & Limit.MISSING) is missing


def test_always_too_large_is_an_abort(rig: Rig) -> None:
    offer = Offer(1e3 * rig.arm.torque, 1.0, 0.0)
    doubts = [calm(rig, offer, rig.q, rig.qd, steps=1).doubt for _ in range(400)]
    assert any(doubt is not None and "larger than its bound" in doubt for doubt in doubts)


def test_jumping_to_and_fro_is_an_abort(rig: Rig) -> None:
    doubts = [
        calm(rig, Offer((1 - 2 * (k % 2)) * 0.09 * rig.arm.torque, 1.0, 0.0), rig.q, rig.qd, steps=1).doubt
        for k in range(200)
    ]
    assert any(doubt is not None and "slew limit" in doubt for doubt in doubts)


def test_a_fast_swing_is_an_abort_and_a_slow_one_is_not(rig: Rig) -> None:
    def swing(frequency: float, steps: int) -> list[str | None]:
        rig.filter.reset()
        rate = rig.arm.rate
        return [
            calm(
                rig, Offer(0.03 * np.sin(2 * np.pi * frequency * k / rate) * rig.arm.torque, 1.0, 0.0), rig.q, rig.qd, 1
            ).doubt
            for k in range(steps)
        ]

    assert any(doubt is not None and "oscillates" in doubt for doubt in swing(25.0, 500))
    rig.k += 1
    assert not any(swing(1.0, 1500))


def test_limits_have_names() -> None:
    assert limit_names(int(Limit.SIZE | Limit.ENERGY)) == ["size", "energy"]
    assert limit_names(0) == []


@pytest.mark.parametrize("authority", [-1.0, 3.0, float("nan"), float("inf")])
def test_authority_is_a_share_whatever_is_asked_for(rig: Rig, authority: float) -> None:
    sample = Sample(rig.q, rig.qd, Desired(rig.q, rig.qd, rig.qd), rig.arm.period)
    wanted = 0.02 * rig.arm.torque
    for k in range(200):
        now = 1.0 + k * rig.arm.period
        made = rig.filter.apply(np.zeros(6), Offer(wanted, 1.0, now), sample, now, authority=authority)
    allowed = wanted if authority > 0.0 else np.zeros(6)
    np.testing.assert_allclose(made.residual, allowed)


def test_what_the_torque_limit_cuts_off_is_not_reported_as_learned(rig: Rig) -> None:
    sample = Sample(rig.q, rig.qd, Desired(rig.q, rig.qd, rig.qd), rig.arm.period)
    for k in range(200):
        now = 1.0 + k * rig.arm.period
        made = rig.filter.apply(0.99 * rig.arm.torque, Offer(0.05 * rig.arm.torque, 1.0, now), sample, now)
    np.testing.assert_allclose(made.torque, rig.arm.torque)
    np.testing.assert_allclose(made.learned, 0.01 * rig.arm.torque)
    assert made.limits & Limit.TORQUE


def test_a_bundle_with_tight_bounds_oscillates_within_them(rig: Rig) -> None:
    body = RigidBody(rig.arm)
    rig.filter = SafetyFilter(rig.arm, body, bounds=0.01 * rig.arm.torque, evidence=Trusting(rig.arm, body))
    waves = 0.01 * np.sign(np.sin(2 * np.pi * 25.0 * np.arange(500) / rig.arm.rate))
    doubts = [calm(rig, Offer(wave * rig.arm.torque, 1.0, 0.0), rig.q, rig.qd, 1).doubt for wave in waves]
    assert any(doubts)


def test_after_a_gap_trust_is_gone_at_once_though_a_step_is_weighed_later() -> None:
    arm, body = bench("ur5e")
    evidence = Evidence(arm, body)
    safety = SafetyFilter(arm, body, evidence=evidence)
    wanted = Desired(np.array(arm.home), np.zeros(arm.dof), np.zeros(arm.dof))
    for dt, trusted in ((arm.period, True), (20 * arm.period, False)):
        evidence.trust = 1.0
        safety.apply(np.zeros(arm.dof), None, Sample(wanted.q, wanted.qd, wanted, dt), 1.0)
        assert (evidence.trust > 0.0) == trusted
