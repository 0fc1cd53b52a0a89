"""What stands between a torque command and the drives: a stale or bad command is replaced by damping."""

import numpy as np

from trimtab.arm import Arm
from trimtab.control import Damp
from trimtab.dynamics import RigidBody
from trimtab.faults import FaultLatch, Level
from trimtab.joints import Bounds
from trimtab.typing import FloatArray

FADE_TIME = 0.1  # s over which a command takes over from damping: it may ask for something far from it
STALE_PERIODS = 3  # an older torque acts like a delay in the loop, which takes its margin and then its stability


class CommandGate:
    """Passes fresh commands on; damps the arm while there is none, and after a fault until it is reset.

    Times are of a steady clock [s]. A command is fresh for a few control periods; then the arm is damped, and when the
    time-out has passed as well, that becomes a fault. Before the first command the arm is damped too. After any damping
    the command is faded in.
    """

    def __init__(self, arm: Arm, body: RigidBody, timeout: float, fresh: float | None = None) -> None:
        """timeout: how old the newest command may be before that is a fault [s]; fresh: before it is damped [s].

        A simulation that waits for each command sets both alike, so that a slow machine changes nothing.
        """
        self.latch = FaultLatch()
        self.timeout = timeout
        self._damp = Damp(arm, body)
        self._fresh = STALE_PERIODS * arm.period if fresh is None else fresh
        self._limit, self._negative_limit = arm.torque, -arm.torque
        self._torques = Bounds(self._negative_limit, self._limit)
        self._fade = arm.period / FADE_TIME
        self._authority = 0.0
        self.periods = self.damped_periods = 0
        self._command: FloatArray | None = None
        self._arrival = 0.0

    @property
    def waiting(self) -> bool:
        """Whether no command has come yet since the start or the last reset."""
        return self._command is None

    def accept(self, torque: FloatArray, now: float) -> None:
        """A new command [Nm], finite and in the arm's order; `now` is when the state that it answers was measured."""
        self._command, self._arrival = torque, now

    def refuse(self, reason: str, now: float) -> None:
        """A command that cannot be used: the arm is damped from here on."""
        self.latch.trip(Level.DAMP, reason, now)

    def age(self, now: float) -> float | None:
        """Age of the newest command [s]."""
        return None if self._command is None else now - self._arrival

    def notice_silence(self, now: float) -> None:
        """Latches when no command has come for too long."""
        age = self.age(now)
        if age is not None and age > self.timeout:
            self.latch.trip(Level.DAMP, f"no command for {age:.3f} s (allowed {self.timeout:g} s)", now)

    def torque(self, q: FloatArray, qd: FloatArray, now: float) -> FloatArray:
        """What the drives get [Nm], within the arm's torque limits."""
        self.periods += 1
        self.notice_silence(now)
        age = self.age(now)
        fresh = age is not None and age <= self._fresh and self.latch.level is Level.NOMINAL
        if not fresh or self._command is None:
            self._authority = 0.0
            self.damped_periods += 1
            return self._within_limits(self._damp.torque(q, qd))
        self._authority = min(1.0, self._authority + self._fade)
        if self._authority == 1.0:
            return self._within_limits(self._command)
        damping = self._damp.torque(q, qd)
        return self._within_limits(damping + self._authority * (self._command - damping))

    def _within_limits(self, torque: FloatArray) -> FloatArray:
        if self._torques.hold(torque):
            return torque
        limited: FloatArray = np.minimum(np.maximum(torque, self._negative_limit), self._limit)
        return limited

    def reset(self) -> None:
        """Forgets the fault and the last command: the arm is damped until a new command comes."""
        self.latch.reset()
        self._command = None
