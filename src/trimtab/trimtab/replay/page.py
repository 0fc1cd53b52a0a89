"""A replay as one page that holds all of itself."""

import base64
import html
from collections.abc import Mapping, Sequence

from trimtab.replay.figures import plot_errors, plot_moments
from trimtab.replay.tables import Rows, as_table, check_rows, context_rows, resimulation_rows, variant_rows
from trimtab.replay.task import BagResult
from trimtab.replay.verdict import Verdict
from trimtab.report.page import fill_template
from trimtab.report.typeset import as_html


def page_of(facts: Mapping[str, str], verdict: Verdict, results: Sequence[BagResult]) -> str:
    """The page. facts: what was replayed, in words."""
    again = resimulation_rows(results)
    simulated = ""
    if len(again) > 1:
        head = (
            "<h2>Closed loop in simulation</h2>\n<p>Not what the robot did: the recorded reference on a simulated plant.</p>"
        )
        simulated = head + as_html(as_table(again, words=(1, 2)))
    reasons = "".join(f"<li>{html.escape(one)}</li>" for one in verdict.reasons)
    return fill_template(
        "replay.html",
        title=f"Replay: {verdict.outcome}",
        verdict=html.escape(f"{verdict.outcome.upper()}: {facts['candidate']}, {verdict.bags} bags"),
        reasons=f"<ul>{reasons}</ul>" if reasons else "<p>All criteria pass in every context.</p>",
        run="\n".join(f"<div><dt>{html.escape(key)}</dt><dd>{html.escape(text)}</dd></div>" for key, text in facts.items()),
        contexts=as_html(as_table(context_rows(results))),
        variants=as_html(as_table(variant_rows(results), words=(1, 6))),
        moments=_image(plot_moments(results), "tracking error around the worst moments"),
        distributions=_image(plot_errors(results), "error of each joint by context"),
        resimulation=simulated,
        checks=as_html(as_table(_with_reasons(verdict), words=(1, 2, 5))),
        bags=as_html(as_table(_bag_rows(results), words=(1, 2, 4, 5))),
    )


def _with_reasons(verdict: Verdict) -> Rows:
    rows = check_rows(verdict)
    return [[*rows[0], "reason"], *([*row, one.reason] for row, one in zip(rows[1:], verdict.checks, strict=True))]


def _bag_rows(results: Sequence[BagResult]) -> Rows:
    rows = [["bag", "arm", "context", "time [s]", "recorded with", "remarks"]]
    for one in results:
        context = ", ".join(f"{key}={value}" for key, value in one.context.items()) or "-"
        recorded = "-" if one.agreement is None else f"{one.agreement.of}: {one.agreement.exact}/{one.agreement.rows} exact"
        remarks = one.error or "; ".join(
            [*one.remarks, *(f"{role}: {x}" for role, all_ in one.faults.items() for x in all_)]
        )
        rows.append([one.bag, one.arm or "-", context, f"{one.seconds:.1f}", recorded, remarks or "-"])
    return rows


def _image(data: bytes | None, text: str) -> str:
    if data is None:
        return "<p>There is nothing to show.</p>"
    return f'<img alt="{html.escape(text)}" src="data:image/png;base64,{base64.b64encode(data).decode()}">'
