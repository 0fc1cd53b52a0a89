"""Reads a training set: its index at once, each run when it is asked for, checked against its hash."""

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trimtab.errors import ConfigError, LogError
from trimtab.fields import Fields
from trimtab.typing import FloatArray

FORMAT = 1
INDEX = "index.yaml"


@dataclass(frozen=True)
class Rows:
    """One run; arrays of `columns` are (n, joints), NaN where nothing was recorded."""

    t: FloatArray
    """(n,) [s]"""
    segment: np.ndarray
    """(n,) of int; time is missing between two segments."""
    columns: Mapping[str, FloatArray]


@dataclass(frozen=True)
class DatasetRun:
    """One run of a set, not read yet."""

    name: str
    split: str
    labels: Mapping[str, str]
    context: Mapping[str, str]
    """What else its bag told."""
    columns: tuple[str, ...]
    rows: int
    file: Path
    sha256: str

    def load(self) -> Rows:
        """Reads the run; a file that is not the one of the index is refused."""
        try:
            data = self.file.read_bytes()
        except OSError as error:
            raise LogError(f"{self.file}: cannot be read: {error.strerror}; make the set again") from error
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise LogError(f"{self.file}: is not what the index says (sha256 differs); make the set again")
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return Rows(arrays["t"], arrays["segment"], {name: arrays[name] for name in self.columns})


@dataclass(frozen=True)
class Dataset:
    """A training set."""

    folder: Path
    arm: str
    joints: tuple[str, ...]
    """Order of all columns."""
    rate: float
    """[Hz]"""
    units: Mapping[str, str]
    runs: tuple[DatasetRun, ...]

    def split(self, name: str) -> tuple[DatasetRun, ...]:
        """Runs of a split: train, validation, test or newest_hardware; none where it is empty."""
        return tuple(run for run in self.runs if run.split == name)


def load_dataset(folder: Path) -> Dataset:
    """Reads the index of a training set that `trimtab dataset` has made."""
    fields = Fields.of_file(folder / INDEX)
    if (found := fields.take("format")) != FORMAT:
        raise ConfigError(f"{fields.file}: is of format {found!r}, this version reads {FORMAT}; make the set again")
    runs = []
    for entry in fields.mappings("runs"):
        counts = entry.mapping("counts")
        runs.append(
            DatasetRun(
                name=entry.text("name"),
                split=entry.text("split"),
                labels=_texts(entry, "labels"),
                context=_texts(entry, "context"),
                columns=entry.texts("columns"),
                rows=int(counts.number("rows", low=1)),
                file=folder / Path(entry.text("file")).name,
                sha256=entry.text("sha256"),
            )
        )
    return Dataset(
        folder=folder,
        arm=fields.text("arm"),
        joints=fields.texts("joints"),
        rate=fields.number("rate", low=1e-3),
        units=_texts(fields, "units"),
        runs=tuple(runs),
    )


def _texts(fields: Fields, name: str) -> dict[str, str]:
    section = fields.mapping(name)
    return {key: section.text(key) for key in section.names()}
