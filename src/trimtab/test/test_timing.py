"""Stage times: what is marked is counted, and the text on /diagnostics reads back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab import timing
from trimtab.timing import CycleTimes, Spread, Stage, spreads_of


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets [ns]."""
    now = [0]
    monkeypatch.setattr(timing, "perf_counter_ns", lambda: now[0])
    return now


def test_each_stage_gets_its_time(clock):
    times = CycleTimes()
    times.begin()
    for stage, end in ((Stage.READ, 2000), (Stage.CONTROLLER, 5000), (Stage.READ, 6000)):
        clock[0] = end
        times.mark(stage)
    clock[0] = 9000
    times.skip()
    clock[0] = 9500
    times.mark(Stage.WRITE)
    times.answered(7000)
    times.end()
    spreads = times.spreads()
    assert {name: spread.max for name, spread in spreads.items()} == {
        "read": 3.0,
        "controller": 3.0,
        "write": 0.5,
        "cycle": 6.5,
        "answer": 7.0,
    }


def test_what_was_taken_stays_while_the_loop_goes_on(clock):
    times = CycleTimes(capacity=4)

    def cycle(microseconds):
        times.begin()
        clock[0] += microseconds * 1000
        times.mark(Stage.READ)
        times.end()

    cycle(1)
    taken = times.take()
    cycle(2)
    assert list(taken[:, Stage.READ]) == [1]
    assert list(times.take()[:, Stage.READ]) == [2]
    assert len(times.take()) == 0


def test_the_newest_cycles_are_kept_and_memory_does_not_grow(clock):
    times = CycleTimes(capacity=10)
    for i in range(25):
        times.begin()
        clock[0] += i * 1000
        times.mark(Stage.READ)
        times.end()
    assert sorted(times.rows()[:, Stage.READ]) == list(range(15, 25))
    assert sorted(times.take()[:, Stage.READ]) == list(range(15, 25))
    assert times.spreads() == {}


@given(st.lists(st.floats(0.1, 1e5), min_size=1, max_size=50))
def test_a_spread_is_ordered_and_reads_back(values):
    spread = Spread.of(np.array(values))
    assert spread.p50 <= spread.p95 <= spread.p99 <= spread.max
    assert spread == pytest.approx([*np.percentile(values, [50, 95, 99]), max(values)], rel=1e-12)
    again = Spread.parse(str(spread))
    assert again.p99 == pytest.approx(spread.p99, abs=0.06)


@pytest.mark.parametrize("text", ["", "p50 1 p95 2", "max 1 p50 2 p95 3 p99 4", "p50 a p95 b p99 c max d"])
def test_other_texts_are_no_spread(text):
    with pytest.raises(ValueError, match=r"no spread|could not convert"):
        Spread.parse(text)


def test_nothing_recorded_is_no_spread():
    assert spreads_of(np.empty((0, 7))) == {}
