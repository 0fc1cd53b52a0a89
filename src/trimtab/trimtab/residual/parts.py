"""The parts of a manifest, and how each is read from its file."""

import re
from dataclasses import dataclass
from typing import Any

from trimtab.fields import Fields

QUANTITIES = ("q_des", "qd_des", "qdd_des", "q", "qd", "error", "baseline")
UNITS = {"position": "rad", "velocity": "rad/s", "acceleration": "rad/s^2", "torque": "Nm"}
MIN_PROBES = 3
MIN_MARGIN = 1e-3
MAX_FREE = 5_000  # values in `trained_on` or `scores`: YAML can fold an endless document into a line
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""Names and versions become folders."""


@dataclass(frozen=True)
class Input:
    """One quantity that the model sees, a value per joint in the order of the manifest's joints."""

    quantity: str
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    """The model sees (raw - mean) / scale."""
    low: tuple[float, ...]
    high: tuple[float, ...]
    """Range of the raw values in training."""


@dataclass(frozen=True)
class State:
    """A recurrent tensor: zero at reset, then what the step before gave."""

    input: str
    output: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Confidence:
    """How far from the training data the model is trusted how much."""

    margin: float
    """How far outside its training range an input has to be for a confidence of 0, as a share of the range."""
    trusted: float | None = None
    """`distance` up to which confidence is 1."""
    unknown: float | None = None
    """`distance` from which confidence is 0."""


@dataclass(frozen=True)
class Probe:
    """A stored question and its answer."""

    x: tuple[float, ...]
    """Raw values in SI units, in the order of `inputs`."""
    residual: tuple[float, ...] = ()
    """[Nm]; empty until `write_bundle` fills it in."""


@dataclass(frozen=True)
class Signature:
    """Who vouches for the bundle."""

    key: str
    """Public key, hex."""
    value: str
    """Ed25519 signature of the canonical bytes, base64."""


def read_folder_name(fields: Fields, name: str) -> str:
    """A name that can be a folder."""
    return read_pattern(fields, name, NAME.pattern, "letters, digits, '.', '_' and '-', beginning with a letter or digit")


def read_pattern(fields: Fields, name: str, pattern: str, meaning: str) -> str:
    """A text of one form; `meaning` says which."""
    text = fields.text(name)
    if not re.fullmatch(pattern, text):
        raise fields.error(name, f"must be {meaning}, not {text!r}")
    return text


def read_units(fields: Fields) -> None:
    """Refuses any units but SI."""
    for quantity, unit in UNITS.items():
        found = fields.text(quantity)
        if found != unit:
            raise fields.error(quantity, f"is '{found}', only '{unit}' is taken; export the model in SI units")
    fields.done()


def read_inputs(fields: Fields, dof: int) -> tuple[Input, ...]:
    """What the model sees, at least one quantity and none twice."""
    inputs: list[Input] = []
    for one in fields.mappings("inputs"):
        quantity = one.text("quantity", QUANTITIES)
        if any(quantity == other.quantity for other in inputs):
            raise one.error("quantity", f"'{quantity}' is given twice")
        mean, scale = one.numbers("mean", dof), one.numbers("scale", dof, low=1e-9)
        low, high = one.numbers("low", dof), one.numbers("high", dof)
        for i, (a, b) in enumerate(zip(low, high, strict=True)):
            if a >= b:
                raise one.error(f"low[{i}]", f"must be below high[{i}], not {a:g} and {b:g}")
        one.done()
        inputs.append(Input(quantity, mean, scale, low, high))
    if not inputs:
        raise fields.error("inputs", "must name at least one quantity")
    return tuple(inputs)


def read_state(fields: Fields) -> State:
    """One recurrent tensor."""
    shape = fields.take("shape")
    if not isinstance(shape, list) or not shape or not all(type(size) is int and 0 < size <= 1_000_000 for size in shape):
        raise fields.error("shape", f"must be a list of whole numbers above 0, not {shape!r}")
    state = State(fields.text("input"), fields.text("output"), tuple(shape))
    fields.done()
    return state


def read_confidence(fields: Fields, has_distance: bool) -> Confidence:
    """Margin, and the distances where the model gives one."""
    margin = fields.number("margin", low=MIN_MARGIN, high=100.0)
    if not has_distance:
        if fields.has("trusted") or fields.has("unknown"):
            raise fields.error("trusted", "is only for models with a distance output")
        fields.done()
        return Confidence(margin)
    trusted = fields.number("trusted", low=0.0)
    unknown = fields.number("unknown", low=0.0)
    if trusted >= unknown:
        raise fields.error("trusted", f"must be below unknown, not {trusted:g} and {unknown:g}")
    fields.done()
    return Confidence(margin, trusted, unknown)


def read_probes(fields: Fields, width: int, dof: int) -> tuple[Probe, ...]:
    """The probes, each with its answer."""
    probes = []
    for one in fields.mappings("probes"):
        probes.append(Probe(one.numbers("x", width), one.numbers("residual", dof)))
        one.done()
    if len(probes) < MIN_PROBES:
        raise fields.error("probes", f"must be at least {MIN_PROBES}, not {len(probes)}")
    return tuple(probes)


def read_signature(fields: Fields) -> Signature:
    """Who vouches for the bundle."""
    key = read_pattern(fields, "key", r"[0-9a-f]{64}", "64 lower-case hex digits")
    signature = Signature(key, fields.text("value"))
    fields.done()
    return signature


def read_free(fields: Fields, name: str) -> dict[str, Any]:
    """A mapping of whatever JSON can hold, which excludes dates, NaN and keys that are no texts."""
    value = fields.take(name)
    if not isinstance(value, dict):
        raise fields.error(name, f"must be a mapping, not {type(value).__name__}")
    left: list[tuple[Any, int]] = [(value, 0)]
    count = 0
    while left:
        item, depth = left.pop()
        count += 1
        if count > MAX_FREE or depth > 20:
            raise fields.error(name, f"holds more than {MAX_FREE} values or more than 20 levels; keep it short")
        if isinstance(item, dict):
            if not all(isinstance(key, str) for key in item):
                raise fields.error(name, "has a key that is no text; write it in quotes")
            left += [(one, depth + 1) for one in item.values()]
        elif isinstance(item, list):
            left += [(one, depth + 1) for one in item]
        elif not (item is None or isinstance(item, str | bool | int) or (isinstance(item, float) and item - item == 0.0)):
            raise fields.error(name, f"holds {item!r}; write it as a text or a finite number")
    return value
