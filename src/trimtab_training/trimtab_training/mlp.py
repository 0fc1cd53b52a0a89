"""The residual network: slow knowledge of the plant as recurrent state, and a small MLP per joint on the wanted motion.

Only the wanted motion enters fast terms, so noise does not feed back. The one thing that it sees of the plant is how much
the classical torque jumps where the wanted speed changes sign: the level of friction, averaged over seconds.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from trimtab.arm import Arm
from trimtab.typing import FloatArray

ACCELERATION_SCALE = 5.0  # 1/s; accelerations are divided by this times the velocity limit
SIGN_SPEEDS = (0.003, 0.01, 0.03, 0.1)  # shares of the velocity limit over which a smoothed sign changes
LEADS = (0.02, -0.02)  # s by which the wanted speed is extrapolated: friction before and after a reversal differs
LEAD_SPEEDS = (0.01, 0.03)
LEVEL_UNIT = 0.03  # share of the torque limit that counts as a friction level of 1
LEVEL_MAX = 2.0


@dataclass(frozen=True)
class Shape:
    """Sizes and constants of the network."""

    hidden: tuple[int, int] = (24, 16)
    cycles: tuple[int, ...] = ()
    """Ripples over a joint's turn that the features hold."""
    bound: float = 0.08
    """Largest residual as a share of the torque limit."""
    fast: float = 0.15
    """Time constant of the filter that takes gravity and inertia off the jumps [s]."""
    memory: float = 10.0
    """Time constant with which the friction level is forgotten [s]."""
    sign_speed: float = 0.015
    """Share of the velocity limit over which the sign in the level's estimate changes."""
    prior: float = 0.01
    """Jumps seen (in seconds of a jump of 1) before the level is believed at all."""
    prior_own: float = 0.05
    """Jumps of a joint before its own level is believed over that of all joints."""
    quiet: tuple[float, float] = (0.08, 0.25)
    """Level of all joints below which the residual is silent, and from which it is whole."""
    floor: float = 0.02
    """What is left of the residual at a level of zero: probes of a fresh state must see the weights."""
    leads: tuple[float, ...] = LEADS
    """[s]"""


Memory = tuple[Tensor, Tensor, Tensor]
"""Recurrent state: filtered torque and sign [B, 2 dof], sums of jumps [B, 2 dof], whether it has begun [B, 1]."""


