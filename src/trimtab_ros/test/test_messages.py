"""Messages and arrays: matched by name, refused when anything is missing."""

import numpy as np
import pytest
from builtin_interfaces.msg import Duration
from hypothesis import given
from hypothesis import strategies as st
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from trimtab.control import Desired
from trimtab.errors import ReferenceRefused
from trimtab.joints import JointOrder
from trimtab.reference import Trajectory
from trimtab.reference.message import trajectory_of
from trimtab.residual.offer import Offer
from trimtab_ros.messages import (
    classical_array,
    command_encoder,
    residual_encoder,
    residual_offer,
    state_arrays,
    state_encoder,
    state_message,
    to_nanoseconds,
    to_time,
    torque_array,
    torque_message,
    trajectory_message,
)
from trimtab_ros.streams import Command, Residual, State

JOINTS = ("a", "b", "c")
ORDER = JointOrder(JOINTS)
numbers = st.floats(-10, 10)


def decoded(data: bytes) -> JointState:
    """As whoever hears it gets it."""
    return deserialize_message(data, JointState)


@given(st.integers(0, 2**31 * 10**9 - 1))
def test_stamps_are_exact(nanoseconds):
    assert to_nanoseconds(to_time(nanoseconds)) == nanoseconds


@given(st.lists(numbers, min_size=6, max_size=6))
def test_state_round_trip(values):
    q, qd = np.array(values[:3]), np.array(values[3:])
    message = decoded(state_encoder(JOINTS)(State(5, q, qd)))
    assert message == state_message(5, JOINTS, q, qd)
    np.testing.assert_array_equal(state_arrays(message, ORDER), (q, qd))


@given(st.permutations(range(3)), st.lists(numbers, min_size=3, max_size=3))
def test_torque_goes_by_name(order, values):
    message = torque_message(1, tuple(JOINTS[i] for i in order), np.array([values[i] for i in order]))
    np.testing.assert_array_equal(torque_array(message, ORDER), values)


@given(st.permutations(range(3)))
def test_trajectory_round_trip_goes_by_name(order):
    t = np.array([0.0, 1.0, 2.5])
    q, qd, qdd = (np.random.default_rng(i).normal(size=(3, 3)) for i in range(3))
    sent = Trajectory(t, q[:, order], qd[:, order], qdd[:, order])
    message = trajectory_message(sent, tuple(JOINTS[i] for i in order), lead=0.5)
    got = trajectory_of(message, ORDER)
    np.testing.assert_allclose(got.t, t + 0.5)
    for name, array in (("q", q), ("qd", qd), ("qdd", qdd)):
        np.testing.assert_array_equal(getattr(got, name), array)


def trajectory(*rows, names=JOINTS, **fields) -> JointTrajectory:
    points = [JointTrajectoryPoint(positions=row, time_from_start=Duration(sec=i + 1)) for i, row in enumerate(rows)]
    for field, value in fields.items():
        setattr(points[0], field, value)
    return JointTrajectory(joint_names=list(names), points=points)


def test_positions_alone_pass_through_every_point_and_rest_at_the_ends():
    got = trajectory_of(trajectory([0.0, 0.0, 0.0], [1.0, 2.0, 3.0], [1.0, 1.0, 1.0]), ORDER)
    np.testing.assert_allclose(got.at(2.0).q, [1.0, 2.0, 3.0], atol=1e-12)
    np.testing.assert_allclose(got.qd[[0, -1]], 0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (trajectory([0.0, 0.0, 0.0], names=("a", "b", "x")), "joint 'c' is missing"),
        (trajectory([0.0] * 4, names=("a", "b", "c", "d")), "joint 'd' is not one of a, b, c"),
        (trajectory([0.0, 0.0]), "point 0 has 2 positions for 3 joints"),
        (trajectory([0.0, 0.0, float("nan")]), "positions of point 0 of joint 'c' is nan"),
        (trajectory([0.0] * 3, [0.0] * 3, velocities=[0.0] * 3), "point 1 has 0 velocities for 3 joints"),
        (trajectory([]), "needs positions at every point"),
    ],
)
def test_a_bad_trajectory_is_refused_whole(message, reason):
    with pytest.raises(ReferenceRefused, match=reason):
        trajectory_of(message, ORDER)


def test_times_must_increase():
    message = trajectory([0.0] * 3, [0.1] * 3)
    message.points[1].time_from_start = message.points[0].time_from_start
    with pytest.raises(ReferenceRefused, match="times of a trajectory must increase"):
        trajectory_of(message, ORDER)


def test_a_command_tells_how_much_of_it_is_learned_and_drivers_pass_that_over():
    torque, residual = np.array([1.0, -2.0]), np.array([0.25, 0.5])
    encode = command_encoder(("a", "b"))
    message = decoded(encode(Command(5, torque, residual)))
    order = JointOrder(("b", "a"))
    np.testing.assert_array_equal(torque_array(message, order), [-2.0, 1.0])
    np.testing.assert_array_equal(classical_array(message, order), [-2.5, 0.75])
    plain = decoded(encode(Command(5, torque, None)))
    assert plain == torque_message(5, ("a", "b"), torque)
    np.testing.assert_array_equal(classical_array(plain, order), [-2.0, 1.0])


@given(st.lists(numbers, min_size=9, max_size=9), st.floats(0, 1), st.booleans())
def test_a_residual_comes_with_the_motion_that_it_was_made_for(values, confidence, live):
    q, qd, torque = (np.array(values[i : i + 3]) for i in (0, 3, 6))
    answer = Residual(7_000_000_000, Offer(torque, confidence, 7.0), Desired(q, qd, np.zeros(3)), live)
    message = decoded(residual_encoder(JOINTS)(answer))
    offer, desired, meant = residual_offer(message, JointOrder(("c", "a", "b")))
    np.testing.assert_array_equal(offer.torque, torque[[2, 0, 1]])
    np.testing.assert_array_equal(desired, q[[2, 0, 1]])
    np.testing.assert_array_equal(list(message.velocity)[:3], qd)
    assert (offer.confidence, offer.stamp, meant) == (confidence, 7.0, live)
