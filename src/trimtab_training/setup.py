"""Installs the training of residual models and `trimtab train`."""

from setuptools import find_packages, setup

PACKAGE = "trimtab_training"

setup(
    name=PACKAGE,
    version="0.1.0",
    description="Classical control with bounded learned residuals for robot arms: training",
    license="Apache-2.0",
    packages=find_packages(exclude=["test"]),
    package_data={PACKAGE: ["py.typed"]},
    python_requires=">=3.11",
    install_requires=["trimtab", "torch"],
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{PACKAGE}"]),
        (f"share/{PACKAGE}", ["package.xml"]),
    ],
    entry_points={"trimtab.commands": ["train = trimtab_training.cli:register"]},
)
