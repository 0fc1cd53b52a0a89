"""The bag of a live replay: states as sent and what came back, each at the stamp of the state that it belongs to."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from trimtab.bag import whole_bag
from trimtab.recording.metadata import known_topic
from trimtab.recording.writer import BagWriter
from trimtab_ros.topics import Topic


class AnswersBag:
    """A bag that is there as a whole when the replay has ended."""

    def __init__(self, writer: BagWriter, topics: Sequence[tuple[str, Topic]]) -> None:
        self._writer = writer
        self._numbers = {topic.name: writer.add_topic(known_topic(name, type_name(topic))) for name, topic in topics}

    @classmethod
    @contextmanager
    def growing(cls, folder: Path, topics: Sequence[tuple[str, Topic]]) -> Iterator["AnswersBag"]:
        """A bag of these topics, by the names that they have in the graph; whole at the end of the block."""
        with whole_bag(folder) as writer:
            yield cls(writer, topics)

    def write(self, topic: Topic, stamp: int, data: bytes) -> None:
        """One serialised message; stamp: the bag's time of it [ns]."""
        self._writer.write(self._numbers[topic.name], max(0, stamp), data)

    def tell(self, custom: Mapping[str, str]) -> None:
        """Adds to the bag's metadata."""
        self._writer.custom |= custom


def type_name(topic: Topic) -> str:
    """`sensor_msgs/msg/JointState`."""
    return f"{topic.type.__module__.partition('.')[0]}/msg/{topic.type.__name__}"
