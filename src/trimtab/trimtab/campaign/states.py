"""Faults of time and data: what becomes of a state on its way to the controller. The classical run gets the same."""

from collections.abc import Callable

import numpy as np

from trimtab.campaign.cases import JOINT, Scene
from trimtab.campaign.offers import EARLY
from trimtab.plant import Plant
from trimtab.simulate import Events, State


class StateFault:
    """Changes or loses states once it has begun. `change` gets the state and how many came before it since then."""

    def __init__(self, begins: float, change: Callable[[State, int], State | None]) -> None:
        """begins: [s]."""
        self._begins, self._change, self._count = begins, change, 0

    def on_plant(self, plant: Plant, t: float) -> None:
        """The plant is well."""

    def on_state(self, state: State) -> State | None:
        """The state as it arrives; None where it is lost."""
        if state[2] < self._begins - EARLY:
            return state
        self._count += 1
        q, qd, stamp = state
        return self._change((q.copy(), qd.copy(), stamp), self._count - 1)


def lost(which: Callable[[int], bool]) -> Callable[[Scene], Events]:
    """Loses the states whose number since the fault began says so."""
    return lambda scene: StateFault(scene.begins, lambda state, k: None if which(k) else state)


def clock_back(seconds: float) -> Callable[[Scene], Events]:
    """From some state on, all stamps lie so much earlier [s]."""
    return lambda scene: StateFault(scene.begins, lambda state, _: (state[0], state[1], state[2] - seconds))


def position_nan(scene: Scene) -> Events:
    """One joint's position is not a number, once."""

    def change(state: State, k: int) -> State:
        if k == 0:
            state[0][JOINT] = np.nan
        return state

    return StateFault(scene.begins, change)


def velocity_spike(scene: Scene) -> Events:
    """One joint's velocity reads 1.2 times its limit, in one state every 0.1 s: within the trip."""
    every = max(1, round(0.1 * scene.arm.rate))

    def change(state: State, k: int) -> State:
        if k % every == 0:
            state[1][JOINT] = 1.2 * scene.arm.velocity[JOINT]
        return state

    return StateFault(scene.begins, change)


def encoder_offset(radians: float) -> Callable[[Scene], Events]:
    """One joint's position reads so much more [rad]."""

    def make(scene: Scene) -> Events:
        def change(state: State, _: int) -> State:
            state[0][JOINT] += radians
            return state

        return StateFault(scene.begins, change)

    return make


def velocity_frozen(scene: Scene) -> Events:
    """One joint's velocity repeats what it was when the fault began."""
    kept: list[float] = []

    def change(state: State, _: int) -> State:
        if not kept:
            kept.append(float(state[1][JOINT]))
        state[1][JOINT] = kept[0]
        return state

    return StateFault(scene.begins, change)
