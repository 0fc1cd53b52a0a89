"""The wish to stop, heard from the very start: nothing slow is imported here."""

import os
import signal
from types import FrameType

PARENT = "TRIMTAB_PARENT"
"""Environment variable with the launcher's process id; a node does not outlive the launcher that set it."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class StopWish:
    """Whether somebody wants this process to end: by a signal, or because its launcher is gone."""

    def __init__(self) -> None:
        self._asked = False
        self._parent = int(os.environ.get(PARENT, "0"))

    def listen(self) -> dict[int, object]:
        """Takes the signals over; gives the handlers that were there."""
        return {number: signal.signal(number, self._ask) for number in SIGNALS}

    def wish(self) -> None:
        """The process itself wants to end."""
        self._asked = True

    def __bool__(self) -> bool:
        return self._asked or (self._parent > 0 and os.getppid() != self._parent)

    def _ask(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self._asked = True


STOP = StopWish()
"""This process's own; a node's entry point makes it listen before it imports anything else."""
