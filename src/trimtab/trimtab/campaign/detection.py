"""Who noticed a fault, and when: the fault ladder, the driver, a limit of the filter, or nobody because nothing changed."""

from dataclasses import dataclass

import numpy as np

from trimtab.faults import Level
from trimtab.runlog import RunLog
from trimtab.safety import Limit

FELL = 0.25  # loss of trust, against the run without the fault, that counts as noticed
NEW = 0.01  # share of steps by which a limit must fire more often than without the fault
HARMLESS = "harmless: nothing to detect"
AT_LOAD = "refused at load"
GATES = {
    Limit.MISSING: "missing",
    Limit.CONFIDENCE: "confidence",
    Limit.SIZE: "size",
    Limit.SLEW: "slew",
    Limit.ENERGY: "energy tank",
    Limit.POSITION: "position margin",
    Limit.VELOCITY: "velocity margin",
}
EVIDENCE = "evidence"
DRIVER = "driver: damped for want of a command"


@dataclass(frozen=True)
class Detection:
    """How a fault was noticed."""

    by: str
    """The level that latched, the limits that held, in the order in which they did, or why there was nothing to notice."""
    after: float | None
    """Since the fault began [s]; None where nobody noticed."""
    reason: str | None = None
    """Why a level latched, as the ladder says it."""


def detect(log: RunLog, healthy: RunLog, begins: float) -> Detection:
    """Compares a run under a fault that began at `begins` [s] with the same run without it.

    A latched level goes before limits: it is what an operator sees. Limits count when they fire more than without the
    fault; evidence when trust falls well below what it would have been.
    """
    assert log.levels is not None
    first = int(np.searchsorted(log.t, begins - 1e-9))
    latched = np.flatnonzero(log.levels[first:] > Level.NOMINAL)
    if len(latched):
        row = first + int(latched[0])
        level = Level(int(log.levels[row]))
        reason = next((fault.reason for fault in log.faults if fault.level is level), None)
        return Detection(level.label, _since(log, row, begins), reason)
    noticed = sorted((row, name) for name, row in _noticed(log, healthy, first).items())
    if not noticed:
        return Detection(HARMLESS, None)
    return Detection(", ".join(name for _, name in noticed), _since(log, noticed[0][0], begins))


def _noticed(log: RunLog, healthy: RunLog, first: int) -> dict[str, int]:
    """What noticed without latching, and in which row."""
    assert log.limits is not None
    assert healthy.limits is not None
    assert log.trust is not None
    assert healthy.trust is not None
    found: dict[str, int] = {}
    unsent = np.asarray(np.isnan(log.torque).any(axis=1) & ~np.isnan(healthy.torque).any(axis=1))
    silent = _first(unsent, first)
    if silent is not None:
        found[DRIVER] = silent
    for limit, name in GATES.items():
        fired, before = (run.limits[first:] & limit > 0 for run in (log, healthy) if run.limits is not None)
        usual = int(np.count_nonzero(before))
        if np.count_nonzero(fired) > (usual + NEW * len(fired) if usual else 0):
            row = _first(fired & ~before, 0)
            if row is not None:
                found[name] = first + row
    lower = np.asarray(log.trust < healthy.trust - FELL)
    fell = _first(lower, first)
    if fell is not None:
        found[EVIDENCE] = fell
    return found


def _since(log: RunLog, row: int, begins: float) -> float:
    """Time of a row after the fault's beginning [s]."""
    return max(0.0, float(log.t[row]) - begins)


def _first(rows: np.ndarray, start: int) -> int | None:
    """The first true row from `start` on."""
    true = np.flatnonzero(rows[start:])
    return start + int(true[0]) if len(true) else None
