"""Parameters of a node, each declared once with type, range and description."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.node import Node

from trimtab.errors import ConfigError


@dataclass(frozen=True)
class Parameter:
    """One parameter, read-only unless it says otherwise: set it at start-up."""

    name: str
    default: bool | int | float | str
    description: str
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    read_only: bool = True

    def descriptor(self) -> ParameterDescriptor:
        """What `ros2 param describe` shows."""
        descriptor = ParameterDescriptor(description=self.description, read_only=self.read_only)
        if self.choices:
            descriptor.additional_constraints = f"one of: {', '.join(self.choices)}"
        if self.low is not None and self.high is not None:
            if isinstance(self.default, int):
                descriptor.integer_range = [IntegerRange(from_value=int(self.low), to_value=int(self.high), step=0)]
            else:
                descriptor.floating_point_range = [FloatingPointRange(from_value=self.low, to_value=self.high, step=0.0)]
        return descriptor


AUTOSTART = Parameter("autostart", True, "configure and activate at start-up, without waiting for a lifecycle manager")
TRUSTED_KEYS = Parameter("trusted_keys", "", "file of public keys: bundles must be signed with one of them")
ARM = Parameter("arm", "ur5e", "name of an arm in config/arms, or the path of a contract file")

LOOP = (
    Parameter("publish_every", 1, "in a composed process: cycles per message of each stream on DDS", low=1, high=1000),
    Parameter("priority", 0, "SCHED_FIFO priority of the loop's thread; 0: the usual scheduling", low=0, high=99),
    Parameter("cpu", -1, "core of the loop's thread; -1: any", low=-1, high=1023),
    Parameter("lock_memory", False, "keep the process in memory (mlockall)"),
)
"""Of every node with a loop of its own: the drivers."""


def declare(node: Node, table: Sequence[Parameter]) -> dict[str, Any]:
    """Declares a table on a node and gives the values; a choice that is none of the known ones is an error."""
    values: dict[str, Any] = {}
    for parameter in table:
        value = node.declare_parameter(parameter.name, parameter.default, parameter.descriptor()).value
        if parameter.choices and value not in parameter.choices:
            raise ConfigError(f"parameter {parameter.name} is '{value}'; known: {', '.join(parameter.choices)}")
        values[parameter.name] = value
    return values
