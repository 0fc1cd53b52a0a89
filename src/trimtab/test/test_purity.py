"""The library stays pure: no ROS, no launch files and no torch, neither written nor pulled in."""

import ast
import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import trimtab

FORBIDDEN = {"rclpy", "torch", "launch", "launch_ros"}
PACKAGE = Path(trimtab.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
MODULES = sorted(module.name for module in pkgutil.walk_packages([str(PACKAGE)], "trimtab."))


def test_every_source_file_is_a_module_that_gets_imported_here() -> None:
    named = {
        ".".join(("trimtab", *file.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__") for file in SOURCES
    }
    assert named - {"trimtab"} == set(MODULES)
    assert len(MODULES) > 20


def test_importing_everything_leaves_ros_and_torch_out() -> None:
    script = (
        "import importlib, json, sys\n"
        "modules, forbidden = json.loads(sys.argv[1])\n"
        "for name in modules: importlib.import_module(name)\n"
        "print(*[name for name in forbidden if name in sys.modules])"
    )
    names = json.dumps([[name for name in MODULES if not name.endswith("__main__")], sorted(FORBIDDEN)])
    process = subprocess.run([sys.executable, "-c", script, names], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == ""


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_no_source_file_imports_them(file: Path) -> None:
    imported = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), str(file))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            imported.add(node.module.split(".")[0])
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            imported |= {str(arg.value).split(".")[0] for arg in node.args if isinstance(arg, ast.Constant)}
    assert not imported & FORBIDDEN
