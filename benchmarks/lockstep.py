#!/usr/bin/env python3
"""What a control period of the lockstep simulation costs, held against the bare library calls inside it."""

import argparse
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns

import mujoco
import numpy as np
import pinocchio as pin
from common import benchmark, pin_to_one_core, write_result

from trimtab.arm import Arm, load_arm
from trimtab.control import make_controller
from trimtab.control.friction import FrictionModel
from trimtab.dynamics import RigidBody
from trimtab.errors import TrimtabError
from trimtab.plant import Plant, PlantGap, load_gap
from trimtab.reference import Trajectory, make_reference
from trimtab.simulate import friction_for, simulate, steps_of
from trimtab.step import ControlStep
from trimtab.typing import FloatArray

REFERENCE = "plum"
LIBRARIES = ("numpy", "mujoco", "pin")
STATE = int(mujoco.mjtState.mjSTATE_INTEGRATION)

DESCRIPTION = """\
Runs an arm in lockstep simulation and says where the time of a control period goes.

  whole loop    `trimtab.simulate.simulate`: what `trimtab run` spends on a controller
  floor         the two library calls that no implementation can do without, alone in a tight loop: MuJoCo's mj_step
                on the same model and states, and pinocchio's rnea on the same states
  ours          what the control step, the plant and the log add to that

One repetition measures everything once, so that a busy machine disturbs all parts alike; each number is the median
over the repetitions. The process is pinned to one core where the system allows it. rnea stands for one inverse
dynamics, also with a controller that needs none or several. Where the robot compensates gravity itself, the plant
computes that torque too; it counts as ours."""

EXAMPLES = """\
examples:
  python benchmarks/lockstep.py
  python benchmarks/lockstep.py --arm wam --plant worn --controller friction+observer
  python benchmarks/lockstep.py --seconds 20 --repetitions 9 --json runs/lockstep.json"""


@dataclass(frozen=True)
class Case:
    """What is run."""

    arm: Arm
    gap: PlantGap
    controller: str
    trajectory: Trajectory
    friction: FrictionModel | None

    @property
    def periods(self) -> int:
        """Control periods of one run."""
        return steps_of(self.arm, self.trajectory)

    def stage(self) -> tuple[ControlStep, Plant]:
        """A control step and a plant at the reference's start, as `simulate` makes them."""
        body = RigidBody(self.arm)
        step = ControlStep(self.arm, body, make_controller(self.controller, self.arm, body, self.friction))
        plant = Plant(self.arm, self.gap)
        plant.reset(self.trajectory.q[0])
        return step, plant


@dataclass(frozen=True)
class Trace:
    """What the library calls met in a run, one row per control period."""

    states: FloatArray
    """MuJoCo's state before the period's first step."""
    frictionloss: FloatArray
    """The model's dry-friction bound at that instant."""
    q: FloatArray
    qd: FloatArray
    qdd: FloatArray
    """Measured position and velocity, wanted acceleration: rnea's arguments."""


Costs = dict[str, float]
"""Nanoseconds per control period, by part."""


def record(case: Case) -> Trace:
    """Runs the case once and keeps what the bare calls need. Also warms everything up."""
    step, plant = case.stage()
    count, dof = case.periods, case.arm.dof
    states = np.empty((count, mujoco.mj_stateSize(plant.model, STATE)))
    bounds = np.empty((count, plant.model.nv))
    q, qd, qdd = (np.empty((count, dof)) for _ in range(3))
    nothing = np.zeros(dof)
    measured = plant.measure()
    step.step(*measured, now=-case.arm.period)
    step.follow(case.trajectory, start=0.0)
    for i in range(count):
        result = step.step(*measured, now=i * case.arm.period)
        q[i], qd[i] = measured
        qdd[i] = result.desired.qdd
        plant.step(nothing if result.torque is None else result.torque)
        # After the step the applied forces are those of this period: the next one starts from here.
        mujoco.mj_getState(plant.model, plant.data, states[i], STATE)
        bounds[i] = plant.model.dof_frictionloss
        measured = plant.measure()
    if step.latch.fault is not None:
        raise TrimtabError(f"the run ended in a fault ({step.latch}); there is nothing to measure")
    return Trace(states, bounds, q, qd, qdd)


