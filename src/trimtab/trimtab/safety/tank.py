"""The energy tank: a residual can put only so much energy into the arm."""

from trimtab.arm import Arm
from trimtab.typing import FloatArray

SOFT = 0.25  # share of the tank below which the residual is scaled down, before the hard bound has to act


class EnergyTank:
    """Pays for the energy that a residual puts into the joints, and never owes.

    Over any stretch of T seconds at the control rate, the sum of positive joint powers times the period is at most
    `tank + refill T`. Energy that the residual takes out of the arm is not credited. Because the residual cannot change
    faster than its slew limit, the tank always keeps in reserve what it takes to bring it to zero at the fastest speed
    that does not trip the arm.
    """

    def __init__(self, arm: Arm) -> None:
        limits = arm.residual
        self._period = arm.period
        self._capacity = limits.tank
        self._refill = limits.refill
        # A residual u brought to zero at the slew limit s, at speed v, puts at most v u^2 / (2 s) in on its way.
        self._reserve = arm.trips.velocity * arm.velocity / (2.0 * limits.slew * arm.torque)
        self._asked: FloatArray | None = None
        self._answer = 0.0
        self.reset()

    @property
    def level(self) -> float:
        """What is left [J]."""
        return self._level

    def reset(self) -> None:
        """Full."""
        self._level = self._capacity
        self._power = 0.0

    def refill(self, dt: float) -> None:
        """Time has passed since the last step [s]; where that was more than a period, the last torque acted longer."""
        overrun = max(0.0, dt - self._period)
        self._level = min(self._capacity, self._level + self._refill * dt) - self._power * overrun

    def scale(self, residual: FloatArray) -> float:
        """How much of its size a residual should keep as the tank runs low, 0 to 1."""
        left = self._level - self._kept(residual)
        return min(1.0, max(0.0, left / (SOFT * self._capacity)))

    def pay(self, residual: FloatArray, qd: FloatArray) -> bool:
        """Takes what one period of this residual [Nm] costs at these speeds [rad/s]; False, and nothing, if it cannot."""
        power = _injected(residual, qd)
        cost = power * self._period
        if cost + self._kept(residual) > self._level:
            return False
        self._level -= cost
        self._power = power
        return True

    def release(self, residual: FloatArray, qd: FloatArray) -> None:
        """Pays for a residual on its way to zero, out of the reserve."""
        self._power = _injected(residual, qd)
        self._level -= self._power * self._period

    def _kept(self, residual: FloatArray) -> float:
        """Reserve that a residual needs [J]. Remembers the last answer: what is paid for is what the next step asks for."""
        if residual is not self._asked:
            self._answer = float(self._reserve.dot(residual * residual))
            self._asked = residual
        return self._answer


def _injected(residual: FloatArray, qd: FloatArray) -> float:
    """Sum of the positive joint powers [W]."""
    total = 0.0
    for power in (residual * qd).tolist():
        if power > 0.0:
            total += power
    return total
