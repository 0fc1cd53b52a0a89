"""The gate before the drives: fresh commands pass, everything else is damped."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.arm import load_arm
from trimtab.command_gate import FADE_TIME, STALE_PERIODS, CommandGate
from trimtab.dynamics import RigidBody
from trimtab.faults import Level

ARM = load_arm("wam")
BODY = RigidBody(ARM)
GRAVITY = BODY.gravity(ARM.home).copy()
REST = np.zeros(ARM.dof)
COMMAND = np.full(ARM.dof, 0.5)


@pytest.fixture
def gate() -> CommandGate:
    return CommandGate(ARM, BODY, timeout=0.1)


def test_before_the_first_command_the_arm_is_held_up_without_a_fault(gate):
    np.testing.assert_allclose(gate.torque(ARM.home, REST, now=100.0), GRAVITY)
    assert gate.waiting
    assert gate.latch.level is Level.NOMINAL


def settle(gate, now) -> np.ndarray:
    """The torque after the command has been faded in."""
    for _ in range(round(FADE_TIME / ARM.period)):
        gate.accept(COMMAND, now)
        torque = gate.torque(ARM.home, REST, now)
    return torque


def test_a_fresh_command_is_faded_in_and_then_passes_unchanged(gate):
    gate.accept(COMMAND, now=0.0)
    first = gate.torque(ARM.home, REST, now=ARM.period)
    assert np.abs(first - GRAVITY).max() < 0.05 * np.abs(COMMAND - GRAVITY).max()
    np.testing.assert_array_equal(settle(gate, ARM.period), COMMAND)


def test_an_old_command_is_replaced_by_damping_before_it_is_a_fault(gate):
    gate.accept(COMMAND, now=0.0)
    moving = np.full(ARM.dof, 0.1)
    torque = gate.torque(ARM.home, moving, now=(STALE_PERIODS + 1) * ARM.period)
    np.testing.assert_allclose(torque, GRAVITY - ARM.kd * moving)
    assert gate.latch.level is Level.NOMINAL
    assert gate.damped_periods == 1
    np.testing.assert_array_equal(settle(gate, 0.05), COMMAND)


def test_a_command_that_stays_away_latches_until_reset(gate):
    gate.accept(COMMAND, now=0.0)
    gate.torque(ARM.home, REST, now=0.2)
    assert gate.latch.level is Level.DAMP
    assert "no command for 0.200 s (allowed 0.1 s)" in str(gate.latch)
    gate.accept(COMMAND, now=0.21)
    np.testing.assert_allclose(gate.torque(ARM.home, REST, now=0.211), GRAVITY)
    gate.reset()
    assert gate.waiting
    np.testing.assert_array_equal(settle(gate, 0.3), COMMAND)


def test_a_refused_command_latches_at_once(gate):
    gate.accept(COMMAND, now=0.0)
    gate.refuse("nonsense", now=0.001)
    np.testing.assert_allclose(gate.torque(ARM.home, REST, now=0.002), GRAVITY)
    assert "nonsense" in str(gate.latch)


@given(st.lists(st.floats(-1e6, 1e6), min_size=ARM.dof, max_size=ARM.dof), st.floats(0.0, 1.0))
def test_torque_never_exceeds_the_limits(values, age):
    gate = CommandGate(ARM, BODY, timeout=0.1)
    gate.accept(np.array(values), now=0.0)
    torque = gate.torque(ARM.home, np.array(values), now=age)
    assert (np.abs(torque) <= ARM.torque).all()
