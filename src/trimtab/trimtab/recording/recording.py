"""Recording from a thread of its own: who hands messages over never waits for a disk."""

import threading
import time
from collections import deque
from datetime import UTC, datetime

from trimtab.errors import RecordingError, TrimtabError
from trimtab.recording.losses import SECOND, Losses
from trimtab.recording.metadata import BagTopic
from trimtab.recording.writer import BagWriter

ROOM = 100_000  # messages that may wait; more than half a minute of an arm at 500 Hz
SAVE_EVERY = 0.5  # s; what a process that is killed may lose, and a busy machine may double it
POLL = 0.02  # s
SET_BACK = SECOND  # ns; topics may overtake each other by less, a clock that was set goes back by more
ENDED = "ended"
"""Key of the time at which a bag was completed; a bag without it was cut off."""
CLOCK_SET_BACK = "clock_set_back"
"""Key of the seconds by which the clock went back meanwhile; the times of arrival went on."""


class Recording:
    """A bag that is being written."""

    def __init__(self, writer: BagWriter, topics: list[BagTopic], room: int = ROOM) -> None:
        """Begins at once: when this returns, the folder is a bag."""
        self.losses = Losses()
        """Those who notice a loss add to it."""
        self.error: TrimtabError | None = None
        """Why nothing is written any more."""
        self._writer = writer
        self._room = room
        self._numbers = {topic.name: writer.add_topic(topic) for topic in topics}
        self._sequence = dict.fromkeys(self._numbers, 0)
        self._waiting: deque[tuple[str, int, int, bytes, int]] = deque()
        self._latest = self._shift = 0  # ns
        self._ending = threading.Event()
        self._save()
        self._thread = threading.Thread(target=self._run, name="recording", daemon=True)
        self._thread.start()

    def put(self, topic: str, data: bytes, stamp: int, sent: int | None = None) -> bool:
        """Takes a message, or drops and counts it where too many wait: stamp of its arrival, and of its sending [ns].

        Each message, dropped ones too, takes the next sequence number of its topic, so that a hole shows in the bag.
        """
        sequence = self._sequence[topic] = self._sequence[topic] + 1
        sent = stamp if sent is None else sent
        stamp = self._onward(stamp)
        if len(self._waiting) >= self._room or self.error is not None:
            self.losses.lose(self.losses.queue, topic)
            return False
        self._waiting.append((topic, sequence, stamp, data, sent))
        return True

    @property
    def counts(self) -> dict[str, int]:
        """Messages written so far, by topic."""
        return dict(self._writer.counts)

    @property
    def saved(self) -> int:
        """Messages on the disk."""
        return self._writer.saved

    def _onward(self, stamp: int) -> int:
        """A time of arrival that does not go back: readers refuse a bag without an index in which it does."""
        if stamp + self._shift < self._latest - SET_BACK:
            self._shift = self._latest - stamp
            self._writer.custom[CLOCK_SET_BACK] = f"{self._shift / SECOND:.3f}"
        self._latest = max(self._latest, stamp + self._shift)
        return self._latest

    def finish(self) -> None:
        """Writes what waits, completes the bag and ends the thread; raises what went wrong, if anything did."""
        self._ending.set()
        self._thread.join()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            due = time.monotonic() + SAVE_EVERY
            while not self._ending.wait(POLL):
                self._drain()
                if time.monotonic() >= due:
                    self._save()
                    due = time.monotonic() + SAVE_EVERY
            self._drain()
            self._writer.custom |= self.losses.to_custom_data() | {ENDED: datetime.now(UTC).isoformat(timespec="seconds")}
            self._writer.close()
        except TrimtabError as error:
            self.error = error
            self._writer.abandon()
        except Exception as error:  # a thread that dies silently would record nothing for hours
            self.error = RecordingError(f"{self._writer.folder}: writing failed: {type(error).__name__}: {error}")
            self._writer.abandon()

    def _drain(self) -> None:
        for _ in range(len(self._waiting)):
            topic, sequence, stamp, data, sent = self._waiting.popleft()
            self._writer.write(self._numbers[topic], stamp, data, sequence, sent)

    def _save(self) -> None:
        self._writer.custom |= self.losses.to_custom_data()
        self._writer.save()
