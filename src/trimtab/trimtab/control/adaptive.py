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
        self._highest = np.concatenate([PAYLOAD_BOUND * scale, friction_limit, friction_limit])
        self._lowest = np.concatenate([-PAYLOAD_BOUND * scale, np.zeros(2 * arm.dof)])  # friction never drives
        self._gain = np.concatenate([gains.payload * scale**2 / mass, *[gains.friction * arm.kp] * 2])
        self._theta = np.zeros(10 + 2 * arm.dof)
        self._explained = np.zeros(arm.dof)
        self._regressor = np.zeros((arm.dof, 10 + 2 * arm.dof))
        payload, coulomb, viscous = np.split(self._regressor, [10, 10 + arm.dof], axis=1)
        # Views: what is written here stands in the regressor. A joint's friction acts on that joint alone.
        self._payload_columns = payload
        self._coulomb_diagonal, self._viscous_diagonal = _diagonal(coulomb), _diagonal(viscous)

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
        pull = self._slope * sample.error
        speed_error = wanted.qd - sample.qd
        qd_ref = wanted.qd + pull
        qdd_ref = wanted.qdd + self._slope * speed_error
        s = speed_error + pull
        regressor = self._fill_regressor(sample, qd_ref, qdd_ref)
        self._theta += self._gain * s.dot(regressor) * sample.dt
        np.maximum(self._theta, self._lowest, out=self._theta)
        np.minimum(self._theta, self._highest, out=self._theta)
        self._explained = regressor.dot(self._theta)
        # M (damping s), so that heavy and light joints converge alike; C qr' = C qd + C s.
        rigid = self._body.owned_dynamics(sample.q, sample.qd, qdd_ref + self._damping * s).copy()
        coriolis: FloatArray = self._body.coriolis_matrix(sample.q, sample.qd).dot(s)
        return rigid + coriolis + self._explained

    def explained(self) -> FloatArray:
        """Y theta of the last step [Nm]."""
        return self._explained

    def _fill_regressor(self, sample: Sample, qd_ref: FloatArray, qdd_ref: FloatArray) -> FloatArray:
        """Columns: payload (10), smoothed sign of the wanted speed, wanted speed over its limit. Shape (dof, 10 + 2 dof)."""
        self._payload_columns[...] = self._body.slotine_li_regressor(sample.q, sample.qd, qd_ref, qdd_ref)
        np.tanh(sample.desired.qd / self._smooth, out=self._coulomb_diagonal)
        np.divide(sample.desired.qd, self._velocity, out=self._viscous_diagonal)
        return self._regressor


def _diagonal(square: FloatArray) -> FloatArray:
    """The diagonal of a square matrix as a view that can be written to."""
    view: FloatArray = np.einsum("ii->i", square)
    return view
