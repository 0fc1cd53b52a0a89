"""Checks of the Python side: its version and the packages that simulation needs."""

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from trimtab.cli.check import Check, State

OLDEST_PYTHON = (3, 11)
PACKAGES = {
    "numpy": "numpy",
    "scipy": "scipy",
    "yaml": "PyYAML",
    "pinocchio": "pin",
    "mujoco": "mujoco",
    "urdf_parser_py": "urdf-parser-py",
    "rosbags": "rosbags",
    "mcap": "mcap",
    "lz4": "lz4",
    "zstandard": "zstandard",
    "matplotlib": "matplotlib",
    "PIL": "pillow",
    "tqdm": "tqdm",
    "onnx": "onnx",
    "onnxruntime": "onnxruntime",
    "numba": "numba",
    "cryptography": "cryptography",
    "fsspec": "fsspec",
}
"""What the library calls them, and what they are installed as."""


def check_python() -> Check:
    """The interpreter's version."""
    found = f"{platform.python_version()} ({sys.executable})"
    if sys.version_info[:2] >= OLDEST_PYTHON:
        return Check("python", State.OK, found, needed=True)
    oldest = ".".join(map(str, OLDEST_PYTHON))
    return Check("python", State.MISSING, found, f"install Python {oldest} or newer", needed=True)


def check_package(name: str) -> Check:
    """Whether a package is installed, and its version; it is not imported."""
    installed_as = PACKAGES[name]
    try:
        return Check(name, State.OK, version(installed_as), needed=True)
    except PackageNotFoundError:
        pass
    if find_spec(name) is not None:
        # A ROS or conda installation may bring a module without Python's package data.
        return Check(name, State.OK, "installed, version unknown", needed=True)
    return Check(name, State.MISSING, "not installed", f"pip install {installed_as}", needed=True)
