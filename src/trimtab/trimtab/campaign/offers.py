"""Faults of the model, of its process and of its time: what becomes of an offer on its way to the filter."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from trimtab.campaign.cases import Scene, Spoil
from trimtab.control.base import Sample
from trimtab.residual.offer import Offer, ResidualSource
from trimtab.typing import FloatArray

EARLY = 1e-9  # s; stamps are multiples of a period in floats


class SpoiltSource:
    """A residual source that a fault befalls. The model behind it goes on as if nothing were wrong."""

    def __init__(self, source: ResidualSource, spoil: Spoil, begins: float) -> None:
        """begins: [s]; before that the offers are handed on untouched."""
        self._source, self._spoil, self._begins = source, spoil, begins

    def reset(self) -> None:
        """Resets the source behind."""
        self._source.reset()

    def offer(self, sample: Sample, classical: FloatArray, now: float) -> Offer | None:
        """The source's offer, spoilt once the fault has begun."""
        offer = self._source.offer(sample, classical, now)
        return offer if offer is None or now < self._begins - EARLY else self._spoil(offer, now)


def torque(change: Callable[[FloatArray], FloatArray]) -> Callable[[Scene], Spoil]:
    """A fault that makes another torque of each torque."""
    return lambda _: lambda offer, _now: replace(offer, torque=change(offer.torque))


def added(wave: Callable[[FloatArray, float], FloatArray]) -> Callable[[Scene], Spoil]:
    """A fault that adds `wave(bounds, seconds since it began)` to the torque."""
    return lambda scene: lambda offer, now: replace(offer, torque=offer.torque + wave(scene.bounds, now - scene.begins))


def instead(wave: Callable[[FloatArray, float], FloatArray]) -> Callable[[Scene], Spoil]:
    """A fault that puts `wave(bounds, seconds since it began)` in the torque's place."""
    return lambda scene: lambda offer, now: replace(offer, torque=wave(scene.bounds, now - scene.begins))


def confidence(value: float) -> Callable[[Scene], Spoil]:
    """A fault that claims this confidence."""
    return lambda _: lambda offer, _now: replace(offer, confidence=value)


def late(periods: int, honest: bool) -> Callable[[Scene], Spoil]:
    """Offers come some periods late; an honest one is stamped with the state that it answers, another with the newest."""
    return lambda _: Late(periods, honest)


def stamp(shown: Callable[[float, float], float]) -> Callable[[Scene], Spoil]:
    """Offers are stamped `shown(now, begins)` [s]."""
    return lambda scene: lambda offer, now: replace(offer, stamp=shown(now, scene.begins))


def gone(seconds: float) -> Callable[[Scene], Spoil]:
    """No offer for so long [s]."""
    return lambda scene: lambda offer, now: None if now < scene.begins + seconds - EARLY else offer


def fails(_: Scene) -> Spoil:
    """The model raises."""

    def spoil(_offer: Offer, _now: float) -> Offer:
        raise RuntimeError("the model broke down")

    return spoil


class Late:
    """Hands on the offer of some periods ago."""

    def __init__(self, periods: int, honest: bool) -> None:
        self._line: deque[Offer] = deque(maxlen=periods + 1)
        self._honest = honest

    def __call__(self, offer: Offer, _: float) -> Offer:
        """What comes of an offer."""
        self._line.append(offer)
        old = self._line[0]
        return old if self._honest else replace(old, stamp=offer.stamp, confidence=offer.confidence)


class Frozen:
    """Repeats the torque of the instant at which it began, for all joints or for the one that was then the largest."""

    def __init__(self, scene: Scene, one: bool = False) -> None:
        self._bounds, self._one = scene.bounds, one
        self._kept: FloatArray | None = None
        self._mask = np.ones(scene.arm.dof, dtype=bool)

    def __call__(self, offer: Offer, _: float) -> Offer:
        """What comes of an offer."""
        if self._kept is None:
            self._kept = offer.torque.copy()
            if self._one:
                self._mask = np.arange(len(self._kept)) == np.abs(self._kept / self._bounds).argmax()
        return replace(offer, torque=np.where(self._mask, self._kept, offer.torque))


class Alternating:
    """Turns the sign with every step."""

    def __init__(self, _: Scene) -> None:
        self._sign = -1.0

    def __call__(self, offer: Offer, _: float) -> Offer:
        """What comes of an offer."""
        self._sign = -self._sign
        return replace(offer, torque=self._sign * offer.torque)


class Noise:
    """White noise on top, half of the bound as its standard deviation."""

    def __init__(self, scene: Scene) -> None:
        self._random, self._bounds = np.random.default_rng(scene.seed), scene.bounds

    def __call__(self, offer: Offer, _: float) -> Offer:
        """What comes of an offer."""
        noise = self._random.normal(size=len(self._bounds))
        return replace(offer, torque=offer.torque + 0.5 * self._bounds * noise)


class Skipping:
    """Every n-th offer is missing."""

    def __init__(self, every: int) -> None:
        self._every, self._count = every, 0

    def __call__(self, offer: Offer, _: float) -> Offer | None:
        """What comes of an offer."""
        self._count += 1
        return None if self._count % self._every == 0 else offer
