"""What a node tells of itself on /diagnostics."""

import time
from collections.abc import Mapping
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR


class LoopMeter:
    """Counts cycles and misses between two reports."""

    def __init__(self) -> None:
        self.misses = 0
        self._cycles = 0
        self._since = time.monotonic()

    def tick(self) -> None:
        """One cycle done."""
        self._cycles += 1

    def miss(self, count: int = 1) -> None:
        """A deadline passed."""
        self.misses += count

    def rate(self) -> float:
        """Cycles per second since the last call [Hz]."""
        now = time.monotonic()
        rate = self._cycles / max(now - self._since, 1e-9)
        self._cycles, self._since = 0, now
        return rate


class DiagnosticsPublisher:
    """Publishes a node's status."""

    def __init__(self, node: Node, publisher: Any, hardware_id: str) -> None:
        self._node = node
        self._publisher = publisher
        self._hardware_id = hardware_id

    def publish(self, level: bytes, message: str, values: Mapping[str, object]) -> None:
        """One status with key/value pairs."""
        status = DiagnosticStatus(
            level=level,
            name=f"{self._node.get_fully_qualified_name().lstrip('/')}: loop",
            message=message,
            hardware_id=self._hardware_id,
            values=[KeyValue(key=key, value=_text(value)) for key, value in values.items()],
        )
        array = DiagnosticArray(status=[status])
        array.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(array)


def _text(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
