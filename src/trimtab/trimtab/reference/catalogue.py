"""The references that can be asked for by name."""

from collections.abc import Callable

from trimtab.dynamics import RigidBody
from trimtab.errors import ConfigError
from trimtab.reference.check import check_trajectory
from trimtab.reference.excitation import chirp, reach, sweep
from trimtab.reference.shapes import SHAPES, shape_trajectory
from trimtab.reference.trajectory import Trajectory

SHAPE_SHARE = 0.22  # of the distance from the base to the tool at home: size of a shape that suits the arm


def _shape(name: str) -> Callable[[RigidBody, float], Trajectory]:
    def build(body: RigidBody, duration: float) -> Trajectory:
        distance = float((body.tool_position(body.arm.home) ** 2).sum() ** 0.5)
        return shape_trajectory(body, SHAPES[name], SHAPE_SHARE * distance, duration)

    return build


_BUILDERS: dict[str, Callable[[RigidBody, float], Trajectory]] = {
    "plum": _shape("plum"),
    "infinity": _shape("infinity"),
    "reach": lambda body, duration: reach(body.arm, duration),
    "sweep": lambda body, duration: sweep(body.arm, duration),
    "chirp": lambda body, duration: chirp(body.arm, duration),
}
REFERENCES = tuple(_BUILDERS)


def make_reference(name: str, body: RigidBody, duration: float) -> Trajectory:
    """A reference by name, starting at the arm's home posture, checked against the arm's limits."""
    if name not in _BUILDERS:
        raise ConfigError(f"unknown reference '{name}'; known: {', '.join(REFERENCES)}")
    if not duration > 1.0:
        raise ConfigError(f"a reference needs more than one second, not {duration:g}")
    trajectory = _BUILDERS[name](body, duration)
    check_trajectory(body.arm, trajectory)
    return trajectory
