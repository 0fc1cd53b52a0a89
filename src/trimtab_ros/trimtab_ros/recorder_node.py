"""Records the documented topics of one robot to a rosbag2 bag that survives the recorder."""

import time
from pathlib import Path
from typing import Any, ClassVar

from rclpy.event_handler import SubscriptionEventCallbacks, UnsupportedEventTypeError
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from trimtab.arm import Arm, load_arm
from trimtab.errors import ConfigError, RecordingError
from trimtab.names import MCAP, STORAGES, needs_friction
from trimtab.recording.context import RecordingContext, split_labels
from trimtab.recording.describe import describe
from trimtab.recording.losses import SequenceGaps, StampGaps
from trimtab.recording.metadata import BagTopic, known_topic, qos_profile
from trimtab.recording.recording import Recording
from trimtab.recording.writer import BagWriter
from trimtab_ros.diagnostics import ERROR, OK, WARN, Status
from trimtab_ros.hosting import run_node
from trimtab_ros.managed import ManagedNode
from trimtab_ros.parameters import Parameter
from trimtab_ros.topics import DIAGNOSTICS, JOINT_STATES, REFERENCE, RESIDUAL_TORQUE, TORQUE_COMMAND, Topic

QUEUE = 1000  # messages; a bag wants all of them, where a controller wants the newest
RECORDED = (JOINT_STATES, TORQUE_COMMAND, RESIDUAL_TORQUE, REFERENCE, DIAGNOSTICS)