def time_whole(case: Case) -> float:
    """`simulate` as it is [ns per period]."""
    start = perf_counter_ns()
    simulate(case.arm, case.gap, case.controller, case.trajectory, reference=REFERENCE, friction=case.friction)
    return (perf_counter_ns() - start) / case.periods


def time_set_up(case: Case) -> float:
    """Building model, controller and plant, spread over the run [ns per period]."""
    start = perf_counter_ns()
    case.stage()
    return (perf_counter_ns() - start) / case.periods


def time_parts(case: Case, empty: float) -> Costs:
    """Control step, plant step and measurement in the closed loop."""
    step, plant = case.stage()
    count, period, dof = case.periods, case.arm.period, case.arm.dof
    nothing = np.zeros(dof)
    measured = plant.measure()
    step.step(*measured, now=-period)
    step.follow(case.trajectory, start=0.0)
    in_step = in_plant = in_measure = 0
    for i in range(count):
        a = perf_counter_ns()
        result = step.step(*measured, now=i * period)
        b = perf_counter_ns()
        torque = nothing if result.torque is None else result.torque
        c = perf_counter_ns()
        plant.step(torque)
        d = perf_counter_ns()
        measured = plant.measure()
        e = perf_counter_ns()
        in_step += b - a
        in_plant += d - c
        in_measure += e - d
    return {
        "control_step": in_step / count - empty,
        "plant_step": in_plant / count - empty,
        "measure": in_measure / count - empty,
    }


def time_mujoco(case: Case, trace: Trace, empty: float) -> float:
    """mj_step alone, from the states of the run [ns per period]."""
    plant = Plant(case.arm, case.gap)
    model, data, substeps = plant.model, plant.data, plant.substeps
    total = 0
    for state, bound in zip(trace.states, trace.frictionloss, strict=True):
        mujoco.mj_setState(model, data, state, STATE)
        model.dof_frictionloss[:] = bound
        start = perf_counter_ns()
        mujoco.mj_step(model, data, substeps)
        total += perf_counter_ns() - start
    return total / case.periods - empty


def time_pinocchio(case: Case, trace: Trace, empty: float) -> float:
    """Rnea alone, from the states of the run [ns per period]."""
    model = RigidBody(case.arm).model
    if not case.arm.actuator.stack_owns_gravity:
        model.gravity = pin.Motion.Zero()
    data = model.createData()
    total = 0
    for q, qd, qdd in zip(trace.q, trace.qd, trace.qdd, strict=True):
        start = perf_counter_ns()
        pin.rnea(model, data, q, qd, qdd)
        total += perf_counter_ns() - start
    return total / case.periods - empty


def time_nothing(count: int) -> float:
    """What reading the clock twice costs [ns]; taken off each timed call."""
    total = 0
    for _ in range(count):
        start = perf_counter_ns()
        total += perf_counter_ns() - start
    return total / count


def measure(case: Case, repetitions: int, tell: Callable[[str], None]) -> Costs:
    """Medians over interleaved repetitions [ns per period]."""
    tell("recording a run for the bare calls")
    trace = record(case)
    rows: list[Costs] = []
    for i in range(repetitions):
        tell(f"repetition {i + 1} of {repetitions}")
        empty = time_nothing(case.periods)
        row = time_parts(case, empty)
        row["mujoco"] = time_mujoco(case, trace, empty)
        row["pinocchio"] = time_pinocchio(case, trace, empty)
        row["whole"] = time_whole(case)
        row["set_up"] = time_set_up(case)
        rows.append(row)
    return {part: statistics.median(row[part] for row in rows) for part in rows[0]}


