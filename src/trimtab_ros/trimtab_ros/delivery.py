"""How a message gets from node to node: over DDS, or by direct call between nodes that share a process.

A composed process has one `Exchange`. Its nodes hand each other the message's contents (`trimtab_ros.streams`) in the
caller's thread; the message itself is made, and published to DDS, by the outbox's thread when the loop's cycle is over.
Nodes in processes of their own have no exchange and publish at once.
"""

import queue
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from trimtab.realtime import collect_garbage
from trimtab.timing import CycleTimes
from trimtab_ros.raw_publisher import sender
from trimtab_ros.ticker import Ticker

MOST_WAITING = 200  # batches; when DDS is so far behind, newer ones are dropped and counted
COLLECT_EVERY = 1.0  # s between two collections of garbage, right after a cycle's messages went out
PATIENCE = 0.001  # s between two looks at a full outbox, in lockstep
GIVE_WAY = 1e-4  # s; a loop that never sleeps lets others have the turn for that long
LEFTOVERS = 2.0  # s that the outbox has for what is left when the process ends
_END = None

Handler = Callable[[Any], None]
Encode = Callable[[Any], Any]
"""From a payload to the message, or to its bytes."""
Send = Callable[[Any], object]
"""Publishes or logs what was encoded."""
Problem = Callable[[str], None]


class Outlet(Protocol):
    """What a node publishes through."""

    def publish(self, payload: Any) -> None:
        """Sends a payload to whoever listens."""

    def get_subscription_count(self) -> int:
        """How many listen over DDS."""


class DirectOutlet:
    """Publishes at once, over DDS: a node in a process of its own."""

    def __init__(self, publisher: Any, encode: Encode) -> None:
        self._publisher = publisher
        self._encode = encode

    def publish(self, payload: Any) -> None:
        """Makes the message and sends it."""
        self._publisher.publish(self._encode(payload))

    def get_subscription_count(self) -> int:
        """How many listen over DDS."""
        return int(self._publisher.get_subscription_count())


Post = tuple[Send, Encode, Any]


