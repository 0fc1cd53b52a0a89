"""The controller as a node: answers every `joint_states` with a `torque_command`, follows `reference`."""

import json
import time
from collections import Counter
from pathlib import Path
from typing import ClassVar

import numpy as np
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from trimtab.arm import load_arm
from trimtab.bags.cdr import ParsedJointState
from trimtab.control import Desired, make_controller
from trimtab.control.friction import load_friction
from trimtab.dynamics import RigidBody
from trimtab.errors import ReferenceRefused, TrimtabError
from trimtab.faults import Level
from trimtab.names import parse_controller
from trimtab.reference.message import trajectory_of
from trimtab.residual.bundle import load_bundle
from trimtab.residual.mailbox import Mailbox
from trimtab.residual.offer import Offer
from trimtab.safety import SafetyFilter, limit_names
from trimtab.step import ControlStep
from trimtab.timing import Stage
from trimtab.typing import FloatArray
from trimtab_ros.delivery import Exchange
from trimtab_ros.diagnostics import ERROR, OK, WARN, LoopMeter, Status
from trimtab_ros.follow_joint_trajectory import TrajectoryAction, serve_follow_joint_trajectory
from trimtab_ros.hosting import run_node
from trimtab_ros.managed import ManagedNode
from trimtab_ros.messages import command_encoder, residual_offer, start_of, state_arrays, to_nanoseconds
from trimtab_ros.parameters import ARM, TRUSTED_KEYS, Parameter
from trimtab_ros.streams import Command, Motion, Residual, State
from trimtab_ros.topics import JOINT_STATES, REFERENCE, RESET_RESIDUAL_SERVICE, RESIDUAL_TORQUE, TORQUE_COMMAND

EARLY = 1.0  # s for which a reference waits for the first state
SLOWEST = 0.8  # of the lowest rate for torque control: below that the node warns
CONSEQUENCES = {
    Level.RESIDUAL_OFF: "the classical controller goes on alone until ~/reset_residual",
    Level.HOLD: "the arm is held until ~/reset",
    Level.DAMP: "the arm is damped until ~/reset",
    Level.STOP: "nothing is commanded until ~/reset",
}
WATCHDOG_SHARE, WATCHDOG_PERIOD = 0.25, 0.05  # of the state time-out, and s at most: how often the watchdog looks
AWAITED = 1.0  # s of real time for which a state waits for its residual, where it waits at all
ACTION_PERIOD = 0.02  # s between two looks at the action's goal


