"""Pass, fail or inconclusive, with every reason: each criterion in each context, so that no mean hides a worse payload."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field

from trimtab.replay.policy import Policy, Thresholds
from trimtab.replay.prediction import JointSums
from trimtab.replay.tally import Tally
from trimtab.replay.task import BagResult
from trimtab.replay.variants import BASELINE, CANDIDATE

PASS, FAIL, INCONCLUSIVE = "pass", "fail", "inconclusive"
ALL = "all"
"""The context of all bags together."""


@dataclass(frozen=True)
class Check:
    """One criterion in one context."""

    criterion: str
    context: str
    outcome: str
    value: float | None
    """None where it could not be computed."""
    threshold: float
    reason: str
    joint: str = ""
    """The joint that decided, for criteria that look at each."""


@dataclass(frozen=True)
class Verdict:
    """What came out, and why."""

    outcome: str
    checks: list[Check]
    bags: int
    notes: list[str] = field(default_factory=list)

    @property
    def reasons(self) -> list[str]:
        """Of all that did not pass, the failures first."""
        order = {FAIL: 0, INCONCLUSIVE: 1}
        rest = sorted((one for one in self.checks if one.outcome != PASS), key=lambda one: order[one.outcome])
        return [f"{one.outcome}: {one.context}: {one.reason}" for one in rest]

    def as_dict(self) -> dict[str, object]:
        """Plain data for JSON."""
        return asdict(self) | {"reasons": self.reasons}


@dataclass
class Group:
    """Bags of one context and one arm, added up."""

    context: str
    bags: list[BagResult]
    sums: list[JointSums]
    candidate: Tally | None
    seconds: float

    @property
    def joints(self) -> list[str]:
        """Names of the arm's joints."""
        return self.bags[0].joints


def judge(results: Sequence[BagResult], policy: Policy) -> Verdict:
    """The verdict on the candidate of some replays."""
    notes = [f"{one.bag}: {one.error}" for one in results if one.error]
    good = [one for one in results if not one.error]
    checks = [_refused(one) for one in good if CANDIDATE in one.refusals]
    usable = [one for one in good if CANDIDATE not in one.refusals]
    for group in groups(usable):
        checks += _checks(group, policy)
    if notes:
        reason = f"{len(notes)} of {len(results)} bags could not be replayed: {notes[0]}"
        checks.append(Check("bags", ALL, INCONCLUSIVE, float(len(notes)), 0.0, reason))
    if not good and not notes:
        checks.append(Check("bags", ALL, INCONCLUSIVE, 0.0, 1.0, "there is no bag"))
    outcomes = {one.outcome for one in checks}
    outcome = FAIL if FAIL in outcomes else INCONCLUSIVE if INCONCLUSIVE in outcomes else PASS
    return Verdict(outcome, checks, len(results), notes)


def groups(results: Sequence[BagResult]) -> Iterator[Group]:
    """All bags of an arm, then those of each label; several arms are told apart in the context's name."""
    arms = sorted({one.arm for one in results})
    for arm in arms:
        own = [one for one in results if one.arm == arm]
        prefix = f"{arm} " if len(arms) > 1 else ""
        yield _added(prefix + ALL, own)
        labels = sorted({(key, value) for one in own for key, value in one.context.items()})
        for key, value in labels:
            yield _added(f"{prefix}{key}={value}", [one for one in own if one.context.get(key) == value])


def _added(context: str, bags: list[BagResult]) -> Group:
    sums = [JointSums() for _ in bags[0].joints]
    tally: Tally | None = None
    for bag in bags:
        for mine, one in zip(sums, bag.sums, strict=True):
            mine.rows, mine.actual, mine.bb = mine.rows + one.rows, mine.actual + one.actual, mine.bb + one.bb
            for role in one.bx:
                mine.bx[role] = mine.bx.get(role, 0.0) + one.bx[role]
                mine.xx[role] = mine.xx.get(role, 0.0) + one.xx[role]
        if CANDIDATE in bag.tallies:
            tally = tally or Tally(len(bag.joints))
            tally.add(bag.tallies[CANDIDATE])
    return Group(context, bags, sums, tally, sum(bag.seconds for bag in bags))


