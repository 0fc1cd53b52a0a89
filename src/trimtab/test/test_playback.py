"""Playing a bag: the order and spacing of what is sent, and an account of answers that no loss escapes."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.arm import load_arm
from trimtab.bag import SECOND, START, read_log, types, write_log
from trimtab.bags.topics import JOINT_STATE
from trimtab.dynamics import RigidBody
from trimtab.errors import JointNamesError, LogError
from trimtab.joints import JointOrder
from trimtab.plant import load_gap
from trimtab.playback import Ledger, Schedule, look, play, stamp_of, with_stamp
from trimtab.reference import make_reference
from trimtab.simulate import simulate

TOPICS = ("/joint_states", "/reference")
ARM = load_arm("so101")


@pytest.fixture(scope="module")
def bag(tmp_path_factory: pytest.TempPathFactory) -> Path:
    trajectory = make_reference("reach", RigidBody(ARM), 2.0)
    return write_log(tmp_path_factory.mktemp("bags") / "pd", simulate(ARM, load_gap("worn", ARM), "pd", trajectory))


def test_states_and_references_come_as_they_were_recorded(bag: Path) -> None:
    played = list(play(bag, *TOPICS))
    log = read_log(bag, ARM)
    assert [one.reference for one in played[:2]] == [True, False]
    states = [types().deserialize_cdr(one.data, JOINT_STATE) for one in played if not one.reference]
    assert np.array_equal([state.position for state in states], log.q)  # type: ignore[attr-defined]
    contents = look(bag, ARM.order(), *TOPICS)
    assert (contents.states, contents.references, contents.first.stamp) == (len(log.t), 1, START)
    assert contents.custom["arm"] == "so101"


@given(st.integers(0, 2**31 - 1), st.integers(0, SECOND - 1))
def test_a_stamp_is_set_and_read_without_the_rest(seconds: int, nanoseconds: int) -> None:
    data = bytes([0, 1, 0, 0]) + bytes(8) + b"the rest"
    changed = with_stamp(data, seconds * SECOND + nanoseconds)
    assert stamp_of(changed) == seconds * SECOND + nanoseconds
    assert (changed[:4], changed[12:]) == (data[:4], data[12:])


def test_what_cannot_be_played_is_refused_before_anything_is_sent(bag: Path) -> None:
    with pytest.raises(LogError, match=r"has no states on /left/joint_states \(it has: .*/joint_states"):
        look(bag, ARM.order(), "/left/joint_states", "/reference")
    with pytest.raises(LogError, match="/reference is trajectory_msgs/msg/JointTrajectory, it must be"):
        look(bag, ARM.order(), "/reference", "/torque_command")
    with pytest.raises(JointNamesError, match="joint 'nobody' is missing"):
        look(bag, JointOrder(["nobody"]), *TOPICS)


def test_the_pace_divides_the_spacing_and_nothing_else() -> None:
    schedule = Schedule(2.0, slack=0.05)
    assert schedule.due(10 * SECOND, now=100.0) == 100.0
    assert schedule.due(11 * SECOND, now=100.0) == 100.5
    assert schedule.due(13 * SECOND, now=100.5) == 101.5
    assert schedule.moved == 0


def test_who_is_late_sends_no_burst() -> None:
    schedule = Schedule(1.0, slack=0.05)
    schedule.begin(0, now=0.0)
    assert schedule.due(SECOND, now=3.0) == 3.0
    assert schedule.due(SECOND + SECOND // 100, now=3.0) == pytest.approx(3.01)
    assert schedule.moved == 1


def test_stamps_that_go_back_are_due_at_once() -> None:
    schedule = Schedule(1.0, slack=0.05)
    schedule.begin(5 * SECOND, now=0.0)
    assert schedule.due(4 * SECOND, now=0.0) == 0.0
    assert schedule.due(5 * SECOND, now=0.0) == 1.0


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.randoms(use_true_random=False))
def test_no_loss_escapes_the_ledger(answered: list[bool], random: "np.random.Generator") -> None:
    """Whatever is answered in whatever order: lacking is exactly what was not."""
    ledger = Ledger(["torque_command"], rate=100.0)
    stamps = [START + i * SECOND // 100 for i in range(len(answered))]
    for stamp in stamps:
        assert ledger.send(stamp)
        assert not ledger.send(stamp)
    order = [stamp for stamp, yes in zip(stamps, answered, strict=True) if yes]
    random.shuffle(order)  # type: ignore[arg-type]
    for stamp in order:
        assert ledger.answer("torque_command", stamp)
        assert not ledger.answer("torque_command", stamp)
    assert ledger.sent == len(stamps)
    assert ledger.lost("torque_command") == answered.count(False)
    assert ledger.complete == all(answered) == (not ledger.report())
    assert [ledger.answered(stamp) for stamp in stamps] == answered
    assert ledger.repeated["torque_command"] == sum(answered)
    newest = max((i for i, yes in enumerate(answered) if yes), default=-1)
    if order:
        assert ledger.under_way <= len(answered) - 1 - stamps.index(order[-1])
        ledger.answer("torque_command", stamps[-1])
        assert ledger.under_way == 0 or newest == len(answered) - 1


def test_what_a_node_declined_is_not_lost() -> None:
    ledger = Ledger(["residual_torque"], rate=100.0)
    for stamp in (1, 2, 3):
        ledger.send(stamp)
    ledger.answer("residual_torque", 2)
    assert ledger.report({"residual_torque": 2}) == []
    assert "2 of 3 states have no residual_torque" in ledger.report({"residual_torque": 1})[0]


def test_answers_to_states_that_were_never_sent_are_told() -> None:
    ledger = Ledger(["torque_command"], rate=100.0, after=5)
    ledger.answer("torque_command", 5)  # to the state with which contact was made
    assert ledger.report() == []
    ledger.answer("torque_command", 7)
    assert "1 messages on torque_command answer states that were never sent" in ledger.report()[0]


def test_a_lost_state_does_not_count_as_under_way_for_ever() -> None:
    ledger = Ledger(["torque_command"], rate=100.0)
    for stamp in range(6):
        ledger.send(stamp)
    assert ledger.under_way == 6
    ledger.answer("torque_command", 3)
    assert ledger.under_way == 2
    ledger.answer("torque_command", 5)
    assert ledger.under_way == 0
    assert ledger.lost("torque_command") == 4


def test_gaps_of_the_bag_are_counted_as_the_controller_counts_them() -> None:
    ledger = Ledger(["torque_command"], rate=100.0)
    for stamp in np.cumsum([0, 10, 10, 40, 14, 16, 10]) * 1_000_000:
        ledger.send(int(stamp))
    assert ledger.gaps == 3 + 1