class Outbox:
    """Publishes to DDS from a thread of its own; whatever DDS does, who posts never waits.

    It also collects the process's garbage, once a second, right after a batch: that is when the loop has just gone to
    sleep.
    """

    def __init__(self, most_waiting: int = MOST_WAITING) -> None:
        self.problem: Problem | None = None
        """Who is told, once, that publishing fails."""
        self.dropped = 0
        """Batches that were not published because the outbox was full."""
        self.failed = 0
        """Messages that DDS did not take."""
        self._most = most_waiting
        self._queue: queue.SimpleQueue[list[Post] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
        self._thread.start()

    def post(self, batch: list[Post], wait: bool = False) -> None:
        """A batch of (send, encode, payload). A full outbox drops it, or is waited for where nobody is late."""
        while self._queue.qsize() >= self._most:
            if not wait or not self._thread.is_alive():
                self.dropped += 1
                return
            time.sleep(PATIENCE)
        self._queue.put(batch)

    def close(self) -> None:
        """Publishes what is left and ends the thread; what DDS does not take in time is left behind."""
        self._queue.put(_END)
        self._thread.join(LEFTOVERS)

    def _run(self) -> None:
        collected = time.monotonic()
        while (batch := self._queue.get()) is not _END:
            for send, encode, payload in batch:
                try:
                    send(encode(payload))
                except Exception as error:  # a context that went down, a publisher that was destroyed, a bad message
                    self._tell(error)
            if time.monotonic() - collected > COLLECT_EVERY:
                collect_garbage()
                collected = time.monotonic()

    def _tell(self, error: Exception) -> None:
        self.failed += 1
        if self.failed == 1 and self.problem is not None:
            self.problem(
                f"DDS does not take our messages ({error}); the loop goes on without it, tools and bags see nothing"
            )


class Turn:
    """The right to touch the nodes of a process: for one thread at a time, and again for the one that has it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._counting = threading.Lock()
        self._waiting = 0

    def __enter__(self) -> None:
        if self._lock.acquire(blocking=False):
            return
        with self._counting:
            self._waiting += 1
        self._lock.acquire()
        with self._counting:
            self._waiting -= 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._lock.release()

    def give_way(self) -> None:
        """For a loop that never sleeps and holds no turn now: whoever waits for it gets it; a lock alone is not fair."""
        if self._waiting:
            time.sleep(GIVE_WAY)


@dataclass(frozen=True, slots=True)
class _Listener:
    place: int
    handler: Handler
    failed: Problem


class Exchange:
    """Direct calls between the nodes of one process.

    `turn` is held by the loop for the length of a cycle, and by every other call that touches a node: the nodes were
    written for one thread at a time.
    """

    def __init__(self, order: Sequence[str] = (), times: CycleTimes | None = None) -> None:
        """order: of the nodes, by name, in which they hear a message. times: where the loop's cycles are counted."""
        self.turn = Turn()
        self.times = times or CycleTimes()
        self.outbox = Outbox()
        self.ticker = Ticker()
        """Periodic calls of the nodes: diagnostics, watchdogs."""
        self.waits = False
        """Whether the loop waits for a full outbox: in lockstep nobody is late, and a bag wants everything."""
        self.every = 1
        """How many cycles make one message of each stream on DDS."""
        self._order = tuple(order)
        self._cycle = 0
        self._in_cycle: int | None = None
        self._batch: list[Post] = []  # of this cycle
        self._handlers: dict[str, tuple[_Listener, ...]] = {}

    def listen(self, topic: str, node: str, handler: Handler, failed: Problem) -> Callable[[], None]:
        """Calls a node's handler with each payload; `failed` is told of an exception. Gives what ends it."""
        listener = _Listener(self._order.index(node), handler, failed)
        listeners = (*self._handlers.get(topic, ()), listener)
        self._handlers[topic] = tuple(sorted(listeners, key=lambda one: one.place))

        def end() -> None:
            self._handlers[topic] = tuple(one for one in self._handlers[topic] if one is not listener)

        return end

    def begin(self) -> None:
        """The loop's thread begins a cycle: what is published from it waits until the cycle's end."""
        self._in_cycle = threading.get_ident()

    def end(self) -> None:
        """The cycle is over, the command is written: now DDS may have the messages."""
        self._in_cycle = None
        self._cycle += 1
        if self._batch:
            batch, self._batch = self._batch, []
            self.outbox.post(batch, self.waits)

    def deliver(self, topic: str, payload: Any) -> None:
        """Calls who listens, in this thread; an exception ends that listener's part, not the caller's."""
        for listener in self._handlers.get(topic, ()):
            try:
                listener.handler(payload)
            except Exception:
                listener.failed(traceback.format_exc())

    def post(self, send: Send, encode: Encode, payload: Any, thinned: bool = False) -> None:
        """Leaves a message for DDS; of a thinned stream only those of every n-th cycle are sent."""
        if self._in_cycle != threading.get_ident():
            self.outbox.post([(send, encode, payload)])
        elif not thinned or self._cycle % self.every == 0:
            self._batch.append((send, encode, payload))


class ComposedOutlet:
    """Hands payloads to the nodes of this process at once, and to DDS when the loop's cycle is over."""

    def __init__(self, exchange: Exchange, topic: str, publisher: Any, encode: Encode, thinned: bool) -> None:
        """thinned: whether DDS gets it only in every n-th cycle, where the exchange is set so."""
        self._exchange = exchange
        self._topic = topic
        self._thinned = thinned
        self._publisher = publisher
        self._send = sender(publisher)
        self._encode = encode

    def publish(self, payload: Any) -> None:
        """Calls who listens; posts the message."""
        self._exchange.deliver(self._topic, payload)
        self._exchange.post(self._send, self._encode, payload, self._thinned)

    def get_subscription_count(self) -> int:
        """How many listen over DDS."""
        return int(self._publisher.get_subscription_count())
