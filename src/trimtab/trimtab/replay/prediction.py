"""What the tracking error would have been with another residual: judged by the motion that followed, no torque is measured.

The arm was asked for a motion and made another. Under the classical controller a torque u moves the joints by x with
x'' + 2 d w x' + w^2 x = inverse(M) u, where an observer takes away what is slower than its bandwidth (the safety filter
judges by the same model). So the torque that would have been ideal is the one whose x is the error; the classical torque
alone would have left b = e + x(applied), and a model that offers r would have left b - x(r).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.signal import lfilter

from trimtab.arm import Arm
from trimtab.dynamics import RigidBody
from trimtab.safety.kernels import INERTIA_EVERY
from trimtab.typing import FloatArray

SETTLE = 1.0  # s after a beginning in which nothing is judged: an arm that sets out is a bad witness
WINDOW = 0.5  # s over which a worst moment is looked for
SHOWN = 1.5  # s of it that are kept
STUCK = 0.01  # share of the speed limit below which a joint may stick: then friction takes what a torque adds
MOVED = 0.1  # s after which a joint that is that slow is judged no more; a reversal is shorter


@dataclass
class JointSums:
    """Of one joint [rad^2]; they add up over bags. b: error without any residual; x: what a model would have changed."""

    rows: int = 0
    actual: float = 0.0
    """Of the recorded error squared."""
    bb: float = 0.0
    bx: dict[str, float] = field(default_factory=dict)
    xx: dict[str, float] = field(default_factory=dict)

    def error(self, role: str) -> float:
        """Root mean square error with a model [rad]; of a role without a model, that of the classical torque alone."""
        squares = self.bb - 2.0 * self.bx.get(role, 0.0) + self.xx.get(role, 0.0)
        return float(np.sqrt(max(0.0, squares) / max(1, self.rows)))

    def effect(self, role: str) -> float:
        """Root mean square of what a model would have changed [rad]."""
        return float(np.sqrt(self.xx.get(role, 0.0) / max(1, self.rows)))

    def scale(self, role: str) -> float:
        """The multiple of a model's torque that would have served best: 1 is ideal, below 0 it pushes the wrong way."""
        return self.bx.get(role, 0.0) / max(self.xx.get(role, 0.0), 1e-30)


@dataclass(frozen=True)
class Moment:
    """A stretch around which a model would have left the most error in one joint."""

    joint: int
    error: float
    """Root mean square over the worst half second [rad]."""
    stamp: list[int]
    """[ns]"""
    without: list[float]
    """Error of the classical torque alone [rad]."""
    left: dict[str, list[float]]
    """Error with each of the models [rad]."""


