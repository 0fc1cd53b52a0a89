"""Which column of a foreign recording is what: a small YAML file, read strictly."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trimtab import units
from trimtab.errors import ConfigError
from trimtab.fields import Fields
from trimtab.share import resolve

RECORDINGS = "config/recordings"
RUN = "{run}"
"""In a column's name: stands for the name of a run, where one file holds several."""


@dataclass(frozen=True)
class Columns:
    """Where one quantity of all joints stands."""

    names: tuple[str, ...]
    """One array with a column for each joint, or as many names as joints."""
    part: tuple[int, int] | None
    """First column and the one after the last, where the array holds more than this quantity."""
    factor: float
    """To the stack's unit."""
    unit: str
    """The stack's unit."""


@dataclass(frozen=True)
class JointPd:
    """A joint PD whose torque was not recorded; each of shape (joints,)."""

    kp: tuple[float, ...]
    """[Nm/rad]"""
    kd: tuple[float, ...]
    """[Nm s/rad]"""
    limit: tuple[float, ...]
    """Largest torque that was sent [Nm]."""


@dataclass(frozen=True)
class RecordingMapping:
    """How to read recordings of one layout."""

    name: str
    file: Path
    joints: tuple[str, ...]
    """Order of the columns."""
    rate: float | None
    """Rows per second, where the recording has no time of its own [Hz]."""
    time: Columns | None
    position: Columns
    velocity: Columns | None
    effort: Columns | None
    """Measured."""
    sent: Columns | None
    """Torque that was sent [Nm]."""
    wanted_position: Columns | None
    wanted_velocity: Columns | None
    pd: JointPd | None

    @property
    def columns(self) -> Mapping[str, Columns]:
        """What there is, by what it is."""
        every = {
            "time": self.time,
            "position": self.position,
            "velocity": self.velocity,
            "effort": self.effort,
            "sent": self.sent,
            "reference.position": self.wanted_position,
            "reference.velocity": self.wanted_velocity,
        }
        return {what: columns for what, columns in every.items() if columns is not None}


def load_mapping(name_or_path: str | Path) -> RecordingMapping:
    """A mapping by name (`wam_pd`) or by the path of its file."""
    file = resolve(name_or_path, RECORDINGS, "mapping")
    fields = Fields.of_file(file)
    name = fields.text("recording")
    joints = fields.texts("joints")
    rate = fields.number("rate", low=1e-3, high=1e6) if fields.has("rate") else None
    time = _columns(fields, "time", units.TIME, 1)
    position = _columns(fields, "position", units.POSITION, len(joints))
    if position is None:
        raise fields.error("position", "is missing")
    velocity = _columns(fields, "velocity", units.VELOCITY, len(joints))
    effort = _columns(fields, "effort", units.EFFORT, len(joints))
    sent = _columns(fields, "sent", {"Nm": ("Nm", 1.0), "mNm": ("Nm", 1e-3)}, len(joints))
    wanted_position = wanted_velocity = None
    if fields.has("reference"):
        reference = fields.mapping("reference")
        wanted_position = _columns(reference, "position", units.POSITION, len(joints))
        wanted_velocity = _columns(reference, "velocity", units.VELOCITY, len(joints))
        if wanted_position is None:
            raise reference.error("position", "is missing")
        reference.done()
    pd = _pd(fields.mapping("pd"), len(joints)) if fields.has("pd") else None
    fields.done()
    if time is not None and rate is not None:
        raise fields.error("rate", "is given beside time; the recording has one or the other")
    mapping = RecordingMapping(
        name, file, joints, rate, time, position, velocity, effort, sent, wanted_position, wanted_velocity, pd
    )
    _check(mapping, fields)
    return mapping


def _check(mapping: RecordingMapping, fields: Fields) -> None:
    several = {RUN in name for columns in mapping.columns.values() for name in columns.names}
    if len(several) > 1:
        raise ConfigError(f"{fields.file}: some columns contain {RUN} and some do not; a file holds several runs or one")
    if mapping.pd is not None and (mapping.wanted_velocity is None or mapping.velocity is None):
        raise fields.error("pd", "needs velocity and reference.velocity: its torque is computed from them")
    if mapping.pd is not None and mapping.sent is not None:
        raise fields.error("pd", "is given beside sent; a torque was recorded or it was not")


def _columns(fields: Fields, field: str, known: Mapping[str, float | tuple[str, float]], joints: int) -> Columns | None:
    if not fields.has(field):
        return None
    section = fields.mapping(field)
    value = section.take("from")
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else ()
    if not names or not all(isinstance(name, str) and name for name in names):
        raise section.error("from", f"must be the name of an array or a list of names, not {value!r}")
    if len(names) not in (1, joints):
        raise section.error("from", f"names {len(names)} columns for {joints} joints")
    part = None
    if section.has("columns"):
        first, end = section.numbers("columns", 2, low=0)
        if len(names) != 1 or not (first.is_integer() and end.is_integer()) or end - first != joints:
            raise section.error("columns", f"must be [first, end] of {joints} columns of one array")
        part = int(first), int(end)
    unit = section.text("unit", tuple(known))
    section.done()
    becomes = known[unit]
    own, factor = becomes if isinstance(becomes, tuple) else (next(iter(known)), becomes)
    return Columns(names, part, factor, own)


def _pd(fields: Fields, joints: int) -> JointPd:
    pd = JointPd(*(fields.numbers(name, joints, low=0.0) for name in ("kp", "kd", "limit")))
    fields.done()
    return pd