def best_share(sums: Sequence[JointSums], role: str) -> float:
    """The share of a model's residual, from none to all of it, that would have served the joints together best."""
    bx, xx = (sum(getattr(one, key).get(role, 0.0) for one in sums) for key in ("bx", "xx"))
    return min(1.0, max(0.0, bx / xx)) if xx > 0.0 else 0.0


def error_with(sums: Sequence[JointSums], role: str, share: float) -> float:
    """Root mean square error over joints with a share of a model's residual [rad]."""
    squares = sum(one.bb - 2.0 * share * one.bx.get(role, 0.0) + share**2 * one.xx.get(role, 0.0) for one in sums)
    return math.sqrt(max(0.0, squares) / max(1, sum(one.rows for one in sums)))


def best_error(sums: Sequence[JointSums], role: str) -> float:
    """The same with the best share."""
    return error_with(sums, role, best_share(sums, role))


def _refused(bag: BagResult) -> Check:
    reason = f"the candidate is refused: {bag.refusals[CANDIDATE]}"
    return Check("bundle", ALL, FAIL, None, 0.0, f"{reason} (bag {bag.bag})")


def _checks(group: Group, policy: Policy) -> Iterator[Check]:
    limits = policy.of(group.context.split(" ")[-1])
    yield _agreement(group, limits)
    tally = group.candidate
    assert tally is not None
    at_most: list[tuple[str, float, str]] = [
        ("not_finite", tally.share(tally.not_finite + tally.unanswered), "of the states get no finite offer"),
        ("residual_off", tally.share(tally.levels.get("residual off", 0)), "of the time its residual is switched off"),
        ("unsure", tally.unsure(0.5), "of its offers have a confidence below one half"),
        ("too_large", tally.share(tally.too_large), "of its offers are larger than the filter lets through"),
        ("jumps", tally.share(tally.jumps), "of its offers change faster than the slew limit"),
        ("energy", tally.share(tally.limits.get("energy", 0)), "of the time the energy tank holds it back"),
    ]
    for name, value, text in at_most:
        threshold = getattr(limits, name)
        extra = _first_fault(group) if name == "residual_off" else ""
        reason = f"{100 * value:.2f} % {text}, allowed {100 * threshold:g} %{extra}"
        yield Check(name, group.context, PASS if value <= threshold else FAIL, value, threshold, reason)
    yield _late(group, limits)
    short = group.seconds < policy.seconds or not any(one.rows for one in group.sums)
    if short or not any(bag.referenced for bag in group.bags):
        what = (
            f"only {group.seconds:.1f} s of motion, {policy.seconds:g} are needed" if short else "no bag holds a reference"
        )
        yield Check("error", group.context, INCONCLUSIVE, None, limits.error, f"tracking cannot be judged: {what}")
        return
    yield from _errors(group, policy, limits)


def _agreement(group: Group, limits: Thresholds) -> Check:
    """Whether what is recomputed is what was recorded: else nothing that follows says anything of the robot."""
    found = [bag.agreement for bag in group.bags if bag.agreement is not None]
    rows = sum(one.rows for one in found)
    if rows == 0:
        reason = "no bag holds a torque command, so nothing shows that the replay is that of the robot"
        return Check("agreement", group.context, INCONCLUSIVE, None, limits.agreement, reason)
    value = math.sqrt(sum(one.squares for one in found) / (rows * len(group.joints)))
    exact = sum(one.exact for one in found)
    reason = f"recorded and recomputed torque differ by {100 * value:.2g} % of the limit (RMS); {exact} of {rows} rows exact"
    worst = max(
        (bag for bag in group.bags if bag.agreement is not None),
        key=lambda bag: bag.agreement.squares / max(1, bag.agreement.rows) if bag.agreement else 0.0,
    )
    good = value <= limits.agreement
    if not good:
        reason += f", allowed {100 * limits.agreement:g} %; worst in {worst.bag}"
    return Check("agreement", group.context, PASS if good else INCONCLUSIVE, value, limits.agreement, reason)


