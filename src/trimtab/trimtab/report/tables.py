"""Scores as tables."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from trimtab.metrics import JointScore, Score
from trimtab.report.typeset import NEVER, Cell, Table, as_text

Item = TypeVar("Item", JointScore, Score)


@dataclass(frozen=True)
class Column(Generic[Item]):
    """A number of a score, in the unit in which it is shown."""

    title: str
    unit: str
    value: Callable[[Item], float | None]
    digits: int
    meaning: str


COMPARISON: tuple[Column[Score], ...] = (
    Column("joint RMSE", "mrad", lambda s: 1e3 * s.rmse, 2, "Root mean square of the links' position error, all joints."),
    Column("joint max", "mrad", lambda s: 1e3 * s.max_error, 2, "Largest position error of any link."),
    Column("tool RMSE", "mm", lambda s: 1e3 * s.tool_rmse, 2, "Root mean square of the tool's distance from its reference."),
    Column("tool max", "mm", lambda s: 1e3 * s.tool_max, 2, "Largest distance of the tool from its reference."),
    Column(
        "settling",
        "s",
        lambda s: s.settling_time,
        2,
        "Time after the reference's end until the slowest joint stays within 2 mrad of it; - where one did not within 1 s.",
    ),
    Column(
        "energy",
        "J",
        lambda s: s.energy,
        2,
        "Integral of |torque sent x speed| over all joints; without gravity where the robot compensates it (UR5e), so not "
        "comparable between arms.",
    ),
    Column(
        "roughness",
        "%",
        lambda s: 100.0 * s.roughness,
        3,
        "Root mean square of the torque's change from one control period to the next, as a share of the torque limit.",
    ),
    Column("at torque limit", "%", lambda s: 100.0 * s.limited, 1, "Share of time in which the stack clipped any torque."),
    Column(
        "over limits",
        "%",
        lambda s: 100.0 * max(s.over_velocity, s.over_position),
        1,
        "Share of time in which any joint is measured beyond its velocity limit or beyond its position limits, whichever "
        "is more.",
    ),
)

JOINTS: tuple[Column[JointScore], ...] = (
    Column("RMSE", "mrad", lambda j: 1e3 * j.rmse, 2, "Root mean square of the link's position error."),
    Column("max", "mrad", lambda j: 1e3 * j.max_error, 2, "Largest position error of the link."),
    Column("settling", "s", lambda j: j.settling_time, 2, "As above, for this joint alone."),
    Column("torque RMS", "Nm", lambda j: j.torque_rms, 3, "Root mean square of the torque sent."),
    Column("energy", "J", lambda j: j.energy, 2, "As above, for this joint alone."),
    Column(
        "at torque limit",
        "%",
        lambda j: 100.0 * j.at_torque_limit,
        1,
        "Share of time with its torque at the limit.",
    ),
    Column("over velocity limit", "%", lambda j: 100.0 * j.over_velocity, 1, "Share of time beyond its velocity limit."),
)


def comparison_rows(scores: Sequence[Score]) -> Table:
    """One row per controller; the best of each column is marked, faults stand below in words.

    A run that ended in a fault competes with nobody: an arm that stopped halfway saves energy.
    """
    columns = [_cells(column, scores, [score.fault is None for score in scores]) for column in COMPARISON]
    rows = tuple((Cell(score.controller), *(column[i] for column in columns)) for i, score in enumerate(scores))
    faults = tuple(f"{score.controller} ended in a fault, {score.fault}" for score in scores if score.fault is not None)
    return Table((("controller", ""), *((column.title, column.unit) for column in COMPARISON)), rows, faults)


def joint_rows(score: Score) -> Table:
    """One row per joint of a run; joints differ in their task, so none is marked as best."""
    columns = [_cells(column, score.joints, [False] * len(score.joints)) for column in JOINTS]
    rows = tuple((Cell(joint.joint), *(column[i] for column in columns)) for i, joint in enumerate(score.joints))
    return Table((("joint", ""), *((column.title, column.unit) for column in JOINTS)), rows)


def comparison_table(scores: list[Score]) -> str:
    """Controllers side by side, for a terminal; `*` marks the best of a column."""
    return as_text(comparison_rows(scores))


def joint_table(score: Score) -> str:
    """One controller's joints, for a terminal."""
    return as_text(joint_rows(score))


def _cells(column: Column[Item], items: Sequence[Item], competes: Sequence[bool]) -> list[Cell]:
    """A column's shown values; the lowest is best, ties share the mark, and nothing is best where all are alike."""
    values = [column.value(item) for item in items]
    texts = [NEVER if value is None else f"{value:.{column.digits}f}" for value in values]
    rivals = [i for i, rival in enumerate(competes) if rival]
    finite = [value for i in rivals if (value := values[i]) is not None and math.isfinite(value)]
    if not finite or len({texts[i] for i in rivals}) < 2:
        return [Cell(text) for text in texts]
    lowest = f"{min(finite):.{column.digits}f}"
    return [Cell(text, best=rival and text == lowest) for text, rival in zip(texts, competes, strict=True)]
