"""A bag through the control steps of all variants, state by state, in process and without a clock: open loop."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.arm import Arm
from trimtab.bags.reading import LogReader, Reference, Rows
from trimtab.control import make_controller
from trimtab.control.friction import FrictionModel
from trimtab.dynamics import RigidBody
from trimtab.errors import ReferenceRefused
from trimtab.recording.context import RecordingContext
from trimtab.replay.made import ALL, CONTROLLER, Made
from trimtab.replay.shared import SharedController
from trimtab.replay.stretch import work_out
from trimtab.replay.variants import Variant
from trimtab.residual.runtime import ResidualModel
from trimtab.timing import Stage
from trimtab.typing import FloatArray

LOOP = "loop"
"""Delivery of a bag of `trimtab run`: the model is asked before the state is answered, and time is counted in periods."""


@dataclass
class Block:
    """Rows, what was asked for in them, and what each variant made of them."""

    rows: Rows
    classical: FloatArray
    """Torque of the classical stack before the limits, (n, dof) [Nm]; NaN where it was not asked."""
    q_des: FloatArray
    qd_des: FloatArray
    qdd_des: FloatArray
    made: dict[str, Made]


def state_timeout(context: RecordingContext, arm: Arm) -> float:
    """For how long the recorded controller went without a state [s]; the contract's where the bag does not tell."""
    try:
        return float(context.state_timeout) or arm.timeouts.state
    except ValueError:
        return arm.timeouts.state


