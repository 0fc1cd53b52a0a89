"""Builds a controller from a text such as `computed_torque+friction+observer`."""

from collections.abc import Callable

import numpy as np

from trimtab.arm import Arm
from trimtab.control.adaptive import SlotineLi
from trimtab.control.base import Compensator, ControlLaw, Sample
from trimtab.control.compensators import FrictionFeedForward, IntegralAction, MomentumObserver
from trimtab.control.friction import FrictionModel
from trimtab.control.laws import ComputedTorque, PdGravity
from trimtab.dynamics import RigidBody
from trimtab.errors import ConfigError
from trimtab.names import parse_controller
from trimtab.typing import FloatArray

_LAWS: dict[str, Callable[[Arm, RigidBody], ControlLaw]] = {
    "pd": PdGravity,
    "computed_torque": ComputedTorque,
    "adaptive": SlotineLi,
}


class ControllerStack:
    """One law plus compensators; the classical torque of the stack."""

    def __init__(self, law: ControlLaw, compensators: list[Compensator]) -> None:
        self.law = law
        self.compensators = compensators
        self._explained: FloatArray | float = 0.0

    def reset(self) -> None:
        """Forgets all that was learnt or integrated."""
        self.law.reset()
        for part in self.compensators:
            part.reset()

    def torque(self, sample: Sample) -> FloatArray:
        """The classical torque, not yet limited, shape (dof,) [Nm]."""
        total = self.law.torque(sample).copy()
        explained = self.law.explained()
        self._explained = 0.0 if explained is None else explained
        for part in self.compensators:
            total += part.torque(sample)
            explained = part.explained()
            if explained is not None:
                self._explained = self._explained + explained
        return total

    @property
    def corrector_bandwidth(self) -> float:
        """Up to where the stack cancels disturbances by itself [rad/s]; 0 without an observer."""
        return max((part.bandwidth for part in self.compensators if isinstance(part, MomentumObserver)), default=0.0)

    def applied(self, torque: FloatArray, residual: FloatArray | float = 0.0) -> None:
        """Tells the parts what was really sent after limiting, and how much of it was a learned residual [Nm].

        A residual explains an effect that the nominal model lacks: an observer must not take it for granted, or it
        would compensate that effect a second time.
        """
        if self.compensators:
            unexplained = np.asarray(torque - self._explained - residual)
            for part in self.compensators:
                part.applied(unexplained)


def make_controller(text: str, arm: Arm, body: RigidBody, friction: FrictionModel | None = None) -> ControllerStack:
    """Builds the controller that a text describes; `friction` is needed where the text says so."""
    law_name, names = parse_controller(text)
    if "friction" in names and friction is None:
        raise ConfigError(f"controller '{text}' needs an identified friction model; make one with `trimtab fit friction`")
    compensators: list[Compensator] = []
    for name in names:
        if name == "friction":
            assert friction is not None
            compensators.append(FrictionFeedForward(friction))
        elif name == "integral":
            compensators.append(IntegralAction(arm))
        else:
            compensators.append(MomentumObserver(arm, body))
    law = _LAWS[law_name](arm, body)
    return ControllerStack(law, compensators)
