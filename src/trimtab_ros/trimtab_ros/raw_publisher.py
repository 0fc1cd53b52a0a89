"""Publishing without holding Python up: rclpy keeps the interpreter's lock while DDS works, a foreign call does not.

A thread that publishes with rclpy stops all other threads for as long as DDS takes: a socket's buffer that is full, a
lock that a killed peer has left behind. Here a message that is not in bytes yet is serialised with rclpy, which is plain
computing, and handed to rcl by ctypes, which lets the interpreter go meanwhile. (rclpy may leave some bytes of whatever was
in memory behind a message with empty lists of numbers.)
"""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

from rclpy.exceptions import InvalidHandle
from rclpy.serialization import serialize_message

RCL_RET_OK = 0


class _Allocator(ctypes.Structure):
    """rcutils_allocator_t; unused here, for what we hand over is ours."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("allocate", "deallocate", "reallocate", "zero_allocate", "state")]


class _SerializedMessage(ctypes.Structure):
    """rcl_serialized_message_t."""

    _fields_ = [
        ("buffer", ctypes.c_char_p),
        ("buffer_length", ctypes.c_size_t),
        ("buffer_capacity", ctypes.c_size_t),
        ("allocator", _Allocator),
    ]


@cache
def _calls() -> tuple[Any, Any] | None:
    """Rcl's publishing and the reset of its error text, from the libraries that rclpy has loaded; None without them."""
    try:
        publish = ctypes.CDLL("librcl.so").rcl_publish_serialized_message
        forget_error = ctypes.CDLL("librcutils.so").rcutils_reset_error
    except (OSError, AttributeError):
        return None
    publish.argtypes = [ctypes.c_void_p, ctypes.POINTER(_SerializedMessage), ctypes.c_void_p]
    publish.restype = ctypes.c_int
    forget_error.argtypes, forget_error.restype = [], None
    return publish, forget_error


def sender(publisher: Any) -> Callable[[Any], None]:
    """What publishes a message or its bytes; rclpy's own way where rcl cannot be called directly."""
    calls = _calls()
    if calls is None:
        plain: Callable[[Any], None] = publisher.publish
        return plain
    publish, forget_error = calls

    def send(message: Any) -> None:
        data = message if isinstance(message, bytes) else serialize_message(message)
        raw = _SerializedMessage(data, len(data), len(data))
        try:
            with publisher.handle:  # keeps the publisher from being destroyed meanwhile
                code = publish(publisher.handle.pointer, ctypes.byref(raw), None)
        except InvalidHandle as error:
            raise RuntimeError("the publisher was destroyed") from error
        if code != RCL_RET_OK:
            forget_error()
            raise RuntimeError(f"rcl refuses {publisher.topic_name}: code {code}")

    return send
