"""`trimtab up`: runs the bring-up plan without the launch package."""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.errors import ConfigError
from trimtab_ros.stopping import PARENT, StopWish

if TYPE_CHECKING:
    from trimtab_ros.plan import Argument, Process

GRACE = 5.0  # s that a node has to end after SIGINT, and again after SIGTERM
POLL = 0.05  # s
EXAMPLES = """examples:
  trimtab up                                     UR5e in simulation, drawing a plum blossom
  trimtab up arm:=wam plant:=worn controller:=observer repeat:=0
  trimtab up arm:=so101 mode:=lockstep record:=true
  trimtab up robots:=left:ur5e,right:wam         several arms, each in its namespace
  trimtab up bag:=runs/sweep/bags/pd arm:=ur5e controller:=pd pace:=2.0   play a bag to live nodes

Ctrl-C ends everything. Exit code: that of the first node that failed, else 0."""


def register(subparsers: Any) -> None:
    """Adds the command to `trimtab`."""
    parser = subparsers.add_parser(
        "up",
        help="bring an arm up: bridge, controller and reference as ROS 2 nodes",
        description="Starts the same processes as `ros2 launch trimtab_ros arm.launch.py`, with the same arguments.",
        closing=_closing,
    )
    parser.add_argument("arguments", nargs="*", metavar="name:=value", help="see the list below")
    parser.add_argument("--dry-run", action="store_true", help="print the processes and their parameters, start nothing")
    parser.set_defaults(command=_command)


def _closing() -> str:
    """Every argument with its choices; imported only when somebody asks for help."""
    from trimtab_ros.plan import arguments, fleet_arguments, replay_arguments

    tables = {
        "arguments": arguments(),
        "for a fleet": fleet_arguments(),
        "for a bag that is played to live nodes": replay_arguments(),
    }
    return "\n\n".join([*(f"{title}:\n{_describe(table)}" for title, table in tables.items()), EXAMPLES])


def _describe(table: Sequence["Argument"]) -> str:
    lines = []
    for argument in table:
        choices = f" ({' | '.join(argument.choices)})" if argument.choices else ""
        lines.append(f"  {argument.name + ':=' + (argument.default or chr(34) * 2):34s} {argument.description}{choices}")
    return "\n".join(lines)


def parse_assignments(texts: Sequence[str]) -> dict[str, str]:
    """`arm:=wam` -> {arm: wam}."""
    given: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition(":=")
        if not separator or not name:
            raise ConfigError(f"'{text}' is not of the form name:=value")
        if name in given:
            raise ConfigError(f"{name} is given twice")
        given[name] = value
    return given


def _command(options: argparse.Namespace) -> int:
    from trimtab_ros.plan import check_bags, fleet_plan, plan, replay_plan

    given = parse_assignments(options.arguments)
    processes = fleet_plan(given) if "robots" in given else replay_plan(given) if "bag" in given else plan(given)
    if options.dry_run:
        for process in processes:
            for node in process.nodes or (process,):
                place = f"{process.name}/{node.name}" if process.nodes else node.name
                print(f"{process.namespace or '/'} {place}: {node.parameters}")
        return 0
    return run_processes(check_bags(processes))


def command_line(process: "Process", parameters: Path) -> list[str]:
    """How a process of the plan is started with this interpreter."""
    remaps = [] if process.nodes else ["-r", f"__node:={process.name}"]  # it would rename them all
    if process.namespace:
        remaps += ["-r", f"__ns:=/{process.namespace.strip('/')}"]
    return [
        *(sys.executable, "-m", "trimtab_ros.node", process.executable),
        *("--ros-args", *remaps, "--params-file", str(parameters)),
    ]


def run_processes(processes: Sequence["Process"]) -> int:
    """Runs all until Ctrl-C or until one ends; then ends the others. Gives the first failing exit code, else 0."""
    asked = StopWish()
    before = asked.listen()
    children: list[tuple[Process, subprocess.Popen[bytes]]] = []
    failed = 0
    try:
        with tempfile.TemporaryDirectory(prefix="trimtab-up-") as folder:
            try:
                for process in processes:
                    file = process.write_parameters(Path(folder))
                    # A session of its own: a terminal's Ctrl-C must reach the nodes once, through us.
                    child = subprocess.Popen(command_line(process, file), start_new_session=True, env=_environment())
                    children.append((process, child))
                gone: set[int] = set()  # processes that ended and that the arm can do without
                done = False
                while not asked and not failed and not done:
                    for process, child in children:
                        code = child.poll()
                        if code is not None and process.last:
                            failed, done = _exit_code(code), True
                            break
                        if code is not None and child.pid not in gone:
                            rest = "" if process.essential else "; the others go on without it"
                            print(f"trimtab up: {process.name} ended with exit code {code}{rest}", file=sys.stderr)
                            if process.essential:
                                failed = _exit_code(code) or 1
                                break
                            gone.add(child.pid)
                    else:
                        time.sleep(POLL)
            finally:
                late = end([child for _, child in children])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
    if failed:
        return failed
    # A child that was still starting when it was told to end has ended as it should.
    told = (-signal.SIGINT, 128 + signal.SIGINT)
    codes = [
        0 if child.returncode in told or not process.essential else _exit_code(child.returncode)
        for process, child in children
    ]
    return next((code for code in codes if code), 1 if late else 0)


def end(children: Sequence["subprocess.Popen[bytes]"]) -> bool:
    """Ends processes: SIGINT, then SIGTERM, then SIGKILL. Tells whether any needed more than SIGINT."""
    forced = False
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        alive = [child for child in children if child.poll() is None]
        if not alive:
            return forced
        forced = forced or number is not signal.SIGINT
        for child in alive:
            child.send_signal(number)
        deadline = time.monotonic() + GRACE
        for child in alive:
            try:
                child.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                print(f"trimtab up: process {child.pid} does not end on {number.name}", file=sys.stderr)
    return forced


def _exit_code(code: int) -> int:
    """As a shell gives it: 128 + signal for a process that was killed."""
    return code if code >= 0 else 128 - code


def _environment() -> dict[str, str]:
    """The nodes' environment: our process id, so that they end with us; their output line by line, also into a pipe."""
    from trimtab_ros.plan import environment

    return {
        **os.environ,
        **environment(),
        PARENT: str(os.getpid()),
        "PYTHONUNBUFFERED": "1",
        "RCUTILS_LOGGING_BUFFERED_STREAM": "0",
    }
