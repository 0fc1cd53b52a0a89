"""Playing a bag to live nodes: what is sent when, which answers came, and what was lost."""

import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from operator import itemgetter
from pathlib import Path

from trimtab.bag import SECOND
from trimtab.bags.cdr import JointStateDecoder
from trimtab.bags.files import Bag
from trimtab.bags.topics import JOINT_STATE, JOINT_TRAJECTORY
from trimtab.errors import LogError
from trimtab.joints import JointOrder

MOST_NAMED = 3  # stamps of unanswered states that a text names


@dataclass(frozen=True)
class Played:
    """One message of a bag as it lies there, in CDR."""

    reference: bool
    """Whether it is a reference; else it is a state."""
    stamp: int
    """Of its header [ns]; a reference may have none (0)."""
    data: bytes


@dataclass(frozen=True)
class Contents:
    """What a bag has to be played, found before anything is sent."""

    first: Played
    """The first state."""
    states: int
    references: int
    custom: dict[str, str]
    """What the bag's metadata tell of it."""


def stamp_of(data: bytes) -> int:
    """The stamp of a serialised message that begins with a header [ns]."""
    if len(data) < 12:
        raise LogError("a message is too short to have a header")
    seconds, nanoseconds = struct.unpack_from(f"{_order_of(data)}iI", data, 4)
    return int(seconds) * SECOND + int(nanoseconds)


def with_stamp(data: bytes, stamp: int) -> bytes:
    """The same serialised message with another stamp [ns]."""
    return data[:4] + struct.pack(f"{_order_of(data)}iI", *divmod(stamp, SECOND)) + data[12:]


def _order_of(data: bytes) -> str:
    return "<" if data[1] & 1 else ">"


def look(path: Path, order: JointOrder, states: str, reference: str) -> Contents:
    """Checks that a bag can be played to an arm: it is whole, has states, and they name the arm's joints."""
    bag = Bag(path)
    counts: Counter[str] = Counter()
    for topic, kind in ((states, JOINT_STATE), (reference, JOINT_TRAJECTORY)):
        for channel in bag.channels:
            if channel.topic == topic:
                if channel.type != kind:
                    raise LogError(f"{path}: {topic} is {channel.type}, it must be {kind}; name another topic")
                counts[topic] = max(counts[topic], channel.count or 0)
    if states not in bag.topics():
        raise LogError(
            f"{path}: has no states on {states} (it has: {', '.join(bag.topics())}); name the topic that they are on"
        )
    if bag.findings.partial:
        raise LogError(f"{path}: is not whole ({'; '.join(bag.findings.partial)}); repair it first")
    first = next((played for played in play(path, states, reference) if not played.reference), None)
    if first is None:
        raise LogError(f"{path}: {states} has no messages; record again while the arm is running")
    tables, malformed = JointStateDecoder().decode([first.data])
    if malformed:
        raise LogError(f"{path}: the first message of {states} cannot be read: {malformed[0][1]}; repair the bag first")
    (table,) = tables
    order.arrange(table.names, table.position[0].tolist(), "position")
    order.arrange(table.names, table.velocity[0].tolist(), "velocity")
    return Contents(first, counts[states], counts[reference], dict(bag.custom))


def play(path: Path, states: str, reference: str) -> Iterator[Played]:
    """All states and references of a bag in the order in which they were recorded.

    A reference that was recorded at the same time as a state comes before it, as in the bags of `trimtab run`.
    """
    bag = Bag(path)
    for batch in bag.batches({states, reference}):
        both = [(raw.time, topic == states, raw.data) for topic, messages in batch.items() for raw in messages]
        for _, is_state, data in sorted(both, key=itemgetter(0, 1)):
            yield Played(not is_state, stamp_of(data), data)
    if bag.findings.partial:
        raise LogError(f"{path}: is not whole ({'; '.join(bag.findings.partial)}); repair it first")


