"""The fault campaign: its catalogue, that every fault can be run, who notices it, and when the verdict is red."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bundle_maker import make_bundle

from trimtab.arm import Arm
from trimtab.campaign.cases import KINDS, FaultCase, Scene
from trimtab.campaign.catalogue import BUNDLE, MODEL, all_cases, choose_cases
from trimtab.campaign.detection import AT_LOAD, EVIDENCE, HARMLESS, detect
from trimtab.campaign.offers import SpoiltSource
from trimtab.campaign.rigs import choose_arms, make_rig, with_friction
from trimtab.campaign.runner import Outcome, Rig, run_reference, runs_of
from trimtab.campaign.verdict import ALLOWED, energy_drawn, exceeded, followed, rmse, shortcomings
from trimtab.control import Desired
from trimtab.control.base import Sample
from trimtab.dynamics import RigidBody
from trimtab.errors import ConfigError
from trimtab.faults import Fault, Level
from trimtab.names import arm_names
from trimtab.plant import load_gap
from trimtab.reference import make_reference
from trimtab.residual.offer import Offer
from trimtab.runlog import RunLog
from trimtab.safety import Limit
from trimtab.simulate import simulate

DURATION = 2.0  # s; too short for a residual to earn much, long enough for every fault to happen


@pytest.fixture(scope="module")
def rig(so101: Arm, tmp_path_factory: pytest.TempPathFactory) -> Rig:
    """The fastest arm with a tiny model; a controller without friction, so that nothing has to be identified."""
    folder = make_bundle(tmp_path_factory.mktemp("models"), so101, controller="observer")
    made = make_rig("so101", "worn", str(folder))
    assert with_friction(made) is made
    return made


@pytest.fixture(scope="module")
def outcomes(rig: Rig) -> dict[str, Outcome]:
    """The whole campaign on one arm and a short reference."""
    trajectory = make_reference("plum", RigidBody(rig.arm), DURATION)
    told: list[tuple[str, int]] = []
    found = list(run_reference(rig, "plum", trajectory, all_cases(), 0, lambda name, runs: told.append((name, runs))))
    assert sum(runs for _, runs in told) == runs_of(all_cases(), rig)
    return {outcome.fault: outcome for outcome in found}


@pytest.fixture(scope="module")
def log(rig: Rig) -> RunLog:
    """A run with a residual and without a fault."""
    trajectory = make_reference("plum", RigidBody(rig.arm), DURATION)
    return simulate(rig.arm, rig.gap, "observer", trajectory, residual=rig.source, bounds=rig.bounds)


# The catalogue


def test_the_catalogue_has_enough_faults_of_every_kind() -> None:
    cases = [case for case in all_cases() if case.kind != "none"]
    assert len(cases) >= 25
    assert len({case.name for case in cases}) == len(cases)
    assert {case.kind for case in all_cases()} == set(KINDS)
    for case in cases:
        assert sum(maker is not None for maker in (case.spoil, case.events, case.corrupt)) == 1, case.name
        assert case.what


def test_model_faults_begin_in_the_middle_and_once_more_at_the_start() -> None:
    named = {case.name: case for case in all_cases()}
    for case in MODEL:
        assert case.begins(10.0) == pytest.approx(4.0)
        assert named[f"{case.name}-at-start"].begins(10.0) == 0.0


def test_faults_are_chosen_by_name_and_by_kind() -> None:
    assert [case.name for case in choose_cases("gone, nan")] == ["none", "nan", "gone"]
    assert choose_cases("bundle")[1:] == list(BUNDLE)
    assert choose_cases("all") == list(all_cases())
    with pytest.raises(ConfigError, match="unknown fault 'gremlin'; known: none, nan"):
        choose_cases("gremlin")


def test_arms_are_chosen_by_name() -> None:
    assert choose_arms("all") == arm_names()
    assert choose_arms("wam, so101") == ["wam", "so101"]
    with pytest.raises(ConfigError, match="'wam' is named twice"):
        choose_arms("wam,wam")


# Every fault in a run


def test_every_fault_runs_and_none_exceeds_a_limit(outcomes: dict[str, Outcome]) -> None:
    assert list(outcomes) == [case.name for case in all_cases()]
    for outcome in outcomes.values():
        assert not outcome.exceeded, outcome
        assert np.isfinite([outcome.rmse, outcome.classical_rmse, outcome.change, outcome.change_since]).all()


def test_damaged_bundles_are_refused_at_load_each_for_its_own_reason(outcomes: dict[str, Outcome]) -> None:
    found = [outcomes[case.name] for case in BUNDLE]
    assert {outcome.detected_by for outcome in found} == {AT_LOAD}
    reasons = [outcome.reason for outcome in found]
    assert len(set(reasons)) == len(reasons)
    for word, outcome in zip(
        ("sha256", "", "is for the arm", "manifest says", "beyond", "not signed", "does not match"), found, strict=True
    ):
        assert outcome.reason is not None
        assert word in outcome.reason
        assert "/tmp" not in outcome.reason
        assert outcome.change == 0.0


@pytest.mark.parametrize("name", ["nan", "inf", "short", "confidence-nan", "confidence-high", "exception", "stamp-future"])
def test_what_cannot_be_torque_switches_the_residual_off_at_once(outcomes: dict[str, Outcome], name: str, rig: Rig) -> None:
    outcome = outcomes[name]
    assert outcome.detected_by == "residual off"
    assert outcome.reason
    assert outcome.after == pytest.approx(0.0, abs=1.5 * rig.arm.period)


@pytest.mark.parametrize("name", ["gone", "gone-back", "late-5", "stamp-same"])
def test_a_residual_that_stays_away_is_switched_off(outcomes: dict[str, Outcome], name: str, rig: Rig) -> None:
    outcome = outcomes[name]
    assert outcome.detected_by == "residual off"
    assert outcome.reason is not None
    assert "no residual for" in outcome.reason
    assert outcome.after == pytest.approx(rig.arm.timeouts.command, abs=4 * rig.arm.period)


@pytest.mark.parametrize("name", ["position-nan", "clock-back"])
def test_a_state_that_cannot_be_stops_either_run(outcomes: dict[str, Outcome], name: str, rig: Rig) -> None:
    outcome = outcomes[name]
    assert outcome.detected_by == "stop"
    assert outcome.after == pytest.approx(0.0, abs=1.5 * rig.arm.period)
    assert not outcome.problems


# Injection


def test_a_spoilt_source_is_itself_until_the_fault_begins(so101: Arm) -> None:
    class Source:
        def reset(self) -> None:
            pass

        def offer(self, sample, classical, now) -> Offer:
            return Offer(np.arange(5.0), 1.0, now)

    zeros = np.zeros(5)
    sample = Sample(zeros, zeros, Desired(zeros, zeros, zeros), 0.005)
    scene = Scene(so101, np.ones(5), 1.0, 0)
    for case in all_cases():
        if case.spoil is None:
            continue
        source = SpoiltSource(Source(), case.spoil(scene), 1.0)
        before = source.offer(sample, zeros, 0.995)
        assert before is not None
        np.testing.assert_array_equal(before.torque, np.arange(5.0))
        assert (before.confidence, before.stamp) == (1.0, 0.995)


@pytest.mark.parametrize("case", [case for case in all_cases() if case.events is not None], ids=lambda case: case.name)
def test_events_leave_what_was_measured_alone(case: FaultCase, so101: Arm) -> None:
    assert case.events is not None
    events = case.events(Scene(so101, np.ones(5), 0.0, 0))
    q, qd = np.full(5, 0.1), np.full(5, 0.2)
    events.on_state((q, qd, 0.0))
    assert (q == 0.1).all()
    assert (qd == 0.2).all()


# Who noticed


def doctored(log: RunLog, **changes: object) -> RunLog:
    return replace(log, **changes)


def test_nothing_changed_is_harmless(log: RunLog) -> None:
    found = detect(log, log, 0.8)
    assert (found.by, found.after) == (HARMLESS, None)


def test_a_latch_goes_before_limits_and_tells_its_reason(log: RunLog) -> None:
    assert log.levels is not None
    levels = np.where(log.t >= 1.0, int(Level.RESIDUAL_OFF), 0)
    found = detect(doctored(log, levels=levels, faults=(Fault(Level.RESIDUAL_OFF, "why", 1.0),)), log, 0.8)
    assert (found.by, found.reason) == ("residual off", "why")
    assert found.after == pytest.approx(0.2)


def test_limits_and_lost_trust_are_named_in_order(log: RunLog) -> None:
    assert log.limits is not None
    assert log.trust is not None
    trusted = doctored(log, limits=np.zeros_like(log.limits), trust=np.ones_like(log.trust))
    limits = np.where(log.t >= 1.2, int(Limit.MISSING), 0)
    trust = np.where(log.t >= 1.1, 0.5, 1.0)
    found = detect(doctored(trusted, limits=limits, trust=trust), trusted, 0.8)
    assert found.by == f"{EVIDENCE}, missing"
    assert found.after == pytest.approx(0.3, abs=0.006)


# The verdict


def bent(values: np.ndarray, row: int, joint: int, value: float) -> np.ndarray:
    changed = values.copy()
    changed[row, joint] = value
    return changed


def test_a_run_within_all_limits_passes(log: RunLog, rig: Rig) -> None:
    assert exceeded(log, rig.arm, rig.bounds) == []
    assert shortcomings(log, log) == []


def test_broken_limits_are_told(log: RunLog, rig: Rig) -> None:
    arm = rig.arm
    assert log.residual is not None
    assert log.levels is not None

    def told(**changes: object) -> Sequence[str]:
        return exceeded(doctored(log, **changes), arm, rig.bounds)

    [text] = told(torque=bent(log.torque, 9, 1, 1.001 * arm.torque[1]))
    assert text.startswith("torque: 1.001 times the limit of 'shoulder_lift' at 0.045 s")
    assert "not finite" in told(torque=bent(log.torque, 9, 1, np.inf))[0]
    assert "not finite" in told(torque=bent(log.torque, 9, 1, np.nan))[0]
    assert told(residual=bent(log.residual, 9, 1, np.nan)) == ["the residual is not finite"]
    size = min(arm.residual.size * arm.torque[1], rig.bounds[1])
    texts = told(residual=bent(log.residual, 9, 1, 1.01 * size))
    assert [text.split(":")[0] for text in texts] == ["residual size", "residual slew"]
    half = np.zeros_like(log.residual)
    half[len(half) // 2 :] = 0.5 * size
    assert [text.split(":")[0] for text in told(residual=half)] == ["residual slew"]
    held = np.full_like(log.levels, int(Level.HOLD))
    assert "out of nominal" in told(residual=np.full_like(half, 0.1 * size), levels=held)[0]
    fast = np.full_like(log.qd, 10.0)
    assert any(text.startswith("energy tank") for text in told(residual=np.full_like(half, 0.9 * size), qd=fast))


def test_energy_is_counted_over_the_worst_stretch(log: RunLog, so101: Arm) -> None:
    rows = len(log.t)
    residual, qd = np.zeros((rows, 5)), np.zeros((rows, 5))
    residual[100:200, 0], qd[100:200, 0] = 0.2, 10.0
    residual[300:350, 0], qd[300:350, 0] = 0.2, -10.0  # taken out, which is not credited
    drawn = energy_drawn(doctored(log, residual=residual, qd=qd), so101)
    assert drawn == pytest.approx(100 * so101.period * (2.0 - so101.residual.refill))


def test_a_run_that_is_more_than_five_percent_worse_fails(log: RunLog) -> None:
    def off(share: float) -> RunLog:
        return doctored(log, q_link=log.q_des - (1.0 + share) * (log.q_des - log.q_link))

    assert shortcomings(off(ALLOWED - 0.001), log) == []
    [text] = shortcomings(off(ALLOWED + 0.001), log)
    assert text.startswith(f"joint RMSE {1e3 * rmse(off(ALLOWED + 0.001), log.t >= 0.0):.3f} mrad")
    assert shortcomings(doctored(log, q_link=np.full_like(log.q_link, np.nan)), log)


def test_only_what_both_runs_followed_is_compared(log: RunLog) -> None:
    stopped = doctored(log, levels=np.where(log.t >= 1.0, int(Level.STOP), 0))
    coasting = doctored(stopped, q_link=np.where(log.t[:, None] >= 1.0, log.q_link + 0.1, log.q_link))
    assert shortcomings(coasting, stopped) == []
    assert not followed(log, stopped)[-1]
    nowhere = doctored(log, levels=np.full(len(log.t), int(Level.STOP)))
    assert followed(nowhere, log).all()


def test_a_run_that_stops_where_the_classical_one_goes_on_fails(log: RunLog) -> None:
    stopped = doctored(log, faults=(Fault(Level.STOP, "a reason", 1.0),))
    assert shortcomings(stopped, log) == ["ended in stop, the classical run in nominal"]
    assert shortcomings(stopped, stopped) == []
    assert shortcomings(doctored(log, faults=(Fault(Level.RESIDUAL_OFF, "a reason", 1.0),)), log) == []


def test_a_latch_without_a_reason_fails(log: RunLog) -> None:
    assert shortcomings(doctored(log, faults=(Fault(Level.RESIDUAL_OFF, " ", 1.0),)), log) == [
        "residual off latched without a reason"
    ]


def test_a_damaged_bundle_that_loads_fails(rig: Rig) -> None:
    def nothing(folder: Path) -> None:
        """Not damaged at all."""

    case = FaultCase("intact", "bundle", "nothing is wrong", corrupt=nothing)
    trajectory = make_reference("plum", RigidBody(rig.arm), DURATION)
    outcome = list(run_reference(rig, "plum", trajectory, [case], 0, lambda *_: None))[-1]
    assert "the damaged bundle was loaded" in outcome.problems
    assert not outcome.ok


def test_a_source_that_is_no_bundle_has_no_bundle_faults(rig: Rig) -> None:
    bare = replace(rig, bundle=None)
    assert runs_of(choose_cases("bundle"), bare) == runs_of([], bare) == 2
    assert load_gap("worn", rig.arm).name == "worn"
