"""What the nodes tell of their loops on /diagnostics, put together per robot. No ROS in here: texts come in."""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trimtab.timing import NAMES, Spread, Stage

SUFFIX = ": loop"  # of the name of every status that tells of a loop
RATE, EXPECTED_RATE, MISSES, FAULT, DELIVERY = "rate_hz", "expected_rate_hz", "deadline_misses", "fault", "delivery"
NO_FAULT = "nominal"
FRESH = 3.0  # s; a node speaks once a second, so that two lost messages are no silence
SECOND = 0.9  # s; the least that counts as a second between two reports: timers jitter


def timing_key(name: str) -> str:
    """The diagnostic that holds the spread of a stage, of `cycle` or of `answer`."""
    return f"timing_{name}_us"


@dataclass(frozen=True)
class Report:
    """One status of one node."""

    namespace: str
    """Without slashes around it; empty for the root."""
    node: str
    hardware_id: str
    """The arm's name, where the node belongs to one arm."""
    level: int
    message: str
    values: Mapping[str, str]
    received: float
    """When it came [s], on a steady clock: stamps may be simulated time."""

    def number(self, key: str) -> float | None:
        """A value that is a finite number; None for anything else."""
        try:
            value = float(self.values.get(key, ""))
        except ValueError:
            return None
        return value if math.isfinite(value) else None

    def tells(self, name: str) -> bool:
        """Whether the node has this stage."""
        return bool(self.values.get(timing_key(name), "").strip())

    def spread(self, name: str) -> Spread | None:
        """How long a stage took [us]; None where that cannot be read."""
        try:
            return Spread.parse(self.values.get(timing_key(name), ""))
        except ValueError:
            return None

    @property
    def fault(self) -> str:
        """The latched fault; empty where there is none."""
        fault = self.values.get(FAULT, "")
        return "" if fault == NO_FAULT else fault

    def silence(self, now: float) -> float | None:
        """Seconds since it came, where those are too many for it to be believed."""
        age = now - self.received
        return age if age > FRESH else None


def read_report(
    name: str, hardware_id: str, level: int, message: str, values: Mapping[str, str], received: float
) -> Report | None:
    """A status as it came; None for one that does not tell of a loop. received [s]."""
    if not name.endswith(SUFFIX):
        return None
    namespace, _, node = name.removesuffix(SUFFIX).strip("/").rpartition("/")
    printable = {key: plain(value) for key, value in values.items()}
    return Report(plain(namespace), plain(node), plain(hardware_id), level, plain(message), printable, received)


def plain(text: str) -> str:
    """One line without control characters: whoever publishes a text must not move our cursor."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


@dataclass(frozen=True)
class StageRow:
    """One row of a robot's table."""

    label: str
    spread: Spread | None
    """None where nobody tells it, or nobody can read it."""
    silence: float | None = None
    """Seconds since its node spoke, where those are too many."""


@dataclass(frozen=True)
class Robot:
    """What the nodes of one arm tell together."""

    namespace: str
    arm: str
    rate: float | None
    """[Hz] of the node that writes commands, else of the slowest."""
    expected_rate: float | None
    """[Hz]"""
    misses: Mapping[str, int]
    """Deadlines missed so far, by node; each counts what it means by that (docs/nodes.md)."""
    recent_misses: int | None
    """Of all nodes in the last second; None where that is not known yet."""
    delivery: str
    worst: Report | None
    """The report with the worst level, of the nodes that are not silent; None where all are."""
    silent: tuple[tuple[str, float], ...]
    """Nodes that are silent, and for how long [s]."""
    rows: tuple[StageRow, ...]

    @property
    def period(self) -> float | None:
        """Of control, as the arm wants it [us]; None where nobody tells it."""
        return 1e6 / self.expected_rate if self.expected_rate else None


