"""The rigid-body model against sources of their own: DH tables, MuJoCo, finite differences and energy."""

import re
from collections.abc import Callable
from dataclasses import replace

import mujoco
import numpy as np
import pinocchio as pin
import pytest

from trimtab.arm import Arm, load_arm
from trimtab.dynamics import RigidBody
from trimtab.errors import ConfigError
from trimtab.plant import Plant, PlantGap
from trimtab.plant.model import build_model
from trimtab.typing import FloatArray

States = Callable[[Arm, int], list[tuple[FloatArray, FloatArray, FloatArray]]]
HALF = np.pi / 2.0

# The makers' standard DH tables: a [m], d [m], alpha [rad] of each joint, theta being the joint's angle.
UR5E_DH = {
    "a": [0.0, -0.425, -0.3922, 0.0, 0.0, 0.0],
    "d": [0.1625, 0.0, 0.0, 0.1333, 0.0997, 0.0996],
    "alpha": [HALF, 0.0, 0.0, HALF, -HALF, 0.0],
}
WAM_DH = {
    "a": [0.0, 0.0, 0.045, -0.045, 0.0, 0.0, 0.0],
    "d": [0.0, 0.0, 0.55, 0.0, 0.3, 0.0, 0.0609],
    "alpha": [-HALF, HALF, -HALF, HALF, -HALF, HALF, 0.0],
}


def dh_pose(table: dict[str, list[float]], q: FloatArray) -> FloatArray:
    """Homogeneous matrix of the last DH frame, Rz(theta) Tz(d) Tx(a) Rx(alpha) joint by joint."""
    pose = np.eye(4)
    for theta, a, d, alpha in zip(q, table["a"], table["d"], table["alpha"], strict=True):
        ct, st, ca, sa = np.cos(theta), np.sin(theta), np.cos(alpha), np.sin(alpha)
        pose = pose @ np.array(
            [[ct, -st * ca, st * sa, a * ct], [st, ct * ca, -ct * sa, a * st], [0.0, sa, ca, d], [0.0, 0.0, 0.0, 1.0]]
        )
    return pose


def assert_same_pose(pose: FloatArray, wanted: FloatArray) -> None:
    assert np.linalg.norm(pose[:3, 3] - wanted[:3, 3]) < 1e-9  # m
    assert np.linalg.norm(pose[:3, :3] - wanted[:3, :3]) / np.sqrt(2.0) < 1e-9  # rad, for a small angle


# --- kinematics ---------------------------------------------------------------------------------------------------------


def test_ur5e_is_the_makers_dh_table(random_states: States) -> None:
    arm = load_arm("ur5e")
    model = pin.buildModelFromXML(arm.urdf_xml)
    data = model.createData()
    base, tool = model.getFrameId("base"), model.getFrameId("tool0")
    for q, _, _ in random_states(arm, 1000):
        pin.framesForwardKinematics(model, data, q)
        assert_same_pose(data.oMf[base].actInv(data.oMf[tool]).homogeneous, dh_pose(UR5E_DH, q))


def test_ur5e_tool_pose_is_given_in_the_contracts_base_frame(random_states: States) -> None:
    """`base_link` looks the other way than the controller's `base`: half a turn about z."""
    arm = load_arm("ur5e")
    assert (arm.base_frame, arm.tool_frame) == ("base_link", "tool0")
    body = RigidBody(arm)
    for q, _, _ in random_states(arm, 50):
        assert_same_pose(body.tool_pose(q).homogeneous, np.diag([-1.0, -1.0, 1.0, 1.0]) @ dh_pose(UR5E_DH, q))


def test_wam_is_the_makers_dh_table(random_states: States) -> None:
    arm = load_arm("wam")
    assert (arm.base_frame, arm.tool_frame) == ("base_link", "tool0")
    body = RigidBody(arm)
    for q, _, _ in random_states(arm, 1000):
        assert_same_pose(body.tool_pose(q).homogeneous, dh_pose(WAM_DH, q))


