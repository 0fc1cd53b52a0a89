"""Logged runs of the classical stack, with or without a residual on top, on all plants."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.arm import Arm
from trimtab.control.friction import FrictionModel
from trimtab.errors import LogError
from trimtab.faults import Level
from trimtab.plant import PlantGap
from trimtab.reference import Trajectory
from trimtab.residual import ResidualSource
from trimtab.runlog import RunLog
from trimtab.simulate import simulate
from trimtab.typing import FloatArray
from trimtab_training.references import KINDS

CONTROLLER = "friction+adaptive+observer"
"""The best classical stack: what the residual is trained and judged on top of."""

Progress = Callable[[int], object]


@dataclass(frozen=True)
class Site:
    """A plant with the friction that was identified on it, as a user would before anything is learned."""

    gap: PlantGap
    friction: FrictionModel


@dataclass(frozen=True)
class Log:
    """What a model learns from, one row per control period; arrays of shape (n, dof)."""

    site: Site
    t: FloatArray
    """(n,) [s]"""
    q: FloatArray
    qd: FloatArray
    """Measured [rad], [rad/s]."""
    q_des: FloatArray
    qd_des: FloatArray
    qdd_des: FloatArray
    torque: FloatArray
    """What was sent [Nm]."""
    baseline: FloatArray
    """The classical part of it [Nm]."""


def run(
    arm: Arm,
    site: Site,
    trajectory: Trajectory,
    seed: int,
    residual: ResidualSource | None = None,
    bounds: FloatArray | None = None,
    progress: Progress | None = None,
) -> RunLog:
    """One run of the classical stack, with a residual on top where one is given."""
    return simulate(
        arm,
        site.gap,
        CONTROLLER,
        trajectory,
        seed=seed,
        friction=site.friction,
        residual=residual,
        bounds=bounds,
        progress=progress,
    )


def as_training_log(run_log: RunLog, site: Site) -> Log:
    """The part of a run that a model learns from; where the controller itself gave up, nothing can be learned.

    A residual that was switched off leaves a good log of the classical stack.
    """
    if run_log.fault is not None and run_log.fault.level > Level.RESIDUAL_OFF:
        raise LogError(f"a training run on plant '{site.gap.name}' ended in a fault: {run_log.fault.reason}")
    _, _, qdd = run_log.trajectory.sample(run_log.t)
    added = 0.0 if run_log.residual is None else run_log.residual
    return Log(
        site=site,
        t=run_log.t,
        q=run_log.q,
        qd=run_log.qd,
        q_des=run_log.q_des,
        qd_des=run_log.qd_des,
        qdd_des=qdd,
        torque=run_log.torque,
        baseline=run_log.torque - added,
    )


def site_of(i: int, sites: Sequence[Site]) -> Site:
    """Where the i-th reference is run: each site gets one of every kind before the next site has its turn."""
    return sites[i // KINDS % len(sites)]


def record(
    arm: Arm,
    sites: Sequence[Site],
    references: Sequence[Trajectory],
    seed: int,
    residual: ResidualSource | None = None,
    bounds: FloatArray | None = None,
    progress: Progress | None = None,
) -> list[Log]:
    """A log of each reference, the references dealt out to the sites."""
    logs = []
    for i, trajectory in enumerate(references):
        site = site_of(i, sites)
        logs.append(as_training_log(run(arm, site, trajectory, seed + i, residual, bounds, progress), site))
    return logs


def inputs_of(log: Log) -> FloatArray:
    """What the model sees of a log, in the order of its inputs: (n, 4 dof), raw."""
    return np.hstack([log.q_des, log.qd_des, log.qdd_des, log.baseline])
