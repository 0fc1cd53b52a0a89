"""Joint-space references: way-points, sweeps and chirps around the home posture; `extent` scales how far they reach."""

from itertools import pairwise

import numpy as np

from trimtab.arm import Arm
from trimtab.errors import ReferenceRefused
from trimtab.reference.trajectory import Trajectory
from trimtab.typing import FloatArray

KNOT_RATE = 100.0  # Hz
PEAK_SPEED = 15.0 / 8.0  # of a quintic from rest to rest, over its mean speed


def waypoints(arm: Arm, postures: FloatArray, speed: float = 0.3, dwell: float = 0.2) -> Trajectory:
    """Rest-to-rest quintics through postures (n, dof) [rad], the fastest joint at `speed` times its limit."""
    times, rows = [0.0], [postures[0]]
    for before, after in pairwise(postures):
        duration = max(float(np.max(np.abs(after - before) / arm.velocity)) * PEAK_SPEED / speed, 0.1)
        times += [times[-1] + duration, times[-1] + duration + dwell]
        rows += [after, after]
    q = np.array(rows)
    return Trajectory(np.array(times), q, np.zeros_like(q), np.zeros_like(q))


def reach(arm: Arm, duration: float, extent: float = 1.0, seed: int = 0) -> Trajectory:
    """Random postures around home, visited one after the other and back home, in at most `duration` seconds."""
    random = np.random.default_rng(seed)
    room = 0.35 * extent * np.minimum(arm.upper - arm.home, arm.home - arm.lower).clip(0.05, 1.2)
    postures = [np.array(arm.home)]
    best: Trajectory | None = None
    for _ in range(100):
        postures.append(arm.home + random.uniform(-1.0, 1.0, arm.dof) * room)
        longer = waypoints(arm, np.array([*postures, arm.home]))
        if longer.duration > duration:
            break
        best = longer
    if best is None:
        raise ReferenceRefused(f"{duration:g} s are too short for {arm.name} to reach anything and come back; give it more")
    return best


def sweep(arm: Arm, duration: float, extent: float = 1.0) -> Trajectory:
    """Every joint swings around home at a frequency of its own, slow and fast in turn: what a friction fit needs."""
    t = np.linspace(0.0, duration, round(duration * KNOT_RATE) + 1)
    frequency = 0.25 / max(extent, 0.4) * (1.0 + 0.13 * np.arange(arm.dof))  # shorter strokes go faster
    return _swing(arm, t, np.outer(t, frequency), 0.5, extent)


def chirp(arm: Arm, duration: float, extent: float = 1.0, low: float = 0.1, high: float = 1.0) -> Trajectory:
    """Every joint swings around home with a frequency that rises from `low` to `high` [Hz]."""
    t = np.linspace(0.0, duration, round(duration * KNOT_RATE) + 1)
    cycles = low * t + (high - low) * t**2 / (2.0 * duration)
    return _swing(arm, t, np.outer(cycles, 1.0 + 0.07 * np.arange(arm.dof)), 0.35, extent)


def _swing(arm: Arm, t: FloatArray, cycles: FloatArray, share: float, extent: float) -> Trajectory:
    """Home + amplitude sin(2 pi cycles), faded in and out over a second, within `share` of the velocity limits.

    cycles: (n, dof).
    """
    room = 0.5 * extent * np.minimum(arm.upper - arm.home, arm.home - arm.lower).clip(0.05, 1.2)
    frequency = np.gradient(cycles, t, axis=0).max(axis=0)
    amplitude = np.minimum(room, share * arm.velocity / (2.0 * np.pi * frequency))
    ease = np.clip(np.minimum(t, t[-1] - t), 0.0, 1.0)
    window = ease**3 * (10.0 - 15.0 * ease + 6.0 * ease**2)
    q = arm.home + amplitude * window[:, None] * np.sin(2.0 * np.pi * cycles)
    return Trajectory.through(t, q)
