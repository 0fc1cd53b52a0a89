"""The FollowJointTrajectory action over DDS; skipped where control_msgs is not installed."""

import numpy as np
import pytest

pytest.importorskip("control_msgs", reason="control_msgs is not installed (a ROS 2 machine has it)")

from action_msgs.msg import GoalStatus
from builtin_interfaces.msg import Duration
from control_msgs.action import FollowJointTrajectory
from rclpy.action import ActionClient
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from trimtab.arm import load_arm
from trimtab_ros.messages import state_arrays, to_seconds
from trimtab_ros.topics import JOINT_STATES

ARM = load_arm("so101")


@pytest.fixture
def client(graph):
    graph.start_plan(arm="so101", reference="none", mode="lockstep")
    graph.until_status("controller", "holding")
    client = ActionClient(graph.node, FollowJointTrajectory, "/controller/follow_joint_trajectory")
    graph.until(client.server_is_ready, "the action server")
    yield client
    client.destroy()


def goal(q, seconds) -> FollowJointTrajectory.Goal:
    whole = int(seconds)
    time = Duration(sec=whole, nanosec=int((seconds - whole) * 1e9))
    point = JointTrajectoryPoint(positions=[float(v) for v in q], time_from_start=time)
    return FollowJointTrajectory.Goal(trajectory=JointTrajectory(joint_names=list(ARM.joints), points=[point]))


def send(graph, client, message, feedback=None):
    future = client.send_goal_async(message, feedback_callback=feedback)
    graph.until(future.done, "an answer to the goal")
    return future.result()


def result_of(graph, handle):
    future = handle.get_result_async()
    graph.until(future.done, "the result")
    return future.result()


def test_a_goal_is_reached_with_feedback(graph, client):
    states, feedback = graph.collect(JOINT_STATES), []
    target = ARM.home + 0.2
    handle = send(graph, client, goal(target, 2.0), feedback.append)
    assert handle.accepted
    answer = result_of(graph, handle)
    assert answer.status == GoalStatus.STATUS_SUCCEEDED, answer.result.error_string
    assert answer.result.error_code == FollowJointTrajectory.Result.SUCCESSFUL
    assert len(feedback) > 5
    graph.until(lambda: states and np.abs(np.array(states[-1].position) - target).max() < 0.01, "the arm at the goal")


def test_a_goal_outside_limits_is_rejected_with_the_reason(graph, client):
    target = np.array(ARM.home)
    target[0] = 3.0
    assert not send(graph, client, goal(target, 5.0)).accepted
    graph.until(lambda: "joint 'shoulder_pan' is asked to go to 3.0000 rad" in graph.output("controller"), "the reason")


def test_a_cancelled_goal_stops_the_arm(graph, client):
    """The goal lies minutes ahead: lockstep runs many times faster than the clock, and a cancellation takes its time."""
    rows = []
    graph.listen(JOINT_STATES, lambda m: rows.append((to_seconds(m.header.stamp), state_arrays(m, ARM.order())[0])))
    target = np.array(ARM.home)
    target[0] += 1.5
    handle = send(graph, client, goal(target, 600.0))
    graph.until(lambda: rows and abs(rows[-1][1][0] - ARM.home[0]) > 1e-3, "the arm to move")
    cancelled = handle.cancel_goal_async()
    graph.until(cancelled.done, "the cancellation")
    assert result_of(graph, handle).status == GoalStatus.STATUS_CANCELED
    end = rows[-1][0]
    graph.until(lambda: rows[-1][0] > end + 1.0, "a simulated second in which the arm comes to rest")
    rest, stopped = rows[-1]
    graph.until(lambda: rows[-1][0] > rest + 50.0, "fifty more seconds, in which the goal would have moved it on")
    assert np.abs(rows[-1][1] - stopped).max() < 1e-3
    assert abs(stopped[0] - target[0]) > 0.5


def test_a_newer_goal_takes_over(graph, client):
    first = send(graph, client, goal(ARM.home + 0.4, 20.0))
    second = send(graph, client, goal(ARM.home - 0.1, 2.0))
    assert second.accepted
    assert result_of(graph, first).status == GoalStatus.STATUS_ABORTED
    assert result_of(graph, second).status == GoalStatus.STATUS_SUCCEEDED
