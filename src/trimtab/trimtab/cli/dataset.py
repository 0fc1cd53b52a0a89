"""`trimtab dataset`: makes training sets from bags."""

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trimtab.errors import ConfigError

DESCRIPTION = """\
Makes a training set of bags: rows at one rate, split by run. A gap is never bridged, rows in one are never invented.

Accelerations come from the velocities. `causal`: each row holds the newest state that was there, and nothing in it depends
on what came later. `zero_phase`: lines between states and a filter that runs both ways, within one segment of one run.

Runs are shared out by the seed and by what they hold, whatever the order in which they are given. Where a label tells
the hardware revision, the newest one is held out as a split of its own.

Writes to the folder given by --out:
  README.md, card.yaml        counts, hours, ranges, gaps, repeats, units, splits, sources with their hashes
  index.yaml, <run>.npz       the set itself; read it with trimtab.dataset.load_dataset"""

EXAMPLES = """\
examples:
  trimtab dataset runs/*/bags --arm ur5e --out sets/ur5e
  trimtab dataset bags/wam --arm wam --rate 250 --cutoff 15 --seed 3 --out sets/wam
  trimtab dataset wx200_bag --arm wx200 --states /wx200/joint_states --effort mA --gap 0.03 --out sets/wx200"""


def register(subparsers: Any) -> None:
    """Adds `trimtab dataset`."""
    parser = subparsers.add_parser("dataset", help="make training sets from bags", description=DESCRIPTION, epilog=EXAMPLES)
    parser.add_argument("bag", type=Path, nargs="+", metavar="BAG", help="bags, or folders with bags in them")
    parser.add_argument("--arm", required=True, help="name of an arm or of a foreign one, or the path of its file")
    parser.add_argument("--out", type=Path, metavar="DIR", help="new or empty folder (default: runs/<time>-dataset)")
    parser.add_argument("--rate", type=float, metavar="HZ", help="of the rows (default: the arm's)")
    parser.add_argument("--filter", choices=("causal", "zero_phase"), default="causal", help="how accelerations are made")
    parser.add_argument("--cutoff", type=float, default=20.0, metavar="HZ", help="of the velocities' low-pass")
    parser.add_argument("--gap", type=float, default=0.0, metavar="S", help="longest step that is no gap; 0: 1.5 periods")
    parser.add_argument("--validation", type=float, default=0.15, metavar="SHARE", help="of the runs")
    parser.add_argument("--test", type=float, default=0.15, metavar="SHARE", help="of the runs")
    parser.add_argument("--seed", type=int, default=0, help="of the split")
    parser.add_argument("--states", default="/joint_states", metavar="TOPIC", help="sensor_msgs/JointState, measured")
    parser.add_argument("--torques", default="/torque_command", metavar="TOPIC", help="sensor_msgs/JointState, effort sent")
    parser.add_argument("--residuals", default="/residual_torque", metavar="TOPIC", help="sensor_msgs/JointState, learned")
    parser.add_argument("--reference", default="/reference", metavar="TOPIC", help="trajectory_msgs/JointTrajectory")
    parser.add_argument("--effort", metavar="UNIT", help="of the states' effort: Nm, mNm, A, mA or duty (default: as told)")
    parser.set_defaults(command=_dataset)


def _dataset(arguments: argparse.Namespace) -> int:
    from trimtab.bags.topics import Topics
    from trimtab.cli.progress import StepBar
    from trimtab.dataset.building import Request, build, check_settings
    from trimtab.dataset.rows import Settings
    from trimtab.foreign import load_embodiment
    from trimtab.replay.many import find_bags

    arm = load_embodiment(arguments.arm)
    if arguments.rate is not None and not 0.1 <= arguments.rate <= 1e5:
        raise ConfigError(f"--rate {arguments.rate:g} is not within 0.1 to 100000 Hz")
    settings = Settings(arguments.rate or arm.rate, arguments.filter, arguments.cutoff, arguments.gap)
    check_settings(settings)
    bags = find_bags(arguments.bag)
    topics = Topics(arguments.states, arguments.torques, arguments.residuals, arguments.reference)
    request = Request(bags, arm, settings, topics, arguments.effort, arguments.seed, arguments.validation, arguments.test)
    out = arguments.out or Path("runs") / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-dataset"
    with StepBar(len(bags), "bag") as bar:
        bar.stage("bags", len(bags))
        card = build(request, out, lambda _: bar.advance(1))
    print(summary(card))
    print(f"\nwritten to {out}; its card is {out / 'README.md'}")
    return 0


def summary(card: dict[str, Any]) -> str:
    """What a user should know of a set before training on it."""
    totals = card["totals"]
    lines = [
        f"{totals['runs']} runs, {totals['rows']} rows at {card['rate']:g} Hz, {totals['hours']:.4f} h",
        f"{totals['gaps']} gaps (longest {totals['longest_gap']:.4g} s, {totals['lost_in_gaps']:.4g} s in all); "
        f"{totals['repeats']} repeated rows; {totals['settling_rows']} rows left out while the filter settled",
        *(f"{name}: {one['runs']} runs, {one['rows']} rows" for name, one in card["splits"].items()),
        card["how_split"]["newest_hardware_reason"],
    ]
    return "\n".join(lines)
