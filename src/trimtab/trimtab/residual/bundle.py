"""A model bundle: a folder with `model.onnx` and `manifest.yaml`, found, read once, checked, and written."""

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from trimtab.arm import Arm
from trimtab.errors import BundleRefused
from trimtab.files import write_whole
from trimtab.residual.inspection import MAX_MODEL, inspect_model
from trimtab.residual.manifest import MANIFEST, MAX_MANIFEST, MODEL, Manifest, parse_manifest
from trimtab.residual.parts import NAME
from trimtab.residual.probing import with_answers
from trimtab.residual.reading import read_file
from trimtab.residual.signing import check_signature
from trimtab.share import share_directory

RATE_TOLERANCE = 1e-6  # Hz


@dataclass(frozen=True)
class Bundle:
    """A bundle that passed all checks that need no inference. `graph` was made from the bytes that were hashed."""

    folder: Path
    manifest: Manifest
    model: bytes
    graph: onnx.ModelProto

    @property
    def model_file(self) -> Path:
        """Where the model was read from, for texts."""
        return self.folder / MODEL


def load_bundle(path_or_name: str | Path, arm: Arm, trusted_keys: Path | None = None) -> Bundle:
    """Loads a bundle by name (`mlp`, `mlp/1`) or by its folder, and checks it against the arm.

    Each file is read once, and what was checked is what is used. trusted_keys: file of public keys, one of which must
    have signed the bundle; None: signatures are not asked for.
    """
    folder = find_bundle(path_or_name, arm.name)
    return check_bundle(folder, *read_bundle(folder), arm, trusted_keys)


def read_bundle(folder: Path) -> tuple[Manifest, bytes]:
    """The manifest and the model's bytes, the manifest being in a folder of its own name and version."""
    manifest = parse_manifest(read_file(folder / MANIFEST, MAX_MANIFEST), folder / MANIFEST)
    check_place(manifest, folder)
    return manifest, read_file(folder / MODEL, MAX_MODEL)


def check_place(manifest: Manifest, folder: Path) -> None:
    """Refuses a bundle in a folder that does not say its name and version."""
    place = folder.resolve()
    if (place.parent.name, place.name) != (manifest.name, manifest.version):
        raise BundleRefused(
            f"{folder / MANIFEST}: is of {manifest.name}/{manifest.version} but lies in "
            f"{place.parent.name}/{place.name}; name the folders <name>/<version> as the manifest does"
        )


def check_bundle(folder: Path, manifest: Manifest, model: bytes, arm: Arm, trusted_keys: Path | None = None) -> Bundle:
    """All checks that need no inference; `folder` is only named in the texts."""
    if trusted_keys is not None:
        check_signature(manifest, trusted_keys, folder)
    check_hash(manifest, model, folder)
    check_fit(manifest, arm, folder)
    return Bundle(folder, manifest, model, inspect_model(model, manifest, folder / MODEL))


def check_hash(manifest: Manifest, model: bytes, folder: Path) -> None:
    """Refuses a model that is not the one that the manifest was written for."""
    found = hashlib.sha256(model).hexdigest()
    if found != manifest.sha256:
        raise BundleRefused(
            f"{folder / MODEL}: its sha256 is {found[:12]}..., the manifest says {manifest.sha256[:12]}...; "
            "the file was changed or damaged, copy the bundle again"
        )


def check_fit(manifest: Manifest, arm: Arm, folder: Path) -> None:
    """Refuses a bundle that was made for another arm, or for this one under another contract."""
    file = folder / MANIFEST
    if manifest.arm != arm.name:
        raise BundleRefused(f"{file}: is for the arm '{manifest.arm}', not '{arm.name}'; choose a bundle of this arm")
    for joint in arm.joints:
        if joint not in manifest.joints:
            raise BundleRefused(f"{file}: joint '{joint}' of {arm.name} is missing; train it on this arm's joints")
    for joint in manifest.joints:
        if joint not in arm.joints:
            raise BundleRefused(f"{file}: {arm.name} has no joint '{joint}'; train it on this arm's joints")
    if abs(manifest.rate - arm.rate) > RATE_TOLERANCE:
        raise BundleRefused(
            f"{file}: is for {manifest.rate:g} Hz, {arm.name} runs at {arm.rate:g} Hz; train it at that rate"
        )
    if manifest.gravity != arm.actuator.gravity:
        raise BundleRefused(
            f"{file}: was trained with gravity compensated by the {manifest.gravity}, on {arm.name} the "
            f"{arm.actuator.gravity} does it; train it under this contract"
        )
    for joint, limit in zip(arm.joints, arm.torque, strict=True):
        if manifest.bounds[joint] > limit:
            raise BundleRefused(
                f"{file}: the bound of joint '{joint}' is {manifest.bounds[joint]:g} Nm, above the arm's limit of "
                f"{limit:g}; lower it"
            )


