"""Stamps of a stream of states: what repeats, what is late, where the clock jumped, where states are missing."""

from dataclasses import dataclass

import numpy as np

from trimtab.bags.findings import MOST_EXAMPLES, Findings, Gap

LATE_PERIODS = 5  # a state older than the newest by no more than this is out of order; by more, the clock has jumped
GAP_PERIODS = 1.5


@dataclass(frozen=True)
class Sorted:
    """What becomes of some states."""

    keep: np.ndarray
    """Indices of those that are given out, (n,)."""
    breaks: list[int]
    """Places in `keep` at which a new segment begins."""


class StampWatch:
    """Looks at stamps in the order in which they were recorded, and counts."""

    def __init__(self, findings: Findings, period: float) -> None:
        """period: the arm's [s], until the bag shows its own."""
        self._findings = findings
        self._period = period * 1e9
        self._known = False
        self._last: int | None = None
        self._row: np.ndarray | None = None

    def look(self, stamp: np.ndarray, values: np.ndarray) -> Sorted:
        """stamp: (n,) [ns]; values: what the states say, (n, width), to see which repeat."""
        if len(stamp) == 0:
            return Sorted(np.empty(0, np.int64), [])
        self._learn_period(stamp)
        first = stamp[0] - 1 if self._last is None else self._last
        rising = bool((np.diff(stamp, prepend=first) > 0).all())
        chosen = Sorted(np.arange(len(stamp)), []) if rising else self._choose(stamp)
        if self._last is None:
            self._findings.segments += 1
        kept = stamp[chosen.keep]
        if len(kept):
            self._look_for_gaps(kept, chosen.breaks)
            self._look_for_repeats(values[chosen.keep])
            self._last = int(kept[-1])
        self._findings.rows += len(kept)
        self._findings.segments += len(chosen.breaks)
        return chosen

    def _learn_period(self, stamp: np.ndarray) -> None:
        steps = np.diff(stamp)
        steps = steps[steps > 0]
        if not self._known and len(steps) > 0:
            self._period = float(np.median(steps))
            self._known = len(steps) > 50
            self._findings.period = self._period / 1e9

    def _choose(self, stamp: np.ndarray) -> Sorted:
        keep: list[int] = []
        breaks: list[int] = []
        found = self._findings
        last = self._last
        for i, value in enumerate(stamp.tolist()):
            if last is not None and value <= last:
                if value == last:
                    found.repeated_stamps += 1
                    continue
                if last - value <= LATE_PERIODS * self._period:
                    found.late += 1
                    continue
                breaks.append(len(keep))
                if len(found.jumps_back) < MOST_EXAMPLES:
                    found.jumps_back.append((last, value))
            keep.append(i)
            last = value
        return Sorted(np.array(keep, dtype=np.int64), breaks)

    def _look_for_gaps(self, kept: np.ndarray, breaks: list[int]) -> None:
        before = kept[0] if self._last is None else self._last
        steps = np.diff(kept, prepend=before)
        steps[breaks] = 0
        wide = np.flatnonzero(steps > GAP_PERIODS * self._period)
        if len(wide) == 0:
            return
        found = self._findings
        found.gaps += len(wide)
        found.longest_gap = max(found.longest_gap, float(steps[wide].max()) / 1e9)
        for i in wide[: MOST_EXAMPLES - len(found.first_gaps)]:
            found.first_gaps.append(Gap(int(kept[i] - steps[i]), float(steps[i]) / 1e9))

    def _look_for_repeats(self, rows: np.ndarray) -> None:
        same = (rows[1:] == rows[:-1]).all(axis=1).sum()
        if self._row is not None:
            same += (rows[0] == self._row).all()
        self._findings.repeated_rows += int(same)
        self._row = rows[-1].copy()
