"""What a node tells of itself on /diagnostics."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node

from trimtab.timing import NAMES, spreads_of

TIMING_PREFIX = "timing_"
OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR


class LoopMeter:
    """Counts cycles and misses between two reports."""

    def __init__(self) -> None:
        self.misses = 0
        self.stamped_rate = 0.0
        """The same per second of the states' stamps, as of the last `rate` [Hz]; 0 where unknown. Simulated time has its
        own pace."""
        self._cycles = 0
        self._since = time.monotonic()
        self._stamp = 0.0

    def tick(self) -> None:
        """One cycle done."""
        self._cycles += 1

    def miss(self, count: int = 1) -> None:
        """A deadline passed."""
        self.misses += count

    def rate(self, stamp: float = 0.0) -> float:
        """Cycles per second of real time since the last call [Hz]; stamp: of the newest state [s]."""
        now = time.monotonic()
        rate = self._cycles / max(now - self._since, 1e-9)
        self.stamped_rate = self._cycles / (stamp - self._stamp) if 0.0 < self._stamp < stamp else 0.0
        self._cycles, self._since, self._stamp = 0, now, stamp
        return rate


@dataclass(frozen=True)
class Status:
    """What a node says of itself on /diagnostics."""

    level: bytes
    message: str
    values: Mapping[str, object] = field(default_factory=dict)
    cycles: np.ndarray | None = None
    """Stage times since the last report, as `CycleTimes.take` gives them; their percentiles are told."""


class Voice:
    """Makes messages of a node's status: names, stamp, percentiles. In a composed process that is the outbox's work."""

    def __init__(self, node: Node, hardware_id: str) -> None:
        self._node = node
        self._hardware_id = hardware_id

    def message(self, told: Status) -> DiagnosticArray:
        """One status with key/value pairs."""
        values = dict(told.values)
        if told.cycles is not None:
            spreads = spreads_of(told.cycles)
            values |= {f"{TIMING_PREFIX}{name}_us": spreads.get(name, "") for name in NAMES}
        status = DiagnosticStatus(
            level=told.level,
            name=f"{self._node.get_fully_qualified_name().lstrip('/')}: loop",
            message=told.message,
            hardware_id=self._hardware_id,
            values=[KeyValue(key=key, value=_text(value)) for key, value in values.items()],
        )
        array = DiagnosticArray(status=[status])
        array.header.stamp = self._node.get_clock().now().to_msg()
        return array


def _text(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
