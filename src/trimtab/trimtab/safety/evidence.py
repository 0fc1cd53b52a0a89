"""Evidence that a residual helps on this arm: what the error would be without it, and with all of it.

Under the classical controller a torque u moves the joints by x with x'' + 2 d w x' + w^2 x = inverse(M) u, where an
observer takes away what is slower than its bandwidth. So the error that the classical torque alone would leave is
e + x(applied), and with a share s of the residual it would be e + x(applied) - s x(offered). Both are estimates, but they
can be had before the residual gets any authority.
"""

import math
from dataclasses import dataclass

import numpy as np

from trimtab.arm import Arm
from trimtab.dynamics import RigidBody
from trimtab.follower import PAUSE_PERIODS
from trimtab.typing import FloatArray

PROOF = 1.0  # s that a residual is watched before it gets anything: an arm that sets out is a bad witness
WINDOW = 0.4  # s; time constant of the mean squares that are compared
FALL = 0.04  # s from full authority to none when the evidence turns
DOUBTFUL, CLEAR = 0.1, 0.3  # share by which the mean square error must fall for any authority, and for all of it
SMALLEST = 1e-4  # rad; errors of the whole arm below this prove nothing
INERTIA_EVERY = 10  # steps after which the inverse of M is computed again
JITTER = 0.1  # share of a period by which two stamps may be off before the estimate takes their own distance


@dataclass(frozen=True, slots=True)
class Errors:
    """Root mean squares over the window, norm over the joints [rad]."""

    actual: float
    without: float
    """Estimate: of the classical torque alone."""
    with_all: float
    """Estimate: with the whole residual."""


class _Estimate:
    """How far two torques, the applied and the offered one, move the joints under the classical controller.

    One row per torque u, which an observer answers with s. A step of dt is s += c (u - s), then
    v += dt ((u - s) inverse(M) - 2 d w v - w^2 x), then x += dt v. All of that is linear, so one matrix has it: a single
    product costs a third of what the terms cost one by one.
    """

    def __init__(self, arm: Arm, corrector_bandwidth: float) -> None:
        dof = self._dof = arm.dof
        self._period = arm.period
        self._corrector = corrector_bandwidth
        self._damping = np.diag(2.0 * arm.computed_torque.damping * arm.bandwidth)
        self._stiffness = np.diag(arm.bandwidth**2)
        self._eye = np.eye(dof)
        self._s, self._v, self._x, self._u = (slice(i * dof, (i + 1) * dof) for i in range(4))
        self._rows = np.zeros((2, 4 * dof))  # s, v, x, u
        self._state = self._rows[:, : 3 * dof]
        self._applied, self._offered = self._rows[:, self._u]
        self._moved, self._would_move = self._rows[:, self._x]
        self._next = np.empty((2, 3 * dof))
        self._inverse_inertia: FloatArray = np.zeros((dof, dof))
        self._matrix = self._matrix_of(self._period)

    def reset(self) -> None:
        """At rest."""
        self._rows.fill(0.0)

    def learn_inertia(self, inverse: FloatArray) -> None:
        """The inverse of M from now on, shape (dof, dof)."""
        self._inverse_inertia = inverse
        self._push(self._matrix, self._period)

    def step(self, applied: FloatArray, offered: FloatArray, dt: float) -> tuple[FloatArray, FloatArray]:
        """The way that each has moved the joints after dt [s] more of it, (dof,) [rad]; valid until the next step."""
        steady = abs(dt - self._period) <= JITTER * self._period
        self._applied[...] = applied
        self._offered[...] = offered
        self._state[...] = np.dot(self._rows, self._matrix if steady else self._matrix_of(dt), self._next)
        return self._moved, self._would_move

    def _matrix_of(self, dt: float) -> FloatArray:
        """What makes the next s, v, x of s, v, x, u: shape (4 dof, 3 dof)."""
        s, v, x, u = self._s, self._v, self._x, self._u
        followed = min(1.0, self._corrector * dt)
        matrix = np.zeros((4 * self._dof, 3 * self._dof))
        matrix[s, s] = (1.0 - followed) * self._eye
        matrix[u, s] = followed * self._eye
        matrix[v, v] = self._eye - dt * self._damping
        matrix[x, v] = -dt * self._stiffness
        matrix[:, x] = dt * matrix[:, v]
        matrix[x, x] += self._eye
        self._push(matrix, dt)
        return matrix

    def _push(self, matrix: FloatArray, dt: float) -> None:
        """Fills in how u - s moves the joints: all of the matrix that depends on the posture."""
        for column, factor in ((self._v, dt), (self._x, dt * dt)):
            matrix[self._u, column] = factor * self._inverse_inertia
            matrix[self._s, column] = -factor * self._inverse_inertia


