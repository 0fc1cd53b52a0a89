"""Where the time of a control cycle goes: one row per cycle, one column per stage, in buffers that never grow."""

import threading
from collections.abc import Mapping
from enum import IntEnum
from time import perf_counter_ns
from typing import NamedTuple

import numpy as np

CAPACITY = 4096  # cycles that are kept: two seconds at 2 kHz


class Stage(IntEnum):
    """Parts of a cycle, in the order in which they are told."""

    READ = 0
    """The state is measured."""
    RESIDUAL = 1
    """The model computes its offer."""
    CONTROLLER = 2
    """Reference, checks of the state, classical torque."""
    FILTER = 3
    """The safety filter makes one torque of the two."""
    WRITE = 4
    """The command is handed to the drives."""
    PUBLISH = 5
    """Messages are made, or handed to the thread that makes them."""

    @property
    def label(self) -> str:
        """For people."""
        return self.name.lower()


CYCLE, ANSWER = "cycle", "answer"
"""All stages together; from a state's publication to the command that answers it."""
NAMES = (*(stage.label for stage in Stage), CYCLE, ANSWER)
PERCENTILES = (50.0, 95.0, 99.0)
_STAGES = len(Stage)
_ANSWER = _STAGES


class Spread(NamedTuple):
    """How long something took [us]."""

    p50: float
    p95: float
    p99: float
    max: float

    @staticmethod
    def of(microseconds: np.ndarray) -> "Spread":
        """Of at least one duration [us], interpolated between neighbours.

        In a composed process this runs beside the loop: `np.percentile` keeps Python busy for several times as long.
        """
        ordered = np.sort(microseconds)
        last = len(ordered) - 1
        found = []
        for percentile in PERCENTILES:
            place = 0.01 * percentile * last
            below = int(place)
            low, high = float(ordered[below]), float(ordered[min(below + 1, last)])
            found.append(low + (place - below) * (high - low))
        p50, p95, p99 = found
        return Spread(p50, p95, p99, float(ordered[last]))

    def __str__(self) -> str:
        return f"p50 {self.p50:.1f} p95 {self.p95:.1f} p99 {self.p99:.1f} max {self.max:.1f}"

    @classmethod
    def parse(cls, text: str) -> "Spread":
        """Back from its text; raises ValueError where it is none."""
        words = text.split()
        if words[::2] != ["p50", "p95", "p99", "max"]:
            raise ValueError(f"'{text}' is no spread of durations")
        p50, p95, p99, longest = (float(word) for word in words[1::2])
        return cls(p50, p95, p99, longest)


Spreads = Mapping[str, Spread]
"""By stage, `cycle` and `answer`; what never happened is not in it."""


class CycleTimes:
    """Stopwatch of a loop: `begin`, a `mark` after each stage, `end`. A mark costs two reads of the clock at most.

    One thread marks, another may `take`.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._rows, self._spare = (np.zeros((capacity, _STAGES + 1), dtype=np.int64) for _ in range(2))
        self._row = [0] * (_STAGES + 1)
        self._capacity = capacity
        self._taking = threading.Lock()
        self._count = 0
        self._last = 0
        self._under_way = False

    def begin(self) -> None:
        """A cycle starts."""
        self._row = [0] * (_STAGES + 1)
        self._under_way = True
        self._last = perf_counter_ns()

    def mark(self, stage: Stage) -> None:
        """What happened since the last mark was this stage; a stage may come more than once."""
        now = perf_counter_ns()
        self._row[stage] += now - self._last
        self._last = now

    def skip(self) -> None:
        """What happened since the last mark belongs to no stage."""
        self._last = perf_counter_ns()

    def answered(self, nanoseconds: int) -> None:
        """The command came this long after its state was published."""
        self._row[_ANSWER] = nanoseconds

    def end(self) -> None:
        """The cycle is over; nothing happens where none has begun."""
        if not self._under_way:
            return
        self._under_way = False
        with self._taking:
            self._rows[self._count % self._capacity] = self._row
            self._count += 1

    def newest(self) -> list[int]:
        """What the stages of the newest cycle took, the answer last [ns]."""
        return self._row

    def rows(self) -> np.ndarray:
        """Cycles since the last `take`, the newest `capacity` of them: (n, 7) [us], the answer last."""
        with self._taking:
            count = min(self._count, self._capacity)
            return np.asarray(self._rows[:count] * 1e-3)

    def take(self) -> np.ndarray:
        """The rows, and starts over. The loop writes to another buffer meanwhile: it never waits for who works with them."""
        with self._taking:
            taken, self._rows, self._spare = self._rows, self._spare, self._rows
            count, self._count = min(self._count, self._capacity), 0
        return np.asarray(taken[:count] * 1e-3)

    def spreads(self) -> dict[str, Spread]:
        """Percentiles of the cycles since the last `take`, by stage, `cycle` and `answer`."""
        return spreads_of(self.rows())


def spreads_of(rows: np.ndarray) -> dict[str, Spread]:
    """Percentiles of rows as `CycleTimes.rows` gives them."""
    spreads: dict[str, Spread] = {}
    if not len(rows):
        return spreads
    answers = rows[:, _ANSWER]
    columns = (*rows[:, :_STAGES].T, rows[:, :_STAGES].sum(axis=1), answers[answers > 0])
    for name, column in zip(NAMES, columns, strict=True):
        if len(column) and column.max() > 0.0:
            spreads[name] = Spread.of(column)
    return spreads