def find_bundle(path_or_name: str | Path, arm_name: str, root: Path | None = None) -> Path:
    """The folder of a bundle: of a path, or of `name` (its newest version) or `name/version` below models/<arm>."""
    models = (share_directory() / "models" if root is None else root) / arm_name
    text = str(path_or_name)
    name, _, version = text.partition("/")
    if isinstance(path_or_name, str) and NAME.fullmatch(name) and (not version or NAME.fullmatch(version)):
        if version and (models / name / version / MANIFEST).is_file():
            return models / name / version
        if not version:
            versions = [folder for folder in find_bundles(models / name) if folder.parent == models / name]
            if versions:
                return versions[-1]
        if not version or not Path(text).is_dir():
            known = sorted({f"{folder.parent.name}/{folder.name}" for folder in find_bundles(models)})
            raise BundleRefused(
                f"no bundle '{text}' for {arm_name} (known: {', '.join(known) or 'none'}); give one of these or a folder"
            )
    folder = Path(path_or_name)
    if not folder.is_dir():
        raise BundleRefused(f"{folder}: is no folder; give a bundle's folder or its name")
    return folder


def find_bundles(root: Path) -> list[Path]:
    """Folders of all bundles below `root`, by path and age; hidden folders (downloads under way) are passed over."""
    files = (file for file in root.rglob(MANIFEST) if not any(part.startswith(".") for part in file.relative_to(root).parts))
    return sorted((file.parent for file in files), key=lambda folder: (str(folder.parent), _newness(folder)))


def _newness(folder: Path) -> tuple[tuple[int, int, str], ...]:
    """Sorts 2 before 10, 1.9 before 1.10, and words before numbers."""
    parts = re.findall(r"\d+|[^\d._-]+", folder.name)
    return tuple((1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts)


def write_bundle(folder: Path, manifest: Manifest, model: bytes, replace_existing: bool = False) -> Bundle:
    """Writes a bundle to models/<arm>/<name>/<version>, whole or not at all.

    The manifest needs neither `sha256` nor the probes' answers: they are made here. What would be refused on loading is
    refused here too. An existing bundle is only replaced when asked for.
    """
    check_place(manifest, folder)
    graph = inspect_model(model, manifest, folder / MODEL)
    filled = with_answers(manifest, graph, folder / MODEL)
    filled = replace(filled, sha256=hashlib.sha256(model).hexdigest(), signature=None)
    filled = parse_manifest(filled.text().encode(), folder / MANIFEST)
    with new_folder(folder, replace_existing) as temporary:
        write_whole(temporary / MODEL, model)
        filled.save(temporary)
    return Bundle(folder, filled, model, graph)


@contextmanager
def new_folder(folder: Path, replace_existing: bool = False) -> Iterator[Path]:
    """A hidden folder beside `folder` that takes its place when the block ends well, and vanishes when it does not."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        yield temporary
        temporary.chmod(0o755)
        if replace_existing and folder.exists():
            old = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.old."))
            folder.rename(old / folder.name)
            try:
                temporary.rename(folder)
            except OSError:
                (old / folder.name).rename(folder)
                raise
            finally:
                shutil.rmtree(old, ignore_errors=True)
        else:
            try:
                os.rename(temporary, folder)  # noqa: PTH104 - fails when a bundle is there, which is what is wanted
            except OSError as error:
                if folder.exists():
                    raise BundleRefused(f"{folder}: exists already; choose another version") from error
                raise
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
