"""Slotine-Li adaptive control of the payload and of each joint's friction."""

import math

import numpy as np

from trimtab.arm import Arm
from trimtab.compiled import compiled
from trimtab.control.base import Desired, Sample
from trimtab.dynamics import RigidBody
from trimtab.typing import FloatArray

PAYLOAD_REACH = 0.1  # m; how far from the last link's frame a payload's centre of mass may lie
FRICTION_SPEED = 0.02  # share of the velocity limit over which sign(qd) is smoothed
PAYLOAD_BOUND = 3.0  # each payload parameter may be adapted to this multiple of the rated payload's, either sign


# Rows of the law's table, a column per joint, and of the parameters' table.
_Q, _QD, _Q_DES, _QD_DES, _QDD_DES, _QD_REF, _QDD_REF, _S, _ACCELERATION, _EXPLAINED, _TORQUE = range(11)
_SLOPE, _SMOOTH, _VELOCITY, _JOINT_ROWS = range(11, 15)
_THETA, _GAIN, _LOWEST, _HIGHEST = range(4)
_PAYLOAD = 10  # parameters of a payload, in pinocchio's order


@compiled
def _refer(joints: FloatArray) -> None:
    """How the arm is asked to move so that its error decays: from the motion to QD_REF, QDD_REF, S and ACCELERATION."""
    for i in range(joints.shape[1]):
        slope = joints[_SLOPE, i]
        pull = slope * (joints[_Q_DES, i] - joints[_Q, i])
        speed_error = joints[_QD_DES, i] - joints[_QD, i]
        joints[_QD_REF, i] = joints[_QD_DES, i] + pull
        joints[_QDD_REF, i] = joints[_QDD_DES, i] + slope * speed_error
        joints[_S, i] = speed_error + pull
        # M (damping s), so that heavy and light joints converge alike; damping is the slope: the error is critically damped.
        joints[_ACCELERATION, i] = joints[_QDD_REF, i] + slope * joints[_S, i]


@compiled
def _adapt(
    joints: FloatArray, parameters: FloatArray, payload: FloatArray, rigid: FloatArray, coriolis: FloatArray, dt: float
) -> None:
    """Adapts theta, then fills EXPLAINED and TORQUE. payload: regressor of the last link, (dof, 10)."""
    dof, theta = joints.shape[1], parameters[_THETA]
    for k in range(_PAYLOAD):
        pull = 0.0
        for i in range(dof):
            pull += joints[_S, i] * payload[i, k]
        _move(parameters, k, pull * dt)
    for i in range(dof):
        coulomb, viscous = _PAYLOAD + i, _PAYLOAD + dof + i
        sign, speed = math.tanh(joints[_QD_DES, i] / joints[_SMOOTH, i]), joints[_QD_DES, i] / joints[_VELOCITY, i]
        _move(parameters, coulomb, joints[_S, i] * sign * dt)
        _move(parameters, viscous, joints[_S, i] * speed * dt)
        explained = sign * theta[coulomb] + speed * theta[viscous]
        for k in range(_PAYLOAD):
            explained += payload[i, k] * theta[k]
        joints[_EXPLAINED, i] = explained
        joints[_TORQUE, i] = rigid[i] + explained
        for j in range(dof):  # C qr' = C qd + C s; the first is in the rigid body's torque
            joints[_TORQUE, i] += coriolis[i, j] * joints[_S, j]


@compiled
def _move(parameters: FloatArray, k: int, pull: float) -> None:
    """Moves one parameter, within its bounds."""
    moved = parameters[_THETA, k] + parameters[_GAIN, k] * pull
    parameters[_THETA, k] = min(max(moved, parameters[_LOWEST, k]), parameters[_HIGHEST, k])


class SlotineLi:
    """tau = M (qr'' + w s) + C qr' (+ g) + Y theta, with theta' = gain Y^T s, s = e' + w e, w per joint.

    theta holds what the nominal model does not know: ten inertial parameters of a payload on the last link, and a
    Coulomb and a viscous coefficient per joint, the latter at the velocity limit. Y has columns for them: the last link's
    regressor, the smoothed sign of the wanted speed, the wanted speed over its limit; a joint's friction acts on that joint
    alone. Nobody but the stack can know the payload, so its gravity is always included, also where the robot compensates
    its own. Every estimate is kept inside a box.
    """

    def __init__(self, arm: Arm, body: RigidBody) -> None:
        gains = arm.adaptive
        self._body = body
        mass = max(arm.rated_payload, 1e-3)
        moment, inertia = mass * PAYLOAD_REACH, mass * PAYLOAD_REACH**2
        # Order of pinocchio's inertial parameters: mass, mass * com (3), inertia (6).
        scale = np.array([mass, *[moment] * 3, *[inertia] * 6])
        friction_limit = gains.limit * arm.torque
        self._parameters: FloatArray = np.zeros((4, _PAYLOAD + 2 * arm.dof))
        self._parameters[_GAIN] = np.concatenate([gains.payload * scale**2 / mass, *[gains.friction * arm.kp] * 2])
        self._parameters[_LOWEST, :_PAYLOAD] = -PAYLOAD_BOUND * scale  # the others stay at zero: friction never drives
        self._parameters[_HIGHEST] = np.concatenate([PAYLOAD_BOUND * scale, friction_limit, friction_limit])
        self._joints: FloatArray = np.zeros((_JOINT_ROWS, arm.dof))
        self._joints[_SLOPE : _VELOCITY + 1] = arm.bandwidth, FRICTION_SPEED * arm.velocity, arm.velocity
        still = np.zeros(arm.dof)
        self.torque(Sample(np.array(arm.home), still, Desired(still, still, still), arm.period))  # compiles, before a loop
        self.reset()

    @property
    def parameters(self) -> FloatArray:
        """The present estimates: payload (10), Coulomb (dof) [Nm], viscous at the velocity limit (dof) [Nm]."""
        return np.array(self._parameters[_THETA])

    def reset(self) -> None:
        """Forgets the estimates."""
        self._parameters[_THETA] = 0.0
        self._joints[_EXPLAINED] = 0.0

    def torque(self, sample: Sample) -> FloatArray:
        """Adapts, then gives the torque [Nm]; valid until the next call."""
        q, qd, wanted, body, joints = sample.q, sample.qd, sample.desired, self._body, self._joints
        joints[_Q], joints[_QD], joints[_Q_DES], joints[_QD_DES], joints[_QDD_DES] = q, qd, wanted.q, wanted.qd, wanted.qdd
        _refer(joints)
        payload = body.slotine_li_regressor(q, qd, joints[_QD_REF], joints[_QDD_REF])
        rigid = body.owned_dynamics(q, qd, joints[_ACCELERATION])
        _adapt(joints, self._parameters, payload, rigid, body.coriolis_matrix(q, qd), sample.dt)
        torque: FloatArray = joints[_TORQUE]
        return torque

    def explained(self) -> FloatArray:
        """Y theta of the last step [Nm]; valid until the next."""
        explained: FloatArray = self._joints[_EXPLAINED]
        return explained
