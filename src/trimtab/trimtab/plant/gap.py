"""A plant's gap: in what the simulated arm differs from what the controller believes (`config/plants/*.yaml`).

Files state shares (of torque limits, rated payload, ...), so one file suits every arm; `load_gap` turns them into the
arm's own units.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trimtab.arm import Arm
from trimtab.fields import Fields
from trimtab.share import resolve
from trimtab.typing import FloatArray


@dataclass(frozen=True)
class Friction:
    """Coulomb, Stribeck and viscous friction of each joint; arrays of shape (dof,)."""

    coulomb: FloatArray
    """At speed [Nm]."""
    breakaway: FloatArray
    """At rest [Nm]."""
    stribeck_speed: FloatArray
    """Speed over which breakaway falls to Coulomb [rad/s]."""
    viscous: FloatArray
    """[Nm s/rad]"""


@dataclass(frozen=True)
class Thermal:
    """First-order heating of the motors and what it does to their torque constant."""

    coefficient: float
    """Share of the torque constant lost per kelvin."""
    time_constant: float
    """[s]"""
    rise: float
    """Temperature rise after a long time at full torque [K]."""
    initial: float
    """Temperature rise at the start [K]."""


@dataclass(frozen=True)
class PlantGap:
    """One named gap, in one arm's units."""

    name: str
    friction: Friction | None
    payload_mass: float
    """[kg]"""
    payload_offset: FloatArray
    """Centre of mass in the tool frame, shape (3,) [m]."""
    armature_factor: float
    """True rotor inertia over the contract's."""
    delay: float
    """From a command to its torque [s]."""
    backlash: float
    """Play between motor and link [rad]."""
    ripple: FloatArray
    """Amplitude of the torque ripple, shape (dof,) [Nm]."""
    ripple_cycles: float
    """Ripple periods per joint turn."""
    thermal: Thermal | None
    encoder_step: float
    """Quantisation of the measured position [rad]; 0 for none."""
    velocity_noise: float
    """Standard deviation of the measured velocity [rad/s]."""


def load_gap(name_or_path: str | Path, arm: Arm) -> PlantGap:
    """Loads a plant by name or path, scaled to an arm."""
    file = resolve(name_or_path, "config/plants", "plant")
    fields = Fields.of_file(file)
    name = fields.text("plant")
    fields.text("description")
    friction = _friction(fields.mapping("friction"), arm) if fields.has("friction") else None
    payload, offset = _payload(fields.mapping("payload"), arm) if fields.has("payload") else (0.0, np.zeros(3))
    ripple, cycles = _ripple(fields.mapping("ripple"), arm) if fields.has("ripple") else (np.zeros(arm.dof), 1.0)
    thermal = _thermal(fields.mapping("thermal")) if fields.has("thermal") else None
    gap = PlantGap(
        name=name,
        friction=friction,
        payload_mass=payload,
        payload_offset=offset,
        armature_factor=fields.number("armature_factor", low=0.1, high=10.0, default=1.0),
        delay=fields.number("delay", low=0.0, high=0.05, default=0.0),
        backlash=fields.number("backlash", low=0.0, high=0.1, default=0.0),
        ripple=ripple,
        ripple_cycles=cycles,
        thermal=thermal,
        encoder_step=_encoder_step(fields),
        velocity_noise=fields.number("velocity_noise", low=0.0, high=1.0, default=0.0),
    )
    fields.done()
    return gap


def _friction(fields: Fields, arm: Arm) -> Friction:
    coulomb = fields.number("coulomb", low=0.0, high=0.5) * arm.torque
    friction = Friction(
        coulomb=coulomb,
        breakaway=coulomb * fields.number("breakaway_factor", low=1.0, high=5.0),
        stribeck_speed=fields.number("stribeck_speed", low=1e-4, high=1.0) * arm.velocity,
        viscous=fields.number("viscous", low=0.0, high=1.0) * arm.torque / arm.velocity,
    )
    fields.done()
    return friction


def _payload(fields: Fields, arm: Arm) -> tuple[float, FloatArray]:
    mass = fields.number("mass", low=0.0, high=1.0) * arm.rated_payload
    offset = np.array([0.0, 0.0, fields.number("offset", low=0.0, high=0.5)])
    fields.done()
    return mass, offset


def _ripple(fields: Fields, arm: Arm) -> tuple[FloatArray, float]:
    amplitude = fields.number("amplitude", low=0.0, high=0.2) * arm.torque
    cycles = fields.number("cycles", low=1.0, high=1000.0)
    fields.done()
    return amplitude, cycles


def _thermal(fields: Fields) -> Thermal:
    thermal = Thermal(
        coefficient=fields.number("coefficient", low=0.0, high=0.01),
        time_constant=fields.number("time_constant", low=0.1),
        rise=fields.number("rise", low=0.0, high=200.0),
        initial=fields.number("initial", low=0.0, high=200.0),
    )
    fields.done()
    if thermal.coefficient * max(thermal.rise, thermal.initial) >= 1.0:
        raise fields.error("coefficient", "times the temperature rise reaches 1: such a motor would turn backwards")
    return thermal


def _encoder_step(fields: Fields) -> float:
    counts = fields.number("encoder_counts", low=0.0, default=0.0)
    return 2.0 * np.pi / counts if counts else 0.0
