"""Targets hold friction that the identified model lacks, and nothing that belongs to one log alone."""

from dataclasses import replace

import numpy as np
import pytest

from trimtab.arm import Arm
from trimtab.control.friction import FrictionModel
from trimtab.dynamics import RigidBody
from trimtab.plant import load_gap
from trimtab_training.data import Log, Site, as_training_log, run
from trimtab_training.references import training_references
from trimtab_training.targets import harmonics, targets


@pytest.fixture(scope="module")
def log(arm: Arm, body: RigidBody) -> Log:
    """A run without friction, which a model of no friction explains whole."""
    none = np.zeros(arm.dof)
    site = Site(load_gap("nominal", arm), FrictionModel(arm.joints, none, none, none + 0.1, none, none))
    return as_training_log(run(arm, site, training_references(body, 1, 6.0, 0)[0], 0), site)


def test_what_is_explained_leaves_nothing(arm: Arm, body: RigidBody, log: Log) -> None:
    found = targets(arm, body, log)
    assert np.abs(found.torque / arm.torque).max() < 0.005
    assert found.usable.mean() > 0.95


def test_friction_stays(arm: Arm, body: RigidBody, log: Log) -> None:
    more = 0.03 * arm.torque * np.sign(log.qd)
    found = targets(arm, body, replace(log, torque=log.torque + more))
    moving = found.moving & found.usable
    assert (np.abs(found.torque - more[found.rows])[moving] / 0.03).mean() < 0.15 * arm.torque.mean()


def test_offset_and_torque_scale_are_of_the_log(arm: Arm, body: RigidBody, log: Log) -> None:
    found = targets(arm, body, replace(log, torque=1.1 * log.torque + 0.05 * arm.torque))
    assert np.sqrt(np.mean((found.torque / arm.torque)[found.moving] ** 2)) < 0.003


def test_a_joint_that_sticks_does_not_count(arm: Arm, body: RigidBody, log: Log) -> None:
    stuck = replace(log, qd=np.zeros_like(log.qd))
    found = targets(arm, body, stuck)
    fast = np.abs(log.qd_des[found.rows]) > 0.02 * arm.velocity
    assert fast.any()
    assert not found.usable[fast].any()


def test_a_ripple_is_found() -> None:
    random = np.random.default_rng(0)
    q = random.uniform(-1.0, 1.0, (4000, 3))
    torque = 0.1 * np.sin(24.0 * q + 0.4) + 0.05 * random.normal(size=q.shape)
    assert harmonics(q, torque, np.ones(q.shape, dtype=bool)) == [24]
    assert harmonics(q, 0.05 * random.normal(size=q.shape), np.ones(q.shape, dtype=bool)) == []
