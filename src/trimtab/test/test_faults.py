"""The fault ladder only climbs, and only a reset brings it down."""

from hypothesis import given
from hypothesis import strategies as st

from trimtab.faults import FaultLatch, Level

LEVELS = st.sampled_from([level for level in Level if level is not Level.NOMINAL])
TRIPS = st.lists(st.tuples(LEVELS, st.sampled_from(["gone", "fast", "far"])), max_size=12)


@given(TRIPS)
def test_level_is_the_worst_that_was_tripped(trips: list[tuple[Level, str]]) -> None:
    latch = FaultLatch()
    worst = Level.NOMINAL
    for time, (level, reason) in enumerate(trips):
        assert latch.trip(level, reason, float(time)) is (level > worst)
        worst = max(worst, level)
        assert latch.level is worst
    levels = [fault.level for fault in latch.history]
    assert levels == sorted(set(levels)), "each entry of the history is worse than the one before"


@given(TRIPS)
def test_fault_is_the_first_that_reached_the_level(trips: list[tuple[Level, str]]) -> None:
    latch = FaultLatch()
    for time, (level, reason) in enumerate(trips):
        latch.trip(level, reason, float(time))
    if not trips:
        assert latch.fault is None
        assert str(latch) == "nominal"
        return
    time, level, reason = next((i, *trip) for i, trip in enumerate(trips) if trip[0] is latch.level)
    assert latch.fault is not None
    assert (latch.fault.level, latch.fault.reason, latch.fault.time) == (level, reason, float(time))
    assert str(latch) == f"{level.label}: {reason}"


def test_reset_is_back_to_nominal_and_can_trip_again() -> None:
    latch = FaultLatch()
    latch.trip(Level.STOP, "gone", 1.0)
    latch.reset()
    assert latch.level is Level.NOMINAL
    assert latch.fault is None
    assert latch.trip(Level.HOLD, "again", 2.0)
    assert latch.level is Level.HOLD


def test_the_ladder_is_ordered() -> None:
    assert Level.NOMINAL < Level.RESIDUAL_OFF < Level.HOLD < Level.DAMP < Level.STOP
    assert [level.controlled for level in Level] == [True, True, False, False, False]
