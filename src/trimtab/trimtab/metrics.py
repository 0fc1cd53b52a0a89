"""Scores of a run: tracking in joint and Cartesian space, settling, effort, roughness, limits."""

from dataclasses import asdict, dataclass

import numpy as np

from trimtab.arm import Arm
from trimtab.dynamics import RigidBody
from trimtab.runlog import RunLog
from trimtab.typing import FloatArray

SETTLED = 0.002  # rad; a joint is settled when it stays nearer than this to the reference's end


@dataclass(frozen=True)
class JointScore:
    """One joint's scores."""

    joint: str
    rmse: float
    """Of the link's position against the reference [rad]."""
    max_error: float
    """[rad]"""
    settling_time: float | None
    """After the reference came to rest [s]; None if the joint did not settle while the log lasts."""
    torque_rms: float
    """[Nm]"""
    energy: float
    """Integral of |torque sent * velocity| [J]; without gravity where the robot compensates it."""
    at_torque_limit: float
    """Share of time in which the torque sent is at its limit, 0 to 1."""
    over_velocity: float
    """Share of time in which the measured speed is beyond its limit, 0 to 1."""


@dataclass(frozen=True)
class Score:
    """A run's scores. Shares are 0 to 1."""

    controller: str
    joints: tuple[JointScore, ...]
    rmse: float
    """Over all joints [rad]."""
    max_error: float
    """[rad]"""
    tool_rmse: float
    """Distance of the tool from its reference [m]."""
    tool_max: float
    """[m]"""
    settling_time: float | None
    """Of the slowest joint [s]."""
    energy: float
    """Of all joints [J]; arms whose robot compensates gravity do not compare with others."""
    roughness: float
    """Root mean square of the torque's change from step to step, as a share of the torque limit."""
    limited: float
    """Share of time in which the stack clipped the controller's torque to a limit."""
    over_velocity: float
    """Share of time in which any joint's measured speed is beyond its limit."""
    over_position: float
    """Share of time in which any joint's measured position is beyond its limits."""
    fault: str | None

    def as_dict(self) -> dict[str, object]:
        """Plain data for JSON."""
        return asdict(self)


def score(log: RunLog, arm: Arm, body: RigidBody) -> Score:
    """Scores a run against its reference."""
    error = log.q_des - log.q_link
    torque = np.nan_to_num(log.torque)
    period = arm.period
    settling = _settling_times(log, error)
    joints = tuple(
        JointScore(
            joint=name,
            rmse=_rms(error[:, i]),
            max_error=float(np.abs(error[:, i]).max()),
            settling_time=settling[i],
            torque_rms=_rms(torque[:, i]),
            energy=float(np.abs(torque[:, i] * log.qd[:, i]).sum() * period),
            at_torque_limit=float((np.abs(torque[:, i]) >= arm.torque[i]).mean()),
            over_velocity=float((np.abs(log.qd[:, i]) > arm.velocity[i]).mean()),
        )
        for i, name in enumerate(arm.joints)
    )
    distance = np.linalg.norm(body.tool_path(log.q_des) - body.tool_path(log.q_link), axis=1)
    slowest = None if any(time is None for time in settling) else max(time for time in settling if time is not None)
    return Score(
        controller=log.controller,
        joints=joints,
        rmse=_rms(error),
        max_error=float(np.abs(error).max()),
        tool_rmse=_rms(distance),
        tool_max=float(distance.max()),
        settling_time=slowest,
        energy=sum(joint.energy for joint in joints),
        roughness=_rms(np.diff(torque, axis=0) / arm.torque),
        limited=float(log.limited.mean()),
        over_velocity=float((np.abs(log.qd) > arm.velocity).any(axis=1).mean()),
        over_position=float(((log.q < arm.lower) | (log.q > arm.upper)).any(axis=1).mean()),
        fault=None if log.fault is None else f"{log.fault.level.label}: {log.fault.reason}",
    )


def _rms(values: FloatArray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def _settling_times(log: RunLog, error: FloatArray) -> list[float | None]:
    """Per joint, the time from the reference's end until the error stays small."""
    after = log.t >= log.trajectory.duration - 1e-9
    t, rest = log.t[after], np.abs(error[after])
    times: list[float | None] = []
    for column in rest.T:
        outside = np.flatnonzero(column > SETTLED)
        if len(outside) == 0:
            times.append(0.0)
        elif outside[-1] == len(column) - 1:
            times.append(None)
        else:
            times.append(float(t[outside[-1] + 1] - t[0]))
    return times
