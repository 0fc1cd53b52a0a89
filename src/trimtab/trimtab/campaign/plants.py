"""Faults of the arm itself: what changes in the plant while it moves. The classical run gets the same."""

from collections.abc import Callable

from trimtab.campaign.cases import JOINT, Scene
from trimtab.campaign.offers import EARLY
from trimtab.plant import Plant
from trimtab.simulate import Events, State

PAYLOAD = 0.4  # of the rated one
PUSH, PUSH_TIME = 0.1, 0.2  # share of the torque limits; s


class PlantFault:
    """Does something to the plant at given times, each once."""

    def __init__(self, *acts: tuple[float, Callable[[Plant], object]]) -> None:
        """acts: when [s], in order, and what."""
        self._acts = list(acts)

    def on_plant(self, plant: Plant, t: float) -> None:
        """Does what is due."""
        while self._acts and t >= self._acts[0][0] - EARLY:
            self._acts.pop(0)[1](plant)

    def on_state(self, state: State) -> State:
        """States arrive as they are."""
        return state


def once(act: Callable[[Plant], object]) -> Callable[[Scene], Events]:
    """A fault that happens in one instant and stays."""
    return lambda scene: PlantFault((scene.begins, act))


def payload_taken(scene: Scene) -> Events:
    """The tool is loaded in mid-motion."""
    return PlantFault((scene.begins, lambda plant: plant.load(PAYLOAD * scene.arm.rated_payload)))


def payload_dropped(scene: Scene) -> Events:
    """The tool is loaded from the start and loses its load in mid-motion."""
    mass = PAYLOAD * scene.arm.rated_payload
    return PlantFault((0.0, lambda plant: plant.load(mass)), (scene.begins, lambda plant: plant.load(-mass)))


def friction(factor: float) -> Callable[[Scene], Events]:
    """One joint's friction jumps to so many times what it was."""
    return once(lambda plant: plant.scale_friction(JOINT, factor))


def jammed(scene: Scene) -> Events:
    """One joint sticks."""
    return PlantFault((scene.begins, lambda plant: plant.jam(JOINT)))


def weak(share: float) -> Callable[[Scene], Events]:
    """All motors make only this share of the torque they are asked for."""

    def act(plant: Plant) -> None:
        plant.strength = share

    return once(act)


def delay(extra: float) -> Callable[[Scene], Events]:
    """Commands take so much longer to become torque [s]."""
    return once(lambda plant: plant.lengthen_delay(extra))


def push(scene: Scene) -> Events:
    """Somebody pushes all joints for a moment."""

    def begin(plant: Plant) -> None:
        plant.push = PUSH * scene.arm.torque

    def end(plant: Plant) -> None:
        plant.push = None

    return PlantFault((scene.begins, begin), (scene.begins + PUSH_TIME, end))
