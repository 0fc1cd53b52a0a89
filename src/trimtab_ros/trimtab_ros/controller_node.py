"""The controller as a node: answers every `joint_states` with a `torque_command`, follows `reference`."""

import json
import time
from collections import Counter
from pathlib import Path
from typing import ClassVar

import numpy as np
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from trimtab.arm import load_arm
from trimtab.control import make_controller
from trimtab.control.friction import load_friction
from trimtab.dynamics import RigidBody
from trimtab.errors import ReferenceRefused, TrimtabError
from trimtab.faults import Level
from trimtab.names import parse_controller
from trimtab.residual.bundle import load_bundle
from trimtab.residual.mailbox import Mailbox
from trimtab.safety import SafetyFilter, limit_names
from trimtab.step import ControlStep
from trimtab.typing import FloatArray
from trimtab_ros.diagnostics import ERROR, OK, WARN, LoopMeter
from trimtab_ros.follow_joint_trajectory import TrajectoryAction, serve_follow_joint_trajectory
from trimtab_ros.managed import ManagedNode, run_node
from trimtab_ros.messages import residual_offer, start_of, state_arrays, to_nanoseconds, to_trajectory, torque_message
from trimtab_ros.parameters import ARM, TRUSTED_KEYS, Parameter
from trimtab_ros.topics import JOINT_STATES, REFERENCE, RESET_RESIDUAL_SERVICE, RESIDUAL_TORQUE, TORQUE_COMMAND

EARLY = 1.0  # s for which a reference waits for the first state
SLOWEST = 0.8  # of the lowest rate for torque control: below that the node warns
CONSEQUENCES = {
    Level.RESIDUAL_OFF: "the classical controller goes on alone until ~/reset_residual",
    Level.HOLD: "the arm is held until ~/reset",
    Level.DAMP: "the arm is damped until ~/reset",
    Level.STOP: "nothing is commanded until ~/reset",
}
WATCHDOG_SHARE = 0.25  # of the state time-out: how often the watchdog looks


