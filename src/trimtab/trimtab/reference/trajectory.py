"""A joint trajectory: knots with position, velocity and acceleration, joined by quintic polynomials."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline

from trimtab.compiled import compiled
from trimtab.control.base import Desired
from trimtab.errors import ReferenceRefused
from trimtab.typing import FloatArray

# Quintic on s in [0, 1] from (p0, v0 T, a0 T^2, p1, v1 T, a1 T^2): one row per power of s.
_HERMITE = np.array(
    [
        [1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 1.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.5, 0.0, 0.0, 0.0],
        [-10.0, -6.0, -1.5, 10.0, -4.0, 0.5],
        [15.0, 8.0, 1.5, -15.0, 7.0, -1.0],
        [-6.0, -3.0, -0.5, 6.0, -3.0, 0.5],
    ]
)

SAMPLES = 64  # of a segment, in which its extremes are looked for: a quintic may overshoot between knots
SEGMENTS_AT_ONCE = 64


@dataclass(frozen=True)
class Extremes:
    """What a motion reaches, each of shape (dof,); NaN or infinite where its numbers overflow."""

    low: FloatArray
    """[rad]"""
    high: FloatArray
    """[rad]"""
    fastest: FloatArray
    """[rad/s]"""

    def with_(self, other: "Extremes") -> "Extremes":
        """Of both motions together; NaN stays."""
        return Extremes(
            np.minimum(self.low, other.low), np.maximum(self.high, other.high), np.maximum(self.fastest, other.fastest)
        )


@compiled
def _evaluate(knots: FloatArray, coefficients: FloatArray, ends: FloatArray, t: FloatArray, motion: FloatArray) -> None:
    """Fills motion (n, 3, dof) with q, qd, qdd at the times t (n,).

    knots: (m,); coefficients: (m - 1, 6, dof); ends: what the motion begins with and where it rests after the last knot,
    (2, 3, dof).
    """
    last = len(knots) - 1
    for row in range(len(t)):
        now, out = t[row], motion[row]
        if now >= knots[last] and last > 0:
            out[:] = ends[1]
        elif now == knots[0]:
            out[:] = ends[0]
        elif now < knots[0] or last == 0:
            out[0] = ends[0, 0]
            out[1:] = 0.0
        else:
            i = min(np.searchsorted(knots, now, side="right") - 1, last - 1)
            rate = 1.0 / (knots[i + 1] - knots[i])
            s = (now - knots[i]) * rate
            for k in range(out.shape[1]):
                c0, c1, c2 = coefficients[i, 0, k], coefficients[i, 1, k], coefficients[i, 2, k]
                c3, c4, c5 = coefficients[i, 3, k], coefficients[i, 4, k], coefficients[i, 5, k]
                out[0, k] = c0 + s * (c1 + s * (c2 + s * (c3 + s * (c4 + s * c5))))
                out[1, k] = rate * (c1 + s * (2.0 * c2 + s * (3.0 * c3 + s * (4.0 * c4 + s * 5.0 * c5))))
                out[2, k] = rate * rate * (2.0 * c2 + s * (6.0 * c3 + s * (12.0 * c4 + s * 20.0 * c5)))


@compiled
def _widen(
    knots: FloatArray,
    coefficients: FloatArray,
    first: int,
    end: int,
    low: FloatArray,
    high: FloatArray,
    fastest: FloatArray,
) -> None:
    """Takes what the motion reaches between its knots, from segment `first` to `end`, into its extremes; NaN stays."""
    for i in range(first, end):
        rate = 1.0 / (knots[i + 1] - knots[i])
        for k in range(coefficients.shape[2]):
            c0, c1, c2 = coefficients[i, 0, k], coefficients[i, 1, k], coefficients[i, 2, k]
            c3, c4, c5 = coefficients[i, 3, k], coefficients[i, 4, k], coefficients[i, 5, k]
            for sample in range(SAMPLES):
                s = sample / SAMPLES
                q = c0 + s * (c1 + s * (c2 + s * (c3 + s * (c4 + s * c5))))
                speed = abs(rate * (c1 + s * (2.0 * c2 + s * (3.0 * c3 + s * (4.0 * c4 + s * 5.0 * c5)))))
                if q < low[k] or math.isnan(q):
                    low[k] = q
                if q > high[k] or math.isnan(q):
                    high[k] = q
                if speed > fastest[k] or math.isnan(speed):
                    fastest[k] = speed


class Trajectory:
    """Twice continuously differentiable motion through knots; before the first and after the last knot it rests there."""

    def __init__(self, t: FloatArray, q: FloatArray, qd: FloatArray, qdd: FloatArray) -> None:
        """t: (n,) [s], strictly increasing; q [rad], qd [rad/s], qdd [rad/s^2]: (n, dof)."""
        self.t = np.array(t, dtype=np.float64)
        self.q, self.qd, self.qdd = (np.array(array, dtype=np.float64) for array in (q, qd, qdd))
        if self.t.ndim != 1 or len(self.t) == 0 or self.q.ndim != 2:
            raise ReferenceRefused("a trajectory needs at least one point")
        if not self.q.shape == self.qd.shape == self.qdd.shape == (len(self.t), self.q.shape[1]):
            raise ReferenceRefused("positions, velocities and accelerations of a trajectory must have one shape")
        if not all(np.isfinite(array).all() for array in (self.t, self.q, self.qd, self.qdd)):
            raise ReferenceRefused("a trajectory holds a number that is not finite")
        if np.any(np.diff(self.t) <= 0.0):
            late = int(np.flatnonzero(np.diff(self.t) <= 0.0)[0]) + 1
            raise ReferenceRefused(f"times of a trajectory must increase; point {late} does not come after the one before")
        self._coefficients = self._quintics()
        self._ends = np.zeros((2, 3, self.dof))
        self._ends[0] = self.q[0], self.qd[0], self.qdd[0]
        self._ends[1, 0] = self.q[-1]
        self._extremes: Extremes | None = None

    @classmethod
    def through(cls, t: FloatArray, q: FloatArray, qd: FloatArray | None = None) -> "Trajectory":
        """A trajectory from positions alone or positions and velocities.

        Positions alone become the smoothest curve through them (cubic spline, at rest at both ends).
        """
        t, q = np.asarray(t, dtype=np.float64), np.asarray(q, dtype=np.float64)
        if len(t) == 1:
            return cls(t, q, np.zeros_like(q), np.zeros_like(q))
        if not (np.isfinite(t).all() and np.isfinite(q).all()) or np.any(np.diff(t) <= 0.0):
            return cls(t, q, np.zeros_like(q), np.zeros_like(q))  # refused there, with the reason
        if qd is None:
            try:
                spline = CubicSpline(t, q, bc_type="clamped")
            except ValueError as error:  # numbers so large that their differences are none
                raise ReferenceRefused(f"no curve leads through the trajectory's points: {error}") from error
            return cls(t, q, spline(t, 1), spline(t, 2))
        speed = np.asarray(qd, dtype=np.float64)
        if speed.shape != q.shape:
            raise ReferenceRefused("positions and velocities of a trajectory must have one shape")
        return cls(t, q, speed, np.gradient(speed, t, axis=0))

    @property
    def dof(self) -> int:
        """Number of joints."""
        return int(self.q.shape[1])

    @property
    def duration(self) -> float:
        """Time of the last knot [s]."""
        return float(self.t[-1])

    def at(self, t: float) -> Desired:
        """Position, velocity and acceleration at a time [s]."""
        motion = self.motion(np.array([t], dtype=np.float64))[0]
        return Desired(motion[0], motion[1], motion[2])

    def sample(self, t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """q, qd, qdd at many times, each of shape (len(t), dof)."""
        motion = self.motion(np.ascontiguousarray(t, dtype=np.float64))
        return motion[:, 0], motion[:, 1], motion[:, 2]

    def motion(self, t: FloatArray) -> FloatArray:
        """The same in one array, (len(t), 3, dof)."""
        motion: FloatArray = np.empty((len(t), 3, self.dof))
        _evaluate(self.t, self._coefficients, self._ends, t, motion)
        return motion

    def extremes(self) -> "Extremes":
        """What the motion reaches between its ends; computed once and kept, for a long trajectory it takes a while.

        Little by little: no other thread runs meanwhile, and one of them may have a deadline.
        """
        if self._extremes is None:
            found = Extremes(self.q.min(axis=0), self.q.max(axis=0), np.abs(self.qd).max(axis=0))
            for first in range(0, len(self.t) - 1, SEGMENTS_AT_ONCE):
                end = min(first + SEGMENTS_AT_ONCE, len(self.t) - 1)
                _widen(self.t, self._coefficients, first, end, found.low, found.high, found.fastest)
            self._extremes = found
        return self._extremes

    def on_whole_nanoseconds(self) -> "Trajectory":
        """The same knots at times that a message can carry: what is read back from a bag is the very same trajectory."""
        return Trajectory(np.round(self.t * 1e9) / 1e9, self.q, self.qd, self.qdd)

    def preceded_by(self, start: Desired, duration: float) -> "Trajectory":
        """This trajectory after a quintic of the given duration from `start` to its first knot."""
        if duration <= 0.0:
            raise ReferenceRefused("an approach needs a positive duration")
        t = np.concatenate([[0.0], self.t - self.t[0] + duration])
        rows = (start.q, self.q), (start.qd, self.qd), (start.qdd, self.qdd)
        joined = Trajectory(t, *(np.vstack(row) for row in rows))
        if self._extremes is not None:
            approach = Trajectory(t[:2], joined.q[:2], joined.qd[:2], joined.qdd[:2])
            joined._extremes = approach.extremes().with_(self._extremes)
        return joined

    def _quintics(self) -> FloatArray:
        """Coefficients by segment, power and joint: (n - 1, 6, dof)."""
        span = np.diff(self.t)[:, None]
        ends = [self.q[:-1], self.qd[:-1] * span, self.qdd[:-1] * span**2]
        ends += [self.q[1:], self.qd[1:] * span, self.qdd[1:] * span**2]
        coefficients: FloatArray = np.ascontiguousarray(np.einsum("pk,knd->npd", _HERMITE, np.stack(ends)))
        return coefficients
