"""What a node tells of itself on /diagnostics."""

import time
from collections.abc import Mapping

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node

from trimtab_ros.topics import DIAGNOSTICS

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
    """Publishes a node's status; a change of level goes out at once, the rest when asked."""

    def __init__(self, node: Node, hardware_id: str) -> None:
        self._node = node
        self._hardware_id = hardware_id
        self._publisher = node.create_publisher(DIAGNOSTICS.type, DIAGNOSTICS.name, DIAGNOSTICS.qos)

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
