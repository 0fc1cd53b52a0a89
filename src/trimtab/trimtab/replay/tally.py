"""What one variant did over a bag, as counts and sums that add up over bags."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trimtab.arm import Arm
from trimtab.faults import Level
from trimtab.replay.made import Made, finite_rows
from trimtab.replay.playback import Block
from trimtab.safety.limits import Limit
from trimtab.typing import FloatArray

CONFIDENCES = 100  # bins from 0 to 1
LATENCIES = np.geomspace(1.0, 1e5, 401)  # us, edges of bins 3 % wide
ROUNDING = 1.0 + 1e-9


@dataclass
class Tally:
    """Sums of one variant. Lists are by joint, in the arm's order."""

    dof: int
    rows: int = 0
    unanswered: int = 0
    """States for which the model offered nothing, as when it was not sure of its own state."""
    not_finite: int = 0
    """Offers with a NaN or an infinity."""
    too_large: int = 0
    """Offers beyond the size that the filter lets through."""
    jumps: int = 0
    """Offers further from the one before than the slew limit allows."""
    limits: dict[str, int] = field(default_factory=dict)
    """Rows in which each limit fired."""
    levels: dict[str, int] = field(default_factory=dict)
    confidence: list[int] = field(default_factory=lambda: [0] * CONFIDENCES)
    latency: list[int] = field(default_factory=lambda: [0] * (len(LATENCIES) - 1))
    offered: list[float] = field(default_factory=list)
    """Sum of squares of what was offered [Nm^2]."""
    squares: list[float] = field(default_factory=list)
    """Sum of squares of what was added [Nm^2]."""
    largest: list[float] = field(default_factory=list)
    """[Nm]"""
    fastest: list[float] = field(default_factory=list)
    """Largest change from row to row [Nm/s]."""
    energy: list[float] = field(default_factory=list)
    """Put into the arm where it would have been added to the recorded motion [J]."""
    effort_rows: int = 0
    effort: list[float] = field(default_factory=list)
    """Sum of squares of the torque measured less the torque computed [Nm^2]."""

    def __post_init__(self) -> None:
        for name in ("offered", "squares", "largest", "fastest", "energy", "effort"):
            if not getattr(self, name):
                setattr(self, name, [0.0] * self.dof)

    def add(self, other: "Tally") -> None:
        """Takes in another bag's."""
        for name in ("rows", "unanswered", "not_finite", "too_large", "jumps", "effort_rows"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for mine, theirs in ((self.limits, other.limits), (self.levels, other.levels)):
            for key, count in theirs.items():
                mine[key] = mine.get(key, 0) + count
        for name in ("confidence", "latency", "offered", "squares", "energy", "effort"):
            setattr(self, name, [a + b for a, b in zip(getattr(self, name), getattr(other, name), strict=True)])
        for name in ("largest", "fastest"):
            setattr(self, name, [max(a, b) for a, b in zip(getattr(self, name), getattr(other, name), strict=True)])

    def share(self, count: int) -> float:
        """Of all rows, 0 to 1."""
        return count / max(1, self.rows)

    def unsure(self, below: float) -> float:
        """Share of the offers with a confidence below a value."""
        return sum(self.confidence[: round(below * CONFIDENCES)]) / max(1, sum(self.confidence))

    def confidence_at(self, percent: float) -> float:
        """A percentile of the confidence, to a bin's lower edge; NaN where nothing was offered."""
        return _percentile(self.confidence, np.arange(CONFIDENCES) / CONFIDENCES, percent)

    def latency_at(self, percent: float) -> float:
        """A percentile of what a step took, to a bin's upper edge [us]; NaN where none was measured."""
        return _percentile(self.latency, LATENCIES[1:], percent)

    def rms(self, joint: int) -> float:
        """Of what was added [Nm]."""
        return float(np.sqrt(self.squares[joint] / max(1, self.rows)))


class Counting:
    """Fills a tally block by block."""

    def __init__(self, arm: Arm, size: FloatArray | None) -> None:
        """size: largest residual that the filter lets through [Nm]; None for the classical controller."""
        self.tally = Tally(arm.dof)
        self._size = size
        self._period = arm.period
        self._step = arm.residual.slew * arm.period * arm.torque * ROUNDING
        self._residual: FloatArray | None = None
        self._offer: FloatArray | None = None

    def add(self, block: Block, made: Made) -> None:
        """The next rows."""
        tally, count = self.tally, len(block.rows)
        tally.rows += count
        for mask, times in zip(*np.unique(made.limits, return_counts=True), strict=True):
            for limit in Limit:
                if int(mask) & limit and limit.name:
                    _count(tally.limits, limit.name.lower(), times)
        for level, times in zip(*np.unique(made.levels, return_counts=True), strict=True):
            _count(tally.levels, Level(int(level)).label, times)
        tally.latency = _added(tally.latency, np.histogram(made.stages[:, 3] * 1e-3, LATENCIES)[0])
        measured = finite_rows(block.rows.effort) & finite_rows(made.torque)
        if measured.any():
            tally.effort_rows += int(measured.sum())
            off = block.rows.effort[measured] - made.torque[measured]
            tally.effort = _added(tally.effort, (off**2).sum(axis=0))
        if self._size is not None:
            self._add_residual(made.residual, block.rows.qd)
            self._add_offers(made)

    def _add_residual(self, residual: FloatArray, qd: FloatArray) -> None:
        tally = self.tally
        tally.squares = _added(tally.squares, (residual**2).sum(axis=0))
        tally.largest = np.maximum(tally.largest, np.abs(residual).max(axis=0)).tolist()
        before = residual[:1] if self._residual is None else self._residual
        slew = np.abs(np.diff(residual, axis=0, prepend=before)).max(axis=0) / self._period
        tally.fastest = np.maximum(tally.fastest, slew).tolist()
        tally.energy = _added(tally.energy, np.maximum(residual * qd, 0.0).sum(axis=0) * self._period)
        self._residual = residual[-1:].copy()

    def _add_offers(self, made: Made) -> None:
        assert self._size is not None
        tally, offered = self.tally, made.offered
        told = np.isfinite(made.confidence)
        finite = finite_rows(offered)
        tally.unanswered += int((~told).sum())
        tally.not_finite += int((told & ~finite).sum())
        bins = np.histogram(made.confidence[told], CONFIDENCES, (0.0, 1.0))[0]
        tally.confidence = _added(tally.confidence, bins)
        plain = np.where(finite[:, None], offered, 0.0)
        tally.offered = _added(tally.offered, (plain**2).sum(axis=0))
        tally.too_large += int((np.abs(plain) > self._size * ROUNDING).any(axis=1).sum())
        inside = np.clip(plain, -self._size, self._size)
        before = inside[:1] if self._offer is None else self._offer
        tally.jumps += int((np.abs(np.diff(inside, axis=0, prepend=before)) > self._step).any(axis=1).sum())
        self._offer = inside[-1:].copy()


def _count(counts: dict[str, int], key: str, more: int) -> None:
    counts[key] = counts.get(key, 0) + int(more)


def _added(old: list[Any], new: np.ndarray) -> list[Any]:
    """By element, as plain numbers."""
    return [a + b for a, b in zip(old, new.tolist(), strict=True)]


def _percentile(counts: list[int], values: np.ndarray, percent: float) -> float:
    total = sum(counts)
    if total == 0:
        return float("nan")
    place = int(np.searchsorted(np.cumsum(counts), 0.01 * percent * total))
    return float(values[min(place, len(values) - 1)])
