"""Reads what is left of a bag's data file that was cut off or damaged, up to where nothing more can be read."""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcap.exceptions import EndOfFile
from mcap.records import Channel, Chunk, Message, Metadata, Schema
from mcap.stream_reader import StreamReader, breakup_chunk
from rosbags.rosbag2.metadata import dump_qos_v9, parse_qos
from rosbags.typesys import Stores, get_typestore

from trimtab.names import MCAP
from trimtab.recording.mcap_storage import ABOUT, ABOUT_END
from trimtab.recording.metadata import BagTopic, Qos


@dataclass(frozen=True)
class Found:
    """A message that can be read."""

    topic: BagTopic
    stamp: int
    """Time of arrival [ns]."""
    data: bytes
    sequence: int
    sent: int
    """Time of sending [ns]."""


@dataclass
class Salvage:
    """What else a file gave, filled in while its messages are read."""

    custom: dict[str, str] = field(default_factory=dict)
    """What the bag tells of itself, as far as the data file has it."""
    topics: dict[int, BagTopic] = field(default_factory=dict)
    """All that are named, also those without messages."""
    damage: list[str] = field(default_factory=list)
    """What could not be read; empty for a file that is whole."""
    read: int = 0
    """Bytes of the file so far, roughly."""


def messages_of(file: Path, storage: str, result: Salvage) -> Iterator[Found]:
    """All messages that can be read of one file."""
    return (_mcap if storage == MCAP else _sqlite)(file, result)


def _mcap(file: Path, result: Salvage) -> Iterator[Found]:
    schemas: dict[int, Schema] = {}
    topics = result.topics
    with file.open("rb") as stream:
        # No record is larger than its file: a damaged length must not ask for all memory there is.
        reader = StreamReader(stream, emit_chunks=True, record_size_limit=file.stat().st_size)
        for record in _flat(_until_damage(reader.records, result), result):
            result.read = stream.tell()
            if isinstance(record, Schema):
                schemas[record.id] = record
            elif isinstance(record, Channel):
                topics[record.id] = _topic_of(record, schemas.get(record.schema_id))
            elif isinstance(record, Metadata) and record.name in (ABOUT, ABOUT_END):
                result.custom |= record.metadata
            elif isinstance(record, Message) and record.channel_id in topics:
                topic = topics[record.channel_id]
                yield Found(topic, record.log_time, bytes(record.data), record.sequence, record.publish_time)


def _until_damage(records: Iterator[Any], result: Salvage) -> Iterator[Any]:
    try:
        yield from records
    except Exception as error:  # a damaged file makes the library run into whatever the bytes happen to be
        result.damage.append(f"it ends early: {_reason(error)}")


def _flat(records: Iterator[Any], result: Salvage) -> Iterator[Any]:
    """Records with those in chunks; a chunk gives all that it holds or nothing, as its checksum says."""
    for record in records:
        if not isinstance(record, Chunk):
            yield record
            continue
        try:
            inside = breakup_chunk(record, validate_crc=True)
        except Exception as error:  # as above; the next chunk may be whole
            result.damage.append(f"{len(record.data)} bytes are damaged: {_reason(error)}")
        else:
            yield from inside


def _reason(error: Exception) -> str:
    return "cut off" if isinstance(error, EndOfFile) else str(error) or type(error).__name__


def _topic_of(channel: Channel, schema: Schema | None) -> BagTopic:
    told = channel.metadata
    kind = schema.name if schema is not None else ""
    definition = schema.data.decode(errors="replace") if schema is not None else ""
    encoding = schema.encoding if schema is not None else "ros2msg"
    digest = told.get("topic_type_hash") or _hash_of(kind)
    return BagTopic(channel.topic, kind, definition, encoding, digest, _profiles(told.get("offered_qos_profiles", "")))


def _profiles(text: str) -> tuple[Qos, ...]:
    """Profiles of any version, as version 9 has them; such that cannot be read are left out."""
    try:
        return tuple(dict(profile) for profile in dump_qos_v9(parse_qos(text)))
    except Exception:  # as above; messages without a profile are better than none
        return ()


def _hash_of(kind: str) -> str:
    """Hash of a type that ROS itself has; empty for others."""
    store = get_typestore(Stores.ROS2_JAZZY)
    return store.hash_rihs01(kind) if kind in store.types else ""


def _sqlite(file: Path, result: Salvage) -> Iterator[Found]:
    with ExitStack() as stack:
        try:
            database = _open(file, stack)
            database.execute("PRAGMA writable_schema=ON")  # else a file that lost its end is refused as a whole
            result.topics |= _topics(database)
            query = "SELECT topic_id, timestamp, data FROM messages ORDER BY id"
            for number, stamp, data in database.execute(query):
                if not (number in result.topics and isinstance(stamp, int) and isinstance(data, bytes)):
                    raise ValueError("a row is damaged")
                result.read += len(data)
                yield Found(result.topics[number], stamp, data, 0, stamp)
        except Exception as error:  # as above
            result.damage.append(f"it ends early: {_reason(error)}")


def _open(file: Path, stack: ExitStack) -> sqlite3.Connection:
    """The database, without a change to its file."""
    with file.open("rb") as stream:
        head = stream.read(18)
    rest = file.stat().st_size % max(1, int.from_bytes(head[16:18], "big"))
    journals = list(file.parent.glob(f"{file.name}-*"))
    if not journals and not rest:
        database = sqlite3.connect(f"{file.resolve().as_uri()}?immutable=1", uri=True)
    else:  # on a copy: opening it takes back a transaction that was under way, and so writes
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trimtab-repair-")))
        for part in (file, *journals):
            shutil.copy(part, folder / part.name)
        if not journals:  # the half of a page would be taken for a whole one, with zeros in what is missing
            os.truncate(folder / file.name, file.stat().st_size - rest)
        database = sqlite3.connect(folder / file.name)
    stack.callback(database.close)
    return database


def _topics(database: sqlite3.Connection) -> dict[int, BagTopic]:
    """By number; older databases know less of them."""
    columns = {row[1] for row in database.execute("PRAGMA table_info(topics)")}
    qos = "offered_qos_profiles" if "offered_qos_profiles" in columns else "''"
    digest = "type_description_hash" if "type_description_hash" in columns else "''"
    definitions = _definitions(database)
    topics: dict[int, BagTopic] = {}
    for number, name, kind, profiles, told in database.execute(f"SELECT id, name, type, {qos}, {digest} FROM topics"):
        if not (isinstance(name, str) and isinstance(kind, str)):
            raise ValueError("its table of topics is damaged")
        encoding, text = definitions.get(kind, ("ros2msg", ""))
        topics[number] = BagTopic(name, kind, text, encoding, told or _hash_of(kind), _profiles(profiles))
    return topics


def _definitions(database: sqlite3.Connection) -> dict[str, tuple[str, str]]:
    """Encoding and text by type, where the database has them."""
    try:
        rows = database.execute("SELECT topic_type, encoding, encoded_message_definition FROM message_definitions")
        return {kind: (encoding, text) for kind, encoding, text in rows}
    except sqlite3.Error:
        return {}
