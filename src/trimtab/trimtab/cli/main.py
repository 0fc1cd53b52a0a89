"""Entry of the `trimtab` command: finds the subcommands, runs one, turns the user's errors into one line and an exit code.

A subcommand is a function `register(subparsers)` that adds a parser and gives it `set_defaults(command=function)`;
the function takes the parsed arguments and gives the exit code. Other packages add theirs as entry points of the group
`trimtab.commands`.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points

from trimtab.cli import arms, bag, convert, dataset, doctor, faults, fit, models, replay, run
from trimtab.cli.parser import CommandParser
from trimtab.errors import TrimtabError

GROUP = "trimtab.commands"
INTERRUPTED = 130
REFUSED = 2

DESCRIPTION = """\
Classical control of robot arms, in simulation and on the robot.

Start with `trimtab run`: it needs no ROS and leaves a page with plots, a table of scores and a bag per controller."""

EXAMPLES = """\
examples:
  trimtab run                                           the UR5e draws a plum blossom under computed torque
  trimtab run --plant worn --compare pd,friction,observer
  trimtab run --reference sweep --controller pd --plant worn --duration 20 --out runs/sweep
  trimtab fit friction runs/sweep/bags/pd --arm ur5e    identify friction from that bag
  trimtab convert rollouts.npz --mapping wam_pd --arm wam    bags of a recording that is none
  trimtab dataset runs/*/bags --arm ur5e                a training set of bags
  trimtab arms                                          the arms that are known
  trimtab models list                                   the learned models that are installed
  trimtab faults --arm so101                            what a model that goes wrong can do: nothing bad
  trimtab replay runs/worn/bags --candidate mlp         does a model pass on these bags?
  trimtab bag repair runs/cut-off                       make a complete bag of a damaged one
  trimtab doctor                                        what this machine has and lacks

Each command has its own --help. Exit codes: 0 all well, 1 ran but with a fault or a negative verdict, 2 refused,
3 inconclusive, 130 interrupted."""


def build_parser() -> argparse.ArgumentParser:
    """The parser with all built-in and installed subcommands."""
    parser = CommandParser(prog="trimtab", description=DESCRIPTION, epilog=EXAMPLES)
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
    for module in (run, fit, replay, convert, dataset, faults, bag, models, arms, doctor):
        module.register(subparsers)
    for entry in sorted(entry_points(group=GROUP), key=lambda found: found.name):
        try:
            entry.load()(subparsers)
        except Exception as error:  # somebody else's package; the other commands must go on
            reason = " ".join(str(error).split())
            _complain("warning", f"command '{entry.name}' ({entry.value}) is broken: {type(error).__name__}: {reason}")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and gives the exit code."""
    try:
        parser = build_parser()
        arguments = parser.parse_args(argv)
        if not hasattr(arguments, "command"):
            parser.print_help(sys.stderr)
            return REFUSED
        return int(arguments.command(arguments))
    except TrimtabError as error:
        _complain("error", str(error))
        return REFUSED
    except OSError as error:  # a full disk or a forbidden folder is the user's to mend as well
        _complain("error", f"{error.filename}: {error.strerror}" if error.filename else str(error))
        return REFUSED
    except KeyboardInterrupt:
        _complain("error", "interrupted")
        return INTERRUPTED


def _complain(kind: str, text: str) -> None:
    print(f"trimtab: {kind}: {text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
