"""Figures of a comparison; each function gives the bytes of a PNG file. All logs are of one arm and one reference."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from trimtab.arm import Arm
from trimtab.dynamics import RigidBody
from trimtab.report.figures import (
    REFERENCE_COLOUR,
    add_legend,
    as_png,
    colour_of,
    draw_over_time,
    end_of_reference,
    grid_of_axes,
    new_figure,
    rows_of_axes,
    style_of,
    tidy,
)
from trimtab.runlog import RunLog
from trimtab.typing import FloatArray

ROW_HEIGHT = 1.9  # inches of figure per row of small axes
NEAR_LIMIT = 0.6  # of the torque limit: beyond it, the limit is drawn
FLAT = 0.08  # a path whose depth is a smaller share of its width is plane: its side view would be a line
CLOSE_UP = 4.0  # half the width of the close-up, in tool errors of the middling run
CLOSE_UP_SHARE = 0.15  # of the path's width: half the width of the close-up at most, or it enlarges nothing
ALIGNED = np.cos(np.deg2rad(5.0))


def plot_joint_errors(logs: Sequence[RunLog]) -> bytes:
    """Reference less link position over time, one axis per joint [mrad]."""
    figure = new_figure(0.5 + ROW_HEIGHT * rows_of_axes(len(logs[0].joints)))
    for i, axis in enumerate(grid_of_axes(figure, len(logs[0].joints))):
        draw_over_time(axis, logs, [1e3 * (log.q_des[:, i] - log.q_link[:, i]) for log in logs])
        axis.set_title(logs[0].joints[i], fontsize=9)
        axis.set_ylabel("error [mrad]", fontsize=8)
    add_legend(figure, logs, end_of_reference())
    return as_png(figure)


def plot_torques(arm: Arm, logs: Sequence[RunLog]) -> bytes:
    """Torque sent over time, one axis per joint [Nm]; gaps where none was sent, limits where one comes near."""
    figure = new_figure(0.5 + ROW_HEIGHT * rows_of_axes(arm.dof))
    limit_drawn = False
    for i, axis in enumerate(grid_of_axes(figure, arm.dof)):
        draw_over_time(axis, logs, [log.torque[:, i] for log in logs])
        axis.set_title(arm.joints[i], fontsize=9)
        axis.set_ylabel("torque [Nm]", fontsize=8)
        highest = max((float(np.nanmax(log.torque[:, i], initial=0.0)) for log in logs), default=0.0)
        lowest = min((float(np.nanmin(log.torque[:, i], initial=0.0)) for log in logs), default=0.0)
        for limit, near in ((arm.torque[i], highest), (-arm.torque[i], -lowest)):
            if near > NEAR_LIMIT * arm.torque[i]:
                axis.axhline(limit, color=REFERENCE_COLOUR, linewidth=0.9, linestyle="--", alpha=0.7)
                limit_drawn = True
    further = [end_of_reference()]
    if limit_drawn:
        further.append(Line2D([], [], color=REFERENCE_COLOUR, linewidth=0.9, linestyle="--", label="torque limit"))
    add_legend(figure, logs, *further)
    return as_png(figure)


def plot_residual(arm: Arm, log: RunLog) -> bytes:
    """The learned torque of each joint as a share of its limit [%], and the authority that it has earned, over time."""
    assert log.residual is not None
    assert log.trust is not None
    figure = new_figure(4.2)
    torque, trust = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    for i, joint in enumerate(arm.joints):
        torque.plot(log.t, 100.0 * log.residual[:, i] / arm.torque[i], linewidth=1.0, label=joint)
    torque.set_ylabel("residual [% of limit]")
    torque.legend(fontsize=7, ncols=4, loc="upper right")
    trust.fill_between(log.t, log.trust, color=colour_of(0), alpha=0.4, linewidth=0.0)
    trust.set_ylim(0.0, 1.05)
    trust.set_ylabel("trust")
    trust.set_xlabel("time [s]")
    for axis in (torque, trust):
        tidy(axis)
    return as_png(figure)


def plot_tool_error(body: RigidBody, logs: Sequence[RunLog]) -> bytes:
    """Distance of the tool from its reference over time [mm]."""
    figure = new_figure(3.0)
    axis = figure.add_subplot()
    tidy(axis)
    distances = [np.linalg.norm(body.tool_path(log.q_des) - body.tool_path(log.q_link), axis=1) for log in logs]
    draw_over_time(axis, logs, [1e3 * distance for distance in distances])
    axis.set_xlabel("time [s]")
    axis.set_ylabel("tool error [mm]")
    axis.set_ylim(bottom=0.0)
    add_legend(figure, logs, end_of_reference())
    return as_png(figure)


def plot_tool_path(body: RigidBody, logs: Sequence[RunLog]) -> bytes:
    """The tool's path, reference and driven [mm]: in its own plane, from the side unless it is flat, and enlarged.

    The enlarged view lies where the best of the runs has its largest error, for there the runs differ in what they can do.
    """
    references = [1e3 * body.tool_path(log.q_des) for log in logs]
    driven = [1e3 * body.tool_path(log.q_link) for log in logs]
    across, up, depth = plane_of(references[0])
    extent = np.ptp(references[0] @ np.stack([across, up, depth]).T, axis=0)
    views = [("in the plane of the path", across, up)]
    if extent[2] > FLAT * extent[:2].max():
        views.append(("from the side", depth, up))

    figure = new_figure(5.0 if len(views) == 1 else 4.3)
    for place, (title, horizontal, vertical) in enumerate(views, start=1):
        axis = figure.add_subplot(1, len(views) + 1, place)
        _draw_paths(axis, references[0], driven, horizontal, vertical)
        axis.set_title(title, fontsize=9)
    axis = figure.add_subplot(1, len(views) + 1, len(views) + 1)
    _draw_paths(axis, references[0], driven, across, up)
    centre, half = _worst_place(references, driven)
    axis.set_title(f"enlarged, {2 * half:.3g} mm wide", fontsize=9)
    x, y = float(np.dot(centre, across)), float(np.dot(centre, up))
    axis.set_xlim(x - half, x + half)
    axis.set_ylim(y - half, y + half)
    add_legend(figure, logs, Line2D([], [], color=REFERENCE_COLOUR, linewidth=3.0, alpha=0.45, label="reference"))
    return as_png(figure)


def plane_of(path: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Unit vectors across, up and out of the plane in which a path (n, 3) mostly lies; across is level.

    For a path that lies flat on the ground, across and up are the base's x and y.
    """
    normal: FloatArray = np.linalg.svd(path - path.mean(axis=0), full_matrices=False)[2][-1]
    if abs(normal[2]) > ALIGNED:
        return np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0])
    across = np.cross([0.0, 0.0, 1.0], normal)
    across /= np.linalg.norm(across)
    across *= 1.0 if across[np.argmax(np.abs(across))] > 0.0 else -1.0
    up = np.cross(normal, across)
    up *= 1.0 if up[2] > 0.0 else -1.0
    return across, up, np.cross(across, up)


