"""Scores of runs whose scores are known."""

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from trimtab.arm import Arm
from trimtab.dynamics import RigidBody
from trimtab.faults import Fault, Level
from trimtab.metrics import SETTLED, score
from trimtab.reference import Trajectory
from trimtab.runlog import RunLog
from trimtab.simulate import simulate


@pytest.fixture
def still(arm: Arm) -> RunLog:
    """Two seconds of standing perfectly at home: one of reference, one of rest."""
    count = round(2.0 * arm.rate)
    home = np.array([arm.home, arm.home])
    rows = np.tile(arm.home, (count, 1))
    zero = np.zeros_like(rows)
    return RunLog(
        arm=arm.name,
        plant="none",
        reference="none",
        controller="nobody",
        seed=0,
        joints=arm.joints,
        trajectory=Trajectory(np.array([0.0, 1.0]), home, np.zeros_like(home), np.zeros_like(home)),
        t=np.arange(count) * arm.period,
        q=rows,
        qd=zero,
        q_link=rows,
        q_des=rows,
        qd_des=zero,
        torque=zero,
        limited=np.zeros(count, dtype=bool),
        fault=None,
    )


def test_a_perfect_run_scores_zero(still: RunLog, arm: Arm, body: RigidBody) -> None:
    result = score(still, arm, body)
    assert (result.rmse, result.max_error, result.tool_rmse, result.tool_max) == (0.0, 0.0, 0.0, 0.0)
    assert (result.energy, result.roughness, result.limited, result.settling_time) == (0.0, 0.0, 0.0, 0.0)
    assert (result.over_velocity, result.over_position) == (0.0, 0.0)
    assert result.fault is None
    assert [joint.joint for joint in result.joints] == list(arm.joints)


def test_errors_are_those_of_the_links(still: RunLog, arm: Arm, body: RigidBody) -> None:
    """Two joints off by 3 and 4 mrad all the time; what the motors measure does not count."""
    link = still.q_link.copy()
    link[:, 0] += 0.003
    link[:, 1] -= 0.004
    result = score(replace(still, q_link=link, q=still.q + 1.0), arm, body)
    assert [joint.rmse for joint in result.joints[:3]] == pytest.approx([0.003, 0.004, 0.0])
    assert result.rmse == pytest.approx(0.005 / np.sqrt(arm.dof))
    assert result.max_error == pytest.approx(0.004)
    away = np.linalg.norm(body.tool_position(link[0]).copy() - body.tool_position(arm.home))
    assert result.tool_rmse == pytest.approx(away)
    assert result.tool_max == pytest.approx(away)
    assert away > 1e-4


def test_one_bad_instant_shows_in_the_maximum(still: RunLog, arm: Arm, body: RigidBody) -> None:
    link = still.q_link.copy()
    link[10, 2] -= 0.5
    result = score(replace(still, q_link=link), arm, body)
    assert result.max_error == result.joints[2].max_error == pytest.approx(0.5)
    assert result.joints[2].rmse == pytest.approx(0.5 / np.sqrt(len(still.t)))
    assert result.tool_max > 10.0 * result.tool_rmse


def test_settling_is_counted_from_the_references_end(still: RunLog, arm: Arm, body: RigidBody) -> None:
    link = still.q_link.copy()
    link[still.t < 1.4 - 1e-9, 0] += 2.0 * SETTLED
    link[(still.t > 1.55) & (still.t < 1.6 - 1e-9), 1] -= 1.01 * SETTLED
    link[:, 2] += 0.99 * SETTLED
    link[still.t < 1.0 - 1e-9, 3] += 1.0
    result = score(replace(still, q_link=link), arm, body)
    assert result.joints[0].settling_time == pytest.approx(0.4)
    assert result.joints[1].settling_time == pytest.approx(0.6)
    assert result.joints[2].settling_time == 0.0
    assert result.joints[3].settling_time == 0.0
    assert result.settling_time == pytest.approx(0.6)


