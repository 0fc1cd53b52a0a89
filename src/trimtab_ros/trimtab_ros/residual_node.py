"""The residual as a node: answers every `joint_states` with a `residual_torque`, which the controller judges."""

import sys
import threading
import traceback
from pathlib import Path
from typing import ClassVar

import numpy as np
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from trimtab.arm import load_arm
from trimtab.bags.cdr import ParsedJointState
from trimtab.control.base import Desired, Sample
from trimtab.errors import ReferenceRefused, TrimtabError
from trimtab.follower import ReferenceFollower
from trimtab.joints import Bounds
from trimtab.realtime import SHORT_TURNS
from trimtab.reference.message import trajectory_of
from trimtab.residual.bundle import load_bundle
from trimtab.residual.offer import Offer
from trimtab.residual.runtime import ResidualModel
from trimtab.timing import Stage
from trimtab_ros.delivery import Exchange
from trimtab_ros.diagnostics import OK, WARN, LoopMeter, Status
from trimtab_ros.hosting import run_node
from trimtab_ros.managed import ManagedNode
from trimtab_ros.messages import (
    classical_array,
    residual_encoder,
    start_of,
    state_arrays,
    to_nanoseconds,
)
from trimtab_ros.parameters import ARM, TRUSTED_KEYS, Parameter
from trimtab_ros.streams import Command, Motion, State
from trimtab_ros.streams import Residual as Answer
from trimtab_ros.topics import JOINT_STATES, REFERENCE, RESIDUAL_TORQUE, SWAP_SERVICE, TORQUE_COMMAND

MOST_PENDING = 3  # states that wait for their command
LOST = 0.1  # rad; further than this from the arm, the reference that this node follows is not the controller's


