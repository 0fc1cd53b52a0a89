"""Closed loop once more, along a recorded reference, on a simulated plant: what might happen, not what did."""

from collections.abc import Mapping

from trimtab.arm import Arm
from trimtab.control.friction import FrictionModel
from trimtab.dynamics import RigidBody
from trimtab.metrics import score
from trimtab.plant import load_gap
from trimtab.reference import Trajectory
from trimtab.replay.variants import CLASSICAL
from trimtab.residual.runtime import ResidualModel
from trimtab.simulate import simulate


def resimulate(
    arm: Arm,
    plant: str,
    controller: str,
    friction: FrictionModel | None,
    trajectory: Trajectory,
    models: Mapping[str, ResidualModel],
) -> dict[str, dict[str, float]]:
    """Scores of the classical controller and of it with each model, by role."""
    gap, body = load_gap(plant, arm), RigidBody(arm)
    found: dict[str, dict[str, float]] = {}
    for role, model in ((CLASSICAL, None), *models.items()):
        bounds = None if model is None else model.bounds
        log = simulate(arm, gap, controller, trajectory, friction=friction, residual=model, bounds=bounds)
        one = score(log, arm, body)
        found[role] = {
            "rmse_rad": one.rmse,
            "max_error_rad": one.max_error,
            "roughness": one.roughness,
            "energy_j": one.energy,
            "faults": float(len(log.faults)),
        }
    return found
