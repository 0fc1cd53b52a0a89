"""The FollowJointTrajectory action, served where control_msgs is installed (MoveIt's controllers speak it)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from builtin_interfaces.msg import Duration
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.task import Future
from trajectory_msgs.msg import JointTrajectoryPoint

from trimtab.control import Desired
from trimtab.errors import ReferenceRefused
from trimtab.faults import Level
from trimtab.typing import FloatArray

if TYPE_CHECKING:
    from trimtab_ros.controller_node import Controller

try:
    from control_msgs.action import FollowJointTrajectory
except ImportError:  # not among the wheels; a ROS 2 machine has it
    FollowJointTrajectory = None

ACTION = "~/follow_joint_trajectory"
FEEDBACK_PERIOD = 0.1  # s
DEFAULT_GOAL_TOLERANCE = 0.05  # rad; where the goal names none
DEFAULT_GOAL_TIME = 1.0  # s after the trajectory's end in which the goal must be reached


def serve_follow_joint_trajectory(controller: Controller) -> TrajectoryAction | None:
    """Serves the action, or gives None where its messages are not installed."""
    return None if FollowJointTrajectory is None else TrajectoryAction(controller)


class TrajectoryAction:
    """One goal at a time; a newer goal or a `reference` message takes the arm over."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._joints = controller._arm.joints
        self._goal: Any = None
        self._done: Future | None = None
        self._next_feedback = 0.0
        self._late = 0.0
        self._server = ActionServer(
            controller,
            FollowJointTrajectory,
            ACTION,
            execute_callback=self._execute,
            goal_callback=self._on_goal,
            cancel_callback=lambda _: CancelResponse.ACCEPT,
        )

    def update(self, now: float, q: FloatArray, qd: FloatArray, desired: Desired) -> None:
        """Called by the controller after each step [s, rad, rad/s]: feedback, and the end of a goal."""
        if self._goal is None or self._done is None or self._done.done():
            return
        step = self._controller.step
        error = np.abs(desired.q - q)
        if self._goal.is_cancel_requested:
            step.cancel()
            self._finish("canceled")
        elif step.latch.level is not Level.NOMINAL:
            self._finish("fault")
        elif not step.busy(now):
            self._late = self._late or now
            if (error <= self._tolerance).all():
                self._finish("reached")
            elif now - self._late > self._goal_time:
                self._finish("missed")
        if now >= self._next_feedback:
            self._next_feedback = now + FEEDBACK_PERIOD
            feedback = FollowJointTrajectory.Feedback(joint_names=list(self._joints))
            feedback.desired = _point(desired.q, desired.qd)
            feedback.actual = _point(q, qd)
            feedback.error = _point(desired.q - q, desired.qd - qd)
            self._goal.publish_feedback(feedback)

    def preempt(self) -> None:
        """Another reference has taken the arm over."""
        self._finish("preempted")

    def _finish(self, how: str) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(how)

    def _on_goal(self, goal: Any) -> GoalResponse:
        if not self._controller.active:
            return GoalResponse.REJECT
        try:
            if not goal.trajectory.points:
                raise ReferenceRefused("a goal needs at least one point")
            self._controller.follow(goal.trajectory)
        except ReferenceRefused as error:
            self._controller.refused(error)
            return GoalResponse.REJECT
        self.preempt()
        self._tolerance = self._goal_tolerances(goal)
        seconds = goal.goal_time_tolerance.sec + goal.goal_time_tolerance.nanosec * 1e-9
        self._goal_time = seconds if seconds > 0.0 else DEFAULT_GOAL_TIME
        self._late = 0.0
        self._done = Future()
        return GoalResponse.ACCEPT

    def _goal_tolerances(self, goal: Any) -> FloatArray:
        given = {tolerance.name: tolerance.position for tolerance in goal.goal_tolerance if tolerance.position > 0.0}
        return np.array([given.get(joint, DEFAULT_GOAL_TOLERANCE) for joint in self._joints])

    async def _execute(self, handle: Any) -> Any:
        done = self._done
        assert done is not None
        self._goal = handle
        how = await done
        if self._goal is handle:
            self._goal = None
        result = FollowJointTrajectory.Result(error_code=FollowJointTrajectory.Result.SUCCESSFUL)
        if how == "reached":
            handle.succeed()
        elif how == "canceled":
            handle.canceled()
        else:
            if how == "missed":
                result.error_code = FollowJointTrajectory.Result.GOAL_TOLERANCE_VIOLATED
                result.error_string = "the goal was not reached in time"
            else:
                result.error_code = FollowJointTrajectory.Result.INVALID_GOAL
                latch = self._controller.step.latch
                result.error_string = f"stopped: {latch}" if how == "fault" else "a newer reference took over"
            handle.abort()
        return result


def _point(q: FloatArray, qd: FloatArray) -> JointTrajectoryPoint:
    return JointTrajectoryPoint(positions=q.tolist(), velocities=qd.tolist(), time_from_start=Duration())
