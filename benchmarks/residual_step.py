#!/usr/bin/env python3
"""What one step of the residual runtime and of the safety filter cost, held against the bare calls inside them."""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from time import perf_counter_ns
from typing import Any, cast

import numpy as np
import onnx
import onnxruntime
from common import benchmark, pin_to_one_core, write_result
from onnx import TensorProto, helper, numpy_helper

from trimtab.arm import Arm, load_arm
from trimtab.control import Desired
from trimtab.control.base import Sample
from trimtab.dynamics import RigidBody
from trimtab.names import arm_names
from trimtab.residual.bundle import Bundle, load_bundle, write_bundle
from trimtab.residual.manifest import Manifest
from trimtab.residual.offer import Offer
from trimtab.residual.parts import Confidence, Input, Probe
from trimtab.residual.runtime import ResidualModel
from trimtab.safety import SafetyFilter
from trimtab.typing import FloatArray

QUANTITIES = ("q_des", "qd_des", "qdd_des")
LIBRARIES = ("numpy", "onnx", "onnxruntime")
BURST = 100  # calls between two readings of the clock

DESCRIPTION = """\
Makes an MLP with random weights for arms of several joint counts and measures, in one process:

  bare     `run_with_iobinding` of the model as it was exported, one thread, inputs in place: what onnxruntime costs
  by hand  the same plus what anybody must do around it: join the reference, normalise, read the torque (no checks, no
           confidence, no joint order)
  offer    `ResidualModel.offer`: all of it, with the range check, the check for finite inputs and the confidence
  clip     add the residual to the classical torque and clip the sum: the least that anybody must do with it
  filter   `SafetyFilter.apply`: bounds, slew, energy, limits, evidence and abort thresholds

and the same for the committed bundles, on their own arms. For the made-up arms the filter's mass matrix is a constant.
Short bursts of all take turns, so that a busy machine disturbs all alike; each number is the median over the
rounds. The process is pinned to one core where the system allows it."""

EXAMPLES = """\
examples:
  python benchmarks/residual_step.py
  python benchmarks/residual_step.py --hidden 128,128 --joints 6 --rounds 1000
  python benchmarks/residual_step.py --json runs/residual_step.json"""


@dataclass(frozen=True)
class Row:
    """One arm's costs [us]."""

    what: str
    joints: int
    bare: float
    by_hand: float
    offer: float
    clip: float
    filter: float

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


