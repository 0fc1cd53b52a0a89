"""The workspace holds together: packages, installed files, pins, launch files, and what the container files name."""

import ast
import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import trimtab
from trimtab.names import DELIVERIES
from trimtab_ros.controller_node import Controller
from trimtab_ros.parameters import AUTOSTART
from trimtab_ros.plan import plan, replay_plan
from trimtab_ros.recorder_node import Recorder
from trimtab_ros.reference_node import Reference
from trimtab_ros.replayer_node import Replayer
from trimtab_ros.residual_node import Residual
from trimtab_ros.sim_bridge_node import SimBridge
from trimtab_ros.up import parse_assignments

WORKSPACE = Path(__file__).resolve().parents[3]
PACKAGES = sorted(file.parent for file in WORKSPACE.glob("src/*/package.xml"))
REQUIREMENTS = sorted(WORKSPACE.glob("requirements*.txt"))
DOCKER = WORKSPACE / "docker"
NODES = {
    "sim_bridge": SimBridge,
    "controller": Controller,
    "residual": Residual,
    "reference": Reference,
    "recorder": Recorder,
    "replayer": Replayer,
}
EXECUTABLES = {
    process.executable
    for delivery in DELIVERIES
    for process in (
        *plan({"record": "true", "residual": "on", "delivery": delivery}),
        *replay_plan({"bag": "somewhere", "residual": "on"}),
    )
}
EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[a-z]+")
# Left out of an environment for another environment's Python (see the ROS wheels' bootstrap).
BOOTSTRAP = ("LD_LIBRARY_PATH", "_ROS_WHEELS_BOOTSTRAP_COMPLETE")

by_package = pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)


# Packages


@cache
def setup_arguments(package: Path) -> dict[str, Any]:
    """What a package's setup.py hands to setuptools."""
    script = (
        "import json, runpy, setuptools\n"
        "setuptools.setup = lambda **given: print(json.dumps(given))\n"
        "runpy.run_path('setup.py', run_name='__main__')\n"
    )
    process = subprocess.run([sys.executable, "-c", script], cwd=package, capture_output=True, text=True, check=True)
    arguments = json.loads(process.stdout)
    assert isinstance(arguments, dict)
    return arguments


def manifest(package: Path) -> ElementTree.Element:
    return ElementTree.parse(package / "package.xml").getroot()


def text_of(package: Path, tag: str) -> str:
    return manifest(package).findtext(tag) or ""


def installed(package: Path) -> dict[Path, str]:
    """Every data file of a package, with the folder that it is installed to."""
    files: dict[Path, str] = {}
    for target, sources in setup_arguments(package)["data_files"]:
        for source in sources:
            assert not Path(source).is_absolute(), f"{source}: colcon needs relative paths"
            files[(package / source).resolve()] = target
    return files


