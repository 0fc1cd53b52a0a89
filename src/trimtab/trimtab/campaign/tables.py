"""The campaign's outcomes as tables: one row per fault, and one per fault, arm and reference."""

from collections.abc import Sequence

from trimtab.campaign.runner import Outcome
from trimtab.report.typeset import NEVER, Cell, Table

MEANINGS = {
    "detected by": "What noticed the fault: a level of the fault ladder that latched, else the limits that held the "
    "residual back, in the order in which they did; evidence is the trust that a residual must earn and keep.",
    "detect": "From the fault's beginning until then; in the first table the longest.",
    "RMSE change": "Joint RMSE over the run, as long as both runs follow the reference, against the classical run under "
    "the same fault, plant, seed and reference; below zero is better. In the first table the worst.",
    "since fault": "The same from the fault's beginning on.",
    "torque RMS": "Change of the torque's root mean square, likewise.",
    "peak torque": "Largest torque sent, as a share of its limit; in brackets that of the classical run.",
    "limits exceeded": "Runs in which a torque, or the residual's size, slew or energy, was beyond its limit.",
    "verdict": "ok: no limit exceeded, RMSE at most 5 % worse than the classical run, no level beyond `residual off` "
    "that the classical run did not reach as well, a reason for every latch, and no damaged bundle loaded.",
}


def summary_rows(outcomes: Sequence[Outcome]) -> Table:
    """One row per fault, the worst over arms and references."""
    rows = []
    for name in dict.fromkeys(outcome.fault for outcome in outcomes):
        group = [outcome for outcome in outcomes if outcome.fault == name]
        times = [outcome.after for outcome in group if outcome.after is not None]
        bad = sum(not outcome.ok for outcome in group)
        rows.append(
            (
                Cell(name),
                Cell(_said(group)),
                Cell(f"{1e3 * max(times):.0f}" if times else NEVER),
                Cell(f"{100 * max(outcome.change for outcome in group):+.1f}"),
                Cell(f"{100 * max(outcome.change_since for outcome in group):+.1f}"),
                Cell(str(sum(bool(outcome.exceeded) for outcome in group))),
                Cell("ok" if not bad else f"{bad} of {len(group)} fail"),
            )
        )
    headers = (
        ("fault", ""),
        ("detected by", ""),
        ("longest detect", "ms"),
        ("worst RMSE change", "%"),
        ("worst since fault", "%"),
        ("limits exceeded", ""),
        ("verdict", ""),
    )
    return Table(headers, tuple(rows), failures(outcomes), words=(1,))


def full_rows(outcomes: Sequence[Outcome]) -> Table:
    """One row per outcome, with all figures."""
    rows = tuple(
        (
            Cell(outcome.fault),
            Cell(outcome.arm),
            Cell(outcome.reference),
            Cell(outcome.detected_by + (f": {outcome.reason}" if outcome.reason else "")),
            Cell(NEVER if outcome.after is None else f"{1e3 * outcome.after:.0f}"),
            Cell(f"{1e3 * outcome.classical_rmse:.3f}"),
            Cell(f"{1e3 * outcome.rmse:.3f}"),
            Cell(f"{100 * outcome.change:+.1f}"),
            Cell(f"{100 * outcome.change_since:+.1f}"),
            Cell(f"{100 * outcome.torque_change:+.1f}"),
            Cell(f"{100 * outcome.peak:.0f} ({100 * outcome.classical_peak:.0f})"),
            Cell("; ".join(outcome.problems) or "ok"),
        )
        for outcome in outcomes
    )
    headers = (
        ("fault", ""),
        ("arm", ""),
        ("reference", ""),
        ("detected by", ""),
        ("detect", "ms"),
        ("classical RMSE", "mrad"),
        ("RMSE with residual", "mrad"),
        ("RMSE change", "%"),
        ("since fault", "%"),
        ("torque RMS", "%"),
        ("peak torque", "%"),
        ("verdict", ""),
    )
    return Table(headers, rows, words=(1, 2, 3, 11))


def failures(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """A line for each outcome that does not pass."""
    return tuple(
        f"{outcome.fault}, {outcome.arm}, {outcome.reference}: {'; '.join(outcome.problems)}"
        for outcome in outcomes
        if not outcome.ok
    )


def _said(group: Sequence[Outcome]) -> str:
    """What noticed a fault over arms and references, the most frequent first."""
    counts: dict[str, int] = {}
    for outcome in group:
        counts[outcome.detected_by] = counts.get(outcome.detected_by, 0) + 1
    ranked = sorted(counts, key=lambda text: -counts[text])
    if len(ranked) == 1:
        return ranked[0]
    return "; ".join(f"{text} ({counts[text]})" for text in ranked)
