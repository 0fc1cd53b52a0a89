"""Training of one arm's residual: log, fit, log again with what was learned, and score it in closed loop."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from typing import Any, Protocol

import numpy as np
import torch

from trimtab.arm import Arm
from trimtab.dynamics import RigidBody
from trimtab.names import plant_names
from trimtab.plant import load_gap
from trimtab.residual.manifest import Manifest
from trimtab.residual.runtime import ResidualModel
from trimtab.simulate import SETTLE, identify_friction, steps_of
from trimtab.typing import FloatArray
from trimtab_training.data import CONTROLLER, Site, inputs_of, record, run, site_of
from trimtab_training.export import bundle_of, make_manifest, to_onnx, verify
from trimtab_training.fit import Lesson, Rows, fit, gather, lessons, reach
from trimtab_training.mlp import ResidualMlp, Shape
from trimtab_training.references import training_references
from trimtab_training.targets import harmonics

VALIDATION = 500_000  # added to the seed: references of the scores, never trained on
RANGE_STRIDE = 5  # rows from one to the next of those that ranges and distances are taken from


class Bar(Protocol):
    """What shows how far the training is."""

    def stage(self, name: str, steps: int) -> None:
        """Begins a stage."""

    def advance(self, steps: int) -> None:
        """Counts steps of it as done."""


@dataclass(frozen=True)
class Recipe:
    """How much of everything. The same recipe and seed give the same model on the same machine."""

    seed: int = 0
    rounds: int = 3
    """How often logs are recorded; from the second on with the residual of the round before."""
    references: int = 6
    """Per plant and round."""
    duration: float = 12.0
    """Of a reference [s]."""
    steps: int = 1500
    """Of the optimiser, per round."""
    validation: int = 3
    """References per plant for the scores in the manifest."""
    plants: tuple[str, ...] = ()
    """Names; all that there are unless given."""
    shape: Shape = field(default_factory=Shape)

    @property
    def minutes(self) -> float:
        """Of simulated motion to learn from, on all plants and rounds together."""
        return self.rounds * self.references * len(self.plants or plant_names()) * self.duration / 60.0

    def total_steps(self, arm: Arm) -> int:
        """About how many steps the progress bar will be told of."""
        plants = len(self.plants or plant_names())
        logs = self.references * plants
        each = round((self.duration + SETTLE) * arm.rate) * logs + logs + self.steps
        return plants + self.rounds * each + 2 * self.validation * plants


@dataclass(frozen=True)
class Trained:
    """What training leaves: all that a bundle needs."""

    manifest: Manifest
    exported: bytes
    model: ResidualMlp


def train(arm: Arm, recipe: Recipe, bar: Bar) -> Trained:
    """Trains a residual for an arm, on top of the best classical stack, over all plants."""
    torch.set_num_threads(1)
    torch.manual_seed(recipe.seed)
    body = RigidBody(arm)
    names = recipe.plants or tuple(plant_names())
    bar.stage("identify friction", len(names))
    sites = []
    for name in names:
        gap = load_gap(name, arm)
        sites.append(Site(gap, identify_friction(arm, gap)))
        bar.advance(1)

    model: ResidualMlp | None = None
    kept: list[Lesson] = []
    raw = np.zeros((0, 4 * arm.dof))
    largest = np.zeros(arm.dof)
    for number in range(recipe.rounds):
        residual = None if model is None else closed_loop(model, raw, largest)
        fresh = _record_round(arm, body, sites, recipe, number, residual, bar)
        # What was logged without the newest residual shows a motion that is not made any more.
        kept = [*kept[-len(fresh) :], *fresh]
        raw = np.vstack([raw, *(inputs_of(lesson.log)[::RANGE_STRIDE] for lesson in fresh)])
        if model is None:
            model = ResidualMlp(arm, replace(recipe.shape, cycles=_cycles(fresh)))
        rows = gather(model, kept)
        _learn(model, rows, recipe, number, bar)
        largest = reach(model, rows)
    assert model is not None
    scores = _scores(arm, sites, recipe, closed_loop(model, raw, largest), bar)
    exported = to_onnx(model)
    verify(model, exported, _normalised(model, inputs_of(kept[-1].log)[:1000]))
    return Trained(make_manifest(model, raw, largest, _trained_on(recipe, names, model), scores), exported, model)


def closed_loop(model: ResidualMlp, raw: FloatArray, largest: FloatArray) -> ResidualModel:
    """The network as the robot would run it."""
    manifest = make_manifest(model, raw, largest, {}, {})
    return ResidualModel(bundle_of(manifest, to_onnx(model)), model.arm)


def _record_round(
    arm: Arm,
    body: RigidBody,
    sites: Sequence[Site],
    recipe: Recipe,
    number: int,
    residual: ResidualModel | None,
    bar: Bar,
) -> list[Lesson]:
    """Logs of one round with their targets."""
    seed = recipe.seed * 1000 + number
    references = training_references(body, recipe.references * len(sites), recipe.duration, seed)
    bar.stage(f"round {number + 1}: log", sum(steps_of(arm, reference) for reference in references))
    bounds = None if residual is None else residual.bounds
    logs = record(arm, sites, references, 1000 * (seed + 1), residual, bounds, bar.advance)
    bar.stage(f"round {number + 1}: targets", len(logs))
    return lessons(arm, body, logs, bar.advance)


def _cycles(taught: Sequence[Lesson]) -> tuple[int, ...]:
    """Ripples that stand out in the logs of any plant."""
    found: set[int] = set()
    for name in {lesson.log.site.gap.name for lesson in taught}:
        mine = [lesson for lesson in taught if lesson.log.site.gap.name == name]
        q = np.vstack([lesson.log.q[lesson.targets.rows] for lesson in mine])
        torque = np.vstack([lesson.targets.torque for lesson in mine])
        usable = np.vstack([lesson.targets.usable & lesson.targets.moving for lesson in mine])
        found |= set(harmonics(q, torque, usable))
    return tuple(sorted(found))


def _learn(model: ResidualMlp, rows: Rows, recipe: Recipe, number: int, bar: Bar) -> None:
    bar.stage(f"round {number + 1}: fit", recipe.steps)
    fit(model, rows, recipe.steps, recipe.seed * 1000 + number, bar.advance)
    model.learn_distance(rows.x)


def _scores(arm: Arm, sites: Sequence[Site], recipe: Recipe, residual: ResidualModel, bar: Bar) -> dict[str, Any]:
    """Joint errors in closed loop, without and with the residual, on references that were not trained on."""
    references = training_references(
        RigidBody(arm), recipe.validation * len(sites), recipe.duration, VALIDATION + recipe.seed
    )
    bar.stage("score", 2 * len(references))
    squares: dict[str, dict[str, list[float]]] = {site.gap.name: {"classical": [], "with_residual": []} for site in sites}
    for i, reference in enumerate(references):
        site = site_of(i, sites)
        for key, source, bounds in (("classical", None, None), ("with_residual", residual, residual.bounds)):
            log = run(arm, site, reference, VALIDATION + i, source, bounds)
            squares[site.gap.name][key].append(float(np.mean((log.q_des - log.q_link) ** 2)))
            bar.advance(1)
    return {
        "references": f"{len(references)} of the training's kind, not trained on",
        "joint_rmse_mrad": {
            plant: {key: round(1e3 * float(np.sqrt(np.mean(values))), 4) for key, values in row.items()}
            for plant, row in squares.items()
        },
    }


def _trained_on(recipe: Recipe, names: Sequence[str], model: ResidualMlp) -> dict[str, Any]:
    return {
        "data": "simulated",
        "controller": CONTROLLER,
        "plants": list(names),
        "minutes": round(recipe.minutes, 2),
        "recipe": {key: value for key, value in asdict(recipe).items() if key not in ("shape", "plants")},
        "network": {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(model.shape).items()},
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "torch": version("torch").partition("+")[0],
    }


def _normalised(model: ResidualMlp, raw: FloatArray) -> FloatArray:
    rows: FloatArray = raw / np.concatenate(list(model.input_scales().values()))
    return rows
