"""Every arm on every plant under every controller, and that a run can be repeated bit for bit."""

from collections.abc import Callable

import numpy as np
import pytest

from trimtab import timing
from trimtab.arm import Arm, load_arm
from trimtab.control.friction import FrictionModel
from trimtab.dynamics import RigidBody
from trimtab.errors import ConfigError
from trimtab.faults import Level
from trimtab.metrics import Score, score
from trimtab.names import arm_names, plant_names
from trimtab.plant import Plant, PlantGap, load_gap
from trimtab.reference import Trajectory, make_reference
from trimtab.runlog import RunLog
from trimtab.simulate import SETTLE, State, friction_for, identify_friction, simulate, steps_of
from trimtab.timing import Stage, spreads_of

CONTROLLERS = (
    "pd",
    "computed_torque",
    "integral",
    "friction",
    "observer",
    "adaptive",
    "friction+adaptive+observer",
)
GAPS = tuple(name for name in plant_names() if name != "nominal")


class Bench:
    """Runs each arm, plant and controller once and keeps the scores; so are the identified friction models."""

    def __init__(self) -> None:
        self._arms: dict[str, tuple[Arm, RigidBody, Trajectory]] = {}
        self._friction: dict[tuple[str, str], FrictionModel] = {}
        self._scores: dict[tuple[str, str, str], Score] = {}

    def arm(self, name: str) -> tuple[Arm, RigidBody, Trajectory]:
        if name not in self._arms:
            body = RigidBody(load_arm(name))
            self._arms[name] = body.arm, body, make_reference("plum", body, 6.0)
        return self._arms[name]

    def run(self, arm_name: str, plant: str, controller: str, seed: int = 0) -> RunLog:
        arm, _, trajectory = self.arm(arm_name)
        gap = load_gap(plant, arm)
        if "friction" in controller and (arm_name, plant) not in self._friction:
            self._friction[arm_name, plant] = identify_friction(arm, gap)
        friction = self._friction.get((arm_name, plant))
        return simulate(arm, gap, controller, trajectory, reference="plum", seed=seed, friction=friction)

    def score(self, arm_name: str, plant: str, controller: str) -> Score:
        key = (arm_name, plant, controller)
        if key not in self._scores:
            arm, body, _ = self.arm(arm_name)
            self._scores[key] = score(self.run(*key), arm, body)
        return self._scores[key]


@pytest.fixture(scope="session")
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize("controller", CONTROLLERS)
@pytest.mark.parametrize("plant", plant_names())
@pytest.mark.parametrize("name", arm_names())
def test_no_fault_and_bounded_errors(bench: Bench, name: str, plant: str, controller: str) -> None:
    result = bench.score(name, plant, controller)
    assert result.fault is None
    assert result.rmse < 0.06  # rad; a controller that does nothing leaves ten times as much
    assert result.max_error < 0.25
    assert result.roughness < 0.01  # of the torque limit from step to step; chatter has several times that
    assert result.limited == 0.0
    assert all(joint.over_velocity == 0.0 for joint in result.joints)


@pytest.mark.parametrize("controller", ["observer", "adaptive", "adaptive+observer"])
@pytest.mark.parametrize("duration", [5.25, 5.5, 5.75])
@pytest.mark.parametrize("name", arm_names())
def test_no_chatter_when_the_reference_is_a_little_faster(bench: Bench, name: str, duration: float, controller: str) -> None:
    """Delay, play and noise together: where a margin is thin, some speeds start a limit cycle and others do not."""
    arm, body, _ = bench.arm(name)
    result = score(simulate(arm, load_gap("field", arm), controller, make_reference("plum", body, duration)), arm, body)
    assert result.fault is None
    assert result.roughness < 0.015


@pytest.mark.parametrize("name", arm_names())
def test_without_a_gap_computed_torque_tracks_to_a_milliradian(bench: Bench, name: str) -> None:
    result = bench.score(name, "nominal", "computed_torque")
    assert result.rmse < 1e-3
    assert result.settling_time == 0.0
    assert result.tool_rmse < 1e-3


@pytest.mark.parametrize("plant", GAPS)
@pytest.mark.parametrize("name", arm_names())
def test_a_gap_makes_computed_torque_at_least_five_times_worse(bench: Bench, name: str, plant: str) -> None:
    assert bench.score(name, plant, "computed_torque").rmse > 5.0 * bench.score(name, "nominal", "computed_torque").rmse


@pytest.mark.parametrize("controller", ["friction", "observer", "adaptive", "friction+adaptive+observer"])
@pytest.mark.parametrize("name", arm_names())
def test_compensation_beats_computed_torque_on_a_worn_arm(bench: Bench, name: str, controller: str) -> None:
    assert bench.score(name, "worn", controller).rmse < 0.7 * bench.score(name, "worn", "computed_torque").rmse


@pytest.mark.parametrize("controller", ["integral", "observer", "adaptive"])
@pytest.mark.parametrize("name", arm_names())
def test_compensation_beats_computed_torque_under_a_payload(bench: Bench, name: str, controller: str) -> None:
    assert bench.score(name, "payload", controller).rmse < 0.75 * bench.score(name, "payload", "computed_torque").rmse


