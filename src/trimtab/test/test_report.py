"""Tables, figures, picture, clip and page of a comparison."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest
from PIL import Image

from trimtab.arm import Arm, load_arm
from trimtab.dynamics import RigidBody
from trimtab.errors import RenderError
from trimtab.metrics import JointScore, Score, score
from trimtab.plant import PlantGap, load_gap
from trimtab.reference import make_reference
from trimtab.report import offscreen, picture, plots
from trimtab.report.page import report_parts, write_report
from trimtab.report.picture import clip_frames, render_clip, render_picture
from trimtab.report.stage import Format, Stage
from trimtab.report.tables import comparison_rows, comparison_table, joint_rows, joint_table
from trimtab.report.typeset import as_html
from trimtab.runlog import RunLog
from trimtab.simulate import simulate

Comparison = tuple[Arm, PlantGap, list[RunLog], list[Score]]
SMALL = Format(160, 120, trail_points=60, facets=8, shadow_size=256)


def made_score(controller: str, **changes: object) -> Score:
    joints = (
        JointScore("shoulder", 0.0015, 0.004, 0.25, 1.5, 2.5, 0.0, 0.125),
        JointScore("wrist <1>", 0.0025, 0.008, None, 0.5, 0.25, 0.0625, 0.0),
    )
    numbers = Score(controller, joints, 0.002, 0.008, 0.0031, 0.0072, None, 2.75, 0.005, 0.031, 0.125, 0.25, None)
    return replace(numbers, **changes)


def rows_of(text: str) -> dict[str, list[str]]:
    """Cells of a plain-text table's rows by their first word; names hold no spaces in these tests."""
    return {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.strip()}


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    arm = load_arm("open_manipulator_x")
    body, gap = RigidBody(arm), load_gap("worn", arm)
    trajectory = make_reference("plum", body, 2.0)
    logs = [simulate(arm, gap, name, trajectory, reference="plum", seed=3) for name in ("pd", "observer")]
    return arm, gap, logs, [score(log, arm, body) for log in logs]


@pytest.fixture(scope="module")
def can_render(comparison: Comparison) -> None:
    arm, gap, logs, _ = comparison
    try:
        Stage(arm, gap, logs[0], SMALL).close()
    except RenderError as error:
        pytest.skip(f"this machine cannot draw off screen: {error}")


# Tables


def test_comparison_shows_units_and_converted_values() -> None:
    text = comparison_table([made_score("pd")])
    assert rows_of(text)["pd"] == ["2.00", "8.00", "3.10", "7.20", "-", "2.75", "0.500", "3.1", "25.0"]
    assert re.findall(r"\[(\S+)\]", text) == ["mrad", "mrad", "mm", "mm", "s", "J", "%", "%", "%"]


def test_the_lowest_of_each_column_is_marked_and_only_it() -> None:
    rows = rows_of(comparison_table([made_score("pd", energy=1.0), made_score("observer", rmse=0.001, settling_time=0.5)]))
    assert rows["observer"] == ["1.00*", "8.00", "3.10", "7.20", "0.50*", "2.75", "0.500", "3.1", "25.0"]
    assert rows["pd"] == ["2.00", "8.00", "3.10", "7.20", "-", "1.00*", "0.500", "3.1", "25.0"]


def test_ties_as_shown_share_the_mark() -> None:
    scores = [made_score("a", energy=1.0), made_score("b", energy=1.0001), made_score("c", energy=9.0)]
    rows = rows_of(comparison_table(scores))
    assert [rows[name][5] for name in "abc"] == ["1.00*", "1.00*", "9.00"]


def test_a_fault_is_told_in_words_and_takes_no_prize() -> None:
    reason = "hold: joint 'shoulder' is 0.31 rad from its reference"
    text = comparison_table([made_score("pd", energy=0.1, fault=reason), made_score("a"), made_score("b", energy=3.0)])
    assert text.splitlines()[-1] == f"pd ended in a fault, {reason}"
    rows = rows_of("\n".join(text.splitlines()[:-1]))
    assert [rows[name][5] for name in ("pd", "a", "b")] == ["0.10", "2.75*", "3.00"]


def test_numbers_line_up_under_their_headers() -> None:
    lines = comparison_table([made_score("pd"), made_score("computed_torque", rmse=1.5, energy=1.0)]).splitlines()
    ends = [[match.end() for match in re.finditer(r"[^\s*]+", line)][1:] for line in (lines[2], *lines[4:])]
    assert ends[0] == ends[1] == ends[2]


