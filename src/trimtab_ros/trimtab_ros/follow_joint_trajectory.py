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
        self._joints = controller.joints
        self._goal: Any = None
        self._done: Future | None = None
        self._waiting: dict[bytes, Future] = {}  # by goal
        self._tolerance = np.zeros(len(self._joints))
        self._goal_time = DEFAULT_GOAL_TIME
        self._ended = self._next_feedback = 0.0
        self._server = ActionServer(
            controller,
            FollowJointTrajectory,
            ACTION,
            execute_callback=self._execute,
            goal_callback=self._on_goal,
            handle_accepted_callback=self._on_accepted,
            cancel_callback=lambda _: CancelResponse.ACCEPT,
        )

    def destroy(self) -> None:
        """Ends the goal and the server."""
        self.abort("the controller was cleaned up")
        self._server.destroy()

    def abort(self, reason: str) -> None:
        """Ends the goal, if there is one, without success."""
        self._finish(FollowJointTrajectory.Result.PATH_TOLERANCE_VIOLATED, reason)

    def update(self, now: float, q: FloatArray, qd: FloatArray, desired: Desired) -> None:
        """The newest state and what was wanted then [s, rad, rad/s]: feedback, and the end of a goal."""
        with self._controller.turn:
            goal = self._goal
            if goal is None:
                return
            due = now >= self._next_feedback
            if due:
                self._next_feedback = now + FEEDBACK_PERIOD
            self._judge(goal, now, np.abs(desired.q - q))
        if due:  # without the turn: a message takes longer to make than a period has room for
            feedback = FollowJointTrajectory.Feedback(joint_names=list(self._joints))
            feedback.desired = _point(desired.q, desired.qd)
            feedback.actual = _point(q, qd)
            feedback.error = _point(desired.q - q, desired.qd - qd)
            goal.publish_feedback(feedback)

    def _judge(self, goal: Any, now: float, away: FloatArray) -> None:
        """Ends the goal where it is cancelled, reached or too late; away: from what is wanted [rad]."""
        step, result = self._controller.step, FollowJointTrajectory.Result
        if goal.is_cancel_requested:
            step.cancel()
            self._finish(result.SUCCESSFUL, "cancelled")
        elif not step.busy(now):
            self._ended = self._ended or now
            if (away <= self._tolerance).all():
                self._finish(result.SUCCESSFUL, "")
            elif now - self._ended > self._goal_time:
                self._finish(result.GOAL_TOLERANCE_VIOLATED, "the goal was not reached in time")

    def _finish(self, code: int, text: str) -> None:
        with self._controller.turn:
            done, self._goal, self._done = self._done, None, None
        if done is not None and not done.done():
            done.set_result(FollowJointTrajectory.Result(error_code=code, error_string=text))
            if (executor := self._controller.executor) is not None:
                executor.wake()  # who awaits the result is asked again only when something happens

    def _on_goal(self, goal: Any) -> GoalResponse:
        """Takes the trajectory or rejects the goal; a goal that was under way ends here."""
        controller = self._controller
        try:
            if not controller.active:
                raise ReferenceRefused("the controller is inactive")
            if not goal.trajectory.points:
                raise ReferenceRefused("a goal needs at least one point")
            unknown = {tolerance.name for tolerance in goal.goal_tolerance} - set(self._joints)
            if unknown:
                raise ReferenceRefused(f"the goal's tolerances name '{min(unknown)}', which is no joint of the arm")
            controller.follow(goal.trajectory)
        except ReferenceRefused as error:
            controller.refused(error)
            return GoalResponse.REJECT
        self.abort("a newer goal took over")
        return GoalResponse.ACCEPT

    def _on_accepted(self, handle: Any) -> None:
        goal = handle.request
        given = {tolerance.name: tolerance.position for tolerance in goal.goal_tolerance if tolerance.position != 0.0}
        tolerances = [given.get(joint, DEFAULT_GOAL_TOLERANCE) for joint in self._joints]
        # The message's convention: a negative tolerance means none.
        self._tolerance = np.array([np.inf if tolerance < 0.0 else tolerance for tolerance in tolerances])
        seconds = goal.goal_time_tolerance.sec + goal.goal_time_tolerance.nanosec * 1e-9
        self._goal_time = seconds if seconds > 0.0 else DEFAULT_GOAL_TIME
        with self._controller.turn:
            self._ended = self._next_feedback = 0.0
            self._goal, self._done = handle, Future()
            self._waiting[bytes(handle.goal_id.uuid)] = self._done
        handle.execute()

    async def _execute(self, handle: Any) -> Any:
        result = await self._waiting[bytes(handle.goal_id.uuid)]
        del self._waiting[bytes(handle.goal_id.uuid)]
        if handle.is_cancel_requested:
            handle.canceled()
        elif result.error_code == FollowJointTrajectory.Result.SUCCESSFUL:
            handle.succeed()
        else:
            handle.abort()
        return result


def _point(q: FloatArray, qd: FloatArray) -> JointTrajectoryPoint:
    return JointTrajectoryPoint(positions=q.tolist(), velocities=qd.tolist(), time_from_start=Duration())
