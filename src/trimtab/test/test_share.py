"""Shared files are found by name, by path, in a source tree and in an installation."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import trimtab
from trimtab.errors import ConfigError
from trimtab.share import names_in, resolve, share_directory


def test_a_name_gives_its_file() -> None:
    assert resolve("wam", "config/arms", "arm") == share_directory() / "config" / "arms" / "wam.yaml"


def test_names_are_sorted_and_whole() -> None:
    assert names_in("config/arms") == ["open_manipulator_x", "so101", "ur5e", "wam"]
    assert {"nominal", "worn", "payload", "hot", "field"} <= set(names_in("config/plants"))


def test_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="unknown arm 'ur6e'; known: open_manipulator_x, so101, ur5e, wam"):
        resolve("ur6e", "config/arms", "arm")


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.touch()
    assert resolve(file, "config/arms", "arm") == file
    assert resolve(str(file), "config/arms", "arm") == file


@pytest.mark.parametrize("name", ["gone.yaml", "folder/gone", ""])
def test_a_path_that_is_not_there_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"arm file .* does not exist"):
        resolve(tmp_path / name, "config/arms", "arm")


def _installed(tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Where a copy of the library outside of any source tree finds its shared files."""
    source = Path(trimtab.__file__).parent
    package = tmp_path / "site" / "trimtab"
    package.mkdir(parents=True)
    for name in ("__init__.py", "share.py", "errors.py"):
        shutil.copy(source / name, package / name)
    script = f"import sys; sys.prefix = {str(tmp_path / 'prefix')!r}\n" + (
        "from trimtab.share import share_directory, ConfigError\n"
        "try:\n    print(share_directory())\nexcept ConfigError as error:\n    sys.exit(str(error))"
    )
    left = {key: value for key, value in os.environ.items() if key != "AMENT_PREFIX_PATH"}
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**left, "PYTHONPATH": str(package.parent), **environment},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )


def test_found_in_a_colcon_install(tmp_path: Path) -> None:
    share = tmp_path / "install" / "share" / "trimtab"
    (share / "config" / "arms").mkdir(parents=True)
    paths = os.pathsep.join([str(tmp_path / "other"), str(tmp_path / "install")])
    found = _installed(tmp_path, AMENT_PREFIX_PATH=paths)
    assert found.stdout.strip() == str(share), found.stderr


def test_found_in_a_virtual_environment(tmp_path: Path) -> None:
    share = tmp_path / "prefix" / "share" / "trimtab"
    (share / "config" / "arms").mkdir(parents=True)
    found = _installed(tmp_path)
    assert found.stdout.strip() == str(share), found.stderr


def test_found_nowhere_is_an_error_that_says_where_it_looked(tmp_path: Path) -> None:
    found = _installed(tmp_path)
    assert found.returncode == 1
    assert "no config/arms folder found" in found.stderr
    assert str(tmp_path / "prefix" / "share" / "trimtab") in found.stderr


def test_every_name_has_something_behind_it() -> None:
    """The light list of names and the heavy tables that it stands for must not drift apart."""
    from trimtab.control import stack
    from trimtab.names import LAWS, REFERENCES
    from trimtab.reference import catalogue

    assert tuple(stack._LAWS) == LAWS
    assert tuple(catalogue._BUILDERS) == REFERENCES


def test_checking_names_needs_no_library() -> None:
    """`ros2 launch` runs with the system's Python, which may lack pinocchio and MuJoCo."""
    code = "import sys, trimtab.names; sys.exit(any(m in sys.modules for m in ('numpy', 'pinocchio', 'mujoco', 'scipy')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
