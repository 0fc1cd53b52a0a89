"""Fits a residual network to logs: batches over all rows, a robust loss, a learning rate that falls to zero."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trimtab.arm import Arm
from trimtab.dynamics import RigidBody
from trimtab.typing import FloatArray
from trimtab_training.data import Log, inputs_of
from trimtab_training.mlp import ResidualMlp
from trimtab_training.targets import Targets, targets

KNEE = 0.01  # share of the torque limit beyond which an error counts linearly: stiction leaves spikes in the targets
BATCH = 2048
RATE = 4e-3
DECAY = 1e-4
HARDLY_EVER = 0.999  # share of the rows that a joint's reach holds


@dataclass(frozen=True)
class Lesson:
    """A log with its targets."""

    log: Log
    targets: Targets


@dataclass(frozen=True)
class Rows:
    """What the optimiser sees; one row per row of a target."""

    x: Tensor
    """Normalised inputs, (m, 4 dof)."""
    level: Tensor
    """Friction level that the network had at that instant, (m, dof)."""
    share: Tensor
    """Target as a share of the torque limit, (m, dof)."""
    usable: Tensor
    """1 where the target counts, (m, dof)."""


def lessons(arm: Arm, body: RigidBody, logs: Sequence[Log], progress: Callable[[int], object]) -> list[Lesson]:
    """Logs with their targets."""
    found = []
    for log in logs:
        found.append(Lesson(log, targets(arm, body, log)))
        progress(1)
    return found


def gather(model: ResidualMlp, taught: Sequence[Lesson]) -> Rows:
    """Runs the network's recurrent part along all logs at once, and keeps the rows that have a target."""
    scale = np.concatenate(list(model.input_scales().values()))
    longest = max(len(lesson.log.t) for lesson in taught)
    padded = np.zeros((longest, len(taught), len(scale)), np.float32)
    for i, lesson in enumerate(taught):
        rows = inputs_of(lesson.log) / scale
        padded[: len(rows), i] = rows
        padded[len(rows) :, i] = rows[-1]
    inputs = torch.from_numpy(padded)
    memory = model.fresh(len(taught))
    levels = torch.empty(longest, len(taught), model.dof)
    with torch.no_grad():
        for i in range(longest):
            levels[i], memory = model.context(inputs[i], memory)
    x, level, share, usable = [], [], [], []
    for i, lesson in enumerate(taught):
        rows = torch.from_numpy(lesson.targets.rows)
        x.append(inputs[rows, i])
        level.append(levels[rows, i])
        share.append(torch.from_numpy(lesson.targets.torque / model.arm.torque).float())
        usable.append(torch.from_numpy(lesson.targets.usable).float())
    return Rows(torch.cat(x), torch.cat(level), torch.cat(share), torch.cat(usable))


def fit(model: ResidualMlp, rows: Rows, steps: int, seed: int, progress: Callable[[int], object]) -> float:
    """Trains in place; gives the last mean loss. The same seed gives the same weights."""
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    average = 0.0
    for step in range(steps):
        # A short warm-up, then half a cosine.
        pace = min(1.0, (step + 1) / 50) * 0.5 * (1.0 + math.cos(math.pi * step / steps))
        for group in optimiser.param_groups:
            group["lr"] = RATE * pace
        pick = torch.randint(len(rows.x), (BATCH,), generator=generator)
        loss = _loss(model.correction(rows.x[pick], rows.level[pick]), rows.share[pick], rows.usable[pick])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        average += 0.02 * (float(loss.detach()) - average)
        progress(1)
    return average


def reach(model: ResidualMlp, rows: Rows) -> FloatArray:
    """What the residual hardly ever exceeds on these rows, by joint, (dof,) [Nm]; a thousandth of the limit at least."""
    with torch.no_grad():
        given = model.correction(rows.x, rows.level).abs()
        largest = torch.quantile(given, HARDLY_EVER, dim=0).clamp(min=1e-3)
    found: FloatArray = largest.double().numpy() * model.arm.torque
    return found


def _loss(given: Tensor, wanted: Tensor, usable: Tensor) -> Tensor:
    """Huber loss of the rows that count, in units of the knee squared."""
    off = (given - wanted).abs() / KNEE
    cost = torch.where(off < 1.0, 0.5 * off * off, off - 0.5)
    return (cost * usable).sum() / usable.sum().clamp(min=1.0)
