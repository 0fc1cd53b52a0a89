#!/usr/bin/env python3
"""What a control cycle through our nodes costs, in both deliveries, against bare rclpy and the bare library calls."""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from common import benchmark, write_result
from loop_arms import chain_arm
from residual_step import make_manifest, make_mlp

from trimtab.arm import load_arm
from trimtab.errors import TrimtabError
from trimtab.names import COMPOSED, PROCESSES, arm_names
from trimtab.residual.bundle import load_bundle, write_bundle
from trimtab.share import share_directory

CASE = Path(__file__).with_name("loop_cases.py")
LIBRARIES = ("numpy", "mujoco", "pin", "onnxruntime", "ros-jazzy-rclpy")
FAST = 1000.0  # Hz
FIFO = 50  # priority of the loops that are compared under SCHED_FIFO
DESCRIPTION = """\
Runs the arm's nodes (simulated driver, residual with the arm's committed MLP, controller) and measures

  answer      from a state's publication to the command that answers it, as the driver sees it
  cycle       read, residual, controller, filter, write, publish: all but the simulator and the waiting
  missed      deadlines that passed while a cycle was under way

for composed delivery (one process, direct calls) and for a process per node over DDS, at the arm's own rate and at
1 kHz. In the same run, one after the other and repeated in turn:

  ping-pong   two bare rclpy processes with the stock executor that send the same two messages to and fro
  floor       pinocchio's rnea and onnxruntime's run on the same model, bare, in a loop of the same pace
  bare loop   a Python loop of the same period with an empty body: what the machine does to any loop

A machine's speed drifts, so a ratio is taken between neighbours in time, and the median of all rounds is told:

  /ping       answer composed, over that of the ping-pong
  /floor      cycle composed, over the floor
  /sum        answer over DDS, over the ping-pong's answer and our compute, which is the composed cycle

Then the deadlines that the UR5e's nodes miss at 1 kHz against those of the bare loop, in short turns, with the usual
scheduling and with SCHED_FIFO where the machine allows it.

Then how it grows: with joints, with robots on this machine, with the rate."""
EXAMPLES = """\
examples:
  python benchmarks/loop.py                         all of it, about 25 minutes
  python benchmarks/loop.py --arms ur5e --only arms --seconds 20 --rounds 5
  python benchmarks/loop.py --only growth --json runs/loop.json"""

Result = dict[str, Any]


