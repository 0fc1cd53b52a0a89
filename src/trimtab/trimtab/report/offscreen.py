"""A MuJoCo drawing surface that needs no window.

MuJoCo decides which OpenGL binding `mujoco.Renderer` takes when `mujoco` is first imported, which is long before anybody
knows whether a picture is wanted. So the binding is chosen here, when the first picture is drawn.
"""

import ctypes
import os
import sys
from types import TracebackType
from typing import Any

import mujoco
import numpy as np

from trimtab.errors import RenderError

HELP = (
    "On Debian or Ubuntu run `apt-get install libegl1 libgl1-mesa-dri` and set MUJOCO_GL=egl, "
    "or `apt-get install libosmesa6` and set MUJOCO_GL=osmesa."
)
MAX_GEOMS = 4000


def choose_backend() -> str:
    """Name of the OpenGL binding to draw with: `egl`, `osmesa`, or `mujoco` for the one that MuJoCo chose by itself.

    MUJOCO_GL, a display, or a system other than Linux leave the choice to MuJoCo. OSMesa is taken where there is no EGL
    library: which of the two it is must be known before either is imported, as PyOpenGL binds to the first for good.
    """
    screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if os.environ.get("MUJOCO_GL") or screen or not sys.platform.startswith("linux"):
        return "mujoco"
    return "osmesa" if not _loads("libEGL.so.1") and _loads("libOSMesa.so.8") else "egl"


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _gl_context(backend: str, width: int, height: int) -> Any:
    """An OpenGL context of the named binding."""
    if backend == "egl":
        from mujoco.egl import GLContext
    elif backend == "osmesa":
        from mujoco.osmesa import GLContext
    else:
        from mujoco.gl_context import GLContext
    return GLContext(width, height)


class OffScreen:
    """Draws a model's scene into an array; a context manager, as OpenGL resources must be freed in their own context."""

    def __init__(self, model: mujoco.MjModel, width: int, height: int) -> None:
        """width, height [pixels]. Raises RenderError where this machine cannot draw."""
        model.vis.global_.offwidth, model.vis.global_.offheight = width, height
        backend = choose_backend()
        self._gl: Any = None
        self._context: Any = None
        try:
            self._gl = _gl_context(backend, width, height)
            self._gl.make_current()
            self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
            mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        except Exception as error:  # PyOpenGL and the drivers raise anything from AttributeError to mujoco.FatalError
            self.close()
            named = os.environ.get("MUJOCO_GL", "of the display") if backend == "mujoco" else backend
            raise RenderError(
                f"cannot draw off screen with the OpenGL binding {named}: {str(error).rstrip('.')}. {HELP}"
            ) from error
        self.scene = mujoco.MjvScene(model, maxgeom=MAX_GEOMS)
        self._rectangle = mujoco.MjrRect(0, 0, width, height)
        self._pixels = np.empty((height, width, 3), dtype=np.uint8)

    def image(self) -> np.ndarray:
        """The scene as it is now: (height, width, 3) of uint8, top row first."""
        self._gl.make_current()
        mujoco.mjr_render(self._rectangle, self.scene, self._context)
        mujoco.mjr_readPixels(self._pixels, None, self._rectangle, self._context)
        return self._pixels[::-1].copy()

    def close(self) -> None:
        """Frees what OpenGL holds."""
        if self._context is not None:
            self._gl.make_current()
            self._context.free()
            self._context = None
        if self._gl is not None:
            self._gl.free()
            self._gl = None

    def __enter__(self) -> "OffScreen":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
