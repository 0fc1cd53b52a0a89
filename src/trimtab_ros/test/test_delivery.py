"""Direct calls between nodes of one process, and an outbox that holds nobody up."""

import threading

import pytest

from trimtab_ros.delivery import ComposedOutlet, Exchange, Outbox, Turn


class Publisher:
    """Stands for rclpy's, whose handle cannot be had without a context."""

    topic_name = "/topic"

    def __init__(self):
        self.sent = []

    def publish(self, message):
        self.sent.append(message)


@pytest.fixture
def exchange(monkeypatch):
    monkeypatch.setattr("trimtab_ros.delivery.sender", lambda publisher: publisher.publish)
    made = Exchange(("residual", "controller", "driver"))
    yield made
    made.outbox.close()


def settle(exchange):
    """Waits until the outbox has sent all that it had."""
    done = threading.Event()
    exchange.outbox.post([(lambda _: done.set(), lambda payload: payload, None)])
    assert done.wait(10)


def test_who_is_first_in_the_order_hears_first(exchange):
    heard = []
    for node in ("driver", "residual", "controller"):
        exchange.listen("/state", node, lambda payload, node=node: heard.append((node, payload)), pytest.fail)
    exchange.deliver("/state", 7)
    assert heard == [("residual", 7), ("controller", 7), ("driver", 7)]


def test_who_has_ended_hears_nothing(exchange):
    heard = []
    end = exchange.listen("/state", "driver", heard.append, pytest.fail)
    end()
    exchange.deliver("/state", 7)
    assert not heard


def test_a_listener_that_raises_is_told_and_the_others_hear_on(exchange):
    told, heard = [], []
    exchange.listen("/state", "residual", lambda _: 1 / 0, told.append)
    exchange.listen("/state", "controller", heard.append, pytest.fail)
    exchange.deliver("/state", 7)
    assert heard == [7]
    assert "ZeroDivisionError" in told[0]


def test_dds_gets_a_cycle_s_messages_after_its_end(exchange):
    publisher = Publisher()
    outlet = ComposedOutlet(exchange, "/state", publisher, str, thinned=True)
    exchange.begin()
    outlet.publish(1)
    outlet.publish(2)
    settle_from_elsewhere = threading.Thread(target=settle, args=(exchange,))
    settle_from_elsewhere.start()
    settle_from_elsewhere.join()
    assert publisher.sent == []
    exchange.end()
    settle(exchange)
    assert publisher.sent == ["1", "2"]


def test_every_nth_cycle_of_a_thinned_stream(exchange):
    publisher, events = Publisher(), Publisher()
    stream = ComposedOutlet(exchange, "/state", publisher, str, thinned=True)
    rare = ComposedOutlet(exchange, "/event", events, str, thinned=False)
    exchange.every = 3
    for cycle in range(7):
        exchange.begin()
        stream.publish(cycle)
        rare.publish(cycle)
        exchange.end()
    settle(exchange)
    assert publisher.sent == ["0", "3", "6"]
    assert events.sent == [str(cycle) for cycle in range(7)]


def test_a_blocked_dds_holds_nobody_up_and_what_is_dropped_is_counted():
    outbox, gate, sent = Outbox(most_waiting=5), threading.Event(), []

    def send(message):
        gate.wait()
        sent.append(message)

    started = threading.Event()
    outbox.post([(lambda _: started.set(), str, 0)])
    assert started.wait(10)
    for message in range(20):
        outbox.post([(send, str, message)])  # returns at once, or this test never ends
    assert 14 <= outbox.dropped <= 15  # one may be in the sender's hands
    gate.set()
    outbox.close()
    assert sent == [str(message) for message in range(20 - outbox.dropped)]


def test_a_dds_that_fails_is_told_once_and_counted():
    outbox, told = Outbox(), []
    outbox.problem = told.append

    def send(_):
        raise RuntimeError("context is gone")

    outbox.post([(send, str, 1), (send, str, 2)])
    outbox.close()
    assert outbox.failed == 2
    assert len(told) == 1
    assert "context is gone" in told[0]


def test_a_loop_that_never_sleeps_gives_way():
    turn, heard, stop = Turn(), threading.Event(), threading.Event()

    def loop():
        while not stop.is_set():
            with turn, turn:  # again for who has it
                pass
            turn.give_way()

    def callback():
        with turn:
            heard.set()

    busy = threading.Thread(target=loop, daemon=True)
    busy.start()
    try:
        for _ in range(20):
            heard.clear()
            threading.Thread(target=callback, daemon=True).start()
            assert heard.wait(10)
    finally:
        stop.set()
        busy.join(10)