class Recorder(ManagedNode):
    """Takes serialised messages as they come, for a thread that writes them; complete when deactivated or ended."""

    parameters: ClassVar = (
        Parameter("directory", "", "folder of the bag; must not exist yet"),
        Parameter("storage", MCAP, "what the bag's data file is", STORAGES),
        Parameter("labels", "", "what else the bag is to tell, as key=value pairs with commas between"),
        Parameter("arm", "", "arm whose contract the bag is to hold: its name in config/arms, or a path"),
        Parameter("driver", "", "what carries the torque out; this and the next nine are told in the bag"),
        Parameter("plant", "", "the simulated plant"),
        Parameter("seed", "", "of the plant's noise"),
        Parameter("controller", "", "the controller's text"),
        Parameter("friction_file", "", "identified friction; its text goes into the bag where the controller uses it"),
        Parameter("state_timeout", 0.0, "s without a state until commanding stops; 0: the arm's", low=0.0, high=60.0),
        Parameter("residual", "", "what the learned torque may do"),
        Parameter("model", "", "bundle of the residual"),
        Parameter("delivery", "", "how messages get from node to node"),
        Parameter("reference", "", "what the arm is to do"),
        Parameter("publish_every", 1, "control periods per state that is published", low=1, high=1000),
    )

    def __init__(self) -> None:
        super().__init__("recorder")
        self.recording: Recording | None = None
        """The one under way, or the last."""

    def configure(self) -> None:
        """Reads all that the bag is to tell, and looks whether its folder is free."""
        self.directory = self._free_directory()
        self._arm = load_arm(self.values["arm"]) if self.values["arm"] else None
        self._told = self._describe(self._arm)
        self.speak("recorder")

    def activate(self) -> None:
        """Begins the bag and subscribes."""
        self.directory = self._free_directory()
        self._told = self._describe(self._arm)
        writer = BagWriter(self.directory, self.values["storage"], self._told.to_custom_data())
        self.recording = Recording(writer, [self._bag_topic(topic) for topic in RECORDED])
        self._warned = ""
        self._recorded = [self._record(topic, self.recording) for topic in RECORDED]

    def deactivate(self) -> None:
        """Completes the bag."""
        for subscription in self._recorded:
            self.destroy_subscription(subscription)
        assert self.recording is not None
        try:
            self.recording.finish()
        except RecordingError as error:
            self._fail(error)
            return
        self.get_logger().info(f"{sum(self.recording.counts.values())} messages in {self.directory}")
        self._warn()

    def reset(self) -> str:
        """There is nothing to reset."""
        return "recording goes on"

    def status(self) -> Status:
        """How much was written, what has not come yet, and what is missing."""
        assert self.recording is not None
        recording, losses = self.recording, self.recording.losses
        if recording.error is not None:
            self._fail(recording.error)
        fresh = self._warn()
        counts = recording.counts
        values = {
            "messages": sum(counts.values()),
            "silent": ", ".join(topic for topic, count in counts.items() if count == 0),
            "directory": self.directory,
            "saved": recording.saved,
            "lost_in_queue": sum(losses.queue.values()),
            "lost_on_network": sum(losses.network.values()) if losses.network_told else "unknown",
            "missing_states": losses.missing_states,
        }
        if recording.error is not None:
            return Status(ERROR, str(recording.error), values)
        return Status(WARN if fresh else OK, f"recording; {losses.text()}" if losses.text() else "recording", values)

    def _warn(self) -> bool:
        """Logs losses that nobody has been told of yet; tells whether there are any."""
        assert self.recording is not None
        text = self.recording.losses.text()
        fresh = text != self._warned
        if fresh:
            self.get_logger().warning(f"not in the bag: {text}")
            self._warned = text
        return fresh

    def _fail(self, error: Exception) -> None:
        if not self.failed:
            self.get_logger().fatal(f"recording ended: {error}")
        self.failed = True

    def _free_directory(self) -> Path:
        directory = Path(self.values["directory"] or f"runs/bag-{time.strftime('%Y%m%d-%H%M%S')}")
        if directory.exists():
            raise RecordingError(f"{directory} exists already; give the recorder another directory")
        return directory

    def _describe(self, arm: Arm | None) -> RecordingContext:
        given = self.values
        if given["model"] and arm is None:
            raise ConfigError("parameter model needs the parameter arm: bundles are found by the arm's name")
        friction = ""
        if given["friction_file"] and given["controller"] and needs_friction(given["controller"]):
            friction = _text_of(Path(given["friction_file"]))
        told = ("driver", "plant", "seed", "controller", "residual", "model", "delivery", "reference")
        return describe(
            arm,
            namespace=self.get_namespace(),
            friction=friction,
            state_timeout=f"{given['state_timeout']:g}" if given["state_timeout"] else "",
            labels=split_labels(given["labels"]),
            **{name: given[name] for name in told},
        )

    def _bag_topic(self, topic: Topic) -> BagTopic:
        kind = f"{topic.type.__module__.partition('.')[0]}/msg/{topic.type.__name__}"
        reliable = topic.qos.reliability == ReliabilityPolicy.RELIABLE
        latched = topic.qos.durability == DurabilityPolicy.TRANSIENT_LOCAL
        profile = qos_profile(reliable=reliable, latched=latched, depth=topic.qos.depth)
        return known_topic(self.resolve_topic_name(topic.name), kind, [profile])

    def _record(self, topic: Topic, recording: Recording) -> Any:
        name = self.resolve_topic_name(topic.name)
        losses = recording.losses
        holes = SequenceGaps(lambda: self.count_publishers(name))
        period = self._arm.period * self.values["publish_every"] if self._arm is not None else 0.0
        gaps = StampGaps(period) if topic is JOINT_STATES and period > 0.0 else None
        numbered = False

        def take(data: bytes, about: dict[str, Any]) -> None:
            nonlocal numbered
            number = about["publication_sequence_number"]
            if number is not None:
                numbered = losses.network_told = True
                if missing := holes.count(number):
                    losses.lose(losses.network, name, missing)
            if gaps is not None:
                losses.missing_states += gaps.count(data)
            recording.put(name, data, about["received_timestamp"] or time.time_ns(), about["source_timestamp"])

        def lost(event: Any) -> None:
            if not numbered:  # else the holes tell, also those that the middleware made itself
                losses.lose(losses.network, name, event.total_count_change)

        qos = QoSProfile(depth=QUEUE, reliability=topic.qos.reliability, durability=topic.qos.durability)
        try:
            heard = SubscriptionEventCallbacks(message_lost=lost)
            return self.create_subscription(topic.type, topic.name, take, qos, raw=True, event_callbacks=heard)
        except UnsupportedEventTypeError:
            losses.network_told = False
            return self.create_subscription(topic.type, topic.name, take, qos, raw=True)


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read: {error}") from error


def main() -> int:
    """Runs the node."""
    return run_node(Recorder)
