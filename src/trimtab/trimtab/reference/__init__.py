"""References: trajectories, their generators, and the check that refuses what an arm must not do."""

from trimtab.reference.catalogue import make_reference
from trimtab.reference.check import check_trajectory
from trimtab.reference.trajectory import Trajectory

__all__ = ["Trajectory", "check_trajectory", "make_reference"]
