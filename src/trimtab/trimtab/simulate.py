"""Lockstep simulation: each step of the plant waits for its command. Deterministic, and as fast as the CPU."""

from collections.abc import Callable

import numpy as np

from trimtab.arm import Arm
from trimtab.control import Damp, make_controller
from trimtab.control.friction import FrictionModel, fit_friction
from trimtab.dynamics import RigidBody
from trimtab.names import needs_friction
from trimtab.plant import Plant, PlantGap
from trimtab.reference import Trajectory, make_reference
from trimtab.runlog import RunLog
from trimtab.step import ControlStep
from trimtab.typing import FloatArray

SETTLE = 1.0  # s of rest after the reference's end, in which settling is measured
IDENTIFICATION = 20.0  # s of sweep from which friction is identified
IDENTIFICATION_SEED = 7919  # not a seed of any run that is scored

Progress = Callable[[int], object]


def simulate(
    arm: Arm,
    gap: PlantGap,
    controller: str,
    trajectory: Trajectory,
    *,
    reference: str = "custom",
    seed: int = 0,
    friction: FrictionModel | None = None,
    progress: Progress | None = None,
) -> RunLog:
    """Runs one controller along a trajectory on a plant.

    progress is called with the number of steps done since it was called last.
    """
    body = RigidBody(arm)
    step = ControlStep(arm, body, make_controller(controller, arm, body, friction))
    plant = Plant(arm, gap, seed)
    plant.reset(trajectory.q[0])
    count = steps_of(arm, trajectory)
    t: FloatArray = np.arange(count, dtype=np.float64) * arm.period
    q, qd, q_link, q_des, qd_des = (np.empty((count, arm.dof)) for _ in range(5))
    torque = np.full((count, arm.dof), np.nan)
    limited = np.zeros(count, dtype=bool)
    damp = Damp(arm, body)
    report_every = max(1, count // 100)
    told = 0

    # The first state only tells the step where the arm is; the reference starts with the same instant.
    measured = plant.measure()
    step.step(*measured, now=-arm.period)
    step.follow(trajectory, start=0.0)
    for i in range(count):
        result = step.step(*measured, now=t[i])
        q[i], qd[i] = measured
        q_link[i] = plant.link_position
        q_des[i], qd_des[i] = result.desired.q, result.desired.qd
        limited[i] = result.limited
        if result.torque is not None:
            torque[i] = result.torque
        # A controller that commands nothing leaves the arm to its driver, which damps it.
        plant.step(damp.torque(*measured) if result.torque is None else result.torque)
        measured = plant.measure()
        if progress is not None and ((i + 1) % report_every == 0 or i + 1 == count):
            progress(i + 1 - told)
            told = i + 1
    return RunLog(
        arm=arm.name,
        plant=gap.name,
        reference=reference,
        controller=controller,
        seed=seed,
        joints=arm.joints,
        trajectory=trajectory,
        t=t,
        q=q,
        qd=qd,
        q_link=q_link,
        q_des=q_des,
        qd_des=qd_des,
        torque=torque,
        limited=limited,
        fault=step.latch.fault,
    )


def steps_of(arm: Arm, trajectory: Trajectory) -> int:
    """Number of control periods of a run along a trajectory, the settling time included."""
    return round((trajectory.duration + SETTLE) * arm.rate)


def identify_friction(arm: Arm, gap: PlantGap, progress: Progress | None = None) -> FrictionModel:
    """Identifies a plant's friction the way a user would on a robot: sweep the joints, record, fit."""
    body = RigidBody(arm)
    log = simulate(
        arm,
        gap,
        "computed_torque+integral",
        make_reference("sweep", body, IDENTIFICATION),
        reference="sweep",
        seed=IDENTIFICATION_SEED,
        progress=progress,
    )
    return fit_friction(arm, body, log.t, log.q, log.qd, log.torque)


def friction_for(controllers: list[str], arm: Arm, gap: PlantGap) -> FrictionModel | None:
    """The identified friction of a plant, where any of the controllers asks for one."""
    return identify_friction(arm, gap) if any(needs_friction(text) for text in controllers) else None