def test_joint_table_has_a_row_for_each_joint() -> None:
    text = joint_table(made_score("pd"))
    assert rows_of(text)["shoulder"] == ["1.50", "4.00", "0.25", "1.500", "2.50", "0.0", "12.5"]
    assert rows_of(text)["wrist"] == ["<1>", "2.50", "8.00", "-", "0.500", "0.25", "6.2", "0.0"]
    assert re.findall(r"\[(\S+)\]", text) == ["mrad", "mrad", "s", "Nm", "J", "%", "%"]


def test_html_has_the_cells_of_the_text_and_escapes_them() -> None:
    table = comparison_rows([made_score("pd"), made_score("observer", rmse=0.001)])
    assert re.findall(r"<td[^>]*>([^<]*)</td>", as_html(table)) == [cell.text for row in table.rows for cell in row[1:]]
    assert as_html(table).count("class=best") == 1
    joints = as_html(joint_rows(made_score("pd")))
    assert "wrist &lt;1&gt;" in joints
    assert "<1>" not in joints


# Plots


def test_plots_are_png_and_show_the_runs(comparison: Comparison) -> None:
    arm, _, logs, _ = comparison
    body = RigidBody(arm)
    perfect = [replace(log, q_link=log.q_des, torque=np.full_like(log.torque, np.nan)) for log in logs]
    for draw in (
        plots.plot_joint_errors,
        lambda runs: plots.plot_torques(arm, runs),
        lambda runs: plots.plot_tool_error(body, runs),
        lambda runs: plots.plot_tool_path(body, runs),
    ):
        real = draw(logs)
        assert Image.open(io.BytesIO(real)).format == "PNG"
        assert draw(logs) == real
        assert draw(perfect) != real


