"""Nothing that can be configured is undocumented, and the documents name nothing that does not exist."""

import argparse
import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from trimtab.cli.main import build_parser
from trimtab.faults import Level
from trimtab.names import COMPENSATORS, CONTROLLERS, LAWS, REFERENCES, arm_names, plant_names
from trimtab.recording.context import LABELS, RecordingContext
from trimtab.recording.losses import Losses
from trimtab.recording.recording import ENDED
from trimtab_ros.controller_node import Controller
from trimtab_ros.follow_joint_trajectory import ACTION
from trimtab_ros.parameters import AUTOSTART, Parameter
from trimtab_ros.plan import Argument, arguments, fleet_arguments, replay_arguments
from trimtab_ros.recorder_node import Recorder
from trimtab_ros.reference_node import Reference
from trimtab_ros.replayer_node import Replayer
from trimtab_ros.residual_node import Residual
from trimtab_ros.sim_bridge_node import SimBridge
from trimtab_ros.topics import RESET_SERVICE

WORKSPACE = Path(__file__).resolve().parents[3]
NODES = {
    "sim_bridge": SimBridge,
    "controller": Controller,
    "residual": Residual,
    "reference": Reference,
    "recorder": Recorder,
    "replayer": Replayer,
}
REPORTS = ("status", "_residual_values")  # functions of a node that fill its diagnostics
NODE_SOURCES = WORKSPACE / "src" / "trimtab_ros" / "trimtab_ros"
DOCUMENTS = [
    WORKSPACE / "README.md",
    *sorted((WORKSPACE / "docs").glob("*.md")),
    *sorted((WORKSPACE / "docker").glob("*.md")),
]
ARM_FILES = sorted((WORKSPACE / "config" / "arms").glob("*.yaml"))
PLANT_FILES = sorted((WORKSPACE / "config" / "plants").glob("*.yaml"))

by_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: file.name)


def read(name: str) -> str:
    return (WORKSPACE / "docs" / name).read_text(encoding="utf-8")


def section(text: str, title: str) -> str:
    """A section of second level, down to the next one."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"no section '## {title}'"
    return found[1]


def rows(text: str) -> dict[str, list[str]]:
    """All table rows whose first cell is `code`: the code -> the other cells."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("| `") else []
        if cells:
            found[cells[0].strip("`")] = cells[1:]
    return found


def shown(value: bool | int | float | str) -> str:
    """A default as the tables show it."""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return '`""`' if value == "" else f"`{value}`"


def row_of(entry: Parameter | Argument) -> str:
    """The row that documents a parameter or an argument."""
    allowed = ", ".join(f"`{choice}`" for choice in entry.choices)
    if isinstance(entry, Parameter) and entry.low is not None and entry.high is not None:
        number = "" if isinstance(entry.default, int) else "g"
        allowed = f"{entry.low:{number}} to {entry.high:{number}}"
    return f"| `{entry.name}` | {shown(entry.default)} | {allowed} | {entry.description} |".replace("|  |", "| |")


def paths(value: object, under: str = "") -> Iterator[str]:
    """Dotted paths of all fields of a YAML document; names of joints become a star."""
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        path = f"{under}.{key}" if under else str(key)
        if under == "joints":
            path = "joints.*"
        elif path == "locked_joints":
            item = None
        if path != "joints.*":
            yield path
        yield from paths(item, path)


# nodes.md


@pytest.mark.parametrize("node", NODES)
def test_every_parameter_is_documented(node: str) -> None:
    lines = section(read("nodes.md"), node).splitlines()
    for parameter in (AUTOSTART, *NODES[node].parameters):
        assert row_of(parameter) in lines, f"docs/nodes.md, section {node}, must have:\n{row_of(parameter)}"


@pytest.mark.parametrize("node", NODES)
def test_no_parameter_is_made_up(node: str) -> None:
    table = section(read("nodes.md"), node).partition("| parameter |")[2].partition("\n\n")[0]
    assert set(rows(table)) == {parameter.name for parameter in (AUTOSTART, *NODES[node].parameters)}


