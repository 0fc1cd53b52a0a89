"""Learned residuals: model bundles, their checks and signatures, and the runtime that turns them into torque."""

from trimtab.residual.offer import Offer, ResidualSource

__all__ = ["Offer", "ResidualSource"]
