"""Fills in what a bag tells of itself from what is at work here: contract, bundle, friction, this software."""

import hashlib
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import trimtab
from trimtab.arm import Arm
from trimtab.recording.context import UNKNOWN, RecordingContext
from trimtab.residual.bundle import find_bundle
from trimtab.residual.manifest import MANIFEST, load_manifest

PATIENCE = 10.0  # s that git may take


def describe(
    arm: Arm | None,
    *,
    namespace: str = "",
    plant: str = "",
    driver: str = "",
    controller: str = "",
    friction: str = "",
    state_timeout: str = "",
    residual: str = "",
    model: str = "",
    delivery: str = "",
    reference: str = "",
    seed: str = "",
    labels: Mapping[str, str] | None = None,
) -> RecordingContext:
    """The context of a recording that begins now.

    friction: text of the file; model: bundle of the arm's residual, where there is one.
    """
    contract = arm.file.read_bytes() if arm is not None else b""
    bundle = sha256 = ""
    if model and arm is not None:
        manifest = load_manifest(find_bundle(model, arm.name) / MANIFEST)
        bundle, sha256 = f"{manifest.name}/{manifest.version}", manifest.sha256
    commit, dirty = revision()
    return RecordingContext(
        arm=arm.name if arm is not None else "",
        contract=contract.decode(),
        contract_sha256=hashlib.sha256(contract).hexdigest() if contract else "",
        namespace=namespace.strip("/"),
        plant=plant,
        driver=driver,
        controller=controller,
        friction=friction,
        state_timeout=state_timeout,
        residual=residual,
        bundle=bundle,
        bundle_sha256=sha256,
        delivery=delivery,
        reference=reference,
        seed=seed,
        version=trimtab.__version__,
        revision=commit,
        dirty=dirty,
        started=datetime.now(UTC).isoformat(timespec="milliseconds"),
        labels=dict(labels or {}),
    )


@cache
def revision() -> tuple[str, str]:
    """Commit of the checkout that this package runs from, and whether tracked files differ from it."""
    for folder in Path(__file__).resolve().parents:
        # An installed package may lie inside of somebody else's checkout: only our own workspace counts.
        if (folder / "colcon.meta").is_file() and (folder / ".git").exists():
            commit = _git(folder, "rev-parse", "HEAD")
            changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
            if commit is not None and changes is not None:
                return commit, str(bool(changes)).lower()
    return UNKNOWN, UNKNOWN


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError):  # no git here, or a checkout that it does not trust
        return None
    return done.stdout.strip()
