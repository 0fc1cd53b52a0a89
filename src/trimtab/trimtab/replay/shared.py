"""The classical controller of a replay: one for all residuals, since all of them see the recorded arm.

Its torque depends on the states and on what was really sent, which is in the bag; so it is computed once per state, and is
told what was recorded instead of what a replayed residual would have made of it.
"""

from time import perf_counter_ns

import numpy as np

from trimtab.arm import Arm
from trimtab.control import ControllerStack
from trimtab.control.base import Sample
from trimtab.replay.made import finite_rows
from trimtab.typing import FloatArray

UNKNOWN, KNOWN, CUT = range(3)
"""Of the learned part of what was sent: nothing; it is told; a limit cut off some of the sum, and it is what the classical
torque does not explain."""


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
        (part,), (kind,) = self.parts(torque[None], learned[None], applied[None])
        if kind == UNKNOWN:
            self._stack.applied(*self._made)
        elif kind == CUT and self._answer is not None:
            self._stack.applied(torque, torque - self.within_limits(self._answer))
        else:
            self._stack.applied(torque, part)

    def parts(self, torque: FloatArray, learned: FloatArray, applied: FloatArray) -> tuple[FloatArray, list[int]]:
        """Of what was sent for many states, (n, dof) each: how much of it was learned [Nm], and what is known of that."""
        told, split, added = finite_rows(torque), finite_rows(learned), finite_rows(applied)
        cut = added & ~split & ~np.asarray((np.abs(torque) < self._limit).all(axis=1))
        part = np.where(split[:, None], learned, np.where(added[:, None], applied, 0.0))
        return part, np.where(told, np.where(cut, CUT, KNOWN), UNKNOWN).tolist()

    def pass_by(self, sample: Sample, torque: FloatArray, part: FloatArray, kind: int) -> FloatArray:
        """The classical torque of a state that no step of a variant is asked about; torque, part: what was sent for it."""
        classical = self._stack.torque(sample)
        if kind == KNOWN:
            self._stack.applied(torque, part)
        elif kind == CUT:
            self._stack.applied(torque, torque - self.within_limits(classical))
        else:
            self._stack.applied(self.within_limits(classical), 0.0)
        return classical

    def within_limits(self, torque: FloatArray) -> FloatArray:
        """Clipped to the arm's torque limits [Nm]."""
        clipped: FloatArray = np.minimum(np.maximum(torque, -self._limit), self._limit)
        return clipped
