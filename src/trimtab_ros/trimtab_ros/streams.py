"""What nodes of one process hand each other, in the arm's joint order: the contents of their messages."""

from dataclasses import dataclass

from trimtab.control import Desired
from trimtab.reference import Trajectory
from trimtab.residual.offer import Offer
from trimtab.typing import FloatArray


@dataclass(slots=True)  # frozen ones take three times as long to make
class State:
    """Contents of `joint_states`. Nobody changes an array once it is published."""

    stamp: int
    """When it was measured [ns]."""
    q: FloatArray
    """(dof,) [rad]"""
    qd: FloatArray
    """(dof,) [rad/s]"""


@dataclass(slots=True)
class Command:
    """Contents of `torque_command`."""

    stamp: int
    """Of the state that it answers [ns]."""
    torque: FloatArray
    """(dof,) [Nm]"""
    learned: FloatArray | None
    """The learned part of it, (dof,) [Nm]; None where there is no residual."""


@dataclass(slots=True)
class Residual:
    """Contents of `residual_torque`."""

    stamp: int
    """Of the state that it answers [ns]."""
    offer: Offer
    desired: Desired
    """The wanted motion that it was made for."""
    live: bool
    """Whether it is meant to act; False for a shadow."""


@dataclass(frozen=True, slots=True)
class Motion:
    """A `reference` that the controller has taken."""

    trajectory: Trajectory | None
    """None: come to rest."""
    start: float
    """When it begins, on the clock of the states' stamps [s]."""
