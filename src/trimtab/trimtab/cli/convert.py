"""`trimtab convert`: makes bags of recordings that are none."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.cli.folder import claim_folder
from trimtab.errors import ConfigError

if TYPE_CHECKING:
    from trimtab.convert.mapping import JointPd, RecordingMapping
    from trimtab.convert.recording import ForeignRun
    from trimtab.convert.tables import Table
    from trimtab.foreign import Embodiment

DESCRIPTION = """\
Makes rosbag2 bags (MCAP) of .npz and .csv files, one for each run in them. A mapping says which column is what.

Nothing is mended: rows that repeat the one before, gaps, steps back in time and numbers that are not finite stay as they
are, are told, and stand in each bag's metadata."""

EXAMPLES = """\
names:
  --arm         {arms}
  foreign ones  {foreign}
  --mapping     {mappings}

examples:
  trimtab convert rollouts.npz --mapping wam_pd --arm wam --out bags/wam
  trimtab convert executed.npz --mapping ur3e_trajectories --arm ur3e --rate 500 --out bags/ur3e
  trimtab convert log.csv --mapping ./my_columns.yaml --arm so101 --label payload=none --out bags/log
  trimtab convert rollouts.npz --mapping wam_pd --arm wam --out bags/soft \\
      --kp 200,300,100,100,10,10,2.5 --kd 7,15,5,2.5,.3,.3,.05 --limit 150,125,40,60,5,5,2"""


def register(subparsers: Any) -> None:
    """Adds `trimtab convert`."""
    parser = subparsers.add_parser(
        "convert", help="make bags of recordings that are none", description=DESCRIPTION, closing=names
    )
    parser.add_argument("source", type=Path, nargs="+", metavar="SOURCE", help=".npz or .csv files")
    parser.add_argument("--arm", required=True, help="name of an arm or of a foreign one, or the path of its file")
    parser.add_argument("--mapping", required=True, help="name of a mapping, or the path of its YAML file")
    parser.add_argument("--out", type=Path, metavar="DIR", help="new or empty folder (default: runs/<time>-bags)")
    parser.add_argument("--rate", type=float, metavar="HZ", help="rows per second, where the recording has no time")
    parser.add_argument("--run", action="append", metavar="NAME", help="only this run; may be given several times")
    parser.add_argument("--label", action="append", default=[], metavar="KEY=VALUE", help="what held meanwhile")
    of_pd = parser.add_argument_group("a joint PD whose torque was not recorded, a number for each of the mapping's joints")
    of_pd.add_argument("--kp", metavar="A,B,...", help="[Nm/rad]; default: the mapping's, else nothing is reconstructed")
    of_pd.add_argument("--kd", metavar="A,B,...", help="[Nm s/rad]")
    of_pd.add_argument("--limit", metavar="A,B,...", help="largest torque [Nm]")
    parser.set_defaults(command=_convert)


def names() -> str:
    """Names that the options take, and examples."""
    from trimtab.convert.mapping import RECORDINGS
    from trimtab.foreign import FOREIGN
    from trimtab.names import arm_names
    from trimtab.share import names_in

    return EXAMPLES.format(
        arms=", ".join(arm_names()), foreign=", ".join(names_in(FOREIGN)), mappings=", ".join(names_in(RECORDINGS))
    )


def _convert(arguments: argparse.Namespace) -> int:
    from trimtab.convert.mapping import load_mapping
    from trimtab.convert.tables import Table
    from trimtab.foreign import load_embodiment
    from trimtab.recording.context import parse_labels

    arm = load_embodiment(arguments.arm)
    mapping = load_mapping(arguments.mapping)
    labels = parse_labels(arguments.label)
    if arguments.rate is not None and not 1e-3 <= arguments.rate <= 1e6:
        raise ConfigError(f"--rate {arguments.rate:g} is not within 0.001 to 1000000 Hz")
    pd = _pd(arguments, mapping)
    tables = [(table, table.runs(mapping)) for table in map(Table, arguments.source)]
    chosen = _choose([(table, run) for table, runs in tables for run in runs], arguments.run)
    out = claim_folder(arguments.out, "bags")
    for line in _write_all(chosen, mapping, arm, arguments.rate or mapping.rate, pd, labels, out):
        print(line)
    print(f"\n{len(chosen)} bags in {out}")
    return 0


