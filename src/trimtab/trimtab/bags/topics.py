"""Names and types of the topics that a log is read from."""

from dataclasses import dataclass, replace

from trimtab.errors import LogError

STATES = "/joint_states"
TORQUES = "/torque_command"
RESIDUALS = "/residual_torque"
REFERENCE = "/reference"
DIAGNOSTICS = "/diagnostics"
JOINT_STATE = "sensor_msgs/msg/JointState"
JOINT_TRAJECTORY = "trajectory_msgs/msg/JointTrajectory"
DIAGNOSTIC_ARRAY = "diagnostic_msgs/msg/DiagnosticArray"
RESIDUAL_SUFFIX = "/residual"
"""Behind a joint's name, in a torque command: how much of that joint's torque is learned."""
CONFIDENCE, LIVE = "confidence", "live"
"""Entries of a residual message beside the joints: how sure the model is (0 to 1), and 0 where it is only a shadow."""


@dataclass(frozen=True)
class Topics:
    """Where a log's parts are. The states' own topic may also be that of the torques: a robot that measures its effort."""

    states: str = STATES
    torques: str = TORQUES
    residuals: str = RESIDUALS
    reference: str = REFERENCE

    def under(self, namespace: str) -> "Topics":
        """The same names within a robot's namespace."""
        prefix = namespace.strip("/")
        if not prefix:
            return self
        names = {key: f"/{prefix}{name}" for key, name in vars(self).items()}
        return replace(self, **names)


def check_names(topics: Topics) -> None:
    """Refuses names that cannot be told apart."""
    if topics.residuals in (topics.states, topics.torques):
        raise LogError(f"{topics.residuals} is named for the residual and for something else; name another topic")
