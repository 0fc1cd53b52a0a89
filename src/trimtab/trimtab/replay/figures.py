"""Figures of a replay; each function gives the bytes of a PNG file."""

from collections.abc import Sequence

import numpy as np
from matplotlib.lines import Line2D

from trimtab.replay.prediction import Moment
from trimtab.replay.task import BagResult
from trimtab.replay.variants import BASELINE, CANDIDATE, CLASSICAL
from trimtab.replay.verdict import error_with, groups
from trimtab.report.figures import as_png, colour_of, grid_of_axes, new_figure, rows_of_axes, tidy

ROW_HEIGHT = 1.9  # inches of figure per row of small axes
ROLES = (CLASSICAL, BASELINE, CANDIDATE)


def plot_moments(results: Sequence[BagResult]) -> bytes | None:
    """The worst moment of each joint over all bags of the first arm; None where there is none."""
    good = [one for one in results if one.worst and one.arm == results[0].arm]
    if not good:
        return None
    joints = good[0].joints
    worst: dict[int, Moment] = {}
    for one in good:
        for moment in one.worst:
            if moment.joint not in worst or moment.error > worst[moment.joint].error:
                worst[moment.joint] = moment
    figure = new_figure(0.5 + ROW_HEIGHT * rows_of_axes(len(joints)))
    shown: dict[str, int] = {}
    for i, axis in enumerate(grid_of_axes(figure, len(joints))):
        axis.set_title(joints[i], fontsize=9)
        axis.set_ylabel("error [mrad]", fontsize=8)
        if i not in worst:
            continue
        moment = worst[i]
        t = (np.array(moment.stamp) - moment.stamp[0]) * 1e-9
        for role, values in ((CLASSICAL, moment.without), *moment.left.items()):
            place = shown.setdefault(role, ROLES.index(role))
            axis.plot(t, 1e3 * np.array(values), color=colour_of(place), linewidth=1.0)
    _legend(figure, shown)
    return as_png(figure)


def plot_errors(results: Sequence[BagResult]) -> bytes | None:
    """Error of each joint by context, one axis per joint: bars of what each would have left."""
    good = [one for one in results if not one.error and one.sums and one.arm == results[0].arm]
    if not good:
        return None
    joints, found = good[0].joints, list(groups(good))
    figure = new_figure(0.8 + 1.2 * ROW_HEIGHT * rows_of_axes(len(joints)))
    shown: dict[str, int] = {}
    places = np.arange(len(found))
    for i, axis in enumerate(grid_of_axes(figure, len(joints))):
        axis.set_title(joints[i], fontsize=9)
        axis.set_ylabel("RMS error [mrad]", fontsize=8)
        axis.set_xlabel("")
        tidy(axis)
        for place, role in enumerate(ROLES):
            if role != CLASSICAL and not all(role in bag.tallies for group in found for bag in group.bags):
                continue
            shown[role] = place
            heights = [1e3 * error_with([group.sums[i]], role, 1.0) for group in found]
            axis.bar(places + 0.27 * (place - 1), heights, 0.25, color=colour_of(place))
        axis.set_xticks(places, [group.context for group in found], rotation=30, ha="right", fontsize=7)
        axis.tick_params(labelbottom=True)
    _legend(figure, shown)
    return as_png(figure)


def _legend(figure: object, shown: dict[str, int]) -> None:
    lines = [Line2D([], [], color=colour_of(place), label=role) for role, place in shown.items()]
    figure.legend(handles=lines, loc="outside upper center", ncols=len(lines) or 1, fontsize=8, frameon=False)  # type: ignore[attr-defined]
