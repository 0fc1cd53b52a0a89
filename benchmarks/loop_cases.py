#!/usr/bin/env python3
"""One case of `loop.py` in a process of its own: runs it for some seconds and prints the result as JSON.

Everything here is timed in a loop with deadlines, after a sleep, as on a robot: the same calls in a tight loop find their
code and data in the caches and take a third of the time.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from trimtab.realtime import prepare_thread
from trimtab.timing import ANSWER, CYCLE, NAMES, CycleTimes, Spread, spreads_of

if TYPE_CHECKING:
    from trimtab_ros.plan import Process

WARM_UP = 2.0  # s before counting starts
PATIENCE = 60.0  # s until nodes must have found each other
Result = dict[str, Any]


class KeptTimes(CycleTimes):
    """Stage times that outlive the diagnostics, which take them once a second."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[np.ndarray] = []

    def take(self) -> np.ndarray:
        """The rows since the last call; also kept."""
        rows = super().take()
        self.kept.append(rows)
        return rows


def spread(nanoseconds: list[int]) -> Result:
    """Percentiles [us] of durations."""
    return Spread.of(np.array(nanoseconds, dtype=np.float64) * 1e-3)._asdict()


def paced(rate: float, seconds: float, body: Callable[[], None]) -> tuple[int, int]:
    """Calls `body` at absolute deadlines, as plain as Python allows; gives cycles and deadlines that passed unnoticed."""
    period, start, beat, cycles, missed = 1.0 / rate, time.monotonic(), 0, 0, 0
    while beat * period < seconds:
        body()
        cycles += 1
        beat += 1
        left = start + beat * period - time.monotonic()
        if left > 0.0:
            time.sleep(left)
        else:
            late = 1 + int(-left / period)
            missed += late
            beat += late - 1
    return cycles, missed


def bare_loop(options: argparse.Namespace) -> Result:
    """An empty body: what this machine does to any loop of this period."""
    refused = prepare_thread(options.priority, options.cpu)
    gc.freeze()
    gc.disable()
    paced(options.rate, 1.0, lambda: None)
    cycles, missed = paced(options.rate, options.seconds, lambda: None)
    return {"cycles": cycles, "missed": missed, "refused": refused}


