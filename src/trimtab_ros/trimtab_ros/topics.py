"""The graph: every topic of the stack with its type and quality of service, and every service."""

from dataclasses import dataclass

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory


def _qos(reliability: ReliabilityPolicy, depth: int) -> QoSProfile:
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST, depth=depth, reliability=reliability, durability=DurabilityPolicy.VOLATILE
    )


SENSOR = _qos(ReliabilityPolicy.BEST_EFFORT, 5)
"""For streams at control rate: the newest counts, a lost one is not sent again."""
RELIABLE = _qos(ReliabilityPolicy.RELIABLE, 10)


@dataclass(frozen=True)
class Topic:
    """One topic; relative names live in the robot's namespace."""

    name: str
    type: type
    qos: QoSProfile

    @property
    def streams(self) -> bool:
        """Whether it runs at control rate; nodes that share a process hand such messages over by direct call."""
        return self.qos is SENSOR


JOINT_STATES = Topic("joint_states", JointState, SENSOR)
TORQUE_COMMAND = Topic("torque_command", JointState, SENSOR)
RESIDUAL_TORQUE = Topic("residual_torque", JointState, SENSOR)
REFERENCE = Topic("reference", JointTrajectory, RELIABLE)
DIAGNOSTICS = Topic("/diagnostics", DiagnosticArray, RELIABLE)
CLOCK = Topic("/clock", Clock, _qos(ReliabilityPolicy.BEST_EFFORT, 1))

TOPICS = (JOINT_STATES, TORQUE_COMMAND, RESIDUAL_TORQUE, REFERENCE, DIAGNOSTICS, CLOCK)
RESET_SERVICE = "~/reset"
RESET_RESIDUAL_SERVICE = "~/reset_residual"
SWAP_SERVICE = "~/swap"
