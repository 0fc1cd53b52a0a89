"""Runs the nodes of a process: brings them up, serves their callbacks, ends them in order."""

import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.signals import SignalHandlerOptions

from trimtab.errors import TrimtabError
from trimtab.realtime import SHORT_TURNS, collect_garbage
from trimtab_ros.delivery import COLLECT_EVERY
from trimtab_ros.managed import ManagedNode
from trimtab_ros.parameters import AUTOSTART
from trimtab_ros.stopping import STOP

LOOK = 0.05  # s; how soon a signal is seen when nothing else happens
EXIT_FAILED = 1


class Host:
    """Serves the callbacks of a process's nodes; leaving it ends that.

    A node alone is served in the caller's thread, its streams in one of their own. Where nodes share a process, rclpy's
    executor gets a thread and sleeps there until something comes over DDS, and the caller makes the periodic calls. A pass
    of that executor keeps Python's lock for most of a millisecond: with time-outs and timers of rclpy's, that would hit the
    loop dozens of times a second.
    """

    def __init__(self, nodes: Sequence[ManagedNode]) -> None:
        self._nodes = nodes
        self._exchange = nodes[0].exchange
        self._executor = SingleThreadedExecutor()
        for node in nodes:
            self._executor.add_node(node)
        self._over = False
        self._failure: Exception | None = None
        self._thread: threading.Thread | None = None
        self._collected = time.monotonic()

    def __enter__(self) -> "Host":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over = True
        for node in self._nodes:
            node.streams.close()
        if self._thread is not None:
            self._executor.create_task(lambda: None)  # a pass ends only when something was done
            self._thread.join()
        self._executor.shutdown()

    def serve(self, going_on: Callable[[], object]) -> None:
        """Serves until that is not wanted any more; an exception of a callback comes out here."""
        if self._exchange is None:
            self._serve_alone(going_on)
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._listen, name="executor", daemon=True)
            self._thread.start()
        while going_on():
            if self._failure is not None:
                raise self._failure
            time.sleep(self._exchange.ticker.call_due(LOOK))

    def _listen(self) -> None:
        try:
            while not self._over:
                self._executor.spin_once()
        except Exception as error:
            self._failure = error

    def _serve_alone(self, going_on: Callable[[], object]) -> None:
        for node in self._nodes:
            node.streams.start()
        while going_on():
            for node in self._nodes:
                if node.streams.failure is not None:
                    raise node.streams.failure
            self._executor.spin_once(timeout_sec=LOOK)
            if time.monotonic() - self._collected > COLLECT_EVERY:
                collect_garbage()
                self._collected = time.monotonic()


def start(nodes: Sequence[ManagedNode]) -> bool:
    """Configures all, then activates all, in this order; tells whether that worked, or was not wanted any more."""
    success = TransitionCallbackReturn.SUCCESS
    wanted = [node for node in nodes if node.values[AUTOSTART.name]]
    return all(node.trigger_configure() == success for node in wanted) and all(
        bool(STOP) or node.trigger_activate() == success for node in wanted
    )


def run_nodes(make: Callable[[], Sequence[ManagedNode]], args: list[str] | None = None) -> int:
    """Runs the nodes of a process until SIGINT or SIGTERM; gives the process's exit code.

    They are deactivated, the last one first, before the context goes down, so that their last words still reach the graph.
    """
    rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    try:
        try:
            nodes = make()
        except TrimtabError as error:
            print(f"error: {error}", file=sys.stderr)
            return EXIT_FAILED
        except Exception as error:  # rclpy raises a different class for every way a parameter can be wrong
            print(f"error: cannot start: {error}", file=sys.stderr)
            return EXIT_FAILED
        exchange = nodes[0].exchange
        if exchange is not None:
            sys.setswitchinterval(SHORT_TURNS)
        try:
            with Host(nodes) as host:
                if not start(nodes):
                    return EXIT_FAILED
                host.serve(lambda: not STOP and not any(node.failed or node.finished for node in nodes))
            for node in reversed(nodes):
                node.stop()  # what cannot be ended well is a failure too
            return EXIT_FAILED if any(node.failed for node in nodes) else 0
        finally:
            for node in reversed(nodes):
                node.stop()
            if exchange is not None:
                exchange.outbox.close()
            for node in nodes:
                node.destroy_node()
    finally:
        rclpy.try_shutdown()


def run_node(make: Callable[[], ManagedNode]) -> int:
    """Runs one node in a process of its own."""
    return run_nodes(lambda: [make()])
