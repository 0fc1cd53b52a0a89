"""JointState messages by their bytes: a stream's messages differ in their numbers, not in their layout.

A generic decoder takes each message apart by itself, and a generic encoder puts it together piece by piece. Here the layout
(names, places of the numbers) is found once; then all messages whose other bytes are the same are read as columns of one
table, one that comes by itself is told by its bytes, and a message is made by filling in its numbers.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trimtab.typing import FloatArray

HEADER = 4  # bytes that tell the encoding, before the content; places are aligned from there on
MOST_PADDING = 24  # bytes behind a message, of any content: DDS leaves room to align each field, also an empty one
_STAMP = 4, 12
LONGEST_NAME, MOST_NAMES = 4096, 4096


class MalformedMessage(ValueError):
    """Bytes that are no JointState."""


@dataclass(frozen=True)
class Layout:
    """Names of a JointState and where its numbers are."""

    length: int
    little: bool
    names: tuple[str, ...]
    places: tuple[tuple[int, int], ...]
    """First byte and count of position, velocity and effort."""
    fixed: np.ndarray
    """Places of the bytes that make the layout."""
    content: np.ndarray
    """These bytes."""


@dataclass(frozen=True)
class Columns:
    """Messages of one layout, in the order in which they came."""

    names: tuple[str, ...]
    index: np.ndarray
    """Which of the messages that were given, (n,)."""
    stamp: np.ndarray
    """(n,) of int64 [ns]"""
    position: FloatArray
    velocity: FloatArray
    effort: FloatArray
    """(n, count); each has as many columns as the messages have values, none for an empty field."""


def layout_of(data: bytes) -> Layout:
    """The layout of one message; raises `MalformedMessage`."""
    if len(data) < HEADER + 8 or data[0] != 0 or data[1] not in (0, 1):
        raise MalformedMessage("it is not in plain CDR")
    little = data[1] == 1
    number = struct.Struct("<I" if little else ">I")
    fixed = [(0, 2)]

    def count(place: int, most: int) -> tuple[int, int]:
        place += -(place - HEADER) % 4
        if place + 4 > len(data):
            raise MalformedMessage("it ends in the middle")
        (found,) = number.unpack_from(data, place)
        if found > most:
            raise MalformedMessage(f"it claims {found} values")
        fixed.append((place, place + 4))
        return found, place + 4

    def text(place: int) -> tuple[str, int]:
        size, place = count(place, LONGEST_NAME)
        if place + size > len(data):
            raise MalformedMessage("it ends in the middle")
        fixed.append((place, place + size))
        try:
            return data[place : place + max(0, size - 1)].decode(), place + size
        except UnicodeDecodeError as error:
            raise MalformedMessage("a name in it is no text") from error

    _, place = text(_STAMP[1])
    names = []
    size, place = count(place, MOST_NAMES)
    for _ in range(size):
        name, place = text(place)
        names.append(name)
    places = []
    for _ in range(3):
        size, place = count(place, MOST_NAMES)
        if size:
            place += -(place - HEADER) % 8
            if place + 8 * size > len(data):
                raise MalformedMessage("it ends in the middle")
        places.append((place, size))
        place += 8 * size
    if len(data) - place > MOST_PADDING:
        raise MalformedMessage(f"it has {len(data) - place} bytes too many")
    which = np.concatenate([np.arange(*span) for span in fixed])
    return Layout(len(data), little, tuple(names), tuple(places), which, np.frombuffer(data, np.uint8)[which])


class JointStateDecoder:
    """Remembers the layouts that it has met: streams of one topic have one, or a few."""

    def __init__(self) -> None:
        self._known: dict[int, list[Layout]] = {}

    def decode(self, messages: Sequence[bytes]) -> tuple[list[Columns], list[tuple[int, str]]]:
        """Tables of the messages by layout, and which messages are malformed, with the reason."""
        lengths = np.fromiter(map(len, messages), np.int64, len(messages))
        tables: list[Columns] = []
        malformed: list[tuple[int, str]] = []
        for length in np.unique(lengths):
            index = np.flatnonzero(lengths == length)
            raw = np.frombuffer(b"".join([messages[i] for i in index.tolist()]), np.uint8).reshape(len(index), length)
            for layout in self._known.get(int(length), []):
                if len(index) == 0:
                    break
                fits = (raw[:, layout.fixed] == layout.content).all(axis=1)
                if fits.any():
                    tables.append(_columns(layout, index[fits], raw[fits]))
                    index, raw = index[~fits], raw[~fits]
            while len(index):
                try:
                    layout = layout_of(messages[index[0]])
                except MalformedMessage as error:
                    malformed.append((int(index[0]), str(error)))
                    index, raw = index[1:], raw[1:]
                    continue
                self._known.setdefault(int(length), []).append(layout)
                fits = (raw[:, layout.fixed] == layout.content).all(axis=1)
                tables.append(_columns(layout, index[fits], raw[fits]))
                index, raw = index[~fits], raw[~fits]
            known = self._known.get(int(length), [])
            del known[:-8]  # a stream of ever new layouts is no reason to remember them all
        return tables, malformed


def _columns(layout: Layout, index: np.ndarray, raw: np.ndarray) -> Columns:
    order = "<" if layout.little else ">"
    stamp = np.ascontiguousarray(raw[:, slice(*_STAMP)])
    seconds = stamp[:, :4].copy().view(f"{order}i4")[:, 0].astype(np.int64)
    rest = stamp[:, 4:].copy().view(f"{order}u4")[:, 0].astype(np.int64)
    values = []
    for place, count in layout.places:
        block = np.ascontiguousarray(raw[:, place : place + 8 * count])
        values.append(block.view(f"{order}f8").astype(np.float64) if count else np.empty((len(index), 0)))
    return Columns(layout.names, index, seconds * 1_000_000_000 + rest, *values)


class Stamp(NamedTuple):
    """Of a message."""

    sec: int
    nanosec: int


class Header(NamedTuple):
    """Of a message; its frame is left out."""

    stamp: Stamp


@dataclass(slots=True)
class ParsedJointState:
    """A JointState with the names of the message's fields; the numbers are views of its bytes, which nobody can change."""

    header: Header
    name: tuple[str, ...]
    position: FloatArray
    velocity: FloatArray
    effort: FloatArray


