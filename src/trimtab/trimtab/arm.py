"""An arm: its URDF and its contract (`config/arms/<arm>.yaml`), checked against each other and loaded into one object."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
from urdf_parser_py import urdf

from trimtab.contract import (
    ActuatorContract,
    AdaptiveGains,
    ComputedTorqueGains,
    IntegralGains,
    ObserverGains,
    ResidualLimits,
    Timeouts,
    Trips,
    read_actuator,
    read_gains,
    read_residual,
    read_timeouts,
    read_trips,
)
from trimtab.errors import ConfigError
from trimtab.fields import Fields
from trimtab.joints import JointOrder
from trimtab.share import resolve, share_directory
from trimtab.typing import FloatArray

LIMIT_TOLERANCE = 1e-6  # rad; the contract may round a limit of the URDF, not widen it


@dataclass(frozen=True)
class Arm:
    """One arm and all that the stack may assume of it. Arrays have shape (joints,) in the order of `joints`."""

    name: str
    file: Path
    urdf_xml: str
    """The URDF with every joint that is not controlled made fixed; what pinocchio and MuJoCo both load."""
    joints: tuple[str, ...]
    base_frame: str
    tool_frame: str
    rate: float
    """Control rate [Hz]."""
    rated_payload: float
    """[kg]"""
    actuator: ActuatorContract
    home: FloatArray
    """Posture in which references start [rad]."""
    lower: FloatArray
    upper: FloatArray
    """Position limits [rad]."""
    velocity: FloatArray
    """Speed limits [rad/s]."""
    torque: FloatArray
    """Torque limits [Nm]."""
    armature: FloatArray
    """Rotor inertia seen at the joint [kg m^2]."""
    kp: FloatArray
    """Stiffness of joint PD [Nm/rad]."""
    kd: FloatArray
    """Damping of joint PD, and of the damp behaviour [Nm s/rad]."""
    bandwidth: FloatArray
    """Natural frequency of the error under computed torque, and of adaptive control [rad/s]."""
    computed_torque: ComputedTorqueGains
    integral: IntegralGains
    observer: ObserverGains
    adaptive: AdaptiveGains
    residual: ResidualLimits
    trips: Trips
    timeouts: Timeouts

    @property
    def dof(self) -> int:
        """Number of controlled joints."""
        return len(self.joints)

    @property
    def period(self) -> float:
        """Control period [s]."""
        return 1.0 / self.rate

    def order(self) -> JointOrder:
        """A matcher of joint names to this arm's order."""
        return JointOrder(self.joints)


def load_arm(name_or_path: str | Path) -> Arm:
    """Loads an arm by name (`ur5e`) or by the path of its contract, and checks all of it."""
    file = resolve(name_or_path, "config/arms", "arm")
    fields = Fields.of_file(file)
    name = fields.text("arm")
    urdf_file = _urdf_path(fields.text("urdf"), file)
    robot = _parse_urdf(urdf_file)
    base_frame = _frame(fields, "base_frame", robot, urdf_file)
    tool_frame = _frame(fields, "tool_frame", robot, urdf_file)
    rate = fields.number("rate", low=1.0, high=10_000.0)
    rated_payload = fields.number("rated_payload", low=0.0)

    actuator = read_actuator(fields.mapping("actuator"))
    if rate < actuator.min_torque_rate:
        raise fields.error("rate", f"is {rate:g} Hz, below actuator.min_torque_rate {actuator.min_torque_rate:g} Hz")

    joint_fields = fields.mapping("joints")
    locked = fields.mapping("locked_joints") if fields.has("locked_joints") else Fields({}, file, "locked_joints")
    joints = _controlled_joints(joint_fields, locked, robot, urdf_file)
    table = {joint: _joint(joint_fields.mapping(joint), robot.joint_map[joint], urdf_file) for joint in joints}

    gains = read_gains(fields.mapping("control"))
    residual = read_residual(fields.mapping("residual"))
    trips, timeouts = read_trips(fields.mapping("trips")), read_timeouts(fields.mapping("timeouts"))
    fields.done()

    arrays: dict[str, Any] = {}
    for key in ("home", "lower", "upper", "velocity", "torque", "armature", "kp", "kd", "bandwidth"):
        arrays[key] = np.array([table[joint][key] for joint in joints])
        arrays[key].flags.writeable = False
    return Arm(
        name=name,
        file=file,
        urdf_xml=_with_fixed_joints(robot, locked),
        joints=joints,
        base_frame=base_frame,
        tool_frame=tool_frame,
        rate=rate,
        rated_payload=rated_payload,
        actuator=actuator,
        **arrays,
        **gains,
        residual=residual,
        trips=trips,
        timeouts=timeouts,
    )


def _urdf_path(name: str, file: Path) -> Path:
    """The URDF named in a contract: beside the contract, or in the shared `urdf` folder."""
    for path in (file.parent / name, share_directory() / "urdf" / name):
        if path.is_file():
            return path
    raise ConfigError(f"{file}: urdf '{name}' is neither beside the file nor in the urdf folder")


