"""Plays a bag's states and references to live nodes, records what they answer, and fails when anything was lost."""

import threading
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.qos import QoSProfile
from rosgraph_msgs.msg import Clock

from trimtab.arm import load_arm
from trimtab.bag import SECOND
from trimtab.errors import LogError, TrimtabError
from trimtab.playback import Contents, Ledger, Played, Schedule, look, play, stamp_of, with_stamp
from trimtab_ros.answers_bag import AnswersBag
from trimtab_ros.diagnostics import ERROR, OK, WARN, Status
from trimtab_ros.hearsay import Hearsay
from trimtab_ros.hosting import run_node
from trimtab_ros.managed import ManagedNode
from trimtab_ros.messages import to_time
from trimtab_ros.parameters import ARM, Parameter
from trimtab_ros.topics import CLOCK, DIAGNOSTICS, JOINT_STATES, REFERENCE, RESIDUAL_TORQUE, TORQUE_COMMAND, Topic

RETRY = 0.05  # s after which a state that somebody waits for is sent again
LOOK = 0.02  # s between two looks at something that is waited for
SLACK = 0.05  # s by which the player may be late before it moves the rest instead of catching up
STRAGGLERS = 2.0  # s without any answer after which the last ones count as lost
TOLD = 5.0  # s that a node may take to tell of a reference, or of the end
CLOCK_RATE = 100.0  # Hz of /clock, in the bag's time
LONGEST_HOLD = 0.2  # s for which a state waits for answers to those before it; then they count as lost on the way
BOTH = f"{TORQUE_COMMAND.name}+{RESIDUAL_TORQUE.name}"
QUEUE = 1000  # messages; every answer counts


