"""What a run leaves behind: one row per control period."""

from dataclasses import dataclass, field

import numpy as np

from trimtab.faults import Fault
from trimtab.reference import Trajectory
from trimtab.typing import FloatArray


@dataclass(frozen=True)
class RunLog:
    """A recorded run of one controller on one plant; row i holds what was true at time t[i]."""

    arm: str
    plant: str
    reference: str
    controller: str
    seed: int
    joints: tuple[str, ...]
    trajectory: Trajectory
    t: FloatArray
    """(n,) [s]"""
    q: FloatArray
    """Measured positions, (n, dof) [rad]."""
    qd: FloatArray
    """Measured velocities, (n, dof) [rad/s]."""
    q_link: FloatArray
    """True positions of the links, (n, dof) [rad]."""
    q_des: FloatArray
    """(n, dof) [rad]"""
    qd_des: FloatArray
    """(n, dof) [rad/s]"""
    torque: FloatArray
    """What was sent, (n, dof) [Nm]; NaN where nothing was."""
    limited: np.ndarray
    """Whether a torque limit fired, (n,) of bool."""
    fault: Fault | None
    """The latched fault at the end, None for a nominal run."""
    residual: FloatArray | None = None
    """Learned part of what was sent, (n, dof) [Nm]; None for a run without a residual."""
    limits: np.ndarray | None = None
    """Bits of `Limit` that fired, (n,) of int; None for a run without a residual."""
    faults: tuple[Fault, ...] = ()
    """All that latched, each worse than the one before."""
    levels: np.ndarray | None = None
    """Level of the fault ladder after each step, (n,) of int; None where nobody recorded it."""
    trust: FloatArray | None = None
    """Authority that the residual has earned, (n,), 0 to 1; None for a run without a residual."""
    times: np.ndarray | None = field(default=None, compare=False, repr=False)
    """What each stage took, (n, 7) [us] as `CycleTimes.rows` gives it; None where nobody measured it.

    The one thing in a log that differs from run to run.
    """
