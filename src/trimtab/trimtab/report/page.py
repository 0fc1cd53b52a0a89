"""The report of a comparison: figures, picture, clip and scores as files, and one page that holds them all in itself."""

import base64
import html
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from string import Template

from trimtab.arm import Arm
from trimtab.dynamics import RigidBody
from trimtab.errors import RenderError
from trimtab.files import write_whole
from trimtab.metrics import JointScore, Score
from trimtab.plant import PlantGap
from trimtab.report import picture
from trimtab.report.plots import plot_joint_errors, plot_residual, plot_tool_error, plot_tool_path, plot_torques
from trimtab.report.tables import COMPARISON, JOINTS, Column, comparison_rows, joint_rows
from trimtab.report.timing_plot import plot_stage_times
from trimtab.report.timing_table import stage_table
from trimtab.report.typeset import as_html
from trimtab.runlog import RunLog
from trimtab.simulate import Progress
from trimtab.timing import spreads_of

PAGE = "index.html"
SCORES = "scores.json"
STAGE_TIMES = (
    "What each stage of a control cycle took on the machine that made this page: one process, no deadline to meet. The "
    "physics of the simulated arm is not in it. These times differ from run to run."
)


def report_parts(logs: list[RunLog], scores: list[Score], *, pictures: bool = True) -> int:
    """How many parts `write_report` tells its progress of: the plots, the picture, and each frame of the clip."""
    return len(_plots(logs)) + (1 + picture.clip_frames(_shown(logs, scores)) if pictures else 0)


def write_report(
    folder: Path,
    arm: Arm,
    gap: PlantGap,
    logs: list[RunLog],
    scores: list[Score],
    notes: list[str],
    progress: Progress | None = None,
    *,
    pictures: bool = True,
) -> Path:
    """Writes the report of a comparison into a folder and returns the path of its page.

    logs and scores belong together, one of each per controller, all of one arm, plant and reference. notes stand on the
    page as they are. progress is called with the number of parts done since it was called last. Where this machine cannot
    draw off screen, the page says so and the rest is written all the same; pictures=False leaves picture and clip out.
    """
    done = progress or (lambda _: None)
    body = RigidBody(arm)
    plots: dict[str, str] = {}
    for name, (caption, draw) in _plots(logs).items():
        plots[name] = _kept(folder / f"{name}.png", draw(arm, body, logs), caption, "plot")
        done(1)
    drawn = _pictures(folder, arm, gap, _shown(logs, scores), done) if pictures else ""
    write_whole(folder / SCORES, json.dumps({**_facts(arm, logs), "scores": [s.as_dict() for s in scores]}, indent=2) + "\n")
    page = fill_template(
        "page.html",
        title=html.escape(f"{arm.name} on plant {logs[0].plant}, reference {logs[0].reference}"),
        run=_run(arm, logs),
        notes=_notes(notes),
        comparison=as_html(comparison_rows(scores)),
        pictures=drawn,
        path_plots=plots["tool_path"] + plots["tool_error"],
        joint_plots=plots["joint_errors"] + plots["torques"] + plots.get("residual", ""),
        joint_tables="".join(_joint_details(score) for score in scores),
        timing=_timing(plots.get("stage_times", ""), logs),
        meanings=_meanings(COMPARISON),
        joint_meanings=_meanings(JOINTS),
    )
    file = folder / PAGE
    write_whole(file, page)
    return file


def fill_template(name: str, **parts: str) -> str:
    """A page made of one of the templates beside this file, with the style that all pages share."""
    here = Path(__file__)
    template = Template(here.with_name(name).read_text(encoding="utf-8"))
    return template.substitute(style=here.with_name("style.css").read_text(encoding="utf-8").rstrip(), **parts)


Draw = Callable[[Arm, RigidBody, list[RunLog]], bytes]


