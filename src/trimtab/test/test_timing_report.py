"""Stage times on the page of a run."""

import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trimtab.arm import Arm, load_arm
from trimtab.dynamics import RigidBody
from trimtab.metrics import score
from trimtab.plant import load_gap
from trimtab.reference import make_reference
from trimtab.report import timing_plot
from trimtab.report.page import report_parts, write_report
from trimtab.report.timing_plot import plot_stage_times
from trimtab.report.timing_table import stage_table
from trimtab.runlog import RunLog
from trimtab.simulate import simulate
from trimtab.timing import Spread, Stage


@pytest.fixture(scope="module")
def arm() -> Arm:
    return load_arm("so101")


@pytest.fixture(scope="module")
def log(arm: Arm) -> RunLog:
    return simulate(arm, load_gap("nominal", arm), "pd", make_reference("reach", RigidBody(arm), 3.0), reference="reach")


def timed(log: RunLog, name: str, /, **microseconds: float) -> RunLog:
    times = np.zeros((100, len(Stage) + 1))
    for stage, value in microseconds.items():
        times[:, Stage[stage.upper()]] = value
    return replace(log, controller=name, times=times)


def test_a_table_has_a_row_per_stage_that_happened() -> None:
    table = stage_table({"read": Spread(1.0, 2.0, 3.0, 40.06), "cycle": Spread(1.0, 2.0, 3.0, float("nan"))})
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["read", "1.0", "2.0", "3.0", "40.1"],
        ["cycle", "1.0", "2.0", "3.0", "-"],
    ]


def test_the_plot_shows_the_times_and_grows_with_the_runs(arm: Arm, log: RunLog) -> None:
    first = plot_stage_times(arm, [timed(log, "a", read=5.0, controller=40.0)])
    assert plot_stage_times(arm, [timed(log, "a", read=5.0, controller=40.0)]) == first
    assert plot_stage_times(arm, [timed(log, "a", read=5.0, controller=60.0)]) != first
    seven = [timed(log, f"controller_{i}", read=5.0, controller=40.0 + i, residual=float(i == 6)) for i in range(7)]
    small, large = (Image.open(io.BytesIO(content)) for content in (first, plot_stage_times(arm, seven)))
    assert small.width == large.width
    assert large.height > 2 * small.height


def test_a_stage_takes_lines_only_for_the_runs_that_have_it(arm: Arm, log: RunLog, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[Spread, float, int]] = []
    monkeypatch.setattr(timing_plot, "_draw", lambda _, spread, height, index: drawn.append((spread, height, index)))
    runs = [timed(log, "a", read=5.0), replace(log, times=None), timed(log, "c", read=7.0, residual=30.0)]
    plot_stage_times(arm, runs)
    assert [(spread.p50, index) for spread, _, index in drawn] == [(5.0, 0), (7.0, 2), (30.0, 2), (5.0, 0), (37.0, 2)]
    heights = [height for _, height, _ in drawn]
    assert heights == sorted(set(heights))


def test_the_page_has_the_plot_and_a_table_per_run(arm: Arm, log: RunLog, tmp_path: Path) -> None:
    logs = [log, timed(log, "two <b>", read=5.25)]
    scores = [replace(score(one, arm, RigidBody(arm)), controller=one.controller) for one in logs]
    page = write_report(tmp_path, arm, load_gap("nominal", arm), logs, scores, [], pictures=False).read_text()
    section = re.sub(r'src="data:[^"]*"', "", page).partition("<h2>Where the time goes</h2>")[2].partition("<h2>")[0]
    assert "no deadline to meet" in section
    assert "<summary>pd</summary>" in section
    assert "<summary>two &lt;b&gt;</summary>" in section
    assert section.count('<th scope="row">cycle</th>') == 2
    assert "<td>5.2</td>" in section
    assert (tmp_path / "stage_times.png").is_file()
    assert "times" not in (tmp_path / "scores.json").read_text()  # scores can be repeated, times cannot


def test_a_page_of_logs_without_times_says_nothing_of_them(arm: Arm, log: RunLog, tmp_path: Path) -> None:
    logs = [replace(log, times=None)]
    scores = [score(log, arm, RigidBody(arm))]
    counts: list[int] = []
    file = write_report(tmp_path, arm, load_gap("nominal", arm), logs, scores, [], counts.append, pictures=False)
    assert "Where the time goes" not in file.read_text()
    assert not (tmp_path / "stage_times.png").exists()
    assert sum(counts) == report_parts(logs, scores, pictures=False) == 4
