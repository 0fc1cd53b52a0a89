"""One control step, written once: state in, classical torque, residual, safety filter, torque out.

The nodes, the lockstep simulation and the benchmarks all run this object.
"""

import math
from dataclasses import dataclass

import numpy as np

from trimtab.arm import Arm
from trimtab.control import ControllerStack, Damp, Desired, Hold
from trimtab.control.base import Sample
from trimtab.dynamics import RigidBody
from trimtab.errors import NotFiniteError, ReferenceRefused
from trimtab.faults import FaultLatch, Level, Snapshot
from trimtab.follower import ReferenceFollower
from trimtab.joints import Bounds, all_finite
from trimtab.reference import Trajectory
from trimtab.residual.offer import Offer, ResidualSource
from trimtab.safety import Filtered, Limit, SafetyFilter, limit_names
from trimtab.timing import CycleTimes, Stage
from trimtab.typing import FloatArray

# Members of enumerations that every step needs: looking one up in its class takes several times as long.
_TORQUE = int(Limit.TORQUE)
_NOMINAL, _STOP = Level.NOMINAL, Level.STOP
_CONTROLLER_STAGE, _RESIDUAL_STAGE, _FILTER_STAGE = Stage.CONTROLLER, Stage.RESIDUAL, Stage.FILTER


@dataclass(slots=True)
class StepResult:
    """What one step decided. Arrays have shape (dof,). Treat it as frozen; it is not because each step makes one."""

    torque: FloatArray | None
    """What to send [Nm]; None when nothing may be commanded."""
    classical: FloatArray | None
    """The controller's torque before limiting [Nm]."""
    desired: Desired
    level: Level
    residual: FloatArray | None = None
    """What was added to the classical torque [Nm]; None where there is no residual."""
    learned: FloatArray | None = None
    """The learned part of what was sent, after the torque limits [Nm]; None where there is no residual."""
    offer: Offer | None = None
    """What the residual's source offered, applied or not."""
    limits: int = 0
    """Bits of `Limit` that fired."""

    @property
    def limited(self) -> bool:
        """Whether a torque limit fired."""
        return bool(self.limits & _TORQUE)


