"""Trimtab's pure library: arms, dynamics, control laws, references, plants, runs and reports. No ROS in here."""

__version__ = "0.1.0"
