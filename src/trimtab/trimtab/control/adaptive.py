"""Slotine-Li adaptive control of the payload and of each joint's friction."""

import numpy as np

from trimtab.arm import Arm
from trimtab.control.base import Sample
from trimtab.dynamics import RigidBody
from trimtab.typing import FloatArray

PAYLOAD_REACH = 0.1  # m; how far from the last link's frame a payload's centre of mass may lie
FRICTION_SPEED = 0.02  # share of the velocity limit over which sign(qd) is smoothed
PAYLOAD_BOUND = 3.0  # each payload parameter may be adapted to this multiple of the rated payload's, either sign


class SlotineLi:
    """tau = M (qr'' + w s) + C qr' (+ g) + Y theta, with theta' = gain Y^T s, s = e' + w e, w per joint.

    theta holds what the nominal model does not know: ten inertial parameters of a payload on the last link, and a
    Coulomb and a viscous coefficient per joint. Nobody but the stack can know the payload, so its gravity is always
    included, also where the robot compensates its own. Every estimate is kept inside a box.
    """

    def __init__(self, arm: Arm, body: RigidBody) -> None:
        gains = arm.adaptive
        self._body = body
        self._slope = self._damping = arm.bandwidth  # both alike: the error is critically damped
        self._smooth = FRICTION_SPEED * arm.velocity
        self._velocity = arm.velocity
        mass = max(arm.rated_payload, 1e-3)
        moment, inertia = mass * PAYLOAD_REACH, mass * PAYLOAD_REACH**2
        # Order of pinocchio's inertial parameters: mass, mass * com (3), inertia (6).
        scale = np.array([mass, *[moment] * 3, *[inertia] * 6])
        friction_limit = gains.limit * arm.torque
        self._bound = np.concatenate([PAYLOAD_BOUND * scale, friction_limit, friction_limit])
        self._gain = np.concatenate([gains.payload * scale**2 / mass, *[gains.friction * arm.kp] * 2])
        self._theta = np.zeros(10 + 2 * arm.dof)
        self._explained = np.zeros(arm.dof)
        self._regressor = np.zeros((arm.dof, 10 + 2 * arm.dof))
        self._diagonal = np.arange(arm.dof)

    @property
    def parameters(self) -> FloatArray:
        """The present estimates: payload (10), Coulomb (dof) [Nm], viscous at the velocity limit (dof) [Nm]."""
        return self._theta.copy()

    def reset(self) -> None:
        """Forgets the estimates."""
        self._theta[:] = 0.0
        self._explained = np.zeros_like(self._explained)

    def torque(self, sample: Sample) -> FloatArray:
        """Adapts, then gives the torque [Nm]."""
        wanted = sample.desired
        error = wanted.q - sample.q
        speed_error = wanted.qd - sample.qd
        qd_ref = wanted.qd + self._slope * error
        qdd_ref = wanted.qdd + self._slope * speed_error
        s = speed_error + self._slope * error
        regressor = self._fill_regressor(sample, qd_ref, qdd_ref)
        self._theta += self._gain * (s @ regressor) * sample.dt
        np.clip(self._theta, -self._bound, self._bound, out=self._theta)
        np.maximum(self._theta[10:], 0.0, out=self._theta[10:])  # friction never drives
        self._explained = regressor @ self._theta
        # M (damping s), so that heavy and light joints converge alike; C qr' = C qd + C s.
        rigid = self._body.owned_dynamics(sample.q, sample.qd, qdd_ref + self._damping * s).copy()
        return rigid + self._body.coriolis_matrix(sample.q, sample.qd) @ s + self._explained

    def explained(self) -> FloatArray:
        """Y theta of the last step [Nm]."""
        return self._explained

    def _fill_regressor(self, sample: Sample, qd_ref: FloatArray, qdd_ref: FloatArray) -> FloatArray:
        """Columns: payload (10), smoothed sign of the wanted speed, wanted speed over its limit. Shape (dof, 10 + 2 dof)."""
        regressor, dof = self._regressor, len(self._diagonal)
        regressor[:, :10] = self._body.slotine_li_regressor(sample.q, sample.qd, qd_ref, qdd_ref)
        regressor[self._diagonal, 10 + self._diagonal] = np.tanh(sample.desired.qd / self._smooth)
        regressor[self._diagonal, 10 + dof + self._diagonal] = sample.desired.qd / self._velocity
        return regressor
