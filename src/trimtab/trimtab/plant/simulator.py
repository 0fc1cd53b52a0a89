"""A simulated arm that takes torque and gives a measured state, one control period at a time."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import mujoco
import numpy as np

from trimtab.arm import Arm
from trimtab.dynamics import RigidBody
from trimtab.errors import ConfigError
from trimtab.plant.gap import Friction, PlantGap
from trimtab.plant.model import HARD, PLAY_SUFFIX, build_model, stiff
from trimtab.typing import FloatArray

PHYSICS_RATE = 1000.0  # Hz, the least; rounded up to a multiple of the control rate
PAYLOAD_RADIUS = 0.02  # m; of the ball that `load` adds
JAMMED = 10.0  # friction of a jammed joint, in torque limits


class Plant:
    """One arm in MuJoCo. Joint arrays have shape (dof,) in the arm's order.

    Position and velocity are measured at the motor; with backlash the link may be elsewhere (`link_position`).
    The same seed and the same torques give the same trace, bit for bit.
    """

    def __init__(self, arm: Arm, gap: PlantGap, seed: int = 0, physics_rate: float = PHYSICS_RATE) -> None:
        if gap.backlash > 0.0 and not (arm.armature > 0.0).all():
            raise ConfigError(f"{arm.file}: backlash needs armature > 0 at every joint")
        self.arm = arm
        self.gap = gap
        self._seed = seed
        self.substeps = int(np.ceil(physics_rate / arm.rate - 1e-9))
        self.timestep = arm.period / self.substeps
        self.model = build_model(arm, gap, self.timestep)
        self.data = mujoco.MjData(self.model)
        self._qpos = self._addresses(self.model.jnt_qposadr, arm.joints)
        self._dofs = self._addresses(self.model.jnt_dofadr, arm.joints)
        play = [name + PLAY_SUFFIX for name in arm.joints] if gap.backlash > 0.0 else []
        self._play = self._addresses(self.model.jnt_qposadr, play)
        self.strength = 1.0
        """Share of the commanded torque that the motors still make; below 1 for weak ones."""
        self.push: FloatArray | None = None
        """Torque from outside on each joint, shape (dof,) [Nm]; None where nobody pushes."""
        self._believed = None if arm.actuator.stack_owns_gravity else RigidBody(arm)
        self.reset(arm.home)

    def reset(self, q: Sequence[float] | FloatArray) -> None:
        """At rest in a posture, cold noise, empty delay line."""
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[self._qpos] = q
        mujoco.mj_forward(self.model, self.data)
        self._random = np.random.default_rng(self._seed)
        thermal = self.gap.thermal
        self._heat = np.full(self.arm.dof, thermal.initial if thermal else 0.0)
        # Drives that compensate gravity have always done so: their torque is in the line already.
        resting = np.zeros(self.arm.dof) if self._believed is None else self._believed.gravity(self.data.qpos[self._qpos])
        waiting = round(self.gap.delay / self.timestep)
        self._line: deque[FloatArray] = deque([self._fade(resting)] * waiting)

    @property
    def time(self) -> float:
        """Simulated time [s]."""
        return float(self.data.time)

    def measure(self) -> tuple[FloatArray, FloatArray]:
        """Position [rad] and velocity [rad/s] as the arm's sensors tell them. Draws fresh noise."""
        q = self.data.qpos[self._qpos]
        qd = self.data.qvel[self._dofs]
        if self.gap.encoder_step > 0.0:
            q = np.round(q / self.gap.encoder_step) * self.gap.encoder_step
        if self.gap.velocity_noise > 0.0:
            qd = qd + self._random.normal(0.0, self.gap.velocity_noise, self.arm.dof)
        return q, qd

    @property
    def link_position(self) -> FloatArray:
        """True position of the links, behind the backlash [rad]."""
        q: FloatArray = self.data.qpos[self._qpos]
        return q + self.data.qpos[self._play] if len(self._play) else q

    @property
    def temperature_rise(self) -> FloatArray:
        """Of the motors above cold [K]."""
        return self._heat.copy()

    def step(self, torque: FloatArray) -> None:
        """Applies a torque command [Nm] for one control period."""
        drive = self._drive(torque)
        gap, data = self.gap, self.data
        if gap.friction is None and not self._line and not gap.ripple.any() and self.push is None:
            data.qfrc_applied[self._dofs] = drive
            mujoco.mj_step(self.model, data, self.substeps)
            return
        for _ in range(self.substeps):
            self._line.append(drive)
            applied = self._line.popleft()
            if gap.ripple.any():
                applied = applied + gap.ripple * np.sin(gap.ripple_cycles * data.qpos[self._qpos])
            if self.push is not None:
                applied = applied + self.push
            data.qfrc_applied[self._dofs] = applied
            if gap.friction is not None:
                self._set_stribeck()
            mujoco.mj_step(self.model, data)

    def lengthen_delay(self, extra: float) -> None:
        """From now on a command takes longer to become torque, by `extra` [s]; meanwhile the oldest one stays."""
        waiting = self._line[0] if self._line else self.data.qfrc_applied[self._dofs].copy()
        self._line.extendleft([waiting] * round(extra / self.timestep))

    def scale_friction(self, joint: int, factor: float) -> None:
        """One joint's dry and viscous friction becomes `factor` times what it is; where the plant has none, nothing does."""
        friction = self.gap.friction
        if friction is None:
            return
        scale = np.ones(self.arm.dof)
        scale[joint] = factor
        self.model.dof_damping[self._dofs[joint]] *= factor
        dry = {"coulomb": friction.coulomb * scale, "breakaway": friction.breakaway * scale}
        self.gap = replace(self.gap, friction=replace(friction, viscous=friction.viscous * scale, **dry))

    def jam(self, joint: int) -> None:
        """One joint's dry friction becomes more than its motor and the arm's weight can overcome."""
        zeros = np.zeros(self.arm.dof)
        friction = self.gap.friction or Friction(zeros, zeros, self.arm.velocity, zeros)
        coulomb, breakaway = friction.coulomb.copy(), friction.breakaway.copy()
        coulomb[joint] = breakaway[joint] = JAMMED * self.arm.torque[joint]
        self.model.dof_solref[self._dofs[joint]] = stiff(self.timestep)
        self.model.dof_solimp[self._dofs[joint]] = HARD
        self.gap = replace(self.gap, friction=replace(friction, coulomb=coulomb, breakaway=breakaway))

    def load(self, mass: float) -> None:
        """Adds a compact payload to the tool, [kg]; a negative mass takes it away."""
        model, body = self.model, self.model.body(self.arm.tool_frame).id
        if model.body_mass[body] == 0.0:  # a bare frame: what it has for a centre of mass means nothing
            model.body_ipos[body], model.body_iquat[body] = 0.0, (1.0, 0.0, 0.0, 0.0)
        model.body_mass[body] += mass
        model.body_inertia[body] += mass * PAYLOAD_RADIUS**2 * 0.4
        # MuJoCo keeps masses of whole branches; it makes them anew on data that is not ours, which it overwrites.
        mujoco.mj_setConst(model, mujoco.MjData(model))

    def _drive(self, command: FloatArray) -> FloatArray:
        """What the motors make of a command: the robot's own gravity torque, the drive's limit, the warm motor's loss."""
        torque = command
        if self._believed is not None:
            torque = torque + self._believed.gravity(self.data.qpos[self._qpos])
        torque = np.clip(torque, -self.arm.torque, self.arm.torque)
        thermal = self.gap.thermal
        if thermal is not None:
            load = (torque / self.arm.torque) ** 2
            self._heat += (thermal.rise * load - self._heat) * self.arm.period / thermal.time_constant
        return self._fade(torque) * self.strength

    def _fade(self, torque: FloatArray) -> FloatArray:
        """What a warm motor makes of a torque [Nm]."""
        thermal = self.gap.thermal
        return torque if thermal is None else torque * (1.0 - thermal.coefficient * self._heat)

    def _set_stribeck(self) -> None:
        """MuJoCo's dry friction is a constraint with one bound per joint: the bound follows the Stribeck curve."""
        friction = self.gap.friction
        assert friction is not None
        ratio = self.data.qvel[self._dofs] / friction.stribeck_speed
        self.model.dof_frictionloss[self._dofs] = friction.coulomb + (friction.breakaway - friction.coulomb) * np.exp(
            -ratio * ratio
        )

    def _addresses(self, table: np.ndarray, joints: Sequence[str]) -> np.ndarray:
        return np.array([table[self.model.joint(name).id] for name in joints], dtype=np.intp)
