"""Publishing past rclpy: the same message arrives, other threads run meanwhile, and what cannot be sent is told."""

import pytest
from sensor_msgs.msg import JointState

from trimtab_ros import raw_publisher
from trimtab_ros.raw_publisher import sender
from trimtab_ros.topics import RELIABLE


def message_of(number: float) -> JointState:
    message = JointState(name=["a", "b"], position=[number, -number], velocity=[], effort=[1e-300])
    message.header.stamp.sec, message.header.frame_id = 7, "base"
    return message


@pytest.mark.parametrize("plain", [False, True], ids=["rcl", "rclpy"])
def test_what_is_sent_arrives_as_it_is(graph, monkeypatch, plain):
    """Also where rcl cannot be called directly: then rclpy publishes."""
    if plain:
        monkeypatch.setattr(raw_publisher, "_calls", lambda: None)
    heard = []
    publisher = graph.node.create_publisher(JointState, "numbers", RELIABLE)
    graph.node.create_subscription(JointState, "numbers", heard.append, RELIABLE)
    graph.until(publisher.get_subscription_count, "the subscription")
    send = sender(publisher)
    for number in range(3):
        send(message_of(float(number)))
    graph.until(lambda: len(heard) == 3, "the messages")
    assert heard == [message_of(float(number)) for number in range(3)]


def test_the_libraries_are_found_here(graph):
    assert raw_publisher._calls() is not None


def test_a_publisher_that_is_gone_is_told(graph):
    publisher = graph.node.create_publisher(JointState, "numbers", RELIABLE)
    send = sender(publisher)
    graph.node.destroy_publisher(publisher)
    with pytest.raises(RuntimeError, match="destroyed"):
        send(message_of(1.0))