class Playback:
    """Feeds one bag to its variants."""

    def __init__(
        self,
        reader: LogReader,
        arm: Arm,
        controller: str,
        friction: FrictionModel | None,
        models: Sequence[tuple[str, ResidualModel | None]],
        *,
        loop: bool,
    ) -> None:
        """models: role and model of each variant; loop: as `trimtab run` does it, instead of as between nodes."""
        body = RigidBody(arm)
        self._reader, self._arm, self._loop = reader, arm, loop
        timeout = None if loop else state_timeout(reader.context, arm)
        self._longest_gap = math.inf if timeout is None else 1e9 * timeout  # ns
        self._stack = SharedController(make_controller(controller, arm, body, friction), arm)
        self.variants = [Variant(role, arm, body, self._stack, model, timeout) for role, model in models]
        self.refused: list[str] = []
        """References that the arm's own checks refused."""
        self._early: list[Reference] = []
        self._first: int | None = None
        self._newest: int | None = None
        self._segment = 0
        self.breaks = 0
        """Gaps over which nothing can be carried: states that this bag lacks, which the robot may well have had."""

    def blocks(self) -> Iterator[Block]:
        """All rows, with what was made of them."""
        for rows in self._reader.blocks():
            if rows.segment != self._segment:
                self._segment = rows.segment
                self._begin_again()
            yield self._play(rows)

    def _begin_again(self) -> None:
        """The clock jumped back: nothing of what was before holds."""
        self._forget()
        self._early.clear()

    def _forget(self) -> None:
        self._stack.reset()
        for variant in self.variants:
            variant.reset()
        self._first = self._newest = None

    def _play(self, rows: Rows) -> Block:
        count, dof = len(rows), self._arm.dof
        made = {variant.role: Made.room(count, dof) for variant in self.variants}
        classical, q_des, qd_des, qdd_des = (np.full((count, dof), np.nan) for _ in range(4))
        block = Block(rows, classical, q_des, qd_des, qdd_des, made)
        references = list(rows.references)
        stack, stamps = self._stack, rows.stamp.tolist()
        pairs = [(variant, made[variant.role]) for variant in self.variants]
        i = 0
        while i < count:
            while references and references[0][0] <= i:
                self._take(references.pop(0)[1])
            stamp = stamps[i]
            if self._newest is not None and stamp - self._newest > self._longest_gap:
                self.breaks += 1
                self._forget()
            now = self._time_of(stamp)
            q, qd = rows.q[i], rows.qd[i]
            if self._newest is None:
                self._set_out(q, qd, now)
            done = self._pass_by(block, i, references[0][0] if references else count)
            if done > i:
                self._newest, i = stamps[done - 1], done
                continue
            self._newest = stamp
            stack.begin()
            for variant, out in pairs:
                self._answer(variant, out, i, q, qd, now)
            desired = self.variants[0].step.desired
            if desired is not None:
                block.q_des[i], block.qd_des[i], block.qdd_des[i] = desired.q, desired.qd, desired.qdd
            if stack.classical is not None:
                block.classical[i] = stack.classical
            stack.tell(rows.torque[i], rows.learned[i], rows.applied[i])
            if self._early and not self._loop:
                for early in self._early:
                    self._follow(early)
                self._early.clear()
            i += 1
        for _, reference in references:
            self._take(reference)
        return block

    def _pass_by(self, block: Block, first: int, end: int) -> int:
        """Works out together as many rows as nothing happens in; gives the first that is not done."""
        if self._newest is None and not self._loop:
            return first
        rows, step = block.rows, self.variants[0].step
        now = self._times_of(rows.stamp[first:end])
        wanted = step.foresee(rows.q[first:end], rows.qd[first:end], now)
        if len(wanted) == 0:
            return first
        dt = np.diff(now, prepend=now[0] if step.last is None else step.last)
        stretch = work_out(self._stack, rows, first, now, dt, wanted)
        done = first + len(stretch)
        if done > first:
            block.classical[first:done] = stretch.classical
            motion = stretch.wanted
            block.q_des[first:done], block.qd_des[first:done], block.qdd_des[first:done] = (
                motion[:, 0],
                motion[:, 1],
                motion[:, 2],
            )
            for variant in self.variants:
                variant.answer_rows(stretch, block.made[variant.role].part(first, done))
        return done

    def _times_of(self, stamps: np.ndarray) -> FloatArray:
        """The same as `_time_of` for many stamps."""
        if not self._loop:
            return stamps * 1e-9
        return np.rint((stamps - self._first) * 1e-9 * self._arm.rate) * self._arm.period

    def _answer(self, variant: Variant, out: Made, i: int, q: FloatArray, qd: FloatArray, now: float) -> None:
        times = variant.times
        times.begin()
        result = variant.answer(q, qd, now)
        times.mark(Stage.CONTROLLER if variant.tap is None else Stage.RESIDUAL if not self._loop else Stage.CONTROLLER)
        times.end()
        if result.torque is not None:
            out.torque[i] = result.torque
        if result.residual is not None:
            out.residual[i] = result.residual
        out.limits[i], out.levels[i] = result.limits, result.level
        if variant.tap is not None and variant.tap.offered is not None:
            offered = variant.tap.offered
            if offered.torque.shape == q.shape:
                out.offered[i] = offered.torque
            out.confidence[i] = offered.confidence
        row = times.newest()
        classical = self._stack.spent if variant is not self.variants[0] else 0  # computed once, needed by each
        stages = (row[stage] for stage in (Stage.CONTROLLER, Stage.RESIDUAL, Stage.FILTER))
        out.stages[i] = (*stages, sum(row))
        out.stages[i, [CONTROLLER, ALL]] += classical

    def _time_of(self, stamp: int) -> float:
        """The time that the step is told for a stamp [s]: bit for bit the one that it was told when it was recorded."""
        if self._first is None:
            self._first = stamp
        if not self._loop:
            return stamp * 1e-9
        return round((stamp - self._first) * 1e-9 * self._arm.rate) * self._arm.period

    def _set_out(self, q: FloatArray, qd: FloatArray, now: float) -> None:
        """In a run without messages the first state also says where the arm is before the reference begins."""
        if not self._loop:
            return
        self._stack.begin()
        for variant in self.variants:
            variant.answer(q, qd, now - self._arm.period)
        self._stack.tell(*(np.full(self._arm.dof, np.nan) for _ in range(3)))
        for early in self._early:
            self._follow(early)
        self._early.clear()

    def _take(self, reference: Reference) -> None:
        if self._newest is None:
            self._early.append(reference)  # the planner saw the arm before this bag did
        else:
            self._follow(reference)

    def _follow(self, reference: Reference) -> None:
        if self._loop:
            start = 0.0 if self._first is None else self._time_of(max(reference.stamp, self._first))
        else:
            start = (reference.stamp or self._newest or 0) / 1e9
        for variant in self.variants:
            try:
                if reference.trajectory is None:
                    variant.step.cancel()
                else:
                    variant.step.follow(reference.trajectory, start)
            except ReferenceRefused as error:
                text = f"reference refused: {error}"
                if text not in self.refused:
                    self.refused.append(text)
