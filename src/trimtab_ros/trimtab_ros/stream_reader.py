"""Takes the messages of streams from DDS, as bytes, in a thread that waits for nothing else.

A pass of rclpy's executor looks at every timer, service and event of a node, which takes longer than a control step. Here a
pass looks at the few subscriptions that run at control rate. Making a message of the bytes would take rclpy longer than all
of the rest; whoever is called back reads what he needs (`trimtab.bags.cdr.JointStateParser`).
"""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.exceptions import InvalidHandle
from rclpy.guard_condition import GuardCondition
from rclpy.impl.implementation_singleton import rclpy_implementation

FOR_EVER = -1  # ns


class NotForExecutors(CallbackGroup):
    """Keeps a subscription out of every executor: somebody else takes its messages."""

    def can_execute(self, entity: Any) -> bool:  # noqa: ARG002
        """Never."""
        return False

    def beginning_execution(self, entity: Any) -> bool:  # noqa: ARG002
        """Never."""
        return False

    def ending_execution(self, entity: Any) -> None:
        """Nothing was begun."""


@dataclass(frozen=True, slots=True)
class _Reader:
    subscription: Any
    callback: Callable[[bytes], None]


class StreamReader:
    """Calls back with the bytes of each message of the subscriptions that it was given, in a thread of its own."""

    def __init__(self, context: Any) -> None:
        """context: rclpy's, of the subscriptions' node."""
        self.failure: Exception | None = None
        """What a callback raised; the thread has ended then."""
        self._context = context
        self._changed = GuardCondition(callback=None, callback_group=None, context=context)
        self._readers: tuple[_Reader, ...] = ()
        self._over = False
        self._thread: threading.Thread | None = None

    def add(self, subscription: Any, callback: Callable[[bytes], None]) -> None:
        """Takes this subscription's messages from now on."""
        self._readers = (*self._readers, _Reader(subscription, callback))
        self._changed.trigger()

    def remove(self, subscription: Any) -> None:
        """Takes them no more."""
        self._readers = tuple(one for one in self._readers if one.subscription is not subscription)
        self._changed.trigger()

    def start(self) -> None:
        """Begins; a second call does nothing."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="streams", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Ends, after the callback that is under way."""
        self._over = True
        self._changed.trigger()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._over:
                self._pass(self._readers)
        except Exception as error:
            self.failure = error

    def _pass(self, readers: tuple[_Reader, ...]) -> None:
        """Waits for messages and takes one of each subscription that has some."""
        with ExitStack() as held, self._context.handle, self._changed.handle:
            live = [one for one in readers if _holds(held, one.subscription)]
            waits = rclpy_implementation.WaitSet(len(live), 1, 0, 0, 0, 0, self._context.handle)
            waits.clear_entities()
            waits.add_guard_condition(self._changed.handle)
            for one in live:
                waits.add_subscription(one.subscription.handle)
            waits.wait(FOR_EVER)
            ready = waits.get_ready_entities("subscription")
            for one in live:
                if one.subscription.handle.pointer in ready:
                    taken = one.subscription.handle.take_message(one.subscription.msg_type, True)
                    if taken is not None:
                        one.callback(taken[0])


def _holds(held: ExitStack, subscription: Any) -> bool:
    """Keeps a subscription from being destroyed meanwhile; False where it is already."""
    try:
        held.enter_context(subscription.handle)
    except InvalidHandle:
        return False
    return True
