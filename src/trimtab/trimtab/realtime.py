"""What a machine can do for a loop that must not be late: scheduling class, a core of its own, memory that stays."""

import ctypes
import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

MCL_CURRENT, MCL_FUTURE = 1, 2
PR_SET_TIMERSLACK = 29
HOW_TO_PRIORITY = "give the user an rtprio limit (/etc/security/limits.conf) or the process CAP_SYS_NICE"
HOW_TO_MEMORY = "give the user a memlock limit (/etc/security/limits.conf) or the process CAP_IPC_LOCK"
SHORT_TURNS = 1e-4  # s; how long another Python thread may keep the interpreter while the loop waits for it


def prepare_thread(priority: int = 0, cpu: int = -1) -> list[str]:
    """Asks for SCHED_FIFO with a priority (0: no) and one core (-1: any) for the calling thread, and for prompt timers.

    Gives a line for each wish that the machine refused, with what to do about it; the loop runs on without it.
    """
    refused = []
    _wake_promptly()
    if cpu >= 0:
        try:
            os.sched_setaffinity(0, {cpu})
        except (OSError, AttributeError) as error:
            available = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else "unknown"
            refused.append(f"the loop is not bound to core {cpu}: {_reason(error)}; cores of this process: {available}")
    if priority > 0:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
        except (OSError, AttributeError) as error:
            refused.append(f"the loop has no SCHED_FIFO priority {priority}: {_reason(error)}; {HOW_TO_PRIORITY}")
    return refused


def _wake_promptly() -> None:
    """Linux wakes a thread without SCHED_FIFO up to 50 us late, to wake others along with it, unless it asks otherwise."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, ctypes.c_ulong(1), 0, 0, 0)


def raise_companions(priority: int) -> None:
    """SCHED_FIFO, one below `priority`, for the process's other Python threads and those that they start.

    A thread that is kept from running while it holds Python's lock keeps the loop waiting, whatever the loop's priority.
    What the machine refuses was told when the loop asked (`prepare_thread`).
    """
    for thread in threading.enumerate():
        if thread.native_id is not None and thread.native_id != threading.get_native_id():
            with suppress(OSError, AttributeError):
                os.sched_setscheduler(thread.native_id, os.SCHED_FIFO, os.sched_param(max(1, priority - 1)))


def lock_memory() -> list[str]:
    """Keeps the whole process in memory, what it will get included; a line if the machine refuses."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mlockall(MCL_CURRENT | MCL_FUTURE) == 0:
            return []
        reason = os.strerror(ctypes.get_errno())
    except (OSError, AttributeError) as error:
        reason = _reason(error)
    return [f"memory is not locked: {reason}; {HOW_TO_MEMORY}"]


def keep_garbage_out() -> None:
    """From here on the collector does not run by itself, and passes over all that exists now.

    Who calls this collects at moments of its own choice (`collect_garbage`), when nobody waits.
    """
    gc.collect()
    gc.freeze()
    gc.disable()


@contextmanager
def garbage_kept_out() -> Iterator[None]:
    """The same for a while, for a long computation: looking through all that exists again and again is lost time."""
    enabled = gc.isenabled()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if enabled:
            gc.enable()


def collect_garbage() -> None:
    """A full collection of what came since `keep_garbage_out`: little, so it takes little."""
    gc.collect()


def _reason(error: Exception) -> str:
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
