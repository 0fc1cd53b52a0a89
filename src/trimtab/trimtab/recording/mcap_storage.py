"""An MCAP file that is whole after every save: cut off at any moment between two, each reader takes all that was saved.

After each save the file ends with an end record, a footer without a summary and the magic; the next save overwrites these
few bytes, in the one write that also brings its data. Closing writes the summary; without one readers scan the file, some
of them only where the times of arrival do not go back.
"""

import os
from contextlib import suppress
from pathlib import Path

from mcap.data_stream import RecordBuilder
from mcap.records import DataEnd, Footer
from mcap.writer import MCAP0_MAGIC, CompressionType, Writer

from trimtab.recording.metadata import BagTopic, qos_text

PROFILE = "ros2"
ABOUT = "trimtab"
"""Name of the metadata record that holds a bag's custom_data as of its start; ABOUT_END: as of its end."""
ABOUT_END = "trimtab_end"
CHUNK = 512 * 1024  # bytes; a reader unpacks a chunk as a whole
BEHIND = 8 * CHUNK  # bytes that may wait for the next save


def _ending() -> bytes:
    builder = RecordBuilder()
    DataEnd(data_section_crc=0).write(builder)
    Footer(summary_start=0, summary_offset_start=0, summary_crc=0).write(builder)
    return bytes(builder.end() + MCAP0_MAGIC)


class _Tail:
    """What the library writes to: bytes that wait in memory until they are put to the file's end."""

    def __init__(self, handle: int) -> None:
        self.saved = 0
        """Bytes in the file, without the ending that the next save overwrites."""
        self._handle = handle
        self._waiting = bytearray()

    def write(self, data: bytes) -> int:
        self._waiting += data
        return len(data)

    def tell(self) -> int:
        return self.saved + len(self._waiting)

    def flush(self) -> None:
        """The library's flush; only a save brings bytes to the file."""

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def save(self, ending: bytes) -> None:
        """Puts all that waits to the file, with an ending behind it."""
        self._put(bytes(self._waiting) + ending, self.saved)
        self.saved += len(self._waiting)
        self._waiting.clear()

    def restore(self, ending: bytes) -> None:
        """Takes back a save that went wrong halfway."""
        os.ftruncate(self._handle, self.saved)
        self._put(ending, self.saved)

    def _put(self, data: bytes, offset: int) -> None:
        view = memoryview(data)
        while view:
            count = os.pwrite(self._handle, view, offset)
            view, offset = view[count:], offset + count


class McapStorage:
    """Writes messages to a growing file."""

    def __init__(self, file: Path, custom: dict[str, str]) -> None:
        """file: must not exist yet; custom: what the bag tells of itself."""
        self._handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        self._tail = _Tail(self._handle)
        self._ending = _ending()
        self._writer = Writer(self._tail, chunk_size=CHUNK, compression=CompressionType.ZSTD)  # type: ignore[arg-type]
        self._writer.start(profile=PROFILE, library="trimtab")
        self._writer.add_metadata(ABOUT, custom)
        self._schemas: dict[str, int] = {}
        self._channels: dict[int, int] = {}

    def add_topic(self, number: int, topic: BagTopic) -> None:
        """Makes a topic known by a number of the caller's choice."""
        if topic.type not in self._schemas:
            schema = self._writer.register_schema(topic.type, topic.encoding, topic.definition.encode())
            self._schemas[topic.type] = schema
        about = {"offered_qos_profiles": qos_text(topic.qos), "topic_type_hash": topic.hash}
        self._channels[number] = self._writer.register_channel(topic.name, "cdr", self._schemas[topic.type], about)

    def write(self, number: int, stamp: int, data: bytes, sequence: int, sent: int) -> None:
        """Takes a message: number of its topic, time of arrival [ns], CDR, count within its topic, time of sending [ns]."""
        self._writer.add_message(self._channels[number], stamp, data, sent, sequence)
        if self._tail.waiting > BEHIND:
            self.save()

    def save(self) -> None:
        """Brings all messages so far to the disk."""
        self._writer.flush()
        self._to_file(self._ending)

    def close(self, about: str, custom: dict[str, str]) -> None:
        """Completes the file with its summary; about: what metadata.yaml says of the bag."""
        self._writer.flush()
        self._writer.add_metadata(ABOUT_END, custom)
        self._writer.add_metadata("rosbag2", {"serialized_metadata": about})
        self._writer.finish()
        self._to_file(b"")
        os.close(self._handle)

    def abandon(self) -> None:
        """Leaves the file as of the last save."""
        with suppress(OSError):
            os.close(self._handle)

    def _to_file(self, ending: bytes) -> None:
        try:
            self._tail.save(ending)
            os.fdatasync(self._handle)
        except OSError:
            with suppress(OSError):  # the error that is told is the first
                self._tail.restore(self._ending)
            raise
