"""The campaign as files: one page that holds all tables in itself, and the same as JSON."""

import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from trimtab.campaign.cases import FaultCase
from trimtab.campaign.runner import Outcome
from trimtab.campaign.tables import MEANINGS, full_rows, summary_rows
from trimtab.files import write_whole
from trimtab.report.page import PAGE, fill_template
from trimtab.report.typeset import as_html

RESULTS = "faults.json"


def write_campaign(folder: Path, facts: Mapping[str, str], cases: Sequence[FaultCase], outcomes: Sequence[Outcome]) -> Path:
    """Writes page and JSON into a folder and gives the page's path. facts: what was run, in words."""
    bad = sum(not outcome.ok for outcome in outcomes)
    document = {**facts, "ok": not bad, "outcomes": [outcome.as_dict() for outcome in outcomes]}
    write_whole(folder / RESULTS, json.dumps(document, indent=2) + "\n")
    page = fill_template(
        "faults.html",
        title="Fault campaign",
        run=_pairs(facts, "<div><dt>{}</dt><dd>{}</dd></div>"),
        verdict=html.escape(verdict_of(outcomes)),
        summary=as_html(summary_rows(outcomes)),
        full="".join(_arm(name, outcomes) for name in dict.fromkeys(outcome.arm for outcome in outcomes)),
        injected=_pairs({case.name: f"{case.kind}: {case.what}" for case in cases}, "<dt>{}</dt><dd>{}</dd>"),
        meanings=_pairs(MEANINGS, "<dt>{}</dt><dd>{}</dd>"),
    )
    write_whole(folder / PAGE, page)
    return folder / PAGE


def verdict_of(outcomes: Sequence[Outcome]) -> str:
    """The whole campaign in one sentence."""
    bad = sum(not outcome.ok for outcome in outcomes)
    faults = len({outcome.fault for outcome in outcomes if outcome.kind != "none"})
    limits = sum(bool(outcome.exceeded) for outcome in outcomes)
    worst = max(outcomes, key=lambda outcome: outcome.change)
    return (
        f"{faults} faults, {len(outcomes)} rows: {'all pass' if not bad else f'{bad} do not pass'}; "
        f"limits exceeded in {limits}; worst RMSE against the classical run {100 * worst.change:+.1f} % "
        f"({worst.fault}, {worst.arm}, {worst.reference})"
    )


def _arm(name: str, outcomes: Sequence[Outcome]) -> str:
    table = as_html(full_rows([outcome for outcome in outcomes if outcome.arm == name]))
    return f"<details open><summary>{html.escape(name)}</summary>\n{table}</details>\n"


def _pairs(texts: Mapping[str, str], line: str) -> str:
    return "\n".join(line.format(html.escape(key), html.escape(text)) for key, text in texts.items())
