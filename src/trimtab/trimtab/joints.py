"""Joints go by name: puts arrays that came with names into the arm's own order."""

from collections.abc import Sequence

import numpy as np

from trimtab.errors import JointNamesError, NotFiniteError
from trimtab.typing import FloatArray


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

    def arrange(self, names: Sequence[str], values: Sequence[float], what: str) -> FloatArray:
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
        if not np.isfinite(values).all():
            bad = int(np.flatnonzero(~np.isfinite(values))[0])
            raise NotFiniteError(f"{what} of joint '{self.joints[bad]}' is {values[bad]}")
