"""What a run under a fault did to the arm: limits against the log, tracking against the classical run, reasons."""

import numpy as np

from trimtab.arm import Arm
from trimtab.faults import Level
from trimtab.runlog import RunLog
from trimtab.typing import FloatArray

ALLOWED = 0.05  # by how much the joint RMSE of a run may be worse than the classical run's under the same fault
SLACK = 1e-9  # of a limit, for rounding


def exceeded(log: RunLog, arm: Arm, bounds: FloatArray) -> list[str]:
    """Limits that a run broke, in words. bounds: of the residual's model, shape (dof,) [Nm]."""
    assert log.residual is not None
    assert log.levels is not None
    sent = np.asarray(np.isfinite(log.torque).all(axis=1))
    broken: list[str] = []
    if (np.isnan(log.torque).any(axis=1) & ~np.isnan(log.torque).all(axis=1)).any() or np.isinf(log.torque).any():
        broken.append("a torque that is not finite was sent")
    _over(broken, "torque", np.abs(log.torque[sent]) / arm.torque, log, sent)
    size = np.minimum(arm.residual.size * arm.torque, bounds)
    if not np.isfinite(log.residual).all():
        broken.append("the residual is not finite")
        return broken
    _over(broken, "residual size", np.abs(log.residual) / size, log, np.ones_like(sent))
    # Where the classical controller is out of command the residual is taken away at once, which is no slewing.
    driven = sent & (log.levels <= Level.RESIDUAL_OFF)
    steps = np.abs(np.diff(log.residual[driven], axis=0)) / (arm.residual.slew * arm.period * arm.torque)
    if steps.size and steps.max() > 1.0 + SLACK:
        broken.append(f"residual slew: {steps.max():.3g} times its limit")
    if log.residual[log.levels > Level.RESIDUAL_OFF].any():
        broken.append("a residual acts although the arm is out of nominal operation")
    drawn = energy_drawn(log, arm)
    if drawn > arm.residual.tank * (1.0 + SLACK):
        broken.append(f"energy tank: {drawn:.3g} J drawn, it holds {arm.residual.tank:g}")
    return broken


def energy_drawn(log: RunLog, arm: Arm) -> float:
    """The most energy that the residual put into the joints over any stretch of time, less the tank's refill [J]."""
    assert log.residual is not None
    power = np.maximum(log.residual * log.qd, 0.0).sum(axis=1)
    balance = np.concatenate([[0.0], np.cumsum((power - arm.residual.refill) * arm.period)])
    return float((balance - np.minimum.accumulate(balance)).max())


def followed(log: RunLog, classical: RunLog) -> np.ndarray:
    """Rows in which both runs still follow the reference, (n,) of bool; all of them where there is none.

    From *hold* on no controller follows it: the error that is left tells how the arm coasts, not how it tracks.
    """
    assert log.levels is not None
    assert classical.levels is not None
    rows = np.asarray((log.levels <= Level.RESIDUAL_OFF) & (classical.levels <= Level.RESIDUAL_OFF))
    return rows if rows.any() else np.ones_like(rows)


def rmse(log: RunLog, rows: np.ndarray) -> float:
    """Of all links' positions against the reference that the controller followed, over some rows [rad]."""
    return float(np.sqrt(np.mean(np.square(log.q_des[rows] - log.q_link[rows]))))


def torque_rms(log: RunLog, arm: Arm) -> float:
    """Of the torque sent, as a share of the torque limits."""
    return float(np.sqrt(np.mean(np.square(np.nan_to_num(log.torque) / arm.torque))))


def torque_peak(log: RunLog, arm: Arm) -> float:
    """Largest torque sent, as a share of its limit."""
    return float(np.abs(np.nan_to_num(log.torque) / arm.torque).max())


def shortcomings(log: RunLog, classical: RunLog) -> list[str]:
    """In what a run under a fault is worse than it may be, beside limits, in words."""
    found = []
    rows = followed(log, classical)
    with_it, without = rmse(log, rows), rmse(classical, rows)
    if not with_it <= (1.0 + ALLOWED) * without:
        found.append(f"joint RMSE {1e3 * with_it:.3f} mrad, the classical run's is {1e3 * without:.3f}")
    worst, usual = highest(log), highest(classical)
    if worst > max(usual, Level.RESIDUAL_OFF):
        found.append(f"ended in {worst.label}, the classical run in {usual.label}")
    found += [f"{fault.level.label} latched without a reason" for fault in log.faults if not fault.reason.strip()]
    return found


def highest(log: RunLog) -> Level:
    """How far a run climbed the fault ladder."""
    return max((fault.level for fault in log.faults), default=Level.NOMINAL)


def _over(broken: list[str], name: str, shares: FloatArray, log: RunLog, rows: np.ndarray) -> None:
    """Adds a line where any share of a limit is above 1."""
    if shares.size and not shares.max() <= 1.0 + SLACK:
        row, joint = np.unravel_index(int(shares.argmax()), shares.shape)
        at = log.t[np.flatnonzero(rows)[row]]
        broken.append(f"{name}: {shares.max():.4g} times the limit of '{log.joints[joint]}' at {at:.3f} s")
