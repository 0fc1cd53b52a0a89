"""MCAP files: by their index where it is whole, else from the beginning as far as the bytes go."""

import struct
import zlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from io import BytesIO
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

import lz4.frame  # type: ignore[import-untyped]
import yaml
import zstandard
from mcap.data_stream import ReadDataStream
from mcap.exceptions import EndOfFile
from mcap.reader import SeekingReader
from mcap.records import Channel as ChannelRecord
from mcap.records import Chunk, ChunkIndex, Footer, Message, Schema
from mcap.stream_reader import StreamReader

from trimtab.bags.findings import Findings
from trimtab.bags.storage import AT_ONCE, Batch, Channel, Raw, reason_of

LARGEST = 1 << 30  # bytes of a chunk; more is damage
MAGIC = b"\x89MCAP0\r\n"
_RECORD, _MESSAGE = struct.Struct("<BQ"), struct.Struct("<HIQ")
_MESSAGE_OPCODE, _SCHEMA_OPCODE, _CHANNEL_OPCODE, _CHUNK_OPCODE = 0x05, 0x03, 0x04, 0x06
_NAME_LENGTH = struct.Struct("<I")
_CHUNK_HEAD = 28  # bytes of a chunk before the name of its compression
_MESSAGE_HEAD = 22  # bytes before a message's data
_time = itemgetter(0)


class McapFile:
    """One file. Without an index its channels are looked for in all of it."""

    def __init__(self, path: Path, findings: Findings) -> None:
        self._path = path
        self._stream: Any = path.open("rb")
        self._size = path.stat().st_size
        self._schemas: dict[int, str] = {}
        self._topics: dict[int, str] = {}
        self._chunks: list[ChunkIndex] | None = None
        self.channels: list[Channel] = []
        self.custom: Mapping[str, str] = {}
        try:
            self._read_summary()
        except Exception as error:  # a damaged file makes the library run into whatever the bytes happen to be
            what = "is empty" if self._size == 0 else "has no end" if isinstance(error, EndOfFile) else "has a damaged end"
            findings.missing(f"{path.name} {what}, it was cut off or damaged ({reason_of(error)})")
            self._chunks, self.channels = None, []
            self._look_around()

    def close(self) -> None:
        """Closes the file."""
        self._stream.close()

    def batches(self, topics: Set[str], findings: Findings) -> Iterator[Batch]:
        """All messages of these topics; memory is that of the chunks that overlap in time."""
        pending: Batch = defaultdict(list)
        for start, chunk in self._blocks(findings):
            if pending and start is not None:
                yield _before(pending, start)
            for topic, messages in chunk.items():
                if topic in topics:
                    held = pending[topic]
                    held.extend(messages)
                    held.sort(key=_time)  # nearly sorted already
        if pending:
            yield pending

    def _read_summary(self) -> None:
        self._stream.seek(0)
        if self._stream.read(len(MAGIC)) != MAGIC:
            raise ValueError("it does not begin like an MCAP file")
        self._stream.seek(0)
        reader = SeekingReader(self._stream)
        summary = reader.get_summary()
        if summary is None:  # written without an index, and whole
            self._look_around()
            return
        counts = summary.statistics.channel_message_counts if summary.statistics else {}
        for record in summary.channels.values():
            schema = summary.schemas.get(record.schema_id)
            self._add_channel(record, schema.name if schema else "", counts.get(record.id))
        if summary.chunk_indexes or not any(counts.values()):
            self._chunks = sorted(summary.chunk_indexes, key=attrgetter("message_start_time", "chunk_start_offset"))
        for metadata in reader.iter_metadata():
            if metadata.name == "rosbag2":
                self.custom = _custom_of(metadata.metadata.get("serialized_metadata", ""))

    def _add_channel(self, record: ChannelRecord, kind: str, count: int | None = None) -> None:
        if record.id not in self._topics:
            self._topics[record.id] = record.topic
            self.channels.append(Channel(record.topic, kind, record.metadata.get("topic_type_hash", ""), count))

    def _look_around(self) -> None:
        """Finds the channels of a file without an index."""
        for _ in self._from_the_beginning(Findings()):
            pass

    def _blocks(self, findings: Findings) -> Iterator[tuple[int | None, Batch]]:
        """Chunk by chunk, by their beginning: when the first message was recorded, and all messages."""
        if self._chunks is None:
            for block in self._from_the_beginning(findings):
                yield min((messages[0].time for messages in block.values() if messages), default=None), block
            return
        for index in self._chunks:
            try:
                self._stream.seek(index.chunk_start_offset)
                opcode, length = _RECORD.unpack(self._stream.read(_RECORD.size))
                if opcode != _CHUNK_OPCODE or length > min(LARGEST, self._size):
                    raise ValueError("there is no chunk where the index says so")
                block = self._split(_unpacked(Chunk.read(ReadDataStream(self._stream))), findings)
            except Exception as error:
                findings.missing(f"{self._path.name}: a chunk is damaged and left out ({reason_of(error)})")
                continue
            yield index.message_start_time, block

    def _from_the_beginning(self, findings: Findings) -> Iterator[Batch]:
        """Records one after the other, until the end or the first that makes no sense."""
        self._stream.seek(0)
        loose: Batch = defaultdict(list)
        count = 0
        end = len(MAGIC)  # of the last whole record
        try:
            for record in StreamReader(self._stream, emit_chunks=True, record_size_limit=min(LARGEST, self._size)).records:
                if isinstance(record, Chunk):
                    try:
                        yield self._split(_unpacked(record), findings)
                    except Exception as error:
                        findings.missing(f"{self._path.name}: a chunk is damaged and left out ({reason_of(error)})")
                elif isinstance(record, Schema):
                    self._schemas[record.id] = record.name
                elif isinstance(record, ChannelRecord):
                    self._add_channel(record, self._schemas.get(record.schema_id, ""))
                elif isinstance(record, Message):
                    loose[self._topics.get(record.channel_id, "")].append(Raw(record.log_time, record.data))
                    count += 1
                    if count % AT_ONCE == 0:
                        yield _sorted(loose)
                        loose = defaultdict(list)
                elif isinstance(record, Footer):
                    break
                end = self._stream.tell()
        except Exception as error:
            findings.missing(f"{self._path.name} ends in the middle or is damaged ({reason_of(error)})")
            block = self._rest(end, findings)
            if block:
                yield block
        if loose:
            yield _sorted(loose)

    def _rest(self, end: int, findings: Findings) -> Batch:
        """What can be read of a chunk that was cut off."""
        try:
            self._stream.seek(end)
            opcode, length = _RECORD.unpack(self._stream.read(_RECORD.size))
            if opcode != _CHUNK_OPCODE or length > LARGEST:
                return {}
            record = self._stream.read(length)
            (size,) = _NAME_LENGTH.unpack_from(record, _CHUNK_HEAD)
            start = _CHUNK_HEAD + _NAME_LENGTH.size + size
            compression, data = record[start - size : start], record[start + 8 :]
            if compression == b"zstd":
                data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
            elif compression == b"lz4":
                data = lz4.frame.LZ4FrameDecompressor().decompress(data)
            return self._split(data, findings)
        except Exception:  # there is nothing in it; that the file was cut off is told already
            return {}

    def _split(self, data: bytes, findings: Findings) -> Batch:
        """The messages of one chunk."""
        block: Batch = defaultdict(list)
        lists: dict[int, list[Raw]] = {}
        place, size = 0, len(data)
        while place + _RECORD.size <= size:
            opcode, length = _RECORD.unpack_from(data, place)
            place += _RECORD.size
            end = place + length
            if end > size:
                findings.missing(f"{self._path.name}: a chunk ends in the middle of a message")
                break
            if opcode == _MESSAGE_OPCODE and length >= _MESSAGE_HEAD:
                channel, _, time = _MESSAGE.unpack_from(data, place)
                if channel not in lists:
                    lists[channel] = block[self._topics.get(channel, "")]
                lists[channel].append(Raw(time, data[place + _MESSAGE_HEAD : end]))
            elif opcode == _SCHEMA_OPCODE:
                schema = Schema.read(ReadDataStream(_stream(data[place:end])))
                self._schemas[schema.id] = schema.name
            elif opcode == _CHANNEL_OPCODE:
                record = ChannelRecord.read(ReadDataStream(_stream(data[place:end])))
                self._add_channel(record, self._schemas.get(record.schema_id, ""))
            place = end
        return _sorted(block)


