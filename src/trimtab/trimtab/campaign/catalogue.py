"""All faults of the campaign, by name."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from trimtab.campaign import bundles, offers, plants, states
from trimtab.campaign.cases import FaultCase, Scene, Spoil
from trimtab.errors import ConfigError

FROM_START = "-at-start"


def _model(name: str, what: str, spoil: Callable[[Scene], Spoil]) -> FaultCase:
    return FaultCase(name, "model", what, spoil=spoil)


def _process(name: str, what: str, spoil: Callable[[Scene], Spoil]) -> FaultCase:
    return FaultCase(name, "process", what, spoil=spoil)


def _time(name: str, what: str, spoil: Callable[[Scene], Spoil]) -> FaultCase:
    return FaultCase(name, "time", what, spoil=spoil)


NONE = FaultCase("none", "none", "nothing goes wrong: what the model does for this arm")

MODEL = (
    _model("nan", "all torques are NaN", offers.torque(lambda u: np.full_like(u, np.nan))),
    _model("inf", "all torques are +infinity", offers.torque(lambda u: np.full_like(u, np.inf))),
    _model("huge", "all torques are 1e30 Nm", offers.torque(lambda u: np.full_like(u, 1e30))),
    _model("zeros", "all torques are 0", offers.torque(np.zeros_like)),
    _model("bias", "half of the bound is added", offers.added(lambda bounds, _: 0.5 * bounds)),
    _model("sign", "the sign is turned", offers.torque(lambda u: -u)),
    _model("gain", "torques are 3 times what they should be", offers.torque(lambda u: 3.0 * u)),
    _model("alternating", "the sign turns with every step", offers.Alternating),
    _model("sine", "a sine of 5 Hz as large as the bound", offers.instead(lambda b, t: b * np.sin(10.0 * np.pi * t))),
    _model("noise", "white noise of half the bound is added", offers.Noise),
    _model("frozen", "torques stay what they were", offers.Frozen),
    _model("stuck-output", "one joint's torque stays what it was", lambda scene: offers.Frozen(scene, one=True)),
    _model("permuted", "each joint gets its neighbour's torque", offers.torque(lambda u: np.roll(u, 1))),
    _model("short", "one torque too few", offers.torque(lambda u: u[:-1])),
    _model("confidence-nan", "confidence is NaN", offers.confidence(np.nan)),
    _model("confidence-high", "confidence is 1.5", offers.confidence(1.5)),
    _model("exception", "the model raises an exception", offers.fails),
    _model("drift", "a bias that grows by the bound in 2 s", offers.added(lambda bounds, t: 0.5 * t * bounds)),
)

PROCESS = (
    _process("gone", "no more offers", offers.gone(np.inf)),
    _process("gone-short", "no offers for 0.05 s, then again", offers.gone(0.05)),
    _process("gone-back", "no offers for 0.3 s, then again", offers.gone(0.3)),
    _process("third-missing", "every third offer is missing", lambda _: offers.Skipping(3)),
)

TIME = (
    _time("late-1", "offers come 1 period late", offers.late(1, honest=True)),
    _time("late-5", "offers come 5 periods late", offers.late(5, honest=True)),
    _time("late-hidden", "offers are 20 periods old and stamped as new", offers.late(20, honest=False)),
    _time("stamp-future", "stamps lie 1 s ahead", offers.stamp(lambda now, _: now + 1.0)),
    _time("stamp-same", "all stamps are the same", offers.stamp(lambda _, begins: begins)),
    FaultCase("state-lost", "time", "every tenth state is lost", events=states.lost(lambda k: k % 10 == 0)),
    FaultCase("state-burst", "time", "8 states in a row are lost", events=states.lost(lambda k: k < 8)),
    FaultCase("clock-back", "time", "the states' clock jumps back by 0.05 s", events=states.clock_back(0.05)),
)

DATA = (
    FaultCase("position-nan", "data", "one joint's position is NaN, once", events=states.position_nan),
    FaultCase(
        "velocity-spike",
        "data",
        "one joint's velocity reads 1.2 times its limit for one state every 0.1 s",
        events=states.velocity_spike,
    ),
    FaultCase("encoder-step", "data", "one joint's position reads 2 mrad more", events=states.encoder_offset(0.002)),
    FaultCase("velocity-frozen", "data", "one joint's velocity stays what it was", events=states.velocity_frozen),
)

BUNDLE = (
    FaultCase("bit-flip", "bundle", "one bit of the model is another", corrupt=bundles.bit_flipped),
    FaultCase("truncated", "bundle", "half of the model, with the right hash", corrupt=bundles.truncated),
    FaultCase("other-arm", "bundle", "the manifest is of another arm", corrupt=bundles.other_arm),
    FaultCase("probe", "bundle", "the stored answer to a probe is not the model's", corrupt=bundles.probe_changed),
    FaultCase("beyond-bounds", "bundle", "right hash, answers beyond the bounds", corrupt=bundles.beyond_bounds),
    FaultCase("unsigned", "bundle", "not signed where signatures are demanded", corrupt=bundles.unsigned),
    FaultCase("tampered", "bundle", "bounds raised after signing", corrupt=bundles.changed_after_signing),
)

PLANT = (
    FaultCase("payload", "plant", "40 % of the rated payload, all at once", events=plants.payload_taken),
    FaultCase("payload-lost", "plant", "a payload of 40 % is dropped", events=plants.payload_dropped),
    FaultCase("friction-3", "plant", "one joint's friction jumps to 3 times", events=plants.friction(3.0)),
    FaultCase("jam", "plant", "one joint sticks", events=plants.jammed),
    FaultCase("weak-motor", "plant", "motors lose 20 % of their torque", events=plants.weak(0.8)),
    FaultCase("delay", "plant", "commands act 4 ms later", events=plants.delay(0.004)),
    FaultCase("push", "plant", "10 % of the torque limits from outside for 0.2 s", events=plants.push),
)


def all_cases() -> tuple[FaultCase, ...]:
    """The whole campaign, the run without a fault first; model faults also from the very start."""
    early = (
        replace(case, name=case.name + FROM_START, what=f"{case.what}, from the very start", from_start=True)
        for case in MODEL
    )
    return (NONE, *MODEL, *early, *PROCESS, *TIME, *DATA, *BUNDLE, *PLANT)


def choose_cases(text: str) -> list[FaultCase]:
    """`all`, or names and kinds joined by commas; the run without a fault always comes first."""
    known = all_cases()
    if text.strip() == "all":
        return list(known)
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if not any(word in (case.name, case.kind) for case in known):
            kinds = ", ".join(dict.fromkeys(case.kind for case in known))
            raise ConfigError(
                f"unknown fault '{word}'; known: {', '.join(case.name for case in known)}; or all of a kind: {kinds}"
            )
    return [case for case in known if case is NONE or case.name in words or case.kind in words]
