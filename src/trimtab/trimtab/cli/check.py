"""What a check of `trimtab doctor` gives, and how checks ask another Python process."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Outcome of a check."""

    OK = "ok"
    WARN = "warn"
    """Absent or doubtful, and not needed for simulation."""
    MISSING = "missing"


@dataclass(frozen=True)
class Check:
    """One line of the doctor's list."""

    name: str
    state: State
    found: str
    """What is there."""
    remedy: str = ""
    """What to do about it; empty where nothing is to be done."""
    needed: bool = False
    """Whether simulation (`trimtab run`) cannot do without it."""

    @property
    def blocks(self) -> bool:
        """Whether this keeps simulation from working."""
        return self.needed and self.state is State.MISSING

    def line(self) -> str:
        """The check as a line of text."""
        return f"{self.state:<8} {self.name}: {self.found}" + (f" -> {self.remedy}" if self.remedy else "")


@dataclass(frozen=True)
class Answer:
    """What a probing process said."""

    ok: bool
    text: str
    """Its output; where it failed, the last line of its complaint."""


def ask(code: str, environment: Mapping[str, str] | None = None, timeout: float = 20.0) -> Answer:
    """Runs Python code in a process of its own, so that what it imports, breaks or hangs on is not ours.

    The working directory is no place to import from: a workspace has a folder `launch` of its own.
    timeout [s]: after it the process is ended.
    """
    try:
        # On a timeout `run` ends this one process by its id.
        done = subprocess.run(
            [sys.executable, "-P", "-c", code],
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Answer(False, f"no answer within {timeout:g} s")
    if done.returncode == 0:
        return Answer(True, done.stdout.strip())
    complaint = done.stderr.strip().splitlines()
    return Answer(False, complaint[-1] if complaint else f"exit code {done.returncode}")
