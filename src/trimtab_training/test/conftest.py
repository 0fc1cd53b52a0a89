"""A small arm with a network of its own, as the tests of this package need them."""

import pytest
import torch

from trimtab.arm import Arm, load_arm
from trimtab.dynamics import RigidBody
from trimtab_training.mlp import ResidualMlp, Shape


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def arm() -> Arm:
    return load_arm("open_manipulator_x")


@pytest.fixture(scope="session")
def body(arm: Arm) -> RigidBody:
    return RigidBody(arm)


@pytest.fixture
def model(arm: Arm) -> ResidualMlp:
    """Weights as a training might leave them: none of them zero."""
    torch.manual_seed(0)
    network = ResidualMlp(arm, Shape(hidden=(6, 4), cycles=(24,)))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0.0, 0.05)
    return network
