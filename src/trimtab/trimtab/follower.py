"""What the reference asks for at each instant: takes trajectories, refuses bad ones, brings motions to rest."""

from dataclasses import replace

import numpy as np

from trimtab.arm import Arm
from trimtab.control.base import Desired
from trimtab.errors import ReferenceRefused
from trimtab.reference import Trajectory, check_trajectory
from trimtab.typing import FloatArray

START_TOLERANCE = 0.02  # rad; how far a trajectory may start from where the reference is now
START_SPEED_TOLERANCE = 0.05  # the same for its speed, as a share of the velocity limit
START_SLACK = 0.1  # s; how long ago a trajectory may have started
PAUSE_PERIODS = 5  # without a state after which the reference waits
RESTING = 0.05  # share of the velocity limit below which an arm counts as resting
STOPPING_TIME = 0.3  # s in which a cancelled motion comes to rest


class ReferenceFollower:
    """The reference of one arm. Times are stamps of states [s]; the controller and the residual node both run it."""

    def __init__(self, arm: Arm, waits: bool = True) -> None:
        """waits: whether the reference stands still over a gap in the states, as it does for who drives the arm."""
        self._arm = arm
        self._waits = waits
        self._rest = np.zeros(arm.dof)
        self._period = arm.period
        self.longest_gap = PAUSE_PERIODS * arm.period
        """Between two states [s]; after a longer one the reference waits."""
        at_rest = self._rest[None, :]
        still = Desired(self._rest, self._rest, self._rest)
        once = Trajectory(np.zeros(1), at_rest, at_rest, at_rest).preceded_by(still, 1.0)
        once.at(0.5)  # compiles, before a loop waits for it
        once.extremes()
        self.reset()

    def reset(self) -> None:
        """Forgets the trajectory; the next state says where the arm holds."""
        self._trajectory: Trajectory | None = None
        self._start = 0.0
        self._last: float | None = None
        self._desired: Desired | None = None

    @property
    def desired(self) -> Desired | None:
        """What was asked for at the last state; None before the first."""
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
        last = start if self._last is None else self._last
        if start < last - START_SLACK:
            raise ReferenceRefused(f"the trajectory started {last - start:.3f} s ago; a stamp of zero means `now`")
        if start > last and self.busy(last):
            raise ReferenceRefused("a trajectory is under way; a new one must start now (a stamp of zero), not later")
        start = max(start, last)  # what began a moment ago begins now: entered in the middle, it would jump
        if trajectory.t[0] < 0.0:
            raise ReferenceRefused(f"the trajectory's first point lies {-trajectory.t[0]:.3f} s before its start")
        if trajectory.dof == self._arm.dof:
            if trajectory.t[0] > 0.0:
                trajectory = trajectory.preceded_by(now, float(trajectory.t[0]))
            else:
                self._check_start(trajectory, now)
        # An arm that stands a little outside its limits may be led back inside.
        arm = self._arm
        check_trajectory(replace(arm, lower=np.minimum(arm.lower, now.q), upper=np.maximum(arm.upper, now.q)), trajectory)
        self._trajectory, self._start = trajectory, start

    def cancel(self) -> None:
        """Drops the trajectory: the reference comes to rest within a moment."""
        moving, now = self._desired, self._last
        if moving is None or now is None or not self.busy(now):
            return
        self._come_to_rest(moving, now)

    def at(self, q: FloatArray, qd: FloatArray, now: float) -> Desired:
        """What is asked for at `now` [s], where the arm is measured at q [rad] and qd [rad/s]."""
        gap = 0.0 if self._last is None else now - self._last
        if self._waits and gap > self.longest_gap:
            # Nobody drove the arm meanwhile: the reference waits for it instead of running ahead.
            self._start += gap - self._period
        self._last = now
        self._desired = self._next(q, qd, now)
        return self._desired

    def ahead(self, now: FloatArray) -> FloatArray:
        """What `at` will give at the next states, (n,) [s], where none comes after a gap: (n, 3, dof).

        For after the first state. Changes nothing: `pass_by` does.
        """
        last = self._desired
        assert last is not None
        motion: FloatArray = np.empty((len(now), 3, self._arm.dof))
        motion[:] = last.q, last.qd, last.qdd
        if self._trajectory is not None:
            under_way = now >= self._start
            motion[under_way] = self._trajectory.motion(now[under_way] - self._start)
        return motion

    def pass_by(self, now: float, desired: Desired) -> None:
        """As if all states up to `now` [s] had been asked about; `desired`: what the last of them was told."""
        self._last, self._desired = now, desired

    def _next(self, q: FloatArray, qd: FloatArray, now: float) -> Desired:
        if self._trajectory is not None and now >= self._start:
            return self._trajectory.at(now - self._start)
        if self._desired is not None:
            return self._desired
        # The first state: from here on the arm holds, after its present motion has been brought to rest.
        found = Desired(q.copy(), qd.copy(), self._rest)
        if (np.abs(qd) > RESTING * self._arm.velocity).any():
            self._come_to_rest(found, now)
            return found
        return Desired(found.q, self._rest, self._rest)

    def _come_to_rest(self, moving: Desired, now: float) -> None:
        """Replaces the trajectory by a quintic that stops within a moment."""
        ahead = np.clip(moving.q + 0.5 * STOPPING_TIME * moving.qd, self._arm.lower, self._arm.upper)
        rest = np.zeros((1, self._arm.dof))
        stop = Trajectory(np.array([STOPPING_TIME]), ahead[None, :], rest, rest)
        self._trajectory, self._start = stop.preceded_by(moving, STOPPING_TIME), now

    def _check_start(self, trajectory: Trajectory, now: Desired) -> None:
        away = np.abs(trajectory.q[0] - now.q)
        i = int(away.argmax())
        if away[i] > START_TOLERANCE:
            raise ReferenceRefused(
                f"the trajectory starts with joint '{self._arm.joints[i]}' at {trajectory.q[0, i]:.4f} rad, the arm's "
                f"reference is at {now.q[i]:.4f}; give its first point a time_from_start > 0 to be led there"
            )
        faster = np.abs(trajectory.qd[0] - now.qd) / self._arm.velocity
        i = int(faster.argmax())
        if faster[i] > START_SPEED_TOLERANCE:
            raise ReferenceRefused(
                f"the trajectory starts with joint '{self._arm.joints[i]}' at {trajectory.qd[0, i]:.3f} rad/s, the arm's "
                f"reference moves at {now.qd[i]:.3f}; give its first point a time_from_start > 0 to be led there"
            )
