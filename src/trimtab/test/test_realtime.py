"""A refused wish is a line for people, never an exception."""

import ctypes
import gc
import os
import threading
import weakref

import pytest

from trimtab import realtime


def in_a_thread(function):
    """What a call gives in a thread of its own: scheduling is the thread's, and the tests' thread keeps its own."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def test_a_core_that_is_not_there_is_named():
    (line,) = in_a_thread(lambda: realtime.prepare_thread(cpu=4000))
    assert "core 4000" in line
    assert str(min(os.sched_getaffinity(0))) in line


def test_a_core_that_is_there_is_taken_by_the_thread_alone():
    core = max(os.sched_getaffinity(0))
    before = os.sched_getaffinity(0)
    assert in_a_thread(lambda: (realtime.prepare_thread(cpu=core), os.sched_getaffinity(0))) == ([], {core})
    assert os.sched_getaffinity(0) == before


def test_the_thread_is_woken_when_it_is_due():
    get_slack = 30  # PR_GET_TIMERSLACK [ns]
    libc = ctypes.CDLL(None)
    assert libc.prctl(get_slack, 0, 0, 0, 0) > 1
    assert in_a_thread(lambda: (realtime.prepare_thread(), libc.prctl(get_slack, 0, 0, 0, 0))) == ([], 1)


def test_refused_priority_says_what_to_do(monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "no")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    (line,) = realtime.prepare_thread(priority=50)
    assert "SCHED_FIFO priority 50: Operation not permitted" in line
    assert "rtprio" in line


def test_who_shares_the_interpreter_is_raised_too_and_a_refusal_is_no_error(monkeypatch):
    asked = {}

    def refuse(thread, policy, param):
        asked[thread] = (policy, param.sched_priority)
        raise PermissionError(1, "no")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    own = in_a_thread(lambda: (realtime.raise_companions(50), threading.get_native_id())[1])
    assert asked[threading.get_native_id()] == (os.SCHED_FIFO, 49)
    assert own not in asked


def test_refused_memory_says_what_to_do(monkeypatch):
    class Libc:
        @staticmethod
        def mlockall(_):
            ctypes.set_errno(12)
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Libc)
    (line,) = realtime.lock_memory()
    assert "Cannot allocate memory" in line
    assert "memlock" in line


@pytest.fixture
def collector():
    yield
    gc.enable()
    gc.unfreeze()


def test_garbage_waits_for_its_moment(collector):
    class Node:
        pass

    realtime.keep_garbage_out()
    node = Node()
    node.itself = node
    gone = []

    weakref.finalize(node, gone.append, True)
    del node
    assert not gc.isenabled()
    assert not gone
    realtime.collect_garbage()
    assert gone