def _plots(logs: Sequence[RunLog]) -> dict[str, tuple[str, Draw]]:
    """Caption and maker of each plot by its file's name; those of residual and times only where a run has them."""
    plots: dict[str, tuple[str, Draw]] = {
        "tool_path": ("Path of the tool, reference and driven.", lambda _, body, logs: plot_tool_path(body, logs)),
        "tool_error": ("Distance of the tool from its reference.", lambda _, body, logs: plot_tool_error(body, logs)),
        "joint_errors": ("Position error of each link.", lambda _, __, logs: plot_joint_errors(logs)),
        "torques": ("Torque sent to each joint.", lambda arm, _, logs: plot_torques(arm, logs)),
    }
    learned = next((log for log in logs if log.residual is not None), None)
    if learned is not None:
        caption = f"Learned part of the torque of {learned.controller}, and the authority that it has earned."
        plots["residual"] = (caption, lambda arm, _, __: plot_residual(arm, learned))
    if any(log.times is not None for log in logs):
        plots["stage_times"] = (STAGE_TIMES, lambda arm, _, logs: plot_stage_times(arm, logs))
    return plots


def _shown(logs: list[RunLog], scores: list[Score]) -> RunLog:
    """The run that picture and clip show: the one with the least tool error, of those without a fault if there are any."""
    pairs = zip(logs, scores, strict=True)
    return min(pairs, key=lambda pair: (pair[1].fault is not None, pair[1].tool_rmse))[0]


def _pictures(folder: Path, arm: Arm, gap: PlantGap, log: RunLog, done: Progress) -> str:
    """Picture and clip of a run side by side, or why there are none."""
    left = picture.clip_frames(log) + 1

    def count(parts: int) -> None:
        nonlocal left
        left -= parts
        done(parts)

    try:
        still = picture.render_picture(arm, gap, log)
        count(1)
        clip = picture.render_clip(arm, gap, log, count)
    except RenderError as error:
        done(left)
        return f'<p class="fault">No picture and no clip: {html.escape(str(error))}</p>'
    who = f"driven by {log.controller}"
    shown = _kept(folder / "picture.png", still, f"Postures along the path, {who}.")
    return f'<div class="pair">\n{shown}{_kept(folder / "clip.gif", clip, f"The whole run, {who}.")}</div>'


def _kept(file: Path, content: bytes, caption: str, kind: str = "") -> str:
    """Writes an image file and gives the HTML figure that holds the same image in itself."""
    write_whole(file, content)
    data = base64.b64encode(content).decode()
    words = html.escape(caption)
    image = f'<img alt="{words}" src="data:image/{file.suffix[1:]};base64,{data}">'
    return f"<figure{f' class={kind}' if kind else ''}>{image}<figcaption>{words}</figcaption></figure>\n"


def _facts(arm: Arm, logs: list[RunLog]) -> dict[str, object]:
    """What was run, as plain data."""
    return {
        "arm": arm.name,
        "plant": logs[0].plant,
        "reference": logs[0].reference,
        "duration_s": logs[0].trajectory.duration,
        "seeds": _seeds(logs),
        "rate_hz": arm.rate,
    }


def _run(arm: Arm, logs: list[RunLog]) -> str:
    """What was run, as the parts of a description list."""
    shown = {
        "Arm": f"{arm.name}, {arm.dof} joints",
        "Plant": logs[0].plant,
        "Reference": f"{logs[0].reference}, {logs[0].trajectory.duration:.3g} s",
        "Seed": ", ".join(str(seed) for seed in _seeds(logs)),
        "Control rate": f"{arm.rate:g} Hz",
    }
    return "\n".join(f"<div><dt>{key}</dt><dd>{html.escape(value)}</dd></div>" for key, value in shown.items())


def _seeds(logs: list[RunLog]) -> list[int]:
    return sorted({log.seed for log in logs})


def _notes(notes: list[str]) -> str:
    return f"<ul>{''.join(f'<li>{html.escape(note)}</li>' for note in notes)}</ul>" if notes else ""


def _joint_details(score: Score) -> str:
    return f"<details><summary>{html.escape(score.controller)}</summary>\n{as_html(joint_rows(score))}</details>\n"


def _timing(plot: str, logs: list[RunLog]) -> str:
    """The section on stage times; nothing where nobody measured them."""
    tables = "".join(
        f"<details><summary>{html.escape(log.controller)}</summary>\n{as_html(stage_table(spreads_of(log.times)))}</details>\n"
        for log in logs
        if log.times is not None
    )
    return f"<h2>Where the time goes</h2>\n{plot}{tables}" if plot else ""


def _meanings(columns: Sequence[Column[Score]] | Sequence[Column[JointScore]]) -> str:
    return "\n".join(f"<dt>{html.escape(c.title)}</dt><dd>{html.escape(c.meaning)}</dd>" for c in columns)
