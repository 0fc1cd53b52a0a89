"""A joint friction model, its file, and its identification from a log."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from scipy.optimize import lsq_linear
from scipy.signal import savgol_filter

from trimtab.arm import Arm
from trimtab.dynamics import RigidBody
from trimtab.errors import LogError
from trimtab.fields import Fields
from trimtab.files import write_whole
from trimtab.typing import FloatArray

SCHEMA = 1
MOVING = 0.02  # share of the velocity limit above which a row counts
MIN_ROWS = 200  # rows of motion below which a fit is not trusted
SMOOTHING_WINDOW = 0.03  # s; of the zero-phase filter that differentiates the log's velocity
SMOOTH_SPEED_LOW = 0.01  # share of the velocity limit: lowest speed tried for the tanh that smooths sign(qd)
SMOOTH_SPEED_SPAN = 8.0  # highest over lowest
SMOOTH_SPEED_COUNT = 7


@dataclass(frozen=True)
class FrictionModel:
    """Friction of each joint, and with it the rotor inertia and constant torque that the nominal model lacks.

    Torque: coulomb * tanh(qd / speed) + viscous * qd + inertia * qdd + offset [Nm]. Arrays have shape (dof,).
    """

    joints: tuple[str, ...]
    coulomb: FloatArray
    """[Nm]"""
    viscous: FloatArray
    """[Nm s/rad]"""
    speed: FloatArray
    """Speed over which the Coulomb torque changes sign [rad/s]."""
    inertia: FloatArray
    """Rotor inertia beyond the contract's [kg m^2]."""
    offset: FloatArray
    """[Nm]"""

    def torque(self, qd: FloatArray, qdd: FloatArray) -> FloatArray:
        """Torque that overcomes all of it at this motion [Nm]."""
        return self.coulomb * np.tanh(qd / self.speed) + self.viscous * qd + self.inertia * qdd + self.offset

    def save(self, file: Path, arm: str, source: str) -> None:
        """Writes the model to a YAML file, whole or not at all."""
        rows = {
            joint: {key: float(getattr(self, key)[i]) for key in ("coulomb", "viscous", "speed", "inertia", "offset")}
            for i, joint in enumerate(self.joints)
        }
        document = {"schema": SCHEMA, "arm": arm, "identified_from": source, "joints": rows}
        write_whole(file, yaml.safe_dump(document, sort_keys=False))


def load_friction(file: Path, arm: Arm) -> FrictionModel:
    """Reads an identified model and checks that it is this arm's."""
    fields = Fields.of_file(file)
    if fields.number("schema") != SCHEMA:
        raise fields.error("schema", f"must be {SCHEMA}; identify again with `trimtab fit friction`")
    name = fields.text("arm")
    if name != arm.name:
        raise fields.error("arm", f"is '{name}' but the arm is '{arm.name}'; identify with `trimtab fit friction`")
    fields.text("identified_from")
    joints = fields.mapping("joints")
    fields.done()
    columns: dict[str, list[float]] = {key: [] for key in ("coulomb", "viscous", "speed", "inertia", "offset")}
    for joint in arm.joints:
        row = joints.mapping(joint)
        for key, column in columns.items():
            column.append(row.number(key, low=1e-9 if key == "speed" else -np.inf))
        row.done()
    joints.done()
    return FrictionModel(joints=arm.joints, **{key: np.array(column) for key, column in columns.items()})


def fit_friction(
    arm: Arm, body: RigidBody, t: FloatArray, q: FloatArray, qd: FloatArray, torque: FloatArray
) -> FrictionModel:
    """Identifies the friction of each joint from a log.

    t: (n,) [s] at a fixed rate; q, qd, torque: (n, dof) in the arm's order, torque being what was sent to the arm.
    The rigid-body torque of the measured motion is subtracted; what is left is fitted joint by joint.
    """
    if len(t) < MIN_ROWS:
        raise LogError(f"a friction fit needs at least {MIN_ROWS} rows, the log has {len(t)}")
    if not all(np.isfinite(array).all() for array in (t, q, qd, torque)):
        raise LogError("the log holds numbers that are not finite (a run that was stopped?); use a run without a fault")
    speed, acceleration, left = unexplained_torque(body, t, q, qd, torque)
    moving = moving_rows(arm, speed)
    fitted = [_fit_joint(arm, i, moving[:, i], speed[:, i], acceleration[:, i], left[:, i]) for i in range(arm.dof)]
    coulomb, viscous, smooth, inertia, offset = (np.array(column) for column in zip(*fitted, strict=True))
    return FrictionModel(arm.joints, coulomb, viscous, smooth, inertia, offset)


def unexplained_torque(
    body: RigidBody, t: FloatArray, q: FloatArray, qd: FloatArray, torque: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Smoothed speed, acceleration, and the torque that the rigid body of the measured motion leaves over.

    t: (n,) [s] at a fixed rate; the others (n, dof). The filter has no phase.
    """
    period = float(np.median(np.diff(t)))
    window = max(5, 2 * round(SMOOTHING_WINDOW / period / 2) + 1)
    speed = savgol_filter(qd, window, 2, axis=0)
    acceleration = savgol_filter(qd, window, 2, deriv=1, delta=period, axis=0)
    rigid = np.array([body.owned_dynamics(*row).copy() for row in zip(q, speed, acceleration, strict=True)])
    return speed, acceleration, torque - rigid


def moving_rows(arm: Arm, speed: FloatArray) -> np.ndarray:
    """Which values tell of friction, (n, dof) of bool: a joint at rest only tells that its friction is enough."""
    moving: np.ndarray = np.abs(speed) > MOVING * arm.velocity
    return moving


def _fit_joint(
    arm: Arm, i: int, moving: np.ndarray, qd: FloatArray, qdd: FloatArray, left: FloatArray
) -> tuple[float, float, float, float, float]:
    """Bounded least squares over one joint's moving rows, the smoothing speed chosen from a grid."""
    limit = arm.velocity[i]
    if np.count_nonzero(moving) < MIN_ROWS or min(np.count_nonzero(qd[moving] > 0), np.count_nonzero(qd[moving] < 0)) < 20:
        raise LogError(
            f"joint '{arm.joints[i]}' hardly moves in this log, in both directions it must; record a `--reference sweep`"
        )
    qd, qdd, left = qd[moving], qdd[moving], left[moving]
    best: tuple[float, FloatArray, float] | None = None
    for smooth in SMOOTH_SPEED_LOW * limit * np.geomspace(1.0, SMOOTH_SPEED_SPAN, SMOOTH_SPEED_COUNT):
        columns = np.stack([np.tanh(qd / smooth), qd, qdd, np.ones_like(qd)], axis=1)
        bounds = ([0.0, 0.0, -arm.armature[i], -arm.torque[i]], [arm.torque[i], np.inf, np.inf, arm.torque[i]])
        solution = lsq_linear(columns, left, bounds=bounds)
        if best is None or solution.cost < best[0]:
            best = (float(solution.cost), solution.x, float(smooth))
    assert best is not None
    coulomb, viscous, inertia, offset = best[1]
    return float(coulomb), float(viscous), best[2], float(inertia), float(offset)