@pytest.mark.parametrize("node", NODES)
def test_every_diagnostic_is_documented(node: str) -> None:
    source = ast.parse((NODE_SOURCES / f"{node}_node.py").read_text(encoding="utf-8"))
    reports = [item for item in ast.walk(source) if isinstance(item, ast.FunctionDef) and item.name in REPORTS]
    keys = {
        key.value
        for report in reports
        for table in ast.walk(report)
        if isinstance(table, ast.Dict)
        for key in table.keys
        if isinstance(key, ast.Constant)
    }
    assert keys
    table = section(read("nodes.md"), node).partition("| diagnostic |")[2].partition("\n\n")[0]
    assert set(rows(table)) == keys


@pytest.mark.parametrize("node", NODES)
def test_every_node_has_its_purpose_inputs_outputs_services_and_limits(node: str) -> None:
    text = section(read("nodes.md"), node)
    for word in ("Purpose:", "- In:", "- Out:", "- Services:", f"`{RESET_SERVICE}`", "Limits:"):
        assert word in text, word


def test_the_action_is_documented() -> None:
    assert f"`{ACTION}`" in read("nodes.md")


# ros2.md


@pytest.mark.parametrize(
    ("title", "table"),
    [
        ("Arguments of arm.launch.py and trimtab up", arguments()),
        ("Arguments of fleet.launch.py and trimtab up robots:=...", fleet_arguments()),
        ("Arguments of replay.launch.py and trimtab up bag:=...", replay_arguments()),
    ],
    ids=["arm", "fleet", "replay"],
)
def test_every_launch_argument_is_documented(title: str, table: tuple[Argument, ...]) -> None:
    text = section(read("ros2.md"), title)
    for argument in table:
        assert row_of(argument) in text.splitlines(), f"docs/ros2.md must have:\n{row_of(argument)}"
    assert set(rows(text)) == {argument.name for argument in table}


def test_every_executable_is_named() -> None:
    for node in NODES:
        assert f"`{node}`" in section(read("ros2.md"), "One node by hand")


# Configuration files


@pytest.mark.parametrize("file", ARM_FILES, ids=lambda file: file.stem)
def test_every_field_of_an_arm_is_documented(file: Path) -> None:
    documented = rows(section(read("arms.md"), "Fields"))
    missing = set(paths(yaml.safe_load(file.read_text(encoding="utf-8")))) - set(documented)
    assert not missing


@pytest.mark.parametrize("file", PLANT_FILES, ids=lambda file: file.stem)
def test_every_field_of_a_plant_is_documented(file: Path) -> None:
    documented = rows(section(read("plants.md"), "Fields"))
    missing = set(paths(yaml.safe_load(file.read_text(encoding="utf-8")))) - set(documented)
    assert not missing


def test_no_field_is_made_up() -> None:
    for document, files in (("arms.md", ARM_FILES), ("plants.md", PLANT_FILES)):
        used = {path for file in files for path in paths(yaml.safe_load(file.read_text(encoding="utf-8")))}
        assert set(rows(section(read(document), "Fields"))) <= used, document


def test_every_arm_is_documented() -> None:
    assert {cells[0].strip("`") for cells in rows_by_second_cell(read("arms.md"))} == set(arm_names())
    support = section((WORKSPACE / "README.md").read_text(encoding="utf-8"), "Support")
    for name in arm_names():
        assert f"`{name}`" in support


def rows_by_second_cell(text: str) -> list[list[str]]:
    """Rows of the table of arms, from their name on."""
    table = section(text, "Where the figures come from")
    lines = [line for line in table.splitlines() if line.startswith("| ") and "`" in line]
    return [[cell.strip() for cell in line.strip("|").split("|")][1:] for line in lines]


