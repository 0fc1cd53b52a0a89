"""One run of a training set: what was recorded, at one rate, with accelerations, and what was lost on the way."""

from dataclasses import asdict, dataclass

import numpy as np

from trimtab.dataset.filtering import CAUSAL, accelerations
from trimtab.dataset.recorded import Recorded
from trimtab.dataset.resampling import OFFSET, find_segments, hold, instants, interpolate, wanted
from trimtab.errors import LogError
from trimtab.typing import FloatArray

LONGEST_STEP = 1.5  # of the recording's period: what is longer is a gap
FASTER = 1.01  # times the recording's rate that a set may have; more would only repeat rows
MEASURED = ("q", "qd", "torque", "learned", "effort")
COLUMNS = ("q", "qd", "qdd", "torque", "learned", "effort", "q_des", "qd_des", "qdd_des")


@dataclass(frozen=True)
class Settings:
    """How rows are made; the same for all runs of a set."""

    rate: float
    """[Hz]"""
    method: str
    """`causal` or `zero_phase`."""
    cutoff: float
    """Of the velocities' low-pass for the accelerations [Hz]."""
    gap: float
    """Longest step between two rows that is no gap [s]; 0: one and a half periods of each recording."""


@dataclass(frozen=True)
class Counts:
    """What became of a run's time."""

    recorded_rows: int
    rows: int
    segments: int
    """That have rows."""
    gaps: int
    longest_gap: float
    """[s]"""
    lost_in_gaps: float
    """[s]"""
    short_segments: int
    """Too short for the filter to settle; left out."""
    settling_rows: int
    """Left out because the filter had not settled, short segments included."""
    repeats: int
    """Recorded rows that equal the one before; kept."""
    without_torque: int
    """Rows for which no torque is known."""
    without_reference: int
    """Rows for which it is not known what was wanted."""

    def as_dict(self) -> dict[str, int | float]:
        """Plain data."""
        return asdict(self)


@dataclass(frozen=True)
class RunRows:
    """Rows of one run; `columns` are (n, dof), those of which nothing is known are left out."""

    t: FloatArray
    """Since the first recorded row, (n,) [s]."""
    segment: np.ndarray
    """(n,) of int; from one to the next, time is missing."""
    columns: dict[str, FloatArray]
    counts: Counts


def make_rows(recorded: Recorded, settings: Settings) -> RunRows:
    """Resamples one run, segment by segment; refuses a rate above the recording's."""
    period = recorded.findings.period
    if len(recorded.stamp) < 2 or period <= 0.0:
        raise LogError(f"{recorded.path}: has {len(recorded.stamp)} usable rows; that is no run")
    if settings.rate > FASTER / period:
        raise LogError(
            f"{recorded.path}: was recorded at {1.0 / period:.4g} Hz; {settings.rate:g} Hz would only repeat its rows. "
            "Give --rate at most that, or leave this bag out"
        )
    gap = settings.gap or LONGEST_STEP * period
    segments = find_segments(recorded.stamp, recorded.stretch, gap)
    parts: list[dict[str, np.ndarray]] = []
    short = settling = 0
    for one in segments:
        part = _part(recorded, slice(one.first, one.end), settings, OFFSET * period)
        known = np.isfinite(part["qdd"]).all(axis=1)
        settling += int((~known).sum())
        if not known.any():
            short += 1
            continue
        part["segment"] = np.full(len(known), len(parts), dtype=np.int32)
        parts.append({name: values[known] for name, values in part.items()})
    if not parts:
        raise LogError(
            f"{recorded.path}: no stretch without a gap is long enough for a filter at {settings.cutoff:g} Hz; "
            "give a higher --cutoff or a longer --gap"
        )
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    steps = np.diff(recorded.stamp) / 1e9
    between = np.array([recorded.stamp[one.first] - recorded.stamp[one.first - 1] for one in segments[1:]]) / 1e9
    counts = Counts(
        recorded_rows=len(recorded.stamp),
        rows=len(joined["t"]),
        segments=len(parts),
        gaps=len(segments) - 1,
        longest_gap=float(steps.max(initial=0.0)) if len(segments) > 1 else 0.0,
        lost_in_gaps=float(between[between > 0.0].sum()),
        short_segments=short,
        settling_rows=settling,
        repeats=recorded.findings.repeated_rows,
        without_torque=int(np.isnan(joined["torque"]).any(axis=1).sum()),
        without_reference=int(np.isnan(joined["q_des"]).any(axis=1).sum()),
    )
    columns = {name: joined[name] for name in COLUMNS if np.isfinite(joined[name]).any()}
    return RunRows(joined["t"], joined["segment"], columns, counts)


def _part(recorded: Recorded, rows: slice, settings: Settings, offset: float) -> dict[str, np.ndarray]:
    """One segment at the set's rate; rows in which the filter settles have no acceleration."""
    stamp = recorded.stamp[rows]
    causal = settings.method == CAUSAL
    at = instants(stamp, settings.rate, offset if causal else 0.0)
    part: dict[str, np.ndarray] = {"t": (at - recorded.stamp[0]) / 1e9}
    newest = hold(stamp, at)
    for name in MEASURED:
        values = getattr(recorded, name)[rows]
        part[name] = values[newest] if causal else interpolate(stamp, values, at)
    part["qdd"] = accelerations(part["qd"], settings.rate, settings.cutoff, settings.method)
    known = [(row, one) for row, one in recorded.references if row < rows.stop]
    part["q_des"], part["qd_des"], part["qdd_des"] = wanted(known, recorded.stamp, at, recorded.q.shape[1])
    return part
