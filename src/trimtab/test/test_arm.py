"""An arm's contract and its URDF are checked against each other; whatever is wrong is named with file, joint and field."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
import yaml

from trimtab.arm import Arm, load_arm
from trimtab.dynamics import RigidBody
from trimtab.errors import ConfigError
from trimtab.names import arm_names
from trimtab.share import share_directory

URDF = "so101.urdf"
Edit = Callable[[dict[str, Any]], object]


class Copy:
    """A contract and its URDF, copied to a folder where they may be broken."""

    def __init__(self, folder: Path, arm: str) -> None:
        self.file = folder / f"{arm}.yaml"
        self.urdf = folder / f"{arm}.urdf"
        self.urdf.write_text((share_directory() / "urdf" / f"{arm}.urdf").read_text())
        self.document: dict[str, Any] = yaml.safe_load((share_directory() / "config" / "arms" / f"{arm}.yaml").read_text())
        self.save()

    def save(self) -> None:
        self.file.write_text(yaml.safe_dump(self.document, sort_keys=False))

    def edit_urdf(self, old: str, new: str) -> None:
        text = self.urdf.read_text()
        changed = re.sub(old, new, text, count=1, flags=re.DOTALL)
        assert changed != text, f"{old} is not in the URDF"
        self.urdf.write_text(changed)

    def refusal(self) -> str:
        with pytest.raises(ConfigError) as refused:
            load_arm(self.file)
        return str(refused.value)


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path, "so101")


# --- the four arms ------------------------------------------------------------------------------------------------------


def test_the_four_arms_are_there() -> None:
    assert arm_names() == ["open_manipulator_x", "so101", "ur5e", "wam"]


def test_arm_is_sound(arm: Arm) -> None:
    assert arm.dof == {"open_manipulator_x": 4, "so101": 5, "ur5e": 6, "wam": 7}[arm.name]
    for array in (arm.home, arm.lower, arm.upper, arm.velocity, arm.torque, arm.armature, arm.kp, arm.kd, arm.bandwidth):
        assert array.shape == (arm.dof,)
        assert np.isfinite(array).all()
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0
    assert (arm.lower < arm.home).all()
    assert (arm.home < arm.upper).all()
    for positive in (arm.velocity, arm.torque, arm.kp, arm.kd, arm.bandwidth):
        assert (positive > 0.0).all()
    assert arm.period * arm.rate == pytest.approx(1.0)
    assert arm.rate >= arm.actuator.min_torque_rate


def test_only_the_ur5e_owns_its_gravity(arm: Arm) -> None:
    assert arm.actuator.stack_owns_gravity is (arm.name != "ur5e")


def test_the_pd_gains_damp_well(arm: Arm, body: RigidBody) -> None:
    """Each joint alone, at home: damping ratio of kp and kd with the joint's own inertia, neither ringing nor creeping."""
    ratio = arm.kd / (2.0 * np.sqrt(arm.kp * np.diag(body.mass_matrix(arm.home))))
    assert ((ratio > 0.4) & (ratio < 2.5)).all(), ratio


def test_joints_run_from_base_to_tool_whatever_the_order_in_the_file(arm: Arm, tmp_path: Path) -> None:
    shuffled = Copy(tmp_path, arm.name)
    shuffled.document["joints"] = dict(reversed(shuffled.document["joints"].items()))
    shuffled.save()
    loaded = load_arm(shuffled.file)
    assert loaded.joints == arm.joints
    assert loaded.torque.tolist() == arm.torque.tolist()
    depth = {joint: RigidBody(loaded).model.getJointId(joint) for joint in loaded.joints}
    assert list(depth.values()) == sorted(depth.values())


def test_joint_order_of_the_published_arms() -> None:
    assert load_arm("ur5e").joints == (
        "shoulder_pan_joint",
        "shoulder_lift_joint",
        "elbow_joint",
        "wrist_1_joint",
        "wrist_2_joint",
        "wrist_3_joint",
    )
    assert load_arm("so101").joints == ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll")