def floor(options: argparse.Namespace) -> Result:
    """The library calls that no implementation can do without, bare, at the same pace."""
    import mujoco
    import onnxruntime
    import pinocchio as pin

    from trimtab.arm import load_arm
    from trimtab.dynamics import RigidBody
    from trimtab.plant import Plant, load_gap
    from trimtab.residual.bundle import load_bundle
    from trimtab.residual.inspection import session_options

    arm = load_arm(options.arm)
    plant = Plant(arm, load_gap("nominal", arm))
    model = RigidBody(arm).model
    data = model.createData()
    q, zeros = np.array(arm.home, dtype=np.float64), np.zeros(arm.dof)
    run: Callable[[], Any] = lambda: None  # noqa: E731
    if options.model:
        bundle = load_bundle(options.model, arm)
        session = onnxruntime.InferenceSession(bundle.model, session_options(), providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        arrays = [
            (one.name, np.zeros([d if isinstance(d, int) else 1 for d in one.shape], np.float32)) for one in _ends(session)
        ]
        for name, array in arrays[: len(session.get_inputs())]:
            binding.bind_input(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
        for name, array in arrays[len(session.get_inputs()) :]:
            binding.bind_output(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)

        def run() -> None:
            session.run_with_iobinding(binding)

    times: dict[str, list[int]] = {"pinocchio": [], "onnxruntime": [], "mujoco": [], "libraries": []}

    def body() -> None:
        a = perf_counter_ns()
        pin.rnea(model, data, q, zeros, zeros)
        b = perf_counter_ns()
        run()
        c = perf_counter_ns()
        mujoco.mj_step(plant.model, plant.data, plant.substeps)
        d = perf_counter_ns()
        for name, value in zip(times, (b - a, c - b, d - c, c - a), strict=True):
            times[name].append(value)

    gc.freeze()
    gc.disable()
    paced(options.rate, 1.0, body)
    for column in times.values():
        column.clear()
    paced(options.rate, options.seconds, body)
    return {name: spread(column) for name, column in times.items()}


def _ends(session: Any) -> list[Any]:
    return [*session.get_inputs(), *session.get_outputs()]


def ping(options: argparse.Namespace) -> Result:
    """Bare rclpy: a state goes out, a torque comes back from another process, both with the stock executor."""
    import rclpy
    from sensor_msgs.msg import JointState

    from trimtab.arm import load_arm
    from trimtab_ros.messages import state_message, to_nanoseconds
    from trimtab_ros.topics import SENSOR

    arm = load_arm(options.arm)
    q, qd = np.array(arm.home, dtype=np.float64), np.zeros(arm.dof)
    rclpy.init()
    node = rclpy.create_node("ping")
    publisher = node.create_publisher(JointState, "ping", SENSOR)
    sent: dict[int, int] = {}
    latencies: list[int] = []

    def send() -> None:
        now = perf_counter_ns()
        sent[now] = now
        publisher.publish(state_message(now, arm.joints, q, qd))

    def receive(message: JointState) -> None:
        latencies.append(perf_counter_ns() - sent.pop(to_nanoseconds(message.header.stamp)))

    node.create_subscription(JointState, "pong", receive, SENSOR)
    with children({"pong": [sys.executable, __file__, "pong", "--arm", options.arm]}):
        timer = node.create_timer(1.0 / options.rate, send)
        until(lambda: bool(latencies) or rclpy.spin_once(node, timeout_sec=0.1), "pong")
        spin(lambda: rclpy.spin_once(node, timeout_sec=0.1), WARM_UP)
        latencies.clear()
        spin(lambda: rclpy.spin_once(node, timeout_sec=0.1), options.seconds)
        timer.cancel()
    node.destroy_node()
    rclpy.try_shutdown()
    return {ANSWER: spread(latencies), "count": len(latencies)}


def pong(options: argparse.Namespace) -> Result:
    """The other side of `ping`."""
    import rclpy
    from rclpy.executors import ExternalShutdownException
    from sensor_msgs.msg import JointState

    from trimtab.arm import load_arm
    from trimtab_ros.messages import to_nanoseconds, torque_message
    from trimtab_ros.topics import SENSOR

    arm = load_arm(options.arm)
    torque = np.zeros(arm.dof)
    rclpy.init()
    node = rclpy.create_node("pong")
    publisher = node.create_publisher(JointState, "pong", SENSOR)

    def answer(message: JointState) -> None:
        publisher.publish(torque_message(to_nanoseconds(message.header.stamp), arm.joints, torque))

    node.create_subscription(JointState, "ping", answer, SENSOR)
    try:
        rclpy.spin(node)
    except (KeyboardInterrupt, ExternalShutdownException):
        rclpy.try_shutdown()
    return {}


def stack(options: argparse.Namespace) -> Result:
    """The arm's nodes, composed or in processes; the driver's loop runs in this process."""
    import rclpy

    from trimtab.names import COMPOSED
    from trimtab.realtime import SHORT_TURNS
    from trimtab_ros.arm_node import compose
    from trimtab_ros.hosting import Host, start
    from trimtab_ros.managed import ManagedNode
    from trimtab_ros.plan import plan
    from trimtab_ros.sim_bridge_node import SimBridge
    from trimtab_ros.up import command_line

    given = {"plant": options.plant, "controller": options.controller, "delivery": options.delivery}
    given |= {"reference": "none", "namespace": options.namespace, "publish_every": str(options.publish_every)}
    given |= {"priority": str(options.priority), "cpu": str(options.cpu)}
    given |= {"state_timeout": "5.0", "command_timeout": "5.0"}  # a busy machine is measured, not stopped
    given |= {"residual": "on", "model": options.model} if options.model else {}
    composed = options.delivery == COMPOSED
    times = KeptTimes()
    with tempfile.TemporaryDirectory() as place:
        processes = of_arm(plan(given), options.arm)
        file = processes[0].write_parameters(Path(place))
        rclpy.init(args=["loop", *command_line(processes[0], file)[4:]])
        nodes: list[ManagedNode] = compose(times) if composed else [SimBridge()]
        bridge = nodes[-1]
        assert isinstance(bridge, SimBridge)
        bridge.times = times
        if composed:
            sys.setswitchinterval(SHORT_TURNS)
        with children_of_plan([] if composed else processes[1:], Path(place)), Host(nodes) as host:
            if not start(nodes):
                raise SystemExit("the nodes did not start; see above")
            patience = time.monotonic() + PATIENCE
            host.serve(lambda: not _answers(times) and time.monotonic() < patience)
            if not _answers(times):
                raise SystemExit(f"no command within {PATIENCE:g} s")
            host.serve(_for(WARM_UP))
            times.take()
            times.kept.clear()
            missed, begin = bridge.deadline_misses, time.monotonic()
            host.serve(_for(options.seconds))
            seconds, missed = time.monotonic() - begin, bridge.deadline_misses - missed
            times.take()
        for node in reversed(nodes):
            node.stop()
        unpublished = 0
        if nodes[0].exchange is not None:
            unpublished = nodes[0].exchange.outbox.dropped + nodes[0].exchange.outbox.failed
            nodes[0].exchange.outbox.close()
        for node in nodes:
            node.destroy_node()
        rclpy.try_shutdown()
    spreads = spreads_of(np.concatenate(times.kept))
    cycles = sum(len(rows) for rows in times.kept)
    result: Result = {name: spreads[name]._asdict() for name in (*NAMES, CYCLE, ANSWER) if name in spreads}
    return {**result, "cycles": cycles, "missed": missed, "rate_hz": cycles / seconds, "unpublished": unpublished}


def _for(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() < end


def _answers(times: CycleTimes) -> bool:
    return ANSWER in times.spreads()


def spin(step: Callable[[], Any], seconds: float) -> None:
    """Calls a step over and over for a while."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        step()


def until(happened: Callable[[], Any], what: str) -> None:
    """Calls until it gives something true."""
    end = time.monotonic() + PATIENCE
    while not happened():
        if time.monotonic() > end:
            raise SystemExit(f"no {what} within {PATIENCE:g} s")


@contextmanager
def children(commands: dict[str, list[str]]) -> "Iterator[dict[str, subprocess.Popen[bytes]]]":
    """Runs processes beside, by name; they are ended in any case."""
    from trimtab_ros.up import end

    started: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, command in commands.items():
            started[name] = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        yield started
    finally:
        end(list(started.values()))


def of_arm(processes: "list[Process]", arm: str) -> "list[Process]":
    """The same processes for any contract: a launch takes only arms by name, a node takes a path too."""
    return [
        replace(one, parameters={**one.parameters, "arm": arm}, nodes=tuple(of_arm([*one.nodes], arm))) for one in processes
    ]


def children_of_plan(
    processes: "list[Process]", folder: Path
) -> "AbstractContextManager[dict[str, subprocess.Popen[bytes]]]":
    """Runs processes of a bring-up plan beside; their parameter files go to the folder."""
    from trimtab_ros.up import command_line

    return children({one.name: command_line(one, one.write_parameters(folder)) for one in processes})


CASES: dict[str, Callable[[argparse.Namespace], Result]] = {
    "bare_loop": bare_loop,
    "floor": floor,
    "ping": ping,
    "pong": pong,
    "stack": stack,
}


def main() -> int:
    """Runs the case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--arm", default="ur5e")
    parser.add_argument("--plant", default="nominal")
    parser.add_argument("--controller", default="computed_torque")
    parser.add_argument("--model", default="")
    parser.add_argument("--delivery", default="composed")
    parser.add_argument("--namespace", default="")
    parser.add_argument("--publish-every", type=int, default=1)
    parser.add_argument("--priority", type=int, default=0)
    parser.add_argument("--cpu", type=int, default=-1)
    parser.add_argument("--rate", type=float, default=500.0, help="Hz, of loops without an arm")
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    print(json.dumps(CASES[options.case](options)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
