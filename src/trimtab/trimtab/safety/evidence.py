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
from trimtab.safety import kernels
from trimtab.typing import FloatArray

PROOF = 1.0  # s that a residual is watched before it gets anything: an arm that sets out is a bad witness


@dataclass(frozen=True, slots=True)
class Errors:
    """Root mean squares over the window, norm over the joints [rad]."""

    actual: float
    without: float
    """Estimate: of the classical torque alone."""
    with_all: float
    """Estimate: with the whole residual."""


class Evidence:
    """Trust in a residual, from 0 to 1: the share of it that would have served the arm best in the last moments.

    The joints are judged together: they are coupled, and a residual that acts on some of them only is another residual.
    """

    def __init__(self, arm: Arm, body: RigidBody, corrector_bandwidth: float = 0.0) -> None:
        """corrector_bandwidth: of the controller's disturbance observer [rad/s]; 0 where it has none."""
        self._body = body
        self.longest_step = (PAUSE_PERIODS + 0.5) * arm.period
        """A longer one [s] is a gap, over which the estimate does not hold."""
        self.law: FloatArray = np.array([2.0 * arm.computed_torque.damping * arm.bandwidth, arm.bandwidth**2])
        self.pace: FloatArray = np.array([corrector_bandwidth, 1.0 / arm.residual.fade, round(PROOF * arm.rate)])
        self.seen: FloatArray = np.zeros((kernels.SEEN, arm.dof))
        self.score: FloatArray = np.zeros(kernels.SCORE)
        self.lower: FloatArray = np.eye(arm.dof)
        """Tables of the kernels, and the factor of the mass matrix."""
        still = np.zeros(arm.dof)
        self.update(np.array(arm.home), still, still, still, arm.period)  # compiles, before a loop waits for it
        self.reset()

    def reset(self) -> None:
        """Nothing is proven yet."""
        self.seen[...] = 0.0
        self.score[...] = 0.0

    @property
    def trust(self) -> float:
        """Authority that the residual has earned, 0 to 1."""
        return float(self.score[kernels.TRUST])

    @trust.setter
    def trust(self, value: float) -> None:
        self.score[kernels.TRUST] = value

    def errors(self) -> Errors:
        """The three errors that are compared."""
        ee, bb, bx, xx = self.score[kernels.EE : kernels.XX + 1].tolist()
        return Errors(math.sqrt(ee), math.sqrt(bb), math.sqrt(max(0.0, bb - 2.0 * bx + xx)))

    def update(self, q: FloatArray, error: FloatArray, applied: FloatArray, offered: FloatArray, dt: float) -> None:
        """One step: error [rad] now; `applied` and `offered` [Nm] are what was added, and what was wanted, before it.

        After a gap nothing is proven any more.
        """
        if not dt <= self.longest_step:
            self.reset()
            return
        self.seen[kernels.SEEN_Q], self.seen[kernels.SEEN_ERROR] = q, error
        self.seen[kernels.U], self.seen[kernels.U + 1] = applied, offered
        self.score[kernels.PENDING], self.score[kernels.STEP] = 1.0, dt
        self.learn()

    def learn(self) -> None:
        """Takes in the lesson of the newest step, which the filter has left in the tables; a second call does nothing."""
        if not kernels.weigh(self.law, self.pace, self.seen, self.score, self.lower):
            self.learn_inertia()
            kernels.weigh(self.law, self.pace, self.seen, self.score, self.lower)

    def learn_inertia(self) -> None:
        """Looks at the mass matrix where the newest step was."""
        kernels.factor(self._body.mass_matrix(self.seen[kernels.SEEN_Q]), self.lower)
        self.score[kernels.FRESH] = 1.0

    def doubt(self, dt: float) -> None:
        """A step in which the residual asked for more than it may: trust falls as if the evidence had turned."""
        kernels.doubt(self.score, dt)