def imports_of(file: Path) -> set[str]:
    """Top-level names of all that a file imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), str(file))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    return names


def test_there_are_three_packages() -> None:
    assert [package.name for package in PACKAGES] == ["trimtab", "trimtab_ros", "trimtab_training"]


@by_package
def test_manifest(package: Path) -> None:
    """A manifest that colcon cannot read makes it build a plain Python package, without a word."""
    root = manifest(package)
    assert root.tag == "package"
    assert root.get("format") == "3"
    assert text_of(package, "name") == package.name == setup_arguments(package)["name"]
    assert text_of(package, "version") == setup_arguments(package)["version"] == trimtab.__version__
    assert text_of(package, "license") == setup_arguments(package)["license"]
    assert text_of(package, "description").strip()
    assert root.findtext("export/build_type") == "ament_python"
    maintainers = root.findall("maintainer")
    assert maintainers
    for maintainer in maintainers:
        assert EMAIL.fullmatch(maintainer.get("email") or "")
        assert (maintainer.text or "").strip()


@by_package
def test_marker_and_manifest_are_installed(package: Path) -> None:
    files = installed(package)
    assert files[package / "resource" / package.name] == "share/ament_index/resource_index/packages"
    assert files[package / "package.xml"] == f"share/{package.name}"


@by_package
def test_data_files_exist(package: Path) -> None:
    missing = [str(file) for file in installed(package) if not file.is_file()]
    assert not missing


def test_shared_files_are_installed() -> None:
    files = installed(WORKSPACE / "src" / "trimtab")
    for top in ("config", "urdf", "models"):
        found = [file for file in (WORKSPACE / top).rglob("*") if file.is_file()]
        assert found, top
        for file in found:
            assert files.get(file) == f"share/trimtab/{file.parent.relative_to(WORKSPACE)}", file


def test_launch_files_and_scripts_are_installed() -> None:
    package = WORKSPACE / "src" / "trimtab_ros"
    files = installed(package)
    for file in (WORKSPACE / "launch").iterdir():
        if file.is_file():
            assert file.name.endswith(".launch.py")
            assert files.get(file) == "share/trimtab_ros/launch", file
    for file in (package / "scripts").iterdir():
        assert files.get(file) == "lib/trimtab_ros", file


@by_package
def test_every_part_of_the_package_is_packaged(package: Path) -> None:
    """Folders without __init__.py and files that are no modules get lost on the way to an installation."""
    given = setup_arguments(package)
    root = package / package.name
    for file in root.rglob("*"):
        if not file.is_file() or "__pycache__" in file.parts:
            continue
        if file.suffix == ".py":
            assert ".".join(file.parent.relative_to(package).parts) in given["packages"], file
        else:
            patterns = given["package_data"][package.name]
            assert any(fnmatch.fnmatch(str(file.relative_to(root)), pattern) for pattern in patterns), file


def test_scripts_are_the_executables_of_the_plan() -> None:
    scripts = {file.name: file for file in (WORKSPACE / "src" / "trimtab_ros" / "scripts").iterdir()}
    assert set(scripts) == EXECUTABLES == {*NODES, "arm"}
    for name, file in scripts.items():
        assert os.access(file, os.X_OK), f"{file} is not executable"
        text = file.read_text(encoding="utf-8")
        assert text.startswith("#!/usr/bin/env python3\n"), file
        assert f'main("{name}")' in text


def test_ros_imports_are_declared() -> None:
    """What the nodes import of ROS stands in the manifest, so that rosdep brings it."""
    package = WORKSPACE / "src" / "trimtab_ros"
    declared = {element.text for element in manifest(package).findall("exec_depend")}
    libraries = {"numpy", "mujoco", "rosbags", "trimtab_ros"}  # of the requirement files, and itself
    for file in (package / "trimtab_ros").rglob("*.py"):
        assert imports_of(file) - set(sys.stdlib_module_names) - libraries <= declared, file


# Who may import whom


@pytest.mark.parametrize(
    "file", sorted((WORKSPACE / "src" / "trimtab" / "trimtab").rglob("*.py")), ids=lambda file: file.stem
)
def test_the_library_does_not_know_the_nodes(file: Path) -> None:
    assert not {"trimtab_ros", "trimtab_training", "torch"} & imports_of(file)


@pytest.mark.parametrize(
    "file", sorted((WORKSPACE / "src" / "trimtab_ros" / "trimtab_ros").rglob("*.py")), ids=lambda file: file.stem
)
def test_the_nodes_do_not_know_the_training(file: Path) -> None:
    assert not {"trimtab_training", "torch"} & imports_of(file)


@pytest.mark.parametrize("file", sorted((WORKSPACE / "launch").glob("*.py")), ids=lambda file: file.name)
def test_launch_files_import_only_launch_and_the_plan(file: Path) -> None:
    assert imports_of(file) <= {"launch", "launch_ros", "trimtab_ros"} | set(sys.stdlib_module_names)


# Versions


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def lines_of(file: Path) -> list[str]:
    lines = (line.partition("#")[0].strip() for line in file.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


def test_constraints_pin_exactly_and_once() -> None:
    names = []
    for line in lines_of(WORKSPACE / "constraints.txt"):
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+]+", line), line
        names.append(normalised(line.partition("==")[0]))
    assert len(names) == len(set(names))


@pytest.mark.parametrize("file", REQUIREMENTS, ids=lambda file: file.name)
def test_every_requirement_is_pinned(file: Path) -> None:
    pinned = {normalised(line.partition("==")[0]) for line in lines_of(WORKSPACE / "constraints.txt")}
    wanted = {normalised(re.split(r"[\[<>=!~; ]", line)[0]) for line in lines_of(file)}
    assert wanted
    assert wanted <= pinned, f"not in constraints.txt: {sorted(wanted - pinned)}"


@by_package
def test_what_a_package_requires_is_in_the_requirement_files(package: Path) -> None:
    known = {normalised(re.split(r"[\[<>=!~; ]", line)[0]) for file in REQUIREMENTS for line in lines_of(file)}
    known |= {normalised(other.name) for other in PACKAGES}
    wanted = {normalised(re.split(r"[\[<>=!~; ]", text)[0]) for text in setup_arguments(package)["install_requires"]}
    assert wanted <= known


# colcon


def test_colcon_sees_the_ros_packages() -> None:
    colcon = shutil.which("colcon")
    if colcon is None:
        pytest.skip("colcon is not installed")
    environment = {key: value for key, value in os.environ.items() if key not in BOOTSTRAP}
    process = subprocess.run(
        [colcon, "--log-base", os.devnull, "list", "--base-paths", "src"],
        cwd=WORKSPACE,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    rows = sorted(line.split() for line in process.stdout.splitlines())
    assert rows == [[package.name, f"src/{package.name}", "(ros.ament_python)"] for package in PACKAGES]


# Container files


def copied() -> list[str]:
    """Sources of the Dockerfile's COPY lines."""
    text = (DOCKER / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    sources: list[str] = []
    for line in text.splitlines():
        words = [word for word in line.split() if not word.startswith("--")]
        if words[:1] == ["COPY"]:
            sources += words[1:-1]
    return sources


def compose() -> dict[str, Any]:
    """The compose file with every ${NAME:-default} replaced by its default."""
    text = (DOCKER / "compose.yaml").read_text(encoding="utf-8")
    document = yaml.safe_load(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text))
    assert isinstance(document, dict)
    return document