class Runner:
    """Runs cases, each in a process of its own and in a DDS domain of this benchmark's."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def command(self, case: str, **options: object) -> list[str]:
        """The command line of a case."""
        words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
        return [sys.executable, str(CASE), case, "--seconds", str(self._seconds), *words]

    def run(self, case: str, **options: object) -> Result:
        """One case."""
        print(
            f"  {case} {' '.join(f'{k}={Path(str(v)).name}' for k, v in options.items() if v)}", file=sys.stderr, flush=True
        )
        return self.together([self.command(case, **options)])[0]

    def together(self, commands: list[list[str]]) -> list[Result]:
        """Several cases at once."""
        started = [subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for c in commands]
        try:
            outputs = [process.communicate(timeout=self._seconds + 120) for process in started]
        finally:
            for process in started:
                if process.poll() is None:
                    process.kill()
        for process, (_, errors) in zip(started, outputs, strict=True):
            if process.returncode != 0:
                raise TrimtabError(f"a case failed:\n{errors}")
        return [json.loads(output.splitlines()[-1]) for output, _ in outputs]


def at_rate(name: str, rate: float, folder: Path) -> tuple[str, str]:
    """A committed arm and its model at another rate: paths of a contract and of a bundle."""
    arm = load_arm(name)
    if rate == arm.rate:
        return name, "mlp"
    text = (share_directory() / "config" / "arms" / f"{name}.yaml").read_text()
    contract = folder / f"{name}-{rate:g}.yaml"
    contract.write_text(re.sub(r"(?m)^rate: .*$", f"rate: {rate:g}", text))
    bundle = load_bundle("mlp", arm)
    place = folder / name / "mlp" / f"{rate:g}"
    if not place.exists():
        write_bundle(place, replace(bundle.manifest, rate=rate, version=f"{rate:g}"), bundle.model)
    return str(contract), str(place)


def median(rows: list[Result]) -> Result:
    """The round whose cycle or answer is in the middle, with the misses of all of them."""
    key = next((key for key in ("cycle", "libraries", "answer") if key in rows[0]), None)
    middle = dict(sorted(rows, key=lambda row: row[key]["p50"])[len(rows) // 2] if key else rows[0])
    for name in ("cycles", "missed"):
        if name in middle:
            middle[name] = sum(row[name] for row in rows)
    return middle


def measure_arm(name: str, rate: float, runner: Runner, rounds: int, folder: Path) -> Result:
    """Both deliveries, their rivals and the floor, interleaved."""
    contract, model = at_rate(name, rate, folder)
    cases: dict[str, tuple[str, dict[str, object]]] = {
        "bare": ("bare_loop", {"rate": rate}),
        "floor": ("floor", {"arm": contract, "model": model, "rate": rate}),
        COMPOSED: ("stack", {"arm": contract, "model": model, "delivery": COMPOSED}),
        "ping": ("ping", {"arm": contract, "rate": rate}),
        PROCESSES: ("stack", {"arm": contract, "model": model, "delivery": PROCESSES}),
    }
    rows: dict[str, list[Result]] = {key: [] for key in cases}
    for i in range(rounds):
        print(f"{name} at {rate:g} Hz, round {i + 1} of {rounds}", file=sys.stderr, flush=True)
        for key, (case, options) in cases.items():
            rows[key].append(runner.run(case, **options))
    ratios: dict[str, list[float]] = {"ping": [], "floor": [], "sum": []}
    for floor, composed, ping, processes in zip(rows["floor"], rows[COMPOSED], rows["ping"], rows[PROCESSES], strict=True):
        cycle, answer = composed["cycle"]["p50"], ping["answer"]["p50"]
        ratios["ping"].append(composed["answer"]["p50"] / answer)
        ratios["floor"].append(cycle / floor["libraries"]["p50"])
        ratios["sum"].append(processes["answer"]["p50"] / (answer + cycle))
    return {"arm": name, "rate_hz": rate, "ratios": ratios, **{key: median(found) for key, found in rows.items()}}


def share(row: Result) -> float:
    """Missed deadlines [%]."""
    return 100.0 * float(row["missed"]) / max(1, int(row["cycles"]) + int(row["missed"]))


COLUMNS = ["arm", "Hz", *["ping", "compos", "/ping", "DDS", "/sum"], *["floor", "compos", "/floor"]]
COLUMNS += [*["ping", "compos", "DDS"], "bare", "compos"]
WIDTHS = (19, 5, 6, 7, 6, 6, 6, 7, 7, 7, 7, 7, 6, 7, 7)
GROUPS = f"{'answer p50 [us]':>55}{'cycle p50 [us]':>21}{'answer p99 [us]':>20}{'missed [%]':>14}"


def in_columns(cells: list[str]) -> str:
    """One line of the table."""
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS, strict=True))


def arms_table(results: list[Result]) -> str:
    """Latency and cycle against their yardsticks."""
    lines = [GROUPS, in_columns(COLUMNS)]
    for row in results:
        typical = {key: statistics.median(found) for key, found in row["ratios"].items()}
        ping, composed, processes, floor = row["ping"]["answer"], row[COMPOSED], row[PROCESSES], row["floor"]["libraries"]
        cells = [row["arm"], f"{row['rate_hz']:g}", f"{ping['p50']:.0f}", f"{composed['answer']['p50']:.0f}"]
        cells += [f"{typical['ping']:.2f}", f"{processes['answer']['p50']:.0f}", f"{typical['sum']:.2f}"]
        cells += [f"{floor['p50']:.0f}", f"{composed['cycle']['p50']:.0f}", f"{typical['floor']:.2f}"]
        cells += [f"{one['p99']:.0f}" for one in (ping, composed["answer"], processes["answer"])]
        cells += [f"{share(one):.2f}" for one in (row["bare"], composed)]
        lines.append(in_columns(cells))
    return "\n".join(lines)


def growth_row(label: str, row: Result, floor: Result | None = None) -> str:
    """One line of the growth table."""
    cycle, answer = row["cycle"], row["answer"]
    against = f"{cycle['p50'] / floor['libraries']['p50']:>7.2f}" if floor else "      -"
    return (
        f"{label:<22}{row['rate_hz']:>8.0f} {answer['p50']:>8.0f} {answer['p99']:>8.0f} {cycle['p50']:>8.0f} "
        f"{cycle['p99']:>8.0f} {against} {share(row):>8.2f} {row['unpublished']:>8d}"
    )


def miss_rows(runner: Runner, rounds: int, folder: Path) -> list[Result]:
    """The UR5e and its MLP at 1 kHz, and an empty loop of that period, turn by turn; rounds: of each."""
    contract, model = at_rate("ur5e", FAST, folder)
    rows = []
    for priority in (0, FIFO):
        counts: dict[str, Result] = {name: {"cycles": 0, "missed": 0} for name in ("bare", COMPOSED)}
        refused: list[str] = []
        for _ in range(rounds):
            bare = runner.run("bare_loop", rate=FAST, priority=priority)
            composed = runner.run("stack", arm=contract, model=model, priority=priority)
            refused = bare["refused"]
            for name, row in (("bare", bare), (COMPOSED, composed)):
                for key in counts[name]:
                    counts[name][key] += row[key]
        rows.append({"scheduling": "SCHED_FIFO" if priority else "usual", "refused": refused, **counts})
    return rows


def miss_table(rows: list[Result]) -> str:
    """Missed deadlines against the bare loop's."""
    lines = ["ur5e at 1000 Hz: deadlines missed", "scheduling    bare [%]  composed [%]   ratio  cycles of each"]
    for row in rows:
        if row["refused"]:
            lines.append(f"{row['scheduling']:<12} not here: {row['refused'][0]}")
            continue
        bare, composed = share(row["bare"]), share(row[COMPOSED])
        ratio = f"{composed / bare:>7.2f}" if bare > 0.0 else "      -"
        lines.append(f"{row['scheduling']:<12}{bare:>10.3f}{composed:>14.3f} {ratio}{row['bare']['cycles']:>16d}")
    return "\n".join(lines)


