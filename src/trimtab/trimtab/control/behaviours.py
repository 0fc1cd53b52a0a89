"""What an arm does when something is wrong: hold a posture, or damp its motion."""

from trimtab.arm import Arm
from trimtab.dynamics import RigidBody
from trimtab.typing import FloatArray


class Hold:
    """Joint PD to the posture where the arm was caught, plus gravity where the stack owns it."""

    def __init__(self, arm: Arm, body: RigidBody) -> None:
        self._arm = arm
        self._body = body
        self._posture: FloatArray | None = None

    def release(self) -> None:
        """Forgets the posture; the next call catches a new one."""
        self._posture = None

    def torque(self, q: FloatArray, qd: FloatArray) -> FloatArray:
        """[Nm]."""
        if self._posture is None:
            self._posture = q.copy()  # also outside the limits: no fault may yank the arm
        return self._arm.kp * (self._posture - q) - self._arm.kd * qd + self._body.owned_gravity(q)


class Damp:
    """-kd qd, plus gravity where the stack owns it: the arm is braked; a load that the model does not know sinks slowly."""

    def __init__(self, arm: Arm, body: RigidBody) -> None:
        self._kd = arm.kd
        self._body = body

    def torque(self, q: FloatArray, qd: FloatArray) -> FloatArray:
        """[Nm]."""
        return self._body.owned_gravity(q) - self._kd * qd
