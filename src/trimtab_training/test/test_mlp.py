"""The network: bounded, silent on an arm without friction, and slow in what it learns of the plant."""

import numpy as np
import pytest
import torch

from trimtab.arm import Arm
from trimtab_training.mlp import LEVEL_UNIT, ResidualMlp


def along(model: ResidualMlp, friction: float, seconds: float = 4.0) -> torch.Tensor:
    """Levels (n, dof) along a swing whose classical torque holds gravity, inertia and some Coulomb friction."""
    dof, period = model.dof, model.arm.period
    memory = model.fresh()
    levels = []
    for i in range(round(seconds / period)):
        angle = 2.0 * np.pi * 0.5 * i * period
        speed, acceleration = 0.2 * np.sin(angle), 0.2 * np.cos(angle)
        baseline = 0.1 * np.cos(angle) + 0.02 * acceleration + friction * np.tanh(speed / 0.01)
        x = torch.tensor([[0.3] * dof + [speed] * dof + [acceleration] * dof + [baseline] * dof], dtype=torch.float32)
        level, memory = model.context(x, memory)
        levels.append(level[0])
    return torch.stack(levels)


def test_the_level_follows_friction(model: ResidualMlp) -> None:
    none, some, much = (float(along(model, friction)[-1, 0]) for friction in (0.0, 0.5 * LEVEL_UNIT, LEVEL_UNIT))
    assert none == pytest.approx(model.shape.floor, abs=0.05)
    assert 0.3 < some < 0.8
    assert some + 0.2 < much < 1.6


def test_the_level_moves_slowly(model: ResidualMlp) -> None:
    """No fast loop may be closed through what the network sees of the torque."""
    levels = along(model, LEVEL_UNIT, 8.0)
    late = levels[len(levels) // 2 :]
    assert float(late.diff(dim=0).abs().max()) < 0.05
    dof = model.dof
    x = torch.zeros(1, 4 * dof)
    memory = model.fresh()
    for _ in range(100):
        _, memory = model.context(x, memory)
    x[:, 3 * dof :] = 0.3
    level, _ = model.context(x, memory)
    assert float(level.max()) == pytest.approx(model.shape.floor)


def test_output_is_bounded(model: ResidualMlp, arm: Arm) -> None:
    random = torch.Generator().manual_seed(1)
    memory = model.fresh(64)
    for scale in (1.0, 100.0, 1e6):
        x = scale * torch.randn(64, 4 * model.dof, generator=random)
        residual, distance, *memory = model(x, *memory)
        assert torch.isfinite(residual).all()
        assert (residual.abs() <= model.shape.bound * torch.tensor(arm.torque) * (1.0 + 1e-5)).all()
        assert torch.isfinite(distance).all()


def test_joints_do_not_mix(model: ResidualMlp) -> None:
    """A joint's residual depends on its own motion, at a given level."""
    x, level = torch.randn(1, 4 * model.dof), torch.full((1, model.dof), 0.7)
    other = x.clone()
    other[0, [1, model.dof + 1, 2 * model.dof + 1]] += 0.3
    with torch.no_grad():
        before, after = model.correction(x, level)[0], model.correction(other, level)[0]
    assert before[1] != after[1]
    for i in (0, 2, 3):
        assert float(before[i]) == pytest.approx(float(after[i]), abs=1e-7)


def test_distance_grows_away_from_the_data(model: ResidualMlp) -> None:
    x = torch.randn(2000, 4 * model.dof)
    model.learn_distance(x)
    inside = model.distance(x)
    assert float(inside.mean()) == pytest.approx(1.0, abs=0.1)
    assert float(model.distance(10.0 * x).min()) > float(inside.max())


def test_size(arm: Arm) -> None:
    from trimtab_training.train import Recipe

    network = ResidualMlp(arm, Recipe().shape)
    assert sum(parameter.numel() for parameter in network.parameters()) <= 25_000
