"""What is known of an arm whose recordings are read: joint names, rate and the unit of its effort, no contract."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trimtab.errors import ConfigError
from trimtab.fields import Fields
from trimtab.joints import JointOrder
from trimtab.names import arm_names
from trimtab.share import names_in, resolve

FOREIGN = "config/foreign"
EFFORT_UNITS = ("Nm", "A", "duty")


class Jointed(Protocol):
    """What reading a log needs to know of an arm, with a contract or without one."""

    @property
    def name(self) -> str:
        """The arm's name."""

    @property
    def joints(self) -> tuple[str, ...]:
        """Base to tool."""

    @property
    def dof(self) -> int:
        """Number of joints."""

    @property
    def period(self) -> float:
        """Control period [s]."""

    def order(self) -> JointOrder:
        """A matcher of joint names to the arm's order."""


@dataclass(frozen=True)
class Embodiment:
    """An arm as far as its recordings need it; nothing can be commanded with it."""

    name: str
    joints: tuple[str, ...]
    """Base to tool."""
    rate: float
    """At which it is controlled or recorded [Hz]."""
    effort_unit: str
    """What its measured effort is: `Nm`, `A` or `duty`."""
    foreign: bool
    """Whether it has no contract."""
    file: Path

    @property
    def dof(self) -> int:
        """Number of joints."""
        return len(self.joints)

    @property
    def period(self) -> float:
        """Of control or recording [s]."""
        return 1.0 / self.rate

    def order(self) -> JointOrder:
        """A matcher of joint names to this order."""
        return JointOrder(self.joints)


def load_embodiment(name_or_path: str | Path) -> Embodiment:
    """An arm of ours by name or contract, or a foreign one by name or by a file that begins with `foreign:`."""
    path = Path(name_or_path)
    is_file = bool(path.suffix) or path.parent != Path()
    if not is_file and str(path) not in (*arm_names(), *names_in(FOREIGN)):
        raise ConfigError(
            f"unknown arm '{path}'; known: {', '.join(arm_names())}; foreign ones, for recordings only: "
            f"{', '.join(names_in(FOREIGN))}; or give a file"
        )
    if (is_file and _is_foreign(path)) or (not is_file and str(path) not in arm_names()):
        return _load_foreign(resolve(name_or_path, FOREIGN, "arm"))
    from trimtab.arm import load_arm  # slow: it loads the dynamics

    arm = load_arm(name_or_path)
    return Embodiment(arm.name, arm.joints, arm.rate, arm.actuator.effort_unit, foreign=False, file=arm.file)


def _is_foreign(path: Path) -> bool:
    return path.is_file() and Fields.of_file(path).has("foreign")


def _load_foreign(file: Path) -> Embodiment:
    fields = Fields.of_file(file)
    embodiment = Embodiment(
        name=fields.text("foreign"),
        joints=fields.texts("joints"),
        rate=fields.number("rate", low=1.0, high=10_000.0),
        effort_unit=fields.text("effort_unit", EFFORT_UNITS),
        foreign=True,
        file=file,
    )
    fields.done()
    return embodiment
