#!/usr/bin/env python3
"""A composed arm for half an hour: memory, latency, deadlines and resets, as figures and as a plot."""

import argparse
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from common import benchmark, write_result
from loop_cases import children_of_plan
from tqdm import tqdm

from trimtab.errors import TrimtabError
from trimtab.names import COMPOSED
from trimtab.timing import ANSWER, CYCLE, Spread
from trimtab_ros.plan import plan

SETTLING = 60.0  # s after which memory and latency are held against the end's
PATIENCE = 30.0  # s until a reset must be answered and the arm must move again
RESET_ORDER = ("controller", "residual", "reference")
DESCRIPTION = """\
Runs an arm's nodes in one process (simulated, plant worn, learned torque on) along a reference that repeats, listens to
/diagnostics, and resets controller, residual and reference every minute. Prints memory, latency and misses of the first
and of the last part, and draws them over time."""


@dataclass
class Watch:
    """What was heard, one row per report of the driver."""

    rows: list[dict[str, float]] = field(default_factory=list)
    status: dict[str, str] = field(default_factory=dict)
    faults: dict[str, float] = field(default_factory=dict)
    """When each was heard first [s]."""

    def hear(self, message: Any, memory: float, now: float) -> None:
        """A DiagnosticArray at `now` [s] after the start."""
        for status in message.status:
            node = status.name.removesuffix(": loop")
            self.status[node] = status.message
            values = {pair.key: pair.value for pair in status.values}
            if values.get("fault", "nominal") != "nominal":
                self.faults.setdefault(f"{node}: {values['fault']}", now)
            if node == "sim_bridge" and values.get(f"timing_{CYCLE}_us") and values.get(f"timing_{ANSWER}_us"):
                cycle, answer = (Spread.parse(values[f"timing_{name}_us"]) for name in (CYCLE, ANSWER))
                row = {"t": now, "memory": memory, "missed": float(values["deadline_misses"])}
                row |= {f"cycle_{key}": value for key, value in cycle._asdict().items()}
                row |= {f"answer_{key}": value for key, value in answer._asdict().items()}
                self.rows.append(row | {"unpublished": float(values["unpublished"]), "rate": float(values["rate_hz"])})


