"""What the benchmarks share: one core, the machine's description in the result, and errors as one line."""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from trimtab.errors import TrimtabError
from trimtab.files import write_whole

REFUSED = 2


def pin_to_one_core() -> tuple[int | None, str]:
    """Keeps the process on one core; gives the core, None where the system cannot, and words for that."""
    if not hasattr(os, "sched_setaffinity"):
        return None, "not pinned to a core: this system cannot"
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core, f"pinned to core {core}"


def write_result(file: Path | None, document: Mapping[str, Any], libraries: Sequence[str]) -> None:
    """Writes a result as JSON, with the machine and the libraries that it was measured with; nothing without a file."""
    if file is None:
        return
    machine = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "libraries": {name: version(name) for name in libraries},
    }
    write_whole(file, json.dumps({**document, **machine}, indent=2) + "\n")
    print(f"\nwritten to {file}")


def benchmark(run: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    """Runs a benchmark; a user's error becomes one line and exit code 2."""
    try:
        return run(options)
    except TrimtabError as error:
        print(f"error: {error}", file=sys.stderr)
        return REFUSED
