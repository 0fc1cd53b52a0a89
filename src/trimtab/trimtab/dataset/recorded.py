"""One bag's rows as they were recorded, whole in memory: what a run of a training set is made of."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trimtab import units
from trimtab.bags.effort import EffortUnit
from trimtab.bags.files import Bag
from trimtab.bags.findings import Findings
from trimtab.bags.reading import LogReader, Reference
from trimtab.bags.topics import Topics
from trimtab.errors import ConfigError, LogError
from trimtab.foreign import Embodiment
from trimtab.recording.context import RecordingContext
from trimtab.typing import FloatArray

_PIECE = 1 << 20
ROWS = ("q", "qd", "torque", "learned", "effort")


@dataclass(frozen=True)
class Recorded:
    """Rows in the arm's joint order. Arrays are (n,) or (n, dof); NaN where nothing was recorded."""

    path: Path
    sha256: str
    """Of the bag's storage files."""
    context: RecordingContext
    findings: Findings
    stamp: np.ndarray
    """[ns], strictly rising within a stretch."""
    stretch: np.ndarray
    """Counts the jumps back of the clock."""
    q: FloatArray
    """[rad]"""
    qd: FloatArray
    """[rad/s]"""
    torque: FloatArray
    """What was sent [Nm]."""
    learned: FloatArray
    """Learned part of it [Nm]."""
    effort: FloatArray
    """Measured, in the arm's unit."""
    references: tuple[tuple[int, Reference], ...]
    """Each with the row before which it came."""

    @property
    def digest(self) -> str:
        """Of what was measured, wherever and whenever it was written: two bags of one recording have the same."""
        found = hashlib.sha256()
        for values in (self.stamp - self.stamp[0], self.q, self.qd):
            found.update(np.ascontiguousarray(values).tobytes())
        return found.hexdigest()


def read_recorded(path: Path, arm: Embodiment, topics: Topics, effort: str | None) -> Recorded:
    """Reads a bag; effort: unit of the states' effort, None for what the bag itself tells of it."""
    told = Bag(path).custom
    namespace = RecordingContext.from_custom_data(told).namespace
    if namespace and topics == Topics():
        topics = topics.under(namespace)
    unit = effort or told.get("effort_unit", "")
    measured = _scale(unit, arm) if unit and topics.torques != topics.states else None
    reader = LogReader(path, arm, topics, measured)
    blocks = list(reader.blocks())
    if not blocks or reader.findings.rows == 0:
        raise LogError(f"{path}: has no usable rows; {'; '.join(reader.findings.sentences()) or 'record it again'}")
    first = np.cumsum([0, *(len(block) for block in blocks)])
    columns = {name: np.concatenate([getattr(block, name) for block in blocks]) for name in ("stamp", *ROWS)}
    applied = np.concatenate([block.applied for block in blocks])  # in the bags of runs
    return Recorded(
        path=path,
        sha256=hash_of(reader.bag.files),
        context=reader.context,
        findings=reader.findings,
        stamp=columns["stamp"],
        stretch=np.concatenate([np.full(len(block), block.segment) for block in blocks]),
        q=columns["q"],
        qd=columns["qd"],
        torque=columns["torque"],
        learned=np.where(np.isnan(columns["learned"]), applied, columns["learned"]),
        effort=columns["effort"],
        references=tuple(
            (int(first[i]) + row, reference) for i, block in enumerate(blocks) for row, reference in block.references
        ),
    )


def hash_of(files: Iterable[Path]) -> str:
    """SHA-256 of the contents of files, one after the other."""
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while piece := stream.read(_PIECE):
                digest.update(piece)
    return digest.hexdigest()


def _scale(unit: str, arm: Embodiment) -> EffortUnit:
    if unit not in units.EFFORT:
        raise ConfigError(f"effort unit '{unit}' is not known; known: {', '.join(units.EFFORT)}")
    becomes, factor = units.EFFORT[unit]
    if becomes != arm.effort_unit:
        raise ConfigError(f"effort in {unit} is no effort of {arm.name}, whose unit is {arm.effort_unit}")
    return EffortUnit(np.full(arm.dof, factor))
