"""Names of the limits that can fire in one step, as bits."""

from enum import IntFlag


class Limit(IntFlag):
    """Which limits held a torque back in one step."""

    TORQUE = 1
    """The total was clipped to the joint's torque limit."""
    SIZE = 2
    """The residual was larger than it may be."""
    SLEW = 4
    """It wanted to change faster than it may."""
    ENERGY = 8
    """The tank had too little left for what it wanted to put into the arm."""
    POSITION = 16
    """It pushed towards a position limit that is near."""
    VELOCITY = 32
    """It pushed along a motion that is near the speed limit."""
    CONFIDENCE = 64
    """The model is outside of what it was trained on."""
    EVIDENCE = 128
    """It has not shown, or no longer shows, that the arm tracks better with it."""
    MISSING = 256
    """There was no fresh residual for this state."""


def limit_names(mask: int) -> list[str]:
    """The limits in a mask, by name, for people."""
    return [limit.name.lower() for limit in Limit if limit & mask and limit.name]
