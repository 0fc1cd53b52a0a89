"""Installs the library, the `trimtab` command, and the workspace's shared files to share/trimtab."""

import os
from pathlib import Path

from setuptools import find_packages, setup

PACKAGE = "trimtab"
WORKSPACE = Path(__file__).resolve().parents[2]


def shared_files() -> list[tuple[str, list[str]]]:
    """config, urdf and models of the workspace, by the folder that they are installed to."""
    by_folder: dict[str, list[str]] = {}
    for top in ("config", "urdf", "models"):
        for file in sorted((WORKSPACE / top).rglob("*")):
            if file.is_file():
                target = Path("share") / PACKAGE / file.parent.relative_to(WORKSPACE)
                by_folder.setdefault(str(target), []).append(os.path.relpath(file))
    return list(by_folder.items())


setup(
    name=PACKAGE,
    version="0.1.0",
    description="Classical control with bounded learned residuals for robot arms: the pure library",
    license="Apache-2.0",
    packages=find_packages(exclude=["test"]),
    package_data={PACKAGE: ["py.typed", "report/*.html", "report/*.css"]},
    python_requires=">=3.11",
    install_requires=[
        "numpy",
        "scipy",
        "PyYAML",
        "pin>=4,<5",
        "mujoco>=4,<5",
        "urdf-parser-py",
        "rosbags",
        "mcap>=1.6",
        "lz4",
        "zstandard",
        "matplotlib",
        "pillow",
        "tqdm",
        "onnx>=1.16",
        "onnxruntime>=1.20",
        "numba>=0.61",
        "cryptography>=40",
        "fsspec",
    ],
    extras_require={"training": ["trimtab_training"], "cluster": ["distributed"]},
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{PACKAGE}"]),
        (f"share/{PACKAGE}", ["package.xml"]),
        *shared_files(),
    ],
    entry_points={"console_scripts": ["trimtab = trimtab.cli.main:main"]},
)
