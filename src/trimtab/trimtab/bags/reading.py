"""A log of one arm as a stream: blocks of rows and the references between them, in memory that never grows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.typesys import Stores, get_typestore
from rosbags.typesys.store import Typestore

from trimtab.bags.answers import Answers
from trimtab.bags.columns import ColumnReader, Table
from trimtab.bags.effort import EffortUnit
from trimtab.bags.files import Bag, advice
from trimtab.bags.findings import Findings
from trimtab.bags.references import Reference, References
from trimtab.bags.stamps import StampWatch
from trimtab.bags.storage import Batch, Raw, reason_of
from trimtab.bags.topics import DIAGNOSTIC_ARRAY, DIAGNOSTICS, JOINT_STATE, JOINT_TRAJECTORY, Topics, check_names
from trimtab.errors import LogError, ReferenceRefused
from trimtab.foreign import Jointed
from trimtab.names import DELIVERIES
from trimtab.recording.context import RecordingContext
from trimtab.reference.message import trajectory_of
from trimtab.typing import FloatArray

WAIT = 500_000_000  # ns of recording for which a state waits for its command
MOST_HELD = 100_000  # states that wait, however strange the times of recording are
TYPE_HASH_LENGTH = len("RIHS01_") + 64


@dataclass(frozen=True)
class Rows:
    """Consecutive states of one segment, with what answered them. NaN where nothing did; arrays are (n, dof) or (n,)."""

    segment: int
    """Counts from 0; a new one begins where the clock jumped back."""
    stamp: np.ndarray
    """[ns], strictly rising within a segment."""
    time: np.ndarray
    """When they were recorded [ns]."""
    q: FloatArray
    """[rad]"""
    qd: FloatArray
    """[rad/s]"""
    effort: FloatArray
    """Measured torque [Nm], where states carry one and its unit is declared."""
    torque: FloatArray
    """What was sent [Nm]."""
    learned: FloatArray
    """Learned part of what was sent [Nm]."""
    offered: FloatArray
    """What the model offered for this state [Nm]."""
    applied: FloatArray
    """Residual before the torque limits [Nm]; in the bags of `trimtab run`."""
    confidence: FloatArray
    live: FloatArray
    """1 where the offer was meant to act, 0 for a shadow."""
    references: tuple[tuple[int, Reference], ...] = ()
    """References, each with the first row for which it counts; the number of rows for one that counts for none of them."""

    def __len__(self) -> int:
        return len(self.stamp)


class LogReader:
    """One arm's log in a bag. Opening it checks what can be checked without reading all of it.

    `findings` is complete once `blocks` has come to its end.
    """

    def __init__(
        self,
        path: Path,
        arm: Jointed,
        topics: Topics | None = None,
        effort: EffortUnit | None = None,
        *,
        effort_declared: bool = False,
    ) -> None:
        """effort: what the states' effort means; None: it is not used, which is noted unless it was declared so."""
        self.arm = arm
        self.topics = topics or Topics()
        self._effort, self._declared = effort, effort_declared or effort is not None
        check_names(self.topics)
        self.findings = Findings()
        self.bag = Bag(path, self.findings)
        self.context = RecordingContext.from_custom_data(self.bag.custom)
        self.require(self.topics.states)
        for topic in (self.topics.torques, self.topics.residuals):
            self._check_topic(topic, JOINT_STATE, needed=False)
        if self.topics.reference not in (self.topics.states, self.topics.torques):
            self._check_topic(self.topics.reference, JOINT_TRAJECTORY, needed=False)

    @property
    def custom(self) -> Mapping[str, str]:
        """What the bag tells of itself, raw."""
        return self.bag.custom

    def has(self, topic: str) -> bool:
        """Whether the bag has a topic."""
        return any(channel.topic == topic for channel in self.bag.channels)

    def require(self, topic: str) -> None:
        """Refuses a bag without a topic of joint states, or without any message of it."""
        self._check_topic(topic, JOINT_STATE, needed=True)

    def claimed(self) -> int:
        """States that the bag claims to hold; 0 where it does not tell."""
        return sum(channel.count or 0 for channel in self.bag.channels if channel.topic == self.topics.states)

    def blocks(self) -> Iterator[Rows]:
        """All rows, in blocks of some seconds."""
        topics = self.topics
        wanted = {topics.states, topics.torques, topics.residuals, topics.reference}
        controller = self._controller()
        assembler = _Assembler(self.arm, topics, self._effort, self._declared, self.findings, controller)
        for batch in self.bag.batches(wanted if controller is None else wanted | {DIAGNOSTICS}):
            for topic, messages in batch.items():
                if messages and topic in wanted:
                    self.findings.messages[topic] += len(messages)
            yield from assembler.take(batch)
        yield from assembler.finish()
        self._compare_with_claims(wanted)
        if assembler.fitting == 0 and self.findings.foreign:
            raise LogError(
                f"{self.bag.path}: {self.findings.foreign_first}; is it the right topic, of the arm '{self.arm.name}'?"
            )
        if self.findings.rows == 0:
            what = f"; {self.findings.not_finite_first or self.findings.malformed_first}".rstrip("; ")
            self.findings.missing(f"no usable state in {topics.states}{what}")

    def _controller(self) -> str | None:
        """The controller's name on /diagnostics; None where none of ours speaks in this bag."""
        speaks = any(one.topic == DIAGNOSTICS and one.type == DIAGNOSTIC_ARRAY for one in self.bag.channels)
        if not speaks or self.context.delivery not in DELIVERIES:
            return None
        return f"{self.topics.states.rpartition('/')[0].strip('/')}/controller".lstrip("/")

    def _check_topic(self, topic: str, wanted: str, *, needed: bool) -> None:
        path = self.bag.path
        found = [channel for channel in self.bag.channels if channel.topic == topic]
        if not found:
            if not needed:
                return
            known = ", ".join(self.bag.topics()) or "none"
            problem = f"has no topic {topic} (it has: {known})"
            raise LogError(f"{path}: {problem}; record it, or name the topic that stands for it")
        for channel in found:
            if channel.type != wanted:
                raise LogError(f"{path}: {topic} is {channel.type}, it must be {wanted}; name another topic")
            if len(channel.hash) == TYPE_HASH_LENGTH and channel.hash != _types().hash_rihs01(wanted):
                raise LogError(
                    f"{path}: {topic} was recorded with another definition of {wanted} (type hash {channel.hash[:15]}...); "
                    "convert the bag to the standard message"
                )
        if needed and all(channel.count == 0 for channel in found):
            raise LogError(f"{path}: {topic} has no messages; record again while the arm is running")

    def _compare_with_claims(self, wanted: set[str]) -> None:
        # Of one topic each file claims its own part; where metadata.yaml speaks, it repeats the total for every file.
        for topic in sorted(wanted):
            claims = [channel.count for channel in self.bag.channels if channel.topic == topic and channel.count is not None]
            count = self.findings.messages[topic]
            if claims and count < max(claims):
                self.findings.missing(f"{topic} holds {count} of {max(claims)} messages, so it was cut off")


