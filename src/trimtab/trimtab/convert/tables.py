"""Reads npz and CSV files as named columns."""

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from trimtab.convert.mapping import RUN, Columns, RecordingMapping
from trimtab.errors import LogError
from trimtab.typing import FloatArray


class Table:
    """The columns of a recording by name; an npz is read array by array, as they are asked for."""

    def __init__(self, file: Path) -> None:
        self.file = file
        if not file.is_file():
            raise LogError(f"{file}: does not exist or is no file; give an .npz or a .csv file")
        if file.suffix.lower() not in (".npz", ".csv"):
            raise LogError(f"{file}: is neither an .npz nor a .csv file; export it to one of them")
        try:
            self._arrays: Mapping[str, np.ndarray] = _npz(file) if file.suffix.lower() == ".npz" else _csv(file)
        except LogError:
            raise
        except Exception as error:  # whatever the bytes make the readers run into
            raise LogError(f"{file}: cannot be read, it is damaged ({error or type(error).__name__})") from error

    @property
    def names(self) -> list[str]:
        """Names of all columns."""
        return list(self._arrays)

    def runs(self, mapping: RecordingMapping) -> list[str]:
        """Names of the runs, in the file's order; the file's own name where it holds one run."""
        pattern = mapping.position.names[0]
        if RUN not in pattern:
            return [self.file.stem]
        before, _, after = pattern.partition(RUN)
        found = [
            name[len(before) : len(name) - len(after)]
            for name in self.names
            if name.startswith(before) and name.endswith(after) and len(name) > len(before) + len(after)
        ]
        if not found:
            raise LogError(f"{self.file}: no column is named like '{pattern}' (it has: {_some(self.names)})")
        return found

    def read(self, columns: Columns, run: str, width: int) -> FloatArray:
        """One quantity of a run, (n, width), in the stack's unit."""
        names = [name.replace(RUN, run) for name in columns.names]
        for name in names:
            if name not in self._arrays:
                raise LogError(f"{self.file}: has no column '{name}' (it has: {_some(self.names)}); mend the mapping")
        try:
            arrays = [np.asarray(self._arrays[name], dtype=np.float64) for name in names]
        except Exception as error:  # damaged inside, texts, or pickled objects, which are never loaded
            raise LogError(
                f"{self.file}: '{names[0]}' cannot be read as numbers ({error or type(error).__name__})"
            ) from error
        if len({len(array) if array.ndim else 0 for array in arrays}) > 1:
            raise LogError(f"{self.file}: the columns {_some(names)} are not equally long")
        values = arrays[0] if len(arrays) == 1 and arrays[0].ndim == 2 else np.stack(arrays, axis=-1)
        if columns.part is not None and values.ndim == 2 and values.shape[1] >= columns.part[1]:
            values = values[:, columns.part[0] : columns.part[1]]
        if values.ndim != 2 or values.shape[1] != width:
            raise LogError(f"{self.file}: '{names[0]}' has the shape {values.shape}, {width} columns are wanted")
        scaled: FloatArray = values * columns.factor if columns.factor != 1.0 else values
        return scaled


def _npz(file: Path) -> Mapping[str, np.ndarray]:
    if not zipfile.is_zipfile(file):
        raise LogError(f"{file}: is no .npz file, or was cut off")
    opened: Mapping[str, np.ndarray] = np.load(file, allow_pickle=False)
    return opened


def _csv(file: Path) -> Mapping[str, np.ndarray]:
    with file.open(encoding="utf-8-sig") as stream:
        names = [name.strip().strip('"') for name in stream.readline().rstrip("\r\n").split(",")]
        if len(set(names)) != len(names):
            raise LogError(f"{file}: a column is named twice in its first line")
        lines = list(_filled(stream))
    rows = np.loadtxt(lines, delimiter=",", ndmin=2, dtype=np.float64) if lines else np.empty((0, len(names)))
    if rows.shape[1] != len(names):
        raise LogError(f"{file}: its first line names {len(names)} columns, its rows have {rows.shape[1]}")
    return {name: rows[:, i] for i, name in enumerate(names)}


def _filled(lines: Iterator[str]) -> Iterator[str]:
    """Rows with `nan` where a field is empty: it was not measured."""
    for line in lines:
        if line.strip():
            yield ",".join(field.strip() or "nan" for field in line.rstrip("\r\n").split(","))


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "") if names else "none"