class Replayer(ManagedNode):
    """Stands where a driver stands: the states' own stamps, their own spacing, `pace` times as fast."""

    parameters: ClassVar = (
        ARM,
        Parameter("bag", "", "folder of the bag to play"),
        Parameter("states", "/joint_states", "topic of the states in the bag"),
        Parameter("reference", "/reference", "topic of the references in the bag"),
        Parameter("pace", 1.0, "times as fast as recorded; 0: each state waits for its answers", low=0.0, high=100.0),
        Parameter("hold_back", 4, "unanswered states on their way for which the next waits; 0: never", low=0, high=1000),
        Parameter("listeners", 1, "how many subscribers must listen to the states before anything is sent", low=1, high=100),
        Parameter("answers", TORQUE_COMMAND.name, "who must answer each state", (TORQUE_COMMAND.name, BOTH)),
        Parameter("directory", "", "folder of the bag with the answers; must not exist yet"),
        Parameter("patience", 30.0, "s to wait for subscribers and for the first answer", low=0.1, high=3600.0),
    )

    def __init__(self) -> None:
        super().__init__("replayer")
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._bag: AnswersBag | None = None

    def configure(self) -> None:
        """Looks into the bag, and whether the answers' folder is free."""
        if not self.values["bag"]:
            raise LogError("no bag to play; give one: bag:=FOLDER")
        arm = self._arm = load_arm(self.values["arm"])
        self._path = Path(self.values["bag"])
        self._contents: Contents = look(self._path, arm.order(), self.values["states"], self.values["reference"])
        self._directory = Path(self.values["directory"] or f"runs/replay-{time.strftime('%Y%m%d-%H%M%S')}")
        if self._directory.exists():
            raise LogError(f"{self._directory} exists already; give the replayer another directory")
        self._answering = [
            topic for topic in (TORQUE_COMMAND, RESIDUAL_TORQUE) if topic.name in self.values["answers"].split("+")
        ]
        self._forget()
        self._states, self._references = self.publisher(JOINT_STATES), self.publisher(REFERENCE)
        self._clock_publisher = self.publisher(CLOCK)
        for topic in self._answering:
            self._hear(topic)
        self.subscribe(DIAGNOSTICS, self._on_diagnostics)
        self.speak(arm.name)

    def _forget(self) -> None:
        self._ledger = Ledger([topic.name for topic in self._answering], self._arm.rate)
        self._changed = threading.Condition()
        self._heard = time.monotonic()
        self._told = Hearsay(self.get_namespace())
        self._again = self._held_back = self._references_sent = self._refused = 0
        self._schedule = Schedule(self.values["pace"] or 1.0, SLACK)
        self._doing, self._problems = "waiting for subscribers", list[str]()
        self._clock_at = self._last = -1

    def activate(self) -> None:
        """Starts to play, as soon as everybody listens."""
        self._forget()
        self._stop.clear()
        self._thread = threading.Thread(target=self._guard, name="player", daemon=True)
        self._thread.start()

    def deactivate(self) -> None:
        """Stops playing; what was answered so far is in the bag."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def reset(self) -> str:
        """There is nothing to reset: controller and residual keep what they have seen."""
        return "nothing to reset; start the replay again with fresh nodes"

    def status(self) -> Status:
        """How far it is, and what was lost."""
        ledger = self._ledger
        values = {
            "bag": self._path,
            "pace": self.values["pace"],
            "states": self._contents.states,
            "sent": ledger.sent,
            "sent_again": self._again,
            "unanswered": sum(ledger.lost(topic.name) for topic in self._answering),
            "held_back": self._held_back,
            "delays": self._schedule.moved,
            "references": self._references_sent,
            "references_refused": self._refused,
        }
        level = ERROR if self._problems else OK if ledger.sent else WARN
        return Status(level, "; ".join(self._problems) or self._doing, values)

    # What is heard ----------------------------------------------------------------------------------------------------

    def _hear(self, topic: Topic) -> None:
        def on_answer(data: bytes) -> None:
            stamp = stamp_of(data)
            with self._changed:
                self._heard = time.monotonic()
                if self._ledger.answer(topic.name, stamp) and self._bag is not None:
                    self._bag.write(topic, stamp, data)
                self._changed.notify_all()

        qos = QoSProfile(depth=QUEUE, reliability=topic.qos.reliability, durability=topic.qos.durability)
        self.keep(self.destroy_subscription, self.create_subscription(topic.type, topic.name, on_answer, qos, raw=True))

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        with self._changed:
            if self._told.take(message):
                self._changed.notify_all()

    # The player's thread ----------------------------------------------------------------------------------------------

    def _guard(self) -> None:
        try:
            self._run()
        except TrimtabError as error:
            self._problems.append(str(error))
        except Exception:  # a thread's exception would vanish
            self._problems.append(f"the player failed:\n{traceback.format_exc()}")
        for problem in self._problems:
            self.get_logger().error(problem)
        self.report()
        if self._problems:
            self.failed = True
        else:
            self.finished = True

    def _run(self) -> None:
        with ExitStack() as stack:
            self._await(self._listened_to, self.values["patience"], f"{self.values['listeners']} listeners; start the nodes")
            first = self._contents.first
            before = first.stamp - round(self._arm.period * SECOND)
            self._tick(before)
            self._meet(with_stamp(first.data, before), before)
            with self._changed:
                self._ledger = Ledger([topic.name for topic in self._answering], self._arm.rate, after=before)
                self._bag = stack.enter_context(AnswersBag.growing(self._directory, self._topics()))
            self._last = before
            self._doing = "playing"
            for played in play(self._path, self.values["states"], self.values["reference"]):
                if self._stop.is_set():
                    self._problems.append(f"stopped after {self._ledger.sent} of {self._contents.states} states")
                    break
                self._refer(played) if played.reference else self._send(played)
            self._doing = "waiting for the last answers"
            self._await_stragglers()
            self._judge()
            with self._changed:
                self._bag.tell(self._origin())
                self._bag = None
        self.get_logger().info(f"{self._doing}; answers in {self._directory}")

    def _topics(self) -> list[tuple[str, Topic]]:
        return [(self.resolve_topic_name(topic.name), topic) for topic in (JOINT_STATES, REFERENCE, *self._answering)]

    def _listened_to(self) -> bool:
        everybody = self._states.get_subscription_count() >= self.values["listeners"]
        needed = self._contents.references == 0 or self._references.get_subscription_count() >= self.values["listeners"]
        return everybody and needed and all(self.count_publishers(topic.name) for topic in self._answering)

    def _meet(self, data: bytes, stamp: int) -> None:
        """One state before the bag's first, again and again until it is answered: then messages pass both ways."""
        self._doing = "waiting for the first answer"
        self._ledger.send(stamp)
        deadline = time.monotonic() + self.values["patience"]
        while not self._ledger.answered(stamp):
            if self._stop.is_set() or time.monotonic() > deadline:
                raise LogError(f"nobody answered the first state: {'; '.join(self._ledger.report())}{self._told.fault()}")
            self._states.publish(data)
            with self._changed:
                self._changed.wait_for(lambda: self._ledger.answered(stamp) or self._stop.is_set(), RETRY)

    def _send(self, played: Played) -> None:
        """One state, when it is due; without a pace, when the one before is answered."""
        if self.values["pace"]:
            now = time.monotonic()
            if self._stop.wait(max(0.0, self._schedule.due(played.stamp, now) - now)):
                return
            self._hold_back()
        self._tick(played.stamp)
        with self._changed:
            if self._ledger.send(played.stamp) and self._bag is not None:
                self._bag.write(JOINT_STATES, played.stamp, played.data)
        self._last = played.stamp
        self._states.publish(played.data)
        if self.values["pace"]:
            return
        deadline = time.monotonic() + STRAGGLERS
        while not self._ledger.answered(played.stamp) and time.monotonic() < deadline and not self._stop.is_set():
            with self._changed:
                if self._changed.wait_for(lambda: self._ledger.answered(played.stamp) or self._stop.is_set(), RETRY):
                    return
            self._again += 1
            self._states.publish(played.data)

    def _hold_back(self) -> None:
        """Waits while as many states are on their way as the listeners' queues hold: one more would push one out."""
        most = self.values["hold_back"]
        if most and self._ledger.under_way >= most:
            self._held_back += 1
            with self._changed:
                self._changed.wait_for(lambda: self._ledger.under_way < most or self._stop.is_set(), LONGEST_HOLD)

    def _refer(self, played: Played) -> None:
        """A reference. Everything waits until it was taken or refused, so that it begins with the same state each time."""
        if self._bag is not None:
            self._bag.write(REFERENCE, self._last + 1, played.data)  # after that state, before the next
        before = self._told.references()
        self._references.publish(played.data)
        self._references_sent += 1
        self._await(lambda: sum(self._told.references()) > sum(before), TOLD, "the controller's word on a reference")
        if self._told.references()[1] > before[1]:
            self._refused += 1
            self.get_logger().warning(f"reference refused: {self._told.value('controller', 'last_refusal')}")
        if RESIDUAL_TORQUE in self._answering:
            heard = self._told.reports("residual")
            self._await(lambda: self._told.reports("residual") > heard, TOLD, "a word of the residual")
        self._schedule.pause()

    def _tick(self, stamp: int) -> None:
        if self._clock_at < 0 or stamp - self._clock_at >= SECOND / CLOCK_RATE:
            self._clock_publisher.publish(Clock(clock=to_time(max(0, stamp))))
            self._clock_at = stamp

    def _await(self, happened: Callable[[], Any], patience: float, what: str) -> None:
        deadline = time.monotonic() + patience
        while not happened():
            if time.monotonic() > deadline or self._stop.wait(LOOK):
                raise LogError(f"waited {patience:g} s for {what}{self._told.fault()}")

    def _await_stragglers(self) -> None:
        while not self._ledger.complete and time.monotonic() < self._heard + STRAGGLERS and not self._stop.wait(LOOK):
            pass
        heard = self._told.reports("controller")
        self._await(lambda: self._told.reports("controller") > heard, TOLD, "the controller's last word")

    def _judge(self) -> None:
        """Says what was lost, and where as far as that can be known."""
        ledger = self._ledger
        declined = {RESIDUAL_TORQUE.name: self._told.number("residual", "unanswered")}
        self._problems += [f"{line}{self._told.fault()}" for line in ledger.report(declined)]
        unanswered = ledger.lost(TORQUE_COMMAND.name)
        if unanswered:
            missed = self._told.number("controller", "deadline_misses") - ledger.gaps
            self._problems.append(
                f"of these {min(unanswered, max(0, missed))} states never reached the controller, as it counts them"
            )
        if self._told.fault():
            self.get_logger().warning(f"the controller latched a fault on the way{self._told.fault()}")
        counts = ", ".join(f"{count} {stream} ({ledger.lost(stream)} lacking)" for stream, count in ledger.answers.items())
        self._doing = f"played {ledger.sent} states, answered by {counts}"

    def _origin(self) -> dict[str, str]:
        """What the bag of answers tells of itself, beside what the played one told."""
        ledger = self._ledger
        told = {
            "replayed": str(self._path.resolve().name),
            "pace": f"{self.values['pace']:g}",
            "states_sent": str(ledger.sent),
            "states_sent_again": str(self._again),
            "states_held_back": str(self._held_back),
            "delays": str(self._schedule.moved),
            "references_refused": str(self._refused),
            "fault": self._told.value("controller", "fault"),
            "driver": "replayer",
            "delivery": "processes",
            "controller": self._told.value("controller", "controller"),
            "residual": self._told.value("controller", "residual") or "off",
            "bundle": self._told.value("residual", "model"),
        }
        told |= {f"lost_{topic.name}": str(ledger.lost(topic.name)) for topic in self._answering}
        return self._contents.custom | told


def main() -> int:
    """Runs the node."""
    return run_node(Replayer)