class _Assembler:
    """Puts rows together from the batches of a bag."""

    def __init__(
        self,
        arm: Jointed,
        topics: Topics,
        effort: EffortUnit | None,
        declared: bool,
        findings: Findings,
        controller: str | None,
    ) -> None:
        self._arm, self._topics, self._findings = arm, topics, findings
        self._effort, self._declared = effort, declared
        self._order = arm.order()
        names = (topics.states, topics.torques, topics.residuals)
        self._readers = {name: ColumnReader(name, arm, findings) for name in names}
        self._commands = Answers(2 * arm.dof)
        self._offers = Answers(2 * arm.dof + 2)
        self._watch = StampWatch(findings, arm.period)
        self._held: list[Table] = []
        self._references = References(controller)
        self._segment = 0
        self._newest = 0
        self._stampless: bool | None = None

    @property
    def fitting(self) -> int:
        """States that had the arm's joints."""
        return self._readers[self._topics.states].fitting

    def take(self, batch: Batch) -> Iterator[Rows]:
        """The rows that are complete with this batch."""
        topics = self._topics
        raw = batch.get(topics.states, [])
        declared = self._declared or topics.torques == topics.states
        states = self._stamped(self._readers[topics.states].states(raw, self._effort, declared))
        raw = batch.get(topics.torques, [])
        torques = self._readers[topics.torques].torques(raw, self._effort if topics.torques == topics.states else None)
        self._commands.put(torques.stamp, torques.time, torques.values)
        offers = self._readers[topics.residuals].residuals(batch.get(topics.residuals, []))
        self._offers.put(offers.stamp, offers.time, offers.values)
        for one in batch.get(topics.reference, []):
            self._take_reference(one)
        for one in batch.get(DIAGNOSTICS, []):
            self._hear(one)
        chosen = self._watch.look(states.stamp, states.values[:, : 2 * self._arm.dof])
        parts = np.split(chosen.keep, chosen.breaks)
        for i, part in enumerate(parts):
            if i > 0:  # the clock jumped back: what came before is complete
                yield from self._give_out(None, int(states.time[part[0]]) if len(part) else None)
                self._segment += 1
            if len(part):
                self._held.append(Table(states.time[part], states.stamp[part], states.values[part]))
        times = [messages[-1].time for messages in batch.values() if messages]
        self._newest = max([self._newest, *times])
        horizon = self._references.horizon(self._newest)
        yield from self._give_out(self._newest - WAIT if horizon is None else min(horizon, self._newest - WAIT), None)

    def finish(self) -> Iterator[Rows]:
        """What is left."""
        yield from self._give_out(None, None)
        self._findings.commands_without_state += self._commands.forget(None)

    def _stamped(self, states: Table) -> Table:
        if self._stampless is None and len(states.stamp):
            self._stampless = not states.stamp.any()
            if self._stampless:
                self._findings.note(f"{self._topics.states} bears no stamps: the times of recording stand for them")
        return Table(states.time, states.time, states.values) if self._stampless else states

    def _take_reference(self, raw: Raw) -> None:
        self._findings.references += 1
        try:
            message: Any = _types().deserialize_cdr(raw.data, JOINT_TRAJECTORY)
            trajectory = trajectory_of(message, self._order) if len(message.points) else None
            stamp = message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec
        except ReferenceRefused as error:
            self._findings.refused_references.append(f"reference refused: {error}")
        except Exception as error:  # whatever the bytes make the decoder run into
            self._findings.malformed += 1
            first = f"{self._topics.reference}: {reason_of(error)}"
            self._findings.malformed_first = self._findings.malformed_first or first
        else:
            self._references.add(Reference(raw.time, stamp, trajectory))

    def _hear(self, raw: Raw) -> None:
        try:
            self._references.hear(raw.data, _types())
        except Exception as error:  # as above
            self._findings.malformed += 1
            self._findings.malformed_first = self._findings.malformed_first or f"{DIAGNOSTICS}: {reason_of(error)}"

    def _give_out(self, until: int | None, jump: int | None) -> Iterator[Rows]:
        """Rows recorded before `until` [ns], all for None. jump: when the first state after a jump was recorded."""
        if not self._held:
            return
        time, stamp = (np.concatenate([getattr(one, key) for one in self._held]) for key in ("time", "stamp"))
        values = np.concatenate([one.values for one in self._held])
        count = len(time) if until is None else int(np.searchsorted(time, until))
        if len(time) > MOST_HELD:
            count = len(time)
        if count == 0:
            return
        self._held = [Table(time[count:], stamp[count:], values[count:])] if count < len(time) else []
        time, stamp, values = time[:count], stamp[:count], values[:count]
        dof = self._arm.dof
        commands, commanded = self._commands.take(stamp, jump)
        offers, _ = self._offers.take(stamp, jump)
        self._findings.without_command += int((~commanded).sum())
        # What was recorded before the last of these rows, and longer ago than anything waits, has lost its state.
        old = jump if jump is not None else None if until is None else int(time[-1]) - WAIT
        if old is not None:
            self._findings.commands_without_state += self._commands.forget(old)
            self._offers.forget(old)
        last = None if until is None else (int(time[-1]), int(stamp[-1]))
        due = self._references.take(last, jump)
        yield Rows(
            segment=self._segment,
            stamp=stamp,
            time=time,
            q=values[:, :dof],
            qd=values[:, dof : 2 * dof],
            effort=values[:, 2 * dof :],
            torque=commands[:, :dof],
            learned=commands[:, dof:],
            offered=offers[:, :dof],
            applied=offers[:, dof : 2 * dof],
            confidence=offers[:, 2 * dof],
            live=offers[:, 2 * dof + 1],
            references=tuple(sorted(((one.row(time, stamp), one) for one in due), key=lambda placed: placed[0])),
        )


@cache
def _types() -> Typestore:
    return get_typestore(Stores.ROS2_JAZZY)


__all__ = ["JOINT_STATE", "Findings", "LogReader", "Reference", "Rows", "advice"]
