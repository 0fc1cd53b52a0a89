"""`trimtab doctor`: what this machine has and lacks, line by line, with what to do."""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

from trimtab.cli.check import Check, State
from trimtab.cli.check_machine import check_can, check_memory_lock, check_rendering, check_scheduler, check_serial
from trimtab.cli.check_python import PACKAGES, check_package, check_python
from trimtab.cli.check_ros import check_control_msgs, check_launch, check_ros, check_round_trip

DESCRIPTION = """\
Checks this machine: Python and packages, ROS 2 and its middleware, off-screen drawing, ports to robots, and what
real-time control needs. One line per check: ok, warn (absent, not needed for simulation) or missing, and what to do.

Exit code 0 if all that simulation needs is there, else 1."""

EXAMPLES = """\
examples:
  trimtab doctor
  trimtab doctor --json > machine.json     for a bug report"""

CHECKS: tuple[Callable[[], Check], ...] = (
    check_python,
    *(partial(check_package, name) for name in PACKAGES),
    check_ros,
    check_round_trip,
    check_launch,
    check_control_msgs,
    check_rendering,
    check_serial,
    check_can,
    check_scheduler,
    check_memory_lock,
)


def register(subparsers: Any) -> None:
    """Adds `trimtab doctor`."""
    parser = subparsers.add_parser("doctor", help="check this machine", description=DESCRIPTION, epilog=EXAMPLES)
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of lines")
    parser.set_defaults(command=_doctor)


def examine() -> Iterator[Check]:
    """Runs the checks one after the other."""
    for check in CHECKS:
        yield check()


def _doctor(arguments: argparse.Namespace) -> int:
    checks = []
    for check in examine():
        checks.append(check)
        if not arguments.json:
            print(check.line(), flush=True)
    blocked = [check.name for check in checks if check.blocks]
    if arguments.json:
        print(json.dumps({"simulation": not blocked, "checks": [asdict(check) for check in checks]}, indent=2))
    elif blocked:
        print(f"\nsimulation cannot work without: {', '.join(blocked)}")
    else:
        count = sum(check.state is not State.OK for check in checks)
        print("\nsimulation can run" + (f"; {count} other things are absent, see above" if count else ""))
    return 1 if blocked else 0
