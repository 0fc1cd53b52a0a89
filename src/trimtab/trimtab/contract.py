"""The parts of an arm's contract (`config/arms/<arm>.yaml`) and how they are read; `arm.py` puts them together."""

import math
from dataclasses import dataclass
from typing import Any

from trimtab.fields import Fields


@dataclass(frozen=True)
class ActuatorContract:
    """What a torque command means to this arm's drives."""

    gravity: str
    """Who compensates gravity in torque mode: `robot` or `stack`."""
    effort_unit: str
    """What the drive's effort value is: `Nm`, `A` or `duty`."""
    torque: str
    """How far the drive's torque can be trusted: `true`, `from_current` or `approximate`."""
    min_torque_rate: float
    """Lowest loop rate at which torque control is allowed [Hz]."""

    @property
    def stack_owns_gravity(self) -> bool:
        """Whether our controllers must add the gravity torque."""
        return self.gravity == "stack"


@dataclass(frozen=True)
class ComputedTorqueGains:
    """Error dynamics of computed torque: e'' + 2 damping w e' + w^2 e = 0 with each joint's bandwidth w."""

    damping: float
    """Damping ratio."""


@dataclass(frozen=True)
class IntegralGains:
    """Integral action: torque = kp * rate * integral of the position error."""

    rate: float
    """Inverse of the integral time [1/s]."""
    limit: float
    """Bound as a share of each joint's torque limit."""


@dataclass(frozen=True)
class ObserverGains:
    """Momentum disturbance observer."""

    bandwidth: float
    """Cut-off of the estimate [rad/s]."""
    limit: float
    """Bound of the correction as a share of each joint's torque limit."""


@dataclass(frozen=True)
class AdaptiveGains:
    """Slotine-Li adaptive control."""

    payload: float
    """Adaptation gain of the payload's inertial parameters, relative to the rated payload [s^2/m^2]."""
    friction: float
    """Adaptation gain of the joints' friction (relative to their kp)."""
    limit: float
    """Bound of the adapted friction as a share of each joint's torque limit."""


@dataclass(frozen=True)
class Trips:
    """When a moving arm is taken out of nominal operation."""

    tracking_error: float
    """Position error beyond which the arm holds [rad]."""
    velocity: float
    """Measured speed, as a multiple of the velocity limit, beyond which the arm is damped."""
    position_margin: float
    """How far outside its position limit a joint may be measured before the arm holds [rad]."""


@dataclass(frozen=True)
class Timeouts:
    """How old data may be before it counts as gone [s]."""

    state: float
    command: float


@dataclass(frozen=True)
class ResidualLimits:
    """What a learned torque may do to this arm, whatever the model says."""

    size: float
    """Largest residual as a share of each joint's torque limit."""
    slew: float
    """Fastest change [torque limits per second]."""
    fade: float
    """From no authority to full [s]."""
    tank: float
    """Energy that the residual may put into the arm at a stretch [J]."""
    refill: float
    """Power that it may put in for ever [W]."""
    position_margin: float
    """Distance to a position limit below which torque towards the limit fades out [rad]."""
    velocity_margin: float
    """Distance to the speed limit, as a share of it, below which torque along the motion fades out."""
    abort_tracking: float
    """Tracking error over what it would be without the residual, beyond which the residual is switched off."""
    abort_saturation: float
    """Share of time at the size limit beyond which it is switched off."""
    abort_oscillation: float
    """Root mean square of the residual's high band, as a share of `size`, beyond which it is switched off."""


def read_actuator(fields: Fields) -> ActuatorContract:
    """The `actuator` section."""
    contract = ActuatorContract(
        gravity=fields.text("gravity", ("robot", "stack")),
        effort_unit=fields.text("effort_unit", ("Nm", "A", "duty")),
        torque=fields.text("torque", ("true", "from_current", "approximate")),
        min_torque_rate=fields.number("min_torque_rate", low=1.0),
    )
    fields.done()
    return contract


def read_gains(control: Fields) -> dict[str, Any]:
    """The `control` section, by the name of the part that it sets."""
    classes: dict[str, tuple[Any, tuple[str, ...]]] = {
        "computed_torque": (ComputedTorqueGains, ("damping",)),
        "integral": (IntegralGains, ("rate", "limit")),
        "observer": (ObserverGains, ("bandwidth", "limit")),
        "adaptive": (AdaptiveGains, ("payload", "friction", "limit")),
    }
    gains: dict[str, Any] = {}
    for name, (cls, names) in classes.items():
        section = control.mapping(name)
        gains[name] = cls(**{field: section.number(field, low=0.0) for field in names})
        section.done()
    control.done()
    return gains


def read_trips(fields: Fields) -> Trips:
    """The `trips` section."""
    trips = Trips(
        tracking_error=fields.number("tracking_error", low=1e-3, high=math.pi),
        velocity=fields.number("velocity", low=1.0, high=10.0),
        position_margin=fields.number("position_margin", low=0.0, high=1.0),
    )
    fields.done()
    return trips


def read_timeouts(fields: Fields) -> Timeouts:
    """The `timeouts` section."""
    timeouts = Timeouts(state=fields.number("state", low=1e-3), command=fields.number("command", low=1e-3))
    fields.done()
    return timeouts


def read_residual(fields: Fields) -> ResidualLimits:
    """The `residual` section."""
    abort = fields.mapping("abort")
    limits = ResidualLimits(
        size=fields.number("size", low=0.0, high=0.5),
        slew=fields.number("slew", low=0.1, high=100.0),
        fade=fields.number("fade", low=0.01, high=60.0),
        tank=fields.number("tank", low=1e-3, high=100.0),
        refill=fields.number("refill", low=0.0, high=100.0),
        position_margin=fields.number("position_margin", low=1e-3, high=1.0),
        velocity_margin=fields.number("velocity_margin", low=1e-3, high=1.0),
        abort_tracking=abort.number("tracking", low=1.0, high=10.0),
        abort_saturation=abort.number("saturation", low=0.0, high=1.0),
        abort_oscillation=abort.number("oscillation", low=0.0, high=1.0),
    )
    abort.done()
    fields.done()
    return limits
