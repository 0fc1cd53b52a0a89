"""Each effect of a plant's gap does what its file says, in the arm's own units."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pinocchio as pin
import pytest
import yaml

from trimtab.arm import Arm
from trimtab.dynamics import RigidBody
from trimtab.errors import ConfigError
from trimtab.names import plant_names
from trimtab.plant import Plant, PlantGap, load_gap
from trimtab.plant.gap import Friction, Thermal
from trimtab.plant.model import PLAY_SUFFIX
from trimtab.plant.simulator import PAYLOAD_RADIUS
from trimtab.share import share_directory
from trimtab.typing import FloatArray

Gap = Callable[..., PlantGap]
Weightless = Callable[..., Plant]


def friction_of(arm: Arm, coulomb: float = 0.05, breakaway: float = 0.1, viscous: float = 0.0) -> Friction:
    """Shares of the torque limit; the Stribeck speed is 2 % of the velocity limit."""
    return Friction(coulomb * arm.torque, breakaway * arm.torque, 0.02 * arm.velocity, viscous * arm.torque / arm.velocity)


def unit(arm: Arm, i: int) -> FloatArray:
    return np.eye(arm.dof)[i]


# --- the bare plant -----------------------------------------------------------------------------------------------------


def test_time_goes_by_control_periods(arm: Arm, gap_of: Gap) -> None:
    plant = Plant(arm, gap_of(arm))
    assert plant.timestep <= 1e-3 + 1e-12
    assert plant.timestep * plant.substeps == pytest.approx(arm.period)
    assert plant.model.opt.timestep == plant.timestep
    for _ in range(10):
        plant.step(np.zeros(arm.dof))
    assert plant.time == pytest.approx(10 * arm.period)


def test_a_torque_gives_the_acceleration_of_the_model(
    arm: Arm, body: RigidBody, gap_of: Gap, weightless: Weightless
) -> None:
    plant = weightless(arm, gap_of(arm))
    torque = 0.05 * arm.torque * np.where(np.arange(arm.dof) % 2, 1.0, -1.0)
    plant.step(torque)
    speed = np.linalg.solve(body.mass_matrix(arm.home), torque) * arm.period
    np.testing.assert_allclose(plant.measure()[1], speed, atol=2e-2 * np.abs(speed).max())


def test_a_drive_gives_no_more_than_its_limit(arm: Arm, gap_of: Gap, weightless: Weightless) -> None:
    plants = [weightless(arm, gap_of(arm)) for _ in range(2)]
    for plant, torque in zip(plants, (arm.torque, 50.0 * arm.torque), strict=True):
        plant.step(torque)
    assert plants[0].measure()[1].tolist() == plants[1].measure()[1].tolist()
    assert plants[0].measure()[1].any()


def test_the_same_seed_gives_the_same_trace_also_after_a_reset(arm: Arm) -> None:
    def trace(plant: Plant) -> list[list[float]]:
        rows = []
        for i in range(100):
            rows.append(np.concatenate([*plant.measure(), plant.link_position]).tolist())
            plant.step(0.1 * arm.torque * np.sin(0.3 * i))
        return rows

    gap = load_gap("field", arm)
    plant = Plant(arm, gap, seed=3)
    first = trace(plant)
    plant.reset(arm.home)
    assert plant.time == 0.0
    assert trace(plant) == first
    assert trace(Plant(arm, gap, seed=3)) == first
    assert trace(Plant(arm, gap, seed=4)) != first


def test_the_robots_own_gravity_compensation_knows_no_payload(ur5e: Arm, gap_of: Gap) -> None:
    sag = []
    for mass in (0.0, 2.0):
        plant = Plant(ur5e, gap_of(ur5e, payload_mass=mass))
        for _ in range(100):
            plant.step(np.zeros(ur5e.dof))
        sag.append(np.abs(plant.measure()[0] - ur5e.home).max())
    assert sag[0] < 1e-9
    assert sag[1] > 1e-2


def test_the_robots_own_gravity_compensation_is_there_from_the_start(ur5e: Arm, gap_of: Gap) -> None:
    """A late drive is late with our commands; it does not drop the arm at power-up."""
    plant = Plant(ur5e, gap_of(ur5e, delay=0.01))
    for _ in range(500):
        plant.step(np.zeros(ur5e.dof))
    assert np.abs(plant.measure()[0] - ur5e.home).max() < 1e-6


# --- delay --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("periods", [1, 3])
def test_delay_shifts_the_response_by_the_stated_time(periods: int, arm: Arm, gap_of: Gap, weightless: Weightless) -> None:
    prompt, late = (weightless(arm, gap_of(arm, delay=delay)) for delay in (0.0, periods * arm.period))
    rows: list[list[FloatArray]] = [[], []]
    for i in range(60):
        torque = 0.1 * arm.torque * np.sin(0.2 * i + np.arange(arm.dof))
        for plant, trace in zip((prompt, late), rows, strict=True):
            trace.append(plant.measure()[0].copy())
            plant.step(torque)
    on_time, shifted = np.array(rows[0]), np.array(rows[1])
    np.testing.assert_allclose(shifted[periods:], on_time[:-periods], atol=1e-12)
    assert np.abs(shifted[: periods + 1] - arm.home).max() == 0.0
    assert np.abs(on_time[-1] - arm.home).min() > 1e-5, "each joint moved"


def test_delay_may_be_a_part_of_a_control_period(so101: Arm, gap_of: Gap, weightless: Weightless) -> None:
    plant = weightless(so101, gap_of(so101, delay=0.003))
    assert (plant.substeps, plant.timestep) == (5, pytest.approx(1e-3))
    plant.step(0.1 * so101.torque)
    full = weightless(so101, gap_of(so101))
    full.step(0.1 * so101.torque)
    np.testing.assert_allclose(plant.measure()[1], 0.4 * full.measure()[1], rtol=0.05)


def test_a_reset_empties_the_delay_line(so101: Arm, gap_of: Gap, weightless: Weightless) -> None:
    plant = weightless(so101, gap_of(so101, delay=0.01))
    plant.step(so101.torque)
    plant.reset(so101.home)
    for _ in range(5):
        plant.step(np.zeros(so101.dof))
    assert plant.measure()[0].tolist() == so101.home.tolist()


# --- backlash -----------------------------------------------------------------------------------------------------------


def test_the_link_lags_the_motor_by_no_more_than_the_play(arm: Arm, gap_of: Gap, weightless: Weightless) -> None:
    """Motors swing to and fro without gravity: links follow from one side of the play to the other."""
    play = 0.02
    plant = weightless(arm, gap_of(arm, backlash=play))
    frequency, amplitude = 2.0 * np.pi, 0.15
    lag, moved, relative_speed = [], [], []
    play_dofs = [plant.model.joint(name + PLAY_SUFFIX).dofadr[0] for name in arm.joints]
    for i in range(round(3.0 * arm.rate)):
        q, qd = plant.measure()
        lag.append(plant.link_position - q)
        moved.append(q - arm.home)
        relative_speed.append(plant.data.qvel[play_dofs].copy())
        target = arm.home + amplitude * np.sin(frequency * i * arm.period)
        plant.step(np.clip(arm.kp * (target - q) - 0.5 * arm.kd * qd, -arm.torque, arm.torque))
    played = np.array(lag)
    assert np.abs(moved).max(axis=0).min() > 0.03, "every motor moves"
    # The stop is as hard as the time step carries: a link that strikes it goes no deeper than it moves in one step.
    depth = np.abs(played).max(axis=0) - 0.5 * play
    assert (depth < np.abs(relative_speed).max(axis=0) * plant.timestep).all()
    # Once things swing, each link is on either side in turn: the reversal shows.
    assert played[len(played) // 3 :].max(axis=0).min() > 0.4 * play
    assert played[len(played) // 3 :].min(axis=0).max() < -0.4 * play


def test_within_the_play_a_motor_moves_without_its_link(arm: Arm, gap_of: Gap, weightless: Weightless) -> None:
    plant = weightless(arm, gap_of(arm, backlash=0.1))
    i = 0
    while np.abs(plant.measure()[0] - arm.home).max() < 0.03:
        plant.step(0.02 * arm.torque)
        i += 1
        assert i < arm.rate
    motion = plant.measure()[0] - arm.home
    joint = int(motion.argmax())
    assert abs(plant.link_position[joint] - arm.home[joint]) < 0.2 * motion[joint]


def test_backlash_needs_rotors(arm: Arm, gap_of: Gap) -> None:
    with pytest.raises(ConfigError, match=rf"{arm.name}\.yaml: backlash needs armature > 0"):
        Plant(replace(arm, armature=np.zeros(arm.dof)), gap_of(arm, backlash=0.01))


# --- friction -----------------------------------------------------------------------------------------------------------


def test_stiction_holds_below_breakaway_and_gives_above(arm: Arm, gap_of: Gap, weightless: Weightless) -> None:
    friction = load_gap("worn", arm).friction
    assert friction is not None
    plant = weightless(arm, gap_of(arm, friction=friction))
    for i, joint in enumerate(arm.joints):
        for share in (0.95, -0.95, 1.1, -1.1):
            plant.reset(arm.home)
            for _ in range(round(0.5 * arm.rate)):
                plant.step(share * friction.breakaway[i] * unit(arm, i))
            moved = np.sign(share) * (plant.measure()[0] - arm.home)[i]
            assert moved < 1e-3 if abs(share) < 1.0 else moved > 0.02, (joint, share, moved)


def test_a_moving_joint_feels_coulomb_and_not_breakaway(arm: Arm, gap_of: Gap, weightless: Weightless) -> None:
    """A torque between the two: at rest it moves nothing, at speed it speeds up; below Coulomb the joint comes to rest."""
    friction = friction_of(arm)
    last = arm.dof - 1
    speed = 0.3 * arm.velocity[last]
    for share, faster in ((1.3, True), (0.5, False)):
        plant = weightless(arm, gap_of(arm, friction=friction))
        plant.data.qvel[last] = speed
        for _ in range(round(0.1 * arm.rate)):
            plant.step(share * friction.coulomb[last] * unit(arm, last))
        assert bool(plant.measure()[1][last] > speed) is faster
        if not faster:
            for _ in range(round(2.0 * arm.rate)):
                plant.step(share * friction.coulomb[last] * unit(arm, last))
            assert abs(plant.measure()[1][last]) < 1e-3 * arm.velocity[last]


def test_coulomb_and_viscous_torque_keep_the_speed(arm: Arm, gap_of: Gap, weightless: Weightless) -> None:
    friction = friction_of(arm, viscous=0.2)
    last = arm.dof - 1
    for share in (0.4, -0.6):
        speed = share * arm.velocity[last]
        plant = weightless(arm, gap_of(arm, friction=friction))
        plant.data.qvel[last] = speed
        torque = np.sign(share) * friction.coulomb[last] + friction.viscous[last] * speed
        for _ in range(round(1.0 * arm.rate)):
            plant.step(torque * unit(arm, last))
        assert plant.measure()[1][last] == pytest.approx(speed, rel=0.02)


def test_friction_never_drives(arm: Arm, gap_of: Gap, weightless: Weightless) -> None:
    plant = weightless(arm, gap_of(arm, friction=friction_of(arm, viscous=0.05)))
    for _ in range(round(arm.rate)):
        plant.step(np.zeros(arm.dof))
    np.testing.assert_allclose(plant.measure()[0], arm.home, atol=1e-12)


# --- ripple and heat ----------------------------------------------------------------------------------------------------


def test_ripple_pushes_with_the_sine_of_the_position(arm: Arm, gap_of: Gap, weightless: Weightless) -> None:
    gap = gap_of(arm, ripple=0.01 * arm.torque, ripple_cycles=8.0)
    posture = arm.home + np.linspace(0.02, 0.1, arm.dof)
    ripple = gap.ripple * np.sin(8.0 * posture)
    plant = weightless(arm, gap)
    plant.reset(posture)
    for _ in range(50):
        plant.step(-ripple)
    np.testing.assert_allclose(plant.measure()[0], posture, atol=1e-9)
    bare = weightless(arm, gap_of(arm))
    for moved in (plant, bare):
        moved.reset(posture)
    plant.step(np.zeros(arm.dof))
    bare.step(ripple)
    np.testing.assert_allclose(plant.measure()[1], bare.measure()[1], rtol=1e-2, atol=1e-6)
    assert np.abs(bare.measure()[1]).min() > 1e-6


def test_a_warm_motor_gives_less(arm: Arm, gap_of: Gap, weightless: Weightless) -> None:
    thermal = Thermal(coefficient=0.002, time_constant=1e6, rise=0.0, initial=100.0)
    speeds = []
    for gap in (gap_of(arm), gap_of(arm, thermal=thermal)):
        plant = weightless(arm, gap)
        plant.step(0.01 * arm.torque)
        speeds.append(plant.measure()[1])
    np.testing.assert_allclose(speeds[1], 0.8 * speeds[0], rtol=1e-3)


def test_motors_warm_up_with_the_square_of_their_torque_and_cool_down(arm: Arm, gap_of: Gap, weightless: Weightless) -> None:
    thermal = Thermal(coefficient=0.0, time_constant=0.5, rise=80.0, initial=10.0)
    stuck = friction_of(arm, coulomb=2.0, breakaway=2.0)
    plant = weightless(arm, gap_of(arm, thermal=thermal, friction=stuck))
    assert plant.temperature_rise.tolist() == [10.0] * arm.dof
    share = np.linspace(0.2, 1.0, arm.dof)
    for _ in range(round(0.5 * arm.rate)):
        plant.step(share * arm.torque)
    end = 80.0 * share**2
    np.testing.assert_allclose(plant.temperature_rise, end + (10.0 - end) * np.exp(-1.0), rtol=0.01)
    for _ in range(round(5.0 * arm.rate)):
        plant.step(np.zeros(arm.dof))
    assert np.abs(plant.temperature_rise).max() < 0.01
    plant.reset(arm.home)
    assert plant.temperature_rise.tolist() == [10.0] * arm.dof


# --- sensors ------------------------------------------------------------------------------------------------------------


def test_positions_come_in_encoder_steps(arm: Arm, gap_of: Gap) -> None:
    step = 2.0 * np.pi / 1024
    plant = Plant(arm, gap_of(arm, encoder_step=step))
    for shift in np.linspace(0.0, 0.01, 20):
        plant.reset(arm.home + shift)
        q, _ = plant.measure()
        np.testing.assert_allclose(q / step, np.round(q / step), atol=1e-9)
        assert np.abs(q - plant.link_position).max() <= 0.5 * step + 1e-12
    seen = {plant.measure()[0][0] for shift in np.linspace(0.0, 5 * step, 100) if plant.reset(arm.home + shift) is None}
    assert 5 <= len(seen) <= 6


def test_velocity_noise_has_the_stated_spread_and_position_has_none(so101: Arm, gap_of: Gap) -> None:
    plant = Plant(so101, gap_of(so101, velocity_noise=0.05), seed=1)
    states = [plant.measure() for _ in range(4000)]
    speed = np.array([qd for _, qd in states])
    np.testing.assert_allclose(speed.std(axis=0), 0.05, rtol=0.05)
    np.testing.assert_allclose(speed.mean(axis=0), 0.0, atol=0.004)
    assert abs(np.corrcoef(speed[:-1, 0], speed[1:, 0])[0, 1]) < 0.06, "each measurement draws anew"
    assert abs(np.corrcoef(speed[:, 0], speed[:, 1])[0, 1]) < 0.06, "and so does each joint"
    assert all((q == so101.home).all() for q, _ in states)


def test_the_measured_state_does_not_change_afterwards(arm: Arm) -> None:
    for name in ("nominal", "field"):
        plant = Plant(arm, load_gap(name, arm))
        q, qd = plant.measure()
        link = plant.link_position
        before = [q.tolist(), qd.tolist(), link.tolist()]
        for _ in range(20):
            plant.step(0.2 * arm.torque)
        assert [q.tolist(), qd.tolist(), link.tolist()] == before


# --- payload and rotors -------------------------------------------------------------------------------------------------


def test_payload_is_a_steel_cube_at_the_tool(
    arm: Arm, body: RigidBody, gap_of: Gap, random_states: Callable[[Arm, int], list]
) -> None:
    """MuJoCo's plant against pinocchio with the same cube welded to the tool frame."""
    mass, offset = 0.4 * arm.rated_payload, np.array([0.01, -0.02, 0.05])
    plant = Plant(arm, gap_of(arm, payload_mass=mass, payload_offset=offset))
    edge = (mass / 7800.0) ** (1.0 / 3.0)
    model = body.model.copy()
    frame = model.frames[model.getFrameId(arm.tool_frame)]
    cube = pin.Inertia(mass, offset, mass * edge**2 / 6.0 * np.eye(3))
    model.inertias[frame.parentJoint] = model.inertias[frame.parentJoint] + frame.placement.act(cube)
    data = model.createData()
    for q, qd, qdd in random_states(arm, 20):
        plant.data.qpos[:], plant.data.qvel[:], plant.data.qacc[:] = q, qd, qdd
        mujoco.mj_inverse(plant.model, plant.data)
        torque = pin.rnea(model, data, q, qd, qdd)
        assert np.abs(plant.data.qfrc_inverse - torque).max() < 1e-6 * np.abs(torque).max()
        assert np.abs(body.inverse_dynamics(q, qd, qdd) - torque).max() > 1e-2 * np.abs(torque).max()