class Evidence:
    """Trust in a residual, from 0 to 1: the share of it that would have served the arm best in the last moments.

    The joints are judged together: they are coupled, and a residual that acts on some of them only is another residual.
    """

    def __init__(self, arm: Arm, body: RigidBody, corrector_bandwidth: float = 0.0) -> None:
        """corrector_bandwidth: of the controller's disturbance observer [rad/s]; 0 where it has none."""
        self._body = body
        self._estimate = _Estimate(arm, corrector_bandwidth)
        self._rise = 1.0 / arm.residual.fade
        self._proof = round(PROOF * arm.rate)
        self._longest = (PAUSE_PERIODS + 0.5) * arm.period
        self.reset()

    def reset(self) -> None:
        """Nothing is proven yet."""
        self._estimate.reset()
        self._steps = 0
        # Means over the window: e e, and with b = e + x(applied), x = x(offered): b b, b x, x x.
        self._ee = self._bb = self._bx = self._xx = 0.0
        self.trust = 0.0
        """Authority that the residual has earned, 0 to 1."""

    def errors(self) -> Errors:
        """The three errors that are compared."""
        with_all = max(0.0, self._bb - 2.0 * self._bx + self._xx)
        return Errors(math.sqrt(self._ee), math.sqrt(self._bb), math.sqrt(with_all))

    def update(self, q: FloatArray, error: FloatArray, applied: FloatArray, offered: FloatArray, dt: float) -> None:
        """One step: error [rad] now; `applied` and `offered` [Nm] are what was added, and what was wanted, before it.

        After a gap nothing is proven any more: the estimate does not hold over one.
        """
        if self.broken_by(dt):
            self.reset()
            return
        if self._steps % INERTIA_EVERY == 0:
            inverse: FloatArray = np.asarray(np.linalg.inv(self._body.mass_matrix(q)), dtype=np.float64)
            self._estimate.learn_inertia(inverse)
        self._steps += 1
        moved, x = self._estimate.step(applied, offered, dt)
        alone = error + moved
        share = dt / (WINDOW + dt)
        self._ee += share * (float(error.dot(error)) - self._ee)
        self._bb += share * (float(alone.dot(alone)) - self._bb)
        self._bx += share * (float(alone.dot(x)) - self._bx)
        self._xx += share * (float(x.dot(x)) - self._xx)
        change = self._earned() - self.trust
        self.trust += min(max(change, -dt / FALL), dt * self._rise)

    def broken_by(self, dt: float) -> bool:
        """Whether a step of this length [s] is a gap."""
        return dt > self._longest

    def doubt(self, dt: float) -> None:
        """A step in which the residual asked for more than it may: trust falls as if the evidence had turned."""
        self.trust = max(0.0, self.trust - dt / FALL)

    def _earned(self) -> float:
        """The best share of the residual, as far as the error would clearly fall with it."""
        if self._steps < self._proof:
            return 0.0
        if self._bx <= 0.0 or self._xx <= 0.0 or self._ee > self._bb + SMALLEST**2:
            return 0.0  # it would not help, or what was let in of it has done harm
        best = min(1.0, self._bx / self._xx)
        fall = (2.0 * best * self._bx - best * best * self._xx) / (self._bb + SMALLEST**2)
        return best * min(1.0, max(0.0, (fall - DOUBTFUL) / (CLEAR - DOUBTFUL)))