def test_mujoco_puts_the_tool_where_pinocchio_does(
    arm: Arm, body: RigidBody, random_states: States, gap_of: Callable[..., PlantGap]
) -> None:
    plant = Plant(arm, gap_of(arm))
    for q, _, _ in random_states(arm, 50):
        plant.reset(q)
        base, tool = plant.data.body(arm.base_frame), plant.data.body(arm.tool_frame)
        rotation = base.xmat.reshape(3, 3)
        np.testing.assert_allclose(rotation.T @ (tool.xpos - base.xpos), body.tool_position(q), atol=1e-9)


def test_tool_path_is_the_tool_position_row_by_row(arm: Arm, body: RigidBody, random_states: States) -> None:
    postures = np.array([q for q, _, _ in random_states(arm, 5)])
    path = body.tool_path(postures)
    assert path.shape == (5, 3)
    for q, point in zip(postures, path, strict=True):
        assert point.tolist() == body.tool_pose(q).translation.tolist()
    assert body.tool_path(postures[:0]).shape == (0, 3)


def test_tool_jacobian_is_the_slope_of_the_tool_position(arm: Arm, body: RigidBody, random_states: States) -> None:
    step = 1e-6
    for q, _, _ in random_states(arm, 30):
        slope = [
            (body.tool_position(q + step * unit).copy() - body.tool_position(q - step * unit)) / (2.0 * step)
            for unit in np.eye(arm.dof)
        ]
        np.testing.assert_allclose(body.tool_jacobian(q), np.transpose(slope), atol=1e-8)


def test_tool_pose_and_jacobian_are_given_in_the_base_frame_wherever_the_arm_is_mounted(random_states: States) -> None:
    """The WAM's base leant over in the world: nothing changes as seen from the base, but gravity does."""
    arm = load_arm("wam")
    text, count = re.subn(r'(name="world_joint".*?rpy=)"[^"]*"', r'\1"0.3 -0.5 0.7"', arm.urdf_xml, count=1, flags=re.DOTALL)
    assert count == 1
    upright, leaning = RigidBody(arm), RigidBody(replace(arm, urdf_xml=text))
    for q, _, _ in random_states(arm, 20):
        assert_same_pose(leaning.tool_pose(q).homogeneous, upright.tool_pose(q).homogeneous)
        np.testing.assert_allclose(leaning.tool_jacobian(q), upright.tool_jacobian(q), atol=1e-12)
        assert np.abs(leaning.gravity(q) - upright.gravity(q)).max() > 1.0


# --- dynamics -----------------------------------------------------------------------------------------------------------


def test_mujoco_and_pinocchio_agree_on_the_inverse_dynamics(
    arm: Arm, body: RigidBody, random_states: States, gap_of: Callable[..., PlantGap]
) -> None:
    plant = Plant(arm, gap_of(arm))
    assert plant.model.nv == arm.dof
    for q, qd, qdd in random_states(arm, 200):
        plant.data.qpos[:], plant.data.qvel[:], plant.data.qacc[:] = q, qd, qdd
        mujoco.mj_inverse(plant.model, plant.data)
        torque = body.inverse_dynamics(q, qd, qdd)
        assert np.abs(plant.data.qfrc_inverse - torque).max() < 1e-6 * np.abs(torque).max()


def test_mass_matrix_is_symmetric_positive_and_made_of_rnea_columns(
    arm: Arm, body: RigidBody, random_states: States
) -> None:
    zero = np.zeros(arm.dof)
    for q, _, _ in random_states(arm, 50):
        matrix = body.mass_matrix(q)
        assert (matrix == matrix.T).all()
        assert np.linalg.eigvalsh(matrix).min() > 0.5 * arm.armature.min()
        columns = [body.inverse_dynamics_without_gravity(q, zero, unit).copy() for unit in np.eye(arm.dof)]
        np.testing.assert_allclose(matrix, np.transpose(columns), atol=1e-12 * np.abs(matrix).max())