class Prediction:
    """Takes rows as they come, in memory that does not grow."""

    def __init__(
        self, arm: Arm, body: RigidBody, corrector_bandwidth: float, roles: Sequence[str], watched: str | None
    ) -> None:
        """roles: of the models; watched: whose worst moments are kept, None for the classical torque alone."""
        self._arm, self._body, self._roles, self._watched = arm, body, tuple(roles), watched
        dt = arm.period
        damping, stiffness = 2.0 * arm.computed_torque.damping * arm.bandwidth, arm.bandwidth**2
        self._denominators = np.stack(
            [np.ones(arm.dof), -2.0 + damping * dt + stiffness * dt**2, 1.0 - damping * dt], axis=1
        )
        self._gain = dt**2
        self._share = min(1.0, corrector_bandwidth * dt)
        self._settle = round(SETTLE * arm.rate)
        self._longest = 5.5e9 * arm.period
        self._moved_rows = max(2, round(MOVED * arm.rate))
        self.sums = [JointSums() for _ in arm.joints]
        self.worst: dict[int, Moment] = {}
        self._restart()

    def _restart(self) -> None:
        streams = ("applied", *self._roles)
        dof = self._arm.dof
        self._last: int | None = None
        self._rows = 0
        self._slow = {name: np.zeros((1, dof)) for name in streams}
        self._moved = {name: np.zeros((dof, 2)) for name in streams}
        self._before = {name: np.zeros((1, dof)) for name in streams}
        self._slow_rows = np.ones((self._moved_rows - 1, dof), dtype=bool)

    def add(
        self,
        stamp: np.ndarray,
        q: FloatArray,
        qd: FloatArray,
        q_des: FloatArray,
        applied: FloatArray,
        wanted: Mapping[str, FloatArray],
    ) -> None:
        """Consecutive rows: stamp (n,) [ns], measured and wanted motion, torques added and wanted by models."""
        steps = np.diff(stamp, prepend=stamp[0] if self._last is None else self._last)
        for part in np.split(np.arange(len(stamp)), np.flatnonzero((steps > self._longest) | (steps < 0))):
            if len(part) == 0:
                continue
            if self._last is not None and not 0 <= stamp[part[0]] - self._last <= self._longest:
                self._restart()
            torques = {"applied": applied[part]} | {role: wanted[role][part] for role in self._roles}
            self._digest(stamp[part], q[part], qd[part], q_des[part] - q[part], torques)
            self._last = int(stamp[part[-1]])

    def _digest(
        self, stamp: np.ndarray, q: FloatArray, qd: FloatArray, error: FloatArray, torques: Mapping[str, FloatArray]
    ) -> None:
        count = len(stamp)
        inverses = self._inverses(q)
        moved = {name: self._response(name, torque, inverses) for name, torque in torques.items()}
        skip = max(0, self._settle - self._rows)
        self._rows += count
        good = np.asarray(np.isfinite(error).all(axis=1))
        good[:skip] = False
        if not good.any():
            return
        error = np.where(good[:, None], error, 0.0)
        without = error + np.where(good[:, None], moved["applied"], 0.0)
        effects = {role: np.where(good[:, None], moved[role], 0.0) for role in self._roles}
        judged = self._moving(qd) & good[:, None]
        for i, sums in enumerate(self.sums):
            some = judged[:, i]
            b = without[some, i]
            sums.rows += len(b)
            sums.actual += float(error[some, i] @ error[some, i])
            sums.bb += float(b @ b)
            for role, effect in effects.items():
                x = effect[some, i]
                sums.bx[role] = sums.bx.get(role, 0.0) + float(b @ x)
                sums.xx[role] = sums.xx.get(role, 0.0) + float(x @ x)
        self._look_for_worst(stamp, without, effects, judged)

    def _moving(self, qd: FloatArray) -> np.ndarray:
        """Where a joint has moved not long ago, (n, dof) of bool."""
        slow = np.vstack([self._slow_rows, np.abs(qd) < STUCK * self._arm.velocity])
        self._slow_rows = slow[-(self._moved_rows - 1) :]
        sums = np.cumsum(np.vstack([np.zeros((1, slow.shape[1]), np.int64), slow]), axis=0)
        moving: np.ndarray = sums[self._moved_rows :] - sums[: -self._moved_rows] < self._moved_rows
        return moving

    def _inverses(self, q: FloatArray) -> FloatArray:
        """Inverse of the mass matrix at some of the rows, each standing for those around it: (n, dof, dof)."""
        some = np.arange(0, len(q), INERTIA_EVERY)
        matrices = np.array([self._body.mass_matrix(q[i]) for i in some])
        inverses: FloatArray = np.linalg.inv(matrices)
        return np.repeat(inverses, INERTIA_EVERY, axis=0)[: len(q)]

    def _response(self, name: str, torque: FloatArray, inverses: FloatArray) -> FloatArray:
        """How far a torque would have moved the joints, (n, dof) [rad]: the torque of a row shows in the next one."""
        shifted = np.vstack([self._before[name], torque[:-1]])
        self._before[name] = torque[-1:].copy()
        shifted = np.where(np.isfinite(shifted), shifted, 0.0)
        if self._share > 0.0:
            decay = 1.0 - self._share
            # The observer has learned from the rows before this one: slow[k + 1] = slow[k] + share (u[k] - slow[k]).
            slow, self._slow[name] = lfilter([0.0, self._share], [1.0, -decay], shifted, axis=0, zi=self._slow[name])
            shifted = shifted - slow
        acceleration = np.einsum("nij,nj->ni", inverses, shifted)
        out: FloatArray = np.empty_like(acceleration)
        for i, denominator in enumerate(self._denominators):
            out[:, i], self._moved[name][i] = lfilter([self._gain], denominator, acceleration[:, i], zi=self._moved[name][i])
        return out

    def _look_for_worst(
        self, stamp: np.ndarray, without: FloatArray, effects: Mapping[str, FloatArray], judged: np.ndarray
    ) -> None:
        size, shown = round(WINDOW * self._arm.rate), round(SHOWN * self._arm.rate)
        if len(stamp) < size:
            return
        left = without if self._watched is None else without - effects[self._watched]
        left = np.where(judged, left, 0.0)
        sums = np.cumsum(np.vstack([np.zeros((1, left.shape[1])), left**2]), axis=0)
        squares = (sums[size:] - sums[:-size]) / size
        for i in range(left.shape[1]):
            at = int(squares[:, i].argmax())
            error = float(np.sqrt(max(0.0, squares[at, i])))
            if i in self.worst and error <= self.worst[i].error:
                continue
            first = min(max(0, at + size // 2 - shown // 2), max(0, len(stamp) - shown))
            window = slice(first, first + shown, max(1, shown // 300))
            self.worst[i] = Moment(
                joint=i,
                error=error,
                stamp=stamp[window].tolist(),
                without=without[window, i].tolist(),
                left={role: (without[window, i] - effect[window, i]).tolist() for role, effect in effects.items()},
            )
