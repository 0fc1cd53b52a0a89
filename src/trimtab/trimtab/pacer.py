"""Absolute deadlines on the monotonic clock: late cycles are counted and skipped, never caught up in a burst."""

import time
from collections.abc import Callable


class Pacer:
    """The beat of a control loop. Deadline k lies at start + k period; being late moves no deadline.

    `sleep` is clock_nanosleep to an absolute time in CPython 3.11 and later, so that an interrupted sleep goes on.
    """

    def __init__(
        self,
        period: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Period [s]; the clock [s] must not go back."""
        self._period = period
        self._clock = clock
        self._sleep = sleep
        self.missed = 0
        """Deadlines that passed while a cycle was still under way."""
        self.start()

    def start(self) -> None:
        """The first period begins now; nothing was missed."""
        self._begin = self._clock()
        self._beat = 0
        self.missed = 0

    def wait(self) -> int:
        """Sleeps until the next deadline; gives how many had passed already, which are skipped."""
        due = self._begin + (self._beat + 1) * self._period
        left = due - self._clock()
        if left > 0.0:
            self._sleep(left)
            self._beat += 1
            return 0
        late = int(-left / self._period)
        self._beat += 1 + late
        self.missed += 1 + late
        return late
