"""What is replayed side by side: the classical controller alone, and with each of the residual models."""

from dataclasses import dataclass
from pathlib import Path

from trimtab.arm import Arm
from trimtab.control.base import Sample
from trimtab.dynamics import RigidBody
from trimtab.errors import BundleRefused
from trimtab.replay.shared import SharedController
from trimtab.residual.bundle import load_bundle
from trimtab.residual.mailbox import Mailbox
from trimtab.residual.offer import Offer, ResidualSource
from trimtab.residual.runtime import ResidualModel
from trimtab.safety import SafetyFilter
from trimtab.step import ControlStep, StepResult
from trimtab.timing import CycleTimes
from trimtab.typing import FloatArray

CLASSICAL, BASELINE, CANDIDATE, RECORDED = "classical", "baseline", "candidate", "recorded"


@dataclass(frozen=True)
class Model:
    """A residual by its role, or why it cannot be used."""

    role: str
    name: str
    """As the user named it."""
    sha256: str = ""
    runtime: ResidualModel | None = None
    refusal: str = ""


def load_model(role: str, name: str, arm: Arm, trusted_keys: Path | None = None) -> Model:
    """Loads a bundle; what a robot would refuse is told, not raised: that is a verdict on the bundle."""
    try:
        runtime = ResidualModel(load_bundle(name, arm, trusted_keys), arm)
    except BundleRefused as error:
        return Model(role, name, refusal=str(error))
    return Model(role, name, runtime.bundle.manifest.sha256, runtime)


class Tap:
    """Passes a model's offers on and keeps the newest. A model whose residual was switched off goes on being asked."""

    def __init__(self, source: ResidualSource) -> None:
        self._source = source
        self.offered: Offer | None = None
        self.asked = False
        self.failure = ""

    def begin(self) -> None:
        """A new state."""
        self.offered, self.asked = None, False

    def reset(self) -> None:
        """Forgets what the model carries from step to step."""
        self._source.reset()

    def offer(self, sample: Sample, classical: FloatArray, now: float) -> Offer | None:
        """The model's offer."""
        self.asked = True
        try:
            self.offered = self._source.offer(sample, classical, now)
        except Exception as error:  # whatever a model does, the replay goes on
            self.failure = self.failure or f"{type(error).__name__}: {error}"
            raise
        return self.offered


class Variant:
    """One control step with its filter, fed with the recorded states."""

    def __init__(
        self,
        role: str,
        arm: Arm,
        body: RigidBody,
        stack: SharedController,
        model: ResidualModel | None,
        state_timeout: float | None,
    ) -> None:
        """state_timeout: of recorded nodes, between which each state is answered with the offer for the one before [s].

        None: as `trimtab run` does it, where the model is asked before the state is answered.
        """
        nodes = state_timeout is not None
        self.role = role
        self.model = model
        self.tap = None if model is None else Tap(model)
        self.times = CycleTimes(capacity=1)
        self._period = arm.period
        self._mailbox = Mailbox(arm) if nodes and model is not None else None
        self._baseline: FloatArray = arm.torque * 0.0
        silence = None if state_timeout is None else max(state_timeout, arm.timeouts.command)
        safety = SafetyFilter(
            arm,
            body,
            bounds=None if model is None else model.bounds,
            corrector_bandwidth=stack.corrector_bandwidth,
            silence=silence,
        )
        source = self._mailbox or self.tap
        self.step = ControlStep(arm, body, stack, state_timeout, residual=source, safety=safety, times=self.times)

    def reset(self) -> None:
        """As before the first state. The stack is shared: somebody else resets it."""
        self.step.reset()
        if self.tap is not None:
            self.tap.reset()
        self._baseline = self._baseline * 0.0

    def answer(self, q: FloatArray, qd: FloatArray, now: float) -> StepResult:
        """One state through the step; between nodes the model is asked afterwards, for the next state."""
        tap = self.tap
        if tap is None:
            return self.step.step(q, qd, now)
        tap.begin()
        result = self.step.step(q, qd, now)
        if not tap.asked:
            self._ask(tap, result, q, qd, now)
        return result

    def _ask(self, tap: Tap, result: StepResult, q: FloatArray, qd: FloatArray, now: float) -> None:
        nodes = self._mailbox
        if result.torque is not None:
            classical = result.torque if result.learned is None else result.torque - result.learned
            self._baseline = classical if nodes is not None or result.classical is None else result.classical
        try:
            offer = tap.offer(Sample(q, qd, result.desired, self._period), self._baseline, now)
        except Exception:  # kept by the tap
            return
        if nodes is not None and offer is not None:
            nodes.put(offer, result.desired.q)
