"""The simulated arm as a node: takes `torque_command`, gives `joint_states`, owns the clock where time is simulated."""

import math
import threading
import time
import traceback
from collections.abc import Callable
from typing import ClassVar

from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState

from trimtab.arm import load_arm
from trimtab.command_gate import CommandGate
from trimtab.dynamics import RigidBody
from trimtab.errors import TrimtabError
from trimtab.faults import Level
from trimtab.plant import Plant, load_gap
from trimtab_ros.diagnostics import ERROR, OK, WARN, LoopMeter
from trimtab_ros.managed import ManagedNode, run_node
from trimtab_ros.messages import NANOSECONDS, state_message, to_nanoseconds, to_time, torque_array
from trimtab_ros.parameters import ARM, Parameter
from trimtab_ros.topics import CLOCK, JOINT_STATES, TORQUE_COMMAND
from trimtab_ros.viewer import Viewer, open_viewer

RETRY = 0.05  # s after which lockstep sends an unanswered state again: best-effort messages may be lost
LONGEST_CATCH_UP = 1.0  # s that the physics makes up for after a stall; a longer one moves the epoch instead
CLOCK_RATE = 100.0  # Hz of /clock, in simulated time


class SimBridge(ManagedNode):
    """Runs the plant in a thread of its own, in real time or in lockstep with the controller."""

    parameters: ClassVar = (
        ARM,
        Parameter("plant", "nominal", "name of a plant in config/plants, or the path of a plant file"),
        Parameter("seed", 0, "seed of the plant's noise", low=0, high=2**31 - 1),
        Parameter("mode", "real_time", "who sets the pace: the wall clock, or each command", ("real_time", "lockstep")),
        Parameter("command_timeout", 0.0, "s without a command until the arm is damped; 0: the arm's", low=0.0, high=60.0),
        Parameter("viewer", False, "open MuJoCo's window (needs a display)"),
    )

    def __init__(self) -> None:
        super().__init__("sim_bridge")
        self._stop = threading.Event()
        self._answered = threading.Condition()
        self._thread: threading.Thread | None = None

    def configure(self) -> None:
        """Builds the plant."""
        arm = self._arm = load_arm(self.values["arm"])
        self._plant = Plant(arm, load_gap(self.values["plant"], arm), self.values["seed"])
        self._order = arm.order()
        timeout = self.values["command_timeout"] or arm.timeouts.command
        self._lockstep = self.values["mode"] == "lockstep"
        self._gate = CommandGate(arm, RigidBody(arm), timeout, fresh=timeout if self._lockstep else None)
        self._simulated_time = bool(self.get_parameter("use_sim_time").value) or self._lockstep
        self._meter = LoopMeter()
        self._stamp = -1
        self._answered_stamp = -1
        self._latched = Level.NOMINAL
        self._states = self.publisher(JOINT_STATES)
        self._clock_publisher = self.publisher(CLOCK) if self._simulated_time else None
        self._diagnostics = self.speak(arm.name)
        self.subscribe(TORQUE_COMMAND, self._on_command)

    def activate(self) -> None:
        """Starts the plant's thread at the home posture."""
        self._plant.reset(self._arm.home)
        self._gate.reset()
        self._stamp = self._answered_stamp = -1
        self._done = self._epoch = 0
        self._latched = Level.NOMINAL
        self._viewer: Viewer | None = None
        if self.values["viewer"]:
            self._viewer = open_viewer(self._plant.model, self._plant.data)
        self._stop.clear()
        loop = self._run_lockstep if self._lockstep else self._run_real_time
        self._thread = threading.Thread(target=self._guard, args=(loop,), name="plant", daemon=True)
        self._thread.start()

    def deactivate(self) -> None:
        """Stops the plant's thread."""
        self._stop.set()
        with self._answered:
            self._answered.notify_all()
        if self._thread is not None:
            self._thread.join()
        if self._viewer is not None:
            self._viewer.close()

    def reset(self) -> str:
        """Forgets the fault; the arm is damped until a command comes."""
        with self._answered:
            was = str(self._gate.latch)
            self._gate.reset()
            self._latched = Level.NOMINAL
        return f"was {was}; damped until a command comes"

    def report(self) -> None:
        """Loop rate, misses, age of the command, fault."""
        with self._answered:
            age, fault, waiting = self._gate.age(self._now()), str(self._gate.latch), self._gate.waiting
            level = self._gate.latch.level
            periods, damped = self._gate.periods, self._gate.damped_periods
            self._gate.periods = self._gate.damped_periods = 0
        if level is not Level.NOMINAL:
            status, message = ERROR, fault
        elif waiting:
            status, message = WARN, "damped: waiting for the first command"
        elif damped > 0:
            status, message = (
                WARN,
                f"following commands, but damped in {damped} of {periods} periods for want of a fresh one",
            )
        else:
            status, message = OK, "following commands"
        self._diagnostics.publish(
            status,
            message,
            {
                "rate_hz": self._meter.rate(),
                "expected_rate_hz": self._arm.rate,
                "deadline_misses": self._meter.misses,
                "command_age_s": -1.0 if age is None else age,
                "damped_periods": damped,
                "fault": fault,
                "plant": self._plant.gap.name,
                "mode": self.values["mode"],
            },
        )

    def _on_command(self, message: JointState) -> None:
        if not self.active:
            return
        stamp = to_nanoseconds(message.header.stamp)
        with self._answered:
            if stamp > self._stamp:
                self._gate.refuse("torque command refused: it answers a state that was never sent", self._now())
            elif stamp == self._stamp or not self._lockstep:
                try:
                    # A command is as old as the state that it answers, not as its way here was long.
                    measured = self._now() if self._lockstep else (stamp - self._epoch) / NANOSECONDS
                    self._gate.accept(torque_array(message, self._order), measured)
                except TrimtabError as error:
                    self._gate.refuse(f"torque command refused: {error}", self._now())
            self._answered_stamp = stamp
            self._answered.notify_all()

    def _now(self) -> float:
        """The gate's clock [s].

        In real time it is the plant's: steps that a late process makes up for count as if they had been in time. In
        lockstep the plant waits for commands, so only the wall clock can tell that none comes any more.
        """
        return time.monotonic() if self._lockstep else self._done * self._arm.period

    # The plant's thread ----------------------------------------------------------------------------------------------

    def _guard(self, loop: Callable[[], None]) -> None:
        """An exception in the thread ends the process: without a plant there is no bridge."""
        try:
            loop()
        except Exception:
            self.get_logger().fatal(f"the plant's thread ended:\n{traceback.format_exc()}")
            self.failed = True

    def _run_real_time(self) -> None:
        period = self._arm.period
        every = max(1, round(self._arm.rate / CLOCK_RATE))
        self._epoch = 0 if self._simulated_time else time.time_ns()
        start = time.monotonic()
        self._done = 0
        while not self._stop.is_set():
            self._publish_state(self._epoch + round(self._done * period * NANOSECONDS), clock=self._done % every == 0)
            due = start + (self._done + 1) * period
            wait = due - time.monotonic()
            if wait > 0.0:
                self._stop.wait(wait)
            # The world does not wait for a late process: what was missed is simulated now, and commands age with it.
            late = math.floor((time.monotonic() - due) / period) if wait <= 0.0 else 0
            if late > 0:
                self._meter.miss(late)
                if late * period > LONGEST_CATCH_UP:
                    self.get_logger().warning(f"stalled for {late * period:.2f} s; the plant was not moved meanwhile")
                    start += late * period
                    self._epoch += 0 if self._simulated_time else round(late * period * NANOSECONDS)
                    if not self._gate.waiting:
                        self._gate.refuse(f"the simulation stalled for {late * period:.2f} s", self._now())
                    late = 0
            for missed in range(1 + late):
                if missed > 0:
                    self._last_state = self._plant.measure()  # damping must see the speed that it brakes
                self._step_plant()
                self._done += 1
            self._show()

    def _run_lockstep(self) -> None:
        period = self._arm.period
        every = max(1, round(self._arm.rate / CLOCK_RATE))
        self._done = 0
        while not self._stop.is_set():
            stamp = round(self._done * period * NANOSECONDS)
            self._publish_state(stamp, clock=self._done % every == 0)
            resend = time.monotonic() + RETRY
            with self._answered:
                while not self._may_step(stamp):
                    self._answered.wait(RETRY)
                    if time.monotonic() > resend and not self._stop.is_set():
                        self._publish_state(stamp, clock=True)
                        resend = time.monotonic() + RETRY
                if self._stop.is_set():
                    return
                latched = self._gate.latch.level is not Level.NOMINAL
            if latched:
                self._stop.wait(period)  # nobody sets the pace any more: damp in real time
            self._step_plant()
            self._done += 1
            self._show()

    def _may_step(self, stamp: int) -> bool:
        """Lockstep goes on when the state is answered, when the wait became a fault, or at the end."""
        self._gate.notice_silence(self._now())
        faulty = self._gate.latch.level is not Level.NOMINAL
        return self._answered_stamp == stamp or faulty or self._stop.is_set()

    def _publish_state(self, stamp: int, clock: bool) -> None:
        if stamp != self._stamp:
            self._last_state = self._plant.measure()
        self._stamp = stamp
        if clock and self._clock_publisher is not None:
            self._clock_publisher.publish(Clock(clock=to_time(stamp)))
        self._states.publish(state_message(stamp, self._arm.joints, *self._last_state))

    def _step_plant(self) -> None:
        q, qd = self._last_state
        with self._answered:
            torque = self._gate.torque(q, qd, self._now())
            fault = str(self._gate.latch)
            risen = self._gate.latch.level > self._latched
            self._latched = self._gate.latch.level
        if risen:
            self.get_logger().error(f"{fault}; the arm is damped until ~/reset is called")
            self.report()
        self._plant.step(torque)
        self._meter.tick()

    def _show(self) -> None:
        if self._viewer is not None:
            self._viewer.show(self._done * self._arm.period)


def main() -> int:
    """Runs the node."""
    return run_node(SimBridge)