def test_rotors_are_as_much_heavier_as_the_file_says(arm: Arm, body: RigidBody, gap_of: Gap) -> None:
    plant = Plant(arm, gap_of(arm, armature_factor=1.35))
    matrix = np.zeros((arm.dof, arm.dof))
    mujoco.mj_fullM(plant.model, plant.data, matrix)
    np.testing.assert_allclose(matrix - body.mass_matrix(arm.home), np.diag(0.35 * arm.armature), atol=1e-9)


# --- files --------------------------------------------------------------------------------------------------------------


def test_the_nominal_plant_has_no_gap(arm: Arm) -> None:
    gap = load_gap("nominal", arm)
    assert (gap.friction, gap.thermal) == (None, None)
    assert (gap.payload_mass, gap.delay, gap.backlash, gap.encoder_step, gap.velocity_noise) == (0.0,) * 5
    assert gap.armature_factor == 1.0
    assert not gap.ripple.any()


def test_files_state_shares_of_the_arms_own_figures(arm: Arm, tmp_path: Path) -> None:
    document = {
        "plant": "mine",
        "description": "all of it",
        "friction": {"coulomb": 0.02, "breakaway_factor": 1.5, "stribeck_speed": 0.03, "viscous": 0.04},
        "payload": {"mass": 0.3, "offset": 0.05},
        "thermal": {"coefficient": 0.002, "time_constant": 60, "rise": 100, "initial": 20},
        "armature_factor": 1.2,
        "delay": 0.002,
        "backlash": 0.001,
        "ripple": {"amplitude": 0.01, "cycles": 24},
        "encoder_counts": 4096,
        "velocity_noise": 0.003,
    }
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(document))
    gap = load_gap(file, arm)
    assert gap.friction is not None
    np.testing.assert_allclose(gap.friction.coulomb, 0.02 * arm.torque)
    np.testing.assert_allclose(gap.friction.breakaway, 0.03 * arm.torque)
    np.testing.assert_allclose(gap.friction.stribeck_speed, 0.03 * arm.velocity)
    np.testing.assert_allclose(gap.friction.viscous * arm.velocity, 0.04 * arm.torque)
    assert gap.payload_mass == pytest.approx(0.3 * arm.rated_payload)
    assert gap.payload_offset.tolist() == [0.0, 0.0, 0.05]
    assert gap.thermal == Thermal(0.002, 60.0, 100.0, 20.0)
    np.testing.assert_allclose(gap.ripple, 0.01 * arm.torque)
    assert gap.encoder_step == pytest.approx(2.0 * np.pi / 4096)
    assert (gap.armature_factor, gap.delay, gap.backlash, gap.ripple_cycles, gap.velocity_noise) == (
        1.2,
        0.002,
        0.001,
        24,
        0.003,
    )


