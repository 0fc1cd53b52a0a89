"""One run of a foreign recording as arrays, and what is odd about it; nothing of it is mended."""

from dataclasses import asdict, dataclass

import numpy as np

from trimtab.convert.mapping import JointPd, RecordingMapping
from trimtab.convert.tables import Table
from trimtab.errors import LogError
from trimtab.foreign import Embodiment
from trimtab.typing import FloatArray

NOMINAL = 0.05  # share of the arm's period by which the usual step of a recording may differ from it
LONG_STEP = 1.5  # a step longer than this many periods is a gap


@dataclass(frozen=True)
class Oddities:
    """What a recording has that a clean one has not."""

    rows: int
    repeats: int
    """Rows that equal the one before in all that was measured."""
    longest_repeat: int
    """Most of them in a row."""
    gaps: int
    """Steps of more than one and a half periods."""
    longest_gap: float
    """Longest step [s]."""
    steps_back: int
    """Rows whose time is not later than that of the row before."""
    not_finite: int
    """Rows that hold a number that is not finite."""

    def to_custom_data(self) -> dict[str, str]:
        """As texts, for a bag's metadata."""
        return {name: f"{value:.6f}" if isinstance(value, float) else str(value) for name, value in asdict(self).items()}


@dataclass(frozen=True)
class ForeignRun:
    """A run in the arm's joint order; row i holds what was measured at t[i]."""

    name: str
    joints: tuple[str, ...]
    rate: float
    """Rows per second, nominally [Hz]."""
    t: FloatArray
    """As recorded, less the first, (n,) [s]."""
    q: FloatArray
    """(n, dof) [rad]"""
    qd: FloatArray | None
    """(n, dof) [rad/s]"""
    effort: FloatArray | None
    """Measured, (n, dof), in `effort_unit`."""
    effort_unit: str
    sent: FloatArray | None
    """Torque that was sent, (m, dof) with m at most n [Nm]."""
    reconstructed: JointPd | None
    """The controller that `sent` was computed from; None where it was recorded."""
    q_des: FloatArray | None
    """(m, dof) with m at most n [rad]"""
    qd_des: FloatArray | None
    """(m, dof) [rad/s]"""
    oddities: Oddities


def read_run(
    table: Table, run: str, mapping: RecordingMapping, arm: Embodiment, *, rate: float | None, pd: JointPd | None
) -> ForeignRun:
    """Reads one run; `rate` [Hz] counts where the recording has no time of its own."""
    index = arm.order().index(mapping.joints)
    read = {
        what: table.read(columns, run, 1 if what == "time" else len(mapping.joints))
        for what, columns in mapping.columns.items()
    }
    where = f"{table.file}, run {run}"
    count = len(read["position"])
    if count == 0:
        raise LogError(f"{where}: has no rows")
    for what, values in read.items():
        may_be_shorter = what == "sent" or what.startswith("reference")
        if len(values) > count or (len(values) < count and not may_be_shorter) or len(values) == 0:
            raise LogError(f"{where}: {what} has {len(values)} rows, position has {count}")
    q, qd, effort, sent, q_des, qd_des = (
        np.ascontiguousarray(read[what][:, index]) if what in read else None
        for what in ("position", "velocity", "effort", "sent", "reference.position", "reference.velocity")
    )
    assert q is not None
    if q_des is not None and qd_des is not None and len(q_des) != len(qd_des):
        raise LogError(f"{where}: reference.position has {len(q_des)} rows, reference.velocity has {len(qd_des)}")
    t = _times(read["time"][:, 0] if "time" in read else None, count, rate, where)
    period = 1.0 / rate if rate is not None else _nominal_step(t, arm.rate, where)
    if pd is not None:
        if qd is None or q_des is None or qd_des is None:
            raise LogError(f"{where}: a PD's torque needs velocity and a reference with velocities")
        sent = pd_torque(pd, index, q, qd, q_des, qd_des)
    measured = np.hstack([values for values in (q, qd, effort) if values is not None])
    return ForeignRun(
        name=run,
        joints=arm.joints,
        rate=1.0 / period,
        t=t,
        q=q,
        qd=qd,
        effort=effort,
        effort_unit=mapping.effort.unit if mapping.effort is not None else "",
        sent=sent,
        reconstructed=pd,
        q_des=q_des,
        qd_des=qd_des,
        oddities=find_oddities(t, measured, period),
    )


def pd_torque(
    pd: JointPd, index: np.ndarray, q: FloatArray, qd: FloatArray, q_des: FloatArray, qd_des: FloatArray
) -> FloatArray:
    """What a joint PD sent while it had a reference, (m, dof) [Nm]; index: the mapping's joints in the arm's order."""
    kp, kd, limit = (np.array(values)[index] for values in (pd.kp, pd.kd, pd.limit))
    rows = len(q_des)
    torque: FloatArray = np.clip(kp * (q_des - q[:rows]) + kd * (qd_des - qd[:rows]), -limit, limit)
    return torque


def find_oddities(t: FloatArray, measured: FloatArray, period: float) -> Oddities:
    """Counts repeats, gaps, steps back and rows that are not finite; t (n,) [s], measured (n, anything), period [s]."""
    steps = np.diff(t)
    same = (np.diff(measured, axis=0) == 0.0).all(axis=1)
    runs = np.diff(np.flatnonzero(np.concatenate([[True], ~same, [True]]))) - 1
    return Oddities(
        rows=len(t),
        repeats=int(same.sum()),
        longest_repeat=int(runs.max(initial=0)),
        gaps=int((steps > LONG_STEP * period).sum()),
        longest_gap=float(steps.max(initial=0.0)),
        steps_back=int((steps <= 0.0).sum()),
        not_finite=int((~np.isfinite(measured).all(axis=1)).sum()),
    )


def _times(recorded: FloatArray | None, count: int, rate: float | None, where: str) -> FloatArray:
    if recorded is None:
        if rate is None:
            raise LogError(f"{where}: has no time; give --rate HZ, or the rate in the mapping")
        times: FloatArray = np.arange(count, dtype=np.float64) / rate
        return times
    if not np.isfinite(recorded).all():
        raise LogError(f"{where}: a time is not finite in row {int(np.flatnonzero(~np.isfinite(recorded))[0])}")
    if np.min(recorded) < recorded[0]:
        raise LogError(f"{where}: a time lies before the first one; cut the recording there, or map its rate instead")
    since: FloatArray = recorded - recorded[0]
    return since


def _nominal_step(t: FloatArray, rate: float, where: str) -> float:
    """The arm's period [s] where the recording keeps to it, else what most of its steps take."""
    steps = np.diff(t)
    steps = steps[steps > 0.0]
    if len(steps) == 0:
        raise LogError(f"{where}: its time does not go on; give --rate HZ")
    median = float(np.median(steps))
    return 1.0 / rate if abs(median * rate - 1.0) < NOMINAL else median
