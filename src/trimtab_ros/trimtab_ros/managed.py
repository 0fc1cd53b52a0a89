"""What the nodes share: lifecycle with readable errors, parameters, diagnostics, reset."""

import functools
import traceback
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from std_srvs.srv import Trigger

from trimtab.bags.cdr import JointStateParser, MalformedMessage, ParsedJointState
from trimtab.errors import TrimtabError
from trimtab.realtime import keep_garbage_out
from trimtab.timing import CycleTimes
from trimtab_ros.delivery import ComposedOutlet, DirectOutlet, Exchange, Outlet, Turn
from trimtab_ros.diagnostics import WARN, Status, Voice
from trimtab_ros.parameters import AUTOSTART, Parameter, declare
from trimtab_ros.stream_reader import NotForExecutors, StreamReader
from trimtab_ros.topics import DIAGNOSTICS, RESET_SERVICE, Topic

DIAGNOSTICS_PERIOD = 1.0  # s


def _as_it_is(message: Any) -> Any:
    return message


# One line each: rclpy remembers the severity of a line and refuses another.
_LOG: dict[str, Callable[[Any, str], object]] = {
    "info": lambda logger, text: logger.info(text),
    "warning": lambda logger, text: logger.warning(text),
    "error": lambda logger, text: logger.error(text),
    "fatal": lambda logger, text: logger.fatal(text),
}


