"""The newest residual that came from elsewhere: what the controller uses when the model runs in another process."""

from dataclasses import replace

import numpy as np

from trimtab.arm import Arm
from trimtab.control.base import Sample
from trimtab.residual.offer import Offer
from trimtab.typing import FloatArray

SAME_REFERENCE = 0.02  # rad; a residual made for a reference further away than this is for another motion


class Mailbox:
    """Holds one offer and the reference that it was made for; gives it while it fits."""

    def __init__(self, arm: Arm) -> None:
        self._arm = arm
        self.strangers = 0
        """Offers that were made for another reference than the arm is following."""
        self.reset()

    def reset(self) -> None:
        """Empty."""
        self._offer: Offer | None = None
        self._desired: FloatArray | None = None

    def put(self, offer: Offer, desired: FloatArray) -> None:
        """A new offer, made for these wanted positions, shape (dof,) [rad]."""
        self._offer, self._desired = offer, desired

    def offer(self, sample: Sample, classical: FloatArray, now: float) -> Offer | None:  # noqa: ARG002
        """The newest offer; None where there is none, without confidence where it was made for another reference.

        Its age is for the safety filter to judge. Meanwhile the reference has moved on by speed times age.
        """
        offer, desired = self._offer, self._desired
        if offer is None or desired is None:
            return None
        moved = np.abs(sample.desired.qd) * abs(now - offer.stamp)
        if (np.abs(desired - sample.desired.q) <= SAME_REFERENCE + moved).all():
            return offer
        self.strangers += 1
        return replace(offer, confidence=0.0)
