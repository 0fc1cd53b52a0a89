"""A replay as tables and as JUnit XML."""

import math
from collections.abc import Sequence
from xml.etree import ElementTree

from trimtab.replay.tally import Tally
from trimtab.replay.task import BagResult
from trimtab.replay.variants import BASELINE, CANDIDATE, CLASSICAL
from trimtab.replay.verdict import FAIL, INCONCLUSIVE, Group, Verdict, best_error, groups
from trimtab.report.typeset import Cell, Table

Rows = list[list[str]]
"""Header and rows of texts; a unit stands in brackets behind a title."""


def as_table(rows: Rows, words: tuple[int, ...] = ()) -> Table:
    """For a terminal or a page."""
    headers = [title.rstrip("]").partition(" [")[::2] for title in rows[0]]
    return Table(tuple(headers), tuple(tuple(Cell(text) for text in row) for row in rows[1:]), words=words)


def check_rows(verdict: Verdict) -> Rows:
    """Every criterion in every context."""
    rows = [["context", "criterion", "outcome", "value", "threshold"]]
    for one in verdict.checks:
        value = "-" if one.value is None else f"{one.value:.4g}"
        name = f"{one.criterion} ({one.joint})" if one.joint else one.criterion
        rows.append([one.context, name, one.outcome, value, f"{one.threshold:g}"])
    return rows


def context_rows(results: Sequence[BagResult]) -> Rows:
    """What the models would have made of the tracking error, by context."""
    rows = [["context", "bags", "time [s]", "recorded [mrad]", "classical [mrad]", "baseline [mrad]", "candidate [mrad]"]]
    found = groups([one for one in results if not one.error and one.sums])
    return rows + [[one.context, str(len(one.bags)), f"{one.seconds:.1f}", *_errors(one)] for one in found]


def _errors(group: Group) -> list[str]:
    count = max(1, sum(one.rows for one in group.sums))
    recorded = math.sqrt(sum(one.actual for one in group.sums) / count)
    with_baseline = all(BASELINE in one.tallies for one in group.bags)
    with_candidate = all(CANDIDATE in one.tallies for one in group.bags)
    return [
        f"{1e3 * recorded:.3f}",
        f"{1e3 * best_error(group.sums, ''):.3f}",
        f"{1e3 * best_error(group.sums, BASELINE):.3f}" if with_baseline else "-",
        f"{1e3 * best_error(group.sums, CANDIDATE):.3f}" if with_candidate else "-",
    ]


def variant_rows(results: Sequence[BagResult]) -> Rows:
    """What each variant did over all bags of an arm: residual, limits, confidence, latency."""
    rows = [
        ["arm", "variant", "RMS [% of limit]", "largest [%]", "slew [%/s]", "energy [J]", "limits [% of time]",
         "confidence p5 p50", "step p50 p99 [us]", "against measured [% RMS]"]
    ]  # fmt: skip
    good = [one for one in results if not one.error]
    for arm in sorted({one.arm for one in good}):
        own = [one for one in good if one.arm == arm]
        for role in (CLASSICAL, BASELINE, CANDIDATE):
            some = [one for one in own if role in one.tallies]
            if not some:
                continue
            tally = Tally(len(some[0].joints))
            for one in some:
                tally.add(one.tallies[role])
            rows.append([arm, role, *_variant(tally, some[0].limits)])
    return rows


def _variant(tally: Tally, limits: list[float]) -> list[str]:
    rms = math.sqrt(sum((tally.rms(i) / limit) ** 2 for i, limit in enumerate(limits)) / len(limits))
    largest, fastest = (
        max(value / limit for value, limit in zip(values, limits, strict=True)) for values in (tally.largest, tally.fastest)
    )
    fired = ", ".join(f"{name} {100 * tally.share(count):.1f}" for name, count in sorted(tally.limits.items())) or "-"
    sure = "-" if not sum(tally.confidence) else f"{tally.confidence_at(5):.2f} {tally.confidence_at(50):.2f}"
    measured = "-"
    if tally.effort_rows:
        shares = [square / tally.effort_rows / limit**2 for square, limit in zip(tally.effort, limits, strict=True)]
        measured = f"{100 * math.sqrt(sum(shares) / len(shares)):.2f}"
    return [
        f"{100 * rms:.3f}",
        f"{100 * largest:.2f}",
        f"{100 * fastest:.0f}",
        f"{sum(tally.energy):.3f}",
        fired,
        sure,
        f"{tally.latency_at(50):.0f} {tally.latency_at(99):.0f}",
        measured,
    ]


def resimulation_rows(results: Sequence[BagResult]) -> Rows:
    """Closed loop on a simulated plant, by bag; only the head where nobody asked for it."""
    rows = [["bag", "plant (simulated)", "variant", "RMSE [mrad]", "max [mrad]", "faults"]]
    for one in results:
        for role, found in one.resimulated.items():
            errors = [f"{1e3 * found[name]:.3f}" for name in ("rmse_rad", "max_error_rad")]
            rows.append([one.bag, one.plant, role, *errors, f"{found['faults']:.0f}"])
    return rows


def as_junit(verdict: Verdict) -> str:
    """A test case for each criterion in each context: what fails is a failure, what is inconclusive is skipped."""
    suites = ElementTree.Element("testsuites", name="trimtab replay")
    for context in dict.fromkeys(one.context for one in verdict.checks):
        checks = [one for one in verdict.checks if one.context == context]
        counts = {
            "tests": str(len(checks)),
            "failures": str(sum(one.outcome == FAIL for one in checks)),
            "skipped": str(sum(one.outcome == INCONCLUSIVE for one in checks)),
            "errors": "0",
        }
        suite = ElementTree.SubElement(suites, "testsuite", {"name": _plain(context), **counts})
        for one in checks:
            case = ElementTree.SubElement(
                suite, "testcase", classname=_plain(f"replay.{context}"), name=_plain(one.criterion), time="0"
            )
            if one.outcome == FAIL:
                ElementTree.SubElement(case, "failure", message=_plain(one.reason), type=one.criterion)
            elif one.outcome == INCONCLUSIVE:
                ElementTree.SubElement(case, "skipped", message=_plain(f"inconclusive: {one.reason}"))
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suites, encoding="unicode") + "\n"


def _plain(text: str) -> str:
    """Without what XML cannot hold."""
    return "".join(one if one.isprintable() else " " for one in text)
