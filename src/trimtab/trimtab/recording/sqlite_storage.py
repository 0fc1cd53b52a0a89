"""A rosbag2 database (schema 4) that is whole after every save, also for readers that look past its journal.

Messages wait in memory and come in by one transaction per save, so that the file changes only while it commits.
"""

import sqlite3
from contextlib import suppress
from pathlib import Path

from trimtab.recording.metadata import DISTRO, VERSION, BagTopic, qos_text

BEHIND = 20_000  # messages that may wait for the next save
_TABLES = (
    "CREATE TABLE schema(schema_version INTEGER PRIMARY KEY, ros_distro TEXT NOT NULL)",
    "CREATE TABLE metadata(id INTEGER PRIMARY KEY, metadata_version INTEGER NOT NULL, metadata TEXT NOT NULL)",
    "CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL, serialization_format TEXT NOT NULL,"
    " offered_qos_profiles TEXT NOT NULL, type_description_hash TEXT NOT NULL)",
    "CREATE TABLE message_definitions(id INTEGER PRIMARY KEY, topic_type TEXT NOT NULL, encoding TEXT NOT NULL,"
    " encoded_message_definition TEXT NOT NULL, type_description_hash TEXT NOT NULL)",
    "CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL, timestamp INTEGER NOT NULL,"
    " data BLOB NOT NULL)",
    "CREATE INDEX timestamp_idx ON messages (timestamp ASC)",
)


class SqliteStorage:
    """Writes messages to a growing database."""

    def __init__(self, file: Path) -> None:
        """file: must not exist yet."""
        # Opened by the node's thread, written by the recording's own: one after the other, never both at once.
        self._database = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode=DELETE")  # a reader that takes the file as it is knows no other file
        self._database.execute("PRAGMA cache_spill=OFF")  # nothing half done in the file between two saves
        with self._transaction():
            for statement in _TABLES:
                self._database.execute(statement)
            self._database.execute("INSERT INTO schema VALUES(4, ?)", (DISTRO,))
        self._types: set[str] = set()
        self._waiting: list[tuple[int, int, bytes]] = []

    def add_topic(self, number: int, topic: BagTopic) -> None:
        """Makes a topic known by a number of the caller's choice."""
        row = (number, topic.name, topic.type, "cdr", qos_text(topic.qos), topic.hash)
        definition = (topic.type, topic.encoding, topic.definition, topic.hash)
        with self._transaction():
            self._database.execute("INSERT INTO topics VALUES(?, ?, ?, ?, ?, ?)", row)
            if topic.type not in self._types:
                self._database.execute("INSERT INTO message_definitions VALUES(NULL, ?, ?, ?, ?)", definition)
        self._types.add(topic.type)

    def write(self, number: int, stamp: int, data: bytes, sequence: int, sent: int) -> None:  # noqa: ARG002
        """Takes a message: number of its topic, time of arrival [ns], CDR; the schema has no room for more."""
        self._waiting.append((number, stamp, data))
        if len(self._waiting) > BEHIND:
            self.save()

    def save(self) -> None:
        """Brings all messages so far to the disk."""
        with self._transaction():
            self._database.executemany("INSERT INTO messages VALUES(NULL, ?, ?, ?)", self._waiting)
        self._waiting.clear()

    def close(self, about: str, custom: dict[str, str]) -> None:  # noqa: ARG002
        """Completes the file; about: what metadata.yaml says of the bag."""
        self.save()
        with self._transaction():
            self._database.execute("INSERT INTO metadata VALUES(NULL, ?, ?)", (VERSION, about))
        self._database.close()

    def abandon(self) -> None:
        """Leaves the file as of the last save."""
        with suppress(sqlite3.Error):
            self._database.close()

    def _transaction(self) -> "_Transaction":
        return _Transaction(self._database)


class _Transaction:
    """All or nothing; a failed commit is taken back at once."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __enter__(self) -> None:
        self._database.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._database.execute("ROLLBACK" if kind is not None else "COMMIT")
        except sqlite3.Error:
            with suppress(sqlite3.Error):
                self._database.execute("ROLLBACK")
            raise