class Controller(ManagedNode):
    """Runs the control step in the state's callback; without a fresh state it commands nothing."""

    parameters: ClassVar = (
        ARM,
        Parameter("controller", "computed_torque", "a law (pd, computed_torque, adaptive) and compensators, joined by '+'"),
        Parameter("friction_file", "", "identified friction (`trimtab fit friction`) for controllers with 'friction'"),
        Parameter("state_timeout", 0.0, "s without a state until commanding stops; 0: the arm's", low=0.0, high=60.0),
        Parameter("residual", "off", "learned torque: unused, judged but not applied, or applied", ("off", "shadow", "on")),
        Parameter("model", "mlp", "bundle that the residual node runs; its bounds hold here too"),
        TRUSTED_KEYS,
    )

    def __init__(self) -> None:
        super().__init__("controller")

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
        self._order = arm.order()
        self._mailbox: Mailbox | None = None
        safety = None
        if self.values["residual"] != "off":
            self._mailbox = Mailbox(arm)
            silence = max(self._timeout, arm.timeouts.command)
            safety = SafetyFilter(
                arm, body, bounds=self._bounds(), corrector_bandwidth=controller.corrector_bandwidth, silence=silence
            )
            self.subscribe(RESIDUAL_TORQUE, self._on_residual)
            service = self.create_service(Trigger, RESET_RESIDUAL_SERVICE, self._on_reset_residual)
            self.keep(self.destroy_service, service)
        self.step = ControlStep(arm, body, controller, self._timeout, self._mailbox, safety)
        self._fired: Counter[str] = Counter()
        self._meter = LoopMeter()
        self._arrival: float | None = None
        self._stamp = -1
        self._state_age = 0.0
        self._answer: JointState | None = None
        self._level = Level.NOMINAL
        self._refused = ""
        self._accepted_count = self._refused_count = self._limited_count = 0
        self._commands = self.publisher(TORQUE_COMMAND)
        self._diagnostics = self.speak(arm.name)
        self.subscribe(JOINT_STATES, self._on_state)
        self.subscribe(REFERENCE, self._on_reference)
        self.every(WATCHDOG_SHARE * self._timeout, self._watch)
        self._early: tuple[JointTrajectory, float] | None = None
        self._action = serve_follow_joint_trajectory(self)
        if self._action is not None:
            self.keep(TrajectoryAction.destroy, self._action)
        else:
            self.get_logger().info("control_msgs is not installed: FollowJointTrajectory is not served")

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
        """Takes a trajectory or raises `ReferenceRefused`; an empty one stops the motion."""
        if not message.points:
            self.step.cancel()
            return
        trajectory = to_trajectory(message, self._order)
        self.step.follow(trajectory, start_of(message, self._stamp))

    def report(self) -> None:
        """Loop rate, state age, fault, what became of references."""
        latch = self.step.latch
        rate = self._meter.rate()
        if not latch.level.controlled:
            status, message = ERROR, str(latch)
        elif latch.level is Level.RESIDUAL_OFF:
            status, message = WARN, str(latch)
        elif self._arrival is None:
            status, message = WARN, "waiting for the first state"
        elif rate < self._arm.actuator.min_torque_rate * SLOWEST:
            slowest = self._arm.actuator.min_torque_rate
            status, message = WARN, f"states come at {rate:.0f} Hz, torque control of this arm needs {slowest:g} Hz"
        else:
            status, message = OK, "following" if self.step.busy(self._stamp * 1e-9) else "holding"
        self._diagnostics.publish(
            status,
            message,
            {
                "rate_hz": rate,
                "expected_rate_hz": self._arm.rate,
                "deadline_misses": self._meter.misses,
                "state_age_s": self._state_age,
                "fault": str(latch),
                "controller": self.values["controller"],
                "torque_limited": self._limited_count,
                "references_accepted": self._accepted_count,
                "references_refused": self._refused_count,
                "last_refusal": self._refused,
                **self._residual_values(),
            },
        )

    def _residual_values(self) -> dict[str, object]:
        """What became of the residual since the last report; nothing where there is none."""
        if self._mailbox is None:
            return {}
        fired, self._fired = self._fired, Counter()
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

    def _on_state(self, message: JointState) -> None:
        if not self.active:
            return
        stamp = to_nanoseconds(message.header.stamp)
        if stamp == self._stamp:
            if self._answer is not None:
                self._commands.publish(self._answer)  # asked again: the answer got lost
            return
        self._answer = None  # whatever happens now, the torque of an older state is not sent again
        if self._arrival is not None and stamp - self._stamp > 1.5e9 * self._arm.period:
            self._meter.miss(round((stamp - self._stamp) * 1e-9 * self._arm.rate) - 1)
        self._stamp, self._arrival = stamp, time.monotonic()
        self._state_age = (self.get_clock().now().nanoseconds - stamp) * 1e-9
        try:
            q, qd = state_arrays(message, self._order)
        except TrimtabError as error:
            self.step.latch.trip(Level.STOP, f"state refused: {error}", stamp * 1e-9)
            self._tell_fault()
            return
        result = self.step.step(q, qd, stamp * 1e-9)
        if result.torque is not None:
            self._answer = torque_message(message.header.stamp, self._arm.joints, result.torque, result.learned)
            self._commands.publish(self._answer)
        self._limited_count += result.limited
        if self._mailbox is not None and result.limits:
            self._fired.update(limit_names(result.limits))
        self._meter.tick()
        self._tell_fault()
        if self._early is not None:
            (early, came), self._early = self._early, None
            if time.monotonic() - came < EARLY:
                self._on_reference(early)
            else:
                self.refused(ReferenceRefused("it came long before the first state; send it again"))
        if self._action is not None:
            self._action.update(stamp * 1e-9, q, qd, result.desired)

    def _on_residual(self, message: JointState) -> None:
        if not self.active or self._mailbox is None:
            return
        try:
            offer, desired, live = residual_offer(message, self._order)
        except TrimtabError as error:
            self.step.latch.trip(Level.RESIDUAL_OFF, f"residual refused: {error}", self._stamp * 1e-9)
            self._tell_fault()
            return
        self.step.authority = 1.0 if live and self.values["residual"] == "on" else 0.0
        self._mailbox.put(offer, desired)

    def _on_reset_residual(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        """Brings the residual back without stopping the motion."""
        was = str(self.step.latch)
        response.success = self.active and self.step.reset_residual()
        response.message = f"was {was}; the residual may act again" if response.success else f"nothing to reset: {was}"
        if response.success:
            self._level = Level.NOMINAL
        self.get_logger().info(f"reset of the residual: {response.message}")
        self.report()
        return response

    def _on_reference(self, message: JointTrajectory) -> None:
        if not self.active:
            self.refused(ReferenceRefused("the controller is inactive"))
            return
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

    def refused(self, error: ReferenceRefused) -> None:
        """Tells why a reference was not taken."""
        self._refused_count += 1
        self._refused = str(error)
        self.get_logger().error(f"reference refused: {error}")

    def _watch(self) -> None:
        """The state's watchdog, on the steady clock: it also sees a driver that is gone."""
        if not self.active or self._arrival is None:
            return
        age = time.monotonic() - self._arrival
        if age > self._timeout:
            self.step.latch.trip(Level.STOP, f"no state for {age:.3f} s (allowed {self._timeout:g} s)", self._stamp * 1e-9)
            self._answer = None
            self._tell_fault()

    def _tell_fault(self) -> None:
        """Logs and publishes a fault once, when it is latched."""
        level = self.step.latch.level
        if level > self._level:
            self._level = level
            self.get_logger().error(f"{self.step.latch}; {CONSEQUENCES[level]} is called")
            if not level.controlled:
                self._end_goal(f"stopped: {self.step.latch}")
            self.report()

    def _end_goal(self, reason: str) -> None:
        """Aborts the action's goal, if there is one."""
        if self._action is not None:
            self._action.abort(reason)

    def _forget(self) -> None:
        self.step.reset()
        self._arrival = None
        self._stamp = -1
        self._answer = None
        self._early = None
        self._level = Level.NOMINAL


def main() -> int:
    """Runs the node."""
    return run_node(Controller)
