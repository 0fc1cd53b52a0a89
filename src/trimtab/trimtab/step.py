"""One control step, written once: state in, classical torque, limits, torque out.

The nodes, the lockstep simulation and the benchmarks all run this object.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from trimtab.arm import Arm
from trimtab.control import ControllerStack, Damp, Desired, Hold
from trimtab.control.base import Sample
from trimtab.dynamics import RigidBody
from trimtab.errors import NotFiniteError, ReferenceRefused
from trimtab.faults import FaultLatch, Level
from trimtab.reference import Trajectory, check_trajectory
from trimtab.typing import FloatArray

START_TOLERANCE = 0.02  # rad; how far a trajectory may start from where the reference is now
START_SPEED_TOLERANCE = 0.05  # the same for its speed, as a share of the velocity limit
START_SLACK = 0.1  # s; how long ago a trajectory may have started
PAUSE_PERIODS = 5  # without a state after which the reference waits
RESTING = 0.05  # share of the velocity limit below which an arm counts as resting
STOPPING_TIME = 0.3  # s in which a cancelled motion comes to rest


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one step decided. Arrays have shape (dof,)."""

    torque: FloatArray | None
    """What to send [Nm]; None when nothing may be commanded."""
    classical: FloatArray | None
    """The controller's torque before limiting [Nm]."""
    desired: Desired
    limited: bool
    """Whether a torque limit fired."""
    level: Level


