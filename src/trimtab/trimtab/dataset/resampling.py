"""Rows at one rate: segments without gaps, each by itself; a gap is never bridged."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from trimtab.bags.reading import Reference
from trimtab.typing import FloatArray

SECOND = 1e9  # ns
OFFSET = 0.25  # of the recording's period by which a causal instant follows the sample that it is meant for: jitter


@dataclass(frozen=True)
class Segment:
    """Rows from `first` up to, not including, `end`, with no gap between them."""

    first: int
    end: int


def find_segments(stamp: np.ndarray, stretch: np.ndarray, gap: float) -> list[Segment]:
    """Where rows follow each other within `gap` [s] and the clock did not jump back; stamp (n,) [ns], stretch (n,)."""
    broken = (np.diff(stamp) > gap * SECOND) | (np.diff(stamp) <= 0) | (np.diff(stretch) != 0)
    edges = [0, *(np.flatnonzero(broken) + 1).tolist(), len(stamp)]
    return [Segment(first, end) for first, end in pairwise(edges) if end > first]


def instants(stamp: np.ndarray, rate: float, offset: float) -> np.ndarray:
    """Instants of a segment [ns]: from its first stamp and `offset` [s] on, 1/rate apart, none after its last sample's time.

    With an offset the last instant may follow the last sample by less than that. Which instants there are up to some
    time depends on nothing that is recorded later.
    """
    begin = round(offset * SECOND)
    count = int((stamp[-1] - stamp[0]) * rate / SECOND + 1e-6) + 1
    times = stamp[0] + begin + np.round(np.arange(count) * (SECOND / rate)).astype(np.int64)
    within: np.ndarray = times[times <= stamp[-1] + begin]
    return within


def hold(stamp: np.ndarray, at: np.ndarray) -> np.ndarray:
    """For each instant the newest row that is not later, (len(at),); both [ns], rising."""
    found: np.ndarray = np.searchsorted(stamp, at, side="right") - 1
    return found


def interpolate(stamp: np.ndarray, values: FloatArray, at: np.ndarray) -> FloatArray:
    """Straight lines between rows, (len(at), width); NaN next to NaN. For instants between the first and the last row."""
    if len(stamp) == 1:
        return values[np.zeros(len(at), dtype=np.int64)]
    before = np.clip(np.searchsorted(stamp, at, side="right") - 1, 0, len(stamp) - 2)
    share = ((at - stamp[before]) / (stamp[before + 1] - stamp[before]))[:, None]
    mixed = values[before] * (1.0 - share) + values[before + 1] * share
    # On a row its own value counts, whatever stands next to it.
    lines: FloatArray = np.where(share == 0.0, values[before], np.where(share == 1.0, values[before + 1], mixed))
    return lines


def wanted(
    references: Sequence[tuple[int, Reference]], stamp: np.ndarray, at: np.ndarray, dof: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Wanted position, velocity and acceleration at instants [ns], each (len(at), dof); NaN where nobody told.

    references: each with the row before which it came. Before a reference's first point it is not known what was wanted:
    the controller led the arm there as it saw fit.
    """
    found = [np.full((len(at), dof), np.nan) for _ in range(3)]
    for row, reference in references:
        came = int(stamp[max(0, row - 1)])
        begin = max(reference.stamp, came)
        after = np.flatnonzero(at >= begin)
        for column in found:
            column[after] = np.nan
        trajectory = reference.trajectory
        if trajectory is None:
            continue
        for i in after:
            since = (int(at[i]) - begin) / SECOND
            if since >= trajectory.t[0]:
                motion = trajectory.at(since)
                for column, values in zip(found, (motion.q, motion.qd, motion.qdd), strict=True):
                    column[i] = values
    return found[0], found[1], found[2]
