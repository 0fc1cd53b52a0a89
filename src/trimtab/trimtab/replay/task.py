"""One bag's replay from its description to its result: plain data in and out, so that any process can do it."""

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from trimtab.arm import Arm, load_arm
from trimtab.bags.effort import effort_unit
from trimtab.bags.files import Bag
from trimtab.bags.reading import LogReader
from trimtab.bags.topics import Topics
from trimtab.control.base import Desired, Sample
from trimtab.control.friction import FrictionModel, load_friction
from trimtab.control.stack import make_controller
from trimtab.dynamics import RigidBody
from trimtab.errors import LogError
from trimtab.names import needs_friction
from trimtab.realtime import collect_garbage, garbage_kept_out
from trimtab.reference import Trajectory
from trimtab.replay.immediacy import Immediacy
from trimtab.replay.made import finite_rows
from trimtab.replay.playback import LOOP, Block, Playback
from trimtab.replay.prediction import JointSums, Moment, Prediction
from trimtab.replay.resimulation import resimulate
from trimtab.replay.tally import Counting, Tally
from trimtab.replay.variants import BASELINE, CANDIDATE, CLASSICAL, RECORDED, Model, load_model
from trimtab.residual.runtime import ResidualModel
from trimtab.typing import FloatArray

DEFAULT_CONTROLLER = "friction+adaptive+observer"


@dataclass(frozen=True)
class Task:
    """What to replay, and how."""

    bag: str
    candidate: str
    baseline: str = ""
    """Empty: the classical controller alone."""
    arm: str = ""
    """Empty: what the bag names."""
    controller: str = ""
    friction: str = ""
    """A file; empty for what the bag tells."""
    topics: Topics = field(default_factory=Topics)
    effort: str = ""
    """Declared unit of the states' effort; empty where nobody declared one."""
    keys: str = ""
    resimulate: str = ""
    """Plant on which the recorded reference is run again in closed loop; empty for none."""
    limit: int = 0
    """Rows after which to stop; 0 for all."""


@dataclass
class Agreement:
    """Of the recorded torque with the recomputed one."""

    of: str
    """Role of the variant that the bag was recorded with, or `classical part` where its model is not at hand."""
    rows: int = 0
    exact: int = 0
    """Rows that agree bit for bit."""
    squares: float = 0.0
    """Sum over rows and joints of the difference as a share of the torque limit, squared."""
    largest: float = 0.0
    """[Nm]"""


@dataclass
class BagResult:
    """All that a verdict needs of one bag; as JSON it is small."""

    bag: str
    arm: str = ""
    joints: list[str] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)
    """Torque limits [Nm]."""
    period: float = 0.0
    """[s]"""
    controller: str = ""
    context: dict[str, str] = field(default_factory=dict)
    findings: dict[str, Any] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    seconds: float = 0.0
    """Of recorded motion."""
    referenced: bool = False
    """Whether the bag tells what the arm was asked for."""
    refusals: dict[str, str] = field(default_factory=dict)
    """Why a model cannot be used, by role."""
    agreement: Agreement | None = None
    tallies: dict[str, Tally] = field(default_factory=dict)
    sums: list[JointSums] = field(default_factory=list)
    worst: list[Moment] = field(default_factory=list)
    faults: dict[str, list[str]] = field(default_factory=dict)
    immediate: dict[str, int] = field(default_factory=dict)
    """Questions to the candidate: asked, at_once, later."""
    resimulated: dict[str, dict[str, float]] = field(default_factory=dict)
    """Closed loop on a simulated plant, by role: scores. Not what the robot did."""
    plant: str = ""
    """The plant of that."""
    error: str = ""
    """Why the bag could not be replayed."""

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "BagResult":
        """Back from plain data."""
        made = cls(**{key: value for key, value in data.items() if key not in ("agreement", "tallies", "sums", "worst")})
        made.agreement = None if data["agreement"] is None else Agreement(**data["agreement"])
        made.sums = [JointSums(**one) for one in data["sums"]]
        made.worst = [Moment(**one) for one in data["worst"]]
        for role, one in data["tallies"].items():
            made.tallies[role] = Tally(**one)
        return made


