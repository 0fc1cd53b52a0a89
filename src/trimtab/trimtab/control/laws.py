"""Feedback laws: joint PD with gravity, and computed torque."""

from trimtab.arm import Arm
from trimtab.control.base import Sample
from trimtab.dynamics import RigidBody
from trimtab.typing import FloatArray


class PdGravity:
    """kp e + kd e', plus the gravity torque where the stack owns it."""

    def __init__(self, arm: Arm, body: RigidBody) -> None:
        self._kp, self._kd = arm.kp, arm.kd
        self._body = body

    def reset(self) -> None:
        """Nothing to forget."""

    def torque(self, sample: Sample) -> FloatArray:
        """[Nm]."""
        wanted = sample.desired
        feedback = self._kp * sample.error + self._kd * (wanted.qd - sample.qd)
        return feedback + self._body.owned_gravity(sample.q)

    def explained(self) -> None:
        """The law models nothing beyond the nominal rigid body."""


class ComputedTorque:
    """Inverse dynamics of the acceleration that makes the error decay: M (qdd + 2 d w e' + w^2 e) + C qd (+ g)."""

    def __init__(self, arm: Arm, body: RigidBody) -> None:
        self._kp = arm.bandwidth**2
        self._kd = 2.0 * arm.computed_torque.damping * arm.bandwidth
        self._body = body

    def reset(self) -> None:
        """Nothing to forget."""

    def torque(self, sample: Sample) -> FloatArray:
        """[Nm]."""
        wanted = sample.desired
        acceleration = wanted.qdd + self._kp * sample.error + self._kd * (wanted.qd - sample.qd)
        return self._body.owned_dynamics(sample.q, sample.qd, acceleration)

    def explained(self) -> None:
        """The law models nothing beyond the nominal rigid body."""
