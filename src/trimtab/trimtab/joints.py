"""Joints go by name: puts arrays that came with names into the arm's own order."""

import math
from collections.abc import Sequence

import numpy as np

from trimtab.errors import JointNamesError, NotFiniteError
from trimtab.typing import FloatArray

DOUBTFUL = 1e-9  # share of a bound, and at least of one unit, within which a quick check leaves it to the exact one


def all_finite(values: FloatArray) -> bool:
    """Whether none of the values, shape (n,), is NaN or infinite.

    No sum with such a value is finite. A sum of finite ones hardly ever overflows; then they are looked at one by one.
    """
    return math.isfinite(sum(values.tolist())) or bool(np.isfinite(values).all())


class Bounds:
    """Lowest and highest value of each joint, for a look at an array in every period.

    Plain numbers: for the few joints of an arm that is faster than numpy, whose every call costs a fixed amount.
    """

    def __init__(self, low: FloatArray, high: FloatArray) -> None:
        self._low, self._high = low.tolist(), high.tolist()

    @classmethod
    def certain(cls, low: FloatArray, high: FloatArray) -> "Bounds":
        """A little narrower than given, by far more than any rounding: what they hold needs no closer look."""
        return cls(low + DOUBTFUL * (1.0 + np.abs(low)), high - DOUBTFUL * (1.0 + np.abs(high)))

    def hold(self, values: FloatArray) -> bool:
        """Whether each of the values, shape (joints,), is within its bounds, these included; NaN never is.

        The length is for others to check: here that would cost half as much again.
        """
        for value, lowest, highest in zip(values.tolist(), self._low, self._high):  # noqa: B905, SIM110
            if not lowest <= value <= highest:
                return False
        return True

    def hold_rows(self, rows: FloatArray) -> np.ndarray:
        """The same for many states at once: (n, joints) -> (n,) of bool."""
        held: np.ndarray = ((rows >= self._low) & (rows <= self._high)).all(axis=1)
        return held


class JointOrder:
    """Matches incoming joint names to an arm's joints.

    The names of a stream rarely change, so the last permutation is kept and reused.
    """

    def __init__(self, joints: Sequence[str]) -> None:
        self.joints = tuple(joints)
        self._names: tuple[str, ...] = self.joints
        self._index = np.arange(len(self.joints))

    def __len__(self) -> int:
        return len(self.joints)

    def index(self, names: Sequence[str]) -> np.ndarray:
        """Where each of the arm's joints stands in `names`; joints that are not the arm's are passed over."""
        names = tuple(names)
        if names != self._names:
            repeated = {name for name in names if names.count(name) > 1}
            if repeated:
                raise JointNamesError(f"joint '{min(repeated)}' is named twice")
            missing = [joint for joint in self.joints if joint not in names]
            if missing:
                raise JointNamesError(f"joint '{missing[0]}' is missing (got: {', '.join(names) or 'no joints'})")
            self._index = np.array([names.index(joint) for joint in self.joints])
            self._names = names
        return self._index

    def arrange(self, names: Sequence[str], values: Sequence[float] | FloatArray, what: str) -> FloatArray:
        """The values, shape (joints,), in the arm's order; refuses wrong lengths and numbers that are not finite."""
        index = self.index(names)
        array = np.asarray(values, dtype=np.float64)
        if array.shape != (len(names),):
            raise JointNamesError(f"{what} has {array.size} values for {len(names)} joints")
        ordered: FloatArray = array[index]
        self.require_finite(ordered, what)
        return ordered

    def require_finite(self, values: FloatArray, what: str) -> None:
        """Refuses NaN and infinity, naming the joint."""
        if not all_finite(values):
            bad = int(np.flatnonzero(~np.isfinite(values))[0])
            raise NotFiniteError(f"{what} of joint '{self.joints[bad]}' is {values[bad]}")
