"""References on their way from the bag to the rows: each waits for the controller's word on when it took it.

A reference counts from the state after which the controller took it, and checking a long one may take many states. The
controller tells on /diagnostics which state that was; where it does not, the time of recording has to do.
"""

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from trimtab.bags.topics import DIAGNOSTIC_ARRAY
from trimtab.reference import Trajectory

PATIENCE = 5_000_000_000  # ns of recording for which a reference waits for the controller's word
TAKEN, REFUSED, AFTER = "references_accepted", "references_refused", "reference_after_ns"
"""What the controller tells: how many it has taken and refused, and after which state it took the newest."""


@dataclass
class Reference:
    """A trajectory that somebody sent."""

    time: int
    """When it was recorded [ns]."""
    stamp: int
    """When it is to start [ns]; 0 for at once."""
    trajectory: Trajectory | None
    """None for a message without points, which stops the motion."""
    after: int | None = None
    """Stamp of the last state that was answered without it [ns]; None where nobody tells."""

    def row(self, time: np.ndarray, stamp: np.ndarray) -> int:
        """The first of these rows for which it counts, by their times of recording and stamps; their number for none."""
        if self.after is None:
            return int(np.searchsorted(time, self.time))
        return int(np.searchsorted(stamp, self.after, side="right"))


class References:
    """Keeps references until the rows are there for which they count."""

    def __init__(self, controller: str | None) -> None:
        """controller: its name with its namespace, as it calls itself on /diagnostics; None where nobody tells anything."""
        self._speaker = None if controller is None else f"{controller}: loop"
        self._sought = (self._speaker or "").encode()
        self._kept: list[Reference] = []
        self._waiting: deque[Reference] = deque()
        self._told = (0, 0)

    def add(self, reference: Reference) -> None:
        """One that was recorded."""
        self._kept.append(reference)
        if self._speaker is not None:
            self._waiting.append(reference)

    def hear(self, data: bytes, store: Any) -> None:
        """A message of /diagnostics: what the controller has decided since it spoke last."""
        if self._sought not in data:
            return
        for status in store.deserialize_cdr(data, DIAGNOSTIC_ARRAY).status:
            if status.name == self._speaker:
                self._decided({pair.key: pair.value for pair in status.values})

    def _decided(self, values: dict[str, str]) -> None:
        taken, refused, after = (values.get(key, "") for key in (TAKEN, REFUSED, AFTER))
        if not (taken.isdecimal() and refused.isdecimal()):
            return  # inactive
        more = int(taken) - self._told[0], int(refused) - self._told[1]
        self._told = int(taken), int(refused)
        decided = [self._waiting.popleft() for _ in range(min(sum(more), len(self._waiting)))]
        if more == (1, 0) and decided and after.isdecimal():
            decided[0].after = int(after)

    def horizon(self, newest: int) -> int | None:
        """Rows recorded from here on must wait [ns], where the newest message was recorded at `newest`; None: none must."""
        while self._waiting and newest - self._waiting[0].time > PATIENCE:
            self._waiting.popleft()
        return self._waiting[0].time if self._waiting else None

    def take(self, last: tuple[int, int] | None, before: int | None) -> list[Reference]:
        """Those that are due with these rows.

        last: time of recording and stamp of the last row; None where no rows follow. before: only what was recorded
        before that [ns]; what comes after a jump of the clock is for other states.
        """
        due = []
        for one in self._kept:
            reached = last is None or (one.time <= last[0] if one.after is None else one.after <= last[1])
            if reached and (before is None or one.time < before):
                due.append(one)
        self._kept = [one for one in self._kept if not any(one is taken for taken in due)]
        return due
