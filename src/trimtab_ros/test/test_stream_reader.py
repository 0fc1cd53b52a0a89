"""Streams are taken by a thread of their own: what was added is heard, what is gone is not, errors come out."""

import threading

import pytest
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState

from trimtab_ros.stream_reader import NotForExecutors, StreamReader
from trimtab_ros.topics import RELIABLE


@pytest.fixture
def reader(graph):
    made = StreamReader(graph.context)
    made.start()
    yield made
    made.close()


def subscribe(graph, reader, name, callback):
    """A subscription that no executor serves, and somebody who publishes to it."""
    subscription = graph.node.create_subscription(JointState, name, callback, RELIABLE, callback_group=NotForExecutors())
    publisher = graph.node.create_publisher(JointState, name, RELIABLE)
    reader.add(subscription, callback)
    graph.until(publisher.get_subscription_count, "the subscription")
    return subscription, publisher


def test_messages_of_all_streams_come_in_a_thread_of_their_own(graph, reader):
    heard, threads = {"a": [], "b": []}, set()

    def hear(name, message):
        heard[name].append(deserialize_message(message, JointState).name[0])
        threads.add(threading.current_thread().name)

    publishers = [subscribe(graph, reader, name, lambda m, name=name: hear(name, m))[1] for name in heard]
    for number in range(5):
        for publisher in publishers:
            publisher.publish(JointState(name=[str(number)]))
    graph.until(lambda: all(len(found) == 5 for found in heard.values()), "the messages")
    assert heard == {"a": list("01234"), "b": list("01234")}
    assert threads == {"streams"}


@pytest.mark.parametrize("destroyed_first", [False, True])
def test_what_is_removed_is_heard_no_more_and_the_others_are(graph, reader, destroyed_first):
    gone, kept = [], []
    subscription, publisher = subscribe(graph, reader, "gone", gone.append)
    _, other = subscribe(graph, reader, "kept", kept.append)
    if destroyed_first:
        graph.node.destroy_subscription(subscription)
    reader.remove(subscription)
    publisher.publish(JointState())
    other.publish(JointState())
    graph.until(lambda: kept, "the other stream")
    assert gone == []
    assert reader.failure is None


def test_an_error_of_a_callback_ends_the_thread_and_is_kept(graph, reader):
    def fail(_):
        raise RuntimeError("no such joint")

    _, publisher = subscribe(graph, reader, "a", fail)
    publisher.publish(JointState())
    graph.until(lambda: reader.failure is not None, "the error")
    assert "no such joint" in str(reader.failure)


def test_it_ends_also_where_nothing_was_ever_added(graph):
    made = StreamReader(graph.context)
    made.start()
    made.close()
    assert made.failure is None
