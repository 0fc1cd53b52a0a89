"""Control laws and compensators: what they promise, on plants that show it."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.arm import Arm
from trimtab.control import ControllerStack, Damp, Desired, Hold, make_controller
from trimtab.control.adaptive import PAYLOAD_BOUND, PAYLOAD_REACH, SlotineLi
from trimtab.control.base import Sample
from trimtab.control.compensators import FrictionFeedForward, IntegralAction, MomentumObserver
from trimtab.control.friction import FrictionModel
from trimtab.control.laws import ComputedTorque, PdGravity
from trimtab.dynamics import RigidBody
from trimtab.errors import ConfigError
from trimtab.names import CONTROLLERS, needs_friction, parse_controller
from trimtab.plant import Plant, PlantGap, load_gap
from trimtab.reference import make_reference
from trimtab.typing import FloatArray

Gap = Callable[..., PlantGap]
States = Callable[[Arm, int], list[tuple[FloatArray, FloatArray, FloatArray]]]


def posture(q: FloatArray) -> Desired:
    return Desired(np.array(q), np.zeros(len(q)), np.zeros(len(q)))


def sample(arm: Arm, q: FloatArray, qd: FloatArray | None = None, desired: Desired | None = None) -> Sample:
    return Sample(np.array(q), np.zeros(arm.dof) if qd is None else qd, desired or posture(q), arm.period)


def offset_only(arm: Arm, offset: FloatArray) -> FrictionModel:
    """A friction model that is nothing but a constant torque."""
    zero = np.zeros(arm.dof)
    return FrictionModel(arm.joints, zero, zero, np.ones(arm.dof), zero, offset)


def some_friction(arm: Arm) -> FrictionModel:
    share = 0.02 * arm.torque
    return FrictionModel(arm.joints, share, share / arm.velocity, 0.02 * arm.velocity, 0.1 * arm.armature, 0.1 * share)


# --- texts --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("pd", ("pd", ())),
        ("computed_torque", ("computed_torque", ())),
        ("friction", ("computed_torque", ("friction",))),
        ("observer+friction", ("computed_torque", ("friction", "observer"))),
        ("friction+adaptive+observer", ("adaptive", ("friction", "observer"))),
        (" integral + pd ", ("pd", ("integral",))),
    ],
)
def test_a_text_gives_a_law_and_compensators(text: str, parsed: tuple[str, tuple[str, ...]]) -> None:
    assert parse_controller(text) == parsed
    assert needs_friction(text) is ("friction" in parsed[1])


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("", "unknown controller ''"),
        ("magic", f"unknown controller 'magic'; known: {', '.join(CONTROLLERS)}"),
        ("PD", "unknown controller 'PD'"),
        ("pd,observer", "unknown controller 'pd,observer'"),
        ("pd+", "unknown controller ''"),
        ("observer+observer", "names 'observer' twice"),
        ("pd+pd", "names 'pd' twice"),
        ("pd+adaptive", r"has two laws \(pd, adaptive\)"),
    ],
)
def test_a_text_that_makes_no_sense_is_refused(text: str, refusal: str) -> None:
    with pytest.raises(ConfigError, match=refusal):
        parse_controller(text)


@given(st.text(max_size=20, alphabet="pd+friconbseva _"))
def test_no_text_whatever_gives_another_error(text: str) -> None:
    try:
        law, compensators = parse_controller(text)
    except ConfigError:
        return
    assert {law, *compensators} <= set(CONTROLLERS)


def test_friction_needs_its_model(so101: Arm) -> None:
    with pytest.raises(ConfigError, match=r"'pd\+friction' needs an identified friction model; make one with"):
        make_controller("pd+friction", so101, RigidBody(so101))
    stack = make_controller("pd+friction", so101, RigidBody(so101), some_friction(so101))
    assert isinstance(stack.law, PdGravity)
    assert [type(part) for part in stack.compensators] == [FrictionFeedForward]


# --- gravity ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("owner", ["robot", "stack"])
def test_gravity_is_added_only_where_the_stack_owns_it(
    owner: str, arm: Arm, body: RigidBody, random_states: States, owned_by: Callable[[Arm, str], Arm]
) -> None:
    changed = owned_by(arm, owner)
    model = RigidBody(changed)
    for q, _, _ in random_states(arm, 5):
        gravity = body.gravity(q).copy() if owner == "stack" else np.zeros(arm.dof)
        at_rest = np.zeros(arm.dof)
        for text in ("pd", "computed_torque", "adaptive", "observer", "integral"):
            torque = make_controller(text, changed, model).torque(sample(arm, q))
            np.testing.assert_allclose(torque, gravity, atol=1e-9, err_msg=text)
        for behaviour in (Hold(changed, model), Damp(changed, model)):
            inside = np.clip(q, arm.lower, arm.upper)
            np.testing.assert_allclose(behaviour.torque(inside, at_rest), gravity, atol=1e-9)


# --- laws ---------------------------------------------------------------------------------------------------------------


def test_pd_is_stiffness_and_damping(arm: Arm, body: RigidBody, random_states: States) -> None:
    law = PdGravity(arm, body)
    for q, qd, qdd in random_states(arm, 10):
        wanted = Desired(q + 0.1, 0.5 * qd, qdd)
        gravity = body.owned_gravity(q).copy()
        torque = law.torque(sample(arm, q, qd, wanted))
        np.testing.assert_allclose(torque - gravity, 0.1 * arm.kp - 0.5 * arm.kd * qd, atol=1e-9)


def test_pd_holds_and_comes_back(arm: Arm, body: RigidBody, gap_of: Gap, closed_loop: Callable) -> None:
    plant = Plant(arm, gap_of(arm))
    controller = make_controller("pd", arm, body)
    held = closed_loop(plant, controller, posture(arm.home), 1.0)
    assert np.abs(held.error).max() < 1e-9
    plant.reset(arm.home + 0.05)
    back = closed_loop(plant, controller, posture(arm.home), 3.0)
    assert np.abs(back.error[-1]).max() < 1e-4
    assert np.abs(back.error).max() < 0.06, "no wild overshoot"


def test_under_computed_torque_the_error_decays_as_designed(
    arm: Arm, body: RigidBody, gap_of: Gap, closed_loop: Callable
) -> None:
    """e = e0 (1 + w t) exp(-w t), joint by joint and independent of the others, at rest and in motion.

    At 4 kHz, so that sampling does not blur it.
    """
    quick = replace(arm, rate=4000.0)
    reference = make_reference("sweep", body, 10.0)
    start = 0.02 * np.where(np.arange(arm.dof) % 2, 1.0, -0.5)
    for desired in (posture(arm.home), lambda t: reference.at(t + 3.0)):
        plant = Plant(quick, gap_of(arm))
        first = desired(0.0) if callable(desired) else desired
        plant.reset(first.q - start)
        plant.data.qvel[:] = first.qd
        trace = closed_loop(plant, make_controller("computed_torque", quick, body), desired, 0.4)
        assert not (np.abs(trace.torque) == arm.torque).any(), "the test must not run into limits"
        phase = np.outer(trace.t, arm.bandwidth)
        designed = start * (1.0 + phase) * np.exp(-phase)
        assert np.abs(trace.error - designed).max() < 0.02 * np.abs(start).max()


@pytest.mark.parametrize("damping", [0.5, 2.0])
def test_computed_torque_takes_its_damping_from_the_contract(
    damping: float, so101: Arm, gap_of: Gap, closed_loop: Callable
) -> None:
    arm = replace(so101, rate=4000.0, computed_torque=replace(so101.computed_torque, damping=damping))
    plant = Plant(arm, gap_of(arm))
    plant.reset(arm.home - 0.02)
    trace = closed_loop(plant, make_controller("computed_torque", arm, RigidBody(arm)), posture(arm.home), 0.4)
    roots = arm.bandwidth[0] * (-damping + np.array([1, -1]) * np.sqrt(complex(damping**2 - 1.0)))
    designed = (
        0.02 * ((roots[1] * np.exp(roots[0] * trace.t) - roots[0] * np.exp(roots[1] * trace.t)) / (roots[1] - roots[0])).real
    )
    assert np.abs(trace.error - designed[:, None]).max() < 0.02 * 0.02


def test_slotine_li_before_it_has_learnt_anything(arm: Arm, body: RigidBody, random_states: States) -> None:
    """With dt = 0 nothing is adapted: M (qr'' + w s) + C(q, qd) qr' + owned gravity."""
    for q, qd, qdd in random_states(arm, 10):
        wanted = Desired(q + 0.05, 0.7 * qd, qdd)
        torque = SlotineLi(arm, body).torque(Sample(q, qd, wanted, 0.0))
        reference_speed = 0.7 * qd + arm.bandwidth * 0.05
        s = reference_speed - qd
        acceleration = qdd + arm.bandwidth * (0.7 * qd - qd) + arm.bandwidth * s
        rigid = body.mass_matrix(q) @ acceleration + body.coriolis_matrix(q, qd) @ reference_speed
        np.testing.assert_allclose(torque, rigid + body.owned_gravity(q), atol=1e-8)


