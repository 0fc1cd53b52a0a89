"""Which run goes into which split: whole runs only, decided by the seed and by what the runs are, not by their order."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trimtab.errors import ConfigError

TRAIN, VALIDATION, TEST, HELD_OUT = "train", "validation", "test", "newest_hardware"
SPLITS = (TRAIN, VALIDATION, TEST, HELD_OUT)
REVISIONS = ("x_hardware_revision", "hardware_revision", "hardware")
"""Labels that name a hardware revision; the first that any run has counts."""


@dataclass(frozen=True)
class Candidate:
    """What deciding needs to know of a run."""

    key: str
    """Its hash: the same bag goes the same way, whatever it is called."""
    labels: Mapping[str, str]
    started: str
    """When it was recorded, ISO 8601; empty where nobody told."""


@dataclass(frozen=True)
class Decision:
    """Split of each run by its key, and why one revision was held out or none."""

    splits: Mapping[str, str]
    revision: str
    """The one that is held out; empty for none."""
    reason: str


def decide(runs: Sequence[Candidate], *, seed: int, validation: float, test: float) -> Decision:
    """Holds out the newest hardware revision and shares the other runs out; shares are of these runs."""
    if not (0.0 <= validation < 1.0 and 0.0 <= test < 1.0 and validation + test < 1.0):
        raise ConfigError(f"shares of validation {validation:g} and test {test:g} must leave something to train on")
    keys = [run.key for run in runs]
    if len(set(keys)) != len(keys):
        raise ConfigError("a bag is given twice; a run must not be in two splits")
    revision, reason = newest_revision(runs)
    held = {run.key for run in runs if revision and revision_of(run, runs) == revision}
    rest = sorted((key for key in keys if key not in held), key=lambda key: _shuffled(seed, key))
    counts = [_count(share, len(rest)) for share in (test, validation)]
    while sum(counts) >= len(rest) and any(counts):
        counts[counts.index(max(counts))] -= 1
    splits = dict.fromkeys(held, HELD_OUT)
    for split, count in ((TEST, counts[0]), (VALIDATION, counts[1]), (TRAIN, len(rest))):
        splits |= dict.fromkeys(rest[:count], split)
        rest = rest[count:]
    return Decision({key: splits[key] for key in keys}, revision, reason)


def newest_revision(runs: Sequence[Candidate]) -> tuple[str, str]:
    """The newest hardware revision, and why it is that or why there is none (empty).

    Revisions are compared as people count (r9 before r10); between equals the later recording decides.
    """
    found: dict[str, str] = {}
    for run in runs:
        name = revision_of(run, runs)
        if name:
            found[name] = max(found.get(name, ""), run.started)
    if not found:
        return "", "no run bears a label for its hardware, so no revision is held out"
    if len(found) == 1:
        return "", f"all runs with a label are of one hardware revision ({next(iter(found))}), so none is held out"
    newest = max(found, key=lambda name: (_natural(name), found[name]))
    return newest, f"'{newest}' is the newest of {', '.join(sorted(found, key=_natural))}"


def revision_of(run: Candidate, runs: Sequence[Candidate]) -> str:
    """The hardware revision of a run; empty where nobody told."""
    label = next((label for label in REVISIONS if any(label in one.labels for one in runs)), "")
    return run.labels.get(label, "")


def _natural(text: str) -> tuple[tuple[int, str], ...]:
    words = re.findall(r"\d+|\D+", text.lower())
    return tuple((int(word), "") if word.isdigit() else (-1, word) for word in words)


def _shuffled(seed: int, key: str) -> str:
    return hashlib.sha256(f"{seed}:{key}".encode()).hexdigest()


def _count(share: float, runs: int) -> int:
    """Runs that make a share: at least one where there are three, so that no split is empty by rounding."""
    return max(round(share * runs), 1 if share > 0.0 and runs >= 3 else 0)
