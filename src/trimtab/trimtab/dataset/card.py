"""The card of a training set: what is in it, what is missing, where it comes from; for programs and for people."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trimtab.dataset.rows import RunRows
from trimtab.dataset.splits import SPLITS

SUMMED = (
    *("recorded_rows", "rows", "segments", "gaps", "lost_in_gaps", "short_segments", "settling_rows", "repeats"),
    *("without_torque", "without_reference"),
)


@dataclass(frozen=True)
class Extremes:
    """Lowest and highest value of each joint, by column."""

    low: dict[str, list[float]]
    high: dict[str, list[float]]

    @classmethod
    def of(cls, rows: RunRows) -> "Extremes":
        """Of one run."""
        return cls(
            {name: np.nanmin(values, axis=0).tolist() for name, values in rows.columns.items()},
            {name: np.nanmax(values, axis=0).tolist() for name, values in rows.columns.items()},
        )


def card_of(index: dict[str, Any], extremes: Sequence[Extremes]) -> dict[str, Any]:
    """Totals, splits, ranges and sources; extremes: of the index's runs."""
    runs = index["runs"]
    totals = {name: round(sum(run["counts"][name] for run in runs), 6) for name in SUMMED}
    totals |= {
        "runs": len(runs),
        "hours": _hours(totals["rows"], index["rate"]),
        "longest_gap": max(run["counts"]["longest_gap"] for run in runs),
    }
    splits = {}
    for split in SPLITS:
        chosen = [run for run in runs if run["split"] == split]
        if chosen:
            rows = sum(run["counts"]["rows"] for run in chosen)
            labels = Counter(f"{key}={value}" for run in chosen for key, value in run["labels"].items())
            splits[split] = {
                "runs": len(chosen),
                "rows": rows,
                "hours": _hours(rows, index["rate"]),
                "labels": dict(sorted(labels.items())),
                "names": [run["name"] for run in chosen],
            }
    head = {key: index[key] for key in ("format", "version", "arm", "joints", "rate", "filter", "gap", "units")}
    sources = [{"run": run["name"], **run["source"]} for run in runs]
    return {
        **head,
        "totals": totals,
        "how_split": index["splits"],
        "splits": splits,
        "ranges": _ranges(index["joints"], extremes),
        "sources": sources,
    }


def readme_of(card: dict[str, Any]) -> str:
    """The card as a page."""
    totals, how = card["totals"], card["how_split"]
    gap = f"{card['gap']:g} s" if card["gap"] else "one and a half periods of its recording"
    lines = [
        f"# Training set of {card['arm']}",
        "",
        f"{totals['runs']} runs, {totals['rows']} rows at {card['rate']:g} Hz, {totals['hours']:.3f} hours. "
        f"Made by trimtab {card['version']}.",
        "",
        f"Accelerations: {card['filter']['method'].replace('_', ' ')} filter at {card['filter']['cutoff']:g} Hz, within "
        f"each segment. A step longer than {gap} is a gap; no row lies in one.",
        "",
        *_table(("what", "count"), [(name.replace("_", " "), _number(totals[name])) for name in totals]),
        "",
        "Longest gap and lost in gaps are in seconds. Repeats are recorded rows that equal the one before; they are kept.",
        "",
        "## Splits",
        "",
        f"By run, never by row; seed {how['seed']}. {how['newest_hardware_reason'].capitalize()}.",
        "",
        *_table(
            ("split", "runs", "rows", "hours", "labels"),
            [
                (name, str(one["runs"]), str(one["rows"]), f"{one['hours']:.3f}", _labels(one["labels"]))
                for name, one in card["splits"].items()
            ],
        ),
        "",
        "## Ranges",
        "",
    ]
    for column, joints in card["ranges"].items():
        lines += [f"{column} [{card['units'][column]}]", ""]
        lines += _table(
            ("joint", "lowest", "highest"), [(j, f"{low:.5g}", f"{high:.5g}") for j, (low, high) in joints.items()]
        )
        lines.append("")
    lines += ["## Sources", ""]
    rows = [(one["run"], one["bag"], one["sha256"], "; ".join(one["remarks"]).replace("|", "/")) for one in card["sources"]]
    lines += _table(("run", "bag", "sha256", "remarks"), rows)
    return "\n".join(lines) + "\n"


def _ranges(joints: Sequence[str], extremes: Sequence[Extremes]) -> dict[str, dict[str, list[float]]]:
    columns = list(dict.fromkeys(name for one in extremes for name in one.low))
    found: dict[str, dict[str, list[float]]] = {}
    for name in columns:
        low = np.nanmin([one.low[name] for one in extremes if name in one.low], axis=0)
        high = np.nanmax([one.high[name] for one in extremes if name in one.high], axis=0)
        found[name] = {joint: [float(low[i]), float(high[i])] for i, joint in enumerate(joints)}
    return found


def _hours(rows: float, rate: float) -> float:
    return float(rows) / rate / 3600.0


def _labels(labels: dict[str, int]) -> str:
    return ", ".join(f"{label} ({count})" for label, count in labels.items())


def _number(value: float) -> str:
    return f"{value:.4g}" if isinstance(value, float) and not float(value).is_integer() else str(int(value))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(cells) + " |" for cells in lines]
