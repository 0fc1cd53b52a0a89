"""The runtime: joints by name, confidence, recurrent state, deadlines, and the refusals that need inference."""

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from bundle_maker import MEMORY, edit_manifest, edit_model, make_bundle, sample_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import numpy_helper

from trimtab.arm import Arm
from trimtab.control import Desired
from trimtab.control.base import Sample
from trimtab.errors import BundleRefused
from trimtab.residual.bundle import load_bundle
from trimtab.residual.manifest import Manifest
from trimtab.residual.offer import Offer, ResidualSource
from trimtab.residual.parts import QUANTITIES
from trimtab.residual.runtime import ResidualModel, fall

quiet = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
shares = st.floats(0.0, 1.0)


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., ResidualModel]:
    """`load(arm, ...)`: the runtime of a made bundle."""

    def make(
        arm: Arm, deadline: float | None = None, clock: Callable[[], float] | None = None, **how: object
    ) -> ResidualModel:
        bundle = load_bundle(make_bundle(tmp_path_factory.mktemp("models"), arm, **how), arm)  # type: ignore[arg-type]
        return ResidualModel(bundle, arm, deadline) if clock is None else ResidualModel(bundle, arm, deadline, clock)

    return make


@pytest.fixture(scope="module")
def model(load: Callable[..., ResidualModel], ur5e: Arm) -> ResidualModel:
    return load(ur5e)


@pytest.fixture(scope="module")
def recurrent(load: Callable[..., ResidualModel], ur5e: Arm) -> ResidualModel:
    return load(ur5e, recurrent=True)


def at_home(arm: Arm) -> Sample:
    return sample_of(arm, arm.home, 0.1 * arm.velocity, np.zeros(arm.dof), error=0.01)


def offered(source: ResidualSource, sample: Sample, now: float = 0.0, classical: np.ndarray | None = None) -> Offer:
    offer = source.offer(sample, np.zeros_like(sample.q) if classical is None else classical, now)
    assert offer is not None
    return offer


def plain(model: ResidualModel, manifest: Manifest, arm: Arm, values: dict[str, np.ndarray]) -> np.ndarray:
    """The same answer by the manifest's words alone: match joints by name, normalise, run, match back."""
    order = [arm.joints.index(joint) for joint in manifest.joints]
    x = np.concatenate([(values[one.quantity][order] - one.mean) / one.scale for one in manifest.inputs])
    session = onnxruntime.InferenceSession(model.bundle.model, providers=["CPUExecutionProvider"])
    (residual,) = session.run([manifest.residual], {"x": x[None].astype(np.float32)})
    back = [manifest.joints.index(joint) for joint in arm.joints]
    answer: np.ndarray = residual[0][back].astype(np.float64)
    return answer


@pytest.mark.parametrize("quantities", [("q_des", "qd_des", "qdd_des"), QUANTITIES, ("error", "baseline"), ("qd", "q")])
def test_does_what_the_manifest_says(
    load: Callable[..., ResidualModel], arm: Arm, quantities: tuple[str, ...], random_states: Callable
) -> None:
    model = load(arm, joints=arm.joints[::-1], quantities=quantities)
    for q, qd, qdd in random_states(arm, 20):
        error, baseline = 0.01 * qd, 0.3 * arm.torque
        values = {"q_des": q, "qd_des": qd, "qdd_des": qdd, "q": q - error, "qd": 0.5 * qd, "error": error}
        sample = Sample(values["q"], values["qd"], Desired(q, qd, qdd), arm.period)
        offer = offered(model, sample, 3.0, baseline)
        wanted = plain(model, model.bundle.manifest, arm, values | {"baseline": baseline})
        np.testing.assert_allclose(offer.torque, wanted, rtol=1e-4, atol=1e-5 * arm.torque.max())
        assert offer.torque.dtype == np.float64
        assert offer.stamp == 3.0


@given(st.data())
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
def test_permuted_joints_give_the_same_torque(
    load: Callable[..., ResidualModel], model: ResidualModel, ur5e: Arm, data: st.DataObject
) -> None:
    joints = data.draw(st.permutations(ur5e.joints))
    where = np.array(data.draw(st.lists(shares, min_size=ur5e.dof, max_size=ur5e.dof)))
    q = ur5e.lower + where * (ur5e.upper - ur5e.lower)
    sample = sample_of(ur5e, q, (where - 0.5) * ur5e.velocity, where)
    one, two = offered(model, sample), offered(load(ur5e, joints=joints), sample)
    np.testing.assert_allclose(two.torque, one.torque, rtol=1e-4, atol=1e-4)
    assert two.confidence == pytest.approx(one.confidence, abs=1e-4)


