"""Common ground of all figures: canvas, colours, legend. Drawn without pyplot, so nothing global is touched."""

import io
import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from trimtab.runlog import RunLog

# Okabe and Ito's colours, which the colour-blind can tell apart; yellow is left out, as it fades on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
Style = Literal["-", "--", ":"]
STYLES: tuple[Style, ...] = ("-", "--", ":")  # taken in turn once the colours are used up
REFERENCE_COLOUR = "#555555"
FAINT = "#999999"
DPI = 110
WIDTH = 10.0  # inches


def colour_of(index: int) -> str:
    """Colour of the controller with this place in the list of runs."""
    return COLOURS[index % len(COLOURS)]


def style_of(index: int) -> Style:
    """Line style of the controller with this place in the list of runs."""
    return STYLES[index // len(COLOURS) % len(STYLES)]


def new_figure(height: float) -> Figure:
    """An empty figure of the common width with an Agg canvas; height [inches]."""
    figure = Figure(figsize=(WIDTH, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def grid_of_axes(figure: Figure, count: int) -> list[Axes]:
    """`count` small axes over one time axis, up to four to a row; only the lowest of each column has a time label."""
    rows, columns = rows_of_axes(count), _columns(count)
    axes: list[Axes] = []
    for i in range(count):
        axis = figure.add_subplot(rows, columns, i + 1, sharex=axes[0] if axes else None)
        tidy(axis)
        lowest = i + columns >= count
        axis.tick_params(labelbottom=lowest)
        axis.set_xlabel("time [s]" if lowest else "")
        axes.append(axis)
    return axes


def rows_of_axes(count: int) -> int:
    """Number of rows that `grid_of_axes` makes of this many axes."""
    return math.ceil(count / _columns(count))


def _columns(count: int) -> int:
    """Axes to a row: the fewest gaps in the last row, and never narrower than a quarter of the figure."""
    return {1: 1, 2: 2, 4: 2, 7: 4, 8: 4}.get(count, 3)


def tidy(axis: Axes) -> None:
    """Grid and small print."""
    axis.grid(True, color="#e4e4e4", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)


def draw_over_time(axis: Axes, logs: Sequence[RunLog], columns: Sequence[np.ndarray]) -> None:
    """One line per run and a mark at the reference's end. columns: per run (n,), in the axis' unit."""
    for i, (log, values) in enumerate(zip(logs, columns, strict=True)):
        axis.plot(log.t, values, color=colour_of(i), linestyle=style_of(i), linewidth=0.9, alpha=0.9)
    axis.axvline(logs[0].trajectory.duration, color=FAINT, linewidth=0.8, linestyle=(0, (1, 2)))
    axis.margins(x=0.01)


def add_legend(figure: Figure, logs: Sequence[RunLog], *further: Line2D) -> None:
    """One legend above all axes: the controllers, then what else is drawn."""
    handles = [
        Line2D([], [], color=colour_of(i), linestyle=style_of(i), linewidth=1.8, label=log.controller)
        for i, log in enumerate(logs)
    ]
    handles += further
    figure.legend(handles=handles, loc="outside upper center", ncols=min(len(handles), 5), frameon=False, fontsize=9)


def end_of_reference() -> Line2D:
    """Legend entry of the mark that `draw_over_time` sets."""
    return Line2D([], [], color=FAINT, linewidth=0.8, linestyle=(0, (1, 2)), label="end of the reference")


def as_png(figure: Figure) -> bytes:
    """The figure as the bytes of a PNG file."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png")
    return stream.getvalue()
