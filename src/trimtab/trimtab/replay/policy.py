"""The policy file of a replay: thresholds, and which of them differ in a context."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

from trimtab.fields import Fields
from trimtab.share import resolve

SCHEMA = 1
DEFAULT = "replay"


@dataclass(frozen=True)
class Thresholds:
    """See config/replay.yaml for what each of them means."""

    agreement: float
    error: float
    error_to_baseline: float
    joint_error: float
    direction: float
    scale: float
    scale_high: float
    not_finite: float
    residual_off: float
    unsure: float
    too_large: float
    jumps: float
    energy: float
    late: float


NAMES = tuple(one.name for one in fields(Thresholds))


@dataclass(frozen=True)
class Policy:
    """What a candidate is judged by."""

    seconds: float
    """Of motion below which a context is inconclusive."""
    moving: float
    """For which a joint must move to be judged on its own [s],"""
    joint: float
    """nor is one judged that errs by less than this share of the arm's error,"""
    effect: float
    """nor one of whose error the residual would change less than this share."""
    thresholds: Thresholds
    contexts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By `label=value`: thresholds that differ there."""

    def of(self, context: str) -> Thresholds:
        """The thresholds of a context."""
        return replace(self.thresholds, **self.contexts.get(context, {}))

    def as_dict(self) -> dict[str, object]:
        """Plain data: what results depend on."""
        return asdict(self)


def load_policy(name_or_path: str | Path = DEFAULT) -> Policy:
    """Reads a policy file; refuses unknown fields and numbers out of range."""
    file = resolve(name_or_path, "config", "policy")
    top = Fields.of_file(file)
    if top.number("schema") != SCHEMA:
        raise top.error("schema", f"must be {SCHEMA}")
    enough = top.mapping("enough")
    seconds = enough.number("seconds", low=0.0)
    moving = enough.number("moving", low=0.0)
    joint, effect = (enough.number(name, low=0.0, high=1.0) for name in ("joint", "effect"))
    enough.done()
    given = top.mapping("thresholds")
    thresholds = Thresholds(**{name: _threshold(given, name) for name in NAMES})
    given.done()
    contexts: dict[str, dict[str, float]] = {}
    if top.has("contexts"):
        section = top.mapping("contexts")
        for context in section.names():
            if "=" not in context:
                raise section.error(context, "is no context; write it as label=value, for instance payload=2kg")
            own = section.mapping(context)
            contexts[context] = {name: _threshold(own, name) for name in own.names() if name in NAMES}
            own.done()
        section.done()
    top.done()
    return Policy(seconds, moving, joint, effect, thresholds, contexts)


def _threshold(given: Fields, name: str) -> float:
    return given.number(name, low=-1.0 if name == "direction" else 0.0, high=100.0)