def test_a_urdf_beside_the_contract_comes_first(copy: Copy) -> None:
    copy.edit_urdf('xyz="0 0 0" rpy="0 0 0"', 'xyz="0 0 0.25" rpy="0 0 0"')
    moved = pin.buildModelFromXML(load_arm(copy.file).urdf_xml)
    assert moved.frames[moved.getFrameId("base_link")].placement.translation[2] == 0.25
    copy.urdf.unlink()
    shared = pin.buildModelFromXML(load_arm(copy.file).urdf_xml)
    assert shared.frames[shared.getFrameId("base_link")].placement.translation[2] == 0.0


# --- broken contracts ---------------------------------------------------------------------------------------------------


def _joint(**changes: Any) -> Edit:
    return lambda document: document["joints"]["elbow_flex"].update(changes)


BROKEN: dict[str, tuple[Edit, str]] = {
    "field missing": (lambda d: d.pop("rate"), "rate is missing"),
    "joint field missing": (lambda d: d["joints"]["elbow_flex"].pop("torque"), r"joints\.elbow_flex\.torque is missing"),
    "gain missing": (lambda d: d["control"]["observer"].pop("limit"), r"control\.observer\.limit is missing"),
    "section missing": (lambda d: d.pop("trips"), "trips is missing"),
    "field unknown": (lambda d: d.update(rat=5), "rat is not a known field"),
    "joint field unknown": (_joint(kpp=1.0), r"joints\.elbow_flex\.kpp is not a known field"),
    "control law unknown": (lambda d: d["control"].update(magic={}), r"control\.magic is not a known field"),
    "gain unknown": (lambda d: d["control"]["observer"].update(x=1), r"control\.observer\.x is not a known field"),
    "actuator field unknown": (lambda d: d["actuator"].update(unit="Nm"), r"actuator\.unit is not a known field"),
    "trip unknown": (lambda d: d["trips"].update(speed=1), r"trips\.speed is not a known field"),
    "timeout unknown": (lambda d: d["timeouts"].update(x=1), r"timeouts\.x is not a known field"),
    "text for a number": (_joint(kp="stiff"), r"joints\.elbow_flex\.kp must be a finite number, not 'stiff'"),
    "number for a text": (lambda d: d.update(tool_frame=3), "tool_frame must be a text, not 3"),
    "list for a mapping": (lambda d: d.update(joints=["elbow_flex"]), "joints must be a mapping, not list"),
    "null for a mapping": (lambda d: d["joints"].update(elbow_flex=None), r"joints\.elbow_flex must be a mapping"),
    "nan": (_joint(velocity=float("nan")), r"joints\.elbow_flex\.velocity must be a finite number, not nan"),
    "inf": (_joint(torque=float("inf")), r"joints\.elbow_flex\.torque must be a finite number, not inf"),
    "nan in an interval": (_joint(position=[float("nan"), 1.0]), r"joints\.elbow_flex\.position must be a finite number"),
    "interval of three": (_joint(position=[-1.0, 0.0, 1.0]), r"joints\.elbow_flex\.position must be a pair"),
    "interval turned round": (_joint(position=[1.0, -1.0]), r"joints\.elbow_flex\.position must have low < high"),
    "upper limit too wide": (
        _joint(position=[-1.69, 1.70]),
        r"joints\.elbow_flex\.position \[-1\.69, 1\.7\] is wider than the limit of so101\.urdf \[-1\.69, 1\.69\]",
    ),
    "lower limit too wide": (_joint(position=[-1.6901, 1.69]), r"joints\.elbow_flex\.position .* is wider than the limit"),
    "too fast": (_joint(velocity=6.2), r"joints\.elbow_flex\.velocity 6\.2 is above the limit of so101\.urdf 6\.1"),
    "no torque": (_joint(torque=0.0), r"joints\.elbow_flex\.torque must lie within"),
    "negative damping": (_joint(kd=-0.1), r"joints\.elbow_flex\.kd must lie within"),
    "negative armature": (_joint(armature=-0.1), r"joints\.elbow_flex\.armature must lie within"),
    "home above": (_joint(home=1.6901), r"joints\.elbow_flex\.home must lie within \[-1\.69, 1\.69\], not 1\.6901"),
    "home below": (_joint(home=-2.0), r"joints\.elbow_flex\.home must lie within"),
    "joint unknown": (
        lambda d: d["joints"].update(elbow=d["joints"]["elbow_flex"]),
        r"joints\.elbow is no movable joint of .*so101\.urdf",
    ),
    "fixed joint controlled": (
        lambda d: d["joints"].update(gripper_frame_joint=d["joints"]["elbow_flex"]),
        r"joints\.gripper_frame_joint is no movable joint",
    ),
    "joint missing": (lambda d: d["joints"].pop("wrist_roll"), r"joints\.wrist_roll must be under joints or locked_joints"),
    "gripper not locked": (lambda d: d.pop("locked_joints"), r"joints\.gripper must be under joints or locked_joints"),
    "joint twice": (
        lambda d: d["locked_joints"].update(wrist_roll=0.0),
        r"joints\.wrist_roll is both controlled and locked",
    ),
    "locked joint unknown": (lambda d: d["locked_joints"].update(claw=0.0), r"locked_joints\.claw is no movable joint"),
    "locked beyond its limit": (lambda d: d["locked_joints"].update(gripper=1.8), r"locked_joints\.gripper must lie within"),
    "locked at nothing": (lambda d: d["locked_joints"].update(gripper=None), r"locked_joints\.gripper must be a finite"),
    "rate too low": (lambda d: d.update(rate=149), r"rate is 149 Hz, below actuator\.min_torque_rate 150 Hz"),
    "rate zero": (lambda d: d.update(rate=0), "rate must lie within"),
    "torque unquoted": (
        lambda d: d["actuator"].update(torque=True),
        r"actuator\.torque must be one of true, from_current, approximate, not True \(write it in quotes\)",
    ),
    "nobody's gravity": (lambda d: d["actuator"].update(gravity="nobody"), r"actuator\.gravity must be one of robot, stack"),
    "unit unknown": (lambda d: d["actuator"].update(effort_unit="mA"), r"actuator\.effort_unit must be one of"),
    "tool frame unknown": (lambda d: d.update(tool_frame="tool9"), r"tool_frame 'tool9' is no link of .*so101\.urdf"),
    "base frame unknown": (lambda d: d.update(base_frame="floor"), r"base_frame 'floor' is no link of .*so101\.urdf"),
    "urdf not there": (lambda d: d.update(urdf="gone.urdf"), r"urdf 'gone\.urdf' is neither beside the file nor in"),
    "trip that never trips": (lambda d: d["trips"].update(tracking_error=4.0), r"trips\.tracking_error must lie within"),
    "timeout of nothing": (lambda d: d["timeouts"].update(state=0), r"timeouts\.state must lie within"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_contract_is_refused_by_file_and_field(case: str, copy: Copy) -> None:
    edit, text = BROKEN[case]
    edit(copy.document)
    copy.save()
    refusal = copy.refusal()
    assert refusal.startswith(f"{copy.file}: ")
    assert re.search(text, refusal), refusal


def test_what_was_broken_above_is_sound_to_begin_with(copy: Copy) -> None:
    assert load_arm(copy.file).joints == load_arm("so101").joints


def test_a_limit_may_be_rounded_but_not_widened(copy: Copy) -> None:
    copy.document["joints"]["elbow_flex"]["position"] = [-1.6900005, 1.6900005]
    copy.save()
    assert load_arm(copy.file).upper[2] == 1.6900005


def test_malformed_yaml_is_refused_with_its_line(copy: Copy) -> None:
    lines = copy.file.read_text().splitlines()
    number = next(i for i, line in enumerate(lines) if line.startswith("rated_payload"))
    lines[number] = "rated_payload: 1: 2"
    copy.file.write_text("\n".join(lines))
    assert f"{copy.file}: line {number + 1} is not valid YAML" in copy.refusal()


def test_missing_contract_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"arm file .*gone\.yaml does not exist"):
        load_arm(tmp_path / "gone.yaml")


# --- broken URDFs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("</robot>", ""),
        ('lower="-1.69"', 'lower="x"'),
        ('<limit lower="-1.69" upper="1.69" effort="2.9" velocity="6.1"/>', '<limit lower="-1.69" upper="1.69"/>'),
        ("^.*$", ""),
        ("^.*$", "<sdf/>"),
        ("^.*$", "arm: so101"),
        ('<parent link="wrist_link"/>', '<parent link="no_such_link"/>'),
        ("</robot>", '<link name="lonely"/></robot>'),
    ],
    ids=["unclosed", "no number", "attribute missing", "empty", "other XML", "no XML", "parent link unknown", "two roots"],
)
def test_malformed_urdf_is_refused_by_its_file(old: str, new: str, copy: Copy) -> None:
    copy.edit_urdf(old, new)
    assert str(copy.urdf) in copy.refusal()


