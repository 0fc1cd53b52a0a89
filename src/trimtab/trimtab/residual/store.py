"""Bundles from a store by URL (fsspec): downloaded, verified, then put into place; whole or not at all."""

from pathlib import Path

import fsspec

from trimtab.arm import load_arm
from trimtab.errors import BundleRefused
from trimtab.files import write_whole
from trimtab.residual.bundle import Bundle, check_bundle, new_folder
from trimtab.residual.inspection import MAX_MODEL
from trimtab.residual.manifest import MANIFEST, MAX_MANIFEST, MODEL, parse_manifest
from trimtab.residual.reading import read_file, within


def fetch_bundle(url: str, arm_name: str | None, root: Path, trusted_keys: Path | None = None) -> Bundle:
    """Brings the bundle in the folder `url` to root/<arm>/<name>/<version>, after all checks that need no inference.

    arm_name: the arm that it has to be for; None: the one that its manifest names. A bundle that is there already is
    left as it is when it has the same content, and never overwritten.
    """
    place = Path(url)  # for texts only: the manifest says where the bundle goes
    store = _Store(url)
    manifest_data = store.read(MANIFEST, MAX_MANIFEST)
    manifest = parse_manifest(manifest_data, place / MANIFEST)
    model = store.read(MODEL, MAX_MODEL)
    arm = load_arm(arm_name or manifest.arm)
    bundle = check_bundle(place, manifest, model, arm, trusted_keys)
    folder = root / arm.name / manifest.name / manifest.version
    if folder.exists():
        _require_same(folder, manifest_data, model)
    else:
        with new_folder(folder) as temporary:
            write_whole(temporary / MODEL, model)
            write_whole(temporary / MANIFEST, manifest_data)
    return Bundle(folder, manifest, model, bundle.graph)


class _Store:
    """The two files of a remote folder; whatever a backend raises becomes a refusal that names the URL."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        try:
            self._system, self._path = fsspec.core.url_to_fs(self._url)
        except (ImportError, ValueError) as error:  # a protocol that fsspec does not know, or lacks a package for
            raise BundleRefused(f"{self._url}: this kind of address cannot be opened: {error}") from error

    def read(self, name: str, limit: int) -> bytes:
        """All bytes of a file, at most `limit`."""
        where = f"{self._url}/{name}"
        try:
            with self._system.open(f"{self._path}/{name}", "rb") as stream:
                data: bytes = stream.read(limit + 1)
        except FileNotFoundError as error:
            raise BundleRefused(f"{where}: is missing; give the URL of a folder with {MODEL} and {MANIFEST}") from error
        except Exception as error:  # each backend has errors of its own
            raise BundleRefused(f"{where}: cannot be read: {type(error).__name__}: {error}") from error
        return within(data, limit, where)


def _require_same(folder: Path, manifest: bytes, model: bytes) -> None:
    try:
        same = read_file(folder / MANIFEST, MAX_MANIFEST) == manifest and read_file(folder / MODEL, MAX_MODEL) == model
    except BundleRefused:
        same = False
    if not same:
        raise BundleRefused(f"{folder}: holds another bundle of this name and version; remove it or pull another version")
