"""Abort thresholds: when a residual is switched off for good, until somebody resets."""

import math

import numpy as np

from trimtab.arm import Arm
from trimtab.safety.evidence import Errors, Evidence
from trimtab.safety.limits import Limit
from trimtab.typing import FloatArray

WINDOW = 0.5  # s; time constant of the shares and energies
HIGH_BAND = 15.0  # Hz; above this a residual that follows a reference has nothing to say
TRACKING_EVERY = 5  # steps between two looks at the errors, which change slowly
TRACKING_FLOOR = 0.005  # rad; a smaller error is not worth an abort
SLEW_RUN = 1.2  # times the way from one bound to the other: a residual that slews longer than that jumps to and fro

_SIZE, _SLEW = int(Limit.SIZE), int(Limit.SLEW)


class AbortMonitor:
    """Watches a residual that acts; its text says which threshold was passed and by how much."""

    def __init__(self, arm: Arm, size: FloatArray) -> None:
        """size: the largest residual that can act, (dof,) [Nm]."""
        self._dof = arm.dof
        self._limits = arm.residual
        self._longest_slew = SLEW_RUN * 2.0 * float((size / arm.torque).max()) / arm.residual.slew
        self._scale = 1.0 / np.maximum(size, 1e-12)
        self._most_energy = arm.residual.abort_oscillation**2
        self.reset()

    def reset(self) -> None:
        """Forgets what was seen."""
        self._saturated = 0.0
        self._energy = 0.0
        self._slewing = 0.0
        self._steps = 0
        self._slow = np.zeros(self._dof)

    def update(self, residual: FloatArray, fired: int, evidence: Evidence, dt: float) -> str | None:
        """One step with the residual that acts [Nm] and the limits that fired; a reason to switch it off, or None."""
        share = dt / (WINDOW + dt)
        self._saturated += share * (float(fired & _SIZE > 0) - self._saturated)
        self._slewing = self._slewing + dt if fired & _SLEW else 0.0
        high = residual * self._scale
        high -= self._slow
        self._slow += min(1.0, 2.0 * math.pi * HIGH_BAND * dt) * high
        self._energy += share * (float(high.dot(high)) - self._energy)
        limits = self._limits
        if self._saturated > limits.abort_saturation:
            return f"it was larger than its bound in {100 * self._saturated:.0f} % of the last {WINDOW:g} s"
        if self._slewing > self._longest_slew:
            return f"it ran at its slew limit for {self._slewing:.3f} s without a break"
        if self._energy > self._most_energy:
            return (
                f"it oscillates: {100 * math.sqrt(self._energy):.0f} % of its bound above {HIGH_BAND:g} Hz "
                f"(allowed {100 * limits.abort_oscillation:.0f} %)"
            )
        self._steps += 1
        return self._tracking(evidence.errors()) if self._steps % TRACKING_EVERY == 0 else None

    def _tracking(self, errors: Errors) -> str | None:
        """A reason to switch off where the arm tracks worse than it would without."""
        actual, without = errors.actual, errors.without
        if actual < TRACKING_FLOOR or actual <= self._limits.abort_tracking * without:
            return None
        return f"with it the arm is {1e3 * actual:.1f} mrad off, without it would be {1e3 * without:.1f}"
