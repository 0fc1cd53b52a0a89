"""Whether a model answers the state that it is asked for, and not the one before: found out by asking what if.

Two copies of a model see the same states. Now and then one of them is shown a slightly different wanted speed. A model that
answers at once gives another torque there and then; one that is late by a cycle gives the very same, and another one a
cycle later.
"""

from dataclasses import replace

import numpy as np

from trimtab.arm import Arm
from trimtab.control.base import Sample
from trimtab.residual.runtime import ResidualModel
from trimtab.typing import FloatArray

SETTLE = 20  # states before a question
EVERY = 997  # states from one question to the next
PUSH = 0.05  # share of the speed limit
LEAST = 1e-5  # share of the torque limit below which a difference is none


class Immediacy:
    """Asks both copies. `at_once` and `later` count the questions that were answered by the first torque or by the next."""

    def __init__(self, model: ResidualModel, arm: Arm) -> None:
        self._copies = [ResidualModel(model.bundle, arm) for _ in range(2)]
        self._arm = arm
        self._states = 0
        self._open = False
        self.asked = self.at_once = self.later = 0

    def wants(self) -> bool:
        """Counts a state; tells whether it is one to ask about, or of the stretch in which a model settles."""
        self._states += 1
        return 0 < self._states % EVERY <= 2 + SETTLE

    def add(self, sample: Sample, classical: FloatArray, now: float) -> None:
        """A state that `wants` asked for."""
        place = self._states % EVERY
        asked = place == 1 + SETTLE
        pushed = sample
        if asked:
            wanted = sample.desired
            pushed = Sample(
                sample.q + PUSH * self._arm.velocity * 0.01,
                sample.qd + PUSH * self._arm.velocity,
                replace(wanted, q=wanted.q + 0.01, qd=wanted.qd + PUSH * self._arm.velocity, qdd=wanted.qdd + 1.0),
                sample.dt,
            )
        plain = self._copies[0].offer(sample, classical, now)
        other = self._copies[1].offer(pushed, classical * 1.01 if asked else classical, now)
        if plain is None or other is None or place <= SETTLE:
            return
        with np.errstate(invalid="ignore"):
            differs = bool((np.abs(plain.torque - other.torque) > LEAST * self._arm.torque).any())
        if asked:
            self.asked += 1
            self.at_once += differs
            self._open = not differs
        elif self._open:
            self.later += differs