def test_plane_of_a_path_is_found() -> None:
    angle = np.linspace(0.0, 2.0 * np.pi, 50)
    upright = np.stack([0.3 + 0.0 * angle, np.cos(angle), np.sin(angle)], axis=1)
    across, up, _ = plots.plane_of(upright)
    np.testing.assert_allclose(across, [0.0, 1.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(up, [0.0, 0.0, 1.0], atol=1e-9)
    across, up, _ = plots.plane_of(upright[:, [1, 2, 0]])
    np.testing.assert_allclose([across, up], np.eye(3)[:2], atol=1e-9)


# Picture and clip


@pytest.mark.usefixtures("can_render")
@pytest.mark.parametrize("name", ["ur5e", "wam", "open_manipulator_x", "so101"])
def test_the_whole_arm_is_in_the_picture_and_away_from_its_rim(name: str) -> None:
    arm = load_arm(name)
    body, gap = RigidBody(arm), load_gap("payload", arm)
    log = simulate(arm, gap, "computed_torque", make_reference("reach", body, 4.0), reference="reach")
    with Stage(arm, gap, log, SMALL) as stage:
        stage._screen.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0  # a shadow may reach the rim
        drawn = stage.draw(stage.highest(), len(log.t) - 1).astype(int)
        floor = stage.model.geom("floor").id
        stage.model.geom_rgba[np.arange(stage.model.ngeom) != floor, 3] = 0.0
        stage._dots, stage.driven = stage._dots[:0], stage.driven[:0]
        empty = stage.draw(0, 0).astype(int)
    changed = np.abs(drawn - empty).max(axis=2) > 20
    rows, columns = np.flatnonzero(changed.any(axis=1)), np.flatnonzero(changed.any(axis=0))
    assert rows[0] > 0
    assert columns[0] > 0
    assert rows[-1] < SMALL.height - 1
    assert columns[-1] < SMALL.width - 1
    assert max(np.ptp(rows) / SMALL.height, np.ptp(columns) / SMALL.width) > 0.5


@pytest.mark.usefixtures("can_render")
def test_picture_draws_link_positions(comparison: Comparison) -> None:
    arm, gap, logs, _ = comparison
    drawn = render_picture(arm, gap, logs[0])
    assert Image.open(io.BytesIO(drawn)).size == (960, 720)
    motors_elsewhere = replace(logs[0], q=logs[0].q + 0.3)
    assert render_picture(arm, gap, motors_elsewhere) == drawn
    links_elsewhere = replace(logs[0], q_link=logs[0].q_link + 0.3)
    assert render_picture(arm, gap, links_elsewhere) != drawn


@pytest.mark.usefixtures("can_render")
def test_clip_shows_the_run_and_stays_small(comparison: Comparison) -> None:
    arm, gap, logs, _ = comparison
    counts: list[int] = []
    content = render_clip(arm, gap, logs[1], counts.append)
    clip = Image.open(io.BytesIO(content))
    assert clip.format == "GIF"
    assert clip.size == (480, 360)
    assert clip.n_frames == clip_frames(logs[1]) == sum(counts)
    assert len(content) < picture.CLIP_BYTES
    first = np.asarray(clip.convert("RGB")).astype(int)
    clip.seek(clip.n_frames // 2)
    assert (np.abs(np.asarray(clip.convert("RGB")) - first).max(axis=2) > 60).sum() > 500


def test_a_long_run_makes_a_clip_of_eight_seconds(comparison: Comparison) -> None:
    log = comparison[2][0]
    assert clip_frames(replace(log, t=np.linspace(0.0, 100.0, len(log.t)))) * picture.FRAME_TIME == pytest.approx(8.0)


def test_render_error_says_what_to_install(comparison: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(*_: object) -> None:
        raise AttributeError("'NoneType' object has no attribute 'eglQueryString'")

    arm, gap, logs, _ = comparison
    monkeypatch.setattr(offscreen, "_gl_context", no_library)
    with pytest.raises(RenderError, match=r"eglQueryString.*apt-get install libegl1.*MUJOCO_GL=osmesa"):
        render_picture(arm, gap, logs[0])


@pytest.mark.parametrize(
    ("variables", "libraries", "backend"),
    [
        ({}, {"libEGL.so.1", "libOSMesa.so.8"}, "egl"),
        ({}, {"libOSMesa.so.8"}, "osmesa"),
        ({}, set(), "egl"),
        ({"DISPLAY": ":0"}, {"libEGL.so.1"}, "mujoco"),
        ({"MUJOCO_GL": "osmesa"}, {"libEGL.so.1"}, "mujoco"),
    ],
)
def test_backend_follows_what_is_there(
    variables: dict[str, str], libraries: set[str], backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "MUJOCO_GL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(offscreen.sys, "platform", "linux")
    monkeypatch.setattr(offscreen, "_loads", libraries.__contains__)
    assert offscreen.choose_backend() == backend


# Page


@pytest.mark.usefixtures("can_render")
def test_page_holds_everything_in_itself(comparison: Comparison, tmp_path: Path) -> None:
    arm, gap, logs, scores = comparison
    counts: list[int] = []
    file = write_report(tmp_path / "run", arm, gap, logs, scores, ["one <note>"], counts.append)
    assert sum(counts) == report_parts(logs, scores)
    page = file.read_text()
    sources = re.findall(r'src="([^"]{0,30})', page)
    assert len(sources) == page.count("src=") == 7
    assert all(source.startswith(("data:image/png;base64,", "data:image/gif;base64,")) for source in sources)
    without_images = re.sub(r'src="data:[^"]*"', "", page)
    assert not re.search(r"https?://|url\(|@import|<script|<link", without_images)
    assert "one &lt;note&gt;" in page
    for fact in ("open_manipulator_x, 4 joints", "worn", "plum, 2 s", "250 Hz", "<dd>3</dd>"):
        assert fact in without_images
    names = {"index.html", "scores.json", "picture.png", "clip.gif"}
    assert {path.name for path in file.parent.iterdir()} == names | {
        f"{p}.png" for p in ("tool_path", "tool_error", "joint_errors", "torques", "stage_times")
    }


def test_page_is_written_where_nothing_can_be_drawn(
    comparison: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> bytes:
        raise RenderError("no OpenGL <here>; install libegl1")

    arm, gap, logs, scores = comparison
    monkeypatch.setattr(picture, "render_picture", refuse)
    counts: list[int] = []
    file = write_report(tmp_path, arm, gap, logs, scores, [], counts.append)
    assert sum(counts) == report_parts(logs, scores)
    page = file.read_text()
    assert "no OpenGL &lt;here&gt;; install libegl1" in page
    assert page.count('src="data:image/png') == 5
    assert as_html(comparison_rows(scores)) in page
    assert not (tmp_path / "picture.png").exists()

    written = json.loads((tmp_path / "scores.json").read_text())
    assert written["scores"] == json.loads(json.dumps([one.as_dict() for one in scores]))
    assert written["scores"][1]["controller"] == "observer"
    assert written["scores"][1]["tool_rmse"] == scores[1].tool_rmse
    assert (written["arm"], written["plant"], written["seeds"], written["rate_hz"]) == (
        "open_manipulator_x",
        "worn",
        [3],
        250.0,
    )
