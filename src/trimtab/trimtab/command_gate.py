"""What stands between a torque command and the drives: a stale or bad command is replaced by damping."""

from trimtab.arm import Arm
from trimtab.control import Damp
from trimtab.dynamics import RigidBody
from trimtab.faults import FaultLatch, Level
from trimtab.typing import FloatArray

STALE_PERIODS = 5  # a torque held for longer than this accelerates an arm too far


class CommandGate:
    """Passes fresh commands on; damps the arm while there is none, and after a fault until it is reset.

    Times are of a steady clock [s]. A command is fresh for a few control periods; then the arm is damped, and when the
    time-out has passed as well, that becomes a fault. Before the first command the arm is damped too.
    """

    def __init__(self, arm: Arm, body: RigidBody, timeout: float, fresh: float | None = None) -> None:
        """timeout: how old the newest command may be before that is a fault [s]; fresh: before it is damped [s].

        A simulation that waits for each command sets both alike, so that a slow machine changes nothing.
        """
        self.latch = FaultLatch()
        self.timeout = timeout
        self._damp = Damp(arm, body)
        self._fresh = STALE_PERIODS * arm.period if fresh is None else fresh
        self._limit = arm.torque
        self._command: FloatArray | None = None
        self._arrival = 0.0

    @property
    def waiting(self) -> bool:
        """Whether no command has come yet since the start or the last reset."""
        return self._command is None

    def accept(self, torque: FloatArray, now: float) -> None:
        """A new command [Nm], finite and in the arm's order."""
        self._command, self._arrival = torque, now

    def refuse(self, reason: str, now: float) -> None:
        """A command that cannot be used: the arm is damped from here on."""
        self.latch.trip(Level.DAMP, reason, now)

    def age(self, now: float) -> float | None:
        """Age of the newest command [s]."""
        return None if self._command is None else now - self._arrival

    def torque(self, q: FloatArray, qd: FloatArray, now: float) -> FloatArray:
        """What the drives get [Nm], within the arm's torque limits."""
        age = self.age(now)
        if age is not None and age > self.timeout:
            self.latch.trip(Level.DAMP, f"no command for {age:.3f} s (allowed {self.timeout:g} s)", now)
        fresh = age is not None and age <= self._fresh and self.latch.level is Level.NOMINAL
        torque = self._command if fresh and self._command is not None else self._damp.torque(q, qd)
        return torque.clip(-self._limit, self._limit)

    def reset(self) -> None:
        """Forgets the fault and the last command: the arm is damped until a new command comes."""
        self.latch.reset()
        self._command = None
