"""Runs the campaign: each fault on each arm and reference, with the residual and, under the same fault, without it."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from trimtab.arm import Arm
from trimtab.campaign.cases import FaultCase, Scene
from trimtab.campaign.detection import AT_LOAD, HARMLESS, Detection, detect
from trimtab.campaign.offers import SpoiltSource
from trimtab.campaign.verdict import exceeded, followed, rmse, shortcomings, torque_peak, torque_rms
from trimtab.control.friction import FrictionModel
from trimtab.errors import BundleRefused
from trimtab.plant import PlantGap
from trimtab.reference import Trajectory
from trimtab.residual.bundle import load_bundle
from trimtab.residual.offer import ResidualSource
from trimtab.residual.runtime import ResidualModel
from trimtab.runlog import RunLog
from trimtab.simulate import simulate
from trimtab.typing import FloatArray

Told = Callable[[str, int], object]
"""Called with what is about to run and how many simulations it takes."""


@dataclass(frozen=True)
class Rig:
    """One arm with its plant, its model and the classical stack below."""

    arm: Arm
    gap: PlantGap
    controller: str
    source: ResidualSource
    bounds: FloatArray
    """Of the model, in the arm's joint order, shape (dof,) [Nm]."""
    bundle: Path | None
    """Folder of the model; None for a source that is no bundle, whose faults of kind `bundle` are left out."""
    friction: FrictionModel | None = None


@dataclass(frozen=True)
class Outcome:
    """What one fault did on one arm and reference. Shares are 0 to 1; changes are against the classical run."""

    fault: str
    kind: str
    arm: str
    reference: str
    begins: float
    """[s]"""
    detected_by: str
    after: float | None
    """From the fault's beginning until it was noticed [s]."""
    reason: str | None
    """Why a level latched or a bundle was refused."""
    rmse: float
    """Of the joints with the residual [rad]."""
    classical_rmse: float
    """Without it, under the same fault [rad]."""
    change: float
    """Of the RMSE over the run, as long as both runs follow the reference."""
    change_since: float
    """The same from the fault's beginning on; 0 where neither run followed the reference any more."""
    change_coasting: float
    """Of the RMSE over all of the log, with what the arm does after hold, damp or stop."""
    torque_change: float
    """Of the torque's root mean square."""
    peak: float
    """Largest torque as a share of its limit."""
    classical_peak: float
    exceeded: tuple[str, ...]
    """Limits that were broken."""
    problems: tuple[str, ...]
    """Why it does not pass; empty where it does."""

    @property
    def ok(self) -> bool:
        """Whether it passes."""
        return not self.problems

    def as_dict(self) -> dict[str, object]:
        """Plain data for JSON."""
        return asdict(self) | {"ok": self.ok}


def runs_of(cases: Sequence[FaultCase], rig: Rig) -> int:
    """How many simulations one reference takes: the two without a fault, and those of the faults."""
    return 2 + sum(_runs(case) for case in applicable(cases, rig))


def applicable(cases: Sequence[FaultCase], rig: Rig) -> list[FaultCase]:
    """The faults that this rig can have; the run without a fault is not among them."""
    return [case for case in cases if case.kind != "none" and (case.corrupt is None or rig.bundle is not None)]


def run_reference(
    rig: Rig, reference: str, trajectory: Trajectory, cases: Sequence[FaultCase], seed: int, told: Told
) -> Iterator[Outcome]:
    """All faults on one arm and reference, the run without a fault first."""
    size = np.minimum(rig.arm.residual.size * rig.arm.torque, rig.bounds)

    def run(source: ResidualSource | None, case: FaultCase | None) -> RunLog:
        """One simulation."""
        begins = 0.0 if case is None else case.begins(trajectory.duration)
        scene = Scene(rig.arm, size, begins, seed)
        if source is not None and case is not None and case.spoil is not None:
            source = SpoiltSource(source, case.spoil(scene), begins)
        return simulate(
            rig.arm,
            rig.gap,
            rig.controller,
            trajectory,
            reference=reference,
            seed=seed,
            friction=rig.friction,
            residual=source,
            bounds=rig.bounds,
            events=None if case is None or case.events is None else case.events(scene),
        )

    told(f"{rig.arm.name} {reference} none", 2)
    classical, healthy = run(None, None), run(rig.source, None)
    level = healthy.fault
    yield _outcome(
        rig,
        reference,
        ("none", "none", 0.0),
        Detection(HARMLESS, None) if level is None else Detection(level.level.label, level.time, level.reason),
        healthy,
        classical,
    )
    for case in applicable(cases, rig):
        told(f"{rig.arm.name} {reference} {case.name}", _runs(case))
        begins = case.begins(trajectory.duration)
        what = (case.name, case.kind, begins)
        if case.corrupt is not None:
            source, refusal = _load_spoilt(rig, case)
            if source is None:
                yield _outcome(rig, reference, what, Detection(AT_LOAD, 0.0, refusal), classical, classical)
            else:
                passed = "the damaged bundle was loaded"
                log = run(source, None)
                yield _outcome(rig, reference, what, Detection(HARMLESS, None), log, classical, passed)
            continue
        log = run(rig.source, case)
        alone = classical if case.events is None else run(None, case)
        yield _outcome(rig, reference, what, detect(log, healthy, begins), log, alone)


def _runs(case: FaultCase) -> int:
    """Simulations that a fault takes; a refused bundle leaves the classical run, which is there already."""
    return 0 if case.corrupt is not None else 1 if case.events is None else 2


def _outcome(
    rig: Rig,
    reference: str,
    what: tuple[str, str, float],
    detection: Detection,
    log: RunLog,
    classical: RunLog,
    *more: str,
) -> Outcome:
    name, kind, begins = what
    rows = followed(log, classical)
    since = rows & (log.t >= begins - 1e-9)
    broken = [] if log.residual is None else exceeded(log, rig.arm, rig.bounds)
    return Outcome(
        fault=name,
        kind=kind,
        arm=rig.arm.name,
        reference=reference,
        begins=begins,
        detected_by=detection.by,
        after=detection.after,
        reason=detection.reason,
        rmse=rmse(log, rows),
        classical_rmse=rmse(classical, rows),
        change=_change(log, classical, rows),
        change_since=_change(log, classical, since),
        change_coasting=_change(log, classical, np.ones_like(rows)),
        torque_change=torque_rms(log, rig.arm) / torque_rms(classical, rig.arm) - 1.0,
        peak=torque_peak(log, rig.arm),
        classical_peak=torque_peak(classical, rig.arm),
        exceeded=tuple(broken),
        problems=(*broken, *shortcomings(log, classical), *more),
    )


def _change(log: RunLog, classical: RunLog, rows: np.ndarray) -> float:
    """Of the RMSE against the classical run's, over some rows."""
    return rmse(log, rows) / rmse(classical, rows) - 1.0 if rows.any() else 0.0


def _load_spoilt(rig: Rig, case: FaultCase) -> tuple[ResidualSource | None, str]:
    """What loading a damaged copy of the bundle gives: a source, or the text of the refusal."""
    assert rig.bundle is not None
    assert case.corrupt is not None
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / rig.bundle.parent.name / rig.bundle.name
        shutil.copytree(rig.bundle, folder)
        keys = case.corrupt(folder)
        try:
            return ResidualModel(load_bundle(folder, rig.arm, keys), rig.arm), ""
        except BundleRefused as error:
            return None, str(error).replace(f"{place}/", "")
