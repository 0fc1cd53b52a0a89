"""MuJoCo's window beside a running plant."""

import os
import sys
from typing import Any

from trimtab.errors import ConfigError

FRAME_RATE = 30.0  # Hz


class Viewer:
    """Shows the plant at a modest rate, so that drawing does not hold the loop up."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._next = 0.0

    def show(self, time: float) -> None:
        """Draws if a frame is due at this time of the plant [s]."""
        if time >= self._next and self._handle.is_running():
            self._handle.sync()
            self._next = time + 1.0 / FRAME_RATE

    def close(self) -> None:
        """Closes the window."""
        self._handle.close()


def open_viewer(model: Any, data: Any) -> Viewer:
    """Opens the window; without a display that is an error that says so."""
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise ConfigError("viewer:=true needs a display, and neither DISPLAY nor WAYLAND_DISPLAY is set; use viewer:=false")
    from mujoco import viewer  # opens GLFW on import

    return Viewer(viewer.launch_passive(model, data, show_left_ui=False, show_right_ui=False))