def test_a_joint_that_never_settles_has_no_settling_time(still: RunLog, arm: Arm, body: RigidBody) -> None:
    link = still.q_link.copy()
    link[-1, 0] += 2.0 * SETTLED
    result = score(replace(still, q_link=link), arm, body)
    assert result.joints[0].settling_time is None
    assert result.joints[1].settling_time == 0.0
    assert result.settling_time is None


def test_effort_energy_and_limits(still: RunLog, arm: Arm, body: RigidBody) -> None:
    torque, qd = still.torque.copy(), still.qd.copy()
    half = len(still.t) // 2
    torque[:half, 0], torque[half:, 0] = arm.torque[0], -0.5 * arm.torque[0]
    qd[:, 0] = -1.2 * arm.velocity[0]
    limited = np.arange(len(still.t)) < half // 2
    result = score(replace(still, torque=torque, qd=qd, limited=limited), arm, body)
    first = result.joints[0]
    assert first.torque_rms == pytest.approx(arm.torque[0] * np.sqrt((1.0 + 0.25) / 2.0))
    assert first.energy == pytest.approx(1.5 * arm.torque[0] * 1.2 * arm.velocity[0])  # 1 s at each torque
    assert result.energy == pytest.approx(first.energy)
    assert first.at_torque_limit == pytest.approx(0.5)
    assert (first.over_velocity, result.joints[1].over_velocity) == (1.0, 0.0)
    assert result.limited == pytest.approx(0.25)
    assert (result.over_velocity, result.over_position) == (1.0, 0.0)


def test_limits_of_different_joints_count_as_time(still: RunLog, arm: Arm, body: RigidBody) -> None:
    """A quarter of the time the first joint is too fast, the next quarter the second; one lies outside for half of it."""
    quarter = len(still.t) // 4
    qd, q = still.qd.copy(), still.q.copy()
    qd[:quarter, 0], qd[quarter : 2 * quarter, 1] = 1.1 * arm.velocity[0], -1.1 * arm.velocity[1]
    q[: 2 * quarter, 2] = arm.upper[2] + 0.01
    q[quarter : 2 * quarter, 1] = arm.lower[1] - 0.01
    result = score(replace(still, q=q, qd=qd), arm, body)
    assert [joint.over_velocity for joint in result.joints[:2]] == pytest.approx([0.25, 0.25])
    assert result.over_velocity == pytest.approx(0.5)
    assert result.over_position == pytest.approx(0.5)


def test_roughness_is_the_change_from_step_to_step(still: RunLog, arm: Arm, body: RigidBody) -> None:
    """A torque that goes to and fro by 1 % of the limit each step; a constant one is not rough."""
    sign = np.where(np.arange(len(still.t)) % 2, 1.0, -1.0)
    rough = score(replace(still, torque=np.outer(sign, 0.005 * arm.torque)), arm, body)
    assert rough.roughness == pytest.approx(0.01)
    assert score(replace(still, torque=np.tile(arm.torque, (len(still.t), 1))), arm, body).roughness == 0.0


def test_a_stopped_run_can_be_scored(still: RunLog, arm: Arm, body: RigidBody) -> None:
    torque = still.torque.copy()
    torque[5:] = np.nan
    result = score(replace(still, torque=torque, fault=Fault(Level.STOP, "no state for 1 s", 0.1)), arm, body)
    assert result.fault == "stop: no state for 1 s"
    numbers = [result.rmse, result.energy, result.roughness, *(joint.torque_rms for joint in result.joints)]
    assert np.isfinite(numbers).all()


def test_a_score_is_plain_data(arm: Arm, body: RigidBody, gap_of: Callable) -> None:
    home = np.array([arm.home, arm.home])
    rest = Trajectory(np.array([0.0, 0.1]), home, np.zeros_like(home), np.zeros_like(home))
    result = score(simulate(arm, gap_of(arm), "pd", rest), arm, body)
    data = json.loads(json.dumps(result.as_dict()))
    assert data["controller"] == "pd"
    assert len(data["joints"]) == arm.dof
    assert data["rmse"] == result.rmse
