"""Deadlines are absolute, late cycles are skipped and counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.pacer import Pacer


class FakeTime:
    """A clock that only moves when somebody sleeps or works."""

    def __init__(self, oversleep=0.0):
        self.now = 100.0
        self.oversleep = oversleep

    def clock(self):
        return self.now

    def sleep(self, seconds):
        assert seconds > 0.0
        self.now += seconds + self.oversleep


def pacer_with(time, period=0.002):
    return Pacer(period, time.clock, time.sleep)


def test_oversleeping_moves_no_deadline():
    time = FakeTime(oversleep=0.0003)
    pacer = pacer_with(time)
    for _ in range(1000):
        assert pacer.wait() == 0
    assert time.now == pytest.approx(100.0 + 1000 * 0.002 + 0.0003)
    assert pacer.missed == 0


def test_a_late_cycle_is_counted_and_not_made_up_for():
    time = FakeTime()
    pacer = pacer_with(time)
    pacer.wait()
    time.now += 0.0131  # past the deadlines at 2, 3, 4, 5, 6, 7 periods, towards the one at 8
    assert pacer.wait() == 5
    assert pacer.missed == 6
    before = time.now
    assert pacer.wait() == 0
    assert time.now > before
    assert time.now == pytest.approx(100.0 + 8 * 0.002)


@given(work=st.lists(st.floats(0.0, 0.02), min_size=1, max_size=60), oversleep=st.floats(0.0, 0.001))
def test_never_more_than_one_cycle_a_period(work, oversleep):
    """However long cycles take, beats and misses add up to the time that has passed, and no two share a period."""
    time = FakeTime(oversleep)
    pacer = pacer_with(time)
    beats = 0
    for cycle in work:
        time.now += cycle
        beats += 1 + pacer.wait()
        due = 100.0 + beats * 0.002
        assert due <= time.now + 1e-9
        assert time.now < due + 0.002 + 1e-9
    assert pacer.missed <= beats
