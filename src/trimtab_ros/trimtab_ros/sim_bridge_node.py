"""The simulated arm as a node: takes `torque_command`, gives `joint_states`, owns the clock where time is simulated."""

import threading
import time
import traceback
from collections.abc import Callable
from time import perf_counter_ns
from typing import ClassVar

from rosgraph_msgs.msg import Clock

from trimtab.arm import load_arm
from trimtab.bags.cdr import ParsedJointState
from trimtab.command_gate import CommandGate
from trimtab.dynamics import RigidBody
from trimtab.errors import TrimtabError
from trimtab.faults import Level
from trimtab.names import COMPOSED, PROCESSES
from trimtab.pacer import Pacer
from trimtab.plant import Plant, load_gap
from trimtab.realtime import lock_memory, prepare_thread, raise_companions
from trimtab.timing import Stage
from trimtab.typing import FloatArray
from trimtab_ros.delivery import Exchange
from trimtab_ros.diagnostics import ERROR, OK, WARN, LoopMeter, Status
from trimtab_ros.hosting import run_node
from trimtab_ros.managed import ManagedNode
from trimtab_ros.messages import NANOSECONDS, state_encoder, to_nanoseconds, to_time, torque_array
from trimtab_ros.parameters import ARM, LOOP, Parameter
from trimtab_ros.streams import Command, State
from trimtab_ros.topics import CLOCK, JOINT_STATES, RESIDUAL_TORQUE, TORQUE_COMMAND
from trimtab_ros.viewer import Viewer, open_viewer

