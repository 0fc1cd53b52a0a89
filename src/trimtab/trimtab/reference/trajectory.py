"""A joint trajectory: knots with position, velocity and acceleration, joined by quintic polynomials."""

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline

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
SEGMENTS_AT_ONCE = 16
_S = np.arange(SAMPLES)[:, None] / SAMPLES
_POWERS = _S ** np.arange(6)
_SLOPES = np.where(np.arange(6) > 0, np.arange(6) * _S ** np.maximum(np.arange(6) - 1, 0), 0.0)


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
        self._extremes: Extremes | None = None
        self._times: list[float] = self.t.tolist()  # for looking up single ones, where arrays are slow
        step = np.diff(self.t)
        uniform = len(step) > 0 and np.allclose(step, step[0], rtol=1e-9, atol=1e-12)
        self._step = float(step[0]) if uniform else None
        self._rest = np.zeros(self.q.shape[1])

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
        t, times = float(t), self._times
        if t <= times[0] or len(times) == 1:
            return self._start if t == times[0] else Desired(self.q[0], self._rest, self._rest)
        if t >= times[-1]:
            return Desired(self.q[-1], self._rest, self._rest)
        i = bisect_right(times, t) - 1 if self._step is None else min(int((t - times[0]) / self._step), len(times) - 2)
        span = times[i + 1] - times[i]
        s = (t - times[i]) / span
        r = 1.0 / span
        s3, s4 = s**3, s**4
        powers = np.array(
            [
                [1.0, s, s * s, s3, s4, s**5],
                [0.0, r, 2.0 * s * r, 3.0 * s * s * r, 4.0 * s3 * r, 5.0 * s4 * r],
                [0.0, 0.0, 2.0 * r * r, 6.0 * s * r * r, 12.0 * s * s * r * r, 20.0 * s3 * r * r],
            ]
        )
        motion = powers.dot(self._coefficients[i])
        return Desired(motion[0], motion[1], motion[2])

    def sample(self, t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """q, qd, qdd at many times, each of shape (len(t), dof)."""
        rows = [self.at(float(instant)) for instant in t]
        return np.array([r.q for r in rows]), np.array([r.qd for r in rows]), np.array([r.qdd for r in rows])

    def extremes(self) -> "Extremes":
        """What the motion reaches between its ends; computed once and kept, for a long trajectory it takes a while.

        Little by little: numpy lets no other thread run meanwhile, and one of them may have a deadline.
        """
        if self._extremes is None:
            found = Extremes(self.q.min(axis=0), self.q.max(axis=0), np.abs(self.qd).max(axis=0))
            with np.errstate(over="ignore", invalid="ignore"):
                for first in range(0, len(self.t) - 1, SEGMENTS_AT_ONCE):
                    segments = slice(first, first + SEGMENTS_AT_ONCE)
                    q = np.einsum("sp,npd->nsd", _POWERS, self._coefficients[segments])
                    qd = np.einsum("sp,npd->nsd", _SLOPES, self._coefficients[segments])
                    qd /= np.diff(self.t[first : first + SEGMENTS_AT_ONCE + 1])[:, None, None]
                    part = Extremes(q.min(axis=(0, 1)), q.max(axis=(0, 1)), np.abs(qd).max(axis=(0, 1)))
                    found = found.with_(part)
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

    @property
    def _start(self) -> Desired:
        return Desired(self.q[0], self.qd[0], self.qdd[0])

    def _quintics(self) -> FloatArray:
        """Coefficients by segment, power and joint: (n - 1, 6, dof)."""
        span = np.diff(self.t)[:, None]
        ends = [self.q[:-1], self.qd[:-1] * span, self.qdd[:-1] * span**2]
        ends += [self.q[1:], self.qd[1:] * span, self.qdd[1:] * span**2]
        coefficients: FloatArray = np.einsum("pk,knd->npd", _HERMITE, np.stack(ends))
        return coefficients