# --- integral -----------------------------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(1e-4, 0.1)), min_size=1, max_size=30))
def test_the_integral_stays_within_its_bound(so101: Arm, errors: list[tuple[float, float]]) -> None:
    integral = IntegralAction(so101)
    limit = so101.integral.limit * so101.torque
    for error, dt in errors:
        torque = integral.torque(Sample(np.zeros(so101.dof), np.zeros(so101.dof), posture(np.full(so101.dof, error)), dt))
        assert (np.abs(torque) <= limit).all()


def test_the_integral_grows_with_error_and_time_and_unwinds_at_once(arm: Arm) -> None:
    integral = IntegralAction(arm)
    ahead, behind = posture(np.full(arm.dof, 0.01)), posture(np.full(arm.dof, -0.01))
    zero = np.zeros(arm.dof)
    for _ in range(3):
        torque = integral.torque(Sample(zero, zero, ahead, 0.01))
    np.testing.assert_allclose(torque, arm.kp * arm.integral.rate * 0.01 * 0.03, rtol=1e-9)
    for _ in range(100_000):
        full = integral.torque(Sample(zero, zero, ahead, 0.1))
        if (full == arm.integral.limit * arm.torque).all():
            break
    assert (integral.torque(Sample(zero, zero, behind, 0.01)) < full).all()
    integral.reset()
    assert not integral.torque(Sample(zero, zero, posture(zero), 0.01)).any()


