"""sqlite3 files of rosbag2, read-only, in the order of their log times."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

from trimtab.bags.findings import Findings
from trimtab.bags.storage import AT_ONCE, Batch, Channel, Raw, reason_of
from trimtab.errors import LogError


class SqliteFile:
    """One file; a journal that a recorder left beside it is read too."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # An immutable file needs no lock and may lie on a read-only disk, but then sqlite overlooks the journal.
        journal = path.with_name(path.name + "-wal").exists()
        try:
            # The reader may be closed by another thread than the one that opened it: a generator's end is anybody's.
            uri = f"{path.resolve().as_uri()}?mode=ro{'' if journal else '&immutable=1'}"
            self._connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
            self._cut_off = _is_cut_off(path)
            topics = {name for _, name, *_ in self._connection.execute("PRAGMA table_info(topics)")}
            if not topics:
                raise LogError(f"{path}: has no table 'topics', so it is no bag, or its recording was cut off")
            digest = "type_description_hash" if "type_description_hash" in topics else "''"
            rows = self._connection.execute(f"SELECT id, name, type, {digest} FROM topics ORDER BY id").fetchall()
        except sqlite3.Error as error:
            raise LogError(f"{path}: cannot be read, it is damaged or was cut off ({reason_of(error)})") from error
        self._topics = {key: str(name) for key, name, _, _ in rows}
        self.channels = [Channel(str(name), str(kind), str(digest or "")) for _, name, kind, digest in rows]
        self.custom: Mapping[str, str] = {}

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()

    def batches(self, topics: Set[str], findings: Findings) -> Iterator[Batch]:
        """All messages of these topics."""
        if self._cut_off:
            findings.missing(f"{self._path.name} is shorter than it says, it was cut off")
        wanted = [key for key, name in self._topics.items() if name in topics]
        marks = ", ".join("?" for _ in wanted)
        query = f"SELECT topic_id, timestamp, data FROM messages WHERE topic_id IN ({marks}) ORDER BY timestamp, id"
        try:
            cursor = self._connection.execute(query, wanted)
            while rows := cursor.fetchmany(AT_ONCE):
                batch: Batch = defaultdict(list)
                for key, time, data in rows:
                    if isinstance(time, int) and isinstance(data, bytes):
                        batch[self._topics[key]].append(Raw(time, data))
                    else:
                        findings.malformed += 1
                yield batch
        except (sqlite3.Error, OverflowError) as error:
            findings.missing(f"{self._path.name} is damaged or was cut off ({reason_of(error)})")


def _is_cut_off(path: Path) -> bool:
    """Whether a file is shorter than its own header says."""
    with path.open("rb") as stream:
        header = stream.read(32)
    page = int.from_bytes(header[16:18], "big")
    return path.stat().st_size < (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big")
