"""Only plain, self-contained, static graphs that are what the manifest says get as far as the runtime."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from bundle_maker import edit_manifest, edit_model, make_bundle, put_model
from onnx import TensorProto, helper, numpy_helper

from trimtab.arm import Arm
from trimtab.errors import BundleRefused
from trimtab.residual.bundle import load_bundle
from trimtab.residual.inspection import newest_opset
from trimtab.residual.manifest import MODEL
from trimtab.residual.runtime import ResidualModel

Change = Callable[[onnx.ModelProto], object]


@pytest.fixture
def folder(tmp_path: Path, ur5e: Arm) -> Path:
    return make_bundle(tmp_path, ur5e)


def refused(folder: Path, arm: Arm, text: str) -> None:
    with pytest.raises(BundleRefused, match=text):
        load_bundle(folder, arm)


# Files that are no models


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_truncated_model_is_refused(folder: Path, ur5e: Arm, share: float) -> None:
    data = (folder / MODEL).read_bytes()
    put_model(folder, data[: int(share * len(data))])
    refused(folder, ur5e, r"model\.onnx: is (no ONNX model, or a part of one|an empty ONNX model|not a valid ONNX model)")


def test_noise_is_refused(folder: Path, ur5e: Arm) -> None:
    random = np.random.default_rng(3)
    for size in (1, 10, 1000):
        put_model(folder, random.bytes(size))
        refused(folder, ur5e, r"model\.onnx: is (no|an empty|not a valid) ONNX model")


# Weights elsewhere


def outside(place: str) -> Change:
    def change(model: onnx.ModelProto) -> None:
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": place, "offset": "0", "length": "64"}.items():
            entry = tensor.external_data.add()
            entry.key, entry.value = key, value

    return change


@pytest.mark.parametrize("place", ["weights.bin", "../../wam/weights.bin", "/etc/hostname", "a/../../b", ""])
def test_weights_outside_the_model_are_refused(folder: Path, ur5e: Arm, place: str) -> None:
    (folder / "weights.bin").write_bytes(bytes(4096))
    edit_model(folder, outside(place))
    refused(folder, ur5e, r"tensor 'w0' lies outside the model \(.*\); export it with its weights inside")


def test_a_link_beside_the_model_does_not_help(folder: Path, ur5e: Arm) -> None:
    (folder / "weights.bin").symlink_to("/etc/hostname")
    edit_model(folder, outside("weights.bin"))
    refused(folder, ur5e, "lies outside the model")


def test_weights_outside_are_found_in_constants_too(folder: Path, ur5e: Arm) -> None:
    def change(model: onnx.ModelProto) -> None:
        tensor = numpy_helper.from_array(np.zeros(4, np.float32), "hidden")
        tensor.data_location = TensorProto.EXTERNAL
        model.graph.node.insert(0, helper.make_node("Constant", [], ["c"], value=tensor))

    edit_model(folder, change)
    refused(folder, ur5e, "tensor 'hidden' lies outside the model")


def test_a_place_without_the_flag_is_refused_as_well(folder: Path, ur5e: Arm) -> None:
    def change(model: onnx.ModelProto) -> None:
        entry = model.graph.initializer[0].external_data.add()
        entry.key, entry.value = "location", "/etc/hostname"

    edit_model(folder, change)
    refused(folder, ur5e, "lies outside the model")


# Operators


def custom_node(model: onnx.ModelProto) -> None:
    model.graph.node[0].domain = "com.evil"
    model.graph.node[0].op_type = "Anything"


def microsoft_node(model: onnx.ModelProto) -> None:
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    model.graph.node[0].domain = "com.microsoft"


def function(model: onnx.ModelProto) -> None:
    body = [helper.make_node("Identity", ["a"], ["b"])]
    model.functions.append(helper.make_function("", "Mine", ["a"], ["b"], body, [helper.make_opsetid("", 18)]))


def branch(model: onnx.ModelProto) -> None:
    one = helper.make_tensor_value_info("one", TensorProto.FLOAT, [1])
    constant = helper.make_node("Constant", [], ["one"], value=numpy_helper.from_array(np.ones(1, np.float32)))
    graph = helper.make_graph([constant], "branch", [], [one])
    model.graph.node.append(helper.make_node("If", ["x"], ["y"], then_branch=graph, else_branch=graph))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (custom_node, "uses the custom operator 'com.evil.Anything'; only ONNX's own are taken"),
        (microsoft_node, "uses the custom operator 'com.microsoft.Gemm'"),
        (lambda model: model.opset_import.append(helper.make_opsetid("com.evil", 1)), "uses the operator set 'com.evil'"),
        (function, "defines the function 'Mine'; export it with functions inlined"),
        (branch, "uses 'If', whose time has no bound; unroll it before the export"),
        (
            lambda model: model.graph.node.append(helper.make_node("RandomNormal", [], ["r"], shape=[1])),
            "uses 'RandomNormal', so that it answers by chance",
        ),
        (lambda model: setattr(model.graph.node[0], "op_type", "NoSuchThing"), "is not a valid ONNX model: .*NoSuchThing"),
    ],
)
def test_operators_that_are_not_plain_onnx_are_refused(folder: Path, ur5e: Arm, change: Change, text: str) -> None:
    edit_model(folder, change)
    refused(folder, ur5e, text)


def test_a_newer_opset_than_the_runtime_has_is_refused(folder: Path, ur5e: Arm) -> None:
    newest = newest_opset()
    edit_model(folder, lambda model: setattr(model.opset_import[0], "version", newest + 1))
    refused(folder, ur5e, rf"needs opset {newest + 1}, onnxruntime .* has up to {newest}; update onnxruntime or export with")


@pytest.mark.parametrize("version", [13, 18, None])
def test_the_opsets_between_are_taken(tmp_path: Path, ur5e: Arm, version: int | None) -> None:
    folder = make_bundle(tmp_path, ur5e)
    edit_model(folder, lambda model: setattr(model.opset_import[0], "version", version or newest_opset()))
    ResidualModel(load_bundle(folder, ur5e), ur5e)


@pytest.mark.parametrize(("versions", "text"), [([12], "the oldest taken is 13"), ([18, 18], "names 2 operator sets")])
def test_odd_opsets_are_refused(folder: Path, ur5e: Arm, versions: list[int], text: str) -> None:
    def change(model: onnx.ModelProto) -> None:
        del model.opset_import[:]
        model.opset_import.extend(helper.make_opsetid("", version) for version in versions)

    edit_model(folder, change)
    refused(folder, ur5e, text)


def test_a_file_format_that_the_runtime_lacks_is_refused(folder: Path, ur5e: Arm) -> None:
    edit_model(folder, lambda model: setattr(model, "ir_version", 99))
    with pytest.raises(BundleRefused, match=r"model\.onnx: "):
        ResidualModel(load_bundle(folder, ur5e), ur5e)


# Tensors against the manifest


def dynamic(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"


def nameless(model: onnx.ModelProto) -> None:
    model.graph.output[0].type.tensor_type.shape.dim[1].ClearField("dim_value")


def another_input(model: onnx.ModelProto) -> None:
    model.graph.input.append(helper.make_tensor_value_info("more", TensorProto.FLOAT, [1, 1]))


def another_output(model: onnx.ModelProto) -> None:
    model.graph.output.append(helper.make_tensor_value_info("t0", TensorProto.FLOAT, [1, 16]))


def renamed(model: onnx.ModelProto) -> None:
    model.graph.input[0].name = model.graph.node[0].input[0] = "y"


def doubled(model: onnx.ModelProto) -> None:
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.DOUBLE


def weight_as_input(model: onnx.ModelProto) -> None:
    model.graph.input.append(helper.make_tensor_value_info("b0", TensorProto.FLOAT, [16]))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (dynamic, "input tensor 'x' has a dynamic shape; export it with fixed sizes"),
        (nameless, "output tensor 'residual' has a dynamic shape"),
        (renamed, r"has no input tensor 'x' \(it has: y\); correct the manifest or export again"),
        (another_input, "has an input tensor 'more' that the manifest does not name"),
        (another_output, "has an output tensor 't0' that the manifest does not name"),
        (doubled, "output tensor 'residual' is not float32"),
        (weight_as_input, "weight 'b0' is also an input"),
    ],
)
def test_tensors_that_differ_from_the_manifest_are_refused(folder: Path, ur5e: Arm, change: Change, text: str) -> None:
    edit_model(folder, change)
    refused(folder, ur5e, text)


def test_shapes_that_differ_from_the_manifest_are_refused(folder: Path, ur5e: Arm) -> None:
    def fewer(document: dict) -> None:
        document["inputs"].pop()
        for probe in document["probes"]:
            probe["x"] = probe["x"][:12]

    edit_manifest(folder, fewer)
    refused(folder, ur5e, r"input tensor 'x' has the shape \[1, 18\], by the manifest it has \[1, 12\]")


@pytest.mark.parametrize(
    ("states", "outputs", "text"),
    [
        ([{"input": "h", "output": "h2", "shape": [1, 4]}], {"residual": "residual"}, "has no input tensor 'h'"),
        ([{"input": "x", "output": "h2", "shape": [1, 4]}], {"residual": "residual"}, "names a tensor twice"),
        ([{"input": "h", "output": "residual", "shape": [1, 6]}], {"residual": "residual"}, "names a tensor twice"),
        ([], {"residual": "torque"}, r"has no output tensor 'torque' \(it has: residual\)"),
        ([], {"residual": "x"}, "names a tensor twice"),
    ],
)
def test_names_that_the_model_lacks_are_refused(folder: Path, ur5e: Arm, states: list, outputs: dict, text: str) -> None:
    edit_manifest(folder, lambda document: document.update(states=states, outputs=outputs))
    refused(folder, ur5e, text)


def test_a_state_of_another_shape_is_refused(tmp_path: Path, ur5e: Arm) -> None:
    folder = make_bundle(tmp_path, ur5e, recurrent=True)
    edit_manifest(folder, lambda document: document["states"][0].update(shape=[1, 16]))
    refused(folder, ur5e, r"input tensor 'h' has the shape \[1, 1\], by the manifest it has \[1, 16\]")


def test_a_distance_that_the_model_lacks_is_refused(folder: Path, ur5e: Arm) -> None:
    def change(document: dict) -> None:
        document["outputs"]["distance"] = "distance"
        document["confidence"].update(trusted=1.0, unknown=2.0)

    edit_manifest(folder, change)
    refused(folder, ur5e, "has no output tensor 'distance'")


def test_names_like_our_own_do_no_harm(tmp_path: Path, ur5e: Arm) -> None:
    folder = make_bundle(tmp_path, ur5e)

    def change(model: onnx.ModelProto) -> None:
        model.graph.initializer[0].name = model.graph.node[0].input[1] = "prelude.A"

    edit_model(folder, change)
    ResidualModel(load_bundle(folder, ur5e), ur5e)
