"""`trimtab replay`: bags through the control step with a candidate, a baseline and neither; a verdict with its reasons."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.errors import ConfigError, LogError

if TYPE_CHECKING:
    from trimtab.replay.task import BagResult, Task
    from trimtab.replay.verdict import Verdict

CODES = {"pass": 0, "fail": 1, "inconclusive": 3}

DESCRIPTION = """\
Feeds the recorded states and references of bags through the same control step and safety filter as on the robot: with
the candidate, with the baseline, and with the classical controller alone. In process, without ROS; the same bag gives
the same result, but for what a step took. The recorded states drive everything (open loop).

Each criterion of the policy is judged over all bags and over those of each context label. Exit code 0: pass, 1: fail,
3: inconclusive, 2: refused."""

EXAMPLES = """\
examples:
  trimtab run --plant worn --controller friction+adaptive+observer --residual mlp --out runs/worn
  trimtab replay runs/worn/bags --candidate mlp                         does the installed model pass on these bags?
  trimtab replay logs --candidate mlp/2 --baseline mlp/1 --jobs 4 --results runs/replay --html replay.html
  trimtab replay logs --candidate mlp/2 --junit replay.xml --json replay.json       for a build server
  trimtab replay bag --candidate mlp --arm wam --states /arm/joint_states --effort none
  trimtab replay bag --candidate mlp --resimulate worn                  and once more in closed loop, simulated"""


def register(subparsers: Any) -> None:
    """Adds `trimtab replay`."""
    parser = subparsers.add_parser("replay", help="judge a learned model on bags", description=DESCRIPTION, epilog=EXAMPLES)
    parser.add_argument("bags", nargs="+", type=Path, metavar="BAG", help="bags, or folders with bags below")
    parser.add_argument("--candidate", required=True, metavar="NEW", help="bundle to judge: name, name/version or folder")
    parser.add_argument(
        "--baseline", default="", metavar="OLD", help="bundle to compare with, beside the classical controller"
    )
    parser.add_argument("--policy", default="replay", metavar="FILE", help="thresholds: name in config, or path")
    parser.add_argument("--arm", default="", help="name or path of the contract, where the bag does not tell")
    parser.add_argument("--controller", default="", help="words joined by +, where the bag does not tell")
    parser.add_argument("--friction", type=Path, metavar="FILE", help="identified friction, where the bag does not hold it")
    parser.add_argument("--keys", type=Path, metavar="FILE", help="public keys; bundles must be signed with one of them")
    topics = parser.add_argument_group("bags of other origin")
    topics.add_argument("--namespace", default="", metavar="NS", help="of the robot's topics")
    topics.add_argument("--states", metavar="TOPIC", help="states, instead of /joint_states")
    topics.add_argument("--torques", metavar="TOPIC", help="torque sent, instead of /torque_command")
    topics.add_argument("--reference", metavar="TOPIC", help="reference, instead of /reference")
    topics.add_argument(
        "--effort", default="", metavar="UNIT", help="of the states' effort: Nm, none, A:<Nm/A>, mA:<joint>=<Nm/A>,..."
    )
    work = parser.add_argument_group("work")
    work.add_argument("--jobs", type=int, default=1, metavar="N", help="processes")
    work.add_argument("--dask", default="", metavar="tcp://...", help="scheduler of a Dask cluster that does the work")
    work.add_argument(
        "--results", type=Path, metavar="DIR", help="keeps a result per bag there; what is there is not done again"
    )
    work.add_argument(
        "--resimulate", default="", metavar="PLANT", help="run the recorded reference in closed loop on a plant"
    )
    out = parser.add_argument_group("output")
    out.add_argument("--json", type=Path, metavar="FILE", help="everything as data")
    out.add_argument("--junit", type=Path, metavar="FILE", help="a test case per criterion and context")
    out.add_argument("--html", type=Path, metavar="FILE", help="one page with plots, reasons on top")
    parser.set_defaults(command=_replay)


def _replay(arguments: argparse.Namespace) -> int:
    from trimtab.replay.many import find_bags, replay_all
    from trimtab.replay.policy import load_policy
    from trimtab.replay.task import with_bag
    from trimtab.replay.verdict import judge

    if arguments.jobs < 1:
        raise ConfigError(f"--jobs {arguments.jobs}: give one or more")
    if arguments.dask and arguments.jobs != 1:
        raise ConfigError("--jobs and --dask exclude each other: the cluster knows how many workers it has")
    policy = load_policy(arguments.policy)
    tasks = with_bag(_task(arguments), find_bags(arguments.bags))
    with _bar(len(tasks)) as bar:
        results = replay_all(
            tasks,
            jobs=arguments.jobs,
            dask=arguments.dask,
            results=arguments.results,
            done=lambda _: bar.advance(1),
        )
    if all(one.error for one in results):
        raise LogError(results[0].error if len(results) == 1 else f"none of {len(results)} bags: {results[0].error}")
    verdict = judge(results, policy)
    facts = {
        "candidate": arguments.candidate,
        "baseline": arguments.baseline or "classical controller alone",
        "policy": arguments.policy,
        "bags": str(len(results)),
    }
    _write(arguments, facts, verdict, results)
    print(_text(verdict, results))
    return CODES[verdict.outcome]


def _bar(count: int) -> Any:
    from trimtab.cli.progress import StepBar

    bar = StepBar(count, "bag")
    bar.stage("replay", count)
    return bar


def _task(arguments: argparse.Namespace) -> "Task":
    """What is asked for; checks everything that can be checked before a bag is read."""
    from dataclasses import replace

    from trimtab.arm import load_arm
    from trimtab.bags.effort import effort_unit
    from trimtab.bags.topics import Topics
    from trimtab.control.friction import load_friction
    from trimtab.names import parse_controller
    from trimtab.plant import load_gap
    from trimtab.replay.task import Task

    if arguments.controller:
        parse_controller(arguments.controller)
    if arguments.arm:
        arm = load_arm(arguments.arm)
        if arguments.effort:
            effort_unit(arguments.effort, arm)
        if arguments.resimulate:
            load_gap(arguments.resimulate, arm)
        if arguments.friction is not None:
            load_friction(arguments.friction, arm)
    names = {"states": arguments.states, "torques": arguments.torques, "reference": arguments.reference}
    given = {key: name if name.startswith("/") else f"/{name}" for key, name in names.items() if name}
    return Task(
        bag="",
        candidate=_place(arguments.candidate),
        baseline=_place(arguments.baseline),
        arm=arguments.arm,
        controller=arguments.controller,
        friction="" if arguments.friction is None else str(arguments.friction.resolve()),
        topics=replace(Topics().under(arguments.namespace), **given),
        effort=arguments.effort,
        keys="" if arguments.keys is None else str(arguments.keys.resolve()),
        resimulate=arguments.resimulate,
    )


def _place(bundle: str) -> str:
    """A folder by its full path, so that another process finds it; a name as it is."""
    return str(Path(bundle).resolve()) if bundle and Path(bundle).is_dir() else bundle


def _write(arguments: argparse.Namespace, facts: dict[str, str], verdict: "Verdict", results: Sequence["BagResult"]) -> None:
    from trimtab.files import write_whole
    from trimtab.replay.tables import as_junit

    if arguments.json is not None:
        document = {**facts, "verdict": verdict.as_dict(), "results": [one.as_dict() for one in results]}
        write_whole(arguments.json, json.dumps(document, indent=1) + "\n")
    if arguments.junit is not None:
        write_whole(arguments.junit, as_junit(verdict))
    if arguments.html is not None:
        from trimtab.replay.page import page_of

        write_whole(arguments.html, page_of(facts, verdict, results))


def _text(verdict: "Verdict", results: Sequence["BagResult"]) -> str:
    from trimtab.replay.tables import as_table, check_rows, context_rows, resimulation_rows, variant_rows
    from trimtab.report.typeset import as_text

    parts = [as_text(as_table(check_rows(verdict), words=(1, 2)))]
    if any(not one.error for one in results):
        parts += [as_text(as_table(context_rows(results))), as_text(as_table(variant_rows(results), words=(1, 6)))]
    again = resimulation_rows(results)
    if len(again) > 1:
        parts.append("closed loop in simulation, not what the robot did:\n" + as_text(as_table(again, words=(1, 2))))
    remarks = [f"{one.bag}: {remark}" for one in results for remark in one.remarks]
    parts.append("\n".join([*remarks, *verdict.reasons, f"verdict: {verdict.outcome}"]))
    return "\n\n".join(parts)
