"""What comes from a store is checked first and then there as a whole, or not at all."""

from pathlib import Path

import fsspec
import pytest
from bundle_maker import edit_manifest, make_bundle, put_model

from trimtab.arm import Arm
from trimtab.errors import BundleRefused, ConfigError
from trimtab.residual import store
from trimtab.residual.bundle import load_bundle
from trimtab.residual.manifest import MANIFEST, MODEL
from trimtab.residual.runtime import ResidualModel
from trimtab.residual.signing import make_key, sign_bundle
from trimtab.residual.store import fetch_bundle


@pytest.fixture
def source(tmp_path: Path, ur5e: Arm) -> Path:
    return make_bundle(tmp_path / "store", ur5e)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "models"


def left(root: Path) -> list[str]:
    return sorted(str(file.relative_to(root)) for file in root.rglob("*") if file.is_file())


def test_from_a_folder(source: Path, root: Path, ur5e: Arm) -> None:
    bundle = fetch_bundle(source.as_uri(), "ur5e", root)
    assert bundle.folder == root / "ur5e" / "mlp" / "1"
    assert left(root) == ["ur5e/mlp/1/manifest.yaml", "ur5e/mlp/1/model.onnx"]
    ResidualModel(load_bundle(bundle.folder, ur5e), ur5e)


def test_from_another_kind_of_store(source: Path, root: Path) -> None:
    memory = fsspec.filesystem("memory")
    for name in (MODEL, MANIFEST):
        memory.pipe(f"/bucket/ur5e/mlp/1/{name}", (source / name).read_bytes())
    assert fetch_bundle("memory://bucket/ur5e/mlp/1/", None, root).manifest.arm == "ur5e"
    assert len(left(root)) == 2


@pytest.mark.parametrize("name", [MODEL, MANIFEST])
def test_a_missing_file_is_named(source: Path, root: Path, name: str) -> None:
    (source / name).unlink()
    with pytest.raises(BundleRefused, match=f"{name}: is missing; give the URL of a folder"):
        fetch_bundle(source.as_uri(), "ur5e", root)
    assert left(root) == []


def test_damage_on_the_way_is_refused(source: Path, root: Path) -> None:
    (source / MODEL).write_bytes((source / MODEL).read_bytes()[:-7])
    with pytest.raises(BundleRefused, match="its sha256 is"):
        fetch_bundle(source.as_uri(), "ur5e", root)
    assert left(root) == []


def test_a_bad_graph_is_refused(source: Path, root: Path) -> None:
    put_model(source, b"no graph")
    with pytest.raises(BundleRefused, match="ONNX model"):
        fetch_bundle(source.as_uri(), "ur5e", root)
    assert left(root) == []


def test_a_name_that_climbs_is_refused(source: Path, root: Path) -> None:
    edit_manifest(source, lambda document: document.update(name="../../../evil"))
    with pytest.raises(BundleRefused, match="name must be letters"):
        fetch_bundle(source.as_uri(), "ur5e", root)
    assert left(root) == []


@pytest.mark.parametrize("arm", ["../evil", "/etc", "nobody"])
def test_an_arm_that_is_not_known_is_refused(source: Path, root: Path, arm: str) -> None:
    edit_manifest(source, lambda document: document.update(arm=arm))
    with pytest.raises((BundleRefused, ConfigError)):
        fetch_bundle(source.as_uri(), None, root)
    assert left(root) == []


def test_another_arm_than_asked_for_is_refused(source: Path, root: Path) -> None:
    with pytest.raises(BundleRefused, match="is for the arm 'ur5e', not 'wam'"):
        fetch_bundle(source.as_uri(), "wam", root)
    assert left(root) == []


def test_an_endless_file_is_refused(source: Path, root: Path) -> None:
    with (source / MANIFEST).open("r+b") as stream:
        stream.truncate(300 * 1024)
    with pytest.raises(BundleRefused, match=r"manifest\.yaml: is larger than"):
        fetch_bundle(source.as_uri(), "ur5e", root)


def test_signatures_are_checked_where_keys_are_given(source: Path, root: Path, tmp_path: Path) -> None:
    make_key(tmp_path / "my.key")
    trusted = tmp_path / "my.key.pub"
    with pytest.raises(BundleRefused, match="is not signed"):
        fetch_bundle(source.as_uri(), "ur5e", root, trusted)
    assert left(root) == []
    sign_bundle(source, tmp_path / "my.key")
    fetch_bundle(source.as_uri(), "ur5e", root, trusted)


def test_a_bundle_is_never_overwritten(source: Path, root: Path, tmp_path: Path, ur5e: Arm) -> None:
    folder = fetch_bundle(source.as_uri(), "ur5e", root).folder
    fetch_bundle(source.as_uri(), "ur5e", root)  # the same again: fine
    before = (folder / MODEL).read_bytes()
    other = make_bundle(tmp_path / "other", ur5e, seed=1)
    with pytest.raises(BundleRefused, match="holds another bundle of this name and version"):
        fetch_bundle(other.as_uri(), "ur5e", root)
    assert (folder / MODEL).read_bytes() == before


def test_nothing_is_left_when_the_disk_is_full(source: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = store.write_whole

    def full(file: Path, content: bytes) -> None:
        if file.name == MANIFEST:
            raise OSError(28, "No space left on device", str(file))
        real(file, content)

    monkeypatch.setattr(store, "write_whole", full)
    with pytest.raises(OSError, match="No space"):
        fetch_bundle(source.as_uri(), "ur5e", root)
    assert left(root) == []
    assert list((root / "ur5e" / "mlp").iterdir()) == []


def test_addresses_that_cannot_be_opened_are_refused(root: Path) -> None:
    with pytest.raises(BundleRefused, match="nothing://x: this kind of address cannot be opened"):
        fetch_bundle("nothing://x", "ur5e", root)
    with pytest.raises(BundleRefused, match=r"is missing"):
        fetch_bundle("/nowhere/at/all", "ur5e", root)