def _draw_paths(axis: Axes, reference: FloatArray, driven: Sequence[FloatArray], right: FloatArray, up: FloatArray) -> None:
    tidy(axis)
    axis.plot(reference @ right, reference @ up, color=REFERENCE_COLOUR, linewidth=3.0, alpha=0.45)
    for i, path in enumerate(driven):
        axis.plot(path @ right, path @ up, color=colour_of(i), linestyle=style_of(i), linewidth=1.0, alpha=0.9)
    axis.set_aspect("equal", adjustable="box")
    axis.set_xlabel(_axis_label(right), fontsize=8)
    axis.set_ylabel(_axis_label(up), fontsize=8)


def _axis_label(direction: FloatArray) -> str:
    """`y of the base [mm]` for a direction along an axis, else its parts: `0.94 z - 0.35 x [mm]`."""
    strongest = int(np.argmax(np.abs(direction)))
    if direction[strongest] > ALIGNED:
        return f"{'xyz'[strongest]} of the base [mm]"
    parts = [(direction[i], "xyz"[i]) for i in np.argsort(-np.abs(direction)) if abs(direction[i]) > 0.05]
    text = " ".join(f"{'-' if share < 0 else '+'} {abs(share):.2f} {name}" for share, name in parts)
    return f"{text.removeprefix('+ ')} [mm]"


def _worst_place(references: Sequence[FloatArray], driven: Sequence[FloatArray]) -> tuple[FloatArray, float]:
    """Where the most faithful run is farthest from its reference, and half the width to look at it with [mm]."""
    distances = [np.linalg.norm(reference - path, axis=1) for reference, path in zip(references, driven, strict=True)]
    best = min(range(len(distances)), key=lambda i: float(np.sqrt(np.mean(distances[i] ** 2))))
    row = int(distances[best].argmax())
    typical = float(np.median([distance[min(row, len(distance) - 1)] for distance in distances]))
    centre: FloatArray = references[best][row]
    widest = CLOSE_UP_SHARE * float(np.ptp(references[best], axis=0).max())
    return centre, max(min(CLOSE_UP * typical, widest), 0.5)