def content_hash(path: Path) -> str:
    """Of all files of a bag, by name and content."""
    found = hashlib.sha256()
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        if file.is_file() and not file.name.startswith("."):
            found.update(file.name.encode() + b"\0")
            with file.open("rb") as stream:
                found.update(hashlib.file_digest(stream, "sha256").digest())
    return found.hexdigest()


def replay_bag(task: Task) -> BagResult:
    """Replays one bag. Raises what the user must mend; see `try_bag`."""
    return _Replay(task).run()


class _Replay:
    def __init__(self, task: Task) -> None:
        self._task = task
        path = Path(task.bag)
        arm = self._arm = load_arm(self._arm_name(path))
        unit = effort_unit(task.effort, arm) if task.effort else None
        reader = self._reader = LogReader(path, arm, task.topics, unit, effort_declared=bool(task.effort))
        context = reader.context
        friction = self._friction_model = self._friction()
        self._first: Trajectory | None = None
        controller = task.controller or context.controller
        remarks: list[str] = []
        if not controller:
            controller = DEFAULT_CONTROLLER if friction is not None else "adaptive+observer"
            remarks.append(f"the bag does not name its controller: {controller} is replayed; --controller names another")
        if needs_friction(controller) and friction is None:
            raise LogError(
                f"{path}: its controller '{controller}' needs the identified friction, which the bag does not hold; "
                "give --friction FILE"
            )
        keys = Path(task.keys) if task.keys else None
        self._models = [load_model(CANDIDATE, task.candidate, arm, keys)]
        if task.baseline:
            self._models.append(load_model(BASELINE, task.baseline, arm, keys))
        loaded = {one.role: one.runtime for one in self._models if one.runtime is not None}
        self._of = self._recorded_role(loaded, context.residual, context.bundle, context.bundle_sha256)
        variants: list[tuple[str, ResidualModel | None]] = [(CLASSICAL, None), *loaded.items()]
        loop = context.delivery == LOOP
        self._body = RigidBody(arm)
        self._playback = Playback(reader, arm, controller, friction, variants, loop=loop)
        size = arm.residual.size * arm.torque
        self._sizes = {role: np.minimum(size, model.bounds) for role, model in loaded.items() if model is not None}
        self._roles = [role for role in (CANDIDATE, BASELINE) if role in loaded]
        self._counting = {role: Counting(arm, self._sizes.get(role)) for role, _ in variants}
        bandwidth = make_controller(controller, arm, self._body, friction).corrector_bandwidth
        self._prediction = Prediction(arm, self._body, bandwidth, self._roles, CANDIDATE if CANDIDATE in loaded else None)
        candidate = loaded.get(CANDIDATE)
        self._immediacy = Immediacy(candidate, arm) if candidate is not None else None
        self._agreement = Agreement(self._of)
        labels = dict(context.labels)
        if context.plant:
            labels["plant"] = context.plant
        self._result = BagResult(
            bag=task.bag,
            arm=arm.name,
            joints=list(arm.joints),
            limits=arm.torque.tolist(),
            period=arm.period,
            controller=controller,
            context=labels,
            remarks=remarks,
            refusals={one.role: one.refusal for one in self._models if one.refusal},
        )

    def run(self) -> BagResult:
        """Through all of the bag."""
        rows = 0
        with garbage_kept_out():
            for block in self._playback.blocks():
                self._take(block)
                collect_garbage()
                rows += len(block.rows)
                if self._task.limit and rows >= self._task.limit:
                    break
        result, findings = self._result, self._reader.findings
        result.findings = findings.as_dict()
        result.remarks += [*findings.sentences(), *self._playback.refused]
        if self._playback.breaks:
            result.remarks.append(
                f"{self._playback.breaks} gaps too long to be carried over: the replay began anew behind each"
            )
        result.seconds = rows * self._arm.period
        result.referenced = findings.references > len(findings.refused_references)
        result.agreement = self._agreement if self._agreement.rows else None
        result.tallies = {role: one.tally for role, one in self._counting.items()}
        result.sums = self._prediction.sums
        result.worst = [self._prediction.worst[i] for i in sorted(self._prediction.worst)]
        for variant in self._playback.variants:
            told = [f"{fault.level.label} at {fault.time:.3f} s: {fault.reason}" for fault in variant.step.latch.history]
            if told:
                result.faults[variant.role] = told
        if self._task.resimulate and self._first is not None:
            models = {one.role: one.runtime for one in self._models if one.runtime is not None}
            result.plant = self._task.resimulate
            result.resimulated = resimulate(
                self._arm, self._task.resimulate, result.controller, self._friction_model, self._first, models
            )
        if self._immediacy is not None:
            found = self._immediacy
            result.immediate = {"asked": found.asked, "at_once": found.at_once, "later": found.later}
        return result

    def _arm_name(self, path: Path) -> str:
        name = self._task.arm or Bag(path).custom.get("arm", "")
        if not name:
            raise LogError(f"{path}: does not tell which arm it is of; name it with --arm")
        return name

    def _friction(self) -> FrictionModel | None:
        if self._task.friction:
            return load_friction(Path(self._task.friction), self._arm)
        text = self._reader.context.friction
        if not text:
            return None
        with tempfile.TemporaryDirectory(prefix="trimtab-") as folder:
            file = Path(folder) / "friction.yaml"
            file.write_text(text)
            return load_friction(file, self._arm)

    def _recorded_role(self, loaded: dict[str, ResidualModel], residual: str, bundle: str, sha256: str) -> str:
        """Which variant the bag was recorded with; loads the model where it is neither of the compared ones."""
        if not bundle or residual in ("off", "shadow"):
            return CLASSICAL
        for role, model in loaded.items():
            if model.bundle.manifest.sha256 == sha256:
                return role
        recorded = load_model(RECORDED, bundle, self._arm)
        if recorded.runtime is not None and recorded.sha256 == sha256:
            loaded[RECORDED] = recorded.runtime
            return RECORDED
        return "classical part"

    def _take(self, block: Block) -> None:
        rows = block.rows
        for _, reference in rows.references:
            self._first = self._first or reference.trajectory
        for role, counting in self._counting.items():
            counting.add(block, block.made[role])
        self._compare(block)
        wanted = {}
        for role in self._roles:
            made, size = block.made[role], self._sizes[role]
            finite = finite_rows(made.offered)
            offered = np.where(finite[:, None], made.offered, 0.0)
            wanted[role] = np.clip(offered, -size, size) * np.nan_to_num(made.confidence)[:, None]
        applied = np.where(np.isfinite(rows.applied), rows.applied, rows.learned)
        self._prediction.add(rows.stamp, rows.q, rows.qd, block.q_des, np.nan_to_num(applied), wanted)
        if self._immediacy is not None:
            self._question(self._immediacy, block)

    def _compare(self, block: Block) -> None:
        rows, found = block.rows, self._agreement
        recorded = rows.torque
        if self._of in block.made:
            made = block.made[self._of].torque
        else:
            limit = self._arm.torque
            made = np.clip(block.classical, -limit, limit)
            recorded = recorded - np.nan_to_num(np.where(np.isfinite(rows.learned), rows.learned, rows.applied))
        both = finite_rows(recorded) & finite_rows(made)
        off = np.abs(recorded[both] - made[both])
        found.rows += len(off)
        found.exact += int((off == 0.0).all(axis=1).sum())
        found.squares += float(((off / self._arm.torque) ** 2).sum())
        found.largest = max(found.largest, float(off.max(initial=0.0)))

    def _question(self, immediacy: Immediacy, block: Block) -> None:
        rows, dt = block.rows, self._arm.period
        for i in range(len(rows)):
            if not immediacy.wants():
                continue
            desired = Desired(block.q_des[i], block.qd_des[i], block.qdd_des[i])
            classical: FloatArray = np.nan_to_num(block.classical[i])
            immediacy.add(Sample(rows.q[i], rows.qd[i], desired, dt), classical, float(rows.stamp[i]) * 1e-9)


def try_bag(task: Task) -> BagResult:
    """The same, but a bad bag is a result too: it must not end the others."""
    try:
        return replay_bag(task)
    except LogError as error:
        return BagResult(bag=task.bag, arm=task.arm, error=str(error))


def with_bag(task: Task, bags: Sequence[Path]) -> list[Task]:
    """The same task for several bags."""
    return [replace(task, bag=str(bag)) for bag in bags]


__all__ = ["Agreement", "Arm", "BagResult", "Model", "Task", "content_hash", "replay_bag", "try_bag", "with_bag"]
