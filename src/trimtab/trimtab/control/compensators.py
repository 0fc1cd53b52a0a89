"""What a user would try before a network: friction feed-forward, integral action, momentum disturbance observer."""

import numpy as np

from trimtab.arm import Arm
from trimtab.compiled import compiled
from trimtab.control.base import Sample
from trimtab.control.friction import FrictionModel
from trimtab.dynamics import RigidBody
from trimtab.typing import FloatArray


class FrictionFeedForward:
    """The identified friction at the wanted speed (the measured one would feed noise and chatter back)."""

    def __init__(self, model: FrictionModel) -> None:
        self._model = model
        self._torque = np.zeros(len(model.joints))

    def reset(self) -> None:
        """Nothing to forget."""

    def torque(self, sample: Sample) -> FloatArray:
        """[Nm]."""
        self._torque = self._model.torque(sample.desired.qd, sample.desired.qdd)
        return self._torque

    def explained(self) -> FloatArray:
        """All of it models friction [Nm]."""
        return self._torque

    def applied(self, torque: FloatArray) -> None:
        """Learns nothing."""


class IntegralAction:
    """kp * rate * integral of the position error, bounded; the bound also stops the winding up."""

    def __init__(self, arm: Arm) -> None:
        self._gain = arm.kp * arm.integral.rate
        self._limit = arm.integral.limit * arm.torque
        self._negative_limit = -self._limit
        self._torque = np.zeros(arm.dof)

    def reset(self) -> None:
        """Forgets the integral."""
        self._torque = np.zeros_like(self._torque)

    def torque(self, sample: Sample) -> FloatArray:
        """[Nm]."""
        step = self._gain * sample.error * sample.dt
        self._torque = np.minimum(np.maximum(self._torque + step, self._negative_limit), self._limit)
        return self._torque

    def explained(self) -> None:
        """Feedback, not a model."""

    def applied(self, torque: FloatArray) -> None:
        """Learns from errors alone."""


# Rows of the observer's table.
_QD, _APPLIED, _INTEGRAL, _ESTIMATE, _TORQUE, _LIMIT = range(6)


@compiled
def _observe(
    table: FloatArray, mass: FloatArray, coriolis: FloatArray, gravity: FloatArray, bandwidth: float, dt: float, begun: bool
) -> None:
    """One step of the observer: from QD and APPLIED to ESTIMATE and TORQUE."""
    for i in range(len(gravity)):
        momentum, drift = 0.0, -gravity[i]
        for j in range(len(gravity)):
            momentum += mass[i, j] * table[_QD, j]
            drift += coriolis[j, i] * table[_QD, j]
        if not begun:
            table[_INTEGRAL, i] = momentum
            continue
        table[_INTEGRAL, i] += (table[_APPLIED, i] + drift + table[_ESTIMATE, i]) * dt
        estimate, limit = bandwidth * (momentum - table[_INTEGRAL, i]), table[_LIMIT, i]
        bounded = limit if estimate > limit else -limit if estimate < -limit else estimate
        # Where the bound holds, the integral follows: it must not wind up behind it.
        table[_INTEGRAL, i] += (estimate - bounded) / bandwidth
        table[_ESTIMATE, i] = bounded
        table[_TORQUE, i] = -bounded


class MomentumObserver:
    """Cancels the disturbance seen in the generalised momentum p = M(q) qd.

    The estimate r follows the true disturbance torque d with a first-order lag: r' = bandwidth (d - r), without
    accelerations or inverting M (De Luca).
    """

    def __init__(self, arm: Arm, body: RigidBody) -> None:
        self._body = body
        self.bandwidth = arm.observer.bandwidth
        """Cut-off of the estimate [rad/s]."""
        self._table: FloatArray = np.zeros((6, arm.dof))
        self._table[_LIMIT] = arm.observer.limit * arm.torque
        none = np.zeros((arm.dof, arm.dof))
        _observe(self._table, none, none, none[0], self.bandwidth, arm.period, False)  # compiles, before a loop waits for it
        self.reset()

    def reset(self) -> None:
        """Forgets the estimate; the next sample is the new start."""
        self._table[_APPLIED : _TORQUE + 1] = 0.0
        self._begun = False

    @property
    def estimate(self) -> FloatArray:
        """The disturbance torque acting on the joints [Nm]."""
        return np.array(self._table[_ESTIMATE])

    def torque(self, sample: Sample) -> FloatArray:
        """Minus the estimated disturbance, bounded [Nm]; valid until the next call."""
        body, q, qd = self._body, sample.q, sample.qd
        self._table[_QD] = qd
        mass, coriolis, gravity = body.mass_matrix(q), body.coriolis_matrix(q, qd), body.owned_gravity(q)
        _observe(self._table, mass, coriolis, gravity, self.bandwidth, sample.dt, self._begun)
        self._begun = True
        torque: FloatArray = self._table[_TORQUE]
        return torque

    def explained(self) -> None:
        """The observer is the one who asks."""

    def applied(self, torque: FloatArray) -> None:
        """The torque that the arm received, less what is explained [Nm]."""
        self._table[_APPLIED] = torque
