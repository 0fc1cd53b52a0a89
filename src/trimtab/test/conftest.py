"""Fixtures of the library's tests: the four arms, plants made to measure, and a bare control loop."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from trimtab.arm import Arm, load_arm
from trimtab.control import ControllerStack, Desired
from trimtab.control.base import Sample
from trimtab.dynamics import RigidBody
from trimtab.names import arm_names
from trimtab.plant import Plant, PlantGap, load_gap
from trimtab.typing import FloatArray

# The same examples on every machine, no clock, and nothing written into the source tree.
settings.register_profile("trimtab", deadline=None, derandomize=True, database=None)
settings.load_profile("trimtab")


@pytest.fixture(scope="session", params=arm_names())
def arm(request: pytest.FixtureRequest) -> Arm:
    """Each of the arms in turn."""
    return load_arm(request.param)


@pytest.fixture(scope="session")
def body(arm: Arm) -> RigidBody:
    return RigidBody(arm)


@pytest.fixture(scope="session")
def so101() -> Arm:
    """A light arm, gravity left to the stack."""
    return load_arm("so101")


@pytest.fixture(scope="session")
def ur5e() -> Arm:
    """An arm that compensates gravity itself."""
    return load_arm("ur5e")


@pytest.fixture(scope="session")
def random_states() -> Callable[[Arm, int], list[tuple[FloatArray, FloatArray, FloatArray]]]:
    """`random_states(arm, n)`: n times q within its limits, qd within its limits, and some qdd."""

    def draw(arm: Arm, count: int) -> list[tuple[FloatArray, FloatArray, FloatArray]]:
        random = np.random.default_rng(20240607)
        return [
            (
                random.uniform(arm.lower, arm.upper),
                random.uniform(-arm.velocity, arm.velocity),
                random.uniform(-8.0, 8.0, arm.dof),
            )
            for _ in range(count)
        ]

    return draw


@pytest.fixture(scope="session")
def gap_of() -> Callable[..., PlantGap]:
    """`gap_of(arm, delay=0.01)`: the nominal plant but for what is given."""

    def make(arm: Arm, **changes: Any) -> PlantGap:
        return replace(load_gap("nominal", arm), **changes)

    return make


@pytest.fixture(scope="session")
def owned_by() -> Callable[[Arm, str], Arm]:
    """`owned_by(arm, "stack")`: the arm with another owner of gravity in its contract."""

    def change(arm: Arm, owner: str) -> Arm:
        return replace(arm, actuator=replace(arm.actuator, gravity=owner))

    return change


@pytest.fixture(scope="session")
def weightless() -> Callable[[Arm, PlantGap], Plant]:
    """`weightless(arm, gap)`: a plant in free fall, so that a torque of zero leaves it alone."""

    def make(arm: Arm, gap: PlantGap, seed: int = 0) -> Plant:
        plant = Plant(replace(arm, actuator=replace(arm.actuator, gravity="stack")), gap, seed)
        plant.model.opt.gravity[:] = 0.0
        plant.reset(arm.home)
        return plant

    return make


@dataclass(frozen=True)
class Trace:
    """What a loop did, one row per control period."""

    t: FloatArray
    q: FloatArray
    qd: FloatArray
    error: FloatArray
    torque: FloatArray


@pytest.fixture(scope="session")
def closed_loop() -> Callable[..., Trace]:
    """A controller on a plant without limits' or faults' doing; `push` is a torque nobody tells the controller of."""

    def run(
        plant: Plant,
        controller: ControllerStack,
        desired: Desired | Callable[[float], Desired],
        seconds: float,
        push: FloatArray | float = 0.0,
    ) -> Trace:
        arm = plant.arm
        rows = []
        for i in range(round(seconds * arm.rate)):
            t = i * arm.period
            wanted = desired(t) if callable(desired) else desired
            q, qd = plant.measure()
            torque = np.clip(controller.torque(Sample(q, qd, wanted, arm.period)), -arm.torque, arm.torque)
            controller.applied(torque)
            rows.append((t, q, qd, wanted.q - q, torque))
            plant.step(torque + push)
        return Trace(*(np.array(column) for column in zip(*rows, strict=True)))

    return run