GROWTH_HEAD = (
    f"{'':<22}{'rate':>8} {'answer':>8} {'':>8} {'cycle':>8} {'':>8} {'/floor':>7} {'missed':>8} {'unpub-':>8}\n"
    + (f"{'composed':<22}{'[Hz]':>8} {'p50 [us]':>8} {'p99':>8} {'p50 [us]':>8} {'p99':>8} {'':>7} {'[%]':>8} {'lished':>8}")
)


def joints_growth(runner: Runner, folder: Path, counts: list[int]) -> list[Result]:
    """Arms of more and more joints, with a random MLP each."""
    rows = []
    for count in counts:
        contract = chain_arm(folder / f"chain-{count}", count)
        arm = load_arm(contract)
        bundle = folder / arm.name / "mlp" / "1"
        manifest = make_manifest(arm)
        write_bundle(bundle, manifest, make_mlp([manifest.width, 64, 64, arm.dof]))
        floor = runner.run("floor", arm=contract, model=bundle, rate=arm.rate)
        rows.append({"label": f"{count} joints", "floor": floor, **runner.run("stack", arm=contract, model=bundle)})
    return rows


def robots_growth(runner: Runner, counts: list[int]) -> list[Result]:
    """So many arms at once, a composed process each; the worst of them is told."""
    rows = []
    for count in counts:
        print(f"  {count} robots", file=sys.stderr, flush=True)
        found = runner.together([runner.command("stack", model="mlp", namespace=f"robot_{i}") for i in range(count)])
        worst = max(found, key=lambda row: row["cycle"]["p99"])
        totals = {key: sum(row[key] for row in found) for key in ("cycles", "missed", "unpublished")}
        rows.append({"label": f"{count} robots (worst)", **worst, **totals})
    return rows


def rate_growth(runner: Runner, folder: Path, rates: list[float]) -> list[Result]:
    """The UR5e faster and faster; at the highest rate also with every tenth cycle on DDS only."""
    rows = []
    for rate in rates:
        contract, model = at_rate("ur5e", rate, folder)
        rows.append({"label": f"ur5e at {rate:g} Hz", **runner.run("stack", arm=contract, model=model)})
    thinned = runner.run("stack", arm=contract, model=model, publish_every=10)
    rows.append({"label": "  a tenth on DDS", **thinned})
    return rows


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=DESCRIPTION, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--arms", default=",".join(arm_names()), help="which (default: %(default)s)")
    parser.add_argument("--only", choices=("arms", "misses", "growth"), help="one of the three parts")
    parser.add_argument("--seconds", type=float, default=4.0, metavar="S", help="of each case (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="of the arms' part (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=8, metavar="N", help="of the misses' part (default: %(default)s)")
    parser.add_argument("--joints", default="4,7,14,30", help="how many joints (default: %(default)s)")
    parser.add_argument("--robots", default="1,2,4,8", help="how many robots (default: %(default)s)")
    parser.add_argument("--rates", default="125,250,500,1000,2000", help="Hz (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the result there")
    return parser.parse_args(argv)


def run(options: argparse.Namespace) -> int:
    """Measures, prints and writes."""
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    os.environ.setdefault("ROS_DOMAIN_ID", "88")
    os.environ.setdefault("FASTDDS_BUILTIN_TRANSPORTS", "UDPv4")
    runner = Runner(options.seconds)
    arms: list[Result] = []
    growth: list[Result] = []
    misses: list[Result] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if options.only in (None, "arms"):
            for name in options.arms.split(","):
                arm = load_arm(name)
                arms += [measure_arm(name, rate, runner, options.rounds, folder) for rate in (arm.rate, FAST)]
            print(arms_table(arms))
        if options.only in (None, "misses"):
            misses = miss_rows(runner, options.turns, folder)
            print("\n" + miss_table(misses))
        if options.only in (None, "growth"):
            growth += joints_growth(runner, folder, [int(word) for word in options.joints.split(",")])
            growth += robots_growth(runner, [int(word) for word in options.robots.split(",")])
            growth += rate_growth(runner, folder, [float(word) for word in options.rates.split(",")])
            print("\n" + "\n".join([GROWTH_HEAD, *(growth_row(row["label"], row, row.get("floor")) for row in growth)]))
    write_result(options.json, {"seconds": options.seconds, "arms": arms, "misses": misses, "growth": growth}, LIBRARIES)
    return 0


def main(argv: list[str] | None = None) -> int:
    """Runs the benchmark."""
    return benchmark(run, parse(argv))


if __name__ == "__main__":
    sys.exit(main())
