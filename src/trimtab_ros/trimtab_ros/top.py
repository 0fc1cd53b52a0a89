"""`trimtab top`: what the stages of every control loop on the graph take, live in a terminal."""

import argparse
import math
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trimtab.errors import ConfigError
from trimtab_ros.stopping import StopWish

if TYPE_CHECKING:
    from diagnostic_msgs.msg import DiagnosticArray

    from trimtab.report.loops import Loops

NOTHING = 1
RENEWAL = 1.0  # s between two pictures; the nodes speak as often
SETTLED = 2.0  # s in which no new node speaks: then all are found, as each speaks once a second
PATIENCE = 10.0  # s
POLL = 0.1  # s; how soon a signal is seen
DEPTH = 100  # messages that may wait: a fleet has many nodes
HOME, CLEAR_LINE, CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"

DESCRIPTION = """\
Shows how long each stage of a control cycle takes, from what the nodes say on /diagnostics once a second. One table per
robot: percentiles since the node's last report [us], and the p99 as a share of the control period."""

EXAMPLES = """\
stages:
  read        the state is measured
  residual    the model computes its offer
  controller  reference, checks of the state, classical torque
  filter      the safety filter makes one torque of the two
  write       the command is handed to the drives
  publish     messages are made, or handed to the thread that makes them
  cycle       all of these; with a process per node each has a cycle of its own
  answer      from a state's publication to the command that answers it
  -           nobody tells this stage, or its value cannot be read

examples:
  trimtab up &                            an arm to look at
  trimtab top                             renewed once a second, until Ctrl-C
  trimtab top --once                      one picture, for instance for a bug report
  trimtab top --namespace left            one robot of a fleet
  trimtab top --seconds 60 > times.txt    a block per second, without escape codes

Exit code: 0, or 1 when nothing was heard."""


def register(subparsers: Any) -> None:
    """Adds the command to `trimtab`."""
    parser = subparsers.add_parser(
        "top", help="watch what the control loops' stages take, live", description=DESCRIPTION, epilog=EXAMPLES
    )
    span = parser.add_mutually_exclusive_group()
    span.add_argument("--seconds", type=float, metavar="N", help="stop after this long")
    span.add_argument(
        "--once", action="store_true", help="one picture, when two seconds long no new node has spoken: then all are in it"
    )
    parser.add_argument(
        "--patience", type=float, default=PATIENCE, metavar="N", help="s that --once waits for the first stage times"
    )
    parser.add_argument("--namespace", metavar="NS", help="only the robots of this namespace; / for those without one")
    parser.set_defaults(command=_command)


def _command(options: argparse.Namespace) -> int:
    for name in ("seconds", "patience"):
        value = getattr(options, name)
        if value is not None and not (math.isfinite(value) and value > 0.0):
            raise ConfigError(f"--{name} {value:g} is not a time; give a number of seconds above zero")
    asked = StopWish()
    before = asked.listen()  # ahead of the slow imports, so that Ctrl-C ends those as well
    try:
        return _watch(options, asked)
    except BrokenPipeError:  # `trimtab top | head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]


def _watch(options: argparse.Namespace, asked: StopWish) -> int:
    """Listens and shows, until it is over or somebody wants it to end."""
    import rclpy
    from rclpy.executors import SingleThreadedExecutor
    from rclpy.signals import SignalHandlerOptions

    from trimtab.report.loops import Loops
    from trimtab_ros.plan import environment
    from trimtab_ros.topics import DIAGNOSTICS

    os.environ.update(environment())  # the same transport as the nodes
    loops = Loops()
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    try:
        # A name of its own for each process: two watchers must not look like one node that is there twice.
        node = rclpy.create_node(f"trimtab_top_{os.getpid()}", start_parameter_services=False, enable_rosout=False)
        node.create_subscription(DIAGNOSTICS.type, DIAGNOSTICS.name, lambda message: hear(loops, message), DEPTH)
        executor = SingleThreadedExecutor()
        executor.add_node(node)
        try:
            spin = executor.spin_once
            heard = _once(options, loops, spin, asked) if options.once else _live(options, loops, spin, asked)
        finally:
            executor.shutdown()
            node.destroy_node()
    finally:
        rclpy.try_shutdown()
    if heard or asked:
        return 0
    print(f"trimtab top: {nothing(options.namespace)}", file=sys.stderr)
    return NOTHING


def hear(loops: "Loops", message: "DiagnosticArray") -> None:
    """Takes what a message tells of loops."""
    from trimtab.report.loops import read_report

    received = time.monotonic()
    for status in message.status:
        values = {item.key: item.value for item in status.values}
        level = int.from_bytes(status.level, "little")
        report = read_report(status.name, status.hardware_id, level, status.message, values, received)
        if report is not None:
            loops.hear(report)


def nothing(namespace: str | None) -> str:
    """What to look at when nothing comes."""
    where = "" if namespace is None else f" of namespace /{namespace.strip('/')}"
    domain = os.environ.get("ROS_DOMAIN_ID", "0")
    return (
        f"nothing on /diagnostics{where} that tells stage times. Is `trimtab up` running, "
        f"and with the same ROS_DOMAIN_ID (here {domain})?"
    )


def _once(options: argparse.Namespace, loops: "Loops", spin: Callable[..., None], asked: StopWish) -> bool:
    """One picture; tells whether there was anything to show."""
    deadline = time.monotonic() + options.patience
    while not asked and not loops.timed(options.namespace) and time.monotonic() < deadline:
        spin(timeout_sec=POLL)
    if asked or not loops.timed(options.namespace):
        return False
    nodes, settled = len(loops), time.monotonic() + SETTLED
    deadline = time.monotonic() + options.patience
    while not asked and time.monotonic() < min(settled, deadline):
        spin(timeout_sec=POLL)
        if len(loops) > nodes:
            nodes, settled = len(loops), time.monotonic() + SETTLED
    print(_picture(options, loops), flush=True)
    return True


def _live(options: argparse.Namespace, loops: "Loops", spin: Callable[..., None], asked: StopWish) -> bool:
    """A picture per second; tells whether there was ever anything to show."""
    start = time.monotonic()
    end = math.inf if options.seconds is None else start + options.seconds
    due = start + RENEWAL
    while not asked:
        spin(timeout_sec=POLL)
        now = time.monotonic()
        if now >= min(due, end):
            _show(_picture(options, loops))
            due = max(due + RENEWAL, now)
        if now >= end:
            break
    return bool(loops.robots(time.monotonic(), options.namespace))


def _picture(options: argparse.Namespace, loops: "Loops") -> str:
    from trimtab.report.timing_table import robots_text

    return robots_text(loops.robots(time.monotonic(), options.namespace)) or nothing(options.namespace)


def _show(picture: str) -> None:
    """Over the last picture in a terminal, below it elsewhere."""
    from trimtab.report.timing_table import fit

    if not sys.stdout.isatty():
        print(f"{picture}\n", flush=True)
        return
    size = shutil.get_terminal_size()
    fitted = fit(picture, size.columns - 1, size.lines - 1)  # in the last column clearing takes the last letter with it
    # Line by line, and what is left over at the end: clearing the whole screen first would flicker.
    print(HOME + "".join(f"{line}{CLEAR_LINE}\n" for line in fitted.splitlines()) + CLEAR_BELOW, end="", flush=True)
