"""What a residual should have added: the torque that neither the rigid body nor the identified friction explains."""

from dataclasses import dataclass

import numpy as np
import pinocchio as pin
from scipy.signal import savgol_filter

from trimtab.arm import Arm
from trimtab.control.friction import SMOOTHING_WINDOW, moving_rows
from trimtab.dynamics import RigidBody
from trimtab.typing import FloatArray
from trimtab_training.data import Log

PAYLOAD = 10  # inertial parameters of a body
RIDGE = 1e-4  # of the nuisance fit, on columns of unit length
STRIDE = 2  # rows from one target to the next: neighbours tell the same
SPEED_SHARE = 0.35  # a joint follows its reference when its speed is off by less than this share of it,
SPEED_FLOOR = 0.004  # or by less than this share of the velocity limit


@dataclass(frozen=True)
class Targets:
    """Rows of a log with what a residual should have given there."""

    rows: np.ndarray
    """Indices into the log, (m,)."""
    torque: FloatArray
    """(m, dof) [Nm]"""
    usable: np.ndarray
    """Where the joint moved as asked, (m, dof) of bool; a joint that sticks only tells that its friction is enough."""
    moving: np.ndarray
    """Where it moved at all, (m, dof) of bool."""


def targets(arm: Arm, body: RigidBody, log: Log) -> Targets:
    """Torque sent, less rigid body on the measured motion, less identified friction, less what this log alone explains.

    The last are the nuisance terms: a payload on the last link, an offset and a torque scale per joint. They differ from
    robot to robot and from day to day; the adaptive law and the observer are there for them. They are fitted together
    with friction, so that they do not take friction's part.
    """
    rows = np.arange(0, len(log.t), STRIDE)
    window = max(5, 2 * round(SMOOTHING_WINDOW / arm.period / 2) + 1)
    speed = savgol_filter(log.qd, window, 2, axis=0)[rows]
    acceleration = savgol_filter(log.qd, window, 2, deriv=1, delta=arm.period, axis=0)[rows]
    q = log.q[rows]
    rigid = np.array([body.owned_dynamics(*row).copy() for row in zip(q, speed, acceleration, strict=True)])
    left = log.torque[rows] - rigid
    payload = np.array(
        [
            pin.computeJointTorqueRegressor(body.model, body.data, *row)[:, -PAYLOAD:].copy()
            for row in zip(q, speed, acceleration, strict=True)
        ]
    )
    nuisance = _nuisance(arm, payload, rigid, speed, acceleration, left)
    # The feed-forward adds the friction of the wanted motion, so that is what the residual comes on top of. Its offset
    # is a nuisance: on another day it is another.
    friction = log.site.friction
    classical = friction.torque(log.qd_des[rows], log.qdd_des[rows]) - friction.offset
    off = np.abs(log.qd_des[rows] - speed)
    usable = off < np.maximum(SPEED_SHARE * np.abs(log.qd_des[rows]), SPEED_FLOOR * arm.velocity)
    return Targets(rows, left - nuisance - classical, usable, moving_rows(arm, speed))


def _nuisance(
    arm: Arm, payload: FloatArray, rigid: FloatArray, speed: FloatArray, acceleration: FloatArray, left: FloatArray
) -> FloatArray:
    """Least squares of all rows in which a joint moves; gives the nuisance part, (m, dof) [Nm]."""
    dof = arm.dof

    def each_joint(column: FloatArray) -> FloatArray:
        """(m, dof) -> (m, dof, dof): a column per joint that acts on that joint alone."""
        return column[:, :, None] * np.eye(dof)

    own = np.concatenate([payload, each_joint(np.ones_like(rigid)), each_joint(rigid)], axis=2)
    friction = np.concatenate([each_joint(np.sign(speed)), each_joint(speed), each_joint(acceleration)], axis=2)
    weight = (moving_rows(arm, speed) / arm.torque)[:, :, None]
    table = (np.concatenate([own, friction], axis=2) * weight).reshape(-1, own.shape[2] + friction.shape[2])
    length = np.linalg.norm(table, axis=0) + 1e-12
    table = table / length
    normal = table.T @ table + RIDGE * np.eye(table.shape[1])
    parameters = np.linalg.solve(normal, table.T @ (left * weight[:, :, 0]).reshape(-1)) / length
    part: FloatArray = own @ parameters[: own.shape[2]]
    return part


def harmonics(q: FloatArray, torque: FloatArray, usable: np.ndarray, most: int = 1, highest: int = 60) -> list[int]:
    """Cycles per turn of the strongest ripples in a torque over the joint's position; only those that stand out.

    q, torque, usable: (m, dof). A ripple stands out when its amplitude is four times the median candidate's in more
    than half of the joints.
    """
    found = np.zeros((highest, q.shape[1]))
    for i in range(q.shape[1]):
        rows = usable[:, i]
        left = torque[rows, i] - torque[rows, i].mean()
        for k in range(1, highest + 1):
            wave = np.exp(1j * k * q[rows, i])
            found[k - 1, i] = abs((left * wave).mean()) ** 2
    low = 12  # below that gravity and inertia look like ripple
    found[:low] = 0.0
    strength = found / (np.median(found[low:], axis=0) + 1e-30)
    stands_out = (strength > 16.0).mean(axis=1) > 0.5
    order = np.argsort(-np.median(strength, axis=1))
    return [int(k) + 1 for k in order[:most] if stands_out[k]]
