"""Rows of a replay in which nothing trips and no reference comes: worked out together, with the results of single steps.

The arm is recorded, so what it was asked for is known beforehand and the classical torque depends on the bag alone. What
remains for each row is one call of the stack and one of each model.
"""

from dataclasses import dataclass
from time import perf_counter_ns

import numpy as np

from trimtab.bags.reading import Rows
from trimtab.control.base import Desired, Sample
from trimtab.replay.made import finite_rows
from trimtab.replay.shared import SharedController
from trimtab.safety import Limit
from trimtab.typing import FloatArray

_TORQUE = int(Limit.TORQUE)


@dataclass
class Stretch:
    """Consecutive rows. Arrays are (n, dof) or (n,)."""

    now: FloatArray
    """Stamps [s]."""
    dt: FloatArray
    """[s]"""
    q: FloatArray
    qd: FloatArray
    wanted: FloatArray
    """q, qd, qdd asked for, (n, 3, dof)."""
    samples: list[Sample]
    classical: FloatArray
    """Torque of the classical stack, not yet limited [Nm]."""
    limited: FloatArray
    """The same within the limits [Nm]."""
    over: np.ndarray
    """Bits of the limit that fired for the classical torque alone."""
    spent: np.ndarray
    """What the classical torque took [ns]."""

    def __len__(self) -> int:
        return len(self.now)


def work_out(
    stack: SharedController, rows: Rows, first: int, now: FloatArray, dt: FloatArray, wanted: FloatArray
) -> Stretch:
    """As many rows, from `first` on, as `wanted` has; fewer where the classical torque is not finite.

    now, dt: of at least these rows.
    """
    count = len(wanted)
    some = slice(first, first + count)
    q, qd, sent = rows.q[some], rows.qd[some], rows.torque[some]
    parts, kinds = stack.parts(sent, rows.learned[some], rows.applied[some])
    samples: list[Sample] = []
    torques: list[FloatArray] = []
    clock = [perf_counter_ns()]
    desired = map(Desired, wanted[:, 0], wanted[:, 1], wanted[:, 2])
    motions = map(Sample, q, qd, desired, dt[:count].tolist())
    for sample, torque, part, known in zip(motions, sent, parts, kinds, strict=True):
        torques.append(stack.pass_by(sample, torque, part, known))
        samples.append(sample)
        clock.append(perf_counter_ns())
    classical: FloatArray = np.array(torques)
    spent = np.diff(clock)
    finite = finite_rows(classical)
    count = len(finite) if finite.all() else int(finite.argmin())
    some = slice(count)
    limited = stack.within_limits(classical)
    over = np.where((limited == classical).all(axis=1), 0, _TORQUE)
    return Stretch(
        now[some], dt[some], q[some], qd[some], wanted[some], samples[some], classical[some], limited[some], over[some],
        spent[some],
    )  # fmt: skip
