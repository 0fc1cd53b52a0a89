"""What a residual hands to the controller, and what every source of residuals looks like."""

from dataclasses import dataclass
from typing import Protocol

from trimtab.control.base import Sample
from trimtab.typing import FloatArray


@dataclass(slots=True)
class Offer:
    """A torque that a model would like to add. Nobody has judged it yet: that is the safety filter's work.

    Treat it as frozen; it is not because one is made in every period.
    """

    torque: FloatArray
    """In the arm's joint order, shape (dof,) [Nm]; may hold anything that a model can emit."""
    confidence: float
    """1: the input is like the training data, 0: it is nothing like it."""
    stamp: float
    """Stamp of the state that it answers [s]."""


class ResidualSource(Protocol):
    """Where residual torque comes from: a model in this process, a topic, or a fault that a test injects."""

    def reset(self) -> None:
        """Forgets all state carried from step to step."""

    def offer(self, sample: Sample, classical: FloatArray, now: float) -> Offer | None:
        """What to add to the classical torque (shape (dof,) [Nm]) at `now` [s]; None means nothing."""
