"""The nodes in front of the model: made from the manifest, silent on no input that is not finite."""

from pathlib import Path

import numpy as np
import pytest
from bundle_maker import make_bundle

from trimtab.arm import Arm
from trimtab.errors import BundleRefused
from trimtab.residual.bundle import Bundle, load_bundle
from trimtab.residual.network import BAD, LOWEST, Network


@pytest.fixture
def bundle(tmp_path: Path, ur5e: Arm) -> Bundle:
    return load_bundle(make_bundle(tmp_path, ur5e), ur5e)


def network_of(bundle: Bundle, order: list[int] | None = None) -> Network:
    places = np.arange(bundle.manifest.dof) if order is None else np.array(order)
    return Network(bundle.graph, bundle.manifest, places, bundle.model_file)


def test_the_bundles_graph_is_left_alone(bundle: Bundle) -> None:
    before = bundle.graph.SerializeToString()
    network_of(bundle)
    assert bundle.graph.SerializeToString() == before


def test_excess_counts_in_margins_at_both_ends(bundle: Bundle) -> None:
    network = network_of(bundle)
    one = bundle.manifest.inputs[1]
    middle = np.concatenate([(np.array(each.low) + each.high) / 2.0 for each in bundle.manifest.inputs])
    network.ask(middle)
    assert network.excess() == pytest.approx(-0.5 / 0.25)
    for end, sign in ((one.high[2], 1.0), (one.low[2], -1.0)):
        for margins in (-0.5, 0.0, 0.5, 3.0):
            raw = middle.copy()
            raw[6 + 2] = end + sign * margins * 0.25 * (one.high[2] - one.low[2])
            network.ask(raw)
            assert network.excess() == pytest.approx(margins, abs=1e-5)


def test_an_alarm_that_does_not_ring_is_refused(bundle: Bundle) -> None:
    network = network_of(bundle)
    inside = np.array(bundle.manifest.probes[0].x)
    network.require_alarm(inside)
    network.excess = lambda *_: -0.5  # type: ignore[method-assign,assignment]
    with pytest.raises(BundleRefused, match=r"takes nan for -0\.5 on this machine; install the version that"):
        network.require_alarm(inside)


@pytest.mark.parametrize("bad", BAD)
def test_nothing_that_is_not_finite_looks_like_an_excess(bundle: Bundle, bad: float) -> None:
    network = network_of(bundle, [3, 1, 2, 0, 5, 4])
    random = np.random.default_rng(5)
    for i in range(18):
        raw = random.uniform(-1.0, 1.0, 18)
        raw[i] = bad
        network.ask(raw)
        assert not LOWEST < network.excess() < np.inf
