"""A residual from another node: the one for the state before counts, for the reference that it was made for."""

import numpy as np
import pytest

from trimtab.arm import Arm
from trimtab.control.base import Desired, Sample
from trimtab.residual.mailbox import SAME_REFERENCE, Mailbox
from trimtab.residual.offer import Offer


def sample_at(arm: Arm, q, qd=0.0) -> Sample:
    zeros = np.zeros(arm.dof)
    return Sample(np.array(arm.home), zeros, Desired(np.asarray(q), zeros + qd, zeros), arm.period)


def test_empty_until_something_comes_and_after_a_reset(ur5e: Arm) -> None:
    mailbox = Mailbox(ur5e)
    sample = sample_at(ur5e, ur5e.home)
    assert mailbox.offer(sample, np.zeros(6), 1.0) is None
    offer = Offer(np.ones(6), 0.9, 1.0)
    mailbox.put(offer, np.array(ur5e.home))
    assert mailbox.offer(sample, np.zeros(6), 1.002) is offer
    mailbox.reset()
    assert mailbox.offer(sample, np.zeros(6), 1.002) is None


def test_a_state_is_answered_with_the_offer_for_the_one_before_whichever_came_first(ur5e: Arm) -> None:
    mailbox, sample = Mailbox(ur5e), sample_at(ur5e, ur5e.home)
    first, second = (Offer(np.ones(6), 1.0, stamp) for stamp in (1.0, 1.002))
    mailbox.put(first, np.array(ur5e.home))
    assert mailbox.offer(sample, np.zeros(6), 1.0) is None  # it was made for this very state
    assert mailbox.offer(sample, np.zeros(6), 1.002) is first
    for _ in range(2):  # one that comes again changes nothing
        mailbox.put(second, np.array(ur5e.home))
        assert mailbox.offer(sample, np.zeros(6), 1.002) is first
    assert mailbox.offer(sample, np.zeros(6), 1.004) is second
    assert mailbox.offer(sample, np.zeros(6), 1.006) is second  # how old it may be is for others to judge


@pytest.mark.parametrize("away", [2.0 * SAME_REFERENCE, -1.0, np.nan, np.inf])
def test_made_for_another_reference_it_counts_for_nothing_but_is_no_silence(ur5e: Arm, away: float) -> None:
    mailbox = Mailbox(ur5e)
    desired = np.array(ur5e.home)
    desired[3] += away
    mailbox.put(Offer(np.ones(6), 1.0, 1.0), desired)
    offer = mailbox.offer(sample_at(ur5e, ur5e.home), np.zeros(6), 1.002)
    assert offer is not None
    assert offer.confidence == 0.0
    assert mailbox.strangers == 1


def test_the_reference_may_have_moved_on_meanwhile(ur5e: Arm) -> None:
    mailbox = Mailbox(ur5e)
    mailbox.put(Offer(np.ones(6), 1.0, 1.0), np.array(ur5e.home))
    moved = ur5e.home + SAME_REFERENCE + 0.01
    assert mailbox.offer(sample_at(ur5e, moved, qd=3.0), np.zeros(6), 1.004).confidence == 1.0
    assert mailbox.offer(sample_at(ur5e, moved, qd=0.1), np.zeros(6), 1.004).confidence == 0.0
