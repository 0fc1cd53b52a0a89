"""How much the committed residual models improve tracking, on references that no model was trained on."""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from common import benchmark, write_result

from trimtab.arm import Arm, load_arm
from trimtab.dynamics import RigidBody
from trimtab.metrics import score
from trimtab.names import arm_names, plant_names
from trimtab.plant import load_gap
from trimtab.reference import Trajectory, check_trajectory, make_reference
from trimtab.reference.excitation import reach
from trimtab.reference.shapes import shape_trajectory
from trimtab.residual.bundle import load_bundle
from trimtab.residual.runtime import ResidualModel
from trimtab.runlog import RunLog
from trimtab.simulate import identify_friction, simulate
from trimtab.typing import FloatArray

CONTROLLERS = ("computed_torque", "classical", "residual")
POSTURES_SEED = 60_221  # of the random postures; reserved, no training uses it
HELD_OUT = ("lissajous", "postures")
DEVELOPMENT = ("plum", "infinity")
SIZE = 0.18  # of the distance from the base to the tool at home: size of the tool's curve
LIBRARIES = ("mujoco", "numpy", "pin", "onnxruntime")

DESCRIPTION = """\
Runs every arm on every plant, along references that no model was trained on, three times each: computed torque, the
best classical stack (the one that the bundle names), and that stack with the bundle's residual through the safety
filter. Prints a row per arm and plant, the mean over references and seeds.

  lissajous, postures   held out: not looked at while the models were made
  plum, infinity        development: looked at while the models were made, never trained on

`link` is the joint error behind the play of the gears, `motor` the error that a controller can see, `tool` the
distance of the tool; `rough` is the torque's change from step to step as a share of its limit."""

EXAMPLES = """\
examples:
  python benchmarks/residual_tracking.py
  python benchmarks/residual_tracking.py --arm wam --plant worn,field --seeds 5
  python benchmarks/residual_tracking.py --references plum,infinity --json runs/development.json"""


@dataclass(frozen=True)
class Row:
    """Means over references and seeds of one arm, plant and controller; in mrad, mm and percent."""

    arm: str
    plant: str
    controller: str
    link: float
    motor: float
    tool: float
    rough: float
    faults: int
    """Runs in which the residual was switched off, or worse."""


def lissajous(phase: FloatArray) -> FloatArray:
    """A curve with three lobes one way and two the other, within the unit circle: phase in [0, 1] -> (n, 2)."""
    angle = 2.0 * np.pi * phase
    path: FloatArray = np.stack([np.cos(2.0 * angle), np.sin(3.0 * angle)], axis=1) / np.sqrt(2.0)
    return path


def reference_of(name: str, body: RigidBody, duration: float) -> Trajectory:
    """A held-out reference, or one of the catalogue."""
    if name == "lissajous":
        distance = float(np.linalg.norm(body.tool_position(body.arm.home)))
        trajectory = shape_trajectory(body, lissajous, SIZE * distance, duration, laps=1)
    elif name == "postures":
        trajectory = reach(body.arm, duration, 0.6, POSTURES_SEED)
    else:
        return make_reference(name, body, duration)
    check_trajectory(body.arm, trajectory)
    return trajectory


def measure(arm: Arm, plant: str, options: argparse.Namespace, tell: Callable[[str], None]) -> list[Row]:
    """All controllers of one arm on one plant."""
    body, gap = RigidBody(arm), load_gap(plant, arm)
    bundle = load_bundle(options.bundle, arm)
    model = ResidualModel(bundle, arm)
    stack = bundle.manifest.controller
    tell(f"{arm.name} on {plant}")
    friction = identify_friction(arm, gap)
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in CONTROLLERS}
    for name in options.references:
        trajectory = reference_of(name, body, options.seconds)
        for seed in range(options.seeds):
            for controller in CONTROLLERS:
                with_residual = controller == "residual"
                log = simulate(
                    arm,
                    gap,
                    "computed_torque" if controller == "computed_torque" else stack,
                    trajectory,
                    reference=name,
                    seed=seed,
                    friction=friction,
                    residual=model if with_residual else None,
                    bounds=model.bounds if with_residual else None,
                )
                found[controller].append(_numbers(log, arm, body))
    return [Row(arm.name, plant, name, *_means(rows)) for name, rows in found.items()]