def _parse_urdf(file: Path) -> Any:
    try:
        robot = urdf.URDF.from_xml_string(file.read_bytes())
        _require_tree(robot)
        return robot
    except Exception as error:  # urdf_parser_py raises whatever its XML reflection runs into
        raise ConfigError(f"{file}: is not a valid URDF: {error or type(error).__name__}") from error


def _require_tree(robot: Any) -> None:
    """Every link must hang on the one root; urdf_parser_py itself would follow a loop for ever."""
    root = robot.get_root()
    for link in robot.link_map:
        seen = [link]
        while seen[-1] != root:
            _, parent = robot.parent_map[seen[-1]]
            if parent in seen:
                raise ValueError(f"the links {', '.join(seen)} form a loop")
            seen.append(parent)


def _frame(fields: Fields, field: str, robot: Any, urdf_file: Path) -> str:
    frame = fields.text(field)
    if frame not in robot.link_map:
        raise fields.error(field, f"'{frame}' is no link of {urdf_file}")
    return frame


def _controlled_joints(joints: Fields, locked: Fields, robot: Any, urdf_file: Path) -> tuple[str, ...]:
    """Names of the controlled joints, base to tool, each movable joint of the URDF being either controlled or locked."""
    movable = [joint.name for joint in robot.joints if joint.type != "fixed"]
    for section in (joints, locked):
        for name in section.names():
            if name not in movable:
                raise section.error(name, f"is no movable joint of {urdf_file} (it has: {', '.join(movable)})")
    for name in movable:
        if joints.has(name) == locked.has(name):
            problem = "is both controlled and locked" if joints.has(name) else "must be under joints or locked_joints"
            raise joints.error(name, problem)
    controlled = [name for name in movable if joints.has(name)]
    depth = {name: len(robot.get_chain(robot.get_root(), robot.joint_map[name].child, links=False)) for name in controlled}
    return tuple(sorted(controlled, key=depth.__getitem__))


def _joint(fields: Fields, joint: Any, urdf_file: Path) -> dict[str, float]:
    """One joint's row of the contract, held against the URDF."""
    if joint.type != "revolute":
        raise ConfigError(f"{urdf_file}: joint {joint.name} is {joint.type}; only revolute joints can be controlled")
    if joint.limit is None:
        raise ConfigError(f"{urdf_file}: joint {joint.name} has no <limit>")
    lower, upper = fields.interval("position")
    if lower < joint.limit.lower - LIMIT_TOLERANCE or upper > joint.limit.upper + LIMIT_TOLERANCE:
        raise fields.error(
            "position",
            f"[{lower}, {upper}] is wider than the limit of {urdf_file.name} [{joint.limit.lower}, {joint.limit.upper}]",
        )
    velocity = fields.number("velocity", low=1e-3)
    if velocity > joint.limit.velocity + LIMIT_TOLERANCE:
        raise fields.error("velocity", f"{velocity} is above the limit of {urdf_file.name} {joint.limit.velocity}")
    row = {
        "lower": lower,
        "upper": upper,
        "velocity": velocity,
        "torque": fields.number("torque", low=1e-3),
        "armature": fields.number("armature", low=0.0),
        "kp": fields.number("kp", low=0.0),
        "kd": fields.number("kd", low=0.0),
        "bandwidth": fields.number("bandwidth", low=0.1),
        "home": fields.number("home", low=lower, high=upper),
    }
    fields.done()
    return row


def _with_fixed_joints(robot: Any, locked: Fields) -> str:
    """The URDF's XML with each locked joint replaced by a fixed one at its given position."""
    for name in locked.names():
        joint = robot.joint_map[name]
        limit = joint.limit  # a continuous joint has none
        low, high = (limit.lower, limit.upper) if limit is not None else (-math.inf, math.inf)
        position = locked.number(name, low=low, high=high)
        origin = joint.origin or urdf.Pose(xyz=[0.0, 0.0, 0.0], rpy=[0.0, 0.0, 0.0])
        placement = pin.SE3(pin.rpy.rpyToMatrix(*(origin.rpy or [0.0] * 3)), np.array(origin.xyz or [0.0] * 3))
        axis = np.array(joint.axis or [1.0, 0.0, 0.0])
        if joint.type == "prismatic":
            motion = pin.SE3(np.eye(3), axis * position)
        else:
            motion = pin.SE3(pin.AngleAxis(position, axis).toRotationMatrix(), np.zeros(3))
        moved = placement * motion
        joint.origin = urdf.Pose(xyz=moved.translation.tolist(), rpy=pin.rpy.matrixToRpy(moved.rotation).tolist())
        joint.type = "fixed"
        joint.limit = joint.axis = joint.dynamics = joint.mimic = None
    return str(robot.to_xml_string())