def derive(case: Case, medians: Costs) -> dict[str, float]:
    """The table's numbers [us per period], the ratio to the floor and the real-time factor."""
    us = {part: value / 1e3 for part, value in medians.items()}
    floor = us["mujoco"] + us["pinocchio"]
    parts = us["control_step"] + us["plant_step"] + us["measure"] + us["set_up"]
    return {
        "mujoco_us": us["mujoco"],
        "pinocchio_us": us["pinocchio"],
        "floor_us": floor,
        "control_step_less_rnea_us": us["control_step"] - us["pinocchio"],
        "plant_step_less_mj_step_us": us["plant_step"] - us["mujoco"],
        "measure_us": us["measure"],
        "set_up_us": us["set_up"],
        "rest_us": us["whole"] - parts,
        "whole_us": us["whole"],
        "whole_over_floor": us["whole"] / floor,
        "real_time_factor": 1e6 * case.arm.period / us["whole"],
        "floor_real_time_factor": 1e6 * case.arm.period / floor,
    }


def table(case: Case, result: dict[str, float], substeps: int) -> str:
    """The result for a terminal."""
    whole = result["whole_us"]
    rows = (
        (f"MuJoCo: mj_step x {substeps}, bare", "mujoco_us"),
        ("pinocchio: rnea, bare", "pinocchio_us"),
        ("floor: the two together", "floor_us"),
        ("ours: ControlStep.step less rnea", "control_step_less_rnea_us"),
        ("ours: Plant.step less mj_step", "plant_step_less_mj_step_us"),
        ("ours: Plant.measure", "measure_us"),
        ("ours: set-up, spread over the run", "set_up_us"),
        ("ours: log rows and the rest", "rest_us"),
        ("whole loop", "whole_us"),
    )
    lines = [f"{'per control period':<36} {'us':>9} {'share':>7}"]
    lines += [f"{title:<36} {result[key]:>9.2f} {result[key] / whole:>7.1%}" for title, key in rows]
    lines += [
        "",
        f"whole loop over floor: {result['whole_over_floor']:.2f}",
        f"real-time factor at {case.arm.rate:g} Hz: {result['real_time_factor']:.1f} "
        f"(the floor alone would give {result['floor_real_time_factor']:.1f})",
    ]
    return "\n".join(lines)


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=DESCRIPTION, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--arm", default="ur5e", help="name or path of an arm's contract (default: %(default)s)")
    parser.add_argument("--plant", default="nominal", help="name or path of a plant (default: %(default)s)")
    parser.add_argument("--controller", default="computed_torque", help="words joined by + (default: %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=10.0, metavar="S", help="length of the reference (default: %(default)s)"
    )
    parser.add_argument(
        "--repetitions", type=int, default=5, metavar="N", help="how often all is measured (default: %(default)s)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the result there")
    options = parser.parse_args(argv)
    if options.repetitions < 1:
        parser.error("--repetitions must be at least 1")
    return options


def run(options: argparse.Namespace) -> int:
    """Measures, prints and writes."""
    core, where = pin_to_one_core()
    arm = load_arm(options.arm)
    gap = load_gap(options.plant, arm)
    trajectory = make_reference(REFERENCE, RigidBody(arm), options.seconds)
    case = Case(arm, gap, options.controller, trajectory, friction_for([options.controller], arm, gap))
    print(
        f"{arm.name}, plant {gap.name}, {options.controller}, reference {REFERENCE}: "
        f"{case.periods} periods at {arm.rate:g} Hz, median of {options.repetitions}, {where}"
    )
    medians = measure(case, options.repetitions, lambda text: print(text, file=sys.stderr, flush=True))
    result = derive(case, medians)
    substeps = Plant(arm, gap).substeps
    print("\n" + table(case, result, substeps))
    document = {
        "arm": arm.name,
        "plant": gap.name,
        "controller": options.controller,
        "reference": REFERENCE,
        "rate_hz": arm.rate,
        "substeps": substeps,
        "periods": case.periods,
        "repetitions": options.repetitions,
        "pinned_to_core": core,
        "result": result,
    }
    write_result(options.json, document, LIBRARIES)
    return 0


def main(argv: list[str] | None = None) -> int:
    """Runs the benchmark."""
    return benchmark(run, parse(argv))


if __name__ == "__main__":
    sys.exit(main())