def memory_of(pid: int) -> float:
    """Resident memory [MiB]."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def soak(options: argparse.Namespace) -> tuple[Watch, int]:
    """Runs the arm; gives what was heard and how many resets were answered."""
    import rclpy
    from std_srvs.srv import Trigger

    from trimtab_ros.topics import DIAGNOSTICS

    given = {"arm": options.arm, "plant": "worn", "controller": "observer", "residual": "on", "delivery": COMPOSED}
    given |= {"reference": "infinity", "duration": "8.0", "repeat": "0", "state_timeout": "1.0", "command_timeout": "1.0"}
    given |= {"priority": str(options.priority)}
    watch, resets = Watch(), 0
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        started = stack.enter_context(children_of_plan(plan(given), Path(place)))
        rclpy.init()
        stack.callback(rclpy.try_shutdown)
        node = rclpy.create_node("soak")
        begin = time.monotonic()

        def hear(message: Any) -> None:
            watch.hear(message, memory_of(started["arm"].pid), time.monotonic() - begin)

        node.create_subscription(DIAGNOSTICS.type, DIAGNOSTICS.name, hear, 100)
        clients = {name: node.create_client(Trigger, f"/{name}/reset") for name in RESET_ORDER}

        def until(happened: Any, what: str) -> None:
            deadline = time.monotonic() + PATIENCE
            while not happened():
                ended = [name for name, child in started.items() if child.poll() is not None]
                if ended or time.monotonic() > deadline:
                    raise TrimtabError(f"waited for {what}; ended meanwhile: {ended}; faults: {watch.faults}")
                rclpy.spin_once(node, timeout_sec=0.1)

        until(lambda: watch.status.get("controller") == "following", "the arm to move")
        bar = tqdm(total=round(options.seconds), unit="s", file=sys.stderr, mininterval=1.0 if sys.stderr.isatty() else 60.0)
        due = time.monotonic() + options.every
        while (now := time.monotonic() - begin) < options.seconds:
            rclpy.spin_once(node, timeout_sec=0.2)
            bar.update(int(now) - bar.n)
            if time.monotonic() > due:
                due += options.every
                for name in RESET_ORDER:
                    future = clients[name].call_async(Trigger.Request())
                    until(future.done, f"the reset of {name}")
                    resets += bool(future.result().success)
                watch.status.pop("controller", None)
                until(lambda: watch.status.get("controller") == "following", "the arm to move after a reset")
        bar.close()
        node.destroy_node()
    return watch, resets


def summary(watch: Watch, resets: int) -> tuple[str, dict[str, Any]]:
    """The first and the last tenth after settling, side by side."""
    rows = [row for row in watch.rows if row["t"] > SETTLING] or watch.rows
    part = max(1, len(rows) // 10)
    first, last = rows[:part], rows[-part:]

    def middle(of: list[dict[str, float]], key: str) -> float:
        return float(np.median([row[key] for row in of]))

    keys = ("memory", "answer_p50", "answer_p99", "cycle_p50", "cycle_p99", "rate")
    table = {key: (middle(first, key), middle(last, key)) for key in keys}
    span = rows[-1]["t"] - rows[0]["t"]
    slope = float(np.polyfit([row["t"] for row in rows], [row["memory"] for row in rows], 1)[0]) * 3600.0
    missed = rows[-1]["missed"] - rows[0]["missed"]
    lines = [f"{'':<22}{'first tenth':>12}{'last tenth':>12}"]
    units = {"memory": "memory [MiB]", "rate": "rate [Hz]"}
    lines += [f"{units.get(key, key.replace('_', ' ') + ' [us]'):<22}{a:>12.1f}{b:>12.1f}" for key, (a, b) in table.items()]
    lines += [
        f"memory grows by {slope:.2f} MiB/h over {span / 60:.1f} min",
        f"deadlines missed: {missed:.0f} ({100.0 * missed / max(1.0, span * table['rate'][1]):.3f} %)",
        f"resets answered: {resets}; messages not published: {rows[-1]['unpublished']:.0f}; faults: {len(watch.faults)}",
    ]
    return "\n".join(lines), {"parts": table, "memory_mib_per_h": slope, "missed": missed, "resets": resets}


def draw(watch: Watch, file: Path, title: str) -> None:
    """Latency, memory and missed deadlines over time."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    t = np.array([row["t"] for row in watch.rows]) / 60.0
    figure, axes = pyplot.subplots(3, 1, figsize=(9.0, 7.5), sharex=True, layout="constrained")
    for key in ("p50", "p95", "p99", "max"):
        axes[0].plot(t, [row[f"answer_{key}"] for row in watch.rows], linewidth=0.7, label=key)
    axes[0].set_yscale("log")
    axes[0].set_ylabel("state to command [us]")
    axes[0].legend(ncols=4, loc="upper right")
    axes[1].plot(t, [row["memory"] for row in watch.rows])
    axes[1].set_ylim(0.0, 1.2 * max(row["memory"] for row in watch.rows))
    axes[1].set_ylabel("memory [MiB]")
    axes[2].plot(t, [row["missed"] - watch.rows[0]["missed"] for row in watch.rows])
    axes[2].set_ylabel("deadlines missed")
    axes[2].set_xlabel("time [min]")
    axes[0].set_title(title)
    for axis in axes:
        axis.grid(alpha=0.3)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)


def run(options: argparse.Namespace) -> int:
    """Runs, prints, draws."""
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    os.environ.setdefault("ROS_DOMAIN_ID", "87")
    watch, resets = soak(options)
    text, figures = summary(watch, resets)
    how = f"SCHED_FIFO {options.priority}" if options.priority else "usual scheduling"
    minutes = f"{options.seconds / 60:g} minutes"
    print(f"{options.arm}, composed, plant worn, observer and learned torque, {how}, {minutes}\n\n{text}")
    for fault, when in watch.faults.items():
        print(f"fault at {when:.0f} s: {fault}")
    if options.plot is not None:
        draw(
            watch,
            options.plot,
            f"{options.arm}, composed, {how}, {minutes}, reset every {options.every:g} s",
        )
        print(f"plot: {options.plot}")
    write_result(
        options.json,
        {"result": figures, "faults": watch.faults, "rows": watch.rows},
        ("numpy", "onnxruntime", "ros-jazzy-rclpy"),
    )
    return 1 if watch.faults else 0


def main(argv: list[str] | None = None) -> int:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arm", default="ur5e", help="which arm (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=1800.0, metavar="S", help="how long (default: %(default)s)")
    parser.add_argument("--every", type=float, default=60.0, metavar="S", help="between resets (default: %(default)s)")
    parser.add_argument("--priority", type=int, default=0, metavar="P", help="SCHED_FIFO priority of the loop; 0: none")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw it there (PNG)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the result there")
    return benchmark(run, parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