def test_an_offer_is_the_callers_own(model: ResidualModel, ur5e: Arm) -> None:
    first = offered(model, at_home(ur5e))
    kept = first.torque.copy()
    offered(model, sample_of(ur5e, ur5e.home + 0.3, ur5e.velocity, ur5e.velocity), 0.002)
    np.testing.assert_array_equal(first.torque, kept)


def test_the_same_stream_gives_the_same_bits(recurrent: ResidualModel, ur5e: Arm) -> None:
    def stream() -> list[bytes]:
        recurrent.reset()
        samples = [sample_of(ur5e, ur5e.home + 0.001 * i, ur5e.velocity * 0.1, ur5e.velocity * 0) for i in range(50)]
        return [offered(recurrent, one, i * ur5e.period).torque.tobytes() for i, one in enumerate(samples)]

    assert stream() == stream()


# Confidence


@quiet
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=18, max_size=18))
def test_whatever_the_input_confidence_is_a_share(model: ResidualModel, ur5e: Arm, values: list[float]) -> None:
    q, qd, qdd = np.array(values).reshape(3, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numpy, where this test itself subtracts infinities
        sample = sample_of(ur5e, q, qd, qdd)
    offer = model.offer(sample, np.zeros(6), 0.0)
    if not np.isfinite(values).all():
        assert offer is None
    elif offer is not None:
        assert 0.0 <= offer.confidence <= 1.0
        assert np.isfinite(offer.torque).all()  # this model saturates
    else:
        assert np.abs(values).max() > 1e30  # finite, but not in the model's float32


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("quantity", QUANTITIES)
def test_an_input_that_is_not_finite_gives_nothing(
    load: Callable[..., ResidualModel], ur5e: Arm, quantity: str, bad: float
) -> None:
    model = load(ur5e, quantities=QUANTITIES)
    good = at_home(ur5e)
    for joint in range(ur5e.dof):
        arrays = {"q": good.q.copy(), "qd": good.qd.copy(), "baseline": np.zeros(6)}
        arrays |= {"q_des": good.desired.q.copy(), "qd_des": good.desired.qd.copy(), "qdd_des": good.desired.qdd.copy()}
        arrays["q" if quantity == "error" else quantity][joint] = bad
        desired = Desired(arrays["q_des"], arrays["qd_des"], arrays["qdd_des"])
        assert model.offer(Sample(arrays["q"], arrays["qd"], desired, 0.002), arrays["baseline"], 0.0) is None
    assert offered(model, good).confidence == 1.0


def outside(arm: Arm, joint: int, by: float) -> Sample:
    """A reference whose velocity lies `by` training ranges above the highest of training, in one joint."""
    qd = 0.5 * arm.velocity
    qd[joint] = arm.velocity[joint] * (1.0 + 2.0 * by)
    return sample_of(arm, arm.home, qd, np.zeros(arm.dof))


@quiet
@given(st.integers(0, 5), st.floats(0.0, 2.0), st.floats(0.0, 2.0))
def test_confidence_falls_outside_the_training_range(
    model: ResidualModel, ur5e: Arm, joint: int, one: float, two: float
) -> None:
    near, far = sorted((one, two))
    first = offered(model, outside(ur5e, joint, near)).confidence
    second = offered(model, outside(ur5e, joint, far)).confidence
    assert second <= first + 1e-6
    if far >= 0.251:  # the margin of the made bundle, and a bit for float32
        assert second == 0.0
    if near <= 0.0:
        assert first > 0.999


@quiet
@given(st.lists(shares, min_size=18, max_size=18))
def test_confidence_is_full_inside_the_training_range(model: ResidualModel, ur5e: Arm, values: list[float]) -> None:
    where = 0.001 + 0.998 * np.array(values).reshape(3, 6)
    inputs = model.bundle.manifest.inputs
    q, qd, qdd = (one.low + part * (np.array(one.high) - one.low) for one, part in zip(inputs, where, strict=True))
    assert offered(model, sample_of(ur5e, q, qd, qdd)).confidence == 1.0


def test_confidence_is_smooth_at_both_ends(model: ResidualModel, ur5e: Arm) -> None:
    values = [offered(model, outside(ur5e, 0, 0.25 * share)).confidence for share in (0.01, 0.5, 0.99)]
    assert values[0] > 0.999
    assert values[1] == pytest.approx(0.5, abs=1e-3)
    assert values[2] < 0.001


def test_the_worst_input_decides(model: ResidualModel, ur5e: Arm) -> None:
    one = offered(model, outside(ur5e, 0, 0.1)).confidence
    two = replace(outside(ur5e, 0, 0.1), desired=replace(outside(ur5e, 0, 0.1).desired, q=ur5e.upper * 1.3))
    assert offered(model, two).confidence < one


def test_the_models_own_distance_counts_too(load: Callable[..., ResidualModel], ur5e: Arm) -> None:
    model = load(ur5e, distance=True)  # distance = |x|, trusted up to 5, unknown from 8; in range |x| is up to 8.5
    manifest = model.bundle.manifest

    def confidence(length: float) -> float:
        x = np.full(18, length / math.sqrt(18.0)).reshape(3, 6)
        q, qd, qdd = (one.mean + part * one.scale for one, part in zip(manifest.inputs, x, strict=True))
        return offered(model, sample_of(ur5e, q, qd, qdd)).confidence

    assert confidence(4.9) == 1.0
    assert confidence(6.5) == pytest.approx(0.5, abs=1e-4)
    assert confidence(8.01) == 0.0


@given(st.floats(), st.floats())
def test_the_fall_is_monotone_and_bounded(one: float, two: float) -> None:
    assert 0.0 <= fall(one) <= 1.0
    if one <= two:
        assert fall(one) >= fall(two)


# Recurrent state


def test_state_is_carried_from_step_to_step(recurrent: ResidualModel, ur5e: Arm) -> None:
    recurrent.reset()
    sample = at_home(ur5e)
    values = [offered(recurrent, sample, i * ur5e.period).torque[0] for i in range(4)]
    steps = np.diff(values)
    assert abs(steps[0]) > 1e-3
    np.testing.assert_allclose(steps[1:] / steps[:-1], MEMORY, rtol=1e-3)


@pytest.mark.parametrize(
    ("second", "fresh"), [(1.0, False), (2.0, False), (5.4, False), (5.6, True), (100.0, True), (0.0, True), (-1.0, True)]
)
def test_a_gap_in_the_stream_resets(recurrent: ResidualModel, ur5e: Arm, second: float, fresh: bool) -> None:
    recurrent.reset()
    sample = at_home(ur5e)
    first = offered(recurrent, sample, 10.0).torque
    then = offered(recurrent, sample, 10.0 + second * ur5e.period).torque
    assert np.array_equal(first, then) == fresh


def test_reset_forgets(recurrent: ResidualModel, ur5e: Arm) -> None:
    recurrent.reset()
    sample = at_home(ur5e)
    for odd in range(1, 4):  # whichever of the two buffers is in turn
        first = offered(recurrent, sample, 0.0).torque
        for i in range(1, odd + 1):
            offered(recurrent, sample, i * ur5e.period)
        recurrent.reset()
        np.testing.assert_array_equal(offered(recurrent, sample, (odd + 1) * ur5e.period).torque, first)
        recurrent.reset()


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e300])
def test_a_bad_input_does_not_stay_in_the_state(recurrent: ResidualModel, ur5e: Arm, bad: float) -> None:
    recurrent.reset()
    sample = at_home(ur5e)
    first = offered(recurrent, sample, 0.0).torque
    poison = replace(sample, desired=replace(sample.desired, q=np.full(6, bad)))
    assert recurrent.offer(poison, np.zeros(6), ur5e.period) is None
    np.testing.assert_array_equal(offered(recurrent, sample, 2 * ur5e.period).torque, first)


