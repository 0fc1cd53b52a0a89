"""The fit finds a function of the motion, is the same for the same seed, and ignores rows that do not count."""

import torch

from trimtab.arm import Arm
from trimtab_training.fit import Rows, fit
from trimtab_training.mlp import ResidualMlp, Shape


def rows(arm: Arm) -> Rows:
    random = torch.Generator().manual_seed(2)
    x = 0.3 * torch.randn(6000, 4 * arm.dof, generator=random)
    level = torch.ones(6000, arm.dof)
    share = 0.02 * torch.tanh(x[:, arm.dof : 2 * arm.dof] / 0.03)
    return Rows(x, level, share, torch.ones_like(share))


def trained(arm: Arm, seed: int, lesson: Rows) -> tuple[ResidualMlp, float]:
    torch.manual_seed(seed)
    model = ResidualMlp(arm, Shape(hidden=(6, 4)))
    return model, fit(model, lesson, 150, seed, lambda _: None)


def test_learns(arm: Arm) -> None:
    lesson = rows(arm)
    model, _ = trained(arm, 0, lesson)
    with torch.no_grad():
        left = (model.correction(lesson.x, lesson.level) - lesson.share).square().mean().sqrt()
    assert float(left) < 0.15 * float(lesson.share.square().mean().sqrt())


def test_the_same_seed_gives_the_same_weights(arm: Arm) -> None:
    (first, _), (again, _), (other, _) = (trained(arm, seed, rows(arm)) for seed in (0, 0, 1))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert not torch.equal(first.last, other.last)


def test_rows_that_do_not_count_do_not_teach(arm: Arm) -> None:
    lesson = rows(arm)
    spoiled = Rows(lesson.x, lesson.level, lesson.share.clone(), lesson.usable.clone())
    spoiled.share[::2], spoiled.usable[::2] = 5.0, 0.0
    model, _ = trained(arm, 0, spoiled)
    with torch.no_grad():
        left = (model.correction(lesson.x, lesson.level) - lesson.share).square().mean().sqrt()
    assert float(left) < 0.2 * float(lesson.share.square().mean().sqrt())