class ManagedNode(LifecycleNode):
    """A lifecycle node: `configure` loads and checks everything, `activate` lets data flow."""

    parameters: ClassVar[Sequence[Parameter]] = ()
    essential: ClassVar[bool] = True
    """Whether a composed process ends when this node fails; an arm tracks on without its residual."""

    def __init__(self, name: str, exchange: Exchange | None = None) -> None:
        """exchange: of the process, where this node shares it with others."""
        super().__init__(name)
        self.exchange = exchange
        self.turn = Turn() if exchange is None else exchange.turn
        """Held while anything touches what the node's callbacks share; nodes of one process have one."""
        self.times = CycleTimes() if exchange is None else exchange.times
        """Where the time of a cycle goes; nodes of one process have one."""
        self.values: dict[str, Any] = declare(self, [AUTOSTART, *self.parameters])
        self.streams = StreamReader(self.context)
        """Takes what runs at control rate, where it comes over DDS."""
        self.active = False
        self.failed = False
        """Set by a node that cannot go on; its process then ends with an exit code."""
        self.finished = False
        """Set by a node that has done its work; its process then ends well."""
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
    def status(self) -> Status:
        """What the diagnostics say; forgets what is counted per report."""

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
        self.serve(RESET_SERVICE, self._on_reset)
        self.every(DIAGNOSTICS_PERIOD, self.report, takes_turn=False)
        keep_garbage_out()  # now, before anything is due: the first time it takes many periods of a loop

    def _activate(self) -> None:
        self.activate()
        self.active = True

    def _deactivate(self) -> None:
        self.active = False
        self.deactivate()

    def _cleanup(self) -> None:
        with self.turn:
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

    def subscribe(
        self,
        topic: Topic,
        callback: Callable[[Any], None],
        direct: Callable[[Any], None] | None = None,
        takes_turn: bool = True,
    ) -> None:
        """A subscription that lives until clean-up.

        direct: takes the payload of a stream from a node of the same process. In a composed process it is the only way
        in: what others publish on that topic is not heard. takes_turn: False for a callback that takes it by itself,
        after work that would hold the loop up.
        """
        if self.exchange is not None and direct is not None:
            name = self.resolve_topic_name(topic.name)
            end = self.exchange.listen(name, self.get_name(), direct, self.callback_failed)
            self.keep(lambda _: end(), None)
            return
        call = self._in_turn(callback) if takes_turn else callback
        if topic.streams:
            group = NotForExecutors()
            subscription = self.create_subscription(topic.type, topic.name, call, topic.qos, callback_group=group)
            self.streams.add(subscription, self._parsed(topic.name, call))
            self.keep(self.destroy_subscription, subscription)
            self.keep(self.streams.remove, subscription)  # before that
        else:
            self.keep(self.destroy_subscription, self.create_subscription(topic.type, topic.name, call, topic.qos))

    def _parsed(self, topic: str, callback: Callable[[ParsedJointState], None]) -> Callable[[bytes], None]:
        """The callback, for bytes. What is no message reaches nobody: as far as the arm goes, it did not come."""
        parser = JointStateParser()

        def call(data: bytes) -> None:
            try:
                message = parser.parse(data)
            except MalformedMessage as error:
                self.say("error", f"{topic}: what came is no JointState and was dropped: {error}")
                return
            callback(message)

        return call

    def publisher(self, topic: Topic, encode: Callable[[Any], Any] = _as_it_is) -> Outlet:
        """What to publish through, until clean-up; encode: from what is published to the message."""
        publisher = self.create_publisher(topic.type, topic.name, topic.qos)
        self.keep(self.destroy_publisher, publisher)
        if self.exchange is None:
            return DirectOutlet(publisher, encode)
        return ComposedOutlet(self.exchange, self.resolve_topic_name(topic.name), publisher, encode, topic.streams)

    def every(self, period: float, callback: Callable[[], None], takes_turn: bool = True) -> None:
        """A call that repeats on the steady clock [s], until clean-up."""
        call = self._in_turn(callback) if takes_turn else callback
        if self.exchange is not None:
            end = self.exchange.ticker.every(period, call)
            self.keep(lambda _: end(), None)
        else:
            self.keep(self.destroy_timer, self.create_timer(period, call, clock=self.steady))

    def serve(self, service: str, callback: Callable[[Any, Any], Any]) -> None:
        """A service of the type std_srvs/Trigger that lives until clean-up."""
        self.keep(self.destroy_service, self.create_service(Trigger, service, callback))

    def callback_failed(self, trace: str) -> None:
        """A direct call to this node raised: as over DDS, the node is done for; the arm's driver sees its silence."""
        self.active = False
        self.failed = self.failed or self.essential
        self.say("fatal", f"failed, and does nothing more:\n{trace}")

    def say(self, severity: str, text: str) -> None:
        """Logs, from the loop's thread too: a terminal or DDS that does not take a line must not hold it up."""
        if self.exchange is None:
            _LOG[severity](self.get_logger(), text)
        else:
            self.exchange.post(functools.partial(_LOG[severity], self.get_logger()), _as_it_is, text)

    def _in_turn(self, callback: Callable[..., None]) -> Callable[..., None]:
        """The callback, with the turn held. Its signature stays: rclpy looks at it."""

        @functools.wraps(callback)
        def call(*args: Any) -> None:
            with self.turn:
                callback(*args)

        return call

    def own_cycles(self) -> np.ndarray | None:
        """Stage times since the last report; None where the loop's node tells them for the whole process."""
        return self.times.take() if self.exchange is None else None

    def keep(self, destroy: Callable[[Any], object], entity: Any) -> None:
        """Has something destroyed at clean-up."""
        self._made.append((destroy, entity))

    def speak(self, hardware_id: str) -> None:
        """Gives the node a voice on /diagnostics, until clean-up."""
        voice = Voice(self, hardware_id)
        self._diagnostics = self.publisher(DIAGNOSTICS, voice.message)

    def report(self) -> None:
        """Publishes diagnostics. The turn is held only while they are gathered: making the message takes longer."""
        with self.turn:
            told = self.status() if self.active else Status(WARN, "inactive")
        self._diagnostics.publish(told)

    def _on_reset(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        with self.turn:
            response.success = self.active
            response.message = self.reset() if self.active else "the node is inactive; activate it instead"
        self.get_logger().info(f"reset: {response.message}")
        self.report()
        return response
