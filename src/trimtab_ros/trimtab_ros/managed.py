"""What the nodes share: lifecycle with readable errors, parameters, diagnostics, reset, and a clean end."""

import sys
import traceback
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import rclpy
from rclpy.clock import Clock, ClockType
from rclpy.executors import SingleThreadedExecutor
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.signals import SignalHandlerOptions
from std_srvs.srv import Trigger

from trimtab.errors import TrimtabError
from trimtab_ros.diagnostics import WARN, DiagnosticsPublisher
from trimtab_ros.parameters import AUTOSTART, Parameter, declare
from trimtab_ros.stopping import STOP
from trimtab_ros.topics import DIAGNOSTICS, RESET_SERVICE

DIAGNOSTICS_PERIOD = 1.0  # s
SPIN_TIMEOUT = 0.05  # s; how soon a signal is seen when nothing else happens
EXIT_FAILED = 1


class ManagedNode(LifecycleNode):
    """A lifecycle node: `configure` loads and checks everything, `activate` lets data flow."""

    parameters: ClassVar[Sequence[Parameter]] = ()

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.values: dict[str, Any] = declare(self, [AUTOSTART, *self.parameters])
        self.active = False
        self.failed = False
        """Set by a node that cannot go on; its process then ends with an exit code."""
        self._made: list[tuple[Callable[[Any], object], Any]] = []
        # Diagnostics and watchdogs must run also when simulated time stands still.
        self.steady = Clock(clock_type=ClockType.STEADY_TIME)

    # What a node fills in --------------------------------------------------------------------------------------------

    @abstractmethod
    def configure(self) -> None:
        """Loads and checks everything; raises `TrimtabError` when something does not fit."""

    @abstractmethod
    def activate(self) -> None:
        """Lets data flow."""

    @abstractmethod
    def deactivate(self) -> None:
        """Stops the flow, safely."""

    @abstractmethod
    def report(self) -> None:
        """Publishes diagnostics."""

    @abstractmethod
    def reset(self) -> str:
        """Forgets latched faults; gives a text for the one who asked."""

    # Lifecycle -------------------------------------------------------------------------------------------------------

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:  # noqa: ARG002
        """Runs `configure`; an error is logged and leaves the node unconfigured."""
        return self._guarded(self._configure, "configure")

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:  # noqa: ARG002
        """Runs `activate`."""
        return self._guarded(self._activate, "activate")

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:  # noqa: ARG002
        """Runs `deactivate`."""
        return self._guarded(self._deactivate, "deactivate")

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:  # noqa: ARG002
        """Forgets what configure made."""
        return self._guarded(self._cleanup, "clean up")

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:  # noqa: ARG002
        """Stops safely whatever is running."""
        return self._guarded(self.stop, "shut down")

    def start(self) -> bool:
        """Configures and activates; tells whether that worked, or was not wanted any more."""
        success = TransitionCallbackReturn.SUCCESS
        return self.trigger_configure() == success and (bool(STOP) or self.trigger_activate() == success)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:  # noqa: ARG002
        """After an unexpected error: everything is taken down, so that configuring again starts clean."""
        self.stop()
        self._cleanup()
        return TransitionCallbackReturn.SUCCESS

    def stop(self) -> None:
        """Ends the flow if it is running."""
        if self.active:
            self._deactivate()

    def _configure(self) -> None:
        self._cleanup()
        try:
            self.configure()
        except TrimtabError:
            self._cleanup()
            raise
        service = self.create_service(Trigger, RESET_SERVICE, self._on_reset)
        self.keep(self.destroy_service, service)
        self.every(DIAGNOSTICS_PERIOD, self._report)

    def _activate(self) -> None:
        self.activate()
        self.active = True

    def _deactivate(self) -> None:
        self.active = False
        self.deactivate()

    def _cleanup(self) -> None:
        while self._made:
            destroy, entity = self._made.pop()
            destroy(entity)

    def _guarded(self, action: Callable[[], None], what: str) -> TransitionCallbackReturn:
        try:
            action()
        except TrimtabError as error:
            self.get_logger().error(f"cannot {what}: {error}")
            return TransitionCallbackReturn.FAILURE
        except Exception:  # rclpy would swallow it without a word
            self.get_logger().error(f"cannot {what}:\n{traceback.format_exc()}")
            return TransitionCallbackReturn.ERROR
        return TransitionCallbackReturn.SUCCESS

    # For the nodes ---------------------------------------------------------------------------------------------------

    def subscribe(self, topic: Any, callback: Callable[[Any], None]) -> None:
        """A subscription that lives until clean-up."""
        subscription = self.create_subscription(topic.type, topic.name, callback, topic.qos)
        self.keep(self.destroy_subscription, subscription)

    def publisher(self, topic: Any) -> Any:
        """A publisher that lives until clean-up."""
        publisher = self.create_publisher(topic.type, topic.name, topic.qos)
        self.keep(self.destroy_publisher, publisher)
        return publisher

    def every(self, period: float, callback: Callable[[], None]) -> None:
        """A timer on the steady clock [s] that lives until clean-up."""
        self.keep(self.destroy_timer, self.create_timer(period, callback, clock=self.steady))

    def keep(self, destroy: Callable[[Any], object], entity: Any) -> None:
        """Has something destroyed at clean-up."""
        self._made.append((destroy, entity))

    def speak(self, hardware_id: str) -> DiagnosticsPublisher:
        """The node's voice on /diagnostics, until clean-up."""
        self._voice = DiagnosticsPublisher(self, self.publisher(DIAGNOSTICS), hardware_id)
        return self._voice

    def _report(self) -> None:
        if self.active:
            self.report()
        else:
            self._voice.publish(WARN, "inactive", {})

    def _on_reset(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.success = self.active
        response.message = self.reset() if self.active else "the node is inactive; activate it instead"
        self.get_logger().info(f"reset: {response.message}")
        self._report()
        return response


def run_node(make: Callable[[], ManagedNode], args: list[str] | None = None) -> int:
    """Runs one node until SIGINT or SIGTERM; gives the process's exit code.

    The node is deactivated before the context goes down, so that its last words still reach the graph.
    """
    rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    try:
        try:
            node = make()
        except TrimtabError as error:
            print(f"error: {error}", file=sys.stderr)
            return EXIT_FAILED
        except Exception as error:  # rclpy raises a different class for every way a parameter can be wrong
            print(f"error: cannot start: {error}", file=sys.stderr)
            return EXIT_FAILED
        executor = SingleThreadedExecutor()
        executor.add_node(node)
        try:
            if node.values[AUTOSTART.name] and not node.start():
                return EXIT_FAILED
            while not STOP and not node.failed:
                executor.spin_once(timeout_sec=SPIN_TIMEOUT)
            return EXIT_FAILED if node.failed else 0
        finally:
            node.stop()
            executor.shutdown()
            node.destroy_node()
    finally:
        rclpy.try_shutdown()
