"""References: smooth between knots, refused whole when any instant breaks a limit, and drawn where they should be."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.arm import Arm
from trimtab.control import Desired
from trimtab.dynamics import RigidBody
from trimtab.errors import ConfigError, ReferenceRefused
from trimtab.names import REFERENCES
from trimtab.reference import Trajectory, check_trajectory, make_reference
from trimtab.reference.excitation import reach, waypoints
from trimtab.reference.ik import solve_position
from trimtab.reference.shapes import SHAPES, infinity, plum_blossom, shape_trajectory, smooth_phase
from trimtab.typing import FloatArray


def moderate(bound: float) -> st.SearchStrategy[float]:
    return st.floats(-bound, bound, allow_nan=False, allow_subnormal=False)


@st.composite
def trajectories(draw: Callable, min_knots: int = 2, uniform: bool | None = None) -> Trajectory:
    knots, dof = draw(st.integers(min_knots, 6)), draw(st.integers(1, 3))
    uniform = draw(st.booleans()) if uniform is None else uniform
    spans = [draw(st.floats(0.2, 2.0))] * (knots - 1) if uniform else [draw(st.floats(0.2, 2.0)) for _ in range(knots - 1)]
    t = draw(moderate(1.0)) + np.concatenate([[0.0], np.cumsum(spans)])

    def table(bound: float) -> FloatArray:
        return np.array([[draw(moderate(bound)) for _ in range(dof)] for _ in range(knots)])

    return Trajectory(t, table(3.0), table(2.0), table(5.0))


def line(arm: Arm, joint: int, target: float, duration: float) -> Trajectory:
    """One joint from home to a target, from rest to rest."""
    q = np.array([arm.home, arm.home])
    q[1, joint] = target
    return Trajectory(np.array([0.0, duration]), q, np.zeros_like(q), np.zeros_like(q))


# --- quintics -----------------------------------------------------------------------------------------------------------


@given(trajectories())
def test_passes_through_its_knots(trajectory: Trajectory) -> None:
    for i, t in enumerate(trajectory.t[:-1]):
        there = trajectory.at(float(t))
        np.testing.assert_allclose(there.q, trajectory.q[i], atol=1e-9)
        np.testing.assert_allclose(there.qd, trajectory.qd[i], atol=1e-8)
        np.testing.assert_allclose(there.qdd, trajectory.qdd[i], atol=1e-6)
    assert trajectory.at(trajectory.duration).q.tolist() == trajectory.q[-1].tolist()


@given(trajectories(min_knots=3))
def test_position_velocity_and_acceleration_are_continuous_at_knots(trajectory: Trajectory) -> None:
    for t in trajectory.t[1:-1]:
        before, after = trajectory.at(float(t) - 1e-9), trajectory.at(float(t) + 1e-9)
        np.testing.assert_allclose(before.q, after.q, atol=1e-7)
        np.testing.assert_allclose(before.qd, after.qd, atol=1e-5)
        np.testing.assert_allclose(before.qdd, after.qdd, atol=1e-3)


@given(trajectories(), st.floats(0.01, 0.99))
def test_velocity_and_acceleration_are_the_slopes(trajectory: Trajectory, share: float) -> None:
    t = float(trajectory.t[0] + share * (trajectory.t[-1] - trajectory.t[0]))
    step = 1e-6
    before, here, after = trajectory.at(t - step), trajectory.at(t), trajectory.at(t + step)
    np.testing.assert_allclose((after.q - before.q) / (2 * step), here.qd, atol=1e-5)
    np.testing.assert_allclose((after.qd - before.qd) / (2 * step), here.qdd, atol=2e-2)


@given(trajectories(min_knots=1), st.floats(1e-6, 100.0))
def test_rests_before_the_first_and_after_the_last_knot(trajectory: Trajectory, away: float) -> None:
    for t, q in ((trajectory.t[0] - away, trajectory.q[0]), (trajectory.t[-1] + away, trajectory.q[-1])):
        there = trajectory.at(float(t))
        assert there.q.tolist() == q.tolist()
        assert not there.qd.any()
        assert not there.qdd.any()


@given(trajectories())
def test_sample_is_at_for_many_times(trajectory: Trajectory) -> None:
    times = np.linspace(trajectory.t[0] - 0.1, trajectory.t[-1] + 0.1, 13)
    q, qd, qdd = trajectory.sample(times)
    for i, t in enumerate(times):
        there = trajectory.at(float(t))
        assert (q[i].tolist(), qd[i].tolist(), qdd[i].tolist()) == (there.q.tolist(), there.qd.tolist(), there.qdd.tolist())


@given(trajectories(), st.floats(0.1, 3.0), moderate(2.0), moderate(2.0), moderate(2.0))
def test_an_approach_joins_smoothly(trajectory: Trajectory, lead: float, q: float, qd: float, qdd: float) -> None:
    ones = np.ones(trajectory.dof)
    joined = trajectory.preceded_by(Desired(q * ones, qd * ones, qdd * ones), lead)
    first = joined.at(0.0)
    np.testing.assert_allclose([first.q, first.qd, first.qdd], [q * ones, qd * ones, qdd * ones], atol=1e-9)
    late = float(trajectory.t[0]) - lead
    for t in np.linspace(lead, joined.duration, 8)[1:-1]:
        there, wanted = joined.at(float(t)), trajectory.at(float(t) + late)
        np.testing.assert_allclose(there.q, wanted.q, atol=1e-6)
        np.testing.assert_allclose(there.qd, wanted.qd, atol=1e-4)
    assert joined.duration == pytest.approx(lead + trajectory.t[-1] - trajectory.t[0])


def test_an_approach_takes_time() -> None:
    trajectory = Trajectory(np.zeros(1), np.zeros((1, 2)), np.zeros((1, 2)), np.zeros((1, 2)))
    with pytest.raises(ReferenceRefused, match="positive duration"):
        trajectory.preceded_by(trajectory.at(0.0), 0.0)


def test_through_positions_alone_is_smooth_and_at_rest_at_both_ends() -> None:
    t = np.array([0.0, 1.0, 1.5, 3.0])
    q = np.array([[0.0, 1.0], [1.0, -1.0], [0.5, 0.0], [0.0, 2.0]])
    trajectory = Trajectory.through(t, q)
    assert trajectory.q.tolist() == q.tolist()
    np.testing.assert_allclose(trajectory.qd[[0, -1]], 0.0, atol=1e-12)
    positions = trajectory.sample(np.linspace(0.0, 3.0, 3001))[0]
    assert np.abs(np.diff(positions, axis=0)).max() < 0.01
    assert np.abs(positions).max() < 2.5, "no wild swings between the points"


def test_through_positions_and_velocities_keeps_both() -> None:
    t, q, qd = np.array([0.0, 0.7, 2.0]), np.array([[0.0], [1.0], [0.0]]), np.array([[0.0], [0.3], [0.0]])
    trajectory = Trajectory.through(t, q, qd)
    there = trajectory.at(0.7)
    assert (there.q[0], there.qd[0]) == (pytest.approx(1.0), pytest.approx(0.3))
    with pytest.raises(ReferenceRefused, match="one shape"):
        Trajectory.through(t, q, qd[:2])


def test_one_point_is_a_posture() -> None:
    trajectory = Trajectory.through(np.array([2.0]), np.array([[1.0, 2.0]]))
    assert trajectory.duration == 2.0
    assert trajectory.at(5.0).q.tolist() == [1.0, 2.0]


# --- refusals -----------------------------------------------------------------------------------------------------------


def _four(t: list[float], value: float = 0.0) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    q = np.zeros((len(t), 2))
    bent = q.copy()
    bent[-1, 0] = value
    return np.array(t), bent, q, q


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("which", range(4))
def test_not_finite_is_refused(bad: float, which: int) -> None:
    arrays = list(_four([0.0, 1.0]))
    arrays[which] = arrays[which].copy()
    arrays[which].flat[-1] = bad
    with pytest.raises(ReferenceRefused, match="not finite"):
        Trajectory(*arrays)
    if which < 2:
        with pytest.raises(ReferenceRefused, match="not finite"):
            Trajectory.through(arrays[0], arrays[1])


@pytest.mark.parametrize("t", [[0.0, 2.0, 1.0], [0.0, 1.0, 1.0]])
def test_times_that_do_not_increase_are_refused_by_their_point(t: list[float]) -> None:
    with pytest.raises(ReferenceRefused, match="times of a trajectory must increase; point 2 "):
        Trajectory(*_four(t))
    with pytest.raises(ReferenceRefused, match="times of a trajectory must increase; point 2 "):
        Trajectory.through(np.array(t), np.zeros((3, 2)))


def test_no_points_and_unlike_shapes_are_refused() -> None:
    with pytest.raises(ReferenceRefused, match="at least one point"):
        Trajectory(np.zeros(0), *[np.zeros((0, 2))] * 3)
    t, q, qd, qdd = _four([0.0, 1.0])
    for arrays in ((t, q[:1], qd, qdd), (t, q, qd[:, :1], qdd), (t[:1], q, qd, qdd), (t, q, qd, qdd[:1])):
        with pytest.raises(ReferenceRefused, match="one shape"):
            Trajectory(*arrays)


def test_wrong_number_of_joints_is_refused(arm: Arm) -> None:
    q = np.zeros((2, arm.dof + 1))
    with pytest.raises(ReferenceRefused, match=f"the trajectory has {arm.dof + 1} joints, {arm.name} has {arm.dof}"):
        check_trajectory(arm, Trajectory(np.array([0.0, 1.0]), q, q, q))


def test_positions_beyond_a_limit_are_refused_with_joint_value_and_limit(arm: Arm) -> None:
    for i, joint in enumerate(arm.joints):
        for limit, side, beyond in ((arm.upper[i], "upper", 1e-3), (arm.lower[i], "lower", -1e-3)):
            check_trajectory(arm, line(arm, i, limit, 60.0))
            with pytest.raises(ReferenceRefused) as refused:
                check_trajectory(arm, line(arm, i, limit + beyond, 60.0))
            for part in (f"'{joint}'", f"{limit + beyond:.4f}", side, f"{limit:.4f}"):
                assert part in str(refused.value)


def test_speeds_beyond_the_limit_are_refused_with_joint_value_and_limit(arm: Arm) -> None:
    for i, joint in enumerate(arm.joints):
        way = 0.5 * (arm.upper[i] - arm.home[i])
        duration = way * 15.0 / 8.0 / arm.velocity[i]  # a rest-to-rest quintic peaks at 15/8 of its mean speed
        check_trajectory(arm, line(arm, i, arm.home[i] + way, duration * 1.001))
        with pytest.raises(ReferenceRefused) as refused:
            check_trajectory(arm, line(arm, i, arm.home[i] + way, duration / 1.01))
        for part in (f"'{joint}'", f"{arm.velocity[i] * 1.01:.4f} rad/s", f"{arm.velocity[i]:.4f}"):
            assert part in str(refused.value)


def test_overshoot_between_knots_is_caught(arm: Arm) -> None:
    """Both knots and their velocities are within the limits, the curve between them is not."""
    for i in range(arm.dof):
        q = np.array([arm.home, arm.home])
        q[:, i] = arm.upper[i] - 0.01
        qd = np.zeros_like(q)
        qd[:, i] = 0.3, -0.3
        with pytest.raises(ReferenceRefused, match=f"'{arm.joints[i]}' .* upper limit"):
            check_trajectory(arm, Trajectory(np.array([0.0, 1.0]), q, qd, np.zeros_like(q)))
        q[:, i] = arm.home[i]
        qdd = np.zeros_like(q)
        qdd[:, i] = 40.0 * arm.velocity[i], -40.0 * arm.velocity[i]
        with pytest.raises(ReferenceRefused, match=f"'{arm.joints[i]}' .* velocity limit"):
            check_trajectory(arm, Trajectory(np.array([0.0, 0.5]), q, np.zeros_like(q), qdd))


@settings(max_examples=60)
@given(moderate(2.0), moderate(2.0), moderate(1.0), moderate(1.0), st.floats(0.5, 5.0))
def test_what_is_accepted_breaks_no_limit_at_any_instant(
    so101: Arm, start: float, end: float, v0: float, v1: float, duration: float
) -> None:
    """The limits are set to what the curve reaches less a thousandth of its way: too little room, so it must be refused."""
    q, qd = np.tile(so101.home, (2, 1)), np.zeros((2, so101.dof))
    q[:, 2], qd[:, 2] = (start, end), (v0, v1)
    trajectory = Trajectory(np.array([0.0, duration]), q, qd, np.zeros_like(q))
    position, speed, _ = (rows[:, 2] for rows in trajectory.sample(np.linspace(0.0, duration, 401)))
    way = position.max() - position.min()
    if way > 1e-3:
        tight = np.array(so101.upper)
        tight[2] = position.max() - 1e-3 * way
        with pytest.raises(ReferenceRefused, match=r"'elbow_flex' .* upper limit"):
            check_trajectory(
                replace(so101, lower=so101.lower - 9.0, upper=tight, velocity=so101.velocity + 99.0), trajectory
            )
    if np.abs(speed).max() > 1e-3:
        slow = np.array(so101.velocity)
        slow[2] = (1.0 - 1e-3) * np.abs(speed).max()
        with pytest.raises(ReferenceRefused, match=r"'elbow_flex' .* velocity limit"):
            check_trajectory(replace(so101, lower=so101.lower - 9.0, upper=so101.upper + 9.0, velocity=slow), trajectory)


# --- the catalogue ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REFERENCES)
def test_every_reference_suits_every_arm(name: str, arm: Arm, body: RigidBody) -> None:
    trajectory = make_reference(name, body, 10.0)
    check_trajectory(arm, trajectory)
    assert trajectory.t[0] == 0.0
    assert 5.0 < trajectory.duration <= 10.0
    q, qd, _ = trajectory.sample(np.arange(0.0, trajectory.duration, 1e-3))
    assert (q >= arm.lower - 1e-9).all()
    assert (q <= arm.upper + 1e-9).all()
    assert (np.abs(qd) <= arm.velocity + 1e-9).all()
    np.testing.assert_allclose(q[0], arm.home, atol=1e-6)
    np.testing.assert_allclose(trajectory.q[-1], arm.home, atol=0.05)
    np.testing.assert_allclose(trajectory.qd[[0, -1]], 0.0, atol=1e-6)
    assert np.abs(np.diff(q, axis=0)).max() < 1.01e-3 * arm.velocity.max(), "no jumps"
    assert np.ptp(q, axis=0).max() > 0.2, "the arm really moves"


@pytest.mark.parametrize("name", REFERENCES)
def test_no_reference_drives_the_tool_into_the_floor(name: str, arm: Arm, body: RigidBody) -> None:
    trajectory = make_reference(name, body, 10.0)
    q, _, _ = trajectory.sample(np.arange(0.0, trajectory.duration, 0.02))
    pose = body.model.createData()
    tool = body.model.getFrameId(arm.tool_frame)
    for row in q:
        pin.framesForwardKinematics(body.model, pose, row)
        assert pose.oMf[tool].translation[2] > 0.0


@pytest.mark.parametrize("name", ["sweep", "chirp", "reach"])
def test_joint_space_references_move_every_joint_both_ways(name: str, arm: Arm, body: RigidBody) -> None:
    _, qd, _ = make_reference(name, body, 10.0).sample(np.arange(0.0, 10.0, 1e-2))
    for speed, limit in zip(qd.T, arm.velocity, strict=True):
        assert speed.max() > 0.05 * limit
        assert speed.min() < -0.05 * limit


@pytest.mark.parametrize("duration", [1.0, 0.0, -3.0, float("nan"), float("inf")])
def test_a_duration_that_makes_no_sense_is_refused(duration: float, so101: Arm) -> None:
    with pytest.raises(ConfigError, match="a reference takes"):
        make_reference("sweep", RigidBody(so101), duration)


def test_unknown_reference_is_refused_with_the_known_ones(so101: Arm) -> None:
    with pytest.raises(ConfigError, match=f"unknown reference 'plumb'; known: {', '.join(REFERENCES)}"):
        make_reference("plumb", RigidBody(so101), 10.0)


def test_a_reference_too_fast_for_the_arm_is_refused(arm: Arm, body: RigidBody) -> None:
    with pytest.raises(ReferenceRefused, match="velocity limit"):
        make_reference("plum", RigidBody(replace(arm, velocity=0.1 * arm.velocity)), 3.0)


def test_waypoints_keep_their_speed_and_rest_at_each(arm: Arm) -> None:
    postures = np.array([arm.home, arm.home + 0.2, arm.home - 0.1])
    trajectory = waypoints(arm, postures, speed=0.5)
    _, qd, _ = trajectory.sample(np.linspace(0.0, trajectory.duration, 20001))
    assert (np.abs(qd) / arm.velocity).max() == pytest.approx(0.5, rel=1e-3)
    visited = [posture for posture in postures if (np.abs(trajectory.q - posture).max(axis=1) < 1e-12).any()]
    assert len(visited) == 3


def test_reach_is_told_by_its_seed(arm: Arm) -> None:
    first, again, other = reach(arm, 10.0, seed=1), reach(arm, 10.0, seed=1), reach(arm, 10.0, seed=2)
    assert first.q.tolist() == again.q.tolist()
    assert first.q.tolist() != other.q.tolist()


# --- shapes and inverse kinematics --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_shapes_start_at_home_and_close(name: str, arm: Arm, body: RigidBody) -> None:
    size = 0.05
    trajectory = shape_trajectory(body, SHAPES[name], size, 8.0, laps=1)
    np.testing.assert_allclose(trajectory.q[0], arm.home, atol=1e-6)
    path = body.tool_path(trajectory.q)
    assert np.linalg.norm(path[-1] - path[0]) < 1e-6
    # All points lie in one plane, and the farthest two are two sizes apart or a little less (the plum's petals are odd).
    centred = path - path.mean(axis=0)
    assert np.linalg.svd(centred, compute_uv=False)[2] < 1e-5
    across = np.linalg.norm(path[:, None] - path[None], axis=2).max()
    assert 1.8 * size < across < 2.0 * size + 1e-6


def test_shapes_are_followed_between_knots(arm: Arm, body: RigidBody) -> None:
    """The tool stays on the drawn curve, not only at the knots."""
    coarse = make_reference("plum", body, 10.0)
    q, _, _ = coarse.sample(coarse.t[:-1] + 0.5 * np.diff(coarse.t))
    middle = body.tool_path(q)
    knots = body.tool_path(coarse.q)
    chord = 0.5 * (knots[:-1] + knots[1:])
    step = np.linalg.norm(np.diff(knots, axis=0), axis=1)
    assert (np.linalg.norm(middle - chord, axis=1) < 1e-5 + 0.2 * step).all()


def test_plum_has_five_petals() -> None:
    radius = np.linalg.norm(plum_blossom(np.linspace(0.0, 1.0, 1001)), axis=1)
    assert radius.max() == pytest.approx(1.0)
    assert radius.min() == pytest.approx(0.4, abs=1e-3)
    tops = np.flatnonzero((radius[1:-1] > radius[:-2]) & (radius[1:-1] >= radius[2:]))
    assert len(tops) == 4, "and the fifth where the lap starts and ends"


def test_infinity_crosses_itself_in_its_centre() -> None:
    curve = infinity(np.linspace(0.0, 1.0, 1001))
    np.testing.assert_allclose(curve[[250, 750]], 0.0, atol=1e-12)
    assert np.linalg.norm(curve, axis=1).max() == pytest.approx(1.0)


@given(st.floats(1.5, 60.0), st.integers(1, 4))
def test_phase_rises_from_rest_to_rest(duration: float, laps: int) -> None:
    t = np.linspace(0.0, duration, 4001)
    phase = smooth_phase(t, duration, laps)
    assert phase[0] == 0.0
    assert phase[-1] == pytest.approx(laps)
    assert (np.diff(phase) >= -1e-12).all()
    speed = np.gradient(phase, t)
    assert max(speed[0], speed[-1]) < 1e-3 * speed.max()
    assert np.abs(np.diff(speed)).max() < 0.02 * speed.max(), "no jump of the speed"


def test_inverse_kinematics_reaches_what_can_be_reached(arm: Arm, body: RigidBody) -> None:
    random = np.random.default_rng(5)
    for _ in range(40):
        there = np.clip(arm.home + random.uniform(-0.4, 0.4, arm.dof), arm.lower, arm.upper)
        target = body.tool_position(there).copy()
        q = solve_position(body, target, arm.home)
        assert np.linalg.norm(body.tool_position(q) - target) < 1e-6
        assert (q >= arm.lower).all()
        assert (q <= arm.upper).all()


def test_inverse_kinematics_stays_where_it_is_when_there_already(arm: Arm, body: RigidBody) -> None:
    target = body.tool_position(arm.home).copy()
    assert solve_position(body, target, arm.home).tolist() == arm.home.tolist()


def test_inverse_kinematics_refuses_a_point_out_of_reach(arm: Arm, body: RigidBody) -> None:
    with pytest.raises(
        ReferenceRefused, match=rf"{arm.name} cannot put its tool at \(5\.000, 0\.000, 1\.000\) m .* mm are left"
    ):
        solve_position(body, np.array([5.0, 0.0, 1.0]), arm.home)


def test_inverse_kinematics_refuses_a_point_beyond_the_joint_limits(arm: Arm, body: RigidBody) -> None:
    target = body.tool_position(arm.home + 0.2).copy()
    narrow = RigidBody(replace(arm, lower=arm.home - 0.01, upper=arm.home + 0.01))
    with pytest.raises(ReferenceRefused, match="within its joint limits"):
        solve_position(narrow, target, arm.home)
    assert np.linalg.norm(body.tool_position(solve_position(body, target, arm.home)) - target) < 1e-6