def test_the_integral_removes_a_constant_disturbance(arm: Arm, body: RigidBody, gap_of: Gap, closed_loop: Callable) -> None:
    push = 0.05 * arm.torque * np.where(np.arange(arm.dof) % 2, 1.0, -1.0)
    plain, integral = (
        closed_loop(Plant(arm, gap_of(arm)), make_controller(text, arm, body), posture(arm.home), 5.0, push)
        for text in ("pd", "pd+integral")
    )
    np.testing.assert_allclose(plain.error[-1], -push / arm.kp, rtol=0.1)
    assert np.abs(integral.error[-1]).max() < 0.02 * np.abs(plain.error[-1]).max()


# --- observer -----------------------------------------------------------------------------------------------------------


def observer_of(stack: ControllerStack) -> MomentumObserver:
    return next(part for part in stack.compensators if isinstance(part, MomentumObserver))


def test_the_observer_finds_a_constant_disturbance(arm: Arm, body: RigidBody, gap_of: Gap, closed_loop: Callable) -> None:
    push = 0.05 * arm.torque * np.where(np.arange(arm.dof) % 2, 1.0, -1.0)
    stack = make_controller("observer", arm, body)
    trace = closed_loop(Plant(arm, gap_of(arm)), stack, posture(arm.home), 1.5, push)
    np.testing.assert_allclose(observer_of(stack).estimate, push, atol=0.01 * np.abs(push).min())
    alone = closed_loop(Plant(arm, gap_of(arm)), make_controller("computed_torque", arm, body), posture(arm.home), 1.5, push)
    assert (np.abs(trace.error[-1]) < 0.02 * np.abs(alone.error[-1])).all()


