"""Real nodes in real processes over real DDS, each test in a domain of its own."""

import fcntl
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from std_srvs.srv import Trigger

from trimtab.names import PROCESSES
from trimtab_ros.plan import Process, environment, plan
from trimtab_ros.topics import DIAGNOSTICS, REFERENCE, Topic
from trimtab_ros.up import command_line, end

os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
DOMAIN_COUNT = 100
DOMAINS = itertools.cycle(range(1, DOMAIN_COUNT + 1))  # a new one each time: killed nodes linger in the last
PATIENCE = 60.0  # s; how long a busy machine may take for what takes a second


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What starts processes needs the machine for itself, unless it says that it can wait."""
    for item in items:
        if "graph" in getattr(item, "fixturenames", ()) and item.get_closest_marker("unhurried") is None:
            item.add_marker("real_time")


class Graph:
    """The test's own node, and the processes that it talks to."""

    def __init__(self, folder: Path, domain: int) -> None:
        self.folder = folder
        self.environment = {**os.environ, **environment(), "ROS_DOMAIN_ID": str(domain), "ROS_LOG_DIR": str(folder / "log")}
        self.context = Context()
        rclpy.init(context=self.context, domain_id=domain)
        self.node = Node("probe", context=self.context)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        self.heard: list[Topic] = []
        self.statuses: dict[str, list[Any]] = {}
        self.listen(DIAGNOSTICS, self._on_diagnostics, depth=100)

    # Processes

    def start(self, process: Process) -> "subprocess.Popen[bytes]":
        """Starts one process of a plan; its output goes to a file."""
        name = f"{process.namespace}/{process.name}".strip("/")
        parameters = process.write_parameters(self.folder)
        with self.output_file(name).open("ab") as output:
            child = subprocess.Popen(
                command_line(process, parameters),
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**self.environment, "PYTHONUNBUFFERED": "1", "RCUTILS_LOGGING_BUFFERED_STREAM": "0"},
                start_new_session=True,
            )
        self.children[name] = child
        return child

    def start_plan(self, only: tuple[str, ...] = (), **arguments: str) -> None:
        """Starts the plan's processes, or some of them by name; a process per node unless the test says otherwise."""
        for process in plan({"delivery": PROCESSES, **arguments}):
            if process.name == "reference" and REFERENCE in self.heard:
                process.parameters["listeners"] += 1  # the test listens too, and must not miss it
            if not only or process.name in only:
                self.start(process)

    def output_file(self, name: str) -> Path:
        return self.folder / f"{name.replace('/', '-')}.out"

    def output(self, name: str) -> str:
        return self.output_file(name).read_text()

    def said(self) -> str:
        """What all processes have printed."""
        return "\n".join(self.output(name) for name in self.children)

    def kill(self, name: str) -> None:
        self.children[name].send_signal(signal.SIGKILL)
        self.children.pop(name).wait()

    # Messages

    def listen(self, topic: Topic, callback: Callable[[Any], None], depth: int = 0) -> None:
        self.heard.append(topic)
        self.node.create_subscription(topic.type, topic.name, callback, depth or topic.qos)

    def collect(self, topic: Topic) -> list[Any]:
        messages: list[Any] = []
        self.listen(topic, messages.append)
        return messages

    def publisher(self, topic: Topic) -> Any:
        return self.node.create_publisher(topic.type, topic.name, topic.qos)

    def until(self, happened: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
        """Spins until something has happened; the error tells what was waited for and what the processes said."""
        deadline = time.monotonic() + patience
        while not (result := happened()):
            ended = [name for name, child in self.children.items() if child.poll() is not None]
            if ended or time.monotonic() > deadline:
                said = "\n".join(f"--- {name}\n{self.output(name)}" for name in self.children)
                pytest.fail(f"waited up to {patience:g} s for {what}; ended meanwhile: {ended}\n{said}")
            self.executor.spin_once(timeout_sec=0.02)
        return result

    def spin(self, seconds: float) -> None:
        """Lets the graph run for a stretch of real time (for tests about real time)."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.executor.spin_once(timeout_sec=min(left, 0.02))

    def status(self, node: str) -> Any:
        """The newest diagnostic status of a node, None before the first."""
        statuses = self.statuses.get(node)
        return statuses[-1] if statuses else None

    def until_status(self, node: str, text: str) -> Any:
        """Waits until a node's diagnostics say something."""
        return self.until(
            lambda: (status := self.status(node)) is not None and text in status.message and status,
            f"diagnostics of {node} with '{text}' (last: {getattr(self.status(node), 'message', None)})",
        )

    def reset(self, node: str) -> str:
        """Calls a node's reset service."""
        client = self.node.create_client(Trigger, f"/{node}/reset")
        self.until(client.service_is_ready, f"the reset service of {node}")
        future = client.call_async(Trigger.Request())
        self.until(future.done, f"an answer of {node}'s reset service")
        assert future.result().success
        self.statuses[node] = []
        return str(future.result().message)

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            self.statuses.setdefault(status.name.removesuffix(": loop"), []).append(status)

    def close(self) -> None:
        with ExitStack() as stack:
            stack.callback(rclpy.shutdown, context=self.context)
            stack.callback(self.node.destroy_node)
            stack.callback(self.executor.shutdown)
            stack.callback(end, list(self.children.values()))


@contextmanager
def own_domain() -> Iterator[int]:
    """A DDS domain that no other test on this machine uses meanwhile; the lock goes with the process, however it ends."""
    for domain in itertools.islice(DOMAINS, DOMAIN_COUNT):
        with (Path(tempfile.gettempdir()) / f"trimtab-test-domain-{domain}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield domain
            return
    pytest.fail("all DDS domains are taken by other tests")


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    """A fresh graph; every process that a test starts is ended, also when it fails."""
    with own_domain() as domain:
        fresh = Graph(tmp_path, domain)
        try:
            yield fresh
        finally:
            fresh.close()


@pytest.fixture
def python() -> str:
    return sys.executable