@pytest.mark.parametrize("controller", ["integral", "friction", "observer", "adaptive", "friction+adaptive+observer"])
@pytest.mark.parametrize("name", arm_names())
def test_compensation_does_no_harm_where_nothing_is_to_compensate(bench: Bench, name: str, controller: str) -> None:
    """What it adds to an error of a tenth of a milliradian is judged by what the mildest gap would cost without it."""
    added = bench.score(name, "nominal", controller).rmse - bench.score(name, "nominal", "computed_torque").rmse
    assert added < 0.01 * min(bench.score(name, plant, "computed_torque").rmse for plant in GAPS)


ARRAYS = ("t", "q", "qd", "q_link", "q_des", "qd_des", "torque", "limited")


@pytest.mark.parametrize("name", arm_names())
def test_the_same_seed_gives_the_same_trace_bit_for_bit(bench: Bench, name: str) -> None:
    first, again, other = (bench.run(name, "field", "observer", seed) for seed in (5, 5, 6))
    for array in ARRAYS:
        assert getattr(first, array).tobytes() == getattr(again, array).tobytes(), array
    assert first.qd.tobytes() != other.qd.tobytes()
    assert first.torque.tobytes() != other.torque.tobytes()
    assert first.q_des.tobytes() == other.q_des.tobytes()


def test_identification_can_be_repeated(so101: Arm) -> None:
    gap = load_gap("worn", so101)
    first, again = identify_friction(so101, gap), identify_friction(so101, gap)
    assert first.coulomb.tolist() == again.coulomb.tolist()
    assert first.inertia.tolist() == again.inertia.tolist()


def test_friction_is_identified_only_for_those_who_ask(so101: Arm) -> None:
    gap = load_gap("worn", so101)
    assert friction_for(["pd", "observer"], so101, gap) is None
    assert friction_for(["pd", "adaptive+friction"], so101, gap) is not None
    with pytest.raises(ConfigError, match="needs an identified friction model"):
        simulate(so101, gap, "friction", make_reference("reach", RigidBody(so101), 3.0))


def test_a_log_says_what_was_run_and_has_a_row_per_period(
    arm: Arm, body: RigidBody, gap_of: Callable[..., PlantGap]
) -> None:
    trajectory = make_reference("reach", body, 3.0)
    done: list[int] = []
    log = simulate(arm, gap_of(arm), "pd", trajectory, reference="reach", seed=9, progress=done.append)
    assert (log.arm, log.plant, log.reference, log.controller, log.seed) == (arm.name, "nominal", "reach", "pd", 9)
    assert log.joints == arm.joints
    count = round((trajectory.duration + SETTLE) * arm.rate)
    assert steps_of(arm, trajectory) == count
    assert log.t.shape == log.limited.shape == (count,)
    assert all(getattr(log, name).shape == (count, arm.dof) for name in ARRAYS[1:-1])
    assert 0.95 * count < sum(done) <= count
    np.testing.assert_allclose(np.diff(log.t), arm.period)
    wanted, speed, _ = trajectory.sample(log.t)
    np.testing.assert_allclose(log.q_des, wanted, atol=1e-9)
    np.testing.assert_allclose(log.qd_des, speed, atol=1e-9)
    np.testing.assert_allclose(log.q, log.q_link)
    assert np.isfinite(log.torque).all()


def test_every_period_of_a_run_is_timed_by_stage(arm: Arm, body: RigidBody, gap_of: Callable[..., PlantGap]) -> None:
    trajectory = make_reference("reach", body, 3.0)
    log = simulate(arm, gap_of(arm), "pd", trajectory)
    assert log.times is not None
    assert log.times.shape == (steps_of(arm, trajectory), len(Stage) + 1)
    assert set(spreads_of(log.times)) == {"read", "controller", "filter", "write", "publish", "cycle"}
    for stage in set(Stage) - {Stage.RESIDUAL}:
        assert (log.times[1:, stage] > 0.0).all(), stage


def test_a_fault_on_purpose_and_the_physics_are_not_timed(
    arm: Arm, body: RigidBody, gap_of: Callable[..., PlantGap], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock moves only in what an event or the plant does: no stage may have noticed."""
    now = [0]

    class Slow:
        def on_plant(self, plant: Plant, t: float) -> None:
            now[0] += 10**6

        def on_state(self, state: State) -> State | None:
            now[0] += 10**6
            return state if round(state[2] * arm.rate) % 50 else None

    def step(self: Plant, torque: np.ndarray) -> None:
        now[0] += 10**6

    monkeypatch.setattr(timing, "perf_counter_ns", lambda: now[0])
    monkeypatch.setattr(Plant, "step", step)
    log = simulate(arm, gap_of(arm), "pd", make_reference("reach", body, 3.0), events=Slow())
    assert log.times is not None
    assert len(log.times) > 500
    assert not log.times.any()


def test_a_run_that_trips_ends_with_its_fault_in_the_log(arm: Arm, body: RigidBody, gap_of: Callable[..., PlantGap]) -> None:
    """A payload so heavy that joint PD cannot follow."""
    gap = gap_of(arm, payload_mass=15.0 * arm.rated_payload)
    log = simulate(arm, gap, "pd", make_reference("plum", body, 6.0))
    assert log.fault is not None
    assert log.fault.level >= Level.HOLD
    assert len(log.t) == steps_of(arm, log.trajectory)
    assert score(log, arm, body).fault is not None