def test_armature_is_on_the_diagonal(arm: Arm, body: RigidBody) -> None:
    heavier = RigidBody(replace(arm, armature=arm.armature + 0.1 * np.arange(1, arm.dof + 1)))
    added = heavier.mass_matrix(arm.home) - body.mass_matrix(arm.home)
    np.testing.assert_allclose(added, np.diag(0.1 * np.arange(1, arm.dof + 1)), atol=1e-12)


def test_inverse_dynamics_is_the_sum_of_its_parts(arm: Arm, body: RigidBody, random_states: States) -> None:
    for q, qd, qdd in random_states(arm, 50):
        inertia, coriolis = body.mass_matrix(q) @ qdd, body.coriolis_matrix(q, qd) @ qd
        gravity = body.gravity(q).copy()
        np.testing.assert_allclose(body.inverse_dynamics(q, qd, qdd), inertia + coriolis + gravity, atol=1e-9)
        np.testing.assert_allclose(body.inverse_dynamics_without_gravity(q, qd, qdd), inertia + coriolis, atol=1e-9)


def test_coriolis_matrix_is_christoffels(arm: Arm, body: RigidBody, random_states: States) -> None:
    """c_ij = sum over k of (dM_ij/dq_k + dM_ik/dq_j - dM_jk/dq_i) qd_k / 2, with the slopes of M by differences."""
    step = 1e-5
    for q, qd, _ in random_states(arm, 20):
        slope = np.array(
            [
                (body.mass_matrix(q + step * unit) - body.mass_matrix(q - step * unit)) / (2.0 * step)
                for unit in np.eye(arm.dof)
            ]
        )  # slope[k, i, j] = dM_ij / dq_k
        wanted = 0.5 * np.einsum("kij,k->ij", slope, qd)
        wanted += 0.5 * (np.einsum("jik,k->ij", slope, qd) - np.einsum("ijk,k->ij", slope, qd))
        np.testing.assert_allclose(body.coriolis_matrix(q, qd), wanted, atol=1e-7)


def test_rate_of_the_mass_matrix_less_twice_coriolis_is_skew(arm: Arm, body: RigidBody, random_states: States) -> None:
    step = 1e-6
    for q, qd, _ in random_states(arm, 20):
        rate = (body.mass_matrix(q + step * qd) - body.mass_matrix(q - step * qd)) / (2.0 * step)
        odd = rate - 2.0 * body.coriolis_matrix(q, qd)
        assert np.abs(odd + odd.T).max() < 1e-7


@pytest.mark.parametrize("owner", ["robot", "stack"])
def test_owned_torques_have_gravity_only_where_the_stack_owns_it(
    owner: str, arm: Arm, body: RigidBody, random_states: States, owned_by: Callable[[Arm, str], Arm]
) -> None:
    owned = RigidBody(owned_by(arm, owner))
    for q, qd, qdd in random_states(arm, 10):
        gravity = body.gravity(q).copy() if owner == "stack" else np.zeros(arm.dof)
        assert owned.owned_gravity(q).tolist() == gravity.tolist()
        moving = body.inverse_dynamics_without_gravity(q, qd, qdd)
        np.testing.assert_allclose(owned.owned_dynamics(q, qd, qdd), moving + gravity, atol=1e-9)


