"""The control step: limits, latched faults, and trajectories taken or refused whole."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.arm import Arm, load_arm
from trimtab.control import make_controller
from trimtab.dynamics import RigidBody
from trimtab.errors import ReferenceRefused
from trimtab.faults import Level
from trimtab.follower import START_TOLERANCE
from trimtab.names import arm_names
from trimtab.plant import Plant, PlantGap
from trimtab.reference import Trajectory, make_reference
from trimtab.step import ControlStep, StepResult
from trimtab.typing import FloatArray


def step_of(arm: Arm, controller: str = "computed_torque") -> ControlStep:
    body = RigidBody(arm)
    return ControlStep(arm, body, make_controller(controller, arm, body))


def rest_of(arm: Arm) -> FloatArray:
    return np.zeros(arm.dof)


def move(arm: Arm, by: float, duration: float = 2.0, first: float = 0.0) -> Trajectory:
    """All joints from home by some angle, from rest to rest."""
    q = np.array([arm.home, arm.home + by])
    return Trajectory(np.array([first, first + duration]), q, np.zeros_like(q), np.zeros_like(q))


class Loop:
    """A step on a plant."""

    def __init__(self, arm: Arm, gap: PlantGap, controller: str = "computed_torque") -> None:
        self.arm, self.plant, self.control = arm, Plant(arm, gap), step_of(arm, controller)
        self.now = 0.0

    def run(self, seconds: float) -> list[StepResult]:
        results = []
        for _ in range(round(seconds * self.arm.rate)):
            result = self.control.step(*self.plant.measure(), now=self.now)
            self.plant.step(rest_of(self.arm) if result.torque is None else result.torque)
            self.now += self.arm.period
            results.append(result)
        return results


@pytest.fixture
def loop(arm: Arm, gap_of: Callable[..., PlantGap]) -> Loop:
    return Loop(arm, gap_of(arm))


# --- nominal operation --------------------------------------------------------------------------------------------------


def test_holds_where_the_arm_is_until_it_gets_a_trajectory(loop: Loop) -> None:
    results = loop.run(0.5)
    assert {result.level for result in results} == {Level.NOMINAL}
    assert all(result.desired.q.tolist() == loop.arm.home.tolist() for result in results)
    assert np.abs(loop.plant.measure()[0] - loop.arm.home).max() < 1e-9


def test_follows_a_trajectory_from_its_start(loop: Loop) -> None:
    loop.run(0.1)
    trajectory = make_reference("reach", RigidBody(loop.arm), 6.0)
    start = loop.now
    loop.control.follow(trajectory, start)
    assert loop.control.busy(start)
    for i, result in enumerate(loop.run(1.0)):
        assert result.desired.q.tolist() == pytest.approx(trajectory.at(i * loop.arm.period).q.tolist(), abs=1e-9)
    loop.run(trajectory.duration - 0.9)
    assert not loop.control.busy(loop.now)
    assert np.abs(loop.plant.measure()[0] - trajectory.q[-1]).max() < 1e-3


def test_an_arm_found_a_little_outside_its_limits_is_held_there_and_can_be_led_back(arm: Arm) -> None:
    control = step_of(arm)
    found = arm.upper + 0.5 * arm.trips.position_margin
    result = control.step(found, rest_of(arm), 0.0)
    assert result.level is Level.NOMINAL
    assert result.desired.q.tolist() == found.tolist()
    inside = (arm.upper - 0.1)[None]
    control.follow(Trajectory(np.array([2.0]), inside, np.zeros_like(inside), np.zeros_like(inside)), 0.0)


def test_an_arm_found_moving_is_brought_to_rest_without_a_jump(arm: Arm) -> None:
    control = step_of(arm)
    speed = 0.5 * arm.velocity
    first = control.step(arm.home, speed, 0.0).desired
    assert first.qd.tolist() == speed.tolist()
    steps = round(0.5 * arm.rate)
    last = [control.step(arm.home + 0.1 * speed, speed, i * arm.period).desired for i in range(1, steps)][-1]
    assert last.qd.tolist() == rest_of(arm).tolist()


def test_the_reference_waits_while_no_state_comes(arm: Arm) -> None:
    control = step_of(arm)
    trajectory = make_reference("reach", RigidBody(arm), 6.0)
    control.step(arm.home, rest_of(arm), 0.0)
    control.follow(trajectory, 0.0)
    after = control.step(arm.home, rest_of(arm), 0.09).desired
    assert after.q.tolist() == pytest.approx(trajectory.at(arm.period).q.tolist(), abs=1e-12)


def test_a_trajectory_that_began_a_moment_ago_does_not_make_the_reference_jump(loop: Loop) -> None:
    loop.run(0.2)
    point = (loop.arm.home + 0.15)[None]
    loop.control.follow(Trajectory(np.array([0.5]), point, np.zeros_like(point), np.zeros_like(point)), loop.now - 0.05)
    first = loop.run(loop.arm.period)[0].desired
    assert np.abs(first.q - loop.arm.home).max() < 1e-3


# --- limits -------------------------------------------------------------------------------------------------------------

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
MODERATE = st.floats(-20.0, 20.0)
cached_arm = cache(load_arm)


@settings(max_examples=150)
@given(
    st.sampled_from(arm_names()),
    st.sampled_from(["pd", "computed_torque+integral", "adaptive+observer"]),
    st.data(),
    st.lists(st.floats(1e-6, 0.2), min_size=1, max_size=6),
)
def test_torque_never_exceeds_the_limits(name: str, controller: str, data: st.DataObject, gaps: list[float]) -> None:
    arm = cached_arm(name)
    control = step_of(arm, controller)
    now = 0.0
    number = data.draw(st.sampled_from([MODERATE, FLOATS]))
    for gap in gaps:
        now += gap
        q, qd = (np.array(data.draw(st.lists(number, min_size=arm.dof, max_size=arm.dof))) for _ in range(2))
        with np.errstate(all="ignore"):
            result = control.step(q, qd, now)
        if result.torque is None:
            assert result.level is Level.STOP
        else:
            assert (np.abs(result.torque) <= arm.torque).all()
            assert result.limited is bool((result.torque != result.classical).any())


def test_a_limit_that_fires_is_told(arm: Arm) -> None:
    weak = replace(arm, torque=np.full(arm.dof, 1e-3))
    control = step_of(weak, "pd")
    control.step(arm.home, rest_of(arm), 0.0)
    result = control.step(arm.home - 0.1, rest_of(arm), arm.period)
    assert result.limited
    assert result.torque is not None
    assert result.classical is not None
    assert np.abs(result.torque).max() == 1e-3
    assert np.abs(result.classical).max() > 0.1


# --- faults -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("what", ["position", "velocity"])
def test_a_state_that_is_not_finite_stops_the_arm(what: str, bad: float, arm: Arm) -> None:
    control = step_of(arm)
    control.step(arm.home, rest_of(arm), 0.0)
    q, qd = np.array(arm.home), rest_of(arm)
    (q if what == "position" else qd)[2] = bad
    result = control.step(q, qd, arm.period)
    assert result.torque is None
    assert result.level is Level.STOP
    assert control.latch.fault is not None
    assert f"{what} of joint '{arm.joints[2]}' is {bad}" in control.latch.fault.reason
    assert control.latch.fault.time == arm.period
    after = control.step(arm.home, rest_of(arm), 2 * arm.period)
    assert after.torque is None, "a good state does not undo it"
    assert np.isfinite(after.desired.q).all()


def test_the_very_first_state_may_be_bad(arm: Arm) -> None:
    control = step_of(arm)
    result = control.step(np.full(arm.dof, np.nan), rest_of(arm), 0.0)
    assert result.torque is None
    assert np.isfinite(result.desired.q).all()


@pytest.mark.parametrize(("later", "level"), [(0.0, Level.STOP), (-0.5, Level.STOP), (1e-6, Level.NOMINAL)])
def test_a_stamp_that_stands_or_goes_back_stops_the_arm(later: float, level: Level, arm: Arm) -> None:
    control = step_of(arm)
    control.step(arm.home, rest_of(arm), 7.0)
    result = control.step(arm.home, rest_of(arm), 7.0 + later)
    assert result.level is level
    assert (result.torque is None) is (level is Level.STOP)
    if level is Level.STOP:
        assert f"stamp went from 7.000000 s to {7.0 + later:.6f} s" in str(control.latch)
        assert control.step(arm.home, rest_of(arm), 8.0).torque is None


@pytest.mark.parametrize(("share", "level"), [(0.99, Level.NOMINAL), (1.01, Level.STOP)])
def test_a_gap_longer_than_the_timeout_stops_the_arm(share: float, level: Level, arm: Arm) -> None:
    control = step_of(arm)
    control.step(arm.home, rest_of(arm), 0.0)
    result = control.step(arm.home, rest_of(arm), share * arm.timeouts.state)
    assert result.level is level
    if level is Level.STOP:
        assert result.torque is None
        assert f"no state for {share * arm.timeouts.state:.3f} s" in str(control.latch)


@pytest.mark.parametrize(("share", "level"), [(0.99, Level.NOMINAL), (1.01, Level.DAMP)])
def test_overspeed_damps_the_arm(share: float, level: Level, arm: Arm) -> None:
    for i, joint in enumerate(arm.joints):
        control = step_of(arm)
        control.step(arm.home, rest_of(arm), 0.0)
        qd = rest_of(arm)
        qd[i] = -share * arm.trips.velocity * arm.velocity[i]
        result = control.step(arm.home, qd, arm.period)
        assert result.level is level
        if level is Level.DAMP:
            assert f"'{joint}' moves at {-qd[i]:.2f} rad/s, its limit is {arm.velocity[i]:g}" in str(control.latch)
            gravity = RigidBody(arm).owned_gravity(arm.home)
            wanted = np.clip(gravity - arm.kd * qd, -arm.torque, arm.torque)
            assert result.torque is not None
            np.testing.assert_allclose(result.torque, wanted, atol=1e-9)


def test_a_damped_arm_comes_to_rest(loop: Loop) -> None:
    loop.run(0.1)
    loop.plant.data.qvel[:] = 0.0
    loop.plant.data.qvel[0] = 2.0 * loop.arm.velocity[0]
    loop.run(3.0)
    assert loop.control.latch.level is Level.DAMP
    q, qd = loop.plant.measure()
    assert np.abs(qd).max() < 0.02
    assert np.abs(q - loop.arm.home).max() < 1.0


@pytest.mark.parametrize(("share", "level"), [(0.99, Level.NOMINAL), (1.01, Level.HOLD)])
def test_a_tracking_error_beyond_the_trip_holds_the_arm(share: float, level: Level, arm: Arm) -> None:
    for i, joint in enumerate(arm.joints):
        control = step_of(arm)
        control.step(arm.home, rest_of(arm), 0.0)
        q = np.array(arm.home)
        q[i] += share * arm.trips.tracking_error * (1.0 if arm.home[i] + arm.trips.tracking_error < arm.upper[i] else -1.0)
        result = control.step(q, rest_of(arm), arm.period)
        assert result.level is level
        if level is Level.HOLD:
            assert f"'{joint}' is {1.01 * arm.trips.tracking_error:.3f} rad from its reference" in str(control.latch)
            gravity = RigidBody(arm).owned_gravity(q)
            assert result.torque is not None
            np.testing.assert_allclose(result.torque, np.clip(gravity, -arm.torque, arm.torque), atol=1e-9)


def test_a_held_arm_comes_to_rest_near_where_it_was_caught(arm: Arm, gap_of: Callable[..., PlantGap]) -> None:
    """A trip so tight that joint PD breaks it in the middle of a motion."""
    strict = replace(arm, trips=replace(arm.trips, tracking_error=0.005))
    loop = Loop(strict, gap_of(arm), "pd")
    loop.run(0.1)
    loop.control.follow(make_reference("reach", RigidBody(arm), 6.0), loop.now)
    results = loop.run(4.0)
    assert loop.control.latch.level is Level.HOLD
    caught = next(i for i, result in enumerate(results) if result.level is Level.HOLD)
    assert caught * arm.period < 3.0
    q, qd = loop.plant.measure()
    assert np.abs(qd).max() < 1e-3
    assert np.abs(q - results[caught].desired.q).max() < 0.15
    assert all(result.torque is not None for result in results)


def test_a_position_outside_the_limits_holds_the_arm(arm: Arm) -> None:
    for i, joint in enumerate(arm.joints):
        for limit, side in ((arm.upper[i], 1.0), (arm.lower[i], -1.0)):
            for share, level in ((0.99, Level.NOMINAL), (1.01, Level.HOLD)):
                control = step_of(arm)
                q = np.array(arm.home)
                q[i] = limit + side * share * arm.trips.position_margin
                result = control.step(q, rest_of(arm), 0.0)
                assert result.level is level
                if level is Level.HOLD:
                    assert f"'{joint}' is at {q[i]:.3f} rad, outside its limits" in str(control.latch)
                    assert result.torque is not None
                    held = np.clip(RigidBody(arm).owned_gravity(q), -arm.torque, arm.torque)
                    pull = result.torque[i] - held[i]
                    assert pull == pytest.approx(0.0, abs=1e-9), "held where it is: no fault may yank the arm"


def test_faults_climb_but_do_not_come_down(arm: Arm) -> None:
    control = step_of(arm)
    fine, fast = rest_of(arm), 2.0 * arm.trips.velocity * arm.velocity
    states = [
        (arm.upper + 2.0 * arm.trips.position_margin, fine, Level.HOLD),
        (arm.home, fine, Level.HOLD),
        (arm.home, fast, Level.DAMP),
        (arm.upper + 2.0 * arm.trips.position_margin, fine, Level.DAMP),
        (np.full(arm.dof, np.nan), fine, Level.STOP),
        (arm.home, fine, Level.STOP),
    ]
    for i, (q, qd, level) in enumerate(states):
        assert control.step(q, qd, i * arm.period).level is level
    assert [fault.level for fault in control.latch.history] == [Level.HOLD, Level.DAMP, Level.STOP]


def test_a_torque_that_is_not_finite_stops_the_arm(so101: Arm) -> None:
    control = step_of(replace(so101, kp=np.full(so101.dof, np.nan)), "pd")
    result = control.step(so101.home, rest_of(so101), 0.0)
    assert result.torque is None
    assert result.level is Level.STOP
    assert "torque is not finite" in str(control.latch)


def test_reset_recovers(loop: Loop) -> None:
    loop.run(0.1)
    loop.control.follow(move(loop.arm, 0.2), loop.now)
    loop.run(0.5)
    loop.control.step(np.full(loop.arm.dof, np.nan), rest_of(loop.arm), loop.now)
    assert loop.control.latch.level is Level.STOP
    loop.control.reset()
    assert loop.control.desired is None
    loop.now = 1000.0  # whatever the time is now, the gap is not counted
    here = loop.plant.measure()[0].copy()
    results = loop.run(0.5)
    assert {result.level for result in results} == {Level.NOMINAL}
    assert results[0].desired.q.tolist() == here.tolist(), "the old trajectory is forgotten"
    loop.control.follow(Trajectory(np.array([2.0]), loop.arm.home[None], *[np.zeros((1, loop.arm.dof))] * 2), loop.now)
    loop.run(2.5)
    assert np.abs(loop.plant.measure()[0] - loop.arm.home).max() < 1e-3


def test_after_a_reset_the_hold_catches_a_new_posture(arm: Arm) -> None:
    control = step_of(arm)
    gravity = RigidBody(arm).owned_gravity
    for now, posture in ((0.0, arm.home), (1.0, arm.home - 0.05)):
        control.step(posture, rest_of(arm), now)
        away = posture + 1.1 * arm.trips.tracking_error
        held = control.step(np.clip(away, arm.lower, arm.upper), rest_of(arm), now + arm.period)
        assert held.level is Level.HOLD
        assert held.torque is not None
        expected = np.clip(gravity(np.clip(away, arm.lower, arm.upper)), -arm.torque, arm.torque)
        np.testing.assert_allclose(held.torque, expected, atol=1e-9)
        control.reset()


# --- trajectories -------------------------------------------------------------------------------------------------------


def test_a_trajectory_before_any_state_is_refused(arm: Arm) -> None:
    with pytest.raises(ReferenceRefused, match="no state has been received"):
        step_of(arm).follow(move(arm, 0.1), 0.0)


@pytest.mark.parametrize("level", [Level.HOLD, Level.DAMP, Level.STOP])
def test_a_trajectory_is_refused_while_a_fault_is_latched(level: Level, arm: Arm) -> None:
    control = step_of(arm)
    control.step(arm.home, rest_of(arm), 0.0)
    control.latch.trip(level, "for the test", 0.0)
    with pytest.raises(ReferenceRefused, match=f"not in nominal operation \\({level.name.lower()}: for the test\\); reset"):
        control.follow(move(arm, 0.1), 0.0)
    control.reset()
    control.step(arm.home, rest_of(arm), 1.0)
    control.follow(move(arm, 0.1), 1.0)


def test_a_trajectory_that_does_not_start_at_the_arm_is_refused(arm: Arm) -> None:
    for i, joint in enumerate(arm.joints):
        control = step_of(arm)
        control.step(arm.home, rest_of(arm), 0.0)
        q = np.array([arm.home, arm.home])
        q[0, i] += 1.01 * START_TOLERANCE
        still = np.zeros_like(q)
        with pytest.raises(ReferenceRefused, match=f"starts with joint '{joint}' at {q[0, i]:.4f} rad"):
            control.follow(Trajectory(np.array([0.0, 2.0]), q, still, still), 0.0)
        q[0, i] = arm.home[i] + 0.99 * START_TOLERANCE
        control.follow(Trajectory(np.array([0.0, 2.0]), q, still, still), 0.0)


def _bad_trajectories(arm: Arm) -> dict[str, tuple[Callable[[], Trajectory], str]]:
    far = np.array([arm.home, arm.upper + 0.01])
    still = np.zeros_like(far)
    more = np.zeros((2, arm.dof + 1))
    top = np.array([arm.upper, arm.upper])
    return {
        "position": (lambda: Trajectory(np.array([1.0, 60.0]), far, still, still), "upper limit"),
        "velocity": (lambda: move(arm, 0.3, duration=0.02, first=1.0), "velocity limit"),
        "approach": (lambda: Trajectory(np.array([0.01, 1.0]), top, still, still), "velocity limit"),
        "elsewhere": (lambda: Trajectory(np.array([0.0, 60.0]), top, still, still), "the trajectory starts with"),
        "joints": (lambda: Trajectory(np.array([0.0, 1.0]), more, more, more), "joints"),
    }


@pytest.mark.parametrize("case", ["position", "velocity", "approach", "elsewhere", "joints"])
def test_a_refused_trajectory_leaves_the_old_one_running(case: str, arm: Arm, gap_of: Callable[..., PlantGap]) -> None:
    bad, reason = _bad_trajectories(arm)[case]
    traces = []
    for refuse in (False, True):
        loop = Loop(arm, gap_of(arm))
        loop.run(0.05)
        loop.control.follow(move(arm, 0.2), loop.now)
        loop.run(0.5)
        if refuse:
            with pytest.raises(ReferenceRefused, match=reason):
                loop.control.follow(bad(), loop.now - arm.period)
        traces.append([result.torque.tolist() for result in loop.run(0.5) if result.torque is not None])
    assert traces[0] == traces[1]
    assert len(traces[0]) == round(0.5 * arm.rate)


def test_a_first_knot_later_than_zero_is_led_to_smoothly(loop: Loop) -> None:
    """In the middle of another motion."""
    arm = loop.arm
    loop.run(0.05)
    loop.control.follow(move(arm, 0.3), loop.now)
    loop.run(1.0)
    before = loop.control.desired
    assert before is not None
    assert np.abs(before.qd).max() > 0.1
    lead = 1.5
    loop.control.follow(move(arm, -0.1, first=lead), loop.now - arm.period)
    wanted = [before, *(result.desired for result in loop.run(lead + 2.5))]
    q, qd, qdd = (np.array([getattr(desired, name) for desired in wanted]) for name in ("q", "qd", "qdd"))
    assert np.abs(np.diff(q, axis=0)).max() < 1.01 * arm.period * np.abs(qd).max()
    assert np.abs(np.diff(qd, axis=0)).max() < 1.01 * arm.period * np.abs(qdd).max()
    assert np.abs(np.diff(qdd, axis=0)).max() < 0.05 * np.abs(qdd).max(), "nor does the acceleration jump"
    np.testing.assert_allclose(q[round(lead * arm.rate)], arm.home, atol=1e-6)
    np.testing.assert_allclose(q[-1], arm.home - 0.1, atol=1e-9)
    assert loop.control.latch.level is Level.NOMINAL


def test_a_trajectory_with_times_before_its_start_does_not_make_the_reference_jump(arm: Arm) -> None:
    """Half of it would lie in the past: refused, or followed without a jump, but not entered in the middle."""
    control = step_of(arm)
    control.step(arm.home, rest_of(arm), 0.0)
    try:
        control.follow(move(arm, 0.4, duration=4.0, first=-2.0), 0.0)
    except ReferenceRefused:
        return
    wanted = control.step(arm.home, rest_of(arm), arm.period).desired
    assert np.abs(wanted.q - arm.home).max() <= START_TOLERANCE


def test_while_a_trajectory_waits_for_its_start_the_reference_is_consistent(loop: Loop) -> None:
    """Given in the middle of another motion, to start later: refused, or what is asked for stays a possible motion."""
    arm = loop.arm
    loop.run(0.05)
    loop.control.follow(move(arm, 0.3), loop.now)
    loop.run(1.0)
    now = loop.control.desired
    assert now is not None
    still = np.zeros((2, arm.dof))
    try:
        loop.control.follow(Trajectory(np.array([0.0, 2.0]), np.array([now.q, arm.home]), still, still), loop.now + 0.3)
    except ReferenceRefused:
        return
    wanted = [result.desired for result in loop.run(0.2)]
    moved = np.diff([desired.q for desired in wanted], axis=0)
    speed = np.array([desired.qd for desired in wanted[:-1]])
    np.testing.assert_allclose(moved, arm.period * speed, atol=1e-3)


def test_cancel_brings_the_reference_to_rest(loop: Loop) -> None:
    arm = loop.arm
    loop.run(0.05)
    loop.control.follow(move(arm, 0.3), loop.now)
    loop.run(1.0)
    before = loop.control.desired
    assert before is not None
    loop.control.cancel()
    results = loop.run(1.5)
    last = results[-1].desired
    assert not last.qd.any()
    assert np.abs(last.q - before.q).max() < 0.25
    assert np.abs(last.q - (arm.home + 0.3)).max() > 0.05, "not where the trajectory went"
    assert (last.q <= arm.upper).all()
    assert (last.q >= arm.lower).all()
    assert np.abs(loop.plant.measure()[0] - last.q).max() < 1e-3
    assert not loop.control.busy(loop.now)
    assert {result.level for result in results} == {Level.NOMINAL}


def test_a_trajectory_that_starts_at_another_speed_is_refused(arm: Arm) -> None:
    for share, fine in ((0.04, True), (0.06, False)):
        control = step_of(arm)
        control.step(arm.home, rest_of(arm), 0.0)
        q, qd = np.array([arm.home, arm.home]), np.zeros((2, arm.dof))
        qd[0, 1] = share * arm.velocity[1]
        trajectory = Trajectory(np.array([0.0, 1.0]), q, qd, np.zeros_like(q))
        if fine:
            control.follow(trajectory, 0.0)
        else:
            with pytest.raises(ReferenceRefused, match=f"starts with joint '{arm.joints[1]}' at {qd[0, 1]:.3f} rad/s"):
                control.follow(trajectory, 0.0)


def test_a_trajectory_that_started_long_ago_is_refused(arm: Arm) -> None:
    control = step_of(arm)
    control.step(arm.home, rest_of(arm), 10.0)
    with pytest.raises(ReferenceRefused, match=r"started 0\.200 s ago"):
        control.follow(move(arm, 0.1), 9.8)
    control.follow(move(arm, 0.1), 9.95)


def test_a_trajectory_may_wait_for_its_start_while_the_arm_rests(loop: Loop) -> None:
    loop.run(0.1)
    start = loop.now + 0.3
    loop.control.follow(move(loop.arm, 0.2), start)
    waiting = loop.run(0.3 - loop.arm.period)
    assert all(result.desired.q.tolist() == loop.arm.home.tolist() for result in waiting)
    loop.run(2.1)
    assert loop.control.desired is not None
    np.testing.assert_allclose(loop.control.desired.q, loop.arm.home + 0.2)


def test_a_step_may_be_given_its_own_timeout(arm: Arm) -> None:
    body = RigidBody(arm)
    control = ControlStep(arm, body, make_controller("pd", arm, body), state_timeout=1.0)
    control.step(arm.home, rest_of(arm), 0.0)
    assert control.step(arm.home, rest_of(arm), 0.9).level is Level.NOMINAL
    assert control.step(arm.home, rest_of(arm), 2.0).level is Level.STOP


def test_a_stamp_that_is_no_number_stops_the_arm(arm: Arm) -> None:
    control = step_of(arm, "pd")
    control.step(arm.home, rest_of(arm), 0.0)
    result = control.step(arm.home, rest_of(arm), float("nan"))
    assert result.level is Level.STOP
    assert result.torque is None