def test_the_observer_finds_it_also_while_the_arm_moves(
    arm: Arm, body: RigidBody, gap_of: Gap, closed_loop: Callable
) -> None:
    push = 0.05 * arm.torque
    reference = make_reference("sweep", body, 6.0)
    stack = make_controller("observer", arm, body)
    closed_loop(Plant(arm, gap_of(arm)), stack, reference.at, 3.0, push)
    np.testing.assert_allclose(observer_of(stack).estimate, push, rtol=0.25)


def test_the_estimate_lags_by_the_observers_bandwidth(arm: Arm, body: RigidBody) -> None:
    """At rest under a torque that does not balance gravity: something else must be holding the arm."""
    observer = MomentumObserver(arm, body)
    here = Sample(np.array(arm.home), np.zeros(arm.dof), posture(arm.home), 1e-4)
    push = 0.1 * arm.torque
    observer.torque(here)
    steps = round(1.0 / arm.observer.bandwidth / 1e-4)
    for _ in range(steps):
        observer.applied(body.owned_gravity(arm.home) - push)
        correction = observer.torque(here)
    np.testing.assert_allclose(observer.estimate, (1.0 - np.exp(-1.0)) * push, rtol=0.01)
    np.testing.assert_allclose(correction, -observer.estimate)


def test_the_correction_is_bounded_and_does_not_wind_up(arm: Arm, body: RigidBody) -> None:
    """After a disturbance far above the bound, the estimate falls as fast as after any other."""
    observer = MomentumObserver(arm, body)
    here = sample(arm, arm.home)
    limit = arm.observer.limit * arm.torque
    balance = body.owned_gravity(arm.home).copy()
    observer.torque(here)
    for _ in range(round(2.0 * arm.rate)):
        observer.applied(balance - 3.0 * limit)
        assert (np.abs(observer.torque(here)) <= limit).all()
    np.testing.assert_allclose(observer.estimate, limit)
    for _ in range(round(6.0 / arm.observer.bandwidth * arm.rate)):
        observer.applied(balance)
        observer.torque(here)
    assert (np.abs(observer.estimate) < 0.1 * limit).all()


def test_friction_and_observer_do_not_compensate_twice(
    arm: Arm, body: RigidBody, gap_of: Gap, closed_loop: Callable
) -> None:
    """The plant lacks exactly the torque that the friction model adds: nothing is left for the observer to find."""
    lacking = 0.05 * arm.torque
    stack = make_controller("friction+observer", arm, body, offset_only(arm, lacking))
    trace = closed_loop(Plant(arm, gap_of(arm)), stack, posture(arm.home), 1.5, -lacking)
    assert np.abs(observer_of(stack).estimate).max() < 1e-3 * lacking.max()
    assert np.abs(trace.error).max() < 1e-6


def test_the_observer_finds_what_the_friction_model_leaves(
    arm: Arm, body: RigidBody, gap_of: Gap, closed_loop: Callable
) -> None:
    lacking = 0.06 * arm.torque
    stack = make_controller("friction+observer", arm, body, offset_only(arm, lacking / 3.0))
    trace = closed_loop(Plant(arm, gap_of(arm)), stack, posture(arm.home), 1.5, -lacking)
    np.testing.assert_allclose(observer_of(stack).estimate, -lacking * 2.0 / 3.0, rtol=0.02)
    assert np.abs(trace.error[-1]).max() < 1e-4


def test_friction_is_fed_forward_at_the_wanted_motion(arm: Arm) -> None:
    model = some_friction(arm)
    part = FrictionFeedForward(model)
    qd, qdd = 0.4 * arm.velocity, np.full(arm.dof, 2.0)
    noisy = Sample(arm.home + 0.1, -arm.velocity, Desired(np.array(arm.home), qd, qdd), arm.period)
    torque = part.torque(noisy)
    wanted = model.coulomb * np.tanh(qd / model.speed) + model.viscous * qd + model.inertia * qdd + model.offset
    np.testing.assert_allclose(torque, wanted)
    assert part.explained().tolist() == torque.tolist()


