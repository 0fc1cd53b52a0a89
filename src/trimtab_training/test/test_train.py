"""A tiny training from simulation to a bundle that the runtime takes; and the export on its own."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from trimtab.arm import Arm
from trimtab.residual.bundle import load_bundle, write_bundle
from trimtab.residual.runtime import ResidualModel
from trimtab_training.export import OPSET, ExportFailed, make_manifest, to_onnx, verify
from trimtab_training.mlp import ResidualMlp, Shape
from trimtab_training.train import Recipe, Trained, train

TINY = Recipe(rounds=2, references=3, duration=2.5, steps=25, validation=1, plants=("worn",), shape=Shape(hidden=(6, 4)))


class NoBar:
    def stage(self, name: str, steps: int) -> None:
        pass

    def advance(self, steps: int) -> None:
        pass


@pytest.fixture(scope="module")
def trained(arm: Arm) -> Trained:
    return train(arm, TINY, NoBar())


def test_the_bundle_is_taken(trained: Trained, arm: Arm, tmp_path: Path) -> None:
    folder = tmp_path / arm.name / "mlp" / "1"
    write_bundle(folder, trained.manifest, trained.exported)
    bundle = load_bundle(folder, arm)
    ResidualModel(bundle, arm)
    assert any(any(probe.residual) for probe in bundle.manifest.probes), "probes must see the weights"
    assert bundle.manifest.trained_on["plants"] == ["worn"]
    assert bundle.manifest.scores["joint_rmse_mrad"]["worn"]["classical"] > 0.0


def test_the_same_seed_gives_the_same_bundle(trained: Trained, arm: Arm) -> None:
    again = train(arm, TINY, NoBar())
    assert again.exported == trained.exported
    assert again.manifest == trained.manifest
    assert train(arm, replace(TINY, seed=1), NoBar()).exported != trained.exported


def test_torch_and_onnxruntime_agree(model: ResidualMlp) -> None:
    x = np.random.default_rng(0).normal(size=(300, 4 * model.dof))
    assert verify(model, to_onnx(model), x) < 1e-5


def test_another_model_is_no_export(model: ResidualMlp) -> None:
    exported = to_onnx(model)
    with torch.no_grad():
        model.last += 1.0
    with pytest.raises(ExportFailed, match="differ"):
        verify(model, exported, np.random.default_rng(0).normal(size=(20, 4 * model.dof)))


def test_the_file_is_small_plain_and_says_nothing_of_its_maker(model: ResidualMlp) -> None:
    exported = to_onnx(model)
    graph = onnx.load_from_string(exported)
    assert [opset.version for opset in graph.opset_import] == [OPSET]
    assert sum(node.op_type != "Constant" for node in graph.graph.node) < 100
    assert b"/home" not in exported
    assert b".py" not in exported


def test_ranges_and_distances_hold_the_training_data(model: ResidualMlp) -> None:
    raw = np.random.default_rng(3).normal(size=(500, 4 * model.dof))
    raw[:, 0] = 0.5  # a joint that never moved
    model.learn_distance(torch.from_numpy(raw / np.concatenate(list(model.input_scales().values()))).float())
    manifest = make_manifest(model, raw, 0.01 * model.arm.torque, {}, {})
    low = np.concatenate([one.low for one in manifest.inputs])
    high = np.concatenate([one.high for one in manifest.inputs])
    assert (low < raw.min(axis=0)).all()
    assert (high > raw.max(axis=0)).all()
    assert manifest.confidence.trusted is not None
    assert manifest.confidence.unknown is not None
    assert manifest.confidence.trusted < manifest.confidence.unknown
