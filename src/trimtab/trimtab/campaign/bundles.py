"""Damaged and doubtful bundles: each function spoils a copy of one, in place."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from trimtab.names import arm_names
from trimtab.residual.manifest import MANIFEST, MODEL
from trimtab.residual.signing import make_key, sign_bundle

KEY = "operator.key"


def bit_flipped(folder: Path) -> None:
    """One bit of the model is another."""
    data = bytearray((folder / MODEL).read_bytes())
    data[len(data) // 2] ^= 0x10
    (folder / MODEL).write_bytes(data)


def truncated(folder: Path) -> None:
    """The model ends in the middle, and the manifest has the hash of what is left."""
    data = (folder / MODEL).read_bytes()
    data = data[: len(data) // 2]
    (folder / MODEL).write_bytes(data)
    _edit(folder, lambda document: document.update(sha256=hashlib.sha256(data).hexdigest()))


def other_arm(folder: Path) -> None:
    """The manifest is of another arm."""
    _edit(folder, lambda document: document.update(arm=next(name for name in arm_names() if name != document["arm"])))


def probe_changed(folder: Path) -> None:
    """The stored answer to the first probe is not the model's."""

    def change(document: dict[str, Any]) -> None:
        document["probes"][0]["residual"][0] += 0.1 * document["bounds"][document["joints"][0]]

    _edit(folder, change)


def beyond_bounds(folder: Path) -> None:
    """The model's own answers to the probes are twice the bounds that the manifest claims."""

    def change(document: dict[str, Any]) -> None:
        for i, joint in enumerate(document["joints"]):
            largest = max(abs(probe["residual"][i]) for probe in document["probes"])
            if largest > 0.0:
                document["bounds"][joint] = 0.5 * largest

    _edit(folder, change)


def unsigned(folder: Path) -> Path:
    """Nobody signed it, and the operator demands signatures."""
    _edit(folder, lambda document: document.pop("signature", None))
    make_key(folder.parent / KEY)
    return folder.parent / f"{KEY}.pub"


def changed_after_signing(folder: Path) -> Path:
    """The manifest's bounds were raised after it was signed."""
    key = folder.parent / KEY
    make_key(key)
    sign_bundle(folder, key)

    def change(document: dict[str, Any]) -> None:
        document["bounds"] = {joint: 1.01 * bound for joint, bound in document["bounds"].items()}

    _edit(folder, change)
    return folder.parent / f"{KEY}.pub"


def _edit(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Rewrites the manifest after `change(document)`, without any check."""
    file = folder / MANIFEST
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    change(document)
    file.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
