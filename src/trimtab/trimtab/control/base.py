"""What every part of a controller looks like."""

from dataclasses import dataclass, field
from typing import Protocol

from trimtab.typing import FloatArray

# Values that are made anew in every period are not frozen: making a frozen one takes three times as long. Treat them as
# if they were.


@dataclass(slots=True)
class Desired:
    """What the reference asks for at one instant, each of shape (dof,)."""

    q: FloatArray
    """[rad]"""
    qd: FloatArray
    """[rad/s]"""
    qdd: FloatArray
    """[rad/s^2]"""


@dataclass(slots=True)
class Sample:
    """One measured state and what was asked for at that instant."""

    q: FloatArray
    """Measured positions [rad]."""
    qd: FloatArray
    """Measured velocities [rad/s]."""
    desired: Desired
    dt: float
    """Time since the sample before [s]."""
    error: FloatArray = field(init=False)
    """Wanted less measured positions [rad]: computed once for all who need it."""

    def __post_init__(self) -> None:
        self.error = self.desired.q - self.q


class ControlLaw(Protocol):
    """A law that turns a sample into torque, shape (dof,) [Nm]."""

    def reset(self) -> None:
        """Forgets all that was learnt or integrated."""

    def torque(self, sample: Sample) -> FloatArray:
        """The law's torque for this sample [Nm]."""

    def explained(self) -> FloatArray | None:
        """The part of the last torque that models a real effect beyond the nominal rigid body [Nm].

        An observer must not compensate that part a second time. None where there is no such part.
        """


class Compensator(ControlLaw, Protocol):
    """A torque added to a law's, that may learn from what was finally applied."""

    def applied(self, torque: FloatArray) -> None:
        """Tells the torque sent to the arm, less all `explained` parts [Nm]."""