def test_every_plant_loads_for_every_arm(arm: Arm) -> None:
    for name in plant_names():
        gap = load_gap(name, arm)
        assert gap.name == name
        plant = Plant(arm, gap)
        for _ in range(5):
            plant.step(np.zeros(arm.dof))
        assert np.isfinite(plant.measure()).all()


BROKEN: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "name missing": (lambda d: d.pop("plant"), "plant is missing"),
    "description missing": (lambda d: d.pop("description"), "description is missing"),
    "field unknown": (lambda d: d.update(dely=0.1), "dely is not a known field"),
    "nested field missing": (lambda d: d["friction"].pop("viscous"), r"friction\.viscous is missing"),
    "nested field unknown": (lambda d: d["friction"].update(x=1), r"friction\.x is not a known field"),
    "payload field unknown": (lambda d: d["payload"].update(x=1), r"payload\.x is not a known field"),
    "thermal field unknown": (lambda d: d["thermal"].update(x=1), r"thermal\.x is not a known field"),
    "ripple field unknown": (lambda d: d["ripple"].update(x=1), r"ripple\.x is not a known field"),
    "mapping expected": (lambda d: d.update(friction=0.02), "friction must be a mapping, not float"),
    "number expected": (lambda d: d.update(backlash="little"), "backlash must be a finite number, not 'little'"),
    "nan": (lambda d: d["payload"].update(mass=float("nan")), r"payload\.mass must be a finite number"),
    "more than the rated payload": (lambda d: d["payload"].update(mass=1.1), r"payload\.mass must lie within \[0, 1\]"),
    "breakaway below Coulomb": (
        lambda d: d["friction"].update(breakaway_factor=0.9),
        r"friction\.breakaway_factor must lie",
    ),
    "negative delay": (lambda d: d.update(delay=-0.001), "delay must lie within"),
    "negative noise": (lambda d: d.update(velocity_noise=-1), "velocity_noise must lie within"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_plant_is_refused_by_file_and_field(case: str, so101: Arm, tmp_path: Path) -> None:
    document = yaml.safe_load((share_directory() / "config" / "plants" / "field.yaml").read_text())
    edit, text = BROKEN[case]
    edit(document)
    file = tmp_path / "broken.yaml"
    file.write_text(yaml.safe_dump(document))
    with pytest.raises(ConfigError) as refused:
        load_gap(file, so101)
    assert str(refused.value).startswith(f"{file}: ")
    assert re.search(text, str(refused.value)), refused.value


def test_an_unknown_plant_is_refused_with_the_known_ones(so101: Arm) -> None:
    with pytest.raises(ConfigError, match="unknown plant 'rusty'; known: field, hot, nominal, payload, worn"):
        load_gap("rusty", so101)


# --- changes while it moves ---------------------------------------------------------------------------------------------


def test_a_payload_taken_in_mid_motion_is_at_the_tool_and_can_be_dropped(
    arm: Arm, body: RigidBody, gap_of: Gap, random_states: Callable[[Arm, int], list]
) -> None:
    """MuJoCo's plant against pinocchio with the same ball at the tool frame."""
    mass = 0.4 * arm.rated_payload
    plant = Plant(arm, gap_of(arm))
    plant.data.qvel[:] = 0.1
    before = plant.data.qpos.copy(), plant.data.qvel.copy()
    plant.load(mass)
    assert (plant.data.qpos.tolist(), plant.data.qvel.tolist()) == (before[0].tolist(), before[1].tolist())
    model = body.model.copy()
    frame = model.frames[model.getFrameId(arm.tool_frame)]
    ball = pin.Inertia(mass, np.zeros(3), 0.4 * mass * PAYLOAD_RADIUS**2 * np.eye(3))
    model.inertias[frame.parentJoint] = model.inertias[frame.parentJoint] + frame.placement.act(ball)
    data = model.createData()

    def agrees(q: FloatArray, qd: FloatArray, qdd: FloatArray, torque: FloatArray) -> bool:
        plant.data.qpos[:], plant.data.qvel[:], plant.data.qacc[:] = q, qd, qdd
        mujoco.mj_inverse(plant.model, plant.data)
        return bool(np.abs(plant.data.qfrc_inverse - torque).max() < 1e-6 * np.abs(torque).max())

    states = random_states(arm, 5)
    assert all(agrees(*state, pin.rnea(model, data, *state)) for state in states)
    plant.load(-mass)
    assert all(agrees(*state, body.inverse_dynamics(*state)) for state in states)


def test_a_push_from_outside_acts_like_a_torque(arm: Arm, gap_of: Gap, weightless: Weightless) -> None:
    pushed, driven = (weightless(arm, gap_of(arm)) for _ in range(2))
    pushed.push = 0.05 * arm.torque
    pushed.step(np.zeros(arm.dof))
    driven.step(0.05 * arm.torque)
    np.testing.assert_allclose(pushed.measure()[1], driven.measure()[1], rtol=1e-9)


def test_weak_motors_give_their_share(arm: Arm, gap_of: Gap, weightless: Weightless) -> None:
    weak, well = (weightless(arm, gap_of(arm)) for _ in range(2))
    weak.strength = 0.8
    weak.step(0.05 * arm.torque)
    well.step(0.04 * arm.torque)
    np.testing.assert_allclose(weak.measure()[1], well.measure()[1], rtol=1e-9)


@pytest.mark.parametrize("delay", [0.0, 0.01])
def test_a_delay_can_grow_in_mid_motion(delay: float, so101: Arm, gap_of: Gap, weightless: Weightless) -> None:
    grown = weightless(so101, gap_of(so101, delay=delay))
    grown.lengthen_delay(0.02)
    longer = weightless(so101, gap_of(so101, delay=delay + 0.02))
    for i in range(30):
        for plant in (grown, longer):
            plant.step(0.1 * so101.torque * np.sin(0.3 * i))
    assert grown.measure()[0].tolist() == longer.measure()[0].tolist()


def test_friction_of_one_joint_can_grow_and_a_joint_can_jam(arm: Arm, gap_of: Gap, weightless: Weightless) -> None:
    last = arm.dof - 1
    friction = friction_of(arm, viscous=0.1)
    rows = []
    for factor in (1.0, 3.0):
        plant = weightless(arm, gap_of(arm, friction=friction))
        plant.scale_friction(last, factor)
        plant.data.qvel[last] = 0.5 * arm.velocity[last]
        torque = factor * (friction.coulomb[last] + friction.viscous[last] * 0.5 * arm.velocity[last])
        for _ in range(round(0.5 * arm.rate)):
            plant.step(torque * unit(arm, last))
        rows.append(plant.measure()[1][last])
    assert rows[1] == pytest.approx(rows[0], rel=0.02)
    for gap in (gap_of(arm, friction=friction), gap_of(arm)):
        plant = weightless(arm, gap)
        plant.jam(last)
        for _ in range(round(0.2 * arm.rate)):
            plant.step(arm.torque * unit(arm, last))
        assert abs(plant.measure()[0][last] - arm.home[last]) < 1e-3