# --- adaptation ---------------------------------------------------------------------------------------------------------


def test_adaptation_learns_a_payload(arm: Arm, body: RigidBody, gap_of: Gap, closed_loop: Callable) -> None:
    """The error goes down over time, and what the law has learnt is the payload's torque."""
    gap = gap_of(arm, payload_mass=0.3 * arm.rated_payload)
    reference = make_reference("sweep", body, 12.0)
    law = make_controller("adaptive", arm, body)
    trace, fixed = (
        closed_loop(Plant(arm, gap), controller, reference.at, 12.0)
        for controller in (law, make_controller("computed_torque", arm, body))
    )
    third = len(trace.t) // 3
    early, late = (np.sqrt(np.mean(trace.error[part] ** 2)) for part in (slice(0, third), slice(2 * third, None)))
    assert late < 0.5 * early
    assert late < 0.5 * np.sqrt(np.mean(fixed.error[2 * third :] ** 2))
    loaded = Plant(arm, gap).data.qfrc_bias - body.gravity(arm.home)
    adaptive = law.law
    assert isinstance(adaptive, SlotineLi)
    adaptive.torque(Sample(np.array(arm.home), np.zeros(arm.dof), posture(arm.home), 0.0))
    heavy = np.abs(loaded) > 0.3 * np.abs(loaded).max()
    np.testing.assert_allclose(adaptive.explained()[heavy], loaded[heavy], rtol=0.4)


def test_adaptation_learns_friction(arm: Arm, body: RigidBody, closed_loop: Callable) -> None:
    gap = replace(load_gap("worn", arm), backlash=0.0, ripple=np.zeros(arm.dof), velocity_noise=0.0)
    reference = make_reference("sweep", body, 12.0)
    law = make_controller("adaptive", arm, body)
    trace, fixed = (
        closed_loop(Plant(arm, gap), controller, reference.at, 12.0)
        for controller in (law, make_controller("computed_torque", arm, body))
    )
    third = len(trace.t) // 3
    early, late = (np.sqrt(np.mean(trace.error[part] ** 2)) for part in (slice(0, third), slice(2 * third, None)))
    assert late < 0.85 * early
    assert late < 0.5 * np.sqrt(np.mean(fixed.error[2 * third :] ** 2))
    assert isinstance(law.law, SlotineLi)
    assert gap.friction is not None
    coulomb, viscous = law.law.parameters[10 : 10 + arm.dof], law.law.parameters[10 + arm.dof :]
    half = np.full(arm.dof, 0.25)  # at a quarter of the speed limit
    truth = gap.friction.coulomb + half * gap.friction.viscous * arm.velocity
    np.testing.assert_allclose(coulomb + half * viscous, truth, rtol=0.5)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 100.0), st.floats(1e-4, 0.1))
def test_estimates_stay_in_their_box(so101: Arm, seed: int, size: float, dt: float) -> None:
    random = np.random.default_rng(seed)
    law = SlotineLi(so101, RigidBody(so101))
    mass = so101.rated_payload
    payload = PAYLOAD_BOUND * mass * np.array([1.0, *[PAYLOAD_REACH] * 3, *[PAYLOAD_REACH**2] * 6])
    friction = np.tile(so101.adaptive.limit * so101.torque, 2)
    for _ in range(20):
        q, qd, wanted_q, wanted_qd, qdd = size * random.normal(size=(5, so101.dof))
        law.torque(Sample(q, qd, Desired(wanted_q, wanted_qd, qdd), dt))
        assert (np.abs(law.parameters[:10]) <= payload * (1.0 + 1e-12)).all()
        assert (law.parameters[10:] >= 0.0).all(), "friction never drives"
        assert (law.parameters[10:] <= friction * (1.0 + 1e-12)).all()
    law.reset()
    assert not law.parameters.any()
    assert not law.explained().any()


