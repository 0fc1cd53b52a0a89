"""The classical controller of a replay: one for all residuals, since all of them see the recorded arm.

Its torque depends on the states and on what was really sent, which is in the bag; so it is computed once per state, and is
told what was recorded instead of what a replayed residual would have made of it.
"""

from time import perf_counter_ns

import numpy as np

from trimtab.arm import Arm
from trimtab.control import ControllerStack
from trimtab.control.base import Sample
from trimtab.typing import FloatArray


class SharedController(ControllerStack):
    """Stands in for a stack in the control steps of all variants. Between states: `begin`, and `tell` after all steps."""

    def __init__(self, stack: ControllerStack, arm: Arm) -> None:
        super().__init__(stack.law, stack.compensators)
        self._stack = stack
        self._limit = arm.torque
        self._answer: FloatArray | None = None
        self._made: tuple[FloatArray, FloatArray] | None = None
        self.spent = 0
        """Time that the classical torque of this state took [ns]."""

    @property
    def classical(self) -> FloatArray | None:
        """The torque of this state, not yet limited [Nm]; None where no step asked for it."""
        return self._answer

    def begin(self) -> None:
        """A new state."""
        self._answer = self._made = None
        self.spent = 0

    def reset(self) -> None:
        """Forgets all that was learnt or integrated."""
        self._stack.reset()
        self.begin()

    def torque(self, sample: Sample) -> FloatArray:
        """The classical torque; the first step of a state has it computed."""
        if self._answer is None:
            start = perf_counter_ns()
            self._answer = self._stack.torque(sample)
            self.spent = perf_counter_ns() - start
        return self._answer

    def applied(self, torque: FloatArray, residual: FloatArray | float = 0.0) -> None:
        """What the first variant would have sent; it only counts where the bag does not tell."""
        if self._made is None:
            self._made = torque, np.asarray(residual)

    def tell(self, torque: FloatArray, learned: FloatArray, applied: FloatArray) -> None:
        """What was really sent for this state, its learned part, or the residual before the limits [Nm]; NaN: not known."""
        if self._made is None:
            return  # nothing was commanded
        if not np.isfinite(torque).all():
            self._stack.applied(*self._made)
        elif np.isfinite(learned).all():
            self._stack.applied(torque, learned)
        elif not np.isfinite(applied).all():
            self._stack.applied(torque, np.zeros_like(torque))
        elif (np.abs(torque) < self._limit).all() or self._answer is None:
            self._stack.applied(torque, applied)
        else:  # a limit cut off some of it: the learned part is what the classical torque does not explain
            self._stack.applied(torque, torque - np.minimum(np.maximum(self._answer, -self._limit), self._limit))
