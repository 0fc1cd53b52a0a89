#!/usr/bin/env python3
"""What one step of the residual runtime costs, held against the bare onnxruntime call inside it."""

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from trimtab.arm import Arm, load_arm
from trimtab.control import Desired
from trimtab.control.base import Sample
from trimtab.errors import TrimtabError
from trimtab.files import write_whole
from trimtab.residual.bundle import load_bundle, write_bundle
from trimtab.residual.manifest import Manifest
from trimtab.residual.parts import Confidence, Input, Probe
from trimtab.residual.runtime import ResidualModel

QUANTITIES = ("q_des", "qd_des", "qdd_des")
LIBRARIES = ("numpy", "onnx", "onnxruntime")
BURST = 100  # calls between two readings of the clock

DESCRIPTION = """\
Makes an MLP with random weights for arms of several joint counts and measures, in one process:

  bare     `run_with_iobinding` of the model as it was exported, one thread, inputs in place: what onnxruntime costs
  by hand  the same plus what anybody must do around it: join the reference, normalise, read the torque (no checks, no
           confidence, no joint order)
  offer    `ResidualModel.offer`: all of it, with the range check, the check for finite inputs and the confidence

Short bursts of all three take turns, so that a busy machine disturbs all alike; each number is the median over the
rounds. The process is pinned to one core where the system allows it."""

EXAMPLES = """\
examples:
  python benchmarks/residual_step.py
  python benchmarks/residual_step.py --hidden 128,128 --joints 6 --rounds 1000
  python benchmarks/residual_step.py --json runs/residual_step.json"""


@dataclass(frozen=True)
class Row:
    """One arm's costs [us]."""

    joints: int
    bare: float
    by_hand: float
    offer: float

    @property
    def ratio(self) -> float:
        """Offer over bare."""
        return self.offer / self.bare


def arm_with(joints: int) -> Arm:
    """An arm of so many joints, all like the UR5e's."""
    arm = load_arm("ur5e")
    names = ("home", "lower", "upper", "velocity", "torque", "armature", "kp", "kd", "bandwidth")
    arrays: dict[str, Any] = {name: np.resize(getattr(arm, name), joints) for name in names}
    return replace(arm, joints=tuple(f"joint_{i}" for i in range(joints)), **arrays)


def make_manifest(arm: Arm) -> Manifest:
    """A manifest for the arm whose training range is that of its limits."""
    ranges = ((arm.lower, arm.upper), (-arm.velocity, arm.velocity), (-5.0 * arm.velocity, 5.0 * arm.velocity))
    inputs = tuple(
        Input(quantity, *(tuple(map(float, column)) for column in ((low + high) / 2, (high - low) / 4, low, high)))
        for quantity, (low, high) in zip(QUANTITIES, ranges, strict=True)
    )
    middle = Probe(tuple(value for one in inputs for value in one.mean))
    return Manifest(
        name="mlp",
        version="1",
        family="mlp",
        arm=arm.name,
        joints=arm.joints,
        rate=arm.rate,
        gravity=arm.actuator.gravity,
        controller="computed_torque",
        inputs=inputs,
        confidence=Confidence(0.25),
        bounds={joint: float(limit) for joint, limit in zip(arm.joints, arm.torque, strict=True)},
        probes=(middle,) * 3,
    )


