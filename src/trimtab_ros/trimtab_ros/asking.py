"""Asks the nodes of a running robot for the parameters that they were started with."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import parameter_value_to_python
from rclpy.parameter_client import AsyncParameterClient

POLL = 0.05  # s
GRACE = 4.0  # s


def ask_parameters(
    nodes: Mapping[str, Sequence[str]], namespace: str, patience: float, stop: Callable[[], bool]
) -> dict[str, dict[str, Any]]:
    """Values by node and parameter; a node that does not answer within `patience` [s] is left out, others are not.

    nodes: names of the parameters, by the node's name. Once the first of them has answered the others get no more than
    `GRACE`: not every robot has them all.
    """
    context = Context()
    rclpy.init(context=context, args=["--ros-args", "-r", f"__ns:=/{namespace.strip('/')}"])
    try:
        asker = rclpy.create_node(
            "trimtab_record_asks", context=context, start_parameter_services=False, enable_rosout=False
        )
        executor = SingleThreadedExecutor(context=context)
        executor.add_node(asker)
        try:
            clients = {name: AsyncParameterClient(asker, name) for name in nodes}
            pending: dict[str, Any] = {}
            answers: dict[str, dict[str, Any]] = {}
            deadline = time.monotonic() + patience
            while time.monotonic() < deadline and len(answers) < len(nodes) and not stop():
                executor.spin_once(timeout_sec=POLL)
                for name, client in clients.items():
                    if name not in pending and client.services_are_ready():
                        pending[name] = client.get_parameters(list(nodes[name]))
                    elif name in pending and name not in answers and pending[name].done():
                        values = pending[name].result().values
                        found = zip(nodes[name], map(parameter_value_to_python, values), strict=True)
                        answers[name] = {key: value for key, value in found if value is not None}
                        if name == next(iter(nodes)):
                            deadline = time.monotonic() + GRACE
            return answers
        finally:
            executor.shutdown()
            asker.destroy_node()
    finally:
        rclpy.try_shutdown(context=context)