class Residual(ManagedNode):
    """Runs a model bundle in the state's callback; without a usable answer it publishes nothing."""

    essential = False

    parameters: ClassVar = (
        ARM,
        Parameter("model", "mlp", "bundle: name, name/version or folder; a new value is loaded by ~/swap", read_only=False),
        TRUSTED_KEYS,
        Parameter("shadow", False, "compute and publish, marked as not to be applied"),
        Parameter("await_command", False, "answer a state when its command has come, where the model sees it; for lockstep"),
    )

    def __init__(self, exchange: Exchange | None = None) -> None:
        super().__init__("residual", exchange)
        self._loading: threading.Thread | None = None
        self._ready: ResidualModel | None = None
        self._early: JointTrajectory | None = None

    def configure(self) -> None:
        """Loads the bundle, checks it against the arm, and warms it up."""
        arm = self._arm = load_arm(self.values["arm"])
        self._order = arm.order()
        self._near = Bounds(np.full(arm.dof, -LOST), np.full(arm.dof, LOST))
        self._ready = None
        self._model = self._load(str(self.get_parameter("model").value))
        self._follower = ReferenceFollower(arm, waits=False)
        self._meter = LoopMeter()
        self._stamp = -1
        self._answer: Answer | None = None
        self._answered = self._unanswered = self._swaps = 0
        self._refusal = ""
        self._problem = ""
        self._confidence = 0.0
        self._baseline = arm.torque * 0.0
        self._hears_commands = False
        # Between nodes of one process the command comes before the state in any case.
        self._awaits = self.values["await_command"] and self.exchange is None
        self._command_stamp = -1
        self._pending: dict[int, State] = {}  # by stamp: the next state may overtake the command of the one before
        self._publisher = self.publisher(RESIDUAL_TORQUE, residual_encoder(arm.joints))
        self.speak(arm.name)
        self.subscribe(JOINT_STATES, self._on_state_message, self._on_state)
        self.subscribe(REFERENCE, self._on_reference, self._on_motion)
        self._listen_to_commands()
        self.serve(SWAP_SERVICE, self._on_swap)

    def activate(self) -> None:
        """Starts with an empty recurrent state."""
        self._forget()

    def deactivate(self) -> None:
        """Publishes nothing more."""

    def reset(self) -> str:
        """Forgets the recurrent state and the reference."""
        self._forget()
        return "recurrent state and reference forgotten"

    def status(self) -> Status:
        """Which bundle, how sure it is, what it could not answer."""
        manifest = self._model.bundle.manifest
        waiting = "waiting for states" if self._answered == 0 else ""
        values = {
            "rate_hz": self._meter.rate(),
            "expected_rate_hz": self._arm.rate,
            "deadline_misses": self._model.late,
            "model": f"{manifest.name}/{manifest.version}",
            "sha256": manifest.sha256[:12],
            "confidence": self._confidence,
            "unanswered": self._unanswered,
            "swaps": self._swaps,
            "last_refusal": self._refusal,
            "shadow": self.values["shadow"],
        }
        message = self._problem or waiting or ("shadow" if self.values["shadow"] else "offering")
        return Status(WARN if waiting or self._problem else OK, message, values, self.own_cycles())

    def _load(self, name: str) -> ResidualModel:
        keys = self.values["trusted_keys"]
        bundle = load_bundle(name, self._arm, Path(keys) if keys else None)
        # An answer that takes a whole period is of no use to the controller any more; in lockstep nobody is late.
        return ResidualModel(bundle, self._arm, deadline=None if self.values["await_command"] else self._arm.period)

    def _listen_to_commands(self) -> None:
        """Models that see the classical torque get the newest command; the others spare the traffic."""
        if not self._hears_commands and any(one.quantity == "baseline" for one in self._model.bundle.manifest.inputs):
            self._hears_commands = True
            self.subscribe(TORQUE_COMMAND, self._on_command_message, self._on_command)

    def _on_command(self, command: Command) -> None:
        self._baseline = command.torque if command.learned is None else command.torque - command.learned

    def _on_command_message(self, message: ParsedJointState) -> None:
        try:
            self._baseline = classical_array(message, self._order)
        except TrimtabError as error:
            self._problem = f"torque command refused: {error}"
            return
        self._command_stamp = to_nanoseconds(message.header.stamp)
        awaited = self._pending.pop(self._command_stamp, None)
        if awaited is not None:
            self.times.skip()  # what was waited for
            self._answer_message(awaited)

    def _on_state_message(self, message: ParsedJointState) -> None:
        if not self.active:
            return
        self.times.begin()
        stamp = to_nanoseconds(message.header.stamp)
        try:
            q, qd = state_arrays(message, self._order)
        except TrimtabError as error:
            self._problem = f"state refused: {error}"
            self._unanswered += 1
            self._stamp = stamp
            self._model.reset()
            return
        state = State(stamp, q, qd)
        if self._awaits and self._hears_commands and stamp not in (self._command_stamp, self._stamp):
            while len(self._pending) >= MOST_PENDING:
                del self._pending[min(self._pending)]
            self._pending[stamp] = state
        else:
            self._answer_message(state)

    def _answer_message(self, state: State) -> None:
        self._on_state(state)
        self.times.mark(Stage.PUBLISH)
        self.times.end()

    def _on_state(self, state: State) -> None:
        if not self.active:
            return
        if state.stamp == self._stamp:
            if self._answer is not None:
                self._publisher.publish(self._answer)  # asked again: the answer got lost
            return
        if self._ready is not None:
            self._take_up(self._ready)
        self._stamp, self._answer = state.stamp, None
        self._problem = ""
        offer, desired = self._ask_model(state)
        self.times.mark(Stage.RESIDUAL)
        if offer is None:
            self._unanswered += 1
            return
        self._confidence = offer.confidence
        self._answer = Answer(state.stamp, offer, desired, live=not self.values["shadow"])
        self._publisher.publish(self._answer)
        self._answered += 1
        self._meter.tick()

    def _ask_model(self, state: State) -> tuple[Offer | None, Desired]:
        """The model's answer, and what the arm was asked for at this state."""
        now = state.stamp * 1e-9
        desired = self._follower.at(state.q, state.qd, now)
        if self._early is not None:
            early, self._early = self._early, None
            self._on_reference(early)
        sample = Sample(state.q, state.qd, desired, self._arm.period)
        if not self._near.hold(sample.error):
            # The controller was reset, or follows a goal of its action: begin again where the arm is.
            self._follower.reset()
            desired = self._follower.at(state.q, state.qd, now)
            sample = Sample(state.q, state.qd, desired, self._arm.period)
        return self._model.offer(sample, self._baseline, now), desired

    def _on_reference(self, message: JointTrajectory) -> None:
        if not self.active:
            return
        if self._stamp < 0:
            self._early = message  # the planner saw the arm before we did: it is followed from the first state on
            return
        try:
            trajectory = trajectory_of(message, self._order) if message.points else None
        except ReferenceRefused as error:
            self.get_logger().warning(f"reference not followed: {error}")
            return
        self._on_motion(Motion(trajectory, start_of(message, self._stamp)))

    def _on_motion(self, motion: Motion) -> None:
        """What the controller follows from here on."""
        if motion.trajectory is None:
            self._follower.cancel()
            return
        try:
            self._follower.follow(motion.trajectory, motion.start)
        except ReferenceRefused as error:
            self.say("warning", f"reference not followed: {error}")

    def _on_swap(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        """Loads what the parameter `model` names beside the model at work, which goes on meanwhile."""
        name = str(self.get_parameter("model").value)
        if self._loading is not None and self._loading.is_alive():
            response.success, response.message = False, "a bundle is being loaded; wait for it"
            return response
        self._loading = threading.Thread(target=self._swap, args=(name, self._model), name="swap", daemon=True)
        self._loading.start()
        response.success, response.message = True, f"loading {name}; /diagnostics and the log tell the outcome"
        return response

    def _swap(self, name: str, at_work: ResidualModel) -> None:
        """In a thread of its own; what it loaded is taken up at the next state."""
        manifest = at_work.bundle.manifest
        patience = sys.getswitchinterval()
        sys.setswitchinterval(SHORT_TURNS)
        try:
            self._ready = self._load(name)
        except TrimtabError as error:
            self._refusal = str(error)
            self.get_logger().error(f"swap refused: {error}; {manifest.name}/{manifest.version} stays at work")
        except Exception:  # a thread's exception would vanish
            self.get_logger().error(
                f"swap failed, {manifest.name}/{manifest.version} stays at work:\n{traceback.format_exc()}"
            )
        finally:
            sys.setswitchinterval(patience)

    def _take_up(self, model: ResidualModel) -> None:
        manifest = model.bundle.manifest
        self._model, self._ready = model, None
        self._swaps += 1
        self._refusal = ""
        self._listen_to_commands()
        self.say("info", f"swapped: {manifest.name}/{manifest.version} is at work")
        self.report()

    def _forget(self) -> None:
        self._model.reset()
        self._follower.reset()
        self._stamp = self._command_stamp = -1
        self._pending.clear()
        self._early = None


def main() -> int:
    """Runs the node."""
    return run_node(Residual)
