"""Makes small valid bundles for tests, and lets a test break one thing at a time."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import yaml
from onnx import TensorProto, helper, numpy_helper

from trimtab.arm import Arm
from trimtab.control import Desired
from trimtab.control.base import Sample
from trimtab.residual.bundle import write_bundle
from trimtab.residual.manifest import MANIFEST, MODEL, Manifest
from trimtab.residual.parts import Confidence, Input, Probe, State
from trimtab.typing import FloatArray

OPSET = 18
MEMORY = 0.5  # of a recurrent model: state' = MEMORY * state + mean of x


def make_bundle(
    root: Path,
    arm: Arm,
    joints: Sequence[str] | None = None,
    quantities: Sequence[str] = ("q_des", "qd_des", "qdd_des"),
    hidden: Sequence[int] = (16,),
    distance: bool = False,
    recurrent: bool = False,
    seed: int = 0,
    version: str = "1",
    **changes: Any,
) -> Path:
    """Writes a bundle with a small random MLP to root/<arm>/mlp/<version> and gives its folder.

    joints: their order in the model. The same seed gives the same function of the joints, whatever their order.
    recurrent: adds a state `h`, whose value is added to every torque. changes: fields of the manifest to replace.
    """
    manifest = replace(make_manifest(arm, joints, quantities, distance, recurrent), version=version, **changes)
    folder = root / manifest.arm / manifest.name / version
    write_bundle(folder, manifest, make_model(manifest, arm, hidden, seed))
    return folder


def make_manifest(
    arm: Arm,
    joints: Sequence[str] | None = None,
    quantities: Sequence[str] = ("q_des", "qd_des", "qdd_des"),
    distance: bool = False,
    recurrent: bool = False,
) -> Manifest:
    """A manifest that fits the arm, without hash and answers."""
    joints = tuple(joints or arm.joints)
    order = [arm.joints.index(joint) for joint in joints]
    inputs = tuple(_input(quantity, arm, order) for quantity in quantities)
    random = np.random.default_rng(7)
    low, high = (np.concatenate([getattr(one, end) for one in inputs]) for end in ("low", "high"))
    probes = tuple(Probe(tuple(float(value) for value in random.uniform(low, high))) for _ in range(4))
    return Manifest(
        name="mlp",
        version="1",
        family="mlp",
        arm=arm.name,
        joints=joints,
        rate=arm.rate,
        gravity=arm.actuator.gravity,
        controller="friction+adaptive+observer",
        inputs=inputs,
        confidence=Confidence(0.25, 5.0, 8.0) if distance else Confidence(0.25),
        bounds={joint: 0.2 * float(arm.torque[i]) for joint, i in zip(joints, order, strict=True)},
        probes=probes,
        states=(State("h", "h_next", (1, 1)),) if recurrent else (),
        distance="distance" if distance else None,
        trained_on={"logs": ["none"]},
        scores={"rmse": 0.5},
    )


def _input(quantity: str, arm: Arm, order: Sequence[int]) -> Input:
    low, high = {
        "q_des": (arm.lower, arm.upper),
        "qd_des": (-arm.velocity, arm.velocity),
        "qdd_des": (-5.0 * arm.velocity, 5.0 * arm.velocity),
        "q": (arm.lower, arm.upper),
        "qd": (-arm.velocity, arm.velocity),
        "error": (-0.1 * arm.velocity, 0.1 * arm.velocity),
        "baseline": (-arm.torque, arm.torque),
    }[quantity]
    columns = ((low + high) / 2.0 + 0.01, (high - low) / 4.0, low, high)
    return Input(quantity, *(tuple(float(column[i]) for i in order) for column in columns))


def make_model(manifest: Manifest, arm: Arm, hidden: Sequence[int] = (16,), seed: int = 0) -> bytes:
    """An MLP with tanh whose torque stays within the bounds; with distance = |x| and a state where the manifest has them."""
    random = np.random.default_rng(seed)
    order = [arm.joints.index(joint) for joint in manifest.joints]
    nodes, weights, tensor = [], {}, "x"
    sizes = [manifest.width, *hidden, manifest.dof]
    for i, (rows, columns) in enumerate(pairwise(sizes)):
        matrix = random.normal(size=(rows, columns)) / np.sqrt(rows)
        if i == 0:  # drawn in the arm's order, so that the order of the manifest makes no other function
            matrix = matrix.reshape(-1, manifest.dof, columns)[:, order].reshape(rows, columns)
        if i == len(sizes) - 2:
            matrix = matrix[:, order]
        weights |= {f"w{i}": matrix, f"b{i}": np.zeros(columns)}
        nodes += [
            helper.make_node("Gemm", [tensor, f"w{i}", f"b{i}"], [f"g{i}"]),
            helper.make_node("Tanh", [f"g{i}"], [f"t{i}"]),
        ]
        tensor = f"t{i}"
    weights["bounds"] = 0.5 * np.array([[manifest.bounds[joint] for joint in manifest.joints]])
    outputs = {manifest.residual: [1, manifest.dof]}
    inputs = {"x": [1, manifest.width]}
    if manifest.states:
        weights["memory"] = np.array([[MEMORY]])
        nodes += [
            helper.make_node("Mul", [tensor, "bounds"], ["still"]),
            helper.make_node("ReduceMean", ["x"], ["mean"], keepdims=1),
            helper.make_node("Mul", ["h", "memory"], ["kept"]),
            helper.make_node("Add", ["kept", "mean"], ["h_next"]),
            helper.make_node("Add", ["still", "h"], [manifest.residual]),
        ]
        inputs["h"] = outputs["h_next"] = [1, 1]
    else:
        nodes.append(helper.make_node("Mul", [tensor, "bounds"], [manifest.residual]))
    if manifest.distance is not None:
        nodes.append(helper.make_node("ReduceL2", ["x"], [manifest.distance], keepdims=1))
        outputs[manifest.distance] = [1, 1]
    return as_model(nodes, inputs, outputs, weights).SerializeToString()


def as_model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, list[Any]],
    outputs: dict[str, list[Any]],
    weights: dict[str, np.ndarray],
    opset: int = OPSET,
) -> onnx.ModelProto:
    """A float32 model."""
    tensors = [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in weights.items()]
    ends = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in which.items()]
        for which in (inputs, outputs)
    )
    graph = helper.make_graph(nodes, "test", *ends, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def edit_manifest(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Rewrites manifest.yaml after `change(document)`, without any check."""
    file = folder / MANIFEST
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    change(document)
    file.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")


def edit_model(folder: Path, change: Callable[[onnx.ModelProto], Any]) -> None:
    """Rewrites model.onnx after `change(model)`, and the manifest's hash with it, without any check."""
    model = onnx.load_model_from_string((folder / MODEL).read_bytes())
    change(model)
    put_model(folder, model.SerializeToString())


def put_model(folder: Path, data: bytes) -> None:
    """Replaces model.onnx by any bytes, and the manifest's hash with it."""
    (folder / MODEL).write_bytes(data)
    edit_manifest(folder, lambda document: document.update(sha256=hashlib.sha256(data).hexdigest()))


def sample_of(arm: Arm, q: FloatArray, qd: FloatArray, qdd: FloatArray, error: FloatArray | float = 0.0) -> Sample:
    """A sample whose reference is q, qd, qdd, measured `error` away from it."""
    return Sample(q - error, qd, Desired(q, qd, qdd), arm.period)
