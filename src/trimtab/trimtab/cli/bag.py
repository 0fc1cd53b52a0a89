"""`trimtab bag`: mends bags."""

import argparse
from pathlib import Path
from typing import Any

DESCRIPTION = "Looks after bags: rosbag2 recordings in MCAP or sqlite3 storage."

REPAIR = """\
Makes a complete bag of one that was cut off or damaged, or that lost its metadata.yaml: a new folder with all that can
still be read. The old one is not touched, and nothing is ever overwritten.

What `trimtab record` and `record:=true` leave behind after a crash is a readable bag already; this adds the index that
makes it quick to search. Bags of other recorders need it more."""

EXAMPLES = """\
examples:
  trimtab bag repair runs/bag-20260101-120000                     to runs/bag-20260101-120000-repaired
  trimtab bag repair runs/left --out runs/left-whole
  trimtab bag repair runs/left/left.mcap                          a bare file

Exit code: 0, or 2 when nothing can be read."""


def register(subparsers: Any) -> None:
    """Adds `trimtab bag`."""
    parser = subparsers.add_parser("bag", help="mend bags", description=DESCRIPTION, epilog=EXAMPLES)
    kinds = parser.add_subparsers(title="what to do", metavar="WHAT", required=True)
    repair = kinds.add_parser("repair", help="make a complete bag of a damaged one", description=REPAIR, epilog=EXAMPLES)
    repair.add_argument("bag", type=Path, metavar="BAG", help="the bag's folder, or its .mcap or .db3 file")
    repair.add_argument("--out", type=Path, metavar="DIR", help="a new folder (default: BAG-repaired)")
    repair.set_defaults(command=_repair)


def _repair(arguments: argparse.Namespace) -> int:
    from trimtab.cli.progress import StepBar
    from trimtab.recording.repair import files_of, repair

    size = sum(file.stat().st_size for file in files_of(arguments.bag))
    with StepBar(size, "B") as bar:
        bar.stage("repair", size)
        done = repair(arguments.bag, arguments.out, bar.advance)
    for topic, count in done.counts.items():
        print(f"{count:>10} {topic}")
    total = sum(done.counts.values())
    promised = f" of {done.promised} that metadata.yaml told of" if done.promised is not None else ""
    print(f"saved:   {total} messages{promised}, {done.seconds:.1f} s")
    for text in done.damage:
        print(f"damaged: {text}")
    print(f"bag:     {done.folder}")
    return 0
