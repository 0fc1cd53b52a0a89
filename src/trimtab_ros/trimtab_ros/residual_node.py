"""The residual as a node: answers every `joint_states` with a `residual_torque`, which the controller judges."""

import sys
import threading
import traceback
from pathlib import Path
from typing import ClassVar

from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from trimtab.arm import load_arm
from trimtab.control.base import Sample
from trimtab.errors import ReferenceRefused, TrimtabError
from trimtab.follower import ReferenceFollower
from trimtab.residual.bundle import load_bundle
from trimtab.residual.runtime import ResidualModel
from trimtab_ros.diagnostics import OK, WARN, LoopMeter
from trimtab_ros.managed import ManagedNode, run_node
from trimtab_ros.messages import (
    classical_array,
    residual_message,
    start_of,
    state_arrays,
    to_nanoseconds,
    to_trajectory,
)
from trimtab_ros.parameters import ARM, TRUSTED_KEYS, Parameter
from trimtab_ros.topics import JOINT_STATES, REFERENCE, RESIDUAL_TORQUE, SWAP_SERVICE, TORQUE_COMMAND

SHORT_TURNS = 5e-4  # s; while a bundle is loaded, Python's threads take turns so often that no state waits a period
LOST = 0.1  # rad; further than this from the arm, the reference that this node follows is not the controller's


class Residual(ManagedNode):
    """Runs a model bundle in the state's callback; without a usable answer it publishes nothing."""

    parameters: ClassVar = (
        ARM,
        Parameter("model", "mlp", "bundle: name, name/version or folder; a new value is loaded by ~/swap", read_only=False),
        TRUSTED_KEYS,
        Parameter("shadow", False, "compute and publish, marked as not to be applied"),
    )

    def __init__(self) -> None:
        super().__init__("residual")
        self._loading: threading.Thread | None = None
        self._ready: ResidualModel | None = None
        self._early: JointTrajectory | None = None

    def configure(self) -> None:
        """Loads the bundle, checks it against the arm, and warms it up."""
        arm = self._arm = load_arm(self.values["arm"])
        self._order = arm.order()
        self._ready = None
        self._model = self._load(str(self.get_parameter("model").value))
        self._follower = ReferenceFollower(arm, waits=False)
        self._meter = LoopMeter()
        self._stamp = -1
        self._answered = self._unanswered = self._swaps = 0
        self._refusal = ""
        self._problem = ""
        self._confidence = 0.0
        self._baseline = arm.torque * 0.0
        self._hears_commands = False
        self._publisher = self.publisher(RESIDUAL_TORQUE)
        self._diagnostics = self.speak(arm.name)
        self.subscribe(JOINT_STATES, self._on_state)
        self.subscribe(REFERENCE, self._on_reference)
        self._listen_to_commands()
        self.keep(self.destroy_service, self.create_service(Trigger, SWAP_SERVICE, self._on_swap))

    def activate(self) -> None:
        """Starts with an empty recurrent state."""
        self._forget()

    def deactivate(self) -> None:
        """Publishes nothing more."""

    def reset(self) -> str:
        """Forgets the recurrent state and the reference."""
        self._forget()
        return "recurrent state and reference forgotten"

    def report(self) -> None:
        """Which bundle, how sure it is, what it could not answer."""
        manifest = self._model.bundle.manifest
        waiting = "waiting for states" if self._answered == 0 else ""
        self._diagnostics.publish(
            WARN if waiting or self._problem else OK,
            self._problem or waiting or ("shadow" if self.values["shadow"] else "offering"),
            {
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
            },
        )

    def _load(self, name: str) -> ResidualModel:
        keys = self.values["trusted_keys"]
        bundle = load_bundle(name, self._arm, Path(keys) if keys else None)
        # An answer that takes a whole period is of no use to the controller any more.
        return ResidualModel(bundle, self._arm, deadline=self._arm.period)

    def _listen_to_commands(self) -> None:
        """Models that see the classical torque get the newest command; the others spare the traffic."""
        if not self._hears_commands and any(one.quantity == "baseline" for one in self._model.bundle.manifest.inputs):
            self._hears_commands = True
            self.subscribe(TORQUE_COMMAND, self._on_command)

    def _on_command(self, message: JointState) -> None:
        try:
            self._baseline = classical_array(message, self._order)
        except TrimtabError as error:
            self._problem = f"torque command refused: {error}"

    def _on_state(self, message: JointState) -> None:
        stamp = to_nanoseconds(message.header.stamp)
        if not self.active or stamp == self._stamp:
            return
        if self._ready is not None:
            self._take_up(self._ready)
        self._stamp = stamp
        try:
            q, qd = state_arrays(message, self._order)
        except TrimtabError as error:
            self._problem = f"state refused: {error}"
            self._unanswered += 1
            self._model.reset()
            return
        self._problem = ""
        now = stamp * 1e-9
        desired = self._follower.at(q, qd, now)
        if self._early is not None:
            early, self._early = self._early, None
            self._on_reference(early)
        if abs(desired.q - q).max() > LOST:
            # The controller was reset, or follows a goal of its action: begin again where the arm is.
            self._follower.reset()
            desired = self._follower.at(q, qd, now)
        offer = self._model.offer(Sample(q, qd, desired, self._arm.period), self._baseline, now)
        if offer is None:
            self._unanswered += 1
            return
        self._confidence = offer.confidence
        live = not self.values["shadow"]
        self._publisher.publish(residual_message(offer, message.header.stamp, self._arm.joints, desired, live))
        self._answered += 1
        self._meter.tick()

    def _on_reference(self, message: JointTrajectory) -> None:
        if not self.active:
            return
        if self._stamp < 0:
            self._early = message  # the planner saw the arm before we did: it is followed from the first state on
            return
        try:
            if message.points:
                self._follower.follow(to_trajectory(message, self._order), start_of(message, self._stamp))
            else:
                self._follower.cancel()
        except ReferenceRefused as error:
            self.get_logger().warning(f"reference not followed: {error}")

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
        self.get_logger().info(f"swapped: {manifest.name}/{manifest.version} is at work")
        self.report()

    def _forget(self) -> None:
        self._model.reset()
        self._follower.reset()
        self._stamp = -1
        self._early = None


def main() -> int:
    """Runs the node."""
    return run_node(Residual)
