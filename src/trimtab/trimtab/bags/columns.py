"""Raw messages as columns in the arm's joint order; what does not fit is left out and counted."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trimtab.bags.cdr import Columns, JointStateDecoder
from trimtab.bags.effort import EffortUnit
from trimtab.bags.findings import Findings
from trimtab.bags.storage import Raw
from trimtab.bags.topics import CONFIDENCE, LIVE, RESIDUAL_SUFFIX
from trimtab.errors import JointNamesError
from trimtab.foreign import Jointed
from trimtab.typing import FloatArray


@dataclass(frozen=True)
class Table:
    """Messages of one topic, in the order in which they were recorded."""

    time: np.ndarray
    """When they were recorded, (n,) [ns]."""
    stamp: np.ndarray
    """(n,) [ns]"""
    values: FloatArray
    """(n, width)"""


class ColumnReader:
    """Turns the messages of one topic into a table. Its `fields` are the columns, in groups of one per joint."""

    def __init__(self, topic: str, arm: Jointed, findings: Findings) -> None:
        self._topic = topic
        self._arm = arm
        self._order = arm.order()
        self._findings = findings
        self._decoder = JointStateDecoder()
        self._fitting = 0

    @property
    def fitting(self) -> int:
        """Messages that had the arm's joints."""
        return self._fitting

    def states(self, raw: list[Raw], effort: EffortUnit | None, declared: bool) -> Table:
        """Position, velocity and effort [Nm]; effort is NaN where there is none, or none that may be used."""

        def columns(part: Columns) -> FloatArray:
            q = self._field(part, part.position, "position")
            qd = self._field(part, part.velocity, "velocity")
            self._require_finite(part, (q, "position"), (qd, "velocity"))
            measured = np.full_like(q, np.nan)
            if part.effort.shape[1] == len(part.names):
                if effort is not None:
                    measured = part.effort[:, self._order.index(part.names)] * effort.scale
                elif not declared:
                    self._findings.undeclared_effort += len(part.index)
            return np.hstack([q, qd, measured])

        return self._table(raw, columns, 3 * self._arm.dof, finite=2 * self._arm.dof)

    def torques(self, raw: list[Raw], effort: EffortUnit | None) -> Table:
        """Torque sent and the learned part of it, NaN where that is not told [Nm]."""

        def columns(part: Columns) -> FloatArray:
            torque = self._field(part, part.effort, "effort")
            self._require_finite(part, (torque, "effort"))
            scaled = torque if effort is None else torque * effort.scale
            return np.hstack([scaled, self._learned(part)])

        return self._table(raw, columns, 2 * self._arm.dof, finite=self._arm.dof)

    def residuals(self, raw: list[Raw]) -> Table:
        """Torque offered, confidence and live; or, in the bag of a run, the learned torque as it was applied.

        Columns: offered (dof), applied (dof), confidence, live; NaN where not told.
        """

        def columns(part: Columns) -> FloatArray:
            torque = self._field(part, part.effort, "effort")
            nothing = np.full_like(torque, np.nan)
            if CONFIDENCE not in part.names:
                return np.hstack([nothing, torque, nothing[:, :2]])
            extra = [part.effort[:, part.names.index(name)] for name in (CONFIDENCE, LIVE) if name in part.names]
            live = extra[1] if len(extra) > 1 else np.full(len(torque), np.nan)
            return np.hstack([torque, nothing, extra[0][:, None], live[:, None]])

        return self._table(raw, columns, 2 * self._arm.dof + 2, finite=0)

    def _table(self, raw: list[Raw], columns: Callable[[Columns], FloatArray], width: int, finite: int) -> Table:
        parts, malformed = self._decoder.decode([one.data for one in raw])
        found = self._findings
        if malformed:
            found.malformed += len(malformed)
            found.malformed_first = found.malformed_first or f"{self._topic}: {malformed[0][1]}"
        time = np.fromiter((one.time for one in raw), np.int64, len(raw))
        index, stamp, values = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty((0, width))]
        for part in parts:
            try:
                block = columns(part)
            except JointNamesError as error:
                found.foreign += len(part.index)
                found.foreign_first = found.foreign_first or f"{self._topic}: {error}"
                continue
            self._fitting += len(part.index)
            keep = np.isfinite(block[:, :finite]).all(axis=1)
            index.append(part.index[keep])
            stamp.append(part.stamp[keep])
            values.append(block[keep])
        which = np.concatenate(index)
        order = np.argsort(which, kind="stable")
        return Table(time[which[order]], np.concatenate(stamp)[order], np.concatenate(values)[order])

    def _field(self, part: Columns, values: FloatArray, what: str) -> FloatArray:
        index = self._order.index(part.names)
        if values.shape[1] != len(part.names):
            raise JointNamesError(f"{what} has {values.shape[1]} values for {len(part.names)} joints")
        ordered: FloatArray = values[:, index]
        return ordered

    def _learned(self, part: Columns) -> FloatArray:
        names = [joint + RESIDUAL_SUFFIX for joint in self._arm.joints]
        if not all(name in part.names for name in names):
            return np.full((len(part.index), self._arm.dof), np.nan)
        learned: FloatArray = part.effort[:, [part.names.index(name) for name in names]]
        return learned

    def _require_finite(self, part: Columns, *fields: tuple[FloatArray, str]) -> None:
        """Counts the messages with a number that is not finite, and remembers the first of them."""
        bad = ~np.hstack([np.isfinite(values) for values, _ in fields])
        if not bad.any():
            return
        rows = bad.any(axis=1)
        self._findings.not_finite += int(rows.sum())
        if not self._findings.not_finite_first:
            row = int(np.flatnonzero(rows)[0])
            group, joint = divmod(int(np.flatnonzero(bad[row])[0]), self._arm.dof)
            values, what = fields[group]
            at = f"{part.stamp[row] / 1e9:.6f} s"
            name = self._arm.joints[joint]
            self._findings.not_finite_first = f"{self._topic}: {what} of joint '{name}' is {values[row, joint]} at {at}"
