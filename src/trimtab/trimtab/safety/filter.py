"""The safety filter: classical torque in, residual bounded and judged, torque out. One for simulation, replay and robot."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.arm import Arm
from trimtab.control.base import Sample
from trimtab.dynamics import RigidBody
from trimtab.joints import Bounds
from trimtab.residual.offer import Offer
from trimtab.safety import kernels
from trimtab.safety.evidence import Evidence
from trimtab.safety.limits import Limit
from trimtab.typing import FloatArray

FRESH_PERIODS = 2  # an offer that answers a state further away than this counts as missing
ROUNDING = 1e-6  # s; stamps are whole nanoseconds turned into floats
SLEW_RUN = 1.2  # times the way from one bound to the other: a residual that slews longer than that jumps to and fro
_TORQUE = int(Limit.TORQUE)


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


@dataclass(frozen=True)
class FilterRows:
    """Many steps of the filter at once, for a replay: what it is given and makes."""

    now: FloatArray
    """Stamps, (n,) [s]."""
    dt: FloatArray
    """Since the step before, (n,) [s]."""
    given: FloatArray
    """Classical torque, offer, q, qd, error: (n, 5, dof)."""
    confidence: FloatArray
    """Of the offers, (n,); NaN for none."""
    made: FloatArray
    """Filled with residual, torque, learned part: (n, 3, dof) [Nm]."""
    fired: np.ndarray
    """Filled with the limits that fired, (n,)."""


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
        size = limits.size * arm.torque
        size = size if bounds is None else np.minimum(size, bounds)
        self._silence = arm.timeouts.command if silence is None else silence
        self._longest_age = FRESH_PERIODS * arm.period + ROUNDING
        self._limit, self._torques = arm.torque, Bounds(-arm.torque, arm.torque)
        self._evidence = evidence or Evidence(arm, body, corrector_bandwidth)
        self._limits: FloatArray = np.array(
            [
                arm.torque,
                size,
                1.0 / np.maximum(size, 1e-12),
                limits.slew * arm.period * arm.torque,
                0.5 * (arm.upper + arm.lower),
                0.5 * (arm.upper - arm.lower),
                arm.velocity,
                arm.trips.velocity * arm.velocity,
                # A residual u brought to zero at the slew limit s, at speed v, puts at most v u^2 / (2 s) in on its way.
                arm.trips.velocity * arm.velocity / (2.0 * limits.slew * arm.torque),
            ]
        )
        self._rules: FloatArray = np.array(
            [
                arm.period,
                self._evidence.longest_step,
                limits.tank,
                limits.refill,
                limits.position_margin,
                limits.velocity_margin,
                limits.abort_saturation,
                limits.abort_oscillation**2,
                limits.abort_tracking,
                SLEW_RUN * 2.0 * float((size / arm.torque).max()) / limits.slew,
            ]
        )
        self._now: FloatArray = np.zeros((kernels.NOW, arm.dof))
        self._state: FloatArray = np.zeros(kernels.STATE)
        self._offer, self._torque = self._now[kernels.OFFER], self._now[kernels.TORQUE]
        self._residual, self._learned = self._now[kernels.RESIDUAL], self._now[kernels.LEARNED]
        self._zeros = np.zeros(arm.dof)
        self._zeros.flags.writeable = False
        self._bound(math.nan, 1.0, arm.period)  # compiles, before a loop waits for it
        self.reset()

    def reset(self) -> None:
        """As before the first step: no residual, no trust, a full tank."""
        self.drop()
        self._state[kernels.LEVEL] = self._rules[kernels.CAPACITY]
        self._heard: float | None = None

    def forgive(self) -> None:
        """Lets a residual that was switched off prove itself anew; what is still fading out goes on to do so."""
        self._forget_offers()
        self._heard = None

    def drop(self) -> None:
        """Takes the residual away at once: the arm is not under the classical controller any more."""
        self._forget_offers()
        self._residual[...] = 0.0
        self._state[kernels.ACTS] = self._state[kernels.POWER] = 0.0

    def _forget_offers(self) -> None:
        self._evidence.reset()
        self._now[kernels.WANTED] = self._now[kernels.SLOW] = 0.0
        self._state[kernels.SATURATED : kernels.STEPS_ACTING + 1] = 0.0

    @property
    def residual(self) -> FloatArray:
        """What is being added at present [Nm]."""
        return np.array(self._residual)

    @property
    def trust(self) -> float:
        """Authority that the residual has earned, 0 to 1."""
        self.learn()
        return self._evidence.trust

    @property
    def tank_level(self) -> float:
        """Energy left in the tank [J]."""
        return float(self._state[kernels.LEVEL])

    def learn(self) -> None:
        """Weighs what the last step showed. For when nobody waits; a second call does nothing."""
        self._evidence.learn()

    def apply(
        self, classical: FloatArray, offer: Offer | None, sample: Sample, now: float, *, authority: float = 1.0
    ) -> Filtered:
        """One step: the classical torque [Nm], what a model offers for this state, and how much of it is wanted at all.

        authority: 0 computes and judges but adds nothing (shadow); between 0 and 1 a canary's share.
        """
        self.learn()
        if not sample.dt <= self._evidence.longest_step:
            self._evidence.reset()  # a gap: nothing is proven any more
        given = self._now
        given[kernels.CLASSICAL], given[kernels.Q] = classical, sample.q
        given[kernels.QD], given[kernels.ERROR] = sample.qd, sample.error
        confidence, doubt = self._receive(offer, now)
        found = self._bound(confidence, float(authority), sample.dt)
        if not math.isnan(confidence) and found != kernels.NOT_FINITE:
            self._heard = now
        if found != kernels.FINE and doubt is None:
            doubt = self._reason(found)
        fired, torque = int(self._state[kernels.FIRED]), self._torque.copy()
        if not self._state[kernels.ACTS]:
            return Filtered(torque, self._zeros, self._zeros, fired, doubt)
        return Filtered(torque, self._residual.copy(), self._learned.copy(), fired, doubt)

    def apply_rows(self, rows: "FilterRows", first: int, end: int) -> tuple[int, str | None]:
        """The same for rows `first` to `end`, none after a gap; gives the first that is not done, and a reason for doubt.

        Comes back early behind a row that gave one. A row with a confidence of NaN has no offer; for how long there was
        none is not watched here.
        """
        evidence, row, found = self._evidence, first, kernels.FINE
        while row < end and found == kernels.FINE:
            row, found = kernels.bound_rows(
                self._limits,
                self._rules,
                self._now,
                self._state,
                evidence.law,
                evidence.pace,
                evidence.seen,
                evidence.score,
                evidence.lower,
                rows.given,
                rows.confidence,
                rows.dt,
                rows.made,
                rows.fired,
                row,
                end,
            )
            if row < end and found == kernels.FINE:
                evidence.learn_inertia()
        heard = np.flatnonzero(~np.isnan(rows.confidence[first:row]))
        if len(heard):
            self._heard = float(rows.now[first + heard[-1]])
        return row, None if found == kernels.FINE else self._reason(found)

    def _bound(self, confidence: float, authority: float, dt: float) -> int:
        evidence = self._evidence
        return kernels.bound(
            self._limits, self._rules, self._now, self._state, evidence.seen, evidence.score, confidence, authority, dt
        )

    def limited(self, classical: FloatArray) -> Filtered:
        """A torque without a residual, within the arm's limits."""
        torque, over = self._within_limits(classical)
        return Filtered(torque, self._zeros, self._zeros, over, None)

    def _within_limits(self, total: FloatArray) -> tuple[FloatArray, int]:
        if self._torques.hold(total):
            return total, 0
        return np.minimum(np.maximum(total, -self._limit), self._limit), _TORQUE

    def plain_rows(
        self, offers: Sequence[Offer | None], now: FloatArray, torque: FloatArray, confidence: FloatArray
    ) -> np.ndarray:
        """Which of many offers, for states at `now` (n,) [s], can be taken as they are; the others need a closer look.

        Fills in their torque, (n, dof) [Nm], and confidence, (n,); NaN where there is none or it is not plain.
        """
        fits = [one is not None and one.torque.shape == self._zeros.shape for one in offers]
        there = [one for one, fit in zip(offers, fits, strict=True) if fit and one is not None]
        torque[...], confidence[...] = math.nan, math.nan
        plain = np.array(fits)
        if there:
            torque[plain] = [one.torque for one in there]
            confidence[plain] = [one.confidence for one in there]
            age = np.zeros(len(offers))
            age[plain] = now[plain] - np.array([one.stamp for one in there])
            plain &= (np.abs(age) <= self._longest_age) & np.isfinite(torque).all(axis=1)
            plain &= (confidence >= 0.0) & (confidence <= 1.0)
            torque[~plain], confidence[~plain] = math.nan, math.nan
        return plain

    def _receive(self, offer: Offer | None, now: float) -> tuple[float, str | None]:
        """Takes in what is offered; gives its confidence, NaN where there is nothing to use, and a reason for doubt."""
        # An answer may overtake the state that it answers: between processes, a little ahead is as good as a little behind.
        age = math.inf if offer is None else now - offer.stamp
        if offer is None or not abs(age) <= self._longest_age:
            return math.nan, self._why_missing(age, now)
        torque, confidence = offer.torque, offer.confidence
        if torque.shape != self._zeros.shape:
            return math.nan, f"it has {torque.size} values for {self._zeros.size} joints"
        if not 0.0 <= confidence <= 1.0:
            return math.nan, f"its confidence is {confidence}, not within 0 and 1"
        np.copyto(self._offer, torque)  # refuses what is no real number
        return float(confidence), None

    def _why_missing(self, age: float, now: float) -> str | None:
        """A reason for doubt where the residual has been away for too long, or is of another time."""
        if not age >= -self._silence:
            return f"it answers a state that lies {-age:.3f} s ahead"
        if self._heard is not None and now - self._heard > self._silence:
            return f"no residual for {now - self._heard:.3f} s (allowed {self._silence:g} s)"
        return None

    def _reason(self, found: int) -> str:
        """What a step found out about the residual, in words."""
        if found == kernels.NOT_FINITE:
            bad = int(np.flatnonzero(~np.isfinite(self._offer))[0])
            return f"it is not finite: that of joint '{self._arm.joints[bad]}' is {self._offer[bad]}"
        state, errors = self._state, self._evidence.errors()
        if found == kernels.SATURATED_TOO_LONG:
            share = 100.0 * float(state[kernels.SATURATED])
            return f"it was larger than its bound in {share:.0f} % of the last {kernels.WINDOW:g} s"
        if found == kernels.SLEWS_TOO_LONG:
            return f"it ran at its slew limit for {float(state[kernels.SLEWING]):.3f} s without a break"
        if found == kernels.OSCILLATES:
            share, allowed = math.sqrt(float(state[kernels.OSCILLATION])), self._arm.residual.abort_oscillation
            return (
                f"it oscillates: {100.0 * share:.0f} % of its bound above {kernels.HIGH_BAND:g} Hz "
                f"(allowed {100.0 * allowed:.0f} %)"
            )
        return f"with it the arm is {1e3 * errors.actual:.1f} mrad off, without it would be {1e3 * errors.without:.1f}"