def _choose(found: list[tuple["Table", str]], wanted: list[str] | None) -> list[tuple["Table", str]]:
    known = [run for _, run in found]
    for run in wanted or ():
        if run not in known:
            raise ConfigError(f"no run '{run}'; there are: {', '.join(known)}")
    chosen = [(table, run) for table, run in found if not wanted or run in wanted]
    for run in known:
        if "/" in run or run.startswith(".") or not run.isprintable():
            raise ConfigError(f"the run {run!r} cannot be the name of a folder; rename it in the recording")
        if [one for _, one in chosen].count(run) > 1:
            raise ConfigError(f"two sources have a run '{run}'; convert them to folders of their own")
    return chosen


def _write_all(
    chosen: list[tuple["Table", str]],
    mapping: "RecordingMapping",
    arm: "Embodiment",
    rate: float | None,
    pd: "JointPd | None",
    labels: dict[str, str],
    out: Path,
) -> list[str]:
    """Writes a bag for each run and gives a line for each."""
    from trimtab import __version__
    from trimtab.cli.progress import StepBar
    from trimtab.convert.recording import read_run
    from trimtab.convert.writing import sha256_of, write_run
    from trimtab.recording.context import RecordingContext

    hashes = {table.file: sha256_of(table.file) for table, _ in chosen}
    lines = []
    with StepBar(0, "row") as bar:
        for table, run in chosen:
            read = read_run(table, run, mapping, arm, rate=rate, pd=pd)
            bar.expect(len(read.t))
            bar.stage(run, len(read.t))
            context = RecordingContext(arm=arm.name, version=__version__, labels=labels)
            origin = {
                "source": table.file.name,
                "source_sha256": hashes[table.file],
                "mapping": mapping.name,
                "foreign_arm": str(arm.foreign).lower(),
            }
            write_run(out / run, read, context, origin, bar.advance)
            lines.append(describe(read))
    return lines


def describe(run: "ForeignRun") -> str:
    """One line on what a run holds and what is odd about it."""
    odd = run.oddities
    parts = [f"{run.name}: {odd.rows} rows, {run.t[-1]:.1f} s at {run.rate:.4g} Hz"]
    parts.append(f"{odd.repeats} repeated ({odd.repeats / odd.rows:.1%}, at most {odd.longest_repeat} in a row)")
    parts.append(f"{odd.gaps} gaps (longest step {odd.longest_gap:.4g} s)")
    if odd.steps_back:
        parts.append(f"{odd.steps_back} steps back in time")
    if odd.not_finite:
        parts.append(f"{odd.not_finite} rows not finite")
    if run.reconstructed is not None:
        parts.append("torque reconstructed from a joint PD")
    if run.effort is not None:
        parts.append(f"effort in {run.effort_unit}")
    return "; ".join(parts)


def _pd(arguments: argparse.Namespace, mapping: "RecordingMapping") -> "JointPd | None":
    from trimtab.convert.mapping import JointPd

    given = {name: getattr(arguments, name) for name in ("kp", "kd", "limit")}
    if not any(given.values()):
        return mapping.pd
    values = {}
    for name, text in given.items():
        if text is None:
            raise ConfigError(f"--{name} is missing; a joint PD needs --kp, --kd and --limit")
        try:
            values[name] = tuple(float(word) for word in text.split(","))
        except ValueError:
            raise ConfigError(f"--{name} {text} is not a list of numbers") from None
        if len(values[name]) != len(mapping.joints) or not all(0.0 <= value < float("inf") for value in values[name]):
            raise ConfigError(
                f"--{name} must be {len(mapping.joints)} numbers of zero or more, for {', '.join(mapping.joints)}"
            )
    if mapping.sent is not None:
        raise ConfigError(f"{mapping.file}: the torque sent was recorded; leave --kp, --kd and --limit out")
    return JointPd(**values)
