"""The safety filter: classical torque in, residual bounded and judged, torque out. One for simulation, replay and robot."""

import math
from dataclasses import dataclass

import numpy as np

from trimtab.arm import Arm
from trimtab.control.base import Sample
from trimtab.dynamics import RigidBody
from trimtab.joints import Bounds
from trimtab.residual.offer import Offer
from trimtab.safety.aborts import AbortMonitor
from trimtab.safety.evidence import Evidence
from trimtab.safety.limits import Limit
from trimtab.safety.tank import EnergyTank
from trimtab.typing import FloatArray

FRESH_PERIODS = 2  # an offer that answers a state further away than this counts as missing
ROUNDING = 1e-6  # s; stamps are whole nanoseconds turned into floats

_TORQUE, _SIZE, _SLEW, _ENERGY = int(Limit.TORQUE), int(Limit.SIZE), int(Limit.SLEW), int(Limit.ENERGY)
_POSITION, _VELOCITY = int(Limit.POSITION), int(Limit.VELOCITY)
_CONFIDENCE, _EVIDENCE, _MISSING = int(Limit.CONFIDENCE), int(Limit.EVIDENCE), int(Limit.MISSING)

_Lesson = tuple[FloatArray, FloatArray, FloatArray, FloatArray, float]
"""What `Evidence.update` takes."""


@dataclass(slots=True)
class Filtered:
    """What the filter made of one step. Arrays have shape (dof,) [Nm]. Treat it as frozen; each step makes one."""

    torque: FloatArray
    """To send: within the torque limits."""
    residual: FloatArray
    """What was added to the classical torque, before the torque limits."""
    learned: FloatArray
    """How much of the torque that is learned: less than the residual where a torque limit cut some of it off."""
    limits: int
    """Bits of `Limit` that fired."""
    doubt: str | None
    """Why the residual must be switched off until a reset; None where there is no reason."""


