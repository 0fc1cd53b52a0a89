"""Asks a model the questions that its manifest stores: finite, within bounds, and the stored answer."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx

from trimtab.errors import BundleRefused
from trimtab.residual.manifest import Manifest
from trimtab.residual.network import Network
from trimtab.residual.parts import Probe
from trimtab.typing import FloatArray

RELATIVE = 1e-3
ABSOLUTE = 1e-4  # share of a joint's bound


def raw_order(manifest: Manifest, order: np.ndarray) -> np.ndarray:
    """Index that brings a probe's `x` into the caller's joint order."""
    return np.concatenate([block * manifest.dof + np.asarray(order) for block in range(len(manifest.inputs))])


def check_probes(network: Network, manifest: Manifest, file: Path, raw: np.ndarray) -> None:
    """Refuses a model whose answer to any probe is not finite, beyond the bounds or not the stored one."""
    limits = np.array([manifest.bounds[joint] for joint in manifest.joints])
    for number, probe in enumerate(manifest.probes):
        answer = ask_probe(network, manifest, file, raw, number)
        away = np.abs(answer - np.array(probe.residual))
        allowed = RELATIVE * np.abs(answer) + ABSOLUTE * limits
        if (away > allowed).any():
            i = int((away - allowed).argmax())
            raise BundleRefused(
                f"{file}: gives {answer[i]:.6g} Nm for joint '{manifest.joints[i]}' on probe {number}, the manifest says "
                f"{probe.residual[i]:.6g}; the manifest was written for another model, export the bundle again"
            )


def ask_probe(network: Network, manifest: Manifest, file: Path, raw: np.ndarray, number: int) -> FloatArray:
    """The answer to one probe, shape (dof,) in the manifest's joint order [Nm]."""
    answer = network.ask(np.array(manifest.probes[number].x)[raw])
    if not np.isfinite(answer).all():
        i = int(np.flatnonzero(~np.isfinite(answer))[0])
        raise BundleRefused(
            f"{file}: gives {answer[i]} Nm for joint '{manifest.joints[i]}' on probe {number}; train or export it again"
        )
    for joint, torque in zip(manifest.joints, answer, strict=True):
        if abs(torque) > manifest.bounds[joint]:
            raise BundleRefused(
                f"{file}: gives {torque:.4g} Nm for joint '{joint}' on probe {number}, beyond its bound of "
                f"{manifest.bounds[joint]:g}; limit the model's output"
            )
    return answer


def with_answers(manifest: Manifest, graph: onnx.ModelProto, file: Path) -> Manifest:
    """The manifest with the model's own answers to its probes."""
    order = np.arange(manifest.dof)
    network, raw = Network(graph, manifest, order, file), raw_order(manifest, order)
    answers = [ask_probe(network, manifest, file, raw, number) for number in range(len(manifest.probes))]
    probes = (
        Probe(probe.x, tuple(float(torque) for torque in answer))
        for probe, answer in zip(manifest.probes, answers, strict=True)
    )
    return replace(manifest, probes=tuple(probes))
