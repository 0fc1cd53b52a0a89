"""What a bag tells of itself beside its messages: arm, model, plant, software, and the labels that a person gave."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields

from trimtab.errors import ConfigError

LABELS = {
    "payload": "payload class, such as none or 1kg",
    "temperature": "temperature band, such as cold or 20-30C",
    "tool": "what is mounted on the flange",
    "site": "where the robot stands",
    "firmware": "firmware of the robot",
    "hardware": "hardware revision of the robot",
}
"""Labels that every tool knows, with what they mean; a key of one's own begins with `x_`."""
LABEL = "label."
"""Prefix of a label's key in a bag's custom_data."""
UNKNOWN = "unknown"
LONGEST = 200  # characters of a label's value
_OWN = re.compile(r"x_[a-z0-9_]+")


@dataclass(frozen=True)
class RecordingContext:
    """What held while a bag was recorded; an empty text means that nobody told.

    The names of the fields are the keys in `custom_data` of metadata.yaml; those of labels begin with `label.`.
    """

    arm: str = ""
    """The arm's name, as its contract has it."""
    contract: str = ""
    """The arm's contract, the whole file."""
    contract_sha256: str = ""
    namespace: str = ""
    """Of the robot's topics, without slashes around it; empty where they have none."""
    plant: str = ""
    """Name of the simulated plant; empty on a robot."""
    driver: str = ""
    """What carried the torque out: the name of the driver, with the device where there is one."""
    controller: str = ""
    """Law and compensators, joined by '+'."""
    friction: str = ""
    """Identified friction that the controller compensates, the whole file; empty where it compensates none."""
    state_timeout: str = ""
    """For how long the controller goes without a state [s]; empty for the contract's."""
    residual: str = ""
    """`off`, `shadow` or `on`."""
    bundle: str = ""
    """name/version of the residual's bundle; empty where there is no residual."""
    bundle_sha256: str = ""
    """Hash of its model, from its manifest."""
    delivery: str = ""
    """`composed` or `processes`; `loop` for a run without messages."""
    reference: str = ""
    """Name of the motion, where it has one."""
    seed: str = ""
    """Of the plant's noise."""
    version: str = ""
    """Of this project."""
    revision: str = ""
    """Commit of this project; `unknown` outside of a checkout."""
    dirty: str = ""
    """Whether files differed from that commit: `true`, `false` or `unknown`."""
    started: str = ""
    """When recording began, UTC, ISO 8601."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """What a person told about it, by the keys of `LABELS` and such that begin with `x_`."""

    def to_custom_data(self) -> dict[str, str]:
        """As key and text, the form of a bag's custom_data; what nobody told is left out."""
        told = {name: getattr(self, name) for name in _NAMES if getattr(self, name)}
        return told | {f"{LABEL}{key}": value for key, value in self.labels.items()}

    @classmethod
    def from_custom_data(cls, data: Mapping[str, str] | None) -> "RecordingContext":
        """From a bag's custom_data, of whatever origin: what is missing is empty, what is unknown is left alone."""
        told = data or {}
        labels = {str(key)[len(LABEL) :]: str(value) for key, value in told.items() if str(key).startswith(LABEL)}
        return cls(**{name: str(told[name]) for name in _NAMES if told.get(name) is not None}, labels=labels)


_NAMES = tuple(one.name for one in fields(RecordingContext) if one.name != "labels")


def parse_labels(texts: Iterable[str]) -> dict[str, str]:
    """`payload=1kg`, `tool=gripper` -> {payload: 1kg, tool: gripper}; refuses unknown and repeated keys."""
    labels: dict[str, str] = {}
    for text in texts:
        key, separator, value = (part.strip() for part in text.partition("="))
        if not (separator and key and value):
            raise ConfigError(f"label '{text}' is not of the form key=value")
        if key not in LABELS and not _OWN.fullmatch(key):
            raise ConfigError(f"unknown label '{key}'; known: {', '.join(LABELS)}; a key of your own begins with x_")
        if not value.isprintable() or len(value) > LONGEST:
            raise ConfigError(f"label {key}: its value must be one line of at most {LONGEST} printable characters")
        if key in labels:
            raise ConfigError(f"label {key} is given twice")
        labels[key] = value
    return labels


def split_labels(text: str) -> dict[str, str]:
    """The same from one text with commas between the labels; an empty text has none."""
    return parse_labels(text.split(",")) if text.strip() else {}