class SafetyFilter:
    """Adds a residual to the classical torque so that it can help and is not able to harm.

    Whatever is offered: the torque is within the arm's limits, the residual within its size and, from step to step,
    within its slew; the energy that it puts into the arm is within the tank. Where the residual is zero the torque is the
    classical one, bit for bit. A residual that is missing, doubtful or out of favour goes to zero at its slew limit.

    What a step teaches about the residual counts from the next step on, so that a loop can work it out when the command is
    written (`learn`); where nobody calls that, the next step does.
    """

    def __init__(
        self,
        arm: Arm,
        body: RigidBody,
        *,
        bounds: FloatArray | None = None,
        corrector_bandwidth: float = 0.0,
        silence: float | None = None,
        evidence: Evidence | None = None,
    ) -> None:
        """bounds: the model's own [Nm], where they are tighter than the contract's.

        corrector_bandwidth: of the classical stack's observer [rad/s], 0 for none. silence: for how long a residual may
        stay away before that is a fault [s]; the contract's command time-out unless given. evidence: who judges whether
        the residual helps.
        """
        limits = arm.residual
        self._arm = arm
        self._limit, self._negative_limit = arm.torque, -arm.torque
        size = limits.size * arm.torque
        self._size = size if bounds is None else np.minimum(size, bounds)
        self._negative_size = -self._size
        self._step = limits.slew * arm.period * arm.torque
        self._negative_step = -self._step
        self._silence = arm.timeouts.command if silence is None else silence
        self._middle = 0.5 * (arm.upper + arm.lower)
        self._half = 0.5 * (arm.upper - arm.lower)
        self._inverse_velocity = 1.0 / arm.velocity
        self._slow = 1.0 - limits.velocity_margin  # share of the speed limit up to which nothing fades
        self._fastest = arm.trips.velocity
        self._longest_age = FRESH_PERIODS * arm.period + ROUNDING
        self._torques = Bounds(self._negative_limit, self._limit)
        self._small = Bounds(self._negative_size, self._size)
        self._slow_change = Bounds(self._negative_step, self._step)
        # Positions and speeds within these bounds fade nothing; only others are looked at closely.
        calm = min(self._slow, self._fastest) * arm.velocity
        self._calm = Bounds.certain(-calm, calm)
        self._roomy = Bounds.certain(arm.lower + limits.position_margin, arm.upper - limits.position_margin)
        self._tank = EnergyTank(arm)
        self._evidence = evidence or Evidence(arm, body, corrector_bandwidth)
        self._aborts = AbortMonitor(arm, self._size)
        self._zeros = np.zeros(arm.dof)
        self._zeros.flags.writeable = False
        self.reset()

    def reset(self) -> None:
        """As before the first step: no residual, no trust, a full tank."""
        self._tank.reset()
        self._evidence.reset()
        self._aborts.reset()
        self._residual: FloatArray = self._zeros
        self._offered: FloatArray = self._zeros
        self._lesson: _Lesson | None = None
        self._heard: float | None = None

    def forgive(self) -> None:
        """Lets a residual that was switched off prove itself anew; what is still fading out goes on to do so."""
        self._evidence.reset()
        self._aborts.reset()
        self._offered = self._zeros
        self._lesson = None
        self._heard = None

    @property
    def residual(self) -> FloatArray:
        """What is being added at present [Nm]."""
        return self._residual

    @property
    def trust(self) -> float:
        """Authority that the residual has earned, 0 to 1."""
        self.learn()
        return self._evidence.trust

    @property
    def tank_level(self) -> float:
        """Energy left in the tank [J]."""
        return self._tank.level

    def drop(self) -> None:
        """Takes the residual away at once: the arm is not under the classical controller any more."""
        self._residual = self._offered = self._zeros
        self._lesson = None
        self._evidence.reset()
        self._aborts.reset()

    def learn(self) -> None:
        """Weighs what the last step showed. For when nobody waits; a second call does nothing."""
        lesson, self._lesson = self._lesson, None
        if lesson is not None:
            self._evidence.update(*lesson)

    def apply(
        self, classical: FloatArray, offer: Offer | None, sample: Sample, now: float, *, authority: float = 1.0
    ) -> Filtered:
        """One step: the classical torque [Nm], what a model offers for this state, and how much of it is wanted at all.

        authority: 0 computes and judges but adds nothing (shadow); between 0 and 1 a canary's share.
        """
        q, qd, dt = sample.q, sample.qd, sample.dt
        self.learn()
        self._lesson = (q, sample.error, self._residual, self._offered, dt)
        if self._evidence.broken_by(dt):
            self.learn()  # a gap: nothing is proven any more, now
        self._tank.refill(dt)
        speed = None if self._calm.hold(qd) else np.abs(qd) * self._inverse_velocity
        wanted, gate, fired, doubt = self._judge(offer, now)
        self._offered = target = wanted
        if wanted is not self._zeros:
            trust = self._evidence.trust
            target = min(1.0, max(0.0, gate * authority * trust)) * wanted
            if authority > 0.0 and trust < 1.0:
                fired |= _EVIDENCE
            target, near = self._away_from_limits(target, q, qd, speed)
            fired |= near
        if target is not self._zeros or self._residual is not self._zeros:
            self._residual, slowed = self._moved_towards(target, qd, speed)
            fired |= slowed
            if slowed & _SLEW:
                self._evidence.doubt(dt)  # what jumps has changed its mind: its past proves little
        residual = self._residual
        if residual is self._zeros:
            torque, over = self._within_limits(classical)
            return Filtered(torque, residual, residual, fired | over, doubt)
        doubt = doubt or self._aborts.update(residual, fired, self._evidence, dt)
        torque, over = self._within_limits(classical + residual)
        learned = torque - self._within_limits(classical)[0] if over else residual
        return Filtered(torque, residual, learned, fired | over, doubt)

    def limited(self, classical: FloatArray) -> Filtered:
        """A torque without a residual, within the arm's limits."""
        torque, over = self._within_limits(classical)
        return Filtered(torque, self._zeros, self._zeros, over, None)

    def _within_limits(self, total: FloatArray) -> tuple[FloatArray, int]:
        if self._torques.hold(total):
            return total, 0
        return np.minimum(np.maximum(total, self._negative_limit), self._limit), _TORQUE

    def _judge(self, offer: Offer | None, now: float) -> tuple[FloatArray, float, int, str | None]:
        """The offered torque within its size, the share that confidence leaves of it, limits, and a reason for doubt."""
        # An answer may overtake the state that it answers: between processes, a little ahead is as good as a little behind.
        age = math.inf if offer is None else now - offer.stamp
        if offer is None or not abs(age) <= self._longest_age:
            return self._zeros, 0.0, _MISSING, self._why_missing(age, now)
        torque, confidence = offer.torque, offer.confidence
        if torque.shape != self._zeros.shape:
            return self._zeros, 0.0, 0, f"it has {torque.size} values for {self._zeros.size} joints"
        small = self._small.hold(torque)
        if not small and not np.isfinite(torque).all():
            bad = int(np.flatnonzero(~np.isfinite(torque))[0])
            return self._zeros, 0.0, 0, f"it is not finite: that of joint '{self._arm.joints[bad]}' is {torque[bad]}"
        if not 0.0 <= confidence <= 1.0:
            return self._zeros, 0.0, 0, f"its confidence is {confidence}, not within 0 and 1"
        self._heard = now
        fired = _CONFIDENCE if confidence < 1.0 else 0
        if not small:
            torque = np.minimum(np.maximum(torque, self._negative_size), self._size)
            fired |= _SIZE
        return torque, confidence, fired, None

    def _why_missing(self, age: float, now: float) -> str | None:
        """A reason for doubt where the residual has been away for too long, or is of another time."""
        if not age >= -self._silence:
            return f"it answers a state that lies {-age:.3f} s ahead"
        if self._heard is not None and now - self._heard > self._silence:
            return f"no residual for {now - self._heard:.3f} s (allowed {self._silence:g} s)"
        return None

    def _away_from_limits(
        self, target: FloatArray, q: FloatArray, qd: FloatArray, speed: FloatArray | None
    ) -> tuple[FloatArray, int]:
        """Fades out what pushes towards a near position limit, or along a motion that is near its speed limit.

        speed: |qd| as a share of its limit, None where all are far below.
        """
        limits, fired = self._arm.residual, 0
        if not self._roomy.hold(q):
            offset = q - self._middle
            room = self._half - np.abs(offset)
            if min(room.tolist()) < limits.position_margin:
                share = np.clip(room / limits.position_margin, 0.0, 1.0)
                faded = np.where(target * offset > 0.0, target * share, target)
                fired |= _POSITION if (faded != target).any() else 0
                target = faded
        if speed is not None and max(speed.tolist()) > self._slow:
            share = np.clip((1.0 - speed) / limits.velocity_margin, 0.0, 1.0)
            faded = np.where(target * qd > 0.0, target * share, target)
            fired |= _VELOCITY if (faded != target).any() else 0
            target = faded
        return target, fired

    def _moved_towards(self, target: FloatArray, qd: FloatArray, speed: FloatArray | None) -> tuple[FloatArray, int]:
        """The next residual: towards the target within slew, as far as the tank pays for it. speed: as above."""
        before, fired = self._residual, 0
        if speed is not None and max(speed.tolist()) > self._fastest:
            return self._zeros, _VELOCITY  # beyond the trip the reserve does not hold, and the arm is being braked
        leaving = target is self._zeros
        if not leaving:
            share = self._tank.scale(before)
            if share < 1.0:
                target = share * target
                fired = _ENERGY
        change = target - before
        if self._slow_change.hold(change):
            residual = target
        else:
            residual = before + np.minimum(np.maximum(change, self._negative_step), self._step)
            fired |= 0 if leaving else _SLEW
        if not self._tank.pay(residual, qd):
            fired |= _ENERGY
            residual = before - np.minimum(np.maximum(before, self._negative_step), self._step)
            self._tank.release(residual, qd)
        return (residual if any(residual.tolist()) else self._zeros), fired
