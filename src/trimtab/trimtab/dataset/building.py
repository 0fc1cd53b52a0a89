"""Makes a training set of bags: a file for each run, an index and a card; the whole folder or nothing of it."""

import hashlib
import io
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from trimtab import __version__
from trimtab.bags.topics import Topics
from trimtab.dataset.card import Extremes, card_of, readme_of
from trimtab.dataset.filtering import METHODS
from trimtab.dataset.loading import FORMAT, INDEX
from trimtab.dataset.recorded import Recorded, read_recorded
from trimtab.dataset.rows import RunRows, Settings, make_rows
from trimtab.dataset.splits import Candidate, Decision, decide
from trimtab.errors import ConfigError, LogError
from trimtab.foreign import Embodiment


@dataclass(frozen=True)
class Request:
    """What a training set is to be made of, and how."""

    bags: Sequence[Path]
    arm: Embodiment
    settings: Settings
    topics: Topics
    effort: str | None
    """Unit of the states' effort; None: as each bag tells."""
    seed: int
    validation: float
    """Share of the runs."""
    test: float
    """Share of the runs."""


def check_settings(settings: Settings) -> None:
    """Refuses settings that no recording could satisfy."""
    if settings.method not in METHODS:
        raise ConfigError(f"filter '{settings.method}' is not known; known: {', '.join(METHODS)}")
    if not 0.0 < settings.cutoff < settings.rate / 2.0:
        raise ConfigError(
            f"--cutoff {settings.cutoff:g} Hz must lie between 0 and half the rate, {settings.rate / 2.0:g} Hz"
        )
    if settings.gap < 0.0:
        raise ConfigError(f"--gap {settings.gap:g} s is negative")


def build(request: Request, out: Path, progress: Callable[[str], object] | None = None) -> dict[str, Any]:
    """Writes the set to `out`, which must be new or empty; gives the card. progress: told each bag that is done."""
    check_settings(request.settings)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"--out {out} is not an empty folder, and a training set is never overwritten; give another")
    out.parent.mkdir(parents=True, exist_ok=True)
    growing = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
    try:
        card = _fill(request, growing, progress)
        growing.chmod(0o755)
        growing.rename(out)
    finally:
        shutil.rmtree(growing, ignore_errors=True)
    return card


def _fill(request: Request, folder: Path, progress: Callable[[str], object] | None) -> dict[str, Any]:
    entries: list[dict[str, Any]] = []
    candidates: list[Candidate] = []
    digests: dict[str, Path] = {}
    extremes: list[Extremes] = []
    names = _names(request.bags)
    for bag, name in sorted(zip(request.bags, names, strict=True), key=lambda pair: pair[1]):
        recorded = read_recorded(bag, request.arm, request.topics, request.effort)
        twin = digests.setdefault(recorded.digest, bag)
        if twin != bag:
            raise LogError(f"{bag} holds the same recording as {twin}; give each once, or a run gets into two splits")
        rows = make_rows(recorded, request.settings)
        entries.append(_write_run(folder, name, recorded, rows))
        labels = dict(recorded.context.labels)
        candidates.append(Candidate(recorded.digest, labels, recorded.context.started))
        extremes.append(Extremes.of(rows))
        if progress is not None:
            progress(bag.name)
    decision = decide(candidates, seed=request.seed, validation=request.validation, test=request.test)
    for entry, candidate in zip(entries, candidates, strict=True):
        entry["split"] = decision.splits[candidate.key]
    index = _index(request, entries, decision)
    card = card_of(index, extremes)
    _write(folder / INDEX, index)
    _write(folder / "card.yaml", card)
    (folder / "README.md").write_text(readme_of(card), encoding="utf-8")
    return card


def _write_run(folder: Path, name: str, recorded: Recorded, rows: RunRows) -> dict[str, Any]:
    """The run's file, and its entry in the index but for the split."""
    buffer = io.BytesIO()
    arrays: dict[str, Any] = {"t": rows.t, "segment": rows.segment, **rows.columns}
    np.savez(buffer, **arrays)
    file = folder / f"{name}.npz"
    file.write_bytes(buffer.getvalue())
    context = {key: value for key, value in vars(recorded.context).items() if isinstance(value, str) and value}
    for long in ("contract", "friction"):  # whole files; their hashes are enough here
        context.pop(long, None)
    return {
        "name": name,
        "file": file.name,
        "sha256": hashlib.sha256(buffer.getvalue()).hexdigest(),
        "columns": list(rows.columns),
        "labels": dict(sorted(recorded.context.labels.items())),
        "context": context,
        "counts": rows.counts.as_dict(),
        "source": {"bag": recorded.path.name, "sha256": recorded.sha256, "remarks": recorded.findings.sentences()},
    }


def _index(request: Request, entries: list[dict[str, Any]], decision: Decision) -> dict[str, Any]:
    settings = request.settings
    return {
        "format": FORMAT,
        "version": __version__,
        "arm": request.arm.name,
        "joints": list(request.arm.joints),
        "rate": settings.rate,
        "filter": {"method": settings.method, "cutoff": settings.cutoff},
        "gap": settings.gap,
        "units": {
            "t": "s",
            **dict.fromkeys(("q", "q_des"), "rad"),
            **dict.fromkeys(("qd", "qd_des"), "rad/s"),
            **dict.fromkeys(("qdd", "qdd_des"), "rad/s^2"),
            **dict.fromkeys(("torque", "learned"), "Nm"),
            "effort": request.arm.effort_unit,
        },
        "splits": {
            "seed": request.seed,
            "validation": request.validation,
            "test": request.test,
            "newest_hardware": decision.revision,
            "newest_hardware_reason": decision.reason,
        },
        "runs": entries,
    }


def _names(bags: Sequence[Path]) -> list[str]:
    """A name for each run: its bag's, with as many of the folders around it as it takes to tell them apart."""
    parts = [(*bag.parent.parts[1:], bag.stem if bag.is_file() else bag.name) for bag in bags]
    for depth in range(1, max(map(len, parts), default=1) + 1):
        names = ["-".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    raise LogError("a bag is given twice; a run must not be in two splits")


def _write(file: Path, document: dict[str, Any]) -> None:
    file.write_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120), encoding="utf-8")
