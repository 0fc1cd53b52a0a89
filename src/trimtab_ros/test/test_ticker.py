"""Periodic calls: in time, once when late, never after their end."""

from hypothesis import given
from hypothesis import strategies as st

from trimtab_ros.ticker import Ticker


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@given(st.lists(st.floats(1e-3, 0.3), min_size=1, max_size=60), st.floats(0.01, 0.2))
def test_a_call_comes_once_per_period_and_once_when_late(steps, period):
    clock, calls = Clock(), []
    ticker = Ticker(clock)
    ticker.every(period, lambda: calls.append(clock.now))
    for step in steps:
        clock.now += step
        before = len(calls)
        left = ticker.call_due(longest=1.0)
        assert len(calls) - before <= 1
        assert 0.0 <= left <= period + 1e-9
    assert len(calls) <= (clock.now - 100.0) / period + 1e-6
    assert len(calls) >= sum(step >= 2.0 * period for step in steps)


def test_who_waits_as_long_as_told_misses_nothing():
    clock, calls = Clock(), []
    ticker = Ticker(clock)
    ticker.every(0.05, lambda: calls.append("often"))
    ticker.every(1.0, lambda: calls.append("seldom"))
    while clock.now < 102.01:
        clock.now += ticker.call_due(longest=10.0) + 1e-9
    assert calls.count("often") == 40
    assert calls.count("seldom") == 2


def test_nothing_is_called_after_its_end_not_even_in_the_same_round():
    clock, calls = Clock(), []
    ticker = Ticker(clock)
    ends = []
    ticker.every(0.1, lambda: ends[0]())
    ends.append(ticker.every(0.1, lambda: calls.append(1)))
    clock.now += 1.0
    ticker.call_due(longest=1.0)
    clock.now += 1.0
    ticker.call_due(longest=1.0)
    assert calls == []


def test_without_calls_it_waits_as_long_as_it_may():
    assert Ticker(Clock()).call_due(longest=0.5) == 0.5