def test_slotine_li_regressor_is_what_a_payload_adds(arm: Arm, body: RigidBody, random_states: States) -> None:
    """Against pinocchio with the payload welded to the last link."""
    random = np.random.default_rng(3)
    for q, qd, qdd_ref in random_states(arm, 30):
        qd_ref = random.uniform(-arm.velocity, arm.velocity)
        spread = random.uniform(-0.1, 0.1, (4, 3))  # four points of mass make a possible inertia
        payload = sum((pin.Inertia(0.2 * arm.rated_payload, p, np.zeros((3, 3))) for p in spread), pin.Inertia.Zero())
        torque = []
        for added in (payload, pin.Inertia.Zero()):
            model = body.model.copy()
            model.inertias[model.njoints - 1] = model.inertias[model.njoints - 1] + added
            data = model.createData()
            coriolis = pin.computeCoriolisMatrix(model, data, q, qd) @ qd_ref
            torque.append(pin.rnea(model, data, q, np.zeros(arm.dof), qdd_ref).copy() + coriolis)
        regressor = body.slotine_li_regressor(q, qd, qd_ref, qdd_ref)
        assert regressor.shape == (arm.dof, 10)
        np.testing.assert_allclose(regressor @ payload.toDynamicParameters(), torque[0] - torque[1], atol=1e-9)


def test_a_joint_order_that_pinocchio_does_not_share_is_refused(ur5e: Arm) -> None:
    with pytest.raises(ConfigError, match=r"ur5e\.yaml: pinocchio orders the joints"):
        RigidBody(replace(ur5e, joints=ur5e.joints[::-1]))


# --- rest and energy ----------------------------------------------------------------------------------------------------


def test_gravity_torque_alone_keeps_the_arm_at_rest(
    arm: Arm, body: RigidBody, random_states: States, gap_of: Callable[..., PlantGap]
) -> None:
    """Zero torque where the robot owns gravity."""
    plant = Plant(arm, gap_of(arm))
    for posture in [arm.home, *(q for q, _, _ in random_states(arm, 5))]:
        plant.reset(posture)
        torque = body.gravity(posture).copy() if arm.actuator.stack_owns_gravity else np.zeros(arm.dof)
        for _ in range(round(arm.rate)):
            plant.step(torque)
        assert np.abs(plant.measure()[0] - posture).max() < 1e-9


def test_without_gravity_torque_the_arm_falls(arm: Arm, gap_of: Callable[..., PlantGap], owned_by: Callable) -> None:
    plant = Plant(owned_by(arm, "stack"), gap_of(arm))
    for _ in range(round(0.5 * arm.rate)):
        plant.step(np.zeros(arm.dof))
    assert np.abs(plant.measure()[0] - arm.home).max() > 0.05


def energy_drift(arm: Arm, body: RigidBody, gap: PlantGap, timestep: float, integrator: int | None) -> float:
    """Largest change of the energy in two seconds of free swinging, over the largest kinetic energy.

    The motion is MuJoCo's, the energy pinocchio's.
    """
    model = build_model(arm, gap, timestep)
    if integrator is not None:
        model.opt.integrator = integrator
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = arm.home, 0.2 * arm.velocity
    pinocchio_data = body.model.createData()
    energies = []
    for i in range(round(2.0 / timestep) + 1):
        if i % 10 == 0:
            kinetic = 0.5 * data.qvel @ body.mass_matrix(data.qpos) @ data.qvel
            energies.append((kinetic, pin.computePotentialEnergy(body.model, pinocchio_data, data.qpos)))
        mujoco.mj_step(model, data)
    kinetic, potential = np.transpose(energies)
    total = kinetic + potential
    assert kinetic.max() > 3.0 * kinetic[0], "the arm must really swing"
    return float(np.abs(total - total[0]).max() / kinetic.max())


def test_energy_is_kept_by_an_exact_integrator(arm: Arm, body: RigidBody, gap_of: Callable[..., PlantGap]) -> None:
    assert energy_drift(arm, body, gap_of(arm), 1e-3, mujoco.mjtIntegrator.mjINT_RK4) < 1e-6


def test_energy_drift_of_the_plants_integrator_is_small_and_shrinks(
    arm: Arm, body: RigidBody, gap_of: Callable[..., PlantGap]
) -> None:
    drift = [energy_drift(arm, body, gap_of(arm), timestep, None) for timestep in (1e-3, 2.5e-4)]
    assert drift[0] < 0.05
    assert drift[1] < 0.4 * drift[0]
