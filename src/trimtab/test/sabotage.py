"""Candidates that look like a good bundle and are not: each function makes one from an arm's committed model."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from trimtab.arm import Arm, load_arm
from trimtab.residual.bundle import Bundle, load_bundle, write_bundle
from trimtab.residual.manifest import Manifest
from trimtab.residual.parts import State

Change = Callable[[onnx.GraphProto, Manifest], Manifest]


def sabotaged(root: Path, arm: Arm, change: Change, source: Bundle | None = None) -> Path:
    """Writes the changed model as a bundle that every check of a manifest lets pass, and gives its folder."""
    bundle = source or load_bundle("mlp", arm)
    model = onnx.ModelProto()
    model.CopyFrom(bundle.graph)
    manifest = change(model.graph, replace(bundle.manifest, version="2"))
    folder = root / arm.name / manifest.name / manifest.version
    write_bundle(folder, manifest, model.SerializeToString())
    return folder


def sign_flipped(joint: int) -> Change:
    """The torque of one joint has the other sign."""

    def change(graph: onnx.GraphProto, manifest: Manifest) -> Manifest:
        signs = np.ones((1, manifest.dof), np.float32)
        signs[0, joint] = -1.0
        _add(graph, "signs", signs)
        _after(graph, manifest.residual, lambda inner: [helper.make_node("Mul", [inner, "signs"], [manifest.residual])])
        return manifest

    return change


def one_cycle_late(graph: onnx.GraphProto, manifest: Manifest) -> Manifest:
    """Each state gets the torque of the one before."""
    shape = [1, manifest.dof]
    graph.input.append(helper.make_tensor_value_info("held", TensorProto.FLOAT, shape))
    graph.output.append(helper.make_tensor_value_info("held_next", TensorProto.FLOAT, shape))
    _after(
        graph,
        manifest.residual,
        lambda inner: [
            helper.make_node("Identity", [inner], ["held_next"]),
            helper.make_node("Identity", ["held"], [manifest.residual]),
        ],
    )
    return replace(manifest, states=(*manifest.states, State("held", "held_next", (1, manifest.dof))))


def wrongly_normalised(graph: onnx.GraphProto, manifest: Manifest) -> Manifest:
    """The wanted speed is scaled as if it came in degrees per second."""
    inputs = tuple(
        replace(one, scale=tuple(value * np.pi / 180.0 for value in one.scale)) if one.quantity == "qd_des" else one
        for one in manifest.inputs
    )
    return replace(manifest, inputs=inputs)


def not_finite(graph: onnx.GraphProto, manifest: Manifest) -> Manifest:
    """NaN for about one input in a hundred."""
    _add(graph, "many", np.array([[1e4]], np.float32))
    _add(graph, "near_one", np.array([[np.cos(0.01 * np.pi)]], np.float32))
    _add(graph, "nothing", np.array([[np.nan]], np.float32))
    _after(
        graph,
        manifest.residual,
        lambda inner: [
            helper.make_node("ReduceSum", ["x"], ["all_of_x"], keepdims=1),
            helper.make_node("Mul", ["all_of_x", "many"], ["phase"]),
            helper.make_node("Cos", ["phase"], ["wave"]),
            helper.make_node("Greater", ["wave", "near_one"], ["now_and_then"]),
            helper.make_node("Where", ["now_and_then", "nothing", inner], [manifest.residual]),
        ],
    )
    return manifest


def of_another_arm(root: Path, arm: Arm, other: str) -> Path:
    """The model of another arm behind this arm's manifest: inputs and torques joint by joint, as far as they go."""
    own, foreign = load_bundle("mlp", arm), load_bundle("mlp", load_arm(other))
    few, many = arm.dof, foreign.manifest.dof
    blocks = len(own.manifest.inputs)
    widen = np.zeros((blocks * few, blocks * many), np.float32)
    for block in range(blocks):
        for i in range(many):
            widen[block * few + i % few, block * many + i] = 1.0
    narrow = np.eye(many, few, dtype=np.float32)

    def change(graph: onnx.GraphProto, manifest: Manifest) -> Manifest:
        for node in graph.node:
            node.input[:] = ["wide" if name == "x" else name for name in node.input]
        _add(graph, "widen", widen)
        _add(graph, "narrow", narrow)
        graph.node.insert(0, helper.make_node("MatMul", ["x", "widen"], ["wide"]))
        one = next(one for one in graph.input if one.name == "x")
        one.CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, own.manifest.width]))
        out = next(one for one in graph.output if one.name == manifest.residual)
        out.CopyFrom(helper.make_tensor_value_info(manifest.residual, TensorProto.FLOAT, [1, few]))
        _after(graph, manifest.residual, lambda inner: [helper.make_node("MatMul", [inner, "narrow"], [manifest.residual])])
        return replace(
            own.manifest, version="2", states=foreign.manifest.states, confidence=foreign.manifest.confidence,
            bounds={joint: 0.08 * float(limit) for joint, limit in zip(arm.joints, arm.torque, strict=True)},
        )  # fmt: skip

    return sabotaged(root, arm, change, foreign)


def _add(graph: onnx.GraphProto, name: str, value: np.ndarray) -> None:
    graph.initializer.append(numpy_helper.from_array(value, name))


def _after(graph: onnx.GraphProto, output: str, nodes: Callable[[str], list[onnx.NodeProto]]) -> None:
    """Puts nodes behind what made an output; they get the name of what it was."""
    inner = f"{output}.before"
    for node in graph.node:
        node.output[:] = [inner if name == output else name for name in node.output]
        node.input[:] = [inner if name == output else name for name in node.input]
    graph.node.extend(nodes(inner))
