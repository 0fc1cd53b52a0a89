"""The references that can be asked for by name."""

from collections.abc import Callable

from trimtab.arm import Arm
from trimtab.dynamics import RigidBody
from trimtab.errors import ConfigError, ReferenceRefused
from trimtab.names import REFERENCES
from trimtab.reference.check import check_trajectory
from trimtab.reference.excitation import chirp, reach, sweep
from trimtab.reference.shapes import SHAPES, shape_trajectory
from trimtab.reference.trajectory import Trajectory

CLEARANCE = 0.03  # m between tool and floor
LONGEST = 3600.0  # s
EXTENTS = (1.0, 0.8, 0.6, 0.45, 0.3, 0.2)
SHAPE_SHARE = 0.22  # of the distance from the base to the tool at home: size of a shape that suits the arm


def _shape(name: str) -> Callable[[RigidBody, float], Trajectory]:
    def build(body: RigidBody, duration: float) -> Trajectory:
        distance = float((body.tool_position(body.arm.home) ** 2).sum() ** 0.5)
        return shape_trajectory(body, SHAPES[name], SHAPE_SHARE * distance, duration)

    return build


def _above_the_floor(build: Callable[[Arm, float, float], Trajectory], body: RigidBody, duration: float) -> Trajectory:
    """The widest joint-space reference whose tool keeps clear of the floor that the arm stands on."""
    for extent in EXTENTS:
        trajectory = build(body.arm, duration, extent)
        if min(body.tool_height(q) for q in trajectory.q) > CLEARANCE:
            return trajectory
    raise ReferenceRefused(f"no reference around the home posture of {body.arm.name} keeps its tool above the floor")


_BUILDERS: dict[str, Callable[[RigidBody, float], Trajectory]] = {
    "plum": _shape("plum"),
    "infinity": _shape("infinity"),
    "reach": lambda body, duration: _above_the_floor(reach, body, duration),
    "sweep": lambda body, duration: _above_the_floor(sweep, body, duration),
    "chirp": lambda body, duration: _above_the_floor(chirp, body, duration),
}


def make_reference(name: str, body: RigidBody, duration: float) -> Trajectory:
    """A reference by name, starting at the arm's home posture, checked against the arm's limits."""
    if name not in _BUILDERS:
        raise ConfigError(f"unknown reference '{name}'; known: {', '.join(REFERENCES)}")
    if not 1.0 < duration <= LONGEST:
        raise ConfigError(f"a reference takes more than one second and at most {LONGEST:g}, not {duration:g}")
    trajectory = _BUILDERS[name](body, duration).on_whole_nanoseconds()
    check_trajectory(body.arm, trajectory)
    return trajectory
