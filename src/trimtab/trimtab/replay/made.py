"""What a variant made of the rows of a bag."""

from dataclasses import dataclass, fields

import numpy as np

from trimtab.typing import FloatArray

CONTROLLER, RESIDUAL, FILTER, ALL = range(4)
"""Columns of `Made.stages`."""


def finite_rows(values: FloatArray) -> np.ndarray:
    """Rows without NaN or infinity, (n,) of bool."""
    return np.asarray(np.isfinite(values).all(axis=1))


@dataclass
class Made:
    """What one variant made of a block of rows. Arrays are (n, dof) or (n,); NaN where nothing was made."""

    torque: FloatArray
    residual: FloatArray
    """Added to the classical torque, before the torque limits [Nm]."""
    offered: FloatArray
    """By the model for this very state [Nm]; NaN where it offered nothing."""
    confidence: FloatArray
    limits: np.ndarray
    levels: np.ndarray
    stages: np.ndarray
    """Controller, residual, filter, all of the step: (n, 4) [ns]. The one thing that differs from run to run."""

    def part(self, first: int, end: int) -> "Made":
        """Some of the rows, to be filled."""
        return Made(*(getattr(self, one.name)[first:end] for one in fields(self)))

    @classmethod
    def room(cls, count: int, dof: int) -> "Made":
        """Nothing made yet."""
        return cls(
            torque=np.full((count, dof), np.nan),
            residual=np.zeros((count, dof)),
            offered=np.full((count, dof), np.nan),
            confidence=np.full(count, np.nan),
            limits=np.zeros(count, dtype=np.int64),
            levels=np.zeros(count, dtype=np.int64),
            stages=np.zeros((count, 4), dtype=np.int64),
        )
