"""`trimtab train`: trains an arm's residual model in simulation and writes its bundle."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.errors import ConfigError, TrimtabError

if TYPE_CHECKING:
    from trimtab_training.train import Recipe, Trained

DESCRIPTION = """\
Trains a residual model for an arm, on top of friction+adaptive+observer, and writes it as a bundle. Needs torch.

It logs random references on every plant in simulation, fits a small network to the torque that neither the rigid body
nor the identified friction explains, and logs again with what it has learned. Last it scores the model in closed loop,
on references kept apart. The same seed gives the same model on the same machine.

Writes to the folder given by --out:
  <arm>/<name>/<version>/model.onnx      the network
  <arm>/<name>/<version>/manifest.yaml   what it is for, what it was trained on, its scores"""

EXAMPLES = """\
examples:
  trimtab train --arm ur5e
  trimtab train --arm wam --seed 1 --out runs/models
  trimtab train --arm so101 --minutes 4 --version quick --out runs/models
  trimtab models verify runs/models/so101/mlp/quick"""

LEAST = 3  # references per plant and round: one of each kind


def register(subparsers: Any) -> None:
    """Adds `trimtab train`."""
    parser = subparsers.add_parser(
        "train", help="train a residual model in simulation", description=DESCRIPTION, epilog=EXAMPLES
    )
    parser.add_argument("--arm", default="ur5e", help="a name that `trimtab arms` lists, or a contract's path")
    parser.add_argument("--out", type=Path, default=Path("models"), metavar="DIR", help="folder of all models")
    parser.add_argument("--minutes", type=float, default=18.0, metavar="M", help="of simulated motion to learn from")
    parser.add_argument("--seed", type=int, default=0, help="of references, noise and weights")
    parser.add_argument("--name", default="mlp", help="name of the model")
    parser.add_argument("--version", default="1", help="version of the model")
    parser.add_argument("--replace", action="store_true", help="take the place of a bundle of this name and version")
    parser.set_defaults(command=_train)


def recipe_of(minutes: float, seed: int) -> "Recipe":
    """The usual recipe with as many references as the minutes hold."""
    from trimtab.names import plant_names
    from trimtab_training.train import Recipe

    usual = Recipe(seed=seed)
    each = usual.rounds * len(plant_names()) * usual.duration / 60.0
    references = round(minutes / each)
    if references < LEAST:
        raise ConfigError(f"--minutes {minutes:g} is too little, the least is {LEAST * each:g}")
    if seed < 0:
        raise ConfigError(f"--seed {seed} is negative; give zero or more")
    return Recipe(seed=seed, references=references)


def _train(arguments: argparse.Namespace) -> int:
    from dataclasses import replace

    from trimtab.arm import load_arm
    from trimtab.cli.progress import StepBar
    from trimtab.errors import BundleRefused
    from trimtab.residual.bundle import write_bundle
    from trimtab.residual.parts import NAME

    try:
        from trimtab_training.train import train
    except ImportError as error:
        raise TrimtabError(f"training needs torch ({error}); run `pip install -r requirements-training.txt`") from error
    for option in ("name", "version"):
        if not NAME.fullmatch(getattr(arguments, option)):
            raise ConfigError(
                f"--{option} '{getattr(arguments, option)}' cannot be a folder: use letters, digits, '.', '-', '_'"
            )
    arm = load_arm(arguments.arm)
    recipe = recipe_of(arguments.minutes, arguments.seed)
    folder = arguments.out / arm.name / arguments.name / arguments.version
    if folder.exists() and not arguments.replace:
        raise BundleRefused(f"{folder}: exists already; choose another --version, or --replace it")
    print(f"{arm.name}: {recipe.minutes:g} minutes of simulated motion in {recipe.rounds} rounds, seed {recipe.seed}")
    with StepBar(recipe.total_steps(arm)) as bar:
        trained = train(arm, recipe, bar)
    manifest = replace(trained.manifest, name=arguments.name, version=arguments.version)
    write_bundle(folder, manifest, trained.exported, replace_existing=arguments.replace)
    print(scores_table(trained))
    print(f"\nwritten to {folder}; check it with `trimtab models verify {folder}`")
    return 0


def scores_table(trained: "Trained") -> str:
    """Joint errors by plant, without and with the residual, on references kept apart."""
    scores = trained.manifest.scores
    lines = [
        f"joint RMSE [mrad] on {scores['references']}",
        f"{'plant':<10} {'classical':>10} {'+ residual':>10} {'change':>8}",
    ]
    for plant, row in scores["joint_rmse_mrad"].items():
        before, after = row["classical"], row["with_residual"]
        lines.append(f"{plant:<10} {before:>10.3f} {after:>10.3f} {after / before - 1.0:>+8.0%}")
    return "\n".join(lines)
