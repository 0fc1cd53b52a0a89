"""A residual from another process: the newest one counts, for the reference that it was made for."""

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
    mailbox.put(Offer(np.ones(6), 0.9, 1.0), np.array(ur5e.home))
    assert mailbox.offer(sample, np.zeros(6), 1.0) == Offer(mailbox._offer.torque, 0.9, 1.0)
    mailbox.reset()
    assert mailbox.offer(sample, np.zeros(6), 1.0) is None


@pytest.mark.parametrize("away", [2.0 * SAME_REFERENCE, -1.0, np.nan, np.inf])
def test_made_for_another_reference_it_counts_for_nothing_but_is_no_silence(ur5e: Arm, away: float) -> None:
    mailbox = Mailbox(ur5e)
    desired = np.array(ur5e.home)
    desired[3] += away
    mailbox.put(Offer(np.ones(6), 1.0, 1.0), desired)
    offer = mailbox.offer(sample_at(ur5e, ur5e.home), np.zeros(6), 1.0)
    assert offer is not None
    assert offer.confidence == 0.0
    assert mailbox.strangers == 1


def test_the_reference_may_have_moved_on_meanwhile(ur5e: Arm) -> None:
    mailbox = Mailbox(ur5e)
    mailbox.put(Offer(np.ones(6), 1.0, 1.0), np.array(ur5e.home))
    moved = ur5e.home + SAME_REFERENCE + 0.01
    assert mailbox.offer(sample_at(ur5e, moved, qd=3.0), np.zeros(6), 1.004).confidence == 1.0
    assert mailbox.offer(sample_at(ur5e, moved, qd=0.1), np.zeros(6), 1.004).confidence == 0.0