def command_of(service: dict[str, Any]) -> list[str]:
    command = service["command"]
    return shlex.split(command) if isinstance(command, str) else list(command)


def test_what_the_image_copies_exists() -> None:
    sources = copied()
    for source in sources:
        assert (WORKSPACE / source).exists(), source
    # What a build and a run of the workspace need, of which a forgotten one shows only in the container.
    assert {"src", "launch", "config", "urdf", "models", "requirements.txt", "constraints.txt"} <= set(sources)


def test_what_the_image_copies_is_not_ignored() -> None:
    ignored = lines_of(DOCKER / "Dockerfile.dockerignore")
    for source in copied():
        assert not any(fnmatch.fnmatch(source, pattern.strip("/")) for pattern in ignored), source


def test_the_entry_point_can_run() -> None:
    file = DOCKER / "entrypoint.sh"
    assert "docker/entrypoint.sh" in copied()
    assert os.access(file, os.X_OK)
    assert file.read_text(encoding="utf-8").startswith("#!/bin/bash\n")
    assert subprocess.run(["bash", "-n", str(file)], check=False).returncode == 0


def test_compose_has_the_two_profiles() -> None:
    profiles = [profile for service in compose()["services"].values() for profile in service["profiles"]]
    assert set(profiles) == {"sim", "hardware"}


def test_what_compose_names_exists() -> None:
    made_at_run_time = {line.strip("/") for line in lines_of(WORKSPACE / ".gitignore")}
    for service in compose()["services"].values():
        build = service["build"]
        context = (DOCKER / build["context"]).resolve()
        assert context == WORKSPACE
        assert (context / build["dockerfile"]).is_file()
        for volume in service.get("volumes", []):
            host = (DOCKER / volume.partition(":")[0]).resolve()
            assert host.exists() or str(host.relative_to(WORKSPACE)) in made_at_run_time, volume


def test_compose_starts_what_there_is() -> None:
    started: dict[str, set[str]] = {"sim": set(), "hardware": set()}
    for service in compose()["services"].values():
        command = command_of(service)
        if command[:2] == ["trimtab", "up"]:
            started_processes = plan(parse_assignments(command[2:]))
            names = {node.executable for process in started_processes for node in process.nodes or (process,)}
        else:
            assert command[:3] == ["ros2", "run", "trimtab_ros"]
            assert command[4] == "--ros-args"
            declared = {parameter.name for parameter in (AUTOSTART, *NODES[command[3]].parameters)}
            given = [
                word.partition(":=")[0] for flag, word in zip(command[5::2], command[6::2], strict=True) if flag == "-p"
            ]
            assert set(given) <= declared, command
            names = {command[3]}
        for profile in service["profiles"]:
            started[profile] |= names
    assert started["sim"] >= {"sim_bridge", "controller", "reference"}
    assert started["hardware"] == {"controller", "reference"}  # there is no driver yet: nobody else may play one
