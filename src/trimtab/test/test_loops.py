"""What nodes tell of their loops: read, put together per robot, and shown."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.report.loops import DELIVERY, EXPECTED_RATE, FAULT, MISSES, RATE, Loops, Report, plain, read_report, timing_key
from trimtab.report.timing_table import bar, fit, robots_text
from trimtab.timing import NAMES, Spread

SPREAD = Spread(100.0, 150.0, 200.0, 900.0)


def said(name: str, received: float = 10.0, *, level: int = 0, message: str = "well", arm: str = "ur5e", **values) -> Report:
    report = read_report(f"{name}: loop", arm, level, message, {key: str(value) for key, value in values.items()}, received)
    assert report is not None
    return report


def stages(**spreads: object) -> dict[str, object]:
    return {timing_key(name): spreads.get(name, "") for name in NAMES}


def heard(*reports: Report) -> Loops:
    loops = Loops()
    for report in reports:
        loops.hear(report)
    return loops


def rows_of(text: str) -> dict[str, list[str]]:
    """Cells of the rows below the header, by label."""
    lines = text.split("---\n")[1].splitlines()
    found = [re.fullmatch(r"(\S+(?: \(\S+\))?) +(\S+) +(\S+) +(\S+) +(\S+) *(.*)", line) for line in lines]
    return {match[1]: list(match.groups()[1:]) for match in found if match}


def test_only_statuses_of_loops_are_read():
    assert read_report("battery", "", 0, "", {}, 0.0) is None
    root, deep = said("controller"), said("/plant_1/left/controller")
    assert (root.namespace, root.node) == ("", "controller")
    assert (deep.namespace, deep.node) == ("plant_1/left", "controller")


def test_one_process_tells_all_stages():
    spreads = {name: SPREAD for name in NAMES if name != "residual"}
    values = {RATE: "499.82", EXPECTED_RATE: "500.000", MISSES: "3", FAULT: "nominal", DELIVERY: "composed"}
    text = robots_text(heard(said("left/sim_bridge", **values, **stages(**spreads))).robots(now=10.5))
    assert text.splitlines()[:3] == [
        "ur5e at /left: 499.8 of 500 Hz, delivery composed",
        "deadline misses: - in the last second, 3 in all",
        "ok: sim_bridge: well",
    ]
    rows = rows_of(text)
    assert list(rows) == list(NAMES)
    assert rows["cycle"] == ["100.0", "150.0", "200.0", "900.0", "##..................   10.0 %"]
    assert rows["residual"] == ["-", "-", "-", "-", ""]
    assert "[2000 us]" in text


def test_a_process_per_node_gives_one_table_with_each_cycle():
    bridge = said(
        "sim_bridge", **{RATE: 500, EXPECTED_RATE: 500, MISSES: 1}, **stages(read=SPREAD, write=SPREAD, cycle=SPREAD)
    )
    other = Spread(1.0, 2.0, 3.0, 4.0)
    controller = said("controller", **{RATE: 480, EXPECTED_RATE: 500, MISSES: 2}, **stages(controller=other, cycle=other))
    recorder = said("recorder", arm="recorder", level=1, message="nothing heard")
    (robot,) = heard(bridge, controller, recorder).robots(now=10.0)
    assert (robot.arm, robot.namespace, robot.rate) == ("ur5e", "", 500.0)
    assert [row.label for row in robot.rows] == [
        *("read", "residual", "controller", "filter", "write", "publish"),
        *("cycle (controller)", "cycle (sim_bridge)", "answer"),
    ]
    text = robots_text([robot])
    assert "\ndeadline misses: - in the last second, 3 in all (controller 2, sim_bridge 1)\n" in text
    assert "warning: recorder: nothing heard" in text
    assert rows_of(text)["controller"][:4] == ["1.0", "2.0", "3.0", "4.0"]


def test_robots_are_apart_and_can_be_picked():
    loops = heard(
        said("left/controller", **{EXPECTED_RATE: 500}, **stages(controller=SPREAD)),
        said("right/controller", arm="wam", **{EXPECTED_RATE: 500}),
    )
    assert [(robot.namespace, robot.arm) for robot in loops.robots(10.0)] == [("left", "ur5e"), ("right", "wam")]
    assert [robot.arm for robot in loops.robots(10.0, "/right/")] == ["wam"]
    assert loops.robots(10.0, "/") == []
    assert loops.timed("left")
    assert not loops.timed("right")


def test_nodes_that_are_inactive_make_a_robot_too():
    text = robots_text(heard(said("controller", level=1, message="inactive")).robots(10.0))
    assert text.startswith(
        "ur5e at /: - of - Hz\ndeadline misses: - in the last second, - in all\nwarning: controller: inactive"
    )


def test_misses_of_the_last_second_are_those_since_the_report_a_second_ago():
    counts = {0.0: 5, 1.0: 7, 1.5: 8, 2.0: 12}  # one report of its own accord, for a fault
    loops = heard(*(said("controller", at, **{EXPECTED_RATE: 500, MISSES: count}) for at, count in counts.items()))
    assert loops.robots(2.1)[0].recent_misses == 5
    loops.hear(said("controller", 3.0, **{EXPECTED_RATE: 500, MISSES: 2}))
    assert loops.robots(3.1)[0].recent_misses == 2  # configured anew


def test_what_is_old_is_silent_and_not_shown_as_fresh():
    values = {RATE: 500, EXPECTED_RATE: 500, MISSES: 0}
    bridge = said("sim_bridge", 17.0, **values, **stages(read=SPREAD))
    residual = said("residual", 10.0, level=2, message="broken", **values, **stages(residual=SPREAD))
    text = robots_text(heard(bridge, residual).robots(now=17.5))
    assert "ok: sim_bridge: well\nresidual silent for 8 s\n" in text
    assert rows_of(text)["residual"] == ["-", "-", "-", "-", "silent for 8 s"]
    assert rows_of(text)["read"][:4] == ["100.0", "150.0", "200.0", "900.0"]
    assert robots_text(heard(bridge, residual).robots(now=60.0)) == "ur5e at /: silent for 43 s"


@pytest.mark.parametrize(
    "bad", ["p50 1 p95 2", "fast", "p50 a p95 b p99 c max d", "p50 nan p95 inf p99 nan max -inf", "p50"]
)
def test_values_that_cannot_be_read_are_dashes(bad):
    values = {RATE: "quick", EXPECTED_RATE: "0", MISSES: "nan"}
    text = robots_text(heard(said("controller", **values, **stages(controller=bad))).robots(10.0))
    assert "- of - Hz\ndeadline misses: - in the last second, - in all\n" in text
    assert rows_of(text)["controller"] == ["-", "-", "-", "-", ""]


@given(st.dictionaries(st.sampled_from([RATE, EXPECTED_RATE, MISSES, FAULT, *map(timing_key, NAMES)]), st.text()), st.text())
def test_no_text_breaks_the_picture(values, text):
    report = read_report(f"{text}: loop", text, 200, text, values, 0.0)
    assert report is not None
    shown = robots_text(heard(report).robots(1.0))
    assert all(letter.isprintable() or letter == "\n" for letter in shown)


def test_a_text_cannot_move_the_cursor():
    assert plain("bad\n\x1b[2Jnews\r") == "bad [2Jnews"


def test_a_fault_stands_beside_a_message_that_does_not_tell_it():
    told = said("controller", level=2, message="stopped", **{EXPECTED_RATE: 500, FAULT: "stop: no state"})
    same = said("controller", level=2, message="stop: no state", **{EXPECTED_RATE: 500, FAULT: "stop: no state"})
    assert "error: controller: stopped (fault: stop: no state)" in robots_text(heard(told).robots(10.0))
    assert "error: controller: stop: no state\n" in robots_text(heard(same).robots(10.0))


def test_bars():
    assert bar(0.0) == "....................    0.0 %"
    assert bar(0.5) == "##########..........   50.0 %"
    assert bar(1.0) == "####################  100.0 %"
    assert bar(7.0) == "###################>  700.0 %"


def test_a_picture_fits_its_terminal():
    text = "\n".join(["x" * 200] * 10)
    fitted = fit(text, 80, 24).splitlines()
    assert len(fitted) == 24
    assert [len(line) for line in fitted[:4]] == [80, 80, 40, 80]
    assert fitted[-1].startswith("(7 more lines; ")
    assert fit("short\n\nlines", 80, 24) == "short\n\nlines"
    assert fit("ab\nc", 0, 0).count("\n") == 0