class Loops:
    """The newest reports of every node of a graph; its length is the number of nodes."""

    def __init__(self) -> None:
        self._reports: dict[tuple[str, str], deque[Report]] = {}
        """By namespace and node: those of the last second, and the one before them."""

    def hear(self, report: Report) -> None:
        """Takes a report."""
        past = self._reports.setdefault((report.namespace, report.node), deque())
        past.append(report)
        while len(past) > 2 and report.received - past[1].received >= SECOND:
            past.popleft()

    def __len__(self) -> int:
        return len(self._reports)

    def timed(self, namespace: str | None = None) -> bool:
        """Whether anybody has told how long a stage takes."""
        return any(report.tells(name) for report in self._newest(namespace) for name in NAMES)

    def robots(self, now: float, namespace: str | None = None) -> list[Robot]:
        """Every arm, or those of one namespace; now [s] on the clock of the reports."""
        newest = self._newest(namespace)
        # Recorders and nodes that are inactive tell no rate: they belong to each arm of their namespace.
        arms = {(report.namespace, report.hardware_id) for report in newest if EXPECTED_RATE in report.values}
        owned = {space for space, _ in arms}
        arms |= {(report.namespace, report.hardware_id) for report in newest if report.namespace not in owned}
        return [
            self._robot(arm, [r for r in newest if r.namespace == space and _belongs(r, arm)], now)
            for space, arm in sorted(arms)
        ]

    def _newest(self, namespace: str | None) -> list[Report]:
        wanted = None if namespace is None else namespace.strip("/")
        return [past[-1] for key, past in sorted(self._reports.items()) if wanted is None or key[0] == wanted]

    def _robot(self, arm: str, reports: Sequence[Report], now: float) -> Robot:
        fresh = [report for report in reports if report.silence(now) is None]
        paced = [report for report in fresh if report.number(RATE) is not None]
        writers = [report for report in paced if report.tells(Stage.WRITE.label)]
        loop = min(writers or paced, key=lambda report: report.number(RATE) or 0.0, default=None)
        misses = {report.node: int(count) for report in fresh if (count := report.number(MISSES)) is not None}
        recent = [count for report in fresh if (count := self._recent_misses(report)) is not None]
        expected = [rate for report in reports if (rate := report.number(EXPECTED_RATE)) is not None and rate > 0.0]
        return Robot(
            namespace=reports[0].namespace,
            arm=arm,
            rate=None if loop is None else loop.number(RATE),
            expected_rate=expected[0] if expected else None,
            misses=misses,
            recent_misses=sum(recent) if recent else None,
            delivery=next((text for report in fresh if (text := report.values.get(DELIVERY, ""))), ""),
            worst=max(fresh, key=lambda report: (report.level, bool(report.fault)), default=None),
            silent=tuple((report.node, age) for report in reports if (age := report.silence(now)) is not None),
            rows=tuple(_rows(reports, now)),
        )

    def _recent_misses(self, newest: Report) -> int | None:
        """How many deadlines a node missed in the second before its newest report; None where that is not known yet."""
        earlier = self._reports[newest.namespace, newest.node][0]
        before, count = earlier.number(MISSES), newest.number(MISSES)
        if newest.received - earlier.received < SECOND or before is None or count is None:
            return None
        return int(count - before if count >= before else count)  # a node that was configured anew counts from zero


def _belongs(report: Report, arm: str) -> bool:
    return report.hardware_id == arm or EXPECTED_RATE not in report.values


def _rows(reports: Sequence[Report], now: float) -> list[StageRow]:
    """A row per stage; where several nodes have it, as each process has its own cycle, one for each of them."""
    rows = []
    for name in NAMES:
        tellers = [report for report in reports if report.tells(name)]
        if not tellers:
            rows.append(StageRow(name, None))
        for report in tellers:
            label = name if len(tellers) == 1 else f"{name} ({report.node})"
            rows.append(StageRow(label, report.spread(name), report.silence(now)))
    return rows