@pytest.mark.parametrize("now", [math.nan, math.inf, -math.inf])
def test_a_stamp_that_is_no_time_gives_nothing_and_resets(recurrent: ResidualModel, ur5e: Arm, now: float) -> None:
    recurrent.reset()
    sample = at_home(ur5e)
    first = offered(recurrent, sample, 0.0).torque
    assert recurrent.offer(sample, np.zeros(6), now) is None
    np.testing.assert_array_equal(offered(recurrent, sample, ur5e.period).torque, first)


# Deadline


def ticking(*steps: float) -> Callable[[], float]:
    """A clock that goes on by each of the steps in turn, the last for ever."""

    def times() -> Iterator[float]:
        now = 0.0
        for i in count():
            yield now
            now += steps[min(i, len(steps) - 1)]

    clock = times()
    return lambda: next(clock)


def test_a_late_step_gives_nothing_and_is_counted(load: Callable[..., ResidualModel], ur5e: Arm) -> None:
    step = [1e-4]
    time = [0.0]

    def clock() -> float:
        time[0] += step[0]
        return time[0]

    model = load(ur5e, deadline=1e-3, clock=clock)
    sample = at_home(ur5e)
    assert model.offer(sample, np.zeros(6), 0.0) is not None
    step[0] = 2e-3
    assert model.offer(sample, np.zeros(6), 0.002) is None
    assert model.late == 1
    step[0] = 1e-4
    assert model.offer(sample, np.zeros(6), 0.004) is not None
    assert model.late == 1


