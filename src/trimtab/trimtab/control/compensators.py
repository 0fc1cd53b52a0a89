"""What a user would try before a network: friction feed-forward, integral action, momentum disturbance observer."""

import numpy as np

from trimtab.arm import Arm
from trimtab.control.base import Sample
from trimtab.control.friction import FrictionModel
from trimtab.dynamics import RigidBody
from trimtab.joints import Bounds
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


class MomentumObserver:
    """Cancels the disturbance seen in the generalised momentum p = M(q) qd.

    The estimate r follows the true disturbance torque d with a first-order lag: r' = bandwidth (d - r), without
    accelerations or inverting M (De Luca).
    """

    def __init__(self, arm: Arm, body: RigidBody) -> None:
        self._body = body
        self.bandwidth = arm.observer.bandwidth
        """Cut-off of the estimate [rad/s]."""
        self._limit = arm.observer.limit * arm.torque
        self._negative_limit = -self._limit
        self._bounds = Bounds(self._negative_limit, self._limit)
        self._zeros = np.zeros(arm.dof)
        self.reset()

    def reset(self) -> None:
        """Forgets the estimate; the next sample is the new start."""
        self._estimate = self._zeros
        self._integral: FloatArray | None = None
        self._applied = self._zeros

    @property
    def estimate(self) -> FloatArray:
        """The disturbance torque acting on the joints [Nm]."""
        return self._estimate

    def torque(self, sample: Sample) -> FloatArray:
        """Minus the estimated disturbance, bounded [Nm]."""
        q, qd = sample.q, sample.qd
        momentum = self._body.mass_matrix(q).dot(qd)
        drift = self._body.coriolis_matrix(q, qd).T.dot(qd) - self._body.owned_gravity(q)
        if self._integral is None:
            self._integral = momentum.copy()
        else:
            self._integral += (self._applied + drift + self._estimate) * sample.dt
            estimate = self.bandwidth * (momentum - self._integral)
            self._estimate = estimate
            if not self._bounds.hold(estimate):
                self._estimate = np.minimum(np.maximum(estimate, self._negative_limit), self._limit)
                # Where the bound holds, the integral follows: it must not wind up behind it.
                self._integral += (estimate - self._estimate) / self.bandwidth
        return -self._estimate

    def explained(self) -> None:
        """The observer is the one who asks."""

    def applied(self, torque: FloatArray) -> None:
        """The torque that the arm received, less what is explained [Nm]."""
        self._applied = torque
