"""MuJoCo's window beside a running plant."""

import os
import sys
import threading
from typing import Any

from trimtab.errors import ConfigError

FRAME_RATE = 30.0  # Hz
CLOSING_TIME = 5.0  # s


class Viewer:
    """Shows the plant at a modest rate, so that drawing does not hold the loop up."""

    def __init__(self, handle: Any, threads: list[threading.Thread]) -> None:
        self._handle = handle
        self._threads = threads
        self._next = 0.0

    def show(self, time: float) -> None:
        """Draws if a frame is due at this time of the plant [s]."""
        if time >= self._next and self._handle.is_running():
            self._handle.sync()
            self._next = time + 1.0 / FRAME_RATE

    def close(self) -> None:
        """Closes the window and waits for its threads: they draw from the plant's memory."""
        self._handle.close()
        for thread in self._threads:
            thread.join(CLOSING_TIME)


def open_viewer(model: Any, data: Any) -> Viewer:
    """Opens the window; without a display that is an error that says so."""
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise ConfigError("viewer:=true needs a display, and neither DISPLAY nor WAYLAND_DISPLAY is set; use viewer:=false")
    from mujoco import viewer  # opens GLFW on import

    before = set(threading.enumerate())
    handle = viewer.launch_passive(model, data, show_left_ui=False, show_right_ui=False)
    return Viewer(handle, [thread for thread in threading.enumerate() if thread not in before])
