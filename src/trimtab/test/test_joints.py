"""Joints go by name, whatever order they come in."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.errors import JointNamesError, NotFiniteError
from trimtab.joints import Bounds, JointOrder, all_finite

NAMES = st.lists(st.text("abc_1", min_size=1, max_size=6), min_size=1, max_size=8, unique=True)
FINITE = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def messages(draw: Callable) -> tuple[list[str], dict[str, float], list[str]]:
    """Joints of an arm, a value for each name of a message, and the message's order of names with extra joints."""
    names = draw(NAMES)
    count = draw(st.integers(1, len(names)))
    values = {name: draw(FINITE) for name in names}
    return names[:count], values, draw(st.permutations(names))


@given(messages())
def test_arrange_gives_each_joint_its_own_value(message: tuple[list[str], dict[str, float], list[str]]) -> None:
    joints, values, order = message
    arranged = JointOrder(joints).arrange(order, [values[name] for name in order], "position")
    assert arranged.tolist() == [values[joint] for joint in joints]


@given(messages(), st.data())
def test_a_stream_may_change_its_order(message: tuple[list[str], dict[str, float], list[str]], data: st.DataObject) -> None:
    """The permutation is kept between messages; it must not be kept when the names change."""
    joints, values, first = message
    order = JointOrder(joints)
    for names in (first, data.draw(st.permutations(first)), data.draw(st.permutations(joints)), first):
        arranged = order.arrange(names, [values[name] for name in names], "position")
        assert arranged.tolist() == [values[joint] for joint in joints]


@given(messages(), st.data())
def test_missing_joint_is_refused_by_name(
    message: tuple[list[str], dict[str, float], list[str]], data: st.DataObject
) -> None:
    joints, values, names = message
    gone = data.draw(st.sampled_from(joints))
    left = [name for name in names if name != gone]
    with pytest.raises(JointNamesError) as refused:
        JointOrder(joints).arrange(left, [values[name] for name in left], "position")
    assert f"'{gone}' is missing" in str(refused.value)


@given(messages(), st.data())
def test_repeated_joint_is_refused_by_name(
    message: tuple[list[str], dict[str, float], list[str]], data: st.DataObject
) -> None:
    joints, values, names = message
    twice = data.draw(st.sampled_from(names))
    names = [*names, twice]
    with pytest.raises(JointNamesError) as refused:
        JointOrder(joints).arrange(names, [values[name] for name in names], "position")
    assert f"'{twice}' is named twice" in str(refused.value)


@given(messages(), st.integers(0, 20))
def test_wrong_number_of_values_is_refused(message: tuple[list[str], dict[str, float], list[str]], count: int) -> None:
    joints, _, names = message
    if count == len(names):
        count += 1
    with pytest.raises(JointNamesError, match=f"velocity has {count} values for {len(names)} joints"):
        JointOrder(joints).arrange(names, [0.0] * count, "velocity")


@given(messages(), st.sampled_from([float("nan"), float("inf"), -float("inf")]), st.data())
def test_not_finite_is_refused_by_the_joints_name(
    message: tuple[list[str], dict[str, float], list[str]], bad: float, data: st.DataObject
) -> None:
    joints, values, names = message
    sick = data.draw(st.sampled_from(joints))
    with pytest.raises(NotFiniteError) as refused:
        JointOrder(joints).arrange(names, [bad if name == sick else values[name] for name in names], "velocity")
    assert f"velocity of joint '{sick}' is {bad}" in str(refused.value)


def test_a_sick_joint_that_is_not_the_arms_is_passed_over() -> None:
    arranged = JointOrder(["a", "b"]).arrange(["b", "gripper", "a"], [2.0, float("nan"), 1.0], "position")
    assert arranged.tolist() == [1.0, 2.0]


def test_a_refused_message_does_not_spoil_the_next() -> None:
    order = JointOrder(["a", "b"])
    for names in (["a"], ["b", "b", "a"]):
        with pytest.raises(JointNamesError):
            order.arrange(names, [0.0] * len(names), "position")
        assert order.arrange(["b", "a"], [2.0, 1.0], "position").tolist() == [1.0, 2.0]


def test_a_table_of_values_is_refused() -> None:
    with pytest.raises(JointNamesError, match="position has 4 values for 2 joints"):
        JointOrder(["a", "b"]).arrange(["a", "b"], np.zeros((2, 2)), "position")  # type: ignore[arg-type]


numbers = st.one_of(st.floats(), st.floats(-2.0, 2.0))


@given(st.lists(numbers, min_size=1, max_size=9))
def test_the_quick_look_for_finite_numbers_agrees_with_numpy(values):
    assert all_finite(np.array(values)) == bool(np.isfinite(values).all())


def test_finite_numbers_whose_sum_is_not_are_finite():
    assert all_finite(np.array([1e308, 1e308, 1e308]))


@given(st.lists(st.tuples(numbers, st.floats(-3.0, 0.0), st.floats(0.0, 3.0)), min_size=1, max_size=9))
def test_bounds_hold_what_numpy_holds_and_certain_ones_nothing_beyond(rows):
    values, low, high = (np.array(column) for column in zip(*rows, strict=True))
    inside = bool(((values >= low) & (values <= high)).all())
    assert Bounds(low, high).hold(values) == inside
    assert inside or not Bounds.certain(low, high).hold(values)
