"""Installs the nodes (lib/trimtab_ros, where ros2 run and launch look), the launch files, `trimtab up` and `trimtab top`."""

import os
from pathlib import Path

from setuptools import find_packages, setup

PACKAGE = "trimtab_ros"
HERE = Path(__file__).resolve().parent
WORKSPACE = HERE.parents[1]


def files(folder: Path, pattern: str) -> list[str]:
    """Files of a folder, as the relative paths that setuptools wants."""
    return [os.path.relpath(file) for file in sorted(folder.glob(pattern))]


setup(
    name=PACKAGE,
    version="0.1.0",
    description="Classical control with bounded learned residuals for robot arms: ROS 2 nodes and launch files",
    license="Apache-2.0",
    packages=find_packages(exclude=["test"]),
    package_data={PACKAGE: ["py.typed"]},
    python_requires=">=3.11",
    install_requires=["trimtab"],
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{PACKAGE}"]),
        (f"share/{PACKAGE}", ["package.xml"]),
        (f"share/{PACKAGE}/launch", files(WORKSPACE / "launch", "*.launch.py")),
        (f"lib/{PACKAGE}", files(HERE / "scripts", "*")),
    ],
    entry_points={
        "trimtab.commands": [
            "up = trimtab_ros.up:register",
            "top = trimtab_ros.top:register",
            "record = trimtab_ros.record:register",
        ]
    },
)
