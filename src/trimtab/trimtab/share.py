"""Finds the workspace's shared files (arms, plants, URDFs) in a source tree, a colcon install or a virtual environment."""

import os
import sys
from functools import cache
from pathlib import Path

from trimtab.errors import ConfigError


def _candidates() -> list[Path]:
    """Folders that may hold `config/` and `urdf/`, the nearest to what the user edits first."""
    source_tree = [parent for parent in Path(__file__).resolve().parents if (parent / "colcon.meta").is_file()]
    prefixes = [Path(p) for p in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if p]
    installed = [prefix / "share" / "trimtab" for prefix in [*prefixes, Path(sys.prefix)]]
    return [*source_tree, *installed]


@cache
def share_directory() -> Path:
    """The folder that holds `config/`, `urdf/` and `models/`."""
    for folder in _candidates():
        if (folder / "config" / "arms").is_dir():
            return folder
    looked = ", ".join(str(folder) for folder in _candidates())
    raise ConfigError(f"no config/arms folder found (looked in: {looked}); reinstall trimtab or source the workspace")


def resolve(name_or_path: str | Path, folder: str, kind: str) -> Path:
    """The file of a short name (`ur5e` -> config/arms/ur5e.yaml), or the path itself when one is given."""
    path = Path(name_or_path)
    if path.suffix or path.parent != Path():
        if not path.is_file():
            raise ConfigError(f"{kind} file {path} does not exist")
        return path
    named = share_directory() / folder / f"{path}.yaml"
    if not named.is_file():
        raise ConfigError(f"unknown {kind} '{path}'; known: {', '.join(names_in(folder))}")
    return named


def names_in(folder: str) -> list[str]:
    """Short names of the YAML files of a shared folder, sorted."""
    return sorted(file.stem for file in (share_directory() / folder).glob("*.yaml"))