def test_a_controlled_joint_must_be_revolute(copy: Copy) -> None:
    copy.edit_urdf('name="elbow_flex" type="revolute"', 'name="elbow_flex" type="prismatic"')
    refusal = copy.refusal()
    assert str(copy.urdf) in refusal
    assert "joint elbow_flex is prismatic" in refusal


def test_a_controlled_joint_must_have_a_limit(copy: Copy) -> None:
    copy.edit_urdf('(name="elbow_flex".*?)<limit[^>]*/>', r"\1")
    refusal = copy.refusal()
    assert str(copy.urdf) in refusal
    assert "joint elbow_flex has no <limit>" in refusal


# --- locked joints ------------------------------------------------------------------------------------------------------


def _full_model(arm: str) -> pin.Model:
    return pin.buildModelFromUrdf(str(share_directory() / "urdf" / f"{arm}.urdf"))


@pytest.mark.parametrize(
    ("name", "locked"),
    [
        ("so101", {"gripper": 0.0}),
        ("so101", {"gripper": 0.83}),
        ("so101", {"gripper": -0.17}),
        ("open_manipulator_x", {"gripper_left_joint": 0.013, "gripper_right_joint": -0.007}),
    ],
)
def test_locked_joints_are_fixed_where_the_contract_says(name: str, locked: dict[str, float], tmp_path: Path) -> None:
    copy = Copy(tmp_path, name)
    copy.document["locked_joints"] = locked
    copy.save()
    arm = load_arm(copy.file)
    model, full = pin.buildModelFromXML(arm.urdf_xml), _full_model(name)
    assert tuple(model.names)[1:] == arm.joints
    random = np.random.default_rng(0)
    for _ in range(20):
        q = random.uniform(arm.lower, arm.upper)
        wanted = pin.neutral(full)
        for joint, value in [*zip(arm.joints, q, strict=True), *locked.items()]:
            wanted[full.joints[full.getJointId(joint)].idx_q] = value
        data, truth = model.createData(), full.createData()
        pin.framesForwardKinematics(model, data, q)
        pin.framesForwardKinematics(full, truth, wanted)
        for frame in full.frames:
            if frame.type == pin.FrameType.BODY:
                here, there = data.oMf[model.getFrameId(frame.name)], truth.oMf[full.getFrameId(frame.name)]
                np.testing.assert_allclose(here.homogeneous, there.homogeneous, atol=1e-12, err_msg=frame.name)
        # Mass that hangs on a locked joint still counts: gravity torque of the whole arm.
        index = [full.joints[full.getJointId(joint)].idx_v for joint in arm.joints]
        gravity = pin.computeGeneralizedGravity(full, truth, wanted)[index]
        np.testing.assert_allclose(pin.computeGeneralizedGravity(model, data, q), gravity, atol=1e-12)


def test_a_gripper_that_turns_without_limits_can_be_locked(copy: Copy) -> None:
    """URDF gives continuous joints no <limit>."""
    copy.edit_urdf('(name="gripper" type=)"revolute"(.*?)<limit[^>]*/>', r'\1"continuous"\2')
    copy.document["locked_joints"]["gripper"] = 2.5
    copy.save()
    arm = load_arm(copy.file)
    assert tuple(pin.buildModelFromXML(arm.urdf_xml).names)[1:] == arm.joints
