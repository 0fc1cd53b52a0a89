"""A bag that is a whole bag from its first second on: data file and `metadata.yaml`, both renewed by every save."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from trimtab.errors import RecordingError
from trimtab.files import write_whole
from trimtab.names import MCAP, SQLITE3
from trimtab.recording.mcap_storage import McapStorage
from trimtab.recording.metadata import METADATA, NO_TIME, BagTopic, Extent, metadata, to_file, to_yaml
from trimtab.recording.sqlite_storage import SqliteStorage

SUFFIXES = {MCAP: ".mcap", SQLITE3: ".db3"}


class BagWriter:
    """Writes one bag. After each `save` the folder is a bag that every reader takes, whatever happens to the process.

    Every failure is a `RecordingError`; the folder then stays as of the last save.
    """

    def __init__(self, folder: Path, storage: str = MCAP, custom: Mapping[str, str] | None = None) -> None:
        """folder: must not exist yet; custom: what the bag tells of itself."""
        self.folder = folder
        self.custom = dict(custom or {})
        """What the bag tells of itself; may be added to until it is closed."""
        self.counts: dict[str, int] = {}
        """Messages by topic."""
        self.saved = 0
        """Messages on the disk."""
        self._topics: list[BagTopic] = []
        self._first, self._last = NO_TIME, 0
        self._identifier = storage
        with self._told():
            if folder.exists():
                raise RecordingError(f"{folder}: exists already and a bag is never overwritten; choose another folder")
            folder.mkdir(parents=True)
            self._file = folder / f"{folder.resolve().name}{SUFFIXES[storage]}"
            self._storage: McapStorage | SqliteStorage
            self._storage = McapStorage(self._file, self.custom) if storage == MCAP else SqliteStorage(self._file)
            self._inode = self._file.stat().st_ino

    def add_topic(self, topic: BagTopic) -> int:
        """Gives the number under which messages of this topic are written."""
        if topic.name in self.counts:
            raise RecordingError(f"{self.folder}: topic {topic.name} is recorded already")
        number = len(self._topics) + 1
        with self._told():
            self._storage.add_topic(number, topic)
        self._topics.append(topic)
        self.counts[topic.name] = 0
        return number

    def write(self, number: int, stamp: int, data: bytes, sequence: int = 0, sent: int | None = None) -> None:
        """Takes a message: number of its topic, time of arrival [ns], CDR, count within its topic, time of sending [ns]."""
        with self._told():
            self._storage.write(number, stamp, data, sequence, stamp if sent is None else sent)
        self.counts[self._topics[number - 1].name] += 1
        self._first, self._last = min(self._first, stamp), max(self._last, stamp)

    def save(self) -> None:
        """Brings all so far to the disk: the messages first, since metadata may promise no more than there is."""
        with self._told():
            self._storage.save()
            self._still_there()
            write_whole(self.folder / METADATA, to_file(self._information()))
        self.saved = sum(self.counts.values())

    def close(self) -> None:
        """Completes the bag."""
        with self._told():
            self._still_there()
            self._storage.close(to_yaml(self._information()).strip(), self.custom)
            write_whole(self.folder / METADATA, to_file(self._information()))
        self.saved = sum(self.counts.values())

    def abandon(self) -> None:
        """Leaves the bag as of the last save."""
        self._storage.abandon()

    def _information(self) -> dict[str, object]:
        extent = Extent(self.counts, self._first, self._last)
        return metadata(self._identifier, self._file.name, self._topics, extent, self.custom)

    def _still_there(self) -> None:
        """A file that lost its name can be written for ever without anything being left of it."""
        try:
            there = self._file.stat().st_ino == self._inode
        except OSError:
            there = False
        if not there:
            raise RecordingError(
                f"{self.folder}: the bag was moved or removed while it was recorded; start a new one and leave it alone"
            )

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turns what a disk can do into one error."""
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            reason = getattr(error, "strerror", None) or str(error)
            kept = f"its first {self.saved} messages are saved and readable; " if self.saved else ""
            raise RecordingError(
                f"{self.folder}: cannot be written ({reason}); {kept}make room or choose another folder, and start a new bag"
            ) from error