class Schedule:
    """When a state is due on the clock of the one who plays: the stamps' own spacing, `pace` times as fast.

    Who is late goes on from there: a burst would overflow the queues of those who listen.
    """

    def __init__(self, pace: float, slack: float) -> None:
        """pace: above zero; slack: how late a state may be before the rest is moved [s]."""
        self._pace, self._slack = pace, slack
        self._begin: tuple[int, float] | None = None
        self.moved = 0
        """How often the rest was moved."""

    def begin(self, stamp: int, now: float) -> None:
        """The state of this stamp [ns] is due now [s]."""
        self._begin = stamp, now

    def pause(self) -> None:
        """The next state is due whenever it comes."""
        self._begin = None

    def due(self, stamp: int, now: float) -> float:
        """When the state of this stamp [ns] is due [s]; at once where the stamps go back."""
        if self._begin is None:
            self.begin(stamp, now)
            return now
        first, begin = self._begin
        due = begin + (stamp - first) / SECOND / self._pace
        if stamp < first or now - due > self._slack:
            self.moved += now - due > self._slack
            self.begin(stamp, now)
            return now
        return due


class Ledger:
    """Which states were sent, and which of them were answered, stream by stream; by stamp [ns]."""

    def __init__(self, streams: Sequence[str], rate: float, after: int = -1) -> None:
        """rate: of the arm [Hz]; after: stamp of a state [ns] that was sent before and does not count."""
        self._rate = rate
        self._longest_step = round(1.5 * SECOND / rate)
        self._open: dict[str, dict[int, None]] = {stream: {} for stream in streams}
        self._newest = after
        self._behind = dict.fromkeys(streams, 0)
        self.sent = 0
        """Different states."""
        self.gaps = 0
        """States that were missing from the start, counted as the controller counts them."""
        self.answers = dict.fromkeys(streams, 0)
        """First answers to a state that was sent."""
        self.repeated = dict.fromkeys(streams, 0)
        """Answers to a state that had been answered."""
        self.strangers = dict.fromkeys(streams, 0)
        """Answers to a state that was not sent yet."""

    def send(self, stamp: int) -> bool:
        """Notes a state; False where one of that stamp was sent just before."""
        if stamp == self._newest:
            return False
        step = stamp - self._newest if self._newest >= 0 else 0
        if step > self._longest_step:
            self.gaps += round(step / SECOND * self._rate) - 1
        self._newest = stamp
        self.sent += 1
        for stream, open_ in self._open.items():
            open_[stamp] = None
            self._behind[stream] += 1
        return True

    def answer(self, stream: str, stamp: int) -> bool:
        """Notes an answer; tells whether it is the first to a state that was sent."""
        if stamp in self._open[stream]:
            open_ = self._open[stream]
            del open_[stamp]
            self.answers[stream] += 1
            # What was sent later is under way; what was sent earlier and is still open is late or lost.
            self._behind[stream] = sum(1 for _ in takewhile(lambda other: other > stamp, reversed(open_)))
            return True
        (self.strangers if stamp > self._newest else self.repeated)[stream] += 1
        return False

    def answered(self, stamp: int) -> bool:
        """Whether nobody owes an answer to that state."""
        return not any(stamp in open_ for open_ in self._open.values())

    @property
    def under_way(self) -> int:
        """States that were sent after the newest one that was answered, in the stream that is furthest behind."""
        return max(self._behind.values())

    @property
    def complete(self) -> bool:
        """Whether every state that was sent has all its answers."""
        return not any(self._open.values())

    def lost(self, stream: str) -> int:
        """States without an answer of that stream."""
        return len(self._open[stream])

    def report(self, declined: Mapping[str, int] | None = None) -> list[str]:
        """A line for each stream that lacks answers, or got some to states that were never sent.

        declined: how many states a stream's node says that it left without an answer; these were not lost.
        """
        lines = []
        for stream, open_ in list(self._open.items()):
            if len(open_) > (declined or {}).get(stream, 0):
                first = ", ".join(f"{stamp / SECOND:.6f} s" for stamp in list(open_)[:MOST_NAMED])
                more = ", ..." if len(open_) > MOST_NAMED else ""
                lines.append(f"{len(open_)} of {self.sent} states have no {stream} (first: {first}{more})")
            if self.strangers[stream]:
                lines.append(f"{self.strangers[stream]} messages on {stream} answer states that were never sent")
        return lines