def _numbers(log: RunLog, arm: Arm, body: RigidBody) -> tuple[float, ...]:
    result = score(log, arm, body)
    motor = float(np.sqrt(np.mean((log.q_des - log.q) ** 2)))
    return 1e3 * result.rmse, 1e3 * motor, 1e3 * result.tool_rmse, 1e2 * result.roughness, float(log.fault is not None)


def _means(rows: list[tuple[float, ...]]) -> tuple[float, float, float, float, int]:
    link, motor, tool, rough, _ = (float(value) for value in np.mean(rows, axis=0))
    return link, motor, tool, rough, int(sum(row[-1] for row in rows))


def table(rows: list[Row]) -> str:
    """A line per arm and plant: computed torque > classical > with the residual, and the change by the residual."""
    return "\n".join(_lines(rows))


def _lines(rows: list[Row]) -> Iterator[str]:
    yield (
        f"{'arm':<19} {'plant':<8} {'link [mrad]':>22} {'':>6} {'motor [mrad]':>22} {'':>6} {'tool [mm]':>22} {'':>6} "
        f"{'rough [%]':>20} {'':>6} off"
    )
    for i in range(0, len(rows), len(CONTROLLERS)):
        three = rows[i : i + len(CONTROLLERS)]
        cells = []
        for key in ("link", "motor", "tool", "rough"):
            before, best, after = (getattr(row, key) for row in three)
            cells.append(f"{before:>7.3f} {best:>7.3f} {after:>6.3f} {after / best - 1.0:>+6.0%}")
        yield f"{three[0].arm:<19} {three[0].plant:<8} " + " ".join(cells) + f" {three[2].faults:>3}"


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=DESCRIPTION, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--arm", default="all", help="names, separated by commas (default: %(default)s)")
    parser.add_argument("--plant", default="all", help="names, separated by commas (default: %(default)s)")
    parser.add_argument("--bundle", default="mlp", help="name of the bundle (default: %(default)s)")
    parser.add_argument(
        "--references", default=",".join(HELD_OUT), metavar="A,B", help="separated by commas (default: %(default)s)"
    )
    parser.add_argument("--seconds", type=float, default=12.0, metavar="S", help="of a reference (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="noise seeds (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the result there")
    options = parser.parse_args(argv)
    if options.seeds < 1:
        parser.error("--seeds must be at least 1")
    options.references = options.references.split(",")
    options.arms = arm_names() if options.arm == "all" else options.arm.split(",")
    options.plants = plant_names() if options.plant == "all" else options.plant.split(",")
    return options


def run(options: argparse.Namespace) -> int:
    """Measures, prints and writes."""
    rows: list[Row] = []
    for name in options.arms:
        arm = load_arm(name)
        for plant in options.plants:
            rows += measure(arm, plant, options, lambda text: print(text, file=sys.stderr, flush=True))
    print(f"references {', '.join(options.references)} of {options.seconds:g} s, {options.seeds} seeds each")
    print("per column: computed torque, best classical, classical + residual, change by the residual\n")
    print(table(rows))
    document = {
        "bundle": options.bundle,
        "references": options.references,
        "seconds": options.seconds,
        "seeds": options.seeds,
        "rows": [row.__dict__ for row in rows],
    }
    write_result(options.json, document, LIBRARIES)
    return 0


def main(argv: list[str] | None = None) -> int:
    """Runs the benchmark."""
    return benchmark(run, parse(argv))


if __name__ == "__main__":
    sys.exit(main())