class Controller(ManagedNode):
    """Runs the control step in the state's callback; without a fresh state it commands nothing."""

    parameters: ClassVar = (
        ARM,
        Parameter("controller", "computed_torque", "a law (pd, computed_torque, adaptive) and compensators, joined by '+'"),
        Parameter("friction_file", "", "identified friction (`trimtab fit friction`) for controllers with 'friction'"),
        Parameter("state_timeout", 0.0, "s without a state until commanding stops; 0: the arm's", low=0.0, high=60.0),
        Parameter(
            "patience", 0.0, "s of real time without a state until commanding stops; 0: state_timeout", low=0.0, high=3600.0
        ),
        Parameter("residual", "off", "learned torque: unused, judged but not applied, or applied", ("off", "shadow", "on")),
        Parameter("model", "mlp", "bundle that the residual node runs; its bounds hold here too"),
        TRUSTED_KEYS,
        Parameter("await_residual", False, "answer a state when the residual for the one before has come; for lockstep"),
    )

    def __init__(self, exchange: Exchange | None = None) -> None:
        super().__init__("controller", exchange)

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the arm's joints, base to tool."""
        return self._arm.joints

    def configure(self) -> None:
        """Loads the arm and builds the controller."""
        arm = self._arm = load_arm(self.values["arm"])
        body = RigidBody(arm)
        file = self.values["friction_file"]
        friction = load_friction(Path(file), arm) if file else None
        controller = make_controller(self.values["controller"], arm, body, friction)
        self._timeout = self.values["state_timeout"] or arm.timeouts.state
        self._patience = self.values["patience"] or self._timeout
        self._order = arm.order()
        self._longest_step = round(1.5e9 * arm.period)  # ns between two stamps; more, and a state is missing
        self._mailbox: Mailbox | None = None
        safety = None
        if self.values["residual"] != "off":
            self._mailbox = Mailbox(arm)
            silence = max(self._timeout, arm.timeouts.command)
            safety = SafetyFilter(
                arm, body, bounds=self._bounds(), corrector_bandwidth=controller.corrector_bandwidth, silence=silence
            )
            self.subscribe(RESIDUAL_TORQUE, self._on_residual_message, self._on_residual)
            self.serve(RESET_RESIDUAL_SERVICE, self._on_reset_residual)
        self.step = ControlStep(arm, body, controller, self._timeout, self._mailbox, safety, self.times)
        # Between nodes of one process the residual for a state comes before the next state in any case.
        self._awaits = self.values["await_residual"] and self._mailbox is not None and self.exchange is None
        self._fired: Counter[int] = Counter()
        self._meter = LoopMeter()
        self._state_age = 0.0
        self._level = Level.NOMINAL
        self._refused = ""
        self._accepted_count = self._refused_count = self._limited_count = 0
        self._reference_after = -1
        self._forget_stream()
        self._commands = self.publisher(TORQUE_COMMAND, command_encoder(arm.joints))
        self.speak(arm.name)
        self.subscribe(JOINT_STATES, self._on_state_message, self._on_state)
        self.subscribe(REFERENCE, self._on_reference, takes_turn=False)
        self.every(min(WATCHDOG_SHARE * self._timeout, WATCHDOG_PERIOD), self._watch, takes_turn=False)
        self._action = serve_follow_joint_trajectory(self)
        if self._action is not None:
            self.keep(TrajectoryAction.destroy, self._action)
            self.every(ACTION_PERIOD, self._update_action, takes_turn=False)
        else:
            self.get_logger().info("control_msgs is not installed: FollowJointTrajectory is not served")

    def _forget_stream(self) -> None:
        self._arrival: float | None = None
        self._stamp = self._stamp_before = self._residual_stamp = -1
        self._expects_residual = True
        self._answer: Command | None = None
        self._pending: State | None = None
        self._newest: tuple[State, Desired] | None = None
        self._early: tuple[JointTrajectory, float] | None = None

    def activate(self) -> None:
        """Starts from a clean slate, holding where the arm is."""
        self._forget()

    def deactivate(self) -> None:
        """Commands nothing more; the driver damps the arm."""
        self._end_goal("the controller was deactivated")

    def reset(self) -> str:
        """Forgets faults, integrals and the trajectory; holds where the arm is."""
        was = str(self.step.latch)
        self._end_goal("the controller was reset")
        self._forget()
        return f"was {was}; holding where the arm is"

    def _bounds(self) -> FloatArray:
        """What the model may ask for at most, in the arm's order [Nm]; refuses a bundle that does not fit."""
        keys = self.values["trusted_keys"]
        manifest = load_bundle(self.values["model"], self._arm, Path(keys) if keys else None).manifest
        if parse_controller(manifest.controller) != parse_controller(self.values["controller"]):
            self.get_logger().warning(
                f"{manifest.name}/{manifest.version} was trained on top of '{manifest.controller}', the controller is "
                f"'{self.values['controller']}': expect less of it"
            )
        return np.array([manifest.bounds[joint] for joint in self._arm.joints])

    def follow(self, message: JointTrajectory) -> None:
        """Takes a trajectory or raises `ReferenceRefused`; an empty one stops the motion.

        Reading and checking a long one takes many periods of the loop: that is done before the turn is taken.
        """
        trajectory = trajectory_of(message, self._order) if message.points else None
        if trajectory is not None:
            trajectory.extremes()  # what checking it needs; kept for then
        with self.turn:
            start = start_of(message, self._answered_stamp)
            if trajectory is None:
                self.step.cancel()
            else:
                self.step.follow(trajectory, start)
            self._reference_after = self._answered_stamp
            if self.exchange is not None:
                self.exchange.deliver(self.resolve_topic_name(REFERENCE.name), Motion(trajectory, start))

    def status(self) -> Status:
        """Loop rate, state age, fault, what became of references."""
        latch = self.step.latch
        rate = self._meter.rate(self._stamp * 1e-9)
        if not latch.level.controlled:
            level, message = ERROR, str(latch)
        elif latch.level is Level.RESIDUAL_OFF:
            level, message = WARN, str(latch)
        elif self._arrival is None:
            level, message = WARN, "waiting for the first state"
        elif 0.0 < self._meter.stamped_rate < self._arm.actuator.min_torque_rate * SLOWEST:
            slowest, came = self._arm.actuator.min_torque_rate, self._meter.stamped_rate
            level, message = WARN, f"states come at {came:.0f} Hz, torque control of this arm needs {slowest:g} Hz"
        else:
            level, message = OK, "following" if self.step.busy(self._stamp * 1e-9) else "holding"
        values = {
            "rate_hz": rate,
            "expected_rate_hz": self._arm.rate,
            "deadline_misses": self._meter.misses,
            "state_age_s": self._state_age,
            "fault": str(latch),
            "controller": self.values["controller"],
            "torque_limited": self._limited_count,
            "references_accepted": self._accepted_count,
            "references_refused": self._refused_count,
            "reference_after_ns": self._reference_after,
            "last_refusal": self._refused,
            **self._residual_values(),
        }
        return Status(level, message, values, self.own_cycles())

    def _residual_values(self) -> dict[str, object]:
        """What became of the residual since the last report; nothing where there is none."""
        if self._mailbox is None:
            return {}
        masks, self._fired = self._fired, Counter()
        fired: Counter[str] = Counter()
        for mask, count in masks.items():
            fired.update(dict.fromkeys(limit_names(mask), count))
        fault = self.step.latch.fault
        return {
            "residual": self.values["residual"],
            "residual_trust": self.step.safety.trust,
            "residual_tank_j": self.step.safety.tank_level,
            "residual_limits": ", ".join(f"{name} {count}" for name, count in sorted(fired.items())),
            "residual_for_another_reference": self._mailbox.strangers,
            "fault_time_s": "" if fault is None else f"{fault.time:.6f}",
            "fault_snapshot": "" if fault is None else json.dumps(fault.snapshot),
        }

    @property
    def _answered_stamp(self) -> int:
        """Of the newest state that was answered [ns]; -1 before the first."""
        return self._stamp if self._pending is None else self._stamp_before

    # States and residuals ---------------------------------------------------------------------------------------------

    def _on_state_message(self, message: ParsedJointState) -> None:
        if not self.active:
            return
        self.times.begin()
        stamp = to_nanoseconds(message.header.stamp)
        self._state_age = (self.get_clock().now().nanoseconds - stamp) * 1e-9
        try:
            q, qd = state_arrays(message, self._order)
        except TrimtabError as error:
            if stamp != self._stamp:
                self._note_arrival(stamp)
            self.step.latch.trip(Level.STOP, f"state refused: {error}", stamp * 1e-9)
            self._tell_fault()
            return
        self._on_state(State(stamp, q, qd))

    def _on_state(self, state: State) -> None:
        if not self.active:
            return
        if state.stamp == self._stamp:
            self._asked_again()
            return
        self._note_arrival(state.stamp)
        if self._awaits and self._expects_residual and self._residual_stamp < self._stamp_before:
            self._pending = state
            return
        self._answer_state(state)

    def _note_arrival(self, stamp: int) -> None:
        """A new state came; whatever happens now, the torque of an older one is not sent again."""
        self._answer = self._pending = None
        if self._arrival is not None and stamp - self._stamp > self._longest_step:
            self._meter.miss(round((stamp - self._stamp) * 1e-9 * self._arm.rate) - 1)
        self._stamp_before, self._stamp, self._arrival = self._stamp, stamp, time.monotonic()

    def _asked_again(self) -> None:
        """The same state once more: its answer got lost, or is still waiting for a residual that will not come."""
        if self._answer is not None:
            self._commands.publish(self._answer)
        elif self._pending is not None and self._arrival is not None and time.monotonic() - self._arrival > AWAITED:
            self._expects_residual = False  # until one comes again
            self._answer_state(self._pending)

    def _answer_state(self, state: State) -> None:
        self._pending = None
        result = self.step.step(state.q, state.qd, state.stamp * 1e-9)
        if result.torque is not None:
            self._answer = Command(state.stamp, result.torque, result.learned)
            self._commands.publish(self._answer)
        if self.exchange is None:
            self.times.mark(Stage.PUBLISH)
        self.step.learn()
        self.times.mark(Stage.FILTER)
        if self.exchange is None:
            self.times.end()
        if result.limits:
            self._limited_count += result.limited
            if self._mailbox is not None:
                self._fired[result.limits] += 1
        self._meter.tick()
        if self.step.latch.level > self._level:
            self._tell_fault()
        self._newest = (state, result.desired)

    def _on_residual_message(self, message: ParsedJointState) -> None:
        if not self.active:
            return
        try:
            offer, desired, live = residual_offer(message, self._order)
        except TrimtabError as error:
            self.step.latch.trip(Level.RESIDUAL_OFF, f"residual refused: {error}", self._stamp * 1e-9)
            self._tell_fault()
            return
        self._take_residual(to_nanoseconds(message.header.stamp), offer, desired, live)
        if self._pending is not None and self._residual_stamp >= self._stamp_before:
            self.times.skip()  # what was waited for
            self._answer_state(self._pending)

    def _on_residual(self, residual: Residual) -> None:
        if self.active:
            self._take_residual(residual.stamp, residual.offer, residual.desired.q, residual.live)

    def _take_residual(self, stamp: int, offer: Offer, desired: FloatArray, live: bool) -> None:
        """An offer, the wanted positions that it was made for [rad], and whether it is meant to act."""
        if self._mailbox is None:
            return
        self._residual_stamp, self._expects_residual = stamp, True
        self.step.authority = 1.0 if live and self.values["residual"] == "on" else 0.0
        self._mailbox.put(offer, desired)

    def _on_reset_residual(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        """Brings the residual back without stopping the motion."""
        with self.turn:
            was = str(self.step.latch)
            response.success = self.active and self.step.reset_residual()
            if response.success:
                self._level = Level.NOMINAL
        response.message = f"was {was}; the residual may act again" if response.success else f"nothing to reset: {was}"
        self.get_logger().info(f"reset of the residual: {response.message}")
        self.report()
        return response

    # References -------------------------------------------------------------------------------------------------------

    def _on_reference(self, message: JointTrajectory) -> None:
        if not self.active:
            self.refused(ReferenceRefused("the controller is inactive"))
            return
        with self.turn:
            if self._arrival is None:
                self._early = message, time.monotonic()  # the planner saw the arm before we did: wait for the first state
                return
        try:
            self.follow(message)
        except ReferenceRefused as error:
            self.refused(error)
            return
        self._accepted_count += 1
        self._end_goal("a newer reference took over")
        self.get_logger().info(f"reference accepted: {len(message.points)} points")
        self.report()  # a bag tells so from which state on it counts

    def refused(self, error: ReferenceRefused) -> None:
        """Tells why a reference was not taken."""
        self._refused_count += 1
        self._refused = str(error)
        self.get_logger().error(f"reference refused: {error}")
        self.report()

    def _take_early(self) -> None:
        """A reference that came before the first state is taken when there is one."""
        with self.turn:
            arrival, waiting = self._arrival, self._early
            if waiting is None or arrival is None:
                return
            self._early = None
        early, came = waiting
        if arrival - came < EARLY:
            self._on_reference(early)
        else:
            self.refused(ReferenceRefused("it came long before the first state; send it again"))

    def _update_action(self) -> None:
        if self._action is not None and self._newest is not None:
            state, desired = self._newest
            self._action.update(state.stamp * 1e-9, state.q, state.qd, desired)

    def _watch(self) -> None:
        """The state's watchdog, on the steady clock: it also sees a driver that is gone."""
        self._take_early()
        if not self.active or self._arrival is None:
            return
        with self.turn:
            age = time.monotonic() - self._arrival
            if age > self._patience:
                reason = f"no state for {age:.3f} s (allowed {self._patience:g} s)"
                self.step.latch.trip(Level.STOP, reason, self._stamp * 1e-9)
                self._answer = None
                self._tell_fault()

    def _tell_fault(self) -> None:
        """Logs and publishes a fault once, when it is latched."""
        level = self.step.latch.level
        if level > self._level:
            self._level = level
            self.say("error", f"{self.step.latch}; {CONSEQUENCES[level]} is called")
            if not level.controlled:
                self._end_goal(f"stopped: {self.step.latch}")
            self.report()

    def _end_goal(self, reason: str) -> None:
        """Aborts the action's goal, if there is one."""
        if self._action is not None:
            self._action.abort(reason)

    def _forget(self) -> None:
        self.step.reset()
        self._forget_stream()
        self._level = Level.NOMINAL


def main() -> int:
    """Runs the node."""
    return run_node(Controller)
