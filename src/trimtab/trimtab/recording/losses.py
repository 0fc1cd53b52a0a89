"""What did not come into a bag, counted: it is told, never guessed away."""

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

_STAMP = {0: struct.Struct(">iI"), 1: struct.Struct("<iI")}
_ENCAPSULATION = 4  # bytes ahead of a CDR message; the second says which byte order follows
SECOND = 1_000_000_000  # ns


@dataclass
class Losses:
    """Messages that are not in the bag, by topic, and control periods without a state."""

    queue: dict[str, int] = field(default_factory=dict)
    """Came, but more were waiting to be written than there was room for."""
    network: dict[str, int] = field(default_factory=dict)
    """The middleware tells that they were lost on the way."""
    network_told: bool = True
    """Whether the middleware tells of such losses at all."""
    missing_states: int = 0
    """Control periods without a state between the stamps of two that came."""

    @property
    def messages(self) -> int:
        """Messages that are known to be missing, of all topics."""
        return sum(self.queue.values()) + sum(self.network.values())

    def lose(self, where: dict[str, int], topic: str, count: int = 1) -> None:
        """Counts losses, `where` being `queue` or `network`."""
        where[topic] = where.get(topic, 0) + count

    def to_custom_data(self) -> dict[str, str]:
        """As a bag's metadata holds it."""
        return {
            "lost_in_queue": json.dumps(dict(self.queue)),
            "lost_on_network": json.dumps(dict(self.network)) if self.network_told else "unknown",
            "missing_states": str(self.missing_states),
        }

    def text(self) -> str:
        """For a person; empty where nothing is missing."""
        parts = []
        if self.queue:
            parts.append(f"{sum(self.queue.values())} messages dropped since writing did not keep up")
        if self.network:
            parts.append(f"{sum(self.network.values())} messages lost on the network")
        if self.missing_states:
            parts.append(f"{self.missing_states} control periods without a state")
        return ", ".join(parts)


class SequenceGaps:
    """Counts the holes in the sequence numbers of a topic, which each of its senders counts for itself."""

    def __init__(self, senders: Callable[[], int]) -> None:
        """senders: how many there are now; asked only when a number does not follow on another."""
        self._senders = senders
        self._last: list[int] = []
        """Of each sender that was heard, the one heard longest ago first."""

    def count(self, number: int) -> int:
        """Messages missing ahead of this one."""
        missing = 0
        if number - 1 in self._last:
            self._last.remove(number - 1)
        elif len(self._last) >= max(1, self._senders()):
            before = max((last for last in self._last if last < number), default=None)
            missing = 0 if before is None else number - before - 1
            self._last.remove(
                self._last[0] if before is None else before
            )  # a sender that starts anew takes a gone one's place
        self._last.append(number)
        return missing


class StampGaps:
    """Counts the periods that are missing between the stamps of messages that begin with a header."""

    def __init__(self, period: float) -> None:
        """period: expected between two messages [s]."""
        self._period = round(period * SECOND)
        self._last: int | None = None

    def count(self, data: bytes) -> int:
        """Periods missing since the message before; data: CDR. A stamp that goes back, or comes again, begins anew."""
        unpack = _STAMP.get(data[1]) if len(data) >= _ENCAPSULATION + 8 else None
        if unpack is None:
            return 0
        seconds, nanoseconds = unpack.unpack_from(data, _ENCAPSULATION)
        stamp = int(seconds) * SECOND + int(nanoseconds)
        last, self._last = self._last, stamp
        if last is None or stamp <= last:
            return 0
        return max(0, round((stamp - last) / self._period) - 1)
