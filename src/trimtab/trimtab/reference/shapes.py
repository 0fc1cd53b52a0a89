"""Closed Cartesian paths of the tool: plum blossom and infinity, tracked in position through inverse kinematics."""

from collections.abc import Callable

import numpy as np
from scipy.interpolate import CubicSpline

from trimtab.dynamics import RigidBody
from trimtab.reference.ik import solve_position
from trimtab.reference.trajectory import Trajectory
from trimtab.typing import FloatArray

Shape = Callable[[FloatArray], FloatArray]
KNOT_RATE = 50.0  # Hz
PETALS = 5
TILT = 0.35  # sine of the angle by which a shape's plane leans off the vertical


def plum_blossom(phase: FloatArray) -> FloatArray:
    """Five petals around a centre, within the unit circle: phase in [0, 1] -> (n, 2)."""
    angle = 2.0 * np.pi * phase
    radius = 0.7 + 0.3 * np.cos(PETALS * angle)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def infinity(phase: FloatArray) -> FloatArray:
    """A lying eight, within the unit circle: phase in [0, 1] -> (n, 2)."""
    angle = 2.0 * np.pi * phase
    return np.stack([np.cos(angle), np.sin(2.0 * angle) / 2.0], axis=1)


SHAPES: dict[str, Shape] = {"plum": plum_blossom, "infinity": infinity}


def smooth_phase(t: FloatArray, duration: float, laps: int) -> FloatArray:
    """Phase of a path that starts and ends at rest, in laps.

    Quintic ease in and out: each takes the time of a quarter lap at cruise, and covers an eighth of a lap.
    """
    ease = duration / (4.0 * laps + 1.0)
    cruise = laps / (duration - ease)

    def eased(s: FloatArray) -> FloatArray:
        # Integral of the quintic blend 10 s^3 - 15 s^4 + 6 s^5 over [0, s].
        return 2.5 * s**4 - 3.0 * s**5 + s**6

    rising = cruise * ease * eased(np.clip(t / ease, 0.0, 1.0))
    falling = cruise * ease * (0.5 - eased(np.clip((duration - t) / ease, 0.0, 1.0)))
    level = cruise * (np.clip(t, ease, duration - ease) - ease)
    return rising + level + np.where(t > duration - ease, falling, 0.0)


def shape_trajectory(
    body: RigidBody, shape: Shape, size: float, duration: float, laps: int = 2, start: FloatArray | None = None
) -> Trajectory:
    """A lap or more of a shape whose rim passes through the tool position of the start posture.

    size: largest distance from the shape's centre [m]; duration [s]; start: (dof,) [rad], home unless given.
    The arm starts exactly in its start posture. The tool ends where it started; joints that the tool's position does not
    determine end near it.
    """
    home = np.array(body.arm.home if start is None else start)
    rim = body.tool_position(home).copy()
    t = np.linspace(0.0, duration, round(duration * KNOT_RATE) + 1)
    phase = smooth_phase(t, duration, laps)
    flat = size * (shape(phase) - shape(np.zeros(1)))  # the first point is the start posture's own
    outward = np.array([rim[0], rim[1], 0.0])
    reach = float(np.linalg.norm(outward))
    radial = outward / reach if reach > 1e-6 else np.array([1.0, 0.0, 0.0])
    sideways = np.cross([0.0, 0.0, 1.0], radial)
    lean = np.sqrt(1.0 - TILT**2)
    # Inwards from the start: the shape's first coordinate is <= 0, which points up and towards the base.
    path = rim + np.outer(flat[:, 1], sideways) + np.outer(flat[:, 0], TILT * radial - lean * np.array([0.0, 0.0, 1.0]))
    q = home
    postures = []
    for point in path:
        q = solve_position(body, point, q)
        postures.append(q)
    spline = CubicSpline(t, np.array(postures), bc_type="clamped")
    return Trajectory(t, spline(t), spline(t, 1), spline(t, 2))
