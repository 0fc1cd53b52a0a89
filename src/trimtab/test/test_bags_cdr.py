"""The decoder of joint states: the same numbers as the general decoder's, whatever the layout, and never another error."""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rosbags.typesys import Stores, get_typestore

from trimtab.bags.cdr import JointStateDecoder, JointStateEncoder, JointStateParser, MalformedMessage
from trimtab.bags.topics import JOINT_STATE

STORE = get_typestore(Stores.ROS2_JAZZY)
names = st.lists(st.text("abcdefgh_/é", max_size=9), max_size=6)
numbers = st.floats(width=64)


def encode(stamp: int, frame: str, joints: Sequence[str], *fields: Sequence[float], little: bool = True) -> bytes:
    kinds: Any = STORE.types
    header = kinds["std_msgs/msg/Header"](kinds["builtin_interfaces/msg/Time"](*divmod(stamp, 10**9)), frame)
    arrays = [np.array(values, dtype=np.float64) for values in fields]
    return bytes(STORE.serialize_cdr(kinds[JOINT_STATE](header, list(joints), *arrays), JOINT_STATE, little_endian=little))


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    joints = draw(names)
    some = st.one_of(
        st.just([]), st.lists(numbers, min_size=len(joints), max_size=len(joints)), st.lists(numbers, max_size=4)
    )
    stamp = draw(st.integers(0, 2**31 * 10**9 - 1))
    fields = [draw(some) for _ in range(3)]
    return encode(stamp, draw(st.text("ab", max_size=5)), joints, *fields, little=draw(st.booleans()))


@given(st.lists(messages(), max_size=12))
def test_it_reads_what_the_general_decoder_reads(batch: list[bytes]) -> None:
    tables, malformed = JointStateDecoder().decode(batch)
    assert not malformed
    seen = []
    for table in tables:
        for row, i in enumerate(table.index):
            expected: Any = STORE.deserialize_cdr(batch[i], JOINT_STATE)
            assert table.names == tuple(expected.name)
            assert table.stamp[row] == expected.header.stamp.sec * 10**9 + expected.header.stamp.nanosec
            for field in ("position", "velocity", "effort"):
                np.testing.assert_array_equal(getattr(table, field)[row], getattr(expected, field))
            seen.append(i)
    assert sorted(seen) == list(range(len(batch)))


@given(st.lists(messages(), max_size=8))
def test_one_at_a_time_gives_the_same(stream: list[bytes]) -> None:
    parser = JointStateParser()
    for data in [one for one in stream for _ in range(2)]:
        expected: Any = STORE.deserialize_cdr(data, JOINT_STATE)
        got = parser.parse(data)
        assert got.name == tuple(expected.name)
        assert got.header.stamp == (expected.header.stamp.sec, expected.header.stamp.nanosec)
        for field in ("position", "velocity", "effort"):
            np.testing.assert_array_equal(getattr(got, field), getattr(expected, field))


@given(messages(), st.integers(0, 2**16), st.integers(0, 255))
def test_one_that_is_damaged_is_read_as_what_it_is_or_refused(data: bytes, place: int, byte: int) -> None:
    parser = JointStateParser()
    parser.parse(data)
    place %= len(data)
    damaged = data[:place] + bytes([byte]) + data[place + 1 :]
    try:
        got = parser.parse(damaged)
    except MalformedMessage:
        return
    fresh = JointStateParser().parse(damaged)  # what came before has no influence
    assert (got.header, got.name) == (fresh.header, fresh.name)
    for field in ("position", "velocity", "effort"):
        np.testing.assert_array_equal(getattr(got, field), getattr(fresh, field))


def test_room_that_a_middleware_leaves_behind_the_content_is_no_damage() -> None:
    data = encode(5, "", ["a", "b"], [], [], [1.0, 2.0])
    for more in (bytes(4), b"\x7f" * 8, bytes(range(24))):  # Fast CDR reckons with the alignment of empty lists too
        (table,), malformed = JointStateDecoder().decode([data + more])
        assert not malformed
        np.testing.assert_array_equal(table.effort, [[1.0, 2.0]])


@given(st.lists(messages(), min_size=1, max_size=4), st.data())
def test_damaged_messages_are_read_or_told_but_raise_nothing(batch: list[bytes], data: st.DataObject) -> None:
    damaged = []
    for message in batch:
        spoilt = bytearray(message[: data.draw(st.integers(0, len(message)))])
        if spoilt:
            spoilt[data.draw(st.integers(0, len(spoilt) - 1))] ^= data.draw(st.integers(1, 255))
        damaged.append(bytes(spoilt))
    tables, malformed = JointStateDecoder().decode(damaged)
    assert sum(len(table.index) for table in tables) + len(malformed) == len(batch)


@given(messages(), st.binary(max_size=15))
def test_room_that_dds_left_behind_a_message_is_passed_over(message: bytes, room: bytes) -> None:
    """Whatever lay in its memory."""
    (plain,), _ = JointStateDecoder().decode([message])
    (roomy,), malformed = JointStateDecoder().decode([message + room])
    assert not malformed
    np.testing.assert_array_equal(roomy.effort, plain.effort)


def test_anything_longer_behind_a_message_is_no_room() -> None:
    message = encode(1, "", ["a"], [1.0], [2.0], [])
    assert JointStateDecoder().decode([message + bytes(32)])[1]


@given(st.lists(st.text("abcdefgh_/é", max_size=9), max_size=6), st.integers(0, 2**31 * 10**9 - 1), st.data())
def test_a_stream_is_encoded_as_by_the_general_encoder(joints: list[str], stamp: int, data: st.DataObject) -> None:
    filled = {field: data.draw(st.booleans()) for field in ("position", "velocity", "effort")}
    encoder = JointStateEncoder(joints, **filled)
    for _ in range(2):  # a message leaves nothing behind for the next
        fields = [
            data.draw(st.lists(numbers, min_size=len(joints), max_size=len(joints))) if there else []
            for there in filled.values()
        ]
        given = [field for field, there in zip(fields, filled.values(), strict=True) if there and joints]
        assert encoder.encode(stamp, *given) == encode(stamp, "", joints, *fields)


def test_numbers_for_other_joints_are_refused() -> None:
    encoder = JointStateEncoder(["a", "b"], effort=True)
    with pytest.raises(struct.error):
        encoder.encode(0, [1.0])
    with pytest.raises(ValueError, match="zip"):
        encoder.encode(0, [1.0, 2.0], [3.0, 4.0])
