"""Evidence that a residual helps on this arm: what the error would be without it, and with all of it.

Under the classical controller a torque u moves the joints by x with x'' + 2 d w x' + w^2 x = inverse(M) u, where an
observer takes away what is slower than its bandwidth. So the error that the classical torque alone would leave is
e + x(applied), and with the whole residual it would be e + x(applied) - x(offered). Both are estimates, but they can be
had before the residual gets any authority.
"""

import numpy as np

from trimtab.arm import Arm
from trimtab.dynamics import RigidBody
from trimtab.typing import FloatArray

WINDOW = 0.4  # s; time constant of the mean squares that are compared
FALL = 0.04  # s from full authority to none when the evidence turns
DOUBTFUL, CLEAR = 0.1, 0.3  # share by which the mean square error must fall for any authority, and for all of it
SCALE = 1.0 / (CLEAR - DOUBTFUL)
SMALLEST = 5e-5  # rad; errors below this prove nothing
INERTIA_EVERY = 10  # steps after which the inverse of M is computed again


class Evidence:
    """Trust in a residual, joint by joint, from 0 to 1. Arrays have shape (dof,)."""

    def __init__(self, arm: Arm, body: RigidBody, corrector_bandwidth: float = 0.0) -> None:
        """corrector_bandwidth: of the controller's disturbance observer [rad/s]; 0 where it has none."""
        self._body = body
        self._damping = 2.0 * arm.computed_torque.damping * arm.bandwidth
        self._stiffness = arm.bandwidth**2
        self._corrector = corrector_bandwidth
        self._rise = 1.0 / arm.residual.fade
        self._shape = (2, arm.dof)
        self._dof = arm.dof
        self.reset()

    def reset(self) -> None:
        """Nothing is proven yet."""
        self._steps = 0
        self._inverse_inertia: FloatArray = np.eye(self._dof)
        self._slow = np.zeros(self._shape)
        self._speed = np.zeros(self._shape)
        self._moved = np.zeros(self._shape)
        self._squares = np.zeros((3, self._dof))
        self._torques = np.zeros(self._shape)
        self._errors = np.zeros((3, self._dof))
        self._trust = np.zeros(self._dof)

    @property
    def trust(self) -> FloatArray:
        """Authority that the residual has earned, 0 to 1."""
        return self._trust

    def rms(self) -> FloatArray:
        """Errors over the window as they are, without the residual, and with all of it; (3, dof) [rad]."""
        return np.sqrt(self._squares)

    def update(self, q: FloatArray, error: FloatArray, applied: FloatArray, offered: FloatArray, dt: float) -> None:
        """One step: error [rad] now; `applied` and `offered` [Nm] are what was added, and what was wanted, before it."""
        if self._steps % INERTIA_EVERY == 0:
            self._inverse_inertia = np.asarray(np.linalg.inv(self._body.mass_matrix(q)), dtype=np.float64)
        self._steps += 1
        torques, slow, speed, moved = self._torques, self._slow, self._speed, self._moved
        torques[0], torques[1] = applied, offered
        torques -= slow
        if self._corrector > 0.0:
            slow += min(1.0, self._corrector * dt) * torques
        acceleration = torques @ self._inverse_inertia  # rows; M is symmetric
        acceleration -= self._damping * speed
        acceleration -= self._stiffness * moved
        acceleration *= dt
        speed += acceleration
        moved += dt * speed
        errors = self._errors
        errors[0] = error
        np.add(error, moved[0], out=errors[1])
        np.subtract(errors[1], moved[1], out=errors[2])
        np.multiply(errors, errors, out=errors)
        errors -= self._squares
        errors *= dt / (WINDOW + dt)
        self._squares += errors
        self._judge(dt)

    def _judge(self, dt: float) -> None:
        """Trust rises slowly while the residual would help, and falls fast when it would not."""
        without = self._squares[1] + SMALLEST**2
        # Share by which the mean square would fall, from `DOUBTFUL` (0) to `CLEAR` (1).
        gain = (SCALE * (without - self._squares[2] - SMALLEST**2)) / without - SCALE * DOUBTFUL
        np.minimum(np.maximum(gain, 0.0, out=gain), 1.0, out=gain)
        gain -= self._trust
        np.minimum(np.maximum(gain, -dt / FALL, out=gain), dt * self._rise, out=gain)
        self._trust = self._trust + gain
