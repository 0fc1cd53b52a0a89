"""Units that recordings come in, and the factor to the stack's own."""

import math

POSITION = {"rad": 1.0, "deg": math.pi / 180.0}
VELOCITY = {"rad/s": 1.0, "deg/s": math.pi / 180.0, "rpm": math.pi / 30.0}
TIME = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
EFFORT = {"Nm": ("Nm", 1.0), "mNm": ("Nm", 1e-3), "A": ("A", 1.0), "mA": ("A", 1e-3), "duty": ("duty", 1.0)}
"""Unit of a recording -> the unit it becomes, and the factor."""