RETRY = 0.05  # s after which lockstep sends an unanswered state again: best-effort messages may be lost
GREETING = 10.0  # s for which the first state waits for the residual, where it waits at all
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
        Parameter("await_residual", False, "repeat the first state until the residual has answered it too; for lockstep"),
        Parameter("viewer", False, "open MuJoCo's window (needs a display)"),
        *LOOP,
    )

    def __init__(self, exchange: Exchange | None = None) -> None:
        super().__init__("sim_bridge", exchange)
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
        self._clock_every = max(1, round(arm.rate / CLOCK_RATE))
        self._meter = LoopMeter()
        self._stamp = -1
        self._answered_stamp = -1
        self._latched = Level.NOMINAL
        self._states = self.publisher(JOINT_STATES, state_encoder(arm.joints))
        self._clock_publisher = self.publisher(CLOCK) if self._simulated_time else None
        self._sent = 0  # when the newest state went out [ns]
        self.speak(arm.name)
        self.subscribe(TORQUE_COMMAND, self._on_command_message, self._on_command)
        # Between nodes of one process the residual hears the first state in any case.
        self._greets = self.values["await_residual"] and self._lockstep and self.exchange is None
        if self._greets:
            self.subscribe(RESIDUAL_TORQUE, self._on_residual_message)
        if self.exchange is not None:
            self.exchange.every = self.values["publish_every"]
            self.exchange.waits = self._lockstep

    def activate(self) -> None:
        """Starts the plant's thread at the home posture."""
        self._plant.reset(self._arm.home)
        self._gate.reset()
        self._stamp = self._answered_stamp = -1
        self._written: FloatArray | None = None
        self._done = self._epoch = 0
        self._latched = Level.NOMINAL
        self._met = not self._greets
        self._viewer: Viewer | None = None
        if self.values["viewer"]:
            self._viewer = open_viewer(self._plant.model, self._plant.data)
        self._stop.clear()
        loop = self._run_lockstep if self._lockstep else self._run_real_time
        if self.values["lock_memory"]:
            self._tell_refused(lock_memory())
        self._thread = threading.Thread(target=self._guard, args=(loop,), name="loop", daemon=True)
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

    @property
    def deadline_misses(self) -> int:
        """Periods that came too late, since *configure*."""
        return self._meter.misses

    def status(self) -> Status:
        """Loop rate, misses, age of the command, fault, stage times."""
        with self._answered:
            age, fault, waiting = self._gate.age(self._now()), str(self._gate.latch), self._gate.waiting
            latched = self._gate.latch.level
            periods, damped = self._gate.periods, self._gate.damped_periods
            self._gate.periods = self._gate.damped_periods = 0
        if latched is not Level.NOMINAL:
            level, message = ERROR, fault
        elif waiting:
            level, message = WARN, "damped: waiting for the first command"
        elif damped > 0:
            level, message = (
                WARN,
                f"following commands, but damped in {damped} of {periods} periods for want of a fresh one",
            )
        else:
            level, message = OK, "following commands"
        values = {
            "rate_hz": self._meter.rate(),
            "expected_rate_hz": self._arm.rate,
            "deadline_misses": self._meter.misses,
            "command_age_s": -1.0 if age is None else age,
            "damped_periods": damped,
            "fault": fault,
            "plant": self._plant.gap.name,
            "mode": self.values["mode"],
            "delivery": PROCESSES if self.exchange is None else COMPOSED,
            "unpublished": 0 if self.exchange is None else self.exchange.outbox.dropped + self.exchange.outbox.failed,
        }
        return Status(level, message, values, self.times.take())

    def _on_command_message(self, message: ParsedJointState) -> None:
        if not self.active:
            return
        stamp = to_nanoseconds(message.header.stamp)
        try:
            torque = torque_array(message, self._order)
        except TrimtabError as error:
            self._take_command(stamp, None, f"torque command refused: {error}")
        else:
            self._take_command(stamp, torque)

    def _on_command(self, command: Command) -> None:
        """By direct call, in the loop's thread: written at once, before the residual is asked."""
        with self._answered:
            self._gate.accept(command.torque, self._now())
            self._answered_stamp = command.stamp
            self._written = self._write()
        self.times.answered(perf_counter_ns() - self._sent)

    def _take_command(self, stamp: int, torque: FloatArray | None, problem: str = "") -> None:
        """A command [Nm] that answers the state of this stamp [ns]; None where it has a problem."""
        with self._answered:
            if stamp > self._stamp:
                self._gate.refuse("torque command refused: it answers a state that was never sent", self._now())
            elif stamp == self._stamp or not self._lockstep:
                # A command is as old as the state that it answers, not as its way here was long.
                measured = self._now() if self._lockstep else (stamp - self._epoch) / NANOSECONDS
                if torque is None:
                    self._gate.refuse(problem, self._now())
                else:
                    self._gate.accept(torque, measured)
            self._answered_stamp = stamp
            if stamp == self._stamp:
                self.times.answered(perf_counter_ns() - self._sent)
            self._answered.notify_all()

    def _on_residual_message(self, message: ParsedJointState) -> None:
        """Only the first counts: where the arm is first seen is where it is held, so everybody must see the same state."""
        with self._answered:
            self._met = self._met or to_nanoseconds(message.header.stamp) == self._stamp
            self._answered.notify_all()

    def _now(self) -> float:
        """The gate's clock [s].

        In real time it is the plant's: steps that a late process makes up for count as if they had been in time. In
        lockstep the plant waits for commands, so only the wall clock can tell that none comes any more.
        """
        return time.monotonic() if self._lockstep else self._done * self._arm.period

    # The loop's thread -----------------------------------------------------------------------------------------------

    def _guard(self, loop: Callable[[], None]) -> None:
        """An exception in the thread ends the process: without a plant there is no bridge."""
        try:
            self._tell_refused(prepare_thread(self.values["priority"], self.values["cpu"]))
            if self.values["priority"] > 0:
                raise_companions(self.values["priority"])
            loop()
        except Exception:
            self.get_logger().fatal(f"the loop's thread ended:\n{traceback.format_exc()}")
            self.failed = True

    def _tell_refused(self, lines: list[str]) -> None:
        for line in lines:
            self.say("warning", line)

    def _run_real_time(self) -> None:
        period = self._arm.period
        self._epoch = 0 if self._simulated_time else time.time_ns()
        self._done = 0
        pacer = Pacer(period)
        while not self._stop.is_set():
            # The plant moves now, so that the next state is there when it is due.
            moved = self._cycle(self._epoch + round(self._done * period * NANOSECONDS)) is not None
            missed = pacer.missed
            late = pacer.wait()
            self._meter.miss(pacer.missed - missed)
            # The world does not wait for a late process: what was missed is simulated now, and commands age with it.
            if late * period > LONGEST_CATCH_UP:
                self.say("warning", f"stalled for {late * period:.2f} s; the plant was not moved meanwhile")
                self._epoch += 0 if self._simulated_time else round(late * period * NANOSECONDS)
                if not self._gate.waiting:
                    self._gate.refuse(f"the simulation stalled for {late * period:.2f} s", self._now())
                late = 0
            for step in range(int(moved), 1 + late):
                if step > 0:
                    self._last_state = self._plant.measure()  # damping must see the speed that it brakes
                self._step_plant(self._write())
            self._show()

    def _run_lockstep(self) -> None:
        period = self._arm.period
        while not self._stop.is_set():
            stamp = round(self._done * period * NANOSECONDS)
            torque = self._cycle(stamp)
            if torque is None:
                if not self._await_answer(stamp):
                    return
                torque = self._write()
            if self._latched is not Level.NOMINAL:
                self._stop.wait(period)  # nobody sets the pace any more: damp in real time
            self._step_plant(torque)
            self._show()
            self.turn.give_way()

    def _cycle(self, stamp: int) -> FloatArray | None:
        """Measures the state and sends it out.

        Gives what was written where the answer came by direct call: the drives get it before anything is published, and in
        real time the plant has moved. Otherwise None: it comes over DDS.
        """
        if self.exchange is None:
            self._publish_state(stamp)
            return None
        with self.turn:
            self.exchange.begin()
            self._written = None
            self._publish_state(stamp)
            if not self._lockstep:
                if self._written is None:
                    self._written = self._write()  # nobody answered: damping
                self.times.mark(Stage.PUBLISH)
                self._step_plant(self._written)
                self.times.skip()  # a robot moves by itself
            # Last of all: the outbox wakes up, and would take the interpreter while the physics does without.
            self.exchange.end()
        self.times.mark(Stage.PUBLISH)
        self.times.end()
        return self._written

    def _await_answer(self, stamp: int) -> bool:
        """In lockstep: waits until the state is answered, sending it again now and then; False at the end."""
        impatient = time.monotonic() + GREETING
        while not self._stop.is_set():
            with self._answered:
                if self._answered.wait_for(lambda: self._may_step(stamp), RETRY):
                    break
                if not self._met and time.monotonic() > impatient:
                    self._met = True
                    self.say("warning", f"no residual has answered the first state for {GREETING:g} s; going on without")
            with self.turn:
                if self.exchange is not None:
                    self.exchange.begin()
                self._send_state(stamp, clock=True)
                if self.exchange is not None:
                    self.exchange.end()
        return not self._stop.is_set()

    def _may_step(self, stamp: int) -> bool:
        """Lockstep goes on when the state is answered, when the wait became a fault, or at the end."""
        self._gate.notice_silence(self._now())
        faulty = self._gate.latch.level is not Level.NOMINAL
        return (self._answered_stamp == stamp and self._met) or faulty or self._stop.is_set()

    def _publish_state(self, stamp: int) -> None:
        self.times.begin()
        self._last_state = self._plant.measure()
        self.times.mark(Stage.READ)
        self._send_state(stamp, clock=self._done % self._clock_every == 0)

    def _send_state(self, stamp: int, clock: bool) -> None:
        self._stamp, self._sent = stamp, perf_counter_ns()
        if clock and self._clock_publisher is not None:
            self._clock_publisher.publish(Clock(clock=to_time(stamp)))
        self._states.publish(State(stamp, *self._last_state))
        if self.exchange is None:
            self.times.mark(Stage.PUBLISH)

    def _write(self) -> FloatArray:
        """What the drives get [Nm]: the command, or damping where there is no fresh one."""
        alone = self.exchange is None
        if alone:
            self.times.skip()  # what was waited for
        with self._answered:
            torque = self._gate.torque(*self._last_state, self._now())
            risen = self._gate.latch.level > self._latched
            self._latched = self._gate.latch.level
        self.times.mark(Stage.WRITE)
        if alone:
            self.times.end()
        if risen:
            self.say("error", f"{self._gate.latch}; the arm is damped until ~/reset is called")
            self.report()
        return torque

    def _step_plant(self, torque: FloatArray) -> None:
        self._plant.step(torque)
        self._done += 1
        self._meter.tick()

    def _show(self) -> None:
        if self._viewer is not None:
            self._viewer.show(self._done * self._arm.period)


def main() -> int:
    """Runs the node."""
    return run_node(SimBridge)