def test_every_plant_is_documented() -> None:
    assert set(rows(section(read("plants.md"), "The five plants"))) == set(plant_names())


# Bags


def test_every_key_that_a_bag_tells_of_itself_is_documented() -> None:
    keys = {field.name for field in fields(RecordingContext)} - {"labels"}
    assert set(rows(section(read("bags.md"), "What a bag tells of itself"))) == keys | set(LABELS) | {ENDED}
    assert set(rows(section(read("bags.md"), "Recording a robot"))) == set(Losses().to_custom_data())


def test_every_label_is_documented() -> None:
    for key, meaning in LABELS.items():
        assert f"| `{key}` | {meaning} |" in read("bags.md")


# Control and references


def test_every_controller_word_is_documented() -> None:
    text = read("control.md")
    assert set(CONTROLLERS) == {*LAWS, *COMPENSATORS}
    for title, words in (("Laws", tuple(LAWS)), ("Compensators", COMPENSATORS)):
        for word in words:
            assert re.search(rf"^`{word}`( \(.*\))?: ", section(text, title), re.MULTILINE), f"{title}: {word}"


def test_every_level_is_documented() -> None:
    text = section(read("control.md"), "The fault ladder")
    for level in Level:
        assert re.search(rf"^\| {level.label} \|", text, re.MULTILINE)


def test_every_trip_and_timeout_is_documented() -> None:
    contract = yaml.safe_load(ARM_FILES[0].read_text(encoding="utf-8"))
    text = section(read("control.md"), "The fault ladder")
    for group in ("trips", "timeouts"):
        for field in contract[group]:
            assert f"`{group}.{field}`" in text


def test_every_reference_is_documented() -> None:
    assert set(rows(section(read("references.md"), "By name"))) == set(REFERENCES)


# All documents


@by_document
def test_relative_links_resolve(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        linked = (document.parent / file).resolve() if file else document
        assert linked.exists(), f"{document.name} links to {target}"
        if anchor:
            titles = re.findall(r"^#+ (.+)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}, target


@by_document
def test_make_targets_exist(document: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (WORKSPACE / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r"(?:^ *|`)make ([a-z]+)", document.read_text(encoding="utf-8"), re.MULTILINE))
    assert named <= targets


@by_document
def test_commands_exist(document: Path) -> None:
    action = next(action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction))
    named = set(re.findall(r"(?:^ {4,}|`)trimtab ([a-z]+)", document.read_text(encoding="utf-8"), re.MULTILINE))
    assert named <= set(action.choices)


@by_document
def test_options_exist(document: Path) -> None:
    """Every example of a `trimtab run` that stands on a line of its own is one that the parser takes."""
    for line in re.findall(r"^ {4,}trimtab (run .+)$", document.read_text(encoding="utf-8"), re.MULTILINE):
        build_parser().parse_args(line.split())


@by_document
def test_workspace_files_named_in_documents_exist(document: Path) -> None:
    packages = [WORKSPACE / "src" / name for name in ("trimtab", "trimtab_ros", "trimtab_training")]
    roots = (WORKSPACE, *packages, packages[0] / "trimtab", packages[2] / "trimtab_training", document.parent)
    for name in re.findall(r"`([\w/.]+\.(?:py|txt|sh))`", document.read_text(encoding="utf-8")):
        assert any((root / name).is_file() for root in roots), f"{document.name} names {name}"


def test_readme_starts_with_the_two_commands_and_is_short() -> None:
    lines = (WORKSPACE / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) < 100
    commands = [line.split()[:2] for line in lines if re.match(r" *make ", line)]
    assert commands[:2] == [["make", "demo"], ["make", "test"]]


def test_every_document_is_linked_from_the_readme() -> None:
    text = (WORKSPACE / "README.md").read_text(encoding="utf-8")
    for document in DOCUMENTS:
        if document.parent.name == "docs":
            assert f"(docs/{document.name})" in text, document.name