class JointStateParser:
    """Takes the messages of one stream apart, one at a time. The layout is that of the message before, nearly always."""

    def __init__(self) -> None:
        self._layout: Layout | None = None
        self._same: tuple[tuple[int, int, bytes], ...] = ()
        """Places, and bytes that stand there in every message of the layout."""

    def parse(self, data: bytes) -> ParsedJointState:
        """One message; raises `MalformedMessage`."""
        layout = self._layout
        if layout is None or len(data) != layout.length or any(data[a:b] != part for a, b, part in self._same):
            layout = self._learn(data)
        stamp = Stamp(*self._stamp.unpack_from(data, _STAMP[0]))
        numbers = (np.frombuffer(data, self._number, count, place) for place, count in layout.places)
        return ParsedJointState(Header(stamp), layout.names, *numbers)

    def _learn(self, data: bytes) -> Layout:
        layout = self._layout = layout_of(data)
        order = "<" if layout.little else ">"
        self._stamp, self._number = struct.Struct(f"{order}iI"), np.dtype(f"{order}f8")
        edges = np.flatnonzero(np.diff(layout.fixed) > 1) + 1
        parts = ((int(part[0]), int(part[-1]) + 1) for part in np.split(layout.fixed, edges))
        self._same = tuple((first, end, data[first:end]) for first, end in parts)
        return layout


class JointStateEncoder:
    """Makes the messages of a stream: little-endian, without a frame, each field with a number per name or empty."""

    def __init__(
        self, names: Sequence[str], *, position: bool = False, velocity: bool = False, effort: bool = False
    ) -> None:
        """Which of the fields are there."""
        data = bytearray(b"\x00\x01\x00\x00")
        data += bytes(8)  # the stamp
        _add_text(data, "")
        _add_count(data, len(names))
        for name in names:
            _add_text(data, name)
        self._places = []
        for filled in (position, velocity, effort):
            size = len(names) if filled else 0
            _add_count(data, size)
            if size:
                _align(data, 8)
                self._places.append(len(data))
                data += bytes(8 * size)
        self._template = bytes(data)
        self._stamp = struct.Struct("<iI")
        self._numbers = struct.Struct(f"<{len(names)}d")

    def encode(self, stamp: int, *fields: Sequence[float]) -> bytes:
        """A message with this stamp [ns]; fields: the numbers of those that are there, in the order of the names."""
        data = bytearray(self._template)
        self._stamp.pack_into(data, _STAMP[0], *divmod(stamp, 1_000_000_000))
        for place, numbers in zip(self._places, fields, strict=True):
            self._numbers.pack_into(data, place, *numbers)
        return bytes(data)


def _align(data: bytearray, size: int) -> None:
    data += bytes(-(len(data) - HEADER) % size)


def _add_count(data: bytearray, count: int) -> None:
    _align(data, 4)
    data += struct.pack("<I", count)


def _add_text(data: bytearray, text: str) -> None:
    encoded = text.encode() + b"\0"
    _add_count(data, len(encoded))
    data += encoded