class ControlStep:
    """read -> classical torque -> residual -> safety filter -> write. Times are the state's own stamps [s]."""

    def __init__(
        self,
        arm: Arm,
        body: RigidBody,
        controller: ControllerStack,
        state_timeout: float | None = None,
        residual: ResidualSource | None = None,
        safety: SafetyFilter | None = None,
        times: CycleTimes | None = None,
    ) -> None:
        """state_timeout: longest gap between two states [s]; the contract's unless given.

        residual: where learned torque comes from; None for none. safety: the contract's filter unless given. times: who
        is told which part of a step took how long.
        """
        self.arm = arm
        self._state_timeout = arm.timeouts.state if state_timeout is None else state_timeout
        self.controller = controller
        self.residual = residual
        self.authority = 1.0
        """Share of the residual that may act: 0 is shadow, computed and judged but not applied."""
        self.safety = safety or SafetyFilter(arm, body, corrector_bandwidth=controller.corrector_bandwidth)
        self.latch = FaultLatch()
        self._times = times or CycleTimes(capacity=1)
        self._order = arm.order()
        self._hold, self._damp = Hold(arm, body), Damp(arm, body)
        self._follower = ReferenceFollower(arm)
        self._nowhere = Desired(np.zeros(arm.dof), np.zeros(arm.dof), np.zeros(arm.dof))
        self._last: float | None = None
        self._period = arm.period
        # A state within these bounds trips nothing; only one outside of them is looked at closely.
        margin, fastest = arm.trips.position_margin, arm.trips.velocity * arm.velocity
        farthest = np.full(arm.dof, arm.trips.tracking_error)
        self._positions = Bounds.certain(arm.lower - margin, arm.upper + margin)
        self._velocities = Bounds.certain(-fastest, fastest)
        self._errors = Bounds(-farthest, farthest)

    @property
    def last(self) -> float | None:
        """Stamp of the newest state [s]; None before the first."""
        return self._last

    @property
    def desired(self) -> Desired | None:
        """What was asked for at the last step; None before the first state."""
        return self._follower.desired

    def busy(self, now: float) -> bool:
        """Whether a trajectory is still under way."""
        return self._follower.busy(now)

    def follow(self, trajectory: Trajectory, start: float) -> None:
        """Takes a trajectory that begins at `start` [s], or refuses it whole and goes on with what it had."""
        if not self.latch.level.controlled:
            raise ReferenceRefused(f"the arm is not in nominal operation ({self.latch}); reset it first")
        self._follower.follow(trajectory, start)

    def cancel(self) -> None:
        """Drops the trajectory: the reference comes to rest within a moment."""
        self._follower.cancel()

    def reset(self) -> None:
        """Back to nominal: faults, integrals, estimates and the trajectory are forgotten; the arm holds where it is."""
        self.latch.reset()
        self.controller.reset()
        self.safety.reset()
        if self.residual is not None:
            self.residual.reset()
        self._hold.release()
        self._follower.reset()
        self._last = None

    def reset_residual(self) -> bool:
        """Lets a residual that was switched off act again, while the arm goes on; False where that is not the level."""
        if self.latch.level is not Level.RESIDUAL_OFF:
            return False
        self.latch.reset()
        self.safety.forgive()
        if self.residual is not None:
            self.residual.reset()
        return True

    def step(self, q: FloatArray, qd: FloatArray, now: float) -> StepResult:
        """One period: q [rad] and qd [rad/s] measured at `now` [s]."""
        now = float(now)  # a numpy number would make all that is computed from it slow
        dt = self._elapsed(now)
        if not (self._positions.hold(q) and self._velocities.hold(qd)):
            self._check_state(q, qd, now)
        if self.latch.level is _STOP:
            self.safety.drop()
            return StepResult(None, None, self._follower.desired or self._nowhere, _STOP)
        desired = self._follower.at(q, qd, now)
        sample = Sample(q, qd, desired, dt)
        if not self._errors.hold(sample.error):
            self._check_tracking(sample, now)
        classical, offer, made = self._torque(sample, now)
        if not all_finite(made.torque):
            self.latch.trip(Level.STOP, "the controller's torque is not finite", now)
            return StepResult(None, None, desired, _STOP)
        self.controller.applied(made.torque, made.learned)
        residual, learned = (None, None) if self.residual is None else (made.residual, made.learned)
        return StepResult(made.torque, classical, desired, self.latch.level, residual, learned, offer, made.limits)

    def foresee(self, q: FloatArray, qd: FloatArray, now: FloatArray) -> FloatArray:
        """What the next states, (n, dof), (n, dof) and (n,), will be asked for: (m, 3, dof), of the first m of them.

        The m are those that no look at the state trips. They can be worked out all at once, where the motion is known
        beforehand (a replay); `pass_by` then goes on behind them.
        """
        none: FloatArray = np.empty((0, 3, self.arm.dof))
        last = self._last
        if last is None or not self.latch.level.controlled:
            return none
        dt = np.diff(now, prepend=last)
        calm = (dt > 0.0) & (dt <= min(self._state_timeout, self._follower.longest_gap))
        calm &= self._positions.hold_rows(q) & self._velocities.hold_rows(qd)
        count = _leading(calm)
        if count == 0:
            return none
        wanted = self._follower.ahead(now[:count])
        return wanted[: _leading(self._errors.hold_rows(wanted[:, 0] - q[:count]))]

    def pass_by(self, now: float, desired: Desired) -> None:
        """As if all states up to `now` [s] had been stepped through; `desired`: what the last of them was asked for."""
        self._last = now
        self._follower.pass_by(now, desired)

    def learn(self) -> None:
        """Works out what the last step showed of the residual: for a loop whose command is written. Changes no torque."""
        self.safety.learn()

    def _torque(self, sample: Sample, now: float) -> tuple[FloatArray, Offer | None, Filtered]:
        """Classical torque, what was offered on top, and what comes of the two."""
        level = self.latch.level
        if level is not _NOMINAL and not level.controlled:
            self.safety.drop()
            behaviour = self._hold if level is Level.HOLD else self._damp
            torque = behaviour.torque(sample.q, sample.qd)
            return torque, None, self.safety.limited(torque)
        classical = self.controller.torque(sample)
        mark = self._times.mark
        mark(_CONTROLLER_STAGE)
        if self.residual is None:
            made = self.safety.limited(classical)
            mark(_FILTER_STAGE)
            return classical, None, made
        offer, doubt = None, None
        if level is _NOMINAL:
            try:
                offer = self.residual.offer(sample, classical, now)
            except Exception as error:  # whatever a model does, the classical torque goes on
                doubt = f"it failed: {error}"
            mark(_RESIDUAL_STAGE)
        made = self.judge(classical, offer, doubt, sample, now)
        mark(_FILTER_STAGE)
        return classical, offer, made

    def judge(self, classical: FloatArray, offer: Offer | None, doubt: str | None, sample: Sample, now: float) -> Filtered:
        """What comes of a classical torque and an offer; a doubt, here or already there, switches the residual off."""
        try:
            made = self.safety.apply(classical, offer, sample, now, authority=self.authority)
            doubt = doubt or made.doubt
        except Exception as error:  # whatever a model hands over, the classical torque goes on
            self.safety.drop()
            made, doubt = self.safety.limited(classical), f"it failed: {error}"
        if doubt is not None:
            self.switch_off(doubt, classical, offer, made, sample, now)
        return made

    def switch_off(
        self, doubt: str, classical: FloatArray, offer: Offer | None, made: Filtered, sample: Sample, now: float
    ) -> None:
        """The residual is off from here on; the snapshot tells what was true."""
        self.latch.trip(Level.RESIDUAL_OFF, f"residual: {doubt}", now, _snapshot(sample, classical, offer, made))

    def _elapsed(self, now: float) -> float:
        """Time since the last step; a gap or a jump back latches."""
        if not math.isfinite(now):
            self.latch.trip(Level.STOP, f"the state's stamp is {now}", now)
            return self._period
        last, self._last = self._last, now
        if last is None:
            return self._period
        if now <= last:
            self.latch.trip(Level.STOP, f"the state's stamp went from {last:.6f} s to {now:.6f} s", now)
            return self._period
        if now - last > self._state_timeout:
            self.latch.trip(Level.STOP, f"no state for {now - last:.3f} s (allowed {self._state_timeout:g} s)", now)
        return now - last

    def _check_state(self, q: FloatArray, qd: FloatArray, now: float) -> None:
        """Latches where a state is not finite, outside the limits or too fast."""
        arm = self.arm
        try:
            self._order.require_finite(q, "position")
            self._order.require_finite(qd, "velocity")
        except NotFiniteError as error:
            self.latch.trip(Level.STOP, str(error), now)
            return
        outside = np.maximum(arm.lower - q, q - arm.upper)
        if outside.max() > arm.trips.position_margin:
            i = int(outside.argmax())
            reason = f"joint '{arm.joints[i]}' is at {q[i]:.3f} rad, outside its limits"
            self.latch.trip(Level.HOLD, reason, now, {"q": q.tolist(), "qd": qd.tolist()})
        speed = np.abs(qd) / arm.velocity
        if speed.max() > arm.trips.velocity:
            i = int(speed.argmax())
            reason = f"joint '{arm.joints[i]}' moves at {abs(qd[i]):.2f} rad/s, its limit is {arm.velocity[i]:g}"
            self.latch.trip(Level.DAMP, reason, now, {"q": q.tolist(), "qd": qd.tolist()})

    def _check_tracking(self, sample: Sample, now: float) -> None:
        """Latches where the arm is too far from its reference."""
        away = np.abs(sample.error)
        if away.max() > self.arm.trips.tracking_error:
            i = int(away.argmax())
            self.latch.trip(
                Level.HOLD,
                f"joint '{self.arm.joints[i]}' is {away[i]:.3f} rad from its reference "
                f"(trip at {self.arm.trips.tracking_error:g})",
                now,
                {"q": sample.q.tolist(), "qd": sample.qd.tolist(), "q_des": sample.desired.q.tolist()},
            )


def _leading(good: np.ndarray) -> int:
    """How many of the first are."""
    return len(good) if good.all() else int(good.argmin())


def _snapshot(sample: Sample, classical: FloatArray, offer: Offer | None, made: Filtered) -> Snapshot:
    """What was true when a residual was switched off: enough to see why, on /diagnostics and in the bag."""
    if not isinstance(offer, Offer):
        offer = None  # a source that breaks its contract
    return {
        "q": sample.q.tolist(),
        "qd": sample.qd.tolist(),
        "q_des": sample.desired.q.tolist(),
        "classical": classical.tolist(),
        "offered": None if offer is None else [str(value) for value in np.ravel(offer.torque)[:32]],
        "confidence": None if offer is None else str(offer.confidence),
        "residual": made.residual.tolist(),
        "limits": limit_names(made.limits),
    }
