"""`trimtab record`: records a running robot until Ctrl-C, with the recorder node in this process."""

import argparse
import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.errors import ConfigError, RecordingError
from trimtab.names import MCAP, STORAGES
from trimtab.recording.context import LABELS, parse_labels
from trimtab_ros.stopping import STOP

if TYPE_CHECKING:
    from trimtab_ros.recorder_node import Recorder

NOTHING, REFUSED = 1, 2
RENEWAL = 0.5  # s between two progress lines in a terminal
PLAIN_RENEWAL = 10.0  # s where nobody watches; a log file is not to fill up
POLL = 0.1  # s
PATIENCE = 3.0  # s that the robot's nodes have to answer
ASKED = {
    "controller": ("arm", "controller", "friction_file", "state_timeout", "residual", "model"),
    "sim_bridge": ("plant", "seed", "publish_every"),
    "reference": ("reference",),
}

DESCRIPTION = """\
Records a robot that is running: joint_states, torque_command, residual_torque, reference and /diagnostics, as a rosbag2
bag. The bag is whole at any moment: what came until a second before a crash, a kill or a full disk can be read. What got
lost on the way is counted and told, here and in the bag."""


def _closing() -> str:
    labels = "\n".join(f"  {key:<12} {meaning}" for key, meaning in LABELS.items())
    return f"""\
labels:
{labels}
  x_...        whatever else; the key begins with x_

examples:
  trimtab up &                                             a robot to record
  trimtab record                                           into runs/bag-<date>-<time>, until Ctrl-C
  trimtab record --namespace left --out runs/left --label payload=1kg --label tool=gripper
  trimtab record --arm ur5e --driver ros2_control --seconds 60 --storage sqlite3
  trimtab bag repair runs/left                             should something have damaged a bag

What the bag tells of arm, plant, controller and bundle is asked of this project's nodes; of a robot without them only
what the options tell is known. Exit code: 0, 1 when nothing came or writing failed, 2 refused."""


def register(subparsers: Any) -> None:
    """Adds the command to `trimtab`."""
    parser = subparsers.add_parser(
        "record", help="record a running robot to a bag", description=DESCRIPTION, closing=_closing
    )
    parser.add_argument("--arm", help="name of the arm or path of its contract (default: the one that the controller runs)")
    parser.add_argument("--namespace", default="", metavar="NS", help="of the robot's topics")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the bag, a new one (default: runs/bag-<time>)")
    parser.add_argument("--storage", default=MCAP, choices=STORAGES, help="what the bag's data file is")
    parser.add_argument(
        "--label", action="append", default=[], metavar="KEY=VALUE", help="see the list below; may be given many times"
    )
    parser.add_argument("--seconds", type=float, metavar="N", help="stop after this long")
    told = parser.add_argument_group("told in the bag", "asked of the running nodes where no option tells it")
    told.add_argument("--driver", default="", help="what carries the torque out")
    told.add_argument("--plant", default="", help="the simulated plant")
    told.add_argument("--controller", default="", help="law and compensators")
    told.add_argument("--friction", default="", metavar="FILE", help="identified friction that the controller uses")
    told.add_argument("--residual", default="", choices=("off", "shadow", "on"), help="what the learned torque may do")
    told.add_argument("--model", default="", metavar="BUNDLE", help="bundle of the learned torque")
    told.add_argument("--publish-every", type=int, metavar="N", help="control periods per state that is published")
    parser.set_defaults(command=_command)


def _command(options: argparse.Namespace) -> int:
    values = parameters(options)
    before = STOP.listen()  # ahead of the slow imports, so that Ctrl-C ends those as well
    try:
        return _record(options, values)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]


def parameters(options: argparse.Namespace) -> dict[str, bool | int | float | str]:
    """The node's parameters for the given options, checked as far as that is cheap."""
    if options.seconds is not None and not (math.isfinite(options.seconds) and options.seconds > 0.0):
        raise ConfigError(f"--seconds {options.seconds:g} is not a time; give a number of seconds above zero")
    if options.publish_every is not None and not 1 <= options.publish_every <= 1000:
        raise ConfigError(f"--publish-every {options.publish_every} is not within 1 to 1000")
    labels = parse_labels(options.label)
    if any("," in value for value in labels.values()):
        raise ConfigError("the value of a label must not have a comma")
    out = options.out if options.out is not None else Path("runs") / f"bag-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    if out.exists():
        raise RecordingError(f"--out {out} exists already, and a bag is never overwritten; give another")
    if options.arm is not None:
        from trimtab.arm import load_arm

        load_arm(options.arm)  # an arm that is none is the user's to mend: refused before anything starts
    given = {
        "directory": str(out),
        "storage": options.storage,
        "labels": ",".join(f"{key}={value}" for key, value in labels.items()),
        "arm": options.arm,
        "driver": options.driver,
        "plant": options.plant,
        "controller": options.controller,
        "friction_file": options.friction,
        "residual": options.residual,
        "model": options.model,
        "publish_every": options.publish_every,
    }
    return {name: value for name, value in given.items() if value}


