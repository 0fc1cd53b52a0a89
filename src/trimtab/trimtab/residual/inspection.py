"""Looks at an ONNX model before anything of it runs: only plain, self-contained, static graphs pass."""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from google.protobuf.message import DecodeError, Message

from trimtab.errors import BundleRefused
from trimtab.residual.manifest import Manifest

MAX_MODEL = 64 * 1024 * 1024  # bytes
OLDEST_OPSET = 13
DOMAINS = ("", "ai.onnx")
INPUT = "x"
CHANCE = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}


def inspect_model(model: bytes, manifest: Manifest, file: Path) -> onnx.ModelProto:
    """The model's graph, after all checks against the manifest and against what this machine can run.

    `file` is only named in the texts: the bytes are the ones that were hashed.
    """
    graph = parse_model(model, file)
    _check_contents(graph, file)
    _check_opset(graph, file)
    try:
        onnx.checker.check_model(graph)
    except (onnx.checker.ValidationError, ValueError) as error:
        raise BundleRefused(f"{file}: is not a valid ONNX model: {_first_line(error)}; export it again") from error
    _check_tensors(graph, manifest, file)
    return graph


def parse_model(model: bytes, file: Path) -> onnx.ModelProto:
    """The bytes as a graph."""
    try:
        graph = onnx.load_model_from_string(model)
    except DecodeError as error:
        raise BundleRefused(f"{file}: is no ONNX model, or a part of one; copy or export it again") from error
    if not graph.graph.node:
        raise BundleRefused(f"{file}: is an empty ONNX model; export it again")
    return graph


@cache
def newest_opset() -> int:
    """The newest opset that the installed onnxruntime takes. It has no function that tells, so it is tried."""
    one = onnx.helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, [1])
    two = onnx.helper.make_tensor_value_info("b", onnx.TensorProto.FLOAT, [1])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["a"], ["b"])], "try", [one], [two])
    options = session_options()
    for version in range(onnx.defs.onnx_opset_version(), OLDEST_OPSET, -1):
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", version)], ir_version=8)
        try:
            onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception:  # the runtime's own classes derive from Exception alone
            continue
        return version
    return OLDEST_OPSET


def session_options() -> Any:
    """One thread, nothing printed: what every session of ours is made with."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 4
    return options


def _check_contents(model: onnx.ModelProto, file: Path) -> None:
    for message in _messages(model):
        if isinstance(message, onnx.TensorProto):
            if message.data_location == onnx.TensorProto.EXTERNAL or message.external_data:
                place = next((entry.value for entry in message.external_data if entry.key == "location"), "another file")
                raise BundleRefused(
                    f"{file}: tensor '{message.name}' lies outside the model ({place!r}); export it with its weights inside"
                )
        elif isinstance(message, onnx.NodeProto):
            _check_node(message, file)
    if model.functions:
        raise BundleRefused(f"{file}: defines the function '{model.functions[0].name}'; export it with functions inlined")
    for opset in model.opset_import:
        if opset.domain not in DOMAINS:
            raise BundleRefused(f"{file}: uses the operator set '{opset.domain}'; only ONNX's own operators are taken")


def _check_node(node: onnx.NodeProto, file: Path) -> None:
    if node.domain not in DOMAINS:
        raise BundleRefused(f"{file}: uses the custom operator '{node.domain}.{node.op_type}'; only ONNX's own are taken")
    if node.op_type in CHANCE:
        raise BundleRefused(f"{file}: uses '{node.op_type}', so that it answers by chance; export it without")
    for attribute in node.attribute:
        if attribute.HasField("g") or attribute.graphs:
            raise BundleRefused(f"{file}: uses '{node.op_type}', whose time has no bound; unroll it before the export")


def _messages(message: Message) -> Iterator[Message]:
    """The message and all messages within it, wherever ONNX may put them."""
    yield message
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None:
            for inner in value if isinstance(value, Sequence) or hasattr(value, "__len__") else (value,):
                yield from _messages(inner)


def _check_opset(model: onnx.ModelProto, file: Path) -> None:
    versions = [opset.version for opset in model.opset_import]
    if len(versions) != 1:
        raise BundleRefused(f"{file}: names {len(versions)} operator sets instead of one; export it again")
    if versions[0] > newest_opset():
        raise BundleRefused(
            f"{file}: needs opset {versions[0]}, onnxruntime {onnxruntime.__version__} has up to {newest_opset()}; "
            "update onnxruntime or export with an older opset"
        )
    if versions[0] < OLDEST_OPSET:
        raise BundleRefused(f"{file}: has opset {versions[0]}, the oldest taken is {OLDEST_OPSET}; export it again")


def _check_tensors(model: onnx.ModelProto, manifest: Manifest, file: Path) -> None:
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = {INPUT: (1, manifest.width)} | {state.input: state.shape for state in manifest.states}
    outputs: dict[str, tuple[int, ...]] = {manifest.residual: (1, manifest.dof)}
    if manifest.distance is not None:
        outputs[manifest.distance] = (1, 1)
    outputs |= {state.output: state.shape for state in manifest.states}
    count = 1 + (manifest.distance is not None) + len(manifest.states)
    if len(outputs) != count or len(inputs) != 1 + len(manifest.states) or set(inputs) & set(outputs):
        raise BundleRefused(f"{file}: the manifest names a tensor twice; give inputs, states and outputs names of their own")
    _compare(inputs, [one for one in model.graph.input if one.name not in weights], "input", file)
    if overridden := weights & {one.name for one in model.graph.input}:
        raise BundleRefused(f"{file}: weight '{min(overridden)}' is also an input; export with weights as constants")
    _compare(outputs, list(model.graph.output), "output", file)


def _compare(wanted: dict[str, tuple[int, ...]], found: list[onnx.ValueInfoProto], kind: str, file: Path) -> None:
    names = [one.name for one in found]
    for name in wanted:
        if name not in names:
            raise BundleRefused(
                f"{file}: has no {kind} tensor '{name}' (it has: {', '.join(names) or 'none'}); "
                "correct the manifest or export again"
            )
    for one in found:
        if one.name not in wanted:
            raise BundleRefused(f"{file}: has an {kind} tensor '{one.name}' that the manifest does not name")
        tensor = one.type.tensor_type
        if tensor.elem_type != onnx.TensorProto.FLOAT:
            raise BundleRefused(f"{file}: {kind} tensor '{one.name}' is not float32; export it as float32")
        if not tensor.HasField("shape") or not all(size.HasField("dim_value") for size in tensor.shape.dim):
            raise BundleRefused(f"{file}: {kind} tensor '{one.name}' has a dynamic shape; export it with fixed sizes")
        shape = tuple(size.dim_value for size in tensor.shape.dim)
        if shape != wanted[one.name]:
            raise BundleRefused(
                f"{file}: {kind} tensor '{one.name}' has the shape {list(shape)}, "
                f"by the manifest it has {list(wanted[one.name])}; correct the manifest or export again"
            )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
