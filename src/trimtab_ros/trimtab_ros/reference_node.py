"""Publishes a named reference once the arm's posture is known and a controller listens."""

from typing import Any, ClassVar

import numpy as np
from rclpy.duration import Duration
from rclpy.time import Time
from sensor_msgs.msg import JointState

from trimtab.arm import load_arm
from trimtab.dynamics import RigidBody
from trimtab.errors import TrimtabError
from trimtab.names import REFERENCES
from trimtab.reference import make_reference
from trimtab.reference.excitation import PEAK_SPEED
from trimtab_ros.diagnostics import OK, WARN, Status
from trimtab_ros.hosting import run_node
from trimtab_ros.managed import ManagedNode
from trimtab_ros.messages import NANOSECONDS, state_arrays, to_nanoseconds, to_time, trajectory_message
from trimtab_ros.parameters import ARM, Parameter
from trimtab_ros.topics import JOINT_STATES, REFERENCE

APPROACH_SPEED = 0.25  # of the velocity limits, on the way to the reference's start
SHORTEST_APPROACH = 1.0  # s
LOOK_PERIOD = 0.1  # s
AHEAD = 0.5  # s from the state that a reference was made from to its start: then a bag tells when it began


class Reference(ManagedNode):
    """Leads the arm to a reference's start and along it, as often as asked.

    States are read only when a reference is due: a stream at control rate is not free.
    """

    parameters: ClassVar = (
        ARM,
        Parameter("reference", "plum", "which reference", REFERENCES),
        Parameter("duration", 10.0, "s that one run of the reference takes", low=1.5, high=3600.0),
        Parameter("repeat", 1, "how many times in a row; 0: for ever", low=0, high=1_000_000),
        Parameter("listeners", 1, "how many subscribers must listen before it is sent", low=1, high=100),
    )

    def __init__(self) -> None:
        super().__init__("reference")

    def configure(self) -> None:
        """Makes the reference and checks it against the arm's limits."""
        arm = self._arm = load_arm(self.values["arm"])
        self._trajectory = make_reference(self.values["reference"], RigidBody(arm), self.values["duration"])
        self._order = arm.order()
        self._simulated = bool(self.get_parameter("use_sim_time").value)
        self._publisher = self.publisher(REFERENCE)
        self.speak(arm.name)
        self._subscription: Any = None
        self._first = True
        self._start_over()
        self.every(LOOK_PERIOD, self._look)

    def activate(self) -> None:
        """Starts over."""
        self._start_over()

    def deactivate(self) -> None:
        """Sends nothing more; the controller finishes what it has."""
        self._stop_reading()

    def reset(self) -> str:
        """Starts over."""
        self._start_over()
        return "the reference starts over"

    def status(self) -> Status:
        """How often the reference was sent."""
        waiting = self._problem or ("waiting for states and a controller" if self._sent == 0 else "")
        listeners = self._publisher.get_subscription_count()
        values = {"reference": self.values["reference"], "sent": self._sent, "listeners": listeners}
        return Status(WARN if waiting else OK, waiting or f"sent {self._sent} times", values)

    def _start_over(self) -> None:
        self._sent = 0
        self._longest = 0.0
        self._due: Time | None = None
        self._problem = ""

    def _look(self) -> None:
        """Reads the arm's posture when a reference is due and somebody listens; the rest follows from that."""
        wanted = self.values["repeat"]
        finished = wanted > 0 and self._sent >= wanted
        if not self.active or finished or self._subscription is not None:
            return
        now = self.get_clock().now()
        # A clock that was set back (a restarted simulation) must not keep the reference waiting.
        waiting = self._due is not None and now < self._due < now + Duration(seconds=self._longest)
        if not waiting and self._publisher.get_subscription_count() >= self.values["listeners"]:
            self._subscription = self.create_subscription(
                JOINT_STATES.type, JOINT_STATES.name, self._on_state, JOINT_STATES.qos
            )

    def _on_state(self, message: JointState) -> None:
        try:
            posture = state_arrays(message, self._order)[0]
        except TrimtabError as error:
            self._problem = f"state refused: {error}"
            return
        self._stop_reading()
        distance = float(np.max(np.abs(self._trajectory.q[0] - posture) / self._arm.velocity))
        lead = max(SHORTEST_APPROACH, PEAK_SPEED * distance / APPROACH_SPEED)
        now = self.get_clock().now()
        reference = trajectory_message(self._trajectory, self._arm.joints, lead)
        self._longest = lead + self._trajectory.duration
        if not self._simulated and self._first:  # a later one may come while the one before is still under way
            self._first = False
            reference.header.stamp = to_time(to_nanoseconds(message.header.stamp) + round(AHEAD * NANOSECONDS))
            self._longest += AHEAD
        self._publisher.publish(reference)
        self._sent += 1
        self._problem = ""
        self._due = now + Duration(seconds=self._longest)
        self.get_logger().info(f"sent {self.values['reference']} ({self._sent}), {lead:.1f} s to its start")

    def _stop_reading(self) -> None:
        if self._subscription is not None:
            self.destroy_subscription(self._subscription)
            self._subscription = None


def main() -> int:
    """Runs the node."""
    return run_node(Reference)
