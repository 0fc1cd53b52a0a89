"""A bundle at work: state, reference and classical torque in, a torque to add and its confidence out."""

import math
import statistics
from collections.abc import Callable
from time import perf_counter

import numpy as np

from trimtab.arm import Arm
from trimtab.control.base import Sample
from trimtab.errors import BundleRefused
from trimtab.joints import all_finite
from trimtab.residual.bundle import Bundle
from trimtab.residual.network import LOWEST, Network
from trimtab.residual.offer import Offer
from trimtab.residual.probing import check_probes, raw_order
from trimtab.typing import FloatArray

GAP = 5.5  # periods between two stamps beyond which the stream counts as broken; a lost state alone breaks nothing
WARM_UP = 20
TIMED = 51


class ResidualModel:
    """The runtime of one bundle for one arm.

    Construction warms up and refuses: wrong or unbounded answers to the probes, inference slower than a period.
    After that a step allocates nothing but the offer itself.
    """

    def __init__(
        self, bundle: Bundle, arm: Arm, deadline: float | None = None, clock: Callable[[], float] = perf_counter
    ) -> None:
        """deadline: longest step that still counts [s]; None: no clock is read, so that simulation stays deterministic."""
        manifest = bundle.manifest
        self.bundle = bundle
        self.late = 0
        """Steps that missed the deadline."""
        self.bounds: FloatArray = np.array([manifest.bounds[joint] for joint in arm.joints])
        """The largest residual that it may ask for, in the arm's joint order, shape (dof,) [Nm]."""
        self._deadline = deadline
        self._clock = clock
        self._longest_gap = GAP * arm.period
        self._last = -math.inf
        order = np.array([manifest.joints.index(joint) for joint in arm.joints])
        network = self._network = Network(bundle.graph, manifest, order, bundle.model_file)
        self._order = None if (order == np.arange(arm.dof)).all() else order
        quantities = [one.quantity for one in manifest.inputs]

        def place(quantity: str) -> FloatArray | None:
            """Where in the network's input a quantity goes."""
            if quantity not in quantities:
                return None
            start = quantities.index(quantity) * arm.dof
            view: FloatArray = network.raw[0, start : start + arm.dof]
            return view

        self._q_des, self._qd_des, self._qdd_des = place("q_des"), place("qd_des"), place("qdd_des")
        self._q, self._qd, self._error, self._baseline = place("q"), place("qd"), place("error"), place("baseline")
        self._sees_more = any(view is not None for view in (self._q, self._qd, self._error, self._baseline))
        self._trusted, self._unknown = manifest.confidence.trusted or 0.0, manifest.confidence.unknown or 1.0

        raw = raw_order(manifest, order)
        network.require_alarm(np.array(manifest.probes[0].x)[raw])
        check_probes(network, manifest, bundle.model_file, raw)
        self._require_speed(arm)
        self.reset()

    def reset(self) -> None:
        """Forgets the recurrent state and where in time the stream was."""
        self._network.reset()
        self._last = -math.inf

    def offer(self, sample: Sample, classical: FloatArray, now: float) -> Offer | None:
        """The residual for this sample; `now` is the state's stamp [s].

        None when an input is not finite or the deadline was missed.
        """
        deadline = self._deadline
        start = 0.0 if deadline is None else self._clock()
        network = self._network
        if not 0.0 < now - self._last <= self._longest_gap:
            network.reset()
            if not math.isfinite(now):
                self._last = -math.inf
                return None
        self._last = now
        desired = sample.desired
        if self._q_des is not None:
            self._q_des[...] = desired.q
        if self._qd_des is not None:
            self._qd_des[...] = desired.qd
        if self._qdd_des is not None:
            self._qdd_des[...] = desired.qdd
        if self._sees_more:
            if self._q is not None:
                self._q[...] = sample.q
            if self._qd is not None:
                self._qd[...] = sample.qd
            if self._error is not None:
                np.subtract(desired.q, sample.q, self._error)
            if self._baseline is not None:
                self._baseline[...] = classical
        network.run()
        excess = network.excess()
        if LOWEST < excess <= 0.0:
            confidence = 1.0
        elif LOWEST < excess < math.inf:
            confidence = fall(excess)
        else:
            self.reset()
            return None
        if network.distance is not None:
            confidence = min(confidence, fall((network.distance() - self._trusted) / (self._unknown - self._trusted)))
        torque = network.residual.astype(np.float64)
        if self._order is not None:
            torque = torque[self._order]
        if not all_finite(torque):
            network.reset()  # what is not finite would stay in the recurrent state for ever
        if deadline is not None and self._clock() - start > deadline:
            self.late += 1
            return None
        return Offer(torque, confidence, now)

    def _require_speed(self, arm: Arm) -> None:
        for _ in range(WARM_UP):
            self._network.run()
        times = []
        for _ in range(TIMED):
            start = self._clock()
            self._network.run()
            times.append(self._clock() - start)
        typical = statistics.median(times)
        if typical > arm.period:
            raise BundleRefused(
                f"{self.bundle.model_file}: one inference takes {1e3 * typical:.2f} ms, the arm's period is "
                f"{1e3 * arm.period:g} ms; use a smaller model or a faster machine"
            )


def fall(x: float) -> float:
    """1 up to x = 0, 0 from x = 1, smooth between (smoothstep); 0 for NaN."""
    if x <= 0.0:
        return 1.0
    if x < 1.0:
        return 1.0 - x * x * (3.0 - 2.0 * x)
    return 0.0
