"""What a fault of the campaign is: its name, what it does, and how it is put into a run."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trimtab.arm import Arm
from trimtab.residual.offer import Offer
from trimtab.simulate import Events
from trimtab.typing import FloatArray

BEGINS = 0.4  # share of the reference after which faults begin: by then a residual has earned what it will earn
JOINT = 1  # the joint that faults of a single joint hit; the second one carries the arm
KINDS = ("none", "model", "process", "time", "data", "bundle", "plant")


@dataclass(frozen=True)
class Scene:
    """Where and when a fault happens."""

    arm: Arm
    bounds: FloatArray
    """Largest residual that the filter lets through, shape (dof,) [Nm]."""
    begins: float
    """[s]"""
    seed: int


Spoil = Callable[[Offer, float], Offer | None]
"""What becomes of a model's offer at `now` [s], once the fault has begun."""


@dataclass(frozen=True)
class FaultCase:
    """One fault. Of the makers at most one is set; each run gets a fresh one, because faults may carry state."""

    name: str
    kind: str
    """One of `KINDS`."""
    what: str
    """What happens, for people."""
    spoil: Callable[[Scene], Spoil] | None = None
    """Changes what the model offers; the classical run knows nothing of it."""
    events: Callable[[Scene], Events] | None = None
    """Changes the plant or the states; the classical run gets the same."""
    corrupt: Callable[[Path], Path | None] | None = None
    """Damages a copy of the bundle; gives the file of trusted keys where signatures are demanded."""
    from_start: bool = False
    """Whether it begins with the run instead of in the middle."""

    def begins(self, duration: float) -> float:
        """When it begins in a reference of this duration [s]."""
        return 0.0 if self.from_start else BEGINS * duration
