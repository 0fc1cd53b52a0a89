"""What the effort of foreign states means: declared, never guessed."""

from dataclasses import dataclass

import numpy as np

from trimtab.arm import Arm
from trimtab.errors import ConfigError
from trimtab.typing import FloatArray

UNITS = ("Nm", "A", "mA", "none")


@dataclass(frozen=True)
class EffortUnit:
    """Turns an effort into torque."""

    scale: FloatArray
    """Nm per unit of effort, in the arm's joint order, (dof,)."""


def effort_unit(text: str, arm: Arm) -> EffortUnit | None:
    """`Nm`; `none`; `A` or `mA` with Nm/A for each joint: `mA:elbow=1.8,wrist=1.8` or one number for all: `A:1.8`.

    None for `none`: whatever stands there is not used.
    """
    unit, _, constants = (part.strip() for part in text.partition(":"))
    if unit not in UNITS:
        raise ConfigError(f"effort unit '{unit}' is not known; declare one of {', '.join(UNITS)}")
    if unit == "none":
        return None
    if unit == "Nm":
        if constants:
            raise ConfigError("an effort in Nm takes no torque constants")
        return EffortUnit(np.ones(arm.dof))
    if not constants:
        example = f"{unit}:1.8 or {unit}:{arm.joints[0]}=1.8,..."
        raise ConfigError(f"an effort in {unit} needs torque constants in Nm/A: {example}")
    scale = _constants(constants, arm)
    return EffortUnit(scale * (1e-3 if unit == "mA" else 1.0))


def _constants(text: str, arm: Arm) -> FloatArray:
    if "=" not in text:
        return np.full(arm.dof, _number(text, "all joints"))
    found: dict[str, float] = {}
    for part in text.split(","):
        joint, _, value = (word.strip() for word in part.partition("="))
        if joint not in arm.joints or joint in found:
            problem = "is named twice" if joint in found else f"is no joint of {arm.name} ({', '.join(arm.joints)})"
            raise ConfigError(f"torque constants: '{joint}' {problem}")
        found[joint] = _number(value, joint)
    missing = [joint for joint in arm.joints if joint not in found]
    if missing:
        raise ConfigError(f"torque constants: joint '{missing[0]}' has none; give one for each joint")
    return np.array([found[joint] for joint in arm.joints])


def _number(text: str, whose: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value) or value == 0.0:
        raise ConfigError(f"torque constant of {whose}: '{text}' is no finite number other than zero [Nm/A]")
    return value
