"""Records the documented topics of one robot to a rosbag2 MCAP."""

import time
from pathlib import Path
from typing import Any, ClassVar

from rclpy.qos import QoSProfile
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from trimtab.errors import LogError
from trimtab_ros.diagnostics import OK
from trimtab_ros.managed import ManagedNode, run_node
from trimtab_ros.parameters import Parameter
from trimtab_ros.topics import DIAGNOSTICS, JOINT_STATES, REFERENCE, RESIDUAL_TORQUE, TORQUE_COMMAND, Topic

QUEUE = 1000  # messages; a bag wants all of them, where a controller wants the newest


class Recorder(ManagedNode):
    """Writes serialised messages as they come; the bag is complete when the node is deactivated or ends."""

    parameters: ClassVar = (Parameter("directory", "", "folder of the bag; must not exist yet"),)

    def __init__(self) -> None:
        super().__init__("recorder")
        self._writer: Writer | None = None

    def configure(self) -> None:
        """Looks whether the bag's folder is free."""
        self._directory = self._free_directory()
        self._counts: dict[str, int] = {}
        self._diagnostics = self.speak("recorder")

    def activate(self) -> None:
        """Opens the bag, subscribes and starts to write."""
        self._directory = self._free_directory()
        self._directory.parent.mkdir(parents=True, exist_ok=True)
        self._writer = Writer(self._directory, version=9, storage_plugin=StoragePlugin.MCAP)
        self._writer.open()
        typestore = get_typestore(Stores.ROS2_JAZZY)
        topics = (JOINT_STATES, TORQUE_COMMAND, RESIDUAL_TORQUE, REFERENCE, DIAGNOSTICS)
        self._recorded = [self._record(topic, typestore) for topic in topics]

    def deactivate(self) -> None:
        """Completes the bag."""
        for subscription in self._recorded:
            self.destroy_subscription(subscription)
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            self.get_logger().info(f"{sum(self._counts.values())} messages in {self._directory}")

    def _free_directory(self) -> Path:
        directory = Path(self.values["directory"] or f"runs/bag-{time.strftime('%Y%m%d-%H%M%S')}")
        if directory.exists():
            raise LogError(f"{directory} exists already; give the recorder another directory")
        return directory

    def reset(self) -> str:
        """There is nothing to reset."""
        return "recording goes on"

    def report(self) -> None:
        """How much was written, and what has not come yet."""
        silent = ", ".join(topic for topic, count in self._counts.items() if count == 0)
        values = {"messages": sum(self._counts.values()), "silent": silent, "directory": self._directory}
        self._diagnostics.publish(OK, "recording", values)

    def _record(self, topic: Topic, typestore: Any) -> Any:
        assert self._writer is not None
        message_type = f"{topic.type.__module__.partition('.')[0]}/msg/{topic.type.__name__}"
        name = self.resolve_topic_name(topic.name)
        connection = self._writer.add_connection(name, message_type, typestore=typestore)
        self._counts[name] = 0

        def write(data: bytes) -> None:
            if self._writer is not None:
                self._writer.write(connection, time.time_ns(), data)
                self._counts[name] += 1

        qos = QoSProfile(depth=QUEUE, reliability=topic.qos.reliability, durability=topic.qos.durability)
        return self.create_subscription(topic.type, topic.name, write, qos, raw=True)


def main() -> int:
    """Runs the node."""
    return run_node(Recorder)
