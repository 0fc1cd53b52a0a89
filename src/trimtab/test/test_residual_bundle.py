"""A bundle that does not fit, is damaged or lies elsewhere is refused with its own text; a good one is used as read."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bundle_maker import edit_manifest, make_bundle, make_manifest, make_model

from trimtab.arm import Arm
from trimtab.errors import BundleRefused
from trimtab.residual import bundle as bundles
from trimtab.residual.bundle import Bundle, find_bundle, find_bundles, load_bundle, write_bundle
from trimtab.residual.manifest import MANIFEST, MODEL
from trimtab.residual.runtime import ResidualModel


@pytest.fixture
def folder(tmp_path: Path, ur5e: Arm) -> Path:
    return make_bundle(tmp_path, ur5e)


def test_a_bundle_of_each_arm_is_taken(tmp_path: Path, arm: Arm) -> None:
    folder = make_bundle(tmp_path, arm)
    bundle = load_bundle(folder, arm)
    assert bundle.manifest.joints == arm.joints
    assert bundle.model == (folder / MODEL).read_bytes()


def rename(joint: str, to: str) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        document["joints"] = [to if name == joint else name for name in document["joints"]]
        document["bounds"] = {to if name == joint else name: limit for name, limit in document["bounds"].items()}

    return change


def without_last_joint(document: dict[str, Any]) -> None:
    gone = document["joints"].pop()
    del document["bounds"][gone]
    for one in document["inputs"]:
        for column in ("mean", "scale", "low", "high"):
            one[column].pop()
    for probe in document["probes"]:
        probe["x"] = probe["x"][:15]
        probe["residual"].pop()


def with_another_joint(document: dict[str, Any]) -> None:
    document["joints"].append("tail_joint")
    document["bounds"]["tail_joint"] = 1.0
    for one in document["inputs"]:
        for column in ("mean", "scale", "low", "high"):
            one[column].append(one[column][-1])
    for probe in document["probes"]:
        probe["x"] += [0.0] * 3
        probe["residual"].append(0.0)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda document: document.update(arm="wam"), "is for the arm 'wam', not 'ur5e'; choose a bundle of this arm"),
        (rename("elbow_joint", "knee_joint"), "joint 'elbow_joint' of ur5e is missing; train it"),
        (without_last_joint, "joint 'wrist_3_joint' of ur5e is missing; train it"),
        (with_another_joint, "ur5e has no joint 'tail_joint'; train it"),
        (lambda document: document.update(rate=250), "is for 250 Hz, ur5e runs at 500 Hz; train it at that rate"),
        (lambda document: document.update(gravity="stack"), "gravity compensated by the stack, on ur5e the robot does it"),
        (lambda document: document["bounds"].update(elbow_joint=151), "bound of joint 'elbow_joint' is 151 Nm, above"),
        (lambda document: document.update(name="other"), "is of other/1 but lies in mlp/1; name the folders"),
        (lambda document: document.update(version="2"), "is of mlp/2 but lies in mlp/1; name the folders"),
    ],
)
def test_what_does_not_fit_is_refused(folder: Path, ur5e: Arm, change: Callable[[Any], None], text: str) -> None:
    edit_manifest(folder, change)
    with pytest.raises(BundleRefused, match=text):
        load_bundle(folder, ur5e)


def test_a_changed_model_is_refused(folder: Path, ur5e: Arm) -> None:
    data = bytearray((folder / MODEL).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / MODEL).write_bytes(data)
    with pytest.raises(BundleRefused, match=r"model\.onnx: its sha256 is .* the manifest says .* copy the bundle again"):
        load_bundle(folder, ur5e)


@pytest.mark.parametrize("name", [MODEL, MANIFEST])
def test_a_missing_file_is_named(folder: Path, ur5e: Arm, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(BundleRefused, match=rf"{name}: is missing; a bundle is a folder with"):
        load_bundle(folder, ur5e)


@pytest.mark.parametrize("name", [MODEL, MANIFEST])
def test_symbolic_links_are_refused(folder: Path, ur5e: Arm, tmp_path: Path, name: str) -> None:
    (folder / name).rename(tmp_path / name)
    (folder / name).symlink_to(tmp_path / name)
    with pytest.raises(BundleRefused, match=f"{name}: is a symbolic link; a bundle must hold its files itself"):
        load_bundle(folder, ur5e)


def test_what_is_no_plain_file_is_refused_and_waits_for_nobody(folder: Path, ur5e: Arm) -> None:
    (folder / MODEL).unlink()
    os.mkfifo(folder / MODEL)
    with pytest.raises(BundleRefused, match=r"model\.onnx: is not a plain file"):
        load_bundle(folder, ur5e)


def test_an_oversize_model_is_refused(folder: Path, ur5e: Arm) -> None:
    with (folder / MODEL).open("r+b") as stream:
        stream.truncate(64 * 1024 * 1024 + 1)
    with pytest.raises(BundleRefused, match=r"model\.onnx: is larger than the 65536 kB"):
        load_bundle(folder, ur5e)


def test_what_was_checked_is_what_runs(folder: Path, ur5e: Arm) -> None:
    """The files may change or vanish after loading: nothing is read a second time."""
    bundle = load_bundle(folder, ur5e)
    (folder / MODEL).write_bytes(b"something else")
    (folder / MANIFEST).unlink()
    ResidualModel(bundle, ur5e)


# Names


def test_names_find_the_newest_version(tmp_path: Path, ur5e: Arm, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("9", "10", "rc1"):
        make_bundle(tmp_path / "models", ur5e, version=version)
    (tmp_path / "models" / "ur5e" / "mlp" / ".11.download").mkdir()
    monkeypatch.setattr(bundles, "share_directory", lambda: tmp_path)
    assert load_bundle("mlp", ur5e).manifest.version == "10"
    assert load_bundle("mlp/9", ur5e).manifest.version == "9"
    assert [found.name for found in find_bundles(tmp_path / "models")] == ["rc1", "9", "10"]
    with pytest.raises(BundleRefused, match=r"no bundle 'mlp/8' for ur5e \(known: mlp/10, mlp/9, mlp/rc1\)"):
        load_bundle("mlp/8", ur5e)
    with pytest.raises(BundleRefused, match=r"no bundle 'gru' for ur5e"):
        load_bundle("gru", ur5e)


def test_a_hidden_download_is_no_bundle(tmp_path: Path, ur5e: Arm) -> None:
    folder = make_bundle(tmp_path, ur5e)
    folder.rename(folder.with_name(".1.download"))
    assert find_bundles(tmp_path) == []
    with pytest.raises(BundleRefused, match="no bundle 'mlp' for ur5e"):
        find_bundle("mlp", "ur5e", tmp_path)


@pytest.mark.parametrize("name", ["../wam/mlp/1", "/nowhere/mlp/1", "./mlp", "mlp/..", "mlp/../mlp"])
def test_names_do_not_climb(tmp_path: Path, ur5e: Arm, name: str) -> None:
    make_bundle(tmp_path, ur5e)
    with pytest.raises(BundleRefused, match="is no folder; give a bundle's folder or its name"):
        find_bundle(name, "ur5e", tmp_path)


# Writing


def test_writing_fills_in_hash_and_answers(tmp_path: Path, ur5e: Arm) -> None:
    manifest = make_manifest(ur5e)
    assert manifest.sha256 == ""
    written = write_bundle(tmp_path / "mlp" / "1", manifest, make_model(manifest, ur5e))
    again = load_bundle(tmp_path / "mlp" / "1", ur5e)
    assert again.manifest == written.manifest
    assert all(len(probe.residual) == ur5e.dof for probe in again.manifest.probes)
    ResidualModel(again, ur5e)


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir()) if folder.exists() else []


def test_nothing_is_left_of_a_bundle_that_cannot_be_written(
    tmp_path: Path, ur5e: Arm, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(file: Path, content: object) -> None:
        raise OSError(28, "No space left on device", str(file))

    manifest = make_manifest(ur5e)
    model = make_model(manifest, ur5e)
    monkeypatch.setattr(bundles, "write_whole", no_space)
    with pytest.raises(OSError, match="No space"):
        write_bundle(tmp_path / "mlp" / "1", manifest, model)
    assert names(tmp_path / "mlp") == []


def test_an_existing_bundle_is_replaced_only_when_asked(folder: Path, ur5e: Arm) -> None:
    manifest = make_manifest(ur5e)
    before = (folder / MODEL).read_bytes()
    other = make_model(manifest, ur5e, seed=1)
    with pytest.raises(BundleRefused, match="exists already; choose another version"):
        write_bundle(folder, manifest, other)
    assert (folder / MODEL).read_bytes() == before
    write_bundle(folder, manifest, other, replace_existing=True)
    assert load_bundle(folder, ur5e).model == other
    assert names(folder.parent) == ["1"]


def test_what_would_be_refused_is_not_written(tmp_path: Path, ur5e: Arm) -> None:
    manifest = make_manifest(ur5e)
    model = make_model(manifest, ur5e)
    refusals = {
        "beyond its bound": replace(manifest, bounds=dict.fromkeys(ur5e.joints, 1e-6)),
        "no output tensor 'torque'": replace(manifest, residual="torque"),
        "at least 3": replace(manifest, probes=manifest.probes[:1]),
        "name the folders": replace(manifest, name="other"),
    }
    for text, bad in refusals.items():
        with pytest.raises(BundleRefused, match=text):
            write_bundle(tmp_path / "mlp" / "1", bad, model)
    assert names(tmp_path) == []


def test_bundles_are_values(folder: Path, ur5e: Arm) -> None:
    bundle = load_bundle(folder, ur5e)
    assert isinstance(bundle, Bundle)
    with pytest.raises(AttributeError):
        bundle.model = b""  # type: ignore[misc]
