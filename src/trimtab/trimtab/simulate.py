"""Lockstep simulation: each step of the plant waits for its command. Deterministic, and as fast as the CPU."""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from trimtab.arm import Arm
from trimtab.command_gate import STALE_PERIODS
from trimtab.control import Damp, make_controller
from trimtab.control.friction import FrictionModel, fit_friction
from trimtab.dynamics import RigidBody
from trimtab.names import needs_friction
from trimtab.plant import Plant, PlantGap
from trimtab.reference import Trajectory, make_reference
from trimtab.residual.offer import ResidualSource
from trimtab.runlog import RunLog
from trimtab.safety import Limit, SafetyFilter
from trimtab.step import ControlStep
from trimtab.timing import CycleTimes, Stage
from trimtab.typing import FloatArray

SETTLE = 1.0  # s of rest after the reference's end, in which settling is measured
IDENTIFICATION = 20.0  # s of sweep from which friction is identified
IDENTIFICATION_SEED = 7919  # not a seed of any run that is scored


Progress = Callable[[int], object]
State = tuple[FloatArray, FloatArray, float]
"""Position [rad], velocity [rad/s] and stamp [s] as the controller gets them."""


class Events(Protocol):
    """What goes wrong in a simulation, beyond the plant's gap."""

    def on_plant(self, plant: Plant, t: float) -> None:
        """Changes the plant before its step at t [s]."""

    def on_state(self, state: State) -> State | None:
        """What becomes of a state on its way to the controller; None: it is lost."""


def simulate(
    arm: Arm,
    gap: PlantGap,
    controller: str,
    trajectory: Trajectory,
    *,
    reference: str = "custom",
    seed: int = 0,
    friction: FrictionModel | None = None,
    residual: ResidualSource | None = None,
    bounds: FloatArray | None = None,
    authority: float = 1.0,
    events: Events | None = None,
    progress: Progress | None = None,
) -> RunLog:
    """Runs one controller along a trajectory on a plant, with a learned residual on top where one is given.

    bounds: of the residual's model [Nm]. authority: 0 for shadow. progress is called with the number of steps done since
    it was called last.
    """
    body = RigidBody(arm)
    stack = make_controller(controller, arm, body, friction)
    safety = SafetyFilter(arm, body, bounds=bounds, corrector_bandwidth=stack.corrector_bandwidth)
    count = steps_of(arm, trajectory)
    times = CycleTimes(capacity=count)
    step = ControlStep(arm, body, stack, residual=residual, safety=safety, times=times)
    step.authority = authority
    if residual is not None:
        residual.reset()
    plant = Plant(arm, gap, seed)
    plant.reset(trajectory.q[0])
    t: FloatArray = np.arange(count, dtype=np.float64) * arm.period
    q, qd, q_link, q_des, qd_des = (np.empty((count, arm.dof)) for _ in range(5))
    torque = np.full((count, arm.dof), np.nan)
    added = np.zeros((count, arm.dof))
    limits, levels = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    trust = np.zeros(count)
    damp = Damp(arm, body)
    report_every = max(1, count // 100)
    told = 0

    # The first state only tells the step where the arm is; the reference starts with the same instant.
    measured = plant.measure()
    result = step.step(*measured, now=-arm.period)
    step.follow(trajectory, start=0.0)
    silent = 0  # periods since the controller last got a state
    for i in range(count):
        times.begin()
        if i > 0:
            measured = plant.measure()
        times.mark(Stage.READ)
        if events is not None:
            events.on_plant(plant, t[i])
        state: State | None = (*measured, t[i])
        if events is not None:
            state = events.on_state((*measured, t[i]))
        times.skip()  # what goes wrong on purpose costs a robot nothing
        if state is not None:
            result = step.step(*state)
        times.mark(Stage.CONTROLLER)  # what a step does after its filter is for the controller: it learns what was sent
        silent = 0 if state is not None else silent + 1
        sent = result.torque if silent < STALE_PERIODS else None
        # A controller that commands nothing leaves the arm to its driver, which damps it.
        applied = damp.torque(*measured) if sent is None else sent
        times.mark(Stage.WRITE)
        q[i], qd[i] = measured
        q_link[i] = plant.link_position
        wanted = trajectory.at(t[i]) if state is None else result.desired
        q_des[i], qd_des[i] = wanted.q, wanted.qd
        limits[i], levels[i], trust[i] = result.limits, result.level, safety.trust
        if sent is not None:
            torque[i] = sent
            if result.residual is not None:
                added[i] = result.residual
        times.mark(Stage.PUBLISH)
        times.end()
        plant.step(applied)
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
        limited=(limits & int(Limit.TORQUE)) > 0,
        fault=step.latch.fault,
        residual=None if residual is None else added,
        limits=None if residual is None else limits,
        faults=tuple(step.latch.history),
        levels=levels,
        trust=None if residual is None else trust,
        times=times.rows(),
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
