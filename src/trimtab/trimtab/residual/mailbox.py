"""The newest residuals that came from elsewhere: what the controller uses when the model runs in another node."""

from dataclasses import replace

from trimtab.arm import Arm
from trimtab.control.base import Sample
from trimtab.residual.offer import Offer
from trimtab.typing import FloatArray

SAME_REFERENCE = 0.02  # rad; a residual made for a reference further away than this is for another motion


class Mailbox:
    """Holds the newest offers and the references that they were made for; gives the one for the state before.

    The model answers a state while, or after, the controller does: a command never waits for it. So each state is answered
    with the offer made for the state before it, in whatever order the two processes or nodes run.
    """

    def __init__(self, arm: Arm) -> None:
        self._half_period = 0.5 * arm.period
        self.strangers = 0
        """Offers that were made for another reference than the arm is following."""
        self.reset()

    def reset(self) -> None:
        """Empty."""
        self._newest: tuple[Offer, FloatArray] | None = None
        self._before: tuple[Offer, FloatArray] | None = None

    def put(self, offer: Offer, desired: FloatArray) -> None:
        """A new offer, made for these wanted positions, shape (dof,) [rad]; one that comes again changes nothing."""
        if self._newest is not None and self._newest[0].stamp == offer.stamp:
            return
        self._before, self._newest = self._newest, (offer, desired)

    def offer(self, sample: Sample, classical: FloatArray, now: float) -> Offer | None:  # noqa: ARG002
        """The newest offer that was not made for this very state; None where there is none.

        Its age is for the safety filter to judge. Meanwhile the reference has moved on by speed times age; an offer for
        another one comes without confidence.
        """
        found = self._newest
        if found is not None and abs(now - found[0].stamp) < self._half_period:
            found = self._before
        if found is None:
            return None
        offer, desired = found
        wanted, age = sample.desired, abs(now - offer.stamp)
        # Plain numbers: for the few joints of an arm that is faster than numpy.
        for made_for, asked, speed in zip(desired.tolist(), wanted.q.tolist(), wanted.qd.tolist(), strict=True):
            if not abs(made_for - asked) <= SAME_REFERENCE + abs(speed) * age:
                self.strangers += 1
                return replace(offer, confidence=0.0)
        return offer