def _late(group: Group, limits: Thresholds) -> Check:
    asked = sum(bag.immediate.get("asked", 0) for bag in group.bags)
    later = sum(bag.immediate.get("later", 0) for bag in group.bags)
    if asked == 0:
        return Check(
            "late", group.context, INCONCLUSIVE, None, limits.late, "too few states to ask whether it answers at once"
        )
    value = later / asked
    reason = (
        f"{later} of {asked} questions were answered a cycle late: its torque does not depend on the state that it is for, "
        "but on the one before"
        if later
        else f"all of {asked} questions were answered by the torque for the very state"
    )
    return Check("late", group.context, PASS if value <= limits.late else FAIL, value, limits.late, reason)


def _errors(group: Group, policy: Policy, limits: Thresholds) -> Iterator[Check]:
    alone, best = best_error(group.sums, ""), best_error(group.sums, CANDIDATE)
    value = best / alone if alone > 0.0 else 1.0
    reason = (
        f"with it the joints would be off by {1e3 * best:.3f} mrad, with the classical torque alone by {1e3 * alone:.3f}"
    )
    yield _at_most("error", group, value, limits.error, reason)
    if all(BASELINE in bag.tallies for bag in group.bags):
        other = best_error(group.sums, BASELINE)
        value = best / other if other > 0.0 else 1.0
        reason = f"with it the joints would be off by {1e3 * best:.3f} mrad, with the baseline by {1e3 * other:.3f}"
        yield _at_most("error_to_baseline", group, value, limits.error_to_baseline, reason)
    judged = [i for i, one in enumerate(group.sums) if one.effect(CANDIDATE) > policy.effect * max(one.error(""), 1e-9)]
    judged = [i for i in judged if group.sums[i].error("") > policy.joint * alone]
    period = group.bags[0].period
    judged = [i for i in judged if group.sums[i].rows * period >= policy.moving]
    rest = [name for i, name in enumerate(group.joints) if i not in judged]
    silent = f"; too little happens to judge {', '.join(rest)}" if rest else ""
    if not judged:
        reason = "it changes next to nothing in any joint"
        yield Check("direction", group.context, INCONCLUSIVE, None, limits.direction, reason)
        return

    def worst(of: Callable[[JointSums], float], lowest: bool) -> tuple[int, float]:
        return (min if lowest else max)(((i, of(group.sums[i])) for i in judged), key=lambda pair: pair[1])

    i, value = worst(lambda one: one.bx[CANDIDATE] / math.sqrt(one.bb * one.xx[CANDIDATE] + 1e-60), lowest=True)
    good = value >= limits.direction
    reason = (
        f"in joint '{group.joints[i]}' what it does and what was needed correlate by {value:+.2f}, "
        f"{'at least' if good else 'which is below'} {limits.direction:g}"
        + ("" if good else ": it pushes the wrong way")
        + silent
    )
    outcome = PASS if good else FAIL
    yield Check("direction", group.context, outcome, value, limits.direction, reason, group.joints[i])
    bx, xx = (sum(getattr(group.sums[k], key)[CANDIDATE] for k in judged) for key in ("bx", "xx"))
    scale = bx / xx
    good = limits.scale <= scale <= limits.scale_high
    reason = f"{scale:.2f} times its torque would have served best, allowed {limits.scale:g} to {limits.scale_high:g}"
    yield Check("scale", group.context, PASS if good else FAIL, scale, limits.scale, reason)
    share = best_share(group.sums, CANDIDATE)
    i, value = worst(lambda one: error_with([one], CANDIDATE, share) / max(one.error(""), 1e-12), lowest=False)
    reason = f"worst in joint '{group.joints[i]}'"
    yield _at_most("joint_error", group, value, limits.joint_error, reason, group.joints[i])


def _at_most(name: str, group: Group, value: float, threshold: float, reason: str, joint: str = "") -> Check:
    good = value <= threshold
    text = f"{reason}: {value:.3f} times, allowed {threshold:g}"
    return Check(name, group.context, PASS if good else FAIL, value, threshold, text, joint)


def _first_fault(group: Group) -> str:
    for bag in group.bags:
        if CANDIDATE in bag.faults:
            return f"; first in {bag.bag}: {bag.faults[CANDIDATE][0]}"
    return ""
