"""A bag's `metadata.yaml`, version 9 of rosbag2's format."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from rosbags.typesys import Stores, get_typestore

METADATA = "metadata.yaml"
VERSION = 9
DISTRO = "jazzy"
NO_TIME = 2**63 - 1  # what rosbag2 gives as the start of a bag without messages
FOR_EVER = {"sec": 9223372036, "nsec": 854775807}
Qos = dict[str, Any]


@dataclass(frozen=True)
class BagTopic:
    """A topic as a bag describes it."""

    name: str
    type: str
    """Such as sensor_msgs/msg/JointState."""
    definition: str
    """The type's definition with those of all types in it; empty where nobody knows it."""
    encoding: str
    """Of the definition: `ros2msg` or `ros2idl`."""
    hash: str
    """RIHS01 hash of the type; empty where nobody knows it."""
    qos: tuple[Qos, ...] = ()
    """Profiles that were offered, as version 9 writes them."""


@dataclass(frozen=True)
class Extent:
    """How much there is, and of which time [ns]."""

    counts: Mapping[str, int]
    """Messages by topic."""
    first: int = NO_TIME
    last: int = 0


class _Dumper(yaml.SafeDumper):
    """All texts in quotes, or as blocks where they have lines: other versions of YAML read other bare words as numbers."""


class _Text(str):
    """A text that must stay one, whatever it looks like."""


def _represent(dumper: yaml.SafeDumper, text: _Text) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style="|" if "\n" in text else '"')


_Dumper.add_representer(_Text, _represent)


def known_topic(name: str, kind: str, qos: Sequence[Qos] = ()) -> BagTopic:
    """A topic of a type that ROS itself has."""
    store = get_typestore(Stores.ROS2_JAZZY)
    definition, _ = store.generate_msgdef(kind, ros_version=2)
    return BagTopic(name, kind, definition, "ros2msg", store.hash_rihs01(kind), tuple(qos))


def qos_profile(*, reliable: bool, latched: bool, depth: int) -> Qos:
    """A profile that keeps the last `depth` messages; latched: newcomers get them too."""
    return {
        "history": "keep_last",
        "depth": depth,
        "reliability": "reliable" if reliable else "best_effort",
        "durability": "transient_local" if latched else "volatile",
        "deadline": dict(FOR_EVER),
        "lifespan": dict(FOR_EVER),
        "liveliness": "automatic",
        "liveliness_lease_duration": dict(FOR_EVER),
        "avoid_ros_namespace_conventions": False,
    }


def qos_text(profiles: Sequence[Qos]) -> str:
    """Profiles as the storages hold them: YAML in a text."""
    return yaml.safe_dump([dict(profile) for profile in profiles], sort_keys=False).strip() if profiles else ""


def metadata(
    storage: str, file: str, topics: Sequence[BagTopic], extent: Extent, custom: Mapping[str, str]
) -> dict[str, Any]:
    """What stands under `rosbag2_bagfile_information`."""
    count = sum(extent.counts.values())
    start = {"nanoseconds_since_epoch": extent.first if count else NO_TIME}
    duration = {"nanoseconds": extent.last - extent.first if count else 0}
    return {
        "version": VERSION,
        "storage_identifier": storage,
        "duration": duration,
        "starting_time": start,
        "message_count": count,
        "topics_with_message_count": [
            {
                "topic_metadata": {
                    "name": topic.name,
                    "type": topic.type,
                    "serialization_format": "cdr",
                    "offered_qos_profiles": [dict(profile) for profile in topic.qos],
                    "type_description_hash": topic.hash,
                },
                "message_count": extent.counts.get(topic.name, 0),
            }
            for topic in topics
        ],
        "compression_format": "",
        "compression_mode": "",
        "relative_file_paths": [file],
        "files": [{"path": file, "starting_time": dict(start), "duration": dict(duration), "message_count": count}],
        "custom_data": {_Text(key): _Text(value) for key, value in custom.items()} or None,
        "ros_distro": DISTRO,
    }


def to_yaml(document: Mapping[str, Any]) -> str:
    """The text of `metadata.yaml`, or of a part of it."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)
    return text


def to_file(information: Mapping[str, Any]) -> str:
    """The whole file."""
    return to_yaml({"rosbag2_bagfile_information": information})
