"""Periodic calls without rclpy: whoever has time makes those that are due."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class _Tick:
    period: float
    callback: Callable[[], None]
    due: float
    ended: bool = False


class Ticker:
    """Calls that repeat, on the steady clock. What is late is called once, not as often as it was missed.

    Any thread may ask for calls and end them; one thread makes them.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changing = threading.Lock()
        self._ticks: tuple[_Tick, ...] = ()

    def every(self, period: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` every `period` [s], the first time after one; gives what ends that."""
        tick = _Tick(period, callback, self._clock() + period)
        with self._changing:
            self._ticks = (*self._ticks, tick)

        def end() -> None:
            tick.ended = True
            with self._changing:
                self._ticks = tuple(one for one in self._ticks if one is not tick)

        return end

    def call_due(self, longest: float) -> float:
        """Makes the calls that are due; gives how long nothing is, `longest` [s] at most."""
        for tick in self._ticks:
            now = self._clock()
            if tick.due <= now and not tick.ended:
                tick.due = max(tick.due + tick.period, now)
                tick.callback()
        now = self._clock()
        return max(0.0, min([longest, *(tick.due - now for tick in self._ticks)]))