class ControlStep:
    """read -> classical torque -> limits -> write. Times are the state's own stamps [s]."""

    def __init__(self, arm: Arm, body: RigidBody, controller: ControllerStack, state_timeout: float | None = None) -> None:
        """state_timeout: longest gap between two states [s]; the contract's unless given."""
        self.arm = arm
        self._state_timeout = arm.timeouts.state if state_timeout is None else state_timeout
        self.controller = controller
        self.latch = FaultLatch()
        self._order = arm.order()
        self._hold, self._damp = Hold(arm, body), Damp(arm, body)
        self._rest = np.zeros(arm.dof)
        self._trajectory: Trajectory | None = None
        self._start = 0.0
        self._last: float | None = None
        self._desired: Desired | None = None

    @property
    def desired(self) -> Desired | None:
        """What was asked for at the last step; None before the first state."""
        return self._desired

    def busy(self, now: float) -> bool:
        """Whether a trajectory is still under way."""
        return self._trajectory is not None and now < self._start + self._trajectory.duration

    def follow(self, trajectory: Trajectory, start: float) -> None:
        """Takes a trajectory that begins at `start` [s], or refuses it whole and goes on with what it had.

        A first knot later than 0 is reached by a quintic from where the reference is now.
        """
        now = self._desired
        if now is None:
            raise ReferenceRefused("no state has been received yet, so nothing is known of where the arm is")
        if self.latch.level is not Level.NOMINAL:
            raise ReferenceRefused(f"the arm is not in nominal operation ({self.latch}); reset it first")
        last = start if self._last is None else self._last
        if start < last - START_SLACK:
            raise ReferenceRefused(f"the trajectory started {last - start:.3f} s ago; a stamp of zero means `now`")
        if start > last and self.busy(last):
            raise ReferenceRefused("a trajectory is under way; a new one must start now (a stamp of zero), not later")
        start = max(start, last)  # what began a moment ago begins now: entered in the middle, it would jump
        if trajectory.t[0] < 0.0:
            raise ReferenceRefused(f"the trajectory's first point lies {-trajectory.t[0]:.3f} s before its start")
        if trajectory.dof == self.arm.dof:
            if trajectory.t[0] > 0.0:
                trajectory = trajectory.preceded_by(now, float(trajectory.t[0]))
            else:
                self._check_start(trajectory, now)
        # An arm that stands a little outside its limits may be led back inside.
        check_trajectory(
            replace(self.arm, lower=np.minimum(self.arm.lower, now.q), upper=np.maximum(self.arm.upper, now.q)), trajectory
        )
        self._trajectory, self._start = trajectory, start

    def cancel(self) -> None:
        """Drops the trajectory: the reference comes to rest within a moment."""
        moving, now = self._desired, self._last
        if moving is None or now is None or not self.busy(now):
            return
        self._come_to_rest(moving, now)

    def reset(self) -> None:
        """Back to nominal: faults, integrals, estimates and the trajectory are forgotten; the arm holds where it is."""
        self.latch.reset()
        self.controller.reset()
        self._hold.release()
        self._trajectory = None
        self._last = None
        self._desired = None

    def step(self, q: FloatArray, qd: FloatArray, now: float) -> StepResult:
        """One period: q [rad] and qd [rad/s] measured at `now` [s]."""
        dt = self._elapsed(now)
        self._check_state(q, qd, now)
        if self.latch.level is Level.STOP:
            resting = self._desired or Desired(np.zeros_like(self._rest), self._rest, self._rest)
            return StepResult(None, None, resting, False, Level.STOP)
        desired = self._desired = self._next_desired(q, qd, now)
        if np.abs(desired.q - q).max() > self.arm.trips.tracking_error:
            i = int(np.abs(desired.q - q).argmax())
            self.latch.trip(
                Level.HOLD,
                f"joint '{self.arm.joints[i]}' is {abs(desired.q[i] - q[i]):.3f} rad from its reference "
                f"(trip at {self.arm.trips.tracking_error:g})",
                now,
            )
        classical = self._torque(Sample(q, qd, desired, dt))
        torque = np.minimum(np.maximum(classical, -self.arm.torque), self.arm.torque)
        if not np.isfinite(torque).all():
            self.latch.trip(Level.STOP, "the controller's torque is not finite", now)
            return StepResult(None, None, desired, False, Level.STOP)
        self.controller.applied(torque)
        return StepResult(torque, classical, desired, bool((torque != classical).any()), self.latch.level)

    def _torque(self, sample: Sample) -> FloatArray:
        if self.latch.level is Level.NOMINAL:
            return self.controller.torque(sample)
        if self.latch.level is Level.HOLD:
            return self._hold.torque(sample.q, sample.qd)
        return self._damp.torque(sample.q, sample.qd)

    def _elapsed(self, now: float) -> float:
        """Time since the last step; a gap or a jump back latches."""
        if not math.isfinite(now):
            self.latch.trip(Level.STOP, f"the state's stamp is {now}", now)
            return self.arm.period
        last, self._last = self._last, now
        if last is None:
            return self.arm.period
        if now <= last:
            self.latch.trip(Level.STOP, f"the state's stamp went from {last:.6f} s to {now:.6f} s", now)
            return self.arm.period
        if now - last > self._state_timeout:
            self.latch.trip(Level.STOP, f"no state for {now - last:.3f} s (allowed {self._state_timeout:g} s)", now)
        elif now - last > PAUSE_PERIODS * self.arm.period:
            # Nobody drove the arm meanwhile: the reference waits for it instead of running ahead.
            self._start += now - last - self.arm.period
        return now - last

    def _check_state(self, q: FloatArray, qd: FloatArray, now: float) -> None:
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
            self.latch.trip(Level.HOLD, f"joint '{arm.joints[i]}' is at {q[i]:.3f} rad, outside its limits", now)
        speed = np.abs(qd) / arm.velocity
        if speed.max() > arm.trips.velocity:
            i = int(speed.argmax())
            self.latch.trip(
                Level.DAMP,
                f"joint '{arm.joints[i]}' moves at {abs(qd[i]):.2f} rad/s, its limit is {arm.velocity[i]:g}",
                now,
            )

    def _next_desired(self, q: FloatArray, qd: FloatArray, now: float) -> Desired:
        if self._trajectory is not None and now >= self._start:
            return self._trajectory.at(now - self._start)
        if self._desired is not None:
            return self._desired
        # The first state: from here on the arm holds, after its present motion has been brought to rest.
        found = Desired(q.copy(), qd.copy(), self._rest)
        if (np.abs(qd) > RESTING * self.arm.velocity).any():
            self._come_to_rest(found, now)
            return found
        return Desired(found.q, self._rest, self._rest)

    def _come_to_rest(self, moving: Desired, now: float) -> None:
        """Replaces the trajectory by a quintic that stops within a moment."""
        ahead = np.clip(moving.q + 0.5 * STOPPING_TIME * moving.qd, self.arm.lower, self.arm.upper)
        rest = np.zeros((1, self.arm.dof))
        stop = Trajectory(np.array([STOPPING_TIME]), ahead[None, :], rest, rest)
        self._trajectory, self._start = stop.preceded_by(moving, STOPPING_TIME), now

    def _check_start(self, trajectory: Trajectory, now: Desired) -> None:
        away = np.abs(trajectory.q[0] - now.q)
        i = int(away.argmax())
        if away[i] > START_TOLERANCE:
            raise ReferenceRefused(
                f"the trajectory starts with joint '{self.arm.joints[i]}' at {trajectory.q[0, i]:.4f} rad, the arm's "
                f"reference is at {now.q[i]:.4f}; give its first point a time_from_start > 0 to be led there"
            )
        faster = np.abs(trajectory.qd[0] - now.qd) / self.arm.velocity
        i = int(faster.argmax())
        if faster[i] > START_SPEED_TOLERANCE:
            raise ReferenceRefused(
                f"the trajectory starts with joint '{self.arm.joints[i]}' at {trajectory.qd[0, i]:.3f} rad/s, the arm's "
                f"reference moves at {now.qd[i]:.3f}; give its first point a time_from_start > 0 to be led there"
            )
