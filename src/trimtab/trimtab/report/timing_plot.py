"""Figure of where the time of a control cycle goes."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from trimtab.arm import Arm
from trimtab.report.figures import REFERENCE_COLOUR, add_legend, as_png, colour_of, new_figure, style_of, tidy
from trimtab.runlog import RunLog
from trimtab.timing import NAMES, Spread, spreads_of

ROW = 0.14  # inches per controller and stage
GAP = 1.2  # rows between two stages
BAND = "#f6f7f9"  # behind every other stage
MARKS = {"p50": ("o", 4.0), "p95": ("|", 6.0), "p99": ("D", 2.8), "max": ("x", 4.0)}  # marker and its size


def plot_stage_times(arm: Arm, logs: Sequence[RunLog]) -> bytes:
    """p50, p95, p99 and max of each stage and of the whole cycle, one line for each run that was measured [us]."""
    spreads = {i: spreads_of(log.times) for i, log in enumerate(logs) if log.times is not None}
    stages = {name: {i: told[name] for i, told in spreads.items() if name in told} for name in NAMES}
    stages = {name: runs for name, runs in stages.items() if runs}
    figure = new_figure(1.2 + ROW * sum(len(runs) + GAP for runs in stages.values()))
    axis = figure.add_subplot()
    tidy(axis)
    axis.set_xscale("log")
    top = 0.0
    middles = []
    for place, runs in enumerate(stages.values()):
        height = len(runs) + GAP
        if place % 2 == 0:
            axis.axhspan(top, top + height, color=BAND, linewidth=0.0, zorder=0)
        for line, (i, spread) in enumerate(runs.items()):
            _draw(axis, spread, top + (1.0 + GAP) / 2.0 + line, i)
        middles.append(top + height / 2.0)
        top += height
    axis.axvline(1e6 * arm.period, color=REFERENCE_COLOUR, linewidth=1.2, linestyle="--", alpha=0.7)
    axis.set_yticks(middles, list(stages))
    axis.tick_params(axis="y", length=0, labelsize=9)
    axis.grid(False, axis="y")
    axis.set_ylim(top, 0.0)
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_xlabel("time [us]")
    marks = [_mark(name) for name in MARKS]
    period = Line2D([], [], color=REFERENCE_COLOUR, linewidth=1.2, linestyle="--", alpha=0.7, label="control period")
    add_legend(figure, logs)
    figure.legend(handles=[*marks, period], loc="outside lower center", ncols=len(MARKS) + 1, frameon=False, fontsize=9)
    return as_png(figure)


def _draw(axis: Axes, spread: Spread, height: float, index: int) -> None:
    colour = colour_of(index)
    axis.plot([spread.p50, spread.max], [height] * 2, color=colour, linestyle=style_of(index), linewidth=0.9, alpha=0.7)
    for name, (marker, size) in MARKS.items():
        axis.plot([getattr(spread, name)], [height], color=colour, marker=marker, markersize=size)


def _mark(name: str) -> Line2D:
    marker, size = MARKS[name]
    return Line2D([], [], color=REFERENCE_COLOUR, marker=marker, markersize=size, linestyle="", label=name)