def _stream(data: bytes) -> Any:
    return BytesIO(data)


def _unpacked(chunk: Chunk) -> bytes:
    if chunk.uncompressed_size > LARGEST:
        raise ValueError("it claims to be larger than any chunk")
    if chunk.compression == "zstd":
        data: bytes = zstandard.ZstdDecompressor().decompress(chunk.data, max_output_size=chunk.uncompressed_size)
    elif chunk.compression == "lz4":
        data = lz4.frame.decompress(chunk.data)
    elif chunk.compression == "":
        data = chunk.data
    else:
        raise ValueError(f"unknown compression '{chunk.compression}'")
    if chunk.uncompressed_crc and zlib.crc32(data) != chunk.uncompressed_crc:
        raise ValueError("its checksum is wrong")
    return data


def _sorted(block: Batch) -> Batch:
    for messages in block.values():
        messages.sort(key=_time)
    return block


def _before(pending: Batch, start: int) -> Batch:
    """Takes out what was recorded before a time."""
    out: Batch = {}
    for topic, messages in pending.items():
        count = bisect_left(messages, start, key=_time)
        out[topic] = messages[:count]
        del messages[:count]
    return out


def _custom_of(text: str) -> Mapping[str, str]:
    """`custom_data` of the metadata that a recorder put into the file itself."""
    try:
        document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        found = document.get("rosbag2_bagfile_information", document)
        custom = found.get("custom_data") or {}
        return {str(key): str(value) for key, value in custom.items()}
    except (yaml.YAMLError, TypeError, AttributeError, ValueError):
        return {}