def rivals(bundle: Bundle, sample: Sample) -> tuple[Callable[[], object], Callable[[], object]]:
    """The bare call, and the bare call with normalisation and read-out written by hand."""
    manifest = bundle.manifest
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(bundle.model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    kept = []  # buffers of states and of outputs that nobody reads
    for tensors, bind in ((session.get_inputs(), binding.bind_input), (session.get_outputs(), binding.bind_output)):
        for tensor in tensors:
            kept.append(np.zeros(tensor.shape, np.float32))
            bind(tensor.name, "cpu", 0, np.float32, kept[-1].shape, kept[-1].ctypes.data)
    names = [tensor.name for tensor in (*session.get_inputs(), *session.get_outputs())]
    x, residual = kept[names.index("x")], kept[names.index(manifest.residual)]
    mean, scale = (np.concatenate([getattr(one, name) for one in manifest.inputs]) for name in ("mean", "scale"))
    known = {"q_des": sample.desired.q, "qd_des": sample.desired.qd, "qdd_des": sample.desired.qdd}
    columns = [known.get(one.quantity, sample.qd) for one in manifest.inputs]

    def bare() -> None:
        session.run_with_iobinding(binding)

    def by_hand() -> object:
        x[0] = (np.concatenate(columns) - mean) / scale
        session.run_with_iobinding(binding)
        return residual[0].astype(np.float64)

    return bare, by_hand


class ConstantInertia:
    """Stands for the rigid body of an arm that has none."""

    def __init__(self, arm: Arm) -> None:
        self._matrix = np.eye(arm.dof)

    def mass_matrix(self, _: FloatArray) -> FloatArray:
        """The same at every posture."""
        return self._matrix


def made_up(joints: int, hidden: list[int], rounds: int) -> Row:
    """A random MLP for an arm of so many joints."""
    arm = arm_with(joints)
    manifest = make_manifest(arm)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "mlp" / "1"
        write_bundle(place, manifest, make_mlp([manifest.width, *hidden, arm.dof]))
        bundle = load_bundle(place, arm)
    return measure("random", arm, bundle, cast(RigidBody, ConstantInertia(arm)), rounds)


def committed(name: str, rounds: int) -> Row:
    """An arm's own bundle."""
    arm = load_arm(name)
    bundle = load_bundle("mlp", arm)
    return measure(f"{name} {bundle.manifest.name}/{bundle.manifest.version}", arm, bundle, RigidBody(arm), rounds)


def measure(what: str, arm: Arm, bundle: Bundle, body: RigidBody, rounds: int) -> Row:
    """Medians over interleaved bursts."""
    runtime = ResidualModel(bundle, arm)
    speed = 0.1 * arm.velocity
    sample = Sample(arm.home, speed, Desired(arm.home + 1e-3, speed, arm.velocity), arm.period)
    bare, by_hand = rivals(bundle, sample)
    classical, residual = 0.2 * arm.torque, 0.01 * arm.torque
    safety = SafetyFilter(arm, body, corrector_bandwidth=arm.observer.bandwidth)
    now = {"offer": 0.0, "filter": 0.0}

    def offer() -> None:
        now["offer"] += arm.period
        runtime.offer(sample, classical, now["offer"])

    def clip() -> object:
        return np.minimum(np.maximum(classical + residual, -arm.torque), arm.torque)

    def apply() -> None:
        now["filter"] += arm.period
        safety.apply(classical, Offer(residual, 1.0, now["filter"]), sample, now["filter"])

    calls: dict[str, Callable[[], object]] = {
        "bare": bare,
        "by_hand": by_hand,
        "offer": offer,
        "clip": clip,
        "filter": apply,
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = perf_counter_ns()
            for _ in range(BURST):
                call()
            times[name].append((perf_counter_ns() - start) / BURST / 1e3)
    return Row(what, arm.dof, **{name: statistics.median(values) for name, values in times.items()})


def table(rows: list[Row]) -> str:
    """The result for a terminal."""
    wide = max(len(row.what) for row in rows)
    titles = ("joints", "bare us", "by hand us", "offer us", "offer/bare", "clip us", "filter us")
    lines = [" " * wide + " " + " ".join(f"{title:>10}" for title in titles)]
    lines += [
        f"{row.what:{wide}} {row.joints:>10} {row.bare:>10.2f} {row.by_hand:>10.2f} {row.offer:>10.2f} {row.ratio:>10.2f} "
        f"{row.clip:>10.2f} {row.filter:>10.2f}"
        for row in rows
    ]
    return "\n".join(lines)


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
    core, where = pin_to_one_core()
    hidden = ", ".join(map(str, options.hidden))
    print(
        f"random MLPs: hidden layers {hidden}, inputs {', '.join(QUANTITIES)}; median of {options.rounds} rounds, {where}\n"
    )
    rows = [made_up(joints, options.hidden, options.rounds) for joints in options.joints]
    rows += [committed(name, options.rounds) for name in arm_names()]
    print(table(rows))
    document = {
        "hidden": options.hidden,
        "inputs": list(QUANTITIES),
        "rounds": options.rounds,
        "burst": BURST,
        "pinned_to_core": core,
        "unit": "us",
        "result": [{**asdict(row), "offer_over_bare": row.ratio} for row in rows],
    }
    write_result(options.json, document, LIBRARIES)
    return 0


def main(argv: list[str] | None = None) -> int:
    """Runs the benchmark."""
    return benchmark(run, parse(argv))


if __name__ == "__main__":
    sys.exit(main())
