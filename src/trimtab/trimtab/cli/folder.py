"""The folder that a command writes its results to: new or empty, never one that holds something."""

from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from trimtab.errors import ConfigError


def claim_folder(out: Path | None, name: str) -> Path:
    """Makes the folder `out`, or runs/<time>-<name> where none is given; refuses one that holds something."""
    if out is None:
        name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{name}"
        ways = (Path("runs") / (name if i == 1 else f"{name}-{i}") for i in count(1))
        out = next(folder for folder in ways if not folder.exists())
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"--out {out} is not an empty folder, and results are never overwritten; give another")
    out.mkdir(parents=True, exist_ok=True)
    return out
