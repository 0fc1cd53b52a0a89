"""`trimtab faults`: everything that can go wrong, in lockstep simulation, with a learned residual and without it."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.cli.folder import claim_folder
from trimtab.errors import ConfigError

if TYPE_CHECKING:
    from trimtab.campaign.runner import Outcome, Rig

FAILED = 1

DESCRIPTION = """\
Injects faults into simulated runs of arms with a learned residual: a model that goes wrong, dies or is late, states that
are lost or false, damaged bundles, a plant that changes. Each run is compared with the classical controller under the
same fault. Needs no ROS; the same seed gives the same numbers.

Exit code 0 only when no limit was ever exceeded (torque; size, slew and energy of the residual), no run tracks more than
5 % worse than the classical run under the same fault, every latched fault has a reason, and every damaged bundle was
refused.

Writes to the folder given by --out:
  index.html                  a page with all tables, in one file
  faults.json                 the same as data
  friction-<arm>.yaml         the friction model of the classical stack, where it has one"""


def register(subparsers: Any) -> None:
    """Adds `trimtab faults`."""
    parser = subparsers.add_parser(
        "faults", help="inject faults and see that nothing bad gets through", description=DESCRIPTION, closing=names
    )
    parser.add_argument("--arm", default="all", metavar="A,B,...", help="names or paths of contracts, or `all`")
    parser.add_argument("--references", default="plum,infinity", metavar="A,B,...", help="what the arms are to follow")
    parser.add_argument("--plant", default="worn", help="name or path of the plant")
    parser.add_argument("--model", default="mlp", help="name, name/version or folder of the bundle")
    parser.add_argument("--faults", default="all", metavar="A,B,...", help="names or kinds of faults, or `all`")
    parser.add_argument("--duration", type=float, default=6.0, metavar="S", help="length of each reference in seconds")
    parser.add_argument("--seed", type=int, default=0, help="seed of the plant's noise")
    parser.add_argument("--out", type=Path, metavar="DIR", help="new or empty folder (default: runs/<time>-faults)")
    parser.set_defaults(command=_faults)


def names() -> str:
    """Names that the options take, and examples."""
    from trimtab.campaign.catalogue import all_cases
    from trimtab.names import REFERENCES, arm_names, plant_names

    cases = all_cases()
    faults = "\n".join(f"  {case.name:<24} {case.kind:<8} {case.what}" for case in cases if case.kind != "none")
    return f"""\
names:
  --arm         {", ".join(arm_names())}
  --plant       {", ".join(plant_names())}
  --references  {", ".join(REFERENCES)}

faults, by kind:
{faults}

examples:
  trimtab faults                                         all faults, all arms: some minutes
  trimtab faults --arm so101 --faults model,gone
  trimtab faults --plant field --model mlp/2 --out runs/faults"""


def _faults(arguments: argparse.Namespace) -> int:
    from trimtab.campaign.catalogue import choose_cases
    from trimtab.campaign.page import verdict_of, write_campaign
    from trimtab.campaign.rigs import choose_arms, make_rig
    from trimtab.campaign.tables import summary_rows
    from trimtab.report.typeset import as_text

    cases = choose_cases(arguments.faults)
    references = [word.strip() for word in arguments.references.split(",")]
    for word in references:
        if references.count(word) > 1:
            raise ConfigError(f"reference '{word}' is named twice in --references; name each once")
    if arguments.seed < 0:
        raise ConfigError(f"--seed {arguments.seed} is negative; give zero or more")
    rigs = [make_rig(name, arguments.plant, arguments.model) for name in choose_arms(arguments.arm)]
    _check(rigs, references, arguments.duration)
    folder = claim_folder(arguments.out, "faults")
    outcomes = _run_all(rigs, references, arguments, folder)
    facts = {
        "arms": ", ".join(rig.arm.name for rig in rigs),
        "references": f"{', '.join(references)}, {arguments.duration:g} s",
        "plant": rigs[0].gap.name,
        "model": arguments.model,
        "controller": ", ".join(dict.fromkeys(rig.controller for rig in rigs)),
        "seed": str(arguments.seed),
    }
    page = write_campaign(folder, facts, cases, outcomes)
    print(f"\n{as_text(summary_rows(outcomes))}\n\n{verdict_of(outcomes)}\nfolder: {folder}\npage:   {page}")
    return 0 if all(outcome.ok for outcome in outcomes) else FAILED


def _check(rigs: list["Rig"], references: list[str], duration: float) -> None:
    """Refuses references before anything is written or run."""
    from trimtab.dynamics import RigidBody
    from trimtab.reference import make_reference

    for rig in rigs:
        for reference in references:
            make_reference(reference, RigidBody(rig.arm), duration)


def _run_all(rigs: list["Rig"], references: list[str], arguments: argparse.Namespace, folder: Path) -> list["Outcome"]:
    """All faults on all rigs, with a bar over the simulations; friction is identified first, once for each arm."""
    from trimtab.campaign.catalogue import choose_cases
    from trimtab.campaign.rigs import with_friction
    from trimtab.campaign.runner import run_reference, runs_of
    from trimtab.cli.progress import StepBar
    from trimtab.dynamics import RigidBody
    from trimtab.reference import make_reference
    from trimtab.simulate import IDENTIFICATION

    cases = choose_cases(arguments.faults)
    outcomes: list[Outcome] = []
    with StepBar(sum(1 + len(references) * runs_of(cases, rig) for rig in rigs), "run") as bar:
        for rig in rigs:
            bar.stage(f"{rig.arm.name} friction", 1)
            ready = with_friction(rig)
            if ready.friction is not None:
                ready.friction.save(
                    folder / f"friction-{rig.arm.name}.yaml",
                    rig.arm.name,
                    f"a sweep of {IDENTIFICATION:g} s on plant {rig.gap.name}",
                )
            for reference in references:
                trajectory = make_reference(reference, RigidBody(rig.arm), arguments.duration)
                outcomes += run_reference(ready, reference, trajectory, cases, arguments.seed, bar.stage)
    return outcomes
