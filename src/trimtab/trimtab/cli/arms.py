"""`trimtab arms`: the arms that are known, and a check of contracts."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.errors import TrimtabError

if TYPE_CHECKING:
    from trimtab.arm import Arm

DESCRIPTION = """\
Lists the arms of config/arms with their joints, control rate and who compensates gravity in torque mode.
With --check it reads contracts and says what is wrong with them."""

EXAMPLES = """\
examples:
  trimtab arms
  trimtab arms --check my_arm.yaml     before you run an arm of your own: trimtab run --arm ./my_arm.yaml"""


def register(subparsers: Any) -> None:
    """Adds `trimtab arms`."""
    parser = subparsers.add_parser("arms", help="list the arms, check contracts", description=DESCRIPTION, epilog=EXAMPLES)
    parser.add_argument("--check", nargs="+", type=Path, metavar="FILE", help="contracts to check instead of listing")
    parser.set_defaults(command=_arms)


def _arms(arguments: argparse.Namespace) -> int:
    return check(arguments.check) if arguments.check else show()


def show() -> int:
    """Prints a line for each known arm; 1 if a contract among them is broken."""
    from trimtab.arm import load_arm
    from trimtab.names import arm_names

    print(f"{'arm':<20} {'joints':>6} {'rate':>8}  gravity")
    broken = 0
    for name in arm_names():
        try:
            print(_line(name, load_arm(name)))
        except TrimtabError as error:
            print(f"{name:<20} refused: {error}")
            broken = 1
    return broken


def check(files: list[Path]) -> int:
    """Checks contracts one by one; 1 if any is refused."""
    from trimtab.arm import load_arm
    from trimtab.dynamics import RigidBody

    refused = 0
    for file in files:
        try:
            arm = load_arm(file)
            RigidBody(arm)
            print(f"{file}: ok: {arm.name}, {arm.dof} joints ({', '.join(arm.joints)})")
        except TrimtabError as error:
            print(f"{file}: refused: {error}")
            refused = 1
    return refused


def _line(name: str, arm: "Arm") -> str:
    owner = "the stack adds it" if arm.actuator.stack_owns_gravity else "the robot does it"
    return f"{name:<20} {arm.dof:>6} {arm.rate:>5.0f} Hz  {owner}\n{'':<20} {', '.join(arm.joints)}"