def make_mlp(sizes: list[int]) -> bytes:
    """An MLP with tanh between its layers."""
    random = np.random.default_rng(0)
    nodes, weights, tensor = [], [], "x"
    for i, (rows, columns) in enumerate(pairwise(sizes)):
        matrix = (random.normal(size=(rows, columns)) / np.sqrt(rows)).astype(np.float32)
        weights += [numpy_helper.from_array(matrix, f"w{i}"), numpy_helper.from_array(matrix[0] * 0, f"b{i}")]
        last = i == len(sizes) - 2
        nodes.append(helper.make_node("Gemm", [tensor, f"w{i}", f"b{i}"], ["residual" if last else f"g{i}"]))
        if not last:
            nodes.append(helper.make_node("Tanh", [f"g{i}"], [f"t{i}"]))
        tensor = f"t{i}"
    first = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, sizes[0]])
    last_one = helper.make_tensor_value_info("residual", TensorProto.FLOAT, [1, sizes[-1]])
    graph = helper.make_graph(nodes, "mlp", [first], [last_one], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def rivals(arm: Arm, manifest: Manifest, model: bytes, sample: Sample) -> tuple[Callable[[], object], Callable[[], object]]:
    """The bare call, and the bare call with normalisation and read-out written by hand."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    x, residual = np.zeros((1, manifest.width), np.float32), np.zeros((1, arm.dof), np.float32)
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, np.float32, x.shape, x.ctypes.data)
    binding.bind_output("residual", "cpu", 0, np.float32, residual.shape, residual.ctypes.data)
    mean, scale = (np.concatenate([getattr(one, name) for one in manifest.inputs]) for name in ("mean", "scale"))

    def bare() -> None:
        session.run_with_iobinding(binding)

    def by_hand() -> object:
        desired = sample.desired
        x[0] = (np.concatenate((desired.q, desired.qd, desired.qdd)) - mean) / scale
        session.run_with_iobinding(binding)
        return residual[0].astype(np.float64)

    return bare, by_hand


def measure(arm: Arm, hidden: list[int], rounds: int) -> Row:
    """Medians over interleaved bursts."""
    manifest = make_manifest(arm)
    model = make_mlp([manifest.width, *hidden, arm.dof])
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "mlp" / "1"
        write_bundle(place, manifest, model)
        runtime = ResidualModel(load_bundle(place, arm), arm)
    sample = Sample(arm.home, 0.1 * arm.velocity, Desired(arm.home, 0.1 * arm.velocity, arm.velocity), arm.period)
    bare, by_hand = rivals(arm, manifest, model, sample)
    classical, period = np.zeros(arm.dof), arm.period
    now = 0.0
    times: dict[str, list[float]] = {"bare": [], "by_hand": [], "offer": []}
    for _ in range(rounds):
        for name, call in (("bare", bare), ("by_hand", by_hand)):
            start = perf_counter_ns()
            for _ in range(BURST):
                call()
            times[name].append((perf_counter_ns() - start) / BURST / 1e3)
        start = perf_counter_ns()
        for _ in range(BURST):
            now += period
            runtime.offer(sample, classical, now)
        times["offer"].append((perf_counter_ns() - start) / BURST / 1e3)
    return Row(arm.dof, **{name: statistics.median(values) for name, values in times.items()})


def table(rows: list[Row]) -> str:
    """The result for a terminal."""
    lines = [f"{'joints':>6} {'bare us':>9} {'by hand us':>11} {'offer us':>9} {'offer/bare':>11} {'offer/by hand':>14}"]
    lines += [
        f"{row.joints:>6} {row.bare:>9.2f} {row.by_hand:>11.2f} {row.offer:>9.2f} {row.ratio:>11.2f} "
        f"{row.offer / row.by_hand:>14.2f}"
        for row in rows
    ]
    return "\n".join(lines)


def pin_to_one_core() -> int | None:
    """Keeps the process on one core; None where the system cannot."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


def numbers(text: str) -> list[int]:
    """`64,64` -> [64, 64]."""
    return [int(word) for word in text.split(",")]


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=DESCRIPTION, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--joints", type=numbers, default=[4, 6, 7, 14], help="joint counts (default: 4,6,7,14)")
    parser.add_argument("--hidden", type=numbers, default=[64, 64], help="hidden layers (default: 64,64)")
    parser.add_argument("--rounds", type=int, default=500, metavar="N", help="bursts of each (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the result there")
    options = parser.parse_args(argv)
    if options.rounds < 1 or min(options.joints) < 1 or min(options.hidden) < 1:
        parser.error("rounds, joints and layers must be at least 1")
    return options


def run(options: argparse.Namespace) -> int:
    """Measures, prints and writes."""
    core = pin_to_one_core()
    where = "not pinned to a core: this system cannot" if core is None else f"pinned to core {core}"
    hidden = ", ".join(map(str, options.hidden))
    print(f"MLP with hidden layers {hidden}, inputs {', '.join(QUANTITIES)}; median of {options.rounds} rounds, {where}\n")
    rows = [measure(arm_with(joints), options.hidden, options.rounds) for joints in options.joints]
    print(table(rows))
    if options.json is not None:
        document = {
            "hidden": options.hidden,
            "inputs": list(QUANTITIES),
            "rounds": options.rounds,
            "burst": BURST,
            "pinned_to_core": core,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "libraries": {name: version(name) for name in LIBRARIES},
            "result": [
                {
                    "joints": row.joints,
                    "bare_us": row.bare,
                    "by_hand_us": row.by_hand,
                    "offer_us": row.offer,
                    "ratio": row.ratio,
                }
                for row in rows
            ],
        }
        write_whole(options.json, json.dumps(document, indent=2) + "\n")
        print(f"\nwritten to {options.json}")
    return 0


def main(argv: list[str] | None = None) -> int:
    """Runs the benchmark; a user's error becomes one line and exit code 2."""
    try:
        return run(parse(argv))
    except TrimtabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
