"""The friction model: its file, and its identification from a log."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trimtab.arm import Arm, load_arm
from trimtab.control.friction import MIN_ROWS, FrictionModel, fit_friction, load_friction
from trimtab.dynamics import RigidBody
from trimtab.errors import ConfigError, LogError
from trimtab.plant import load_gap
from trimtab.reference import make_reference
from trimtab.simulate import identify_friction
from trimtab.typing import FloatArray

KEYS = ("coulomb", "viscous", "speed", "inertia", "offset")


def model_of(arm: Arm) -> FrictionModel:
    share = 0.03 * arm.torque
    return FrictionModel(
        joints=arm.joints,
        coulomb=share,
        viscous=1.5 * share / arm.velocity,
        speed=0.02 * arm.velocity,
        inertia=0.2 * arm.armature,
        offset=0.2 * share * np.where(np.arange(arm.dof) % 2, 1.0, -1.0),
    )


@dataclass
class Log:
    """What a perfect arm with a known friction would have recorded."""

    t: FloatArray
    q: FloatArray
    qd: FloatArray
    torque: FloatArray


@pytest.fixture(scope="session")
def record() -> Callable[[Arm, RigidBody, FrictionModel], Log]:
    def make(arm: Arm, body: RigidBody, model: FrictionModel) -> Log:
        t = np.arange(0.0, 12.0, arm.period)
        q, qd, qdd = make_reference("sweep", body, 12.0).sample(t)
        rigid = np.array([body.owned_dynamics(*row).copy() for row in zip(q, qd, qdd, strict=True)])
        return Log(t, q, qd, rigid + model.torque(qd, qdd))

    return make


# --- the model and its file ---------------------------------------------------------------------------------------------


def test_torque_opposes_motion_in_either_direction(arm: Arm) -> None:
    model = model_of(arm)
    qd, zero = 0.5 * arm.velocity, np.zeros(arm.dof)
    np.testing.assert_allclose(
        model.torque(qd, zero) + model.torque(-qd, zero), 2.0 * model.offset, atol=1e-12 * arm.torque.max()
    )
    np.testing.assert_allclose(model.torque(qd, zero) - model.offset, model.coulomb + model.viscous * qd, rtol=1e-6)
    np.testing.assert_allclose(model.torque(zero, np.ones(arm.dof)), model.inertia + model.offset)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.data())
def test_what_is_saved_is_loaded(tmp_path: Path, so101: Arm, data: st.DataObject) -> None:
    number = st.floats(-1e9, 1e9)
    columns = {
        key: np.array(data.draw(st.lists(st.floats(1e-9, 1e3) if key == "speed" else number, min_size=5, max_size=5)))
        for key in KEYS
    }
    file = tmp_path / "friction.yaml"
    FrictionModel(so101.joints, **columns).save(file, "so101", "a test")
    loaded = load_friction(file, so101)
    assert loaded.joints == so101.joints
    for key in KEYS:
        assert getattr(loaded, key).tolist() == columns[key].tolist()


def test_joints_go_by_name_in_the_file(tmp_path: Path, arm: Arm) -> None:
    file = tmp_path / "friction.yaml"
    model = model_of(arm)
    model.save(file, arm.name, "a test")
    document = yaml.safe_load(file.read_text())
    document["joints"] = dict(reversed(document["joints"].items()))
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    assert load_friction(file, arm).coulomb.tolist() == model.coulomb.tolist()


def test_another_arms_model_is_refused(tmp_path: Path, so101: Arm) -> None:
    file = tmp_path / "friction.yaml"
    model_of(so101).save(file, "so101", "a test")
    with pytest.raises(ConfigError, match=r"friction\.yaml: arm is 'so101' but the arm is 'wam'"):
        load_friction(file, load_arm("wam"))


BROKEN: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "other schema": (lambda d: d.update(schema=2), "schema must be 1; identify again"),
    "no schema": (lambda d: d.pop("schema"), "schema is missing"),
    "joint missing": (lambda d: d["joints"].pop("elbow_flex"), r"joints\.elbow_flex is missing"),
    "joint unknown": (lambda d: d["joints"].update(tail={}), r"joints\.tail is not a known field"),
    "field missing": (lambda d: d["joints"]["elbow_flex"].pop("offset"), r"joints\.elbow_flex\.offset is missing"),
    "field unknown": (lambda d: d["joints"]["elbow_flex"].update(x=1), r"joints\.elbow_flex\.x is not a known field"),
    "nan": (
        lambda d: d["joints"]["elbow_flex"].update(viscous=float("nan")),
        r"joints\.elbow_flex\.viscous must be a finite",
    ),
    "no speed": (lambda d: d["joints"]["elbow_flex"].update(speed=0.0), r"joints\.elbow_flex\.speed must lie within"),
    "top field unknown": (lambda d: d.update(note="x"), "note is not a known field"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_refused_by_file_and_field(case: str, tmp_path: Path, so101: Arm) -> None:
    file = tmp_path / "friction.yaml"
    model_of(so101).save(file, "so101", "a test")
    document = yaml.safe_load(file.read_text())
    edit, text = BROKEN[case]
    edit(document)
    file.write_text(yaml.safe_dump(document))
    with pytest.raises(ConfigError, match=text) as refused:
        load_friction(file, so101)
    assert str(refused.value).startswith(f"{file}: ")


# --- identification -----------------------------------------------------------------------------------------------------


def test_a_known_friction_is_found(arm: Arm, body: RigidBody, record: Callable[..., Log]) -> None:
    truth = model_of(arm)
    log = record(arm, body, truth)
    found = fit_friction(arm, body, log.t, log.q, log.qd, log.torque)
    assert found.joints == arm.joints
    np.testing.assert_allclose(found.coulomb, truth.coulomb, rtol=0.05)
    np.testing.assert_allclose(found.viscous, truth.viscous, rtol=0.1)
    np.testing.assert_allclose(found.offset, truth.offset, atol=0.02 * truth.coulomb.max())
    np.testing.assert_allclose(found.speed, truth.speed, rtol=0.5)


def test_an_arm_without_friction_has_none(arm: Arm, body: RigidBody, record: Callable[..., Log]) -> None:
    zero = np.zeros(arm.dof)
    log = record(arm, body, FrictionModel(arm.joints, zero, zero, np.ones(arm.dof), zero, zero))
    found = fit_friction(arm, body, log.t, log.q, log.qd, log.torque)
    assert (np.abs(found.torque(0.3 * arm.velocity, zero)) < 1e-3 * arm.torque).all()


def test_friction_never_drives_whatever_the_log_says(so101: Arm, record: Callable[..., Log]) -> None:
    body = RigidBody(so101)
    truth = model_of(so101)
    log = record(
        so101, body, FrictionModel(so101.joints, -truth.coulomb, -truth.viscous, truth.speed, truth.inertia, truth.offset)
    )
    found = fit_friction(so101, body, log.t, log.q, log.qd, log.torque)
    assert (found.coulomb >= 0.0).all()
    assert (found.viscous >= 0.0).all()


def test_identification_finds_the_friction_of_a_worn_arm(arm: Arm) -> None:
    """As a user would: sweep on the plant, record, fit; noise, ripple and play included."""
    gap = load_gap("worn", arm)
    assert gap.friction is not None
    found = identify_friction(arm, gap)
    speed = 0.2 * arm.velocity
    truth = gap.friction.coulomb + gap.friction.viscous * speed
    np.testing.assert_allclose(found.torque(speed, np.zeros(arm.dof)) - found.offset, truth, rtol=0.3)


def test_a_joint_that_stands_still_is_refused_by_name(arm: Arm, body: RigidBody, record: Callable[..., Log]) -> None:
    for i, joint in enumerate(arm.joints):
        log = record(arm, body, model_of(arm))
        log.qd[:, i] = 0.0
        with pytest.raises(LogError, match=f"joint '{joint}' hardly moves"):
            fit_friction(arm, body, log.t, log.q, log.qd, log.torque)


def test_a_joint_that_moves_one_way_only_is_refused_by_name(arm: Arm, body: RigidBody, record: Callable[..., Log]) -> None:
    log = record(arm, body, model_of(arm))
    log.qd[:, 1] = np.abs(log.qd[:, 1])
    with pytest.raises(LogError, match=f"joint '{arm.joints[1]}' hardly moves in this log, in both directions"):
        fit_friction(arm, body, log.t, log.q, log.qd, log.torque)


def test_a_short_log_is_refused(so101: Arm, record: Callable[..., Log]) -> None:
    body = RigidBody(so101)
    log = record(so101, body, model_of(so101))
    rows = slice(0, MIN_ROWS - 1)
    with pytest.raises(LogError, match=f"at least {MIN_ROWS} rows, the log has {MIN_ROWS - 1}"):
        fit_friction(so101, body, log.t[rows], log.q[rows], log.qd[rows], log.torque[rows])


def test_a_log_of_a_run_that_was_stopped_is_refused(so101: Arm, record: Callable[..., Log]) -> None:
    """After a stop nothing is sent: the log holds NaN there."""
    body = RigidBody(so101)
    log = record(so101, body, model_of(so101))
    log.torque[1000:] = np.nan
    with pytest.raises(LogError):
        fit_friction(so101, body, log.t, log.q, log.qd, log.torque)
