"""From a trained network to a bundle: ONNX bytes, the manifest, and a check that both runtimes agree."""

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch

from trimtab.errors import TrimtabError
from trimtab.residual.bundle import Bundle
from trimtab.residual.inspection import inspect_model, session_options
from trimtab.residual.manifest import MODEL, Manifest
from trimtab.residual.parts import Confidence, Input, Probe, State
from trimtab.residual.probing import with_answers
from trimtab.typing import FloatArray
from trimtab_training.data import CONTROLLER
from trimtab_training.mlp import ResidualMlp

OPSET = 17
NAME, VERSION, FAMILY = "mlp", "1", "mlp"
MARGIN = 0.25  # share of the training range outside of which confidence is zero
TRUSTED = 1.15  # times the farthest training row: up to there confidence is whole
UNKNOWN = 2.0  # times the farthest training row: from there it is zero
HEADROOM = 1.5  # times what it hardly ever exceeded in training: what the safety filter lets through at most
MEMORY = ("slow", "sums", "begun")
OUTPUTS = ["residual", "distance", *(f"{name}_next" for name in MEMORY)]
PROBES = 8
TOLERANCE = 1e-5  # share of the torque limit by which torch and onnxruntime may differ


class ExportFailed(TrimtabError):
    """The exported model is not the trained one."""


def to_onnx(model: ResidualMlp) -> bytes:
    """The network with static shapes and its weights inside."""
    model.eval()
    target = io.BytesIO()
    with warnings.catch_warnings():
        # The other exporter needs a package more and writes a graph of more nodes, which cost time at batch one.
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            model,
            (torch.zeros(1, 4 * model.dof), *model.fresh()),
            target,
            input_names=["x", *MEMORY],
            output_names=OUTPUTS,
            opset_version=OPSET,
            dynamo=False,
        )
    graph = onnx.load_from_string(target.getvalue())
    for node in graph.graph.node:
        node.doc_string = ""  # holds paths of the machine that exported it
        node.ClearField("metadata_props")
    return bytes(graph.SerializeToString(deterministic=True))


def verify(model: ResidualMlp, exported: bytes, x: FloatArray) -> float:
    """Runs torch and onnxruntime side by side along normalised inputs (n, 4 dof), state included.

    Gives the largest difference as a share of the torque limit; refuses the export when that is too much.
    """
    session = onnxruntime.InferenceSession(exported, session_options(), providers=["CPUExecutionProvider"])
    memory = model.fresh()
    carried = [part.numpy().copy() for part in memory]
    worst = 0.0
    for row in np.asarray(x, np.float32)[:, None, :]:
        with torch.no_grad():
            wanted, distance, *memory = model(torch.from_numpy(row), *memory)
        given, away, *carried = session.run(OUTPUTS, {"x": row, **dict(zip(MEMORY, carried, strict=True))})
        worst = max(worst, float(np.abs((given - wanted.numpy()) / model.torque.numpy()).max()))
        worst = max(worst, TOLERANCE * float(np.abs(away - distance.numpy()).max() / (1e-3 + 1e-3 * float(distance.max()))))
    if not worst <= TOLERANCE:
        raise ExportFailed(f"torch and onnxruntime differ by {worst:.2e} of the torque limit; update torch or onnxruntime")
    return worst


def make_manifest(
    model: ResidualMlp, raw: FloatArray, reach: FloatArray, trained_on: dict[str, Any], scores: dict[str, Any]
) -> Manifest:
    """The manifest of a network that was trained on raw inputs (n, 4 dof), where it hardly ever exceeded `reach` [Nm]."""
    arm, dof = model.arm, model.dof
    scales = model.input_scales()
    low, high = raw.min(axis=0), raw.max(axis=0)
    # A joint that hardly moved in training still needs a range; a thousandth of its scale is one.
    short = np.concatenate(list(scales.values())) * 1e-3
    low, high = low - short, high + short
    inputs = []
    for i, (quantity, scale) in enumerate(scales.items()):
        block = slice(i * dof, (i + 1) * dof)
        inputs.append(Input(quantity, (0.0,) * dof, _plain(scale), _plain(low[block]), _plain(high[block])))
    with torch.no_grad():
        normalised = torch.from_numpy(raw / np.concatenate(list(scales.values()))).float()
        farthest = float(model.distance(normalised).max())
    picks = np.linspace(0, len(raw) - 1, PROBES + 2).astype(int)[1:-1]
    return Manifest(
        name=NAME,
        version=VERSION,
        family=FAMILY,
        arm=arm.name,
        joints=arm.joints,
        rate=arm.rate,
        gravity=arm.actuator.gravity,
        controller=CONTROLLER,
        inputs=tuple(inputs),
        states=tuple(State(name, f"{name}_next", (1, size)) for name, size in zip(MEMORY, model.memory_sizes, strict=True)),
        residual="residual",
        distance="distance",
        confidence=Confidence(MARGIN, round(TRUSTED * farthest, 3), round(UNKNOWN * farthest, 3)),
        bounds=dict(zip(arm.joints, _plain(np.minimum(HEADROOM * reach, model.shape.bound * arm.torque)), strict=True)),
        probes=tuple(Probe(_plain(raw[i])) for i in picks),
        trained_on=trained_on,
        scores=scores,
    )


def bundle_of(manifest: Manifest, exported: bytes) -> Bundle:
    """A bundle that lies nowhere yet, to run in a closed loop."""
    folder = Path(manifest.name) / manifest.version
    graph = inspect_model(exported, manifest, folder / MODEL)
    return Bundle(folder, with_answers(manifest, graph, folder / MODEL), exported, graph)


def _plain(values: FloatArray) -> tuple[float, ...]:
    """Numbers with six digits: what a manifest holds is read by people too."""
    return tuple(float(f"{value:.6g}") for value in values)
