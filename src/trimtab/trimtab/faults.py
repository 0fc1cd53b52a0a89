"""The latched fault ladder: nominal -> residual off -> hold -> damp -> stop."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum


class Level(IntEnum):
    """How far an arm has been taken out of nominal operation."""

    NOMINAL = 0
    RESIDUAL_OFF = 1
    """The classical controller goes on alone."""
    HOLD = 2
    """The arm holds the posture where it was caught."""
    DAMP = 3
    """The arm is braked."""
    STOP = 4
    """No torque is commanded; the driver's own fallback takes over."""

    @property
    def controlled(self) -> bool:
        """Whether the classical controller still follows the reference."""
        return self <= Level.RESIDUAL_OFF

    @property
    def label(self) -> str:
        """For people."""
        return self.name.lower().replace("_", " ")


Snapshot = Mapping[str, object]
"""Plain data (numbers, texts, lists) of the step in which a fault latched."""


@dataclass(frozen=True)
class Fault:
    """Why and when a level was reached, and what was true then."""

    level: Level
    reason: str
    time: float
    """Stamp of the state at which it happened [s]."""
    snapshot: Snapshot | None = None


class FaultLatch:
    """Climbs the ladder and never comes down by itself."""

    def __init__(self) -> None:
        self.history: list[Fault] = []
        self.level = Level.NOMINAL

    @property
    def fault(self) -> Fault | None:
        """The fault that set the present level, None when nominal."""
        return self.history[-1] if self.history else None

    def trip(self, level: Level, reason: str, time: float, snapshot: Snapshot | None = None) -> bool:
        """Latches a fault if it is worse than the present level; tells whether it did."""
        if level <= self.level:
            return False
        self.history.append(Fault(level, reason, time, snapshot))
        self.level = level
        return True

    def reset(self) -> None:
        """Back to nominal; only ever called because somebody asked for it."""
        self.history.clear()
        self.level = Level.NOMINAL

    def __str__(self) -> str:
        return "nominal" if self.fault is None else f"{self.level.label}: {self.fault.reason}"