def test_the_payloads_weight_is_learnt_also_where_the_robot_owns_gravity(
    ur5e: Arm, gap_of: Gap, closed_loop: Callable
) -> None:
    body = RigidBody(ur5e)
    stack = make_controller("adaptive", ur5e, body)
    trace = closed_loop(Plant(ur5e, gap_of(ur5e, payload_mass=1.5)), stack, posture(ur5e.home), 8.0)
    assert np.abs(trace.error[-1]).max() < 0.1 * np.abs(trace.error).max()


# --- the stack ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["pd", "computed_torque", "pd+integral", "observer", "adaptive", "friction+integral+observer+adaptive"]
)
def test_reset_forgets_everything(text: str, arm: Arm, body: RigidBody, closed_loop: Callable) -> None:
    """The same run twice gives the same trace, bit for bit."""
    plant = Plant(arm, load_gap("field", arm))
    reference = make_reference("sweep", body, 3.0)
    stack = make_controller(text, arm, body, some_friction(arm))
    first = closed_loop(plant, stack, reference.at, 1.5)
    stack.reset()
    plant.reset(arm.home)
    again = closed_loop(plant, stack, reference.at, 1.5)
    assert again.torque.tolist() == first.torque.tolist()
    assert again.q.tolist() == first.q.tolist()


def test_without_a_reset_what_was_learnt_stays(arm: Arm, body: RigidBody, closed_loop: Callable) -> None:
    """Else the test above would show nothing."""
    reference = make_reference("sweep", body, 3.0)
    for text in ("integral", "observer", "adaptive"):
        plant = Plant(arm, load_gap("payload", arm))
        stack = make_controller(text, arm, body)
        first = closed_loop(plant, stack, reference.at, 1.0)
        plant.reset(arm.home)
        assert closed_loop(plant, stack, reference.at, 1.0).torque.tolist() != first.torque.tolist()


def test_the_stack_is_the_sum_of_its_parts(arm: Arm, body: RigidBody) -> None:
    model = some_friction(arm)
    stack = make_controller("pd+friction+integral", arm, body, model)
    here = Sample(arm.home + 0.02, 0.1 * arm.velocity, posture(arm.home), arm.period)
    parts = [PdGravity(arm, body), FrictionFeedForward(model), IntegralAction(arm)]
    np.testing.assert_allclose(stack.torque(here), sum(part.torque(here).copy() for part in parts))


def test_the_stack_does_not_hand_out_its_insides(arm: Arm, body: RigidBody) -> None:
    """A torque stays what it was while the arm's dynamics are computed again."""
    stack = ControllerStack(ComputedTorque(arm, body), [])
    torque = stack.torque(sample(arm, arm.home))
    before = torque.tolist()
    stack.torque(sample(arm, arm.home + 0.3))
    assert torque.tolist() == before


# --- behaviours ---------------------------------------------------------------------------------------------------------


def test_hold_pulls_back_to_where_it_caught_the_arm(arm: Arm, body: RigidBody) -> None:
    hold = Hold(arm, body)
    hold.torque(arm.home, np.zeros(arm.dof))
    away = arm.home + 0.05
    qd = 0.1 * arm.velocity
    gravity = body.owned_gravity(away).copy()
    np.testing.assert_allclose(hold.torque(away, qd) - gravity, -0.05 * arm.kp - arm.kd * qd, atol=1e-9)
    hold.release()
    np.testing.assert_allclose(hold.torque(away, np.zeros(arm.dof)), gravity, atol=1e-9)


def test_hold_does_not_yank_an_arm_that_was_caught_beyond_its_limits(arm: Arm, body: RigidBody) -> None:
    beyond = arm.upper + 0.05
    torque = Hold(arm, body).torque(beyond, np.zeros(arm.dof)) - body.owned_gravity(beyond)
    np.testing.assert_allclose(torque, 0.0, atol=1e-9)


def test_damp_brakes(arm: Arm, body: RigidBody, random_states: States) -> None:
    damp = Damp(arm, body)
    for q, qd, _ in random_states(arm, 10):
        gravity = body.owned_gravity(q).copy()
        np.testing.assert_allclose(damp.torque(q, qd) - gravity, -arm.kd * qd, atol=1e-9)
