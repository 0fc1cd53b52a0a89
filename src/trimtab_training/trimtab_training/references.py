"""Random references to learn from. None of them is one that models are judged by."""

from collections.abc import Callable

import numpy as np

from trimtab.arm import Arm
from trimtab.dynamics import RigidBody
from trimtab.errors import ReferenceRefused
from trimtab.reference import Trajectory, check_trajectory
from trimtab.reference.excitation import waypoints
from trimtab.reference.shapes import shape_trajectory
from trimtab.typing import FloatArray

KNOT_RATE = 100.0  # Hz
CLEARANCE = 0.03  # m between tool and floor
EXTENTS = (1.0, 0.8, 0.6, 0.45, 0.3, 0.2, 0.1)  # tried until a reference keeps to the limits
HARMONICS = 5  # of a random closed curve
TONES = 3  # of a joint's random swing

Builder = Callable[[RigidBody, float, np.random.Generator, float], Trajectory | None]


def training_references(body: RigidBody, count: int, duration: float, seed: int) -> list[Trajectory]:
    """Swings, way-points and tool curves in turn, each of about `duration` [s], from the home posture and back."""
    random = np.random.default_rng([seed, 4711])
    return [_first_that_fits(_BUILDERS[i % len(_BUILDERS)], body, duration, random) for i in range(count)]


def _first_that_fits(build: Builder, body: RigidBody, duration: float, random: np.random.Generator) -> Trajectory:
    for builder in (build, _swings):
        for extent in EXTENTS:
            try:
                trajectory = builder(body, duration, random, extent)
                if trajectory is None:
                    continue
                check_trajectory(body.arm, trajectory)
            except ReferenceRefused:
                continue
            if min(body.tool_height(q) for q in trajectory.q) > CLEARANCE:
                return trajectory
    raise ReferenceRefused(
        f"no random reference of {duration:g} s keeps to the limits of {body.arm.name}; give it more time"
    )


def _room(arm: Arm, extent: float) -> FloatArray:
    """How far each joint may go from home [rad]."""
    room: FloatArray = extent * np.minimum(arm.upper - arm.home, arm.home - arm.lower).clip(0.05, 1.2)
    return room


def _swings(body: RigidBody, duration: float, random: np.random.Generator, extent: float) -> Trajectory:
    """Each joint swings around a posture of its own, some far, some hardly: slow joints are where friction bites."""
    arm = body.arm
    t = np.linspace(0.0, duration, round(duration * KNOT_RATE) + 1)
    room = _room(arm, extent)
    swing = np.zeros((len(t), arm.dof))
    for _ in range(TONES):
        frequency = np.exp(random.uniform(np.log(0.08), np.log(0.7), arm.dof))
        phase, weight = random.uniform(0.0, 2.0 * np.pi, arm.dof), random.uniform(0.2, 1.0, arm.dof)
        swing += weight * np.sin(2.0 * np.pi * frequency * t[:, None] + phase)
    swing *= room * np.exp(random.uniform(np.log(0.02), np.log(0.4), arm.dof))
    ease = np.clip(np.minimum(t, duration - t), 0.0, 1.0)
    window = (ease**3 * (10.0 - 15.0 * ease + 6.0 * ease**2))[:, None]
    fastest = np.abs(np.gradient(swing * window, t, axis=0)).max(axis=0)
    allowed = random.uniform(0.1, 0.6) * arm.velocity
    swing *= np.minimum(1.0, allowed / np.maximum(fastest, 1e-9))
    middle = 0.3 * room * random.uniform(-1.0, 1.0, arm.dof)
    return Trajectory.through(t, arm.home + window * (middle + swing))


def _waypoints(body: RigidBody, duration: float, random: np.random.Generator, extent: float) -> Trajectory | None:
    """Postures visited one after the other, with a rest at each."""
    arm = body.arm
    room = 0.45 * _room(arm, extent)
    speed, dwell = random.uniform(0.15, 0.5), random.uniform(0.05, 0.4)
    postures, best = [np.array(arm.home)], None
    while True:
        postures.append(arm.home + random.uniform(-1.0, 1.0, arm.dof) * room)
        longer = waypoints(arm, np.array([*postures, arm.home]), speed, dwell)
        if longer.duration > duration:
            return best
        best = longer


def _curve(body: RigidBody, duration: float, random: np.random.Generator, extent: float) -> Trajectory | None:
    """A closed random curve of the tool."""
    order = np.arange(1, HARMONICS + 1)
    weights = random.normal(size=(2, HARMONICS, 2)) / order[None, :, None]
    laps = int(random.integers(1, 4))

    def raw(phase: FloatArray) -> FloatArray:
        angle = 2.0 * np.pi * phase[:, None] * order
        path: FloatArray = np.cos(angle) @ weights[0] + np.sin(angle) @ weights[1]
        return path

    outline = raw(np.linspace(0.0, 1.0, 200))
    width = float(np.abs(outline - outline[0]).max()) / 1.5
    distance = float(np.linalg.norm(body.tool_position(body.arm.home)))
    return shape_trajectory(body, lambda phase: raw(phase) / width, 0.25 * extent * distance, duration, laps)


_BUILDERS: tuple[Builder, ...] = (_swings, _waypoints, _curve)
KINDS = len(_BUILDERS)
