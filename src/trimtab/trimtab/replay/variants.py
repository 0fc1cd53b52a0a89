"""What is replayed side by side: the classical controller alone, and with each of the residual models."""

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns

import numpy as np

from trimtab.arm import Arm
from trimtab.control.base import Sample
from trimtab.dynamics import RigidBody
from trimtab.errors import BundleRefused
from trimtab.faults import Level
from trimtab.replay.made import ALL, CONTROLLER, FILTER, RESIDUAL, Made
from trimtab.replay.shared import SharedController
from trimtab.replay.stretch import Stretch
from trimtab.residual.bundle import load_bundle
from trimtab.residual.mailbox import Mailbox
from trimtab.residual.offer import Offer, ResidualSource
from trimtab.residual.runtime import ResidualModel
from trimtab.safety import Filtered, FilterRows, SafetyFilter
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
        self._within_limits = stack.within_limits
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
        if result.torque is not None and result.classical is not None:
            # Between nodes the model sees what was sent, less the learned part.
            self._baseline = result.classical if self._mailbox is None else self._within_limits(result.classical)
        if not tap.asked:
            self._ask(tap, result, q, qd, now)
        return result

    def answer_rows(self, rows: Stretch, out: Made) -> None:
        """The same for all rows of a stretch; `out` has room for as many."""
        step, tap = self.step, self.tap
        out.levels[:] = step.latch.level
        if tap is None:
            out.torque[:], out.limits[:] = rows.limited, rows.over
            out.stages[:, CONTROLLER] = out.stages[:, ALL] = rows.spent
        else:
            offers, failures = self._ask_rows(tap, rows, out)
            start = perf_counter_ns()
            self._judge_rows(rows, offers, failures, out)
            out.stages[:, CONTROLLER] = rows.spent
            out.stages[:, FILTER] = (perf_counter_ns() - start) // len(rows)
            out.stages[:, ALL] = out.stages[:, :ALL].sum(axis=1)
        step.pass_by(float(rows.now[-1]), rows.samples[-1].desired)

    def _ask_rows(self, tap: Tap, rows: Stretch, out: Made) -> tuple[list[Offer | None], dict[int, str]]:
        """What the filter gets for each row, and what failed by row; what the model said goes to `out`."""
        told: list[Offer | None] = []  # by the model, of each row
        failures: dict[int, str] = {}
        box, clock = self._mailbox, [perf_counter_ns()]
        between = rows.limited if box is not None else rows.classical  # what the model is told of the classical torque
        for sample, classical, now in zip(rows.samples, between, rows.now.tolist(), strict=True):
            try:
                offer = tap.offer(sample, classical, now)
            except Exception as error:  # kept by the tap
                offer = None
                failures[len(told)] = f"it failed: {error}"
            told.append(offer)
            clock.append(perf_counter_ns())
        out.stages[:, RESIDUAL] = np.diff(clock)
        plain = self.step.safety.plain_rows(told, rows.now, out.offered, out.confidence)
        for i in np.flatnonzero(~plain).tolist():
            odd = told[i]
            if odd is not None:
                out.confidence[i] = odd.confidence
                if odd.torque.shape == out.offered[i].shape:
                    out.offered[i] = odd.torque
        self._baseline = between[-1]
        if box is None:
            return told, failures
        return [self._by_post(box, *answer) for answer in zip(told, rows.samples, rows.now.tolist(), strict=True)], {}

    @staticmethod
    def _by_post(box: Mailbox, answer: Offer | None, sample: Sample, now: float) -> Offer | None:
        """Between nodes a state gets the newest offer that was made before, and its own goes to the next."""
        found = box.offer(sample, sample.q, now)
        if answer is not None:
            box.put(answer, sample.desired.q)
        return found

    def _judge_rows(self, rows: Stretch, offers: list[Offer | None], failures: dict[int, str], out: Made) -> None:
        """All rows through the filter: together as far as offers are plain, one by one where they are not."""
        step, safety = self.step, self.step.safety
        count, dof = rows.q.shape
        given: FloatArray = np.empty((count, 5, dof))
        given[:, 0], given[:, 2], given[:, 3], given[:, 4] = rows.classical, rows.q, rows.qd, rows.wanted[:, 0] - rows.q
        confidence: FloatArray = np.empty(count)
        plain = safety.plain_rows(offers, rows.now, given[:, 1], confidence)
        table = FilterRows(rows.now, rows.dt, given, confidence, np.empty((count, 3, dof)), out.limits)
        row = 0
        while row < count:
            on = step.latch.level is Level.NOMINAL
            if not on:
                confidence[row:] = np.nan  # it is off: nothing that it offers is used
            odd = np.flatnonzero(~plain[row:]) if on else plain[:0]
            end = row + int(odd[0]) if len(odd) else count
            sample, now = rows.samples[row], float(rows.now[row])
            if end == row:
                made = step.judge(rows.classical[row], offers[row], failures.get(row), sample, now)
                table.made[row] = made.residual, made.torque, made.learned
                out.limits[row] = made.limits
                row += 1
            else:
                row, doubt = safety.apply_rows(table, row, end)
                if doubt is not None and on:
                    last = row - 1
                    residual, torque, learned = table.made[last]
                    filtered = Filtered(torque, residual, learned, int(out.limits[last]), doubt)
                    args = rows.classical[last], offers[last], filtered, rows.samples[last], float(rows.now[last])
                    step.switch_off(doubt, *args)
            if on and step.latch.level is not Level.NOMINAL:
                out.levels[row - 1 :] = step.latch.level
        out.residual[:], out.torque[:] = table.made[:, 0], table.made[:, 1]

    def _ask(self, tap: Tap, result: StepResult, q: FloatArray, qd: FloatArray, now: float) -> None:
        try:
            offer = tap.offer(Sample(q, qd, result.desired, self._period), self._baseline, now)
        except Exception:  # kept by the tap
            return
        if self._mailbox is not None and offer is not None:
            self._mailbox.put(offer, result.desired.q)
