"""What answers a state, held until the state of its stamp comes by: commands and offers, as columns."""

import numpy as np

from trimtab.typing import FloatArray


class Answers:
    """Rows of numbers by stamp. The first of a stamp counts."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._stamp = np.empty(0, np.int64)
        self._time = np.empty(0, np.int64)
        self._values = np.empty((0, width))

    def put(self, stamp: np.ndarray, time: np.ndarray, values: FloatArray) -> None:
        """More of them: stamp and time of recording (n,) [ns], values (n, width)."""
        if len(stamp):
            self._stamp = np.concatenate([self._stamp, stamp])
            self._time = np.concatenate([self._time, time])
            self._values = np.concatenate([self._values, values])

    def take(self, stamp: np.ndarray, until: int | None) -> tuple[FloatArray, np.ndarray]:
        """Values for these stamps (n, width), NaN where there are none, and where there are some (n,).

        until: only what was recorded before that counts [ns]; what comes after a jump of the clock answers other states.
        """
        values = np.full((len(stamp), self._width), np.nan)
        found = np.zeros(len(stamp), dtype=bool)
        valid = np.arange(len(self._stamp)) if until is None else np.flatnonzero(self._time < until)
        if len(valid) == 0 or len(stamp) == 0:
            return values, found
        order = valid[np.argsort(self._stamp[valid], kind="stable")]
        ordered = self._stamp[order]
        place = np.minimum(np.searchsorted(ordered, stamp), len(order) - 1)
        found = ordered[place] == stamp
        taken = order[place[found]]
        values[found] = self._values[taken]
        keep = np.ones(len(self._stamp), dtype=bool)
        keep[taken] = False
        self._keep(keep)
        return values, found

    def forget(self, before: int | None) -> int:
        """Drops what was recorded before a time [ns] and nobody took, all of it for None; tells how many these were."""
        keep = np.zeros(len(self._time), dtype=bool) if before is None else self._time >= before
        self._keep(keep)
        return int((~keep).sum())

    def _keep(self, keep: np.ndarray) -> None:
        if not keep.all():
            self._stamp, self._time, self._values = self._stamp[keep], self._time[keep], self._values[keep]