class ResidualMlp(nn.Module):
    """x [B, 4 dof] and memory -> residual [B, dof] [Nm], distance [B, 1], next memory.

    At batch one a node of the graph costs more than its arithmetic: products are merged where that saves nodes.
    """

    projection: Tensor
    angles: Tensor
    phases: Tensor
    torque: Tensor
    away: Tensor
    away_offset: Tensor

    def __init__(self, arm: Arm, shape: Shape) -> None:
        super().__init__()
        self.arm, self.shape, self.dof = arm, shape, arm.dof
        projection = _projection(arm.dof, shape)
        angles, phases = _angles(arm.dof, shape.cycles)
        self.features = (projection.shape[1] + angles.shape[1]) // arm.dof + 2
        for name, value in (("projection", projection), ("angles", angles), ("phases", phases)):
            self.register_buffer(name, torch.tensor(value, dtype=torch.float32))
        self.register_buffer("torque", torch.tensor(arm.torque, dtype=torch.float32))
        self.register_buffer("away", torch.zeros(4 * arm.dof, 3 * arm.dof))
        self.register_buffer("away_offset", torch.zeros(3 * arm.dof))
        first, second = shape.hidden
        self.first = _weights(arm.dof, self.features + 1, first)
        self.first_bias = nn.Parameter(torch.zeros(arm.dof, 1, first))
        self.second = _weights(arm.dof, first, second)
        self.second_bias = nn.Parameter(torch.zeros(arm.dof, 1, second))
        # The last layer also sees the features themselves: what is linear in them needs no hidden units.
        self.last = nn.Parameter(torch.zeros(arm.dof, second + self.features + 1, 1))

    @property
    def memory_sizes(self) -> tuple[int, int, int]:
        """Widths of the recurrent tensors."""
        return 2 * self.dof, 2 * self.dof, 1

    def fresh(self, batch: int = 1) -> Memory:
        """The memory at reset."""
        slow, sums, begun = (torch.zeros(batch, size) for size in self.memory_sizes)
        return slow, sums, begun

    def forward(self, x: Tensor, slow: Tensor, sums: Tensor, begun: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """One control period."""
        signs = torch.tanh(x @ self.projection)
        level, (slow, sums, begun) = self._level(x, signs, (slow, sums, begun))
        scale = self.shape.bound * self.torque
        return scale * self._shares(x, signs, level), self.distance(x), slow, sums, begun

    def context(self, x: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """Friction level of each joint [B, dof] and the next memory."""
        return self._level(x, torch.tanh(x @ self.projection), memory)

    def correction(self, x: Tensor, level: Tensor) -> Tensor:
        """Residual as a share of the torque limit, [B, dof], for a level [B, dof]."""
        return self.shape.bound * self._shares(x, torch.tanh(x @ self.projection), level)

    def _level(self, x: Tensor, signs: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        shape, dof, period = self.shape, self.dof, self.arm.period
        slow, sums, begun = memory
        keep, remember = math.exp(-period / shape.fast), math.exp(-period / shape.memory)
        now = torch.cat([x[:, 3 * dof :], signs[:, :dof]], dim=1)
        slow = now + (keep * begun) * (slow - now)
        jump = now - slow
        sign_jump = jump[:, dof:]
        sums = remember * sums + period * (jump * torch.cat([sign_jump, sign_jump], dim=1))
        seen, weight = sums[:, :dof], sums[:, dof:]
        own = seen / (weight + shape.prior)
        common = seen.mean(dim=1, keepdim=True) / (weight.mean(dim=1, keepdim=True) + shape.prior)
        level = common + weight / (weight + shape.prior_own) * (own - common)
        level = level.clamp(0.0, LEVEL_MAX * LEVEL_UNIT)
        low, high = (LEVEL_UNIT * end for end in shape.quiet)
        s = ((common - low) * (1.0 / (high - low))).clamp(0.0, 1.0)
        level = shape.floor + (s * s * (3.0 - 2.0 * s)) * (level * (1.0 / LEVEL_UNIT))
        return level, (slow, sums, (begun + 1.0).clamp(0.0, 1.0))

    def _shares(self, x: Tensor, signs: Tensor, level: Tensor) -> Tensor:
        """Residual as a share of its bound, [B, dof], between -1 and 1."""
        dof = self.dof
        parts = [signs, x[:, dof : 3 * dof], level]
        if self.shape.cycles:
            parts.append(torch.sin(x @ self.angles + self.phases))
        seen = torch.cat(parts, dim=1).reshape(x.shape[0], self.features + 1, dof).permute(2, 0, 1)
        hidden = torch.tanh(seen @ self.first + self.first_bias)
        hidden = torch.tanh(hidden @ self.second + self.second_bias)
        share = (torch.cat([hidden, seen], dim=2) @ self.last).squeeze(2).transpose(0, 1)
        return torch.tanh(level * share)

    def distance(self, x: Tensor) -> Tensor:
        """Mahalanobis distance of the wanted motion from the training data, per square root of a dimension, [B, 1]."""
        return torch.addmm(self.away_offset, x, self.away).norm(dim=1, keepdim=True)

    def learn_distance(self, x: Tensor) -> None:
        """Takes mean and covariance of training inputs (n, 4 dof)."""
        motion = x[:, : 3 * self.dof].double()
        count = motion.shape[1]
        covariance = torch.cov(motion.T) + 1e-4 * torch.eye(count, dtype=torch.float64)
        whiten = torch.linalg.inv(torch.linalg.cholesky(covariance)).T / math.sqrt(count)
        self.away.zero_()
        self.away[:count].copy_(whiten.float())
        self.away_offset.copy_(-(motion.mean(dim=0) @ whiten).float())

    def input_scales(self) -> dict[str, FloatArray]:
        """What each input quantity is divided by, in the order of the inputs; means are zero."""
        arm = self.arm
        return {
            "q_des": np.ones(arm.dof),
            "qd_des": np.array(arm.velocity),
            "qdd_des": ACCELERATION_SCALE * arm.velocity,
            "baseline": np.array(arm.torque),
        }


def _weights(dof: int, inputs: int, outputs: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(dof, inputs, outputs) / math.sqrt(inputs))


def _projection(dof: int, shape: Shape) -> FloatArray:
    """Arguments of the smoothed signs: columns feature by feature, joint by joint; the level's own sign first."""
    blocks = []
    pairs = [(0.0, speed) for speed in (shape.sign_speed, *SIGN_SPEEDS)]
    pairs += [(lead, speed) for lead in shape.leads for speed in LEAD_SPEEDS]
    for lead, speed in pairs:
        block = np.zeros((4 * dof, dof))
        block[dof : 2 * dof] = np.eye(dof) / speed
        block[2 * dof : 3 * dof] = np.eye(dof) * lead * ACCELERATION_SCALE / speed
        blocks.append(block)
    return np.hstack(blocks)


def _angles(dof: int, cycles: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
    """Arguments of the ripples' sine and cosine."""
    blocks, phases = [np.zeros((4 * dof, 0))], [np.zeros(0)]
    for cycle in cycles:
        for phase in (0.0, 0.5 * np.pi):
            block = np.zeros((4 * dof, dof))
            block[:dof] = cycle * np.eye(dof)
            blocks.append(block)
            phases.append(np.full(dof, phase))
    return np.hstack(blocks), np.concatenate(phases)