def told_by_nodes(answers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The recorder's parameters from those of the robot's nodes."""
    told: dict[str, Any] = {}
    for answer in answers.values():
        told |= answer
    if "seed" in told:
        told |= {"seed": str(told["seed"]), "driver": "sim"}  # only a simulation has a seed
    if told.get("residual") in (None, "off"):
        told.pop("model", None)
    if told.get("friction_file") and not Path(told["friction_file"]).is_file():
        print(
            f"trimtab record: {told.pop('friction_file')} cannot be read from here, so it is not in the bag", file=sys.stderr
        )
    return told


def _record(options: argparse.Namespace, values: dict[str, bool | int | float | str]) -> int:
    """Runs the node until it is over; gives the exit code."""
    from trimtab_ros.asking import ask_parameters
    from trimtab_ros.hosting import run_nodes
    from trimtab_ros.managed import ManagedNode
    from trimtab_ros.plan import Process, environment
    from trimtab_ros.recorder_node import Recorder
    from trimtab_ros.topics import DIAGNOSTICS

    os.environ.update(environment())  # the same transport as the nodes
    values = told_by_nodes(ask_parameters(ASKED, options.namespace, PATIENCE, lambda: bool(STOP))) | values
    if STOP:
        return 0
    if "arm" not in values:
        raise ConfigError("no controller answers, so the arm is not known; give --arm, or the robot's --namespace")
    made: list[Recorder] = []

    def make() -> list[ManagedNode]:
        recorder = Recorder()
        progress = Progress(recorder, options.seconds)
        recorder.create_timer(POLL, progress.show, clock=recorder.steady)
        made.append(recorder)
        return [recorder]

    with tempfile.TemporaryDirectory(prefix="trimtab-record-") as folder:
        process = Process("recorder", options.namespace.strip("/"), dict(values))
        file = process.write_parameters(Path(folder))
        place = ["-r", f"__ns:=/{process.namespace}"] if process.namespace else []
        code = run_nodes(make, ["--ros-args", *place, "--params-file", str(file)])
    if sys.stderr.isatty():
        print(file=sys.stderr)
    recording = made[0].recording if made else None
    if recording is None:
        return REFUSED if code else 0  # the node has said why, or was told to end before it began
    for topic, count in recording.counts.items():
        print(f"{count:>10} {topic}")
    print(f"lost: {recording.losses.text() or 'nothing'}\nbag:  {values['directory']}")
    if code == 0 and not any(count for topic, count in recording.counts.items() if topic != DIAGNOSTICS.name):
        where = f"of namespace /{process.namespace}" if process.namespace else "without a namespace"
        domain = os.environ.get("ROS_DOMAIN_ID", "0")
        print(
            f"trimtab record: nothing came. Is a robot {where} running, with the same ROS_DOMAIN_ID (here {domain})?",
            file=sys.stderr,
        )
        return NOTHING
    return code


class Progress:
    """The line that tells how it goes, and the end after the wished time."""

    def __init__(self, recorder: "Recorder", seconds: float | None) -> None:
        self._recorder = recorder
        self._seconds = seconds
        self._began: float | None = None
        self._due = 0.0

    def show(self) -> None:
        """Called often; writes when it is time to."""
        now = time.monotonic()
        recording = self._recorder.recording
        if recording is None:
            return
        self._began = began = now if self._began is None else self._began
        if self._seconds is not None and now - began >= self._seconds:
            STOP.wish()
        if now < self._due:
            return
        watched = sys.stderr.isatty()
        self._due = now + (RENEWAL if watched else PLAIN_RENEWAL)
        line = line_of(sum(recording.counts.values()), now - began, recording.losses.text())
        print(f"\r\x1b[K{line}" if watched else line, end="" if watched else "\n", file=sys.stderr, flush=True)


def line_of(messages: int, seconds: float, lost: str) -> str:
    """How it goes."""
    return f"recording: {messages} messages in {seconds:.0f} s, lost: {lost or 'nothing'}"
