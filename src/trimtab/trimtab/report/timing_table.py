"""Stage times as text: a table of percentiles for a page, and the live picture of robots for a terminal."""

import math
from collections.abc import Sequence

from trimtab.report.loops import Robot, StageRow
from trimtab.report.typeset import NEVER, Cell, Table, as_text
from trimtab.timing import Spread, Spreads

HEADERS = (("stage", ""), ("p50", "us"), ("p95", "us"), ("p99", "us"), ("max", "us"))
LEVELS = ("ok", "warning", "error", "stale")  # by the number of a DiagnosticStatus
BAR = 20  # characters


def stage_table(spreads: Spreads) -> Table:
    """One row per stage that happened."""
    return Table(HEADERS, tuple((Cell(name), *_cells(spread)) for name, spread in spreads.items()))


def robots_text(robots: Sequence[Robot]) -> str:
    """The robots below each other, for a terminal."""
    return "\n\n".join(_robot_text(robot) for robot in robots)


def bar(share: float) -> str:
    """A share of the period, drawn and in words; more than all of it has an arrow at its end."""
    filled = min(max(round(share * BAR), 0), BAR)
    drawn = ("#" * filled).ljust(BAR, ".")
    return f"{drawn[:-1] + '>' if share > 1.0 else drawn} {100.0 * share:6.1f} %"


def fit(text: str, columns: int, lines: int) -> str:
    """What a terminal of this size can show without scrolling: long lines go on below, the last says what is left out."""
    wide = max(columns, 1)
    shown = [line[i : i + wide] for line in text.splitlines() for i in range(0, max(len(line), 1), wide)]
    if len(shown) > lines:
        kept = max(lines - 1, 0)
        shown = [*shown[:kept], f"({len(shown) - kept} more lines; --namespace shows one robot)"[:wide]]
    return "\n".join(shown)


def _robot_text(robot: Robot) -> str:
    name = f"{robot.arm} at /{robot.namespace}"
    if robot.worst is None:
        return f"{name}: silent for {min(age for _, age in robot.silent):.0f} s"
    rate = NEVER if robot.rate is None else f"{robot.rate:.1f}"
    expected = NEVER if robot.expected_rate is None else f"{robot.expected_rate:g}"
    head = f"{name}: {rate} of {expected} Hz"
    worst = robot.worst
    level = LEVELS[worst.level] if worst.level < len(LEVELS) else f"level {worst.level}"
    state = f"{level}: {worst.node}: {worst.message}"
    if worst.fault and worst.fault not in worst.message:
        state += f" (fault: {worst.fault})"
    lines = [head + (f", delivery {robot.delivery}" if robot.delivery else ""), _misses(robot), state]
    if robot.silent:
        lines.append(", ".join(f"{node} silent for {age:.0f} s" for node, age in robot.silent))
    return "\n".join([*lines, "", as_text(_live_table(robot))])


def _live_table(robot: Robot) -> Table:
    period = "" if robot.period is None else f"{robot.period:g} us"
    rows = tuple((Cell(row.label), *_cells(_believed(row)), Cell(_remark(row, robot.period))) for row in robot.rows)
    return Table((*HEADERS, ("p99 of the period", period)), rows, words=(len(HEADERS),))


def _believed(row: StageRow) -> Spread | None:
    return None if row.silence is not None else row.spread


def _remark(row: StageRow, period: float | None) -> str:
    """The bar of a row, or why it has none."""
    if row.silence is not None:
        return f"silent for {row.silence:.0f} s"
    if row.spread is None or period is None or not math.isfinite(row.spread.p99):
        return ""
    return bar(row.spread.p99 / period)


def _cells(spread: Spread | None) -> tuple[Cell, ...]:
    if spread is None:
        return (Cell(NEVER),) * (len(HEADERS) - 1)
    values = (spread.p50, spread.p95, spread.p99, spread.max)
    return tuple(Cell(f"{value:.1f}" if math.isfinite(value) else NEVER) for value in values)


def _misses(robot: Robot) -> str:
    """All misses, and by whom where it is not one node alone."""
    total = str(sum(robot.misses.values())) if robot.misses else NEVER
    guilty = [f"{node} {count}" for node, count in robot.misses.items() if count]
    by = f" ({', '.join(guilty)})" if len(guilty) > 1 else ""
    recent = NEVER if robot.recent_misses is None else str(robot.recent_misses)
    return f"deadline misses: {recent} in the last second, {total} in all{by}"
