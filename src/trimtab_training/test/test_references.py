"""Random references keep to the arm's limits and are nobody else's."""

import numpy as np
import pytest

from trimtab.arm import load_arm
from trimtab.dynamics import RigidBody
from trimtab.names import REFERENCES, arm_names
from trimtab.reference import check_trajectory, make_reference
from trimtab_training.references import CLEARANCE, KINDS, training_references


@pytest.mark.parametrize("name", arm_names())
def test_limits_and_floor(name: str) -> None:
    body = RigidBody(load_arm(name))
    for trajectory in training_references(body, KINDS, 6.0, 0):
        check_trajectory(body.arm, trajectory)
        assert trajectory.duration <= 6.0 + 1e-9
        assert min(body.tool_height(q) for q in trajectory.q) > CLEARANCE
        assert trajectory.q[0] == pytest.approx(body.arm.home)


def test_a_seed_names_its_references(body: RigidBody) -> None:
    first, again, other = (training_references(body, KINDS, 4.0, seed) for seed in (3, 3, 4))
    for a, b, c in zip(first, again, other, strict=True):
        assert (a.q == b.q).all()
        assert a.q.shape != c.q.shape or not np.allclose(a.q, c.q)


def test_no_reference_of_the_catalogue_is_trained_on(body: RigidBody) -> None:
    judged_by = [make_reference(name, body, 8.0).at(4.0).q for name in REFERENCES]
    for trajectory in training_references(body, 2 * KINDS, 8.0, 0):
        for q in judged_by:
            assert np.abs(trajectory.at(4.0).q - q).max() > 1e-3