def test_without_a_deadline_no_clock_is_read(load: Callable[..., ResidualModel], ur5e: Arm) -> None:
    reads = [0]

    def clock() -> float:
        reads[0] += 1
        return 0.0

    model = load(ur5e, clock=clock)
    before = reads[0]
    assert before >= 100  # the check of speed at construction
    offered(model, at_home(ur5e))
    assert reads[0] == before


# Refusals that need inference


def refused(folder: Path, arm: Arm, text: str, clock: Callable[[], float] | None = None) -> None:
    bundle = load_bundle(folder, arm)
    with pytest.raises(BundleRefused, match=text):
        ResidualModel(bundle, arm, clock=clock or ticking(1e-6))


def set_weight(name: str, to: float) -> Callable[[onnx.ModelProto], None]:
    def change(model: onnx.ModelProto) -> None:
        for tensor in model.graph.initializer:
            if tensor.name == name:
                shape = tuple(tensor.dims)
                tensor.CopyFrom(numpy_helper.from_array(np.full(shape, to, np.float32), name))

    return change


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_an_answer_that_is_not_finite_is_refused(tmp_path: Path, ur5e: Arm, value: float) -> None:
    folder = make_bundle(tmp_path, ur5e)
    edit_model(folder, set_weight("bounds", value))
    refused(folder, ur5e, r"gives (nan|inf|-inf) Nm for joint 'shoulder_pan_joint' on probe 0; train or export it again")


def test_an_answer_beyond_the_bounds_is_refused(tmp_path: Path, ur5e: Arm) -> None:
    folder = make_bundle(tmp_path, ur5e)
    edit_model(folder, set_weight("bounds", 1e4))
    refused(folder, ur5e, r"gives .* Nm for joint '.*' on probe 0, beyond its bound of .*; limit the model's output")


def test_another_answer_than_the_stored_one_is_refused(tmp_path: Path, ur5e: Arm) -> None:
    folder = make_bundle(tmp_path, ur5e)

    def change(document: dict) -> None:
        document["probes"][2]["residual"][1] += 0.05

    edit_manifest(folder, change)
    refused(
        folder, ur5e, r"joint 'shoulder_lift_joint' on probe 2, the manifest says .*; the manifest was written for another"
    )


def test_normalisation_is_part_of_what_the_probes_hold(tmp_path: Path, ur5e: Arm) -> None:
    folder = make_bundle(tmp_path, ur5e)
    edit_manifest(folder, lambda document: document["inputs"][0]["mean"].reverse())
    edit_manifest(folder, lambda document: document["inputs"][0]["scale"].__setitem__(0, 0.5))
    refused(folder, ur5e, "the manifest was written for another model")


def test_a_model_slower_than_the_period_is_refused(tmp_path: Path, ur5e: Arm) -> None:
    folder = make_bundle(tmp_path, ur5e)
    refused(folder, ur5e, r"one inference takes 2\.10 ms, the arm's period is 2 ms; use a smaller model", ticking(2.1e-3))
    ResidualModel(load_bundle(folder, ur5e), ur5e, clock=ticking(1.9e-3))


def test_a_single_slow_inference_is_forgiven(tmp_path: Path, ur5e: Arm) -> None:
    folder = make_bundle(tmp_path, ur5e)
    ResidualModel(load_bundle(folder, ur5e), ur5e, clock=ticking(5.0, 1e-5))


def test_a_recurrent_state_that_is_not_finite_does_not_stay(recurrent: ResidualModel, ur5e: Arm) -> None:
    sample = at_home(ur5e)
    recurrent.reset()
    good = offered(recurrent, sample, 10.0).torque
    for state in recurrent._network._states:
        state[...] = np.nan
    assert not np.isfinite(offered(recurrent, sample, 10.0 + ur5e.period).torque).all(), "the safety filter must see it"
    np.testing.assert_array_equal(offered(recurrent, sample, 10.0 + 2 * ur5e.period).torque, good)
