"""`trimtab run`: an arm follows a reference in lockstep simulation; leaves scores, a page and bags."""

import argparse
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.cli.folder import claim_folder
from trimtab.errors import ConfigError

if TYPE_CHECKING:
    from trimtab.arm import Arm
    from trimtab.control.friction import FrictionModel
    from trimtab.metrics import Score
    from trimtab.plant import PlantGap
    from trimtab.recording.context import RecordingContext
    from trimtab.reference import Trajectory
    from trimtab.residual.runtime import ResidualModel
    from trimtab.runlog import RunLog

FAULTED = 1
LOOP = "loop"
"""How messages get from plant to controller here: not at all. The other ways are in `names.DELIVERIES`."""

DESCRIPTION = """\
Simulates an arm that follows a reference, with one controller or several side by side. The plant differs from what
the controllers believe as its file says (friction, payload, backlash, delay, ...). Needs no ROS; the same seed gives
the same numbers, but for what the stages of a cycle took.

Writes to the folder given by --out:
  index.html                  a page with plots, pictures and scores, all in one file
  scores.json, *.png, *.gif   the same as single files
  bags/<controller>/          a rosbag2 MCAP bag: /joint_states, /torque_command, /reference
  friction.yaml               the friction model, if one was identified"""


@dataclass
class Setup:
    """All that a run needs, loaded and checked before anything is written."""

    arm: "Arm"
    gap: "PlantGap"
    controllers: list[str]
    reference: str
    trajectory: "Trajectory"
    seed: int
    friction: "FrictionModel | None" = None
    friction_text: str = ""
    """Its file."""
    identify: bool = False
    """Whether a controller needs a friction model that nobody gave."""
    residual: "ResidualModel | None" = None
    """A learned torque, for one more run on top of the controller that it was trained with."""
    notes: list[str] = field(default_factory=list)
    """Remarks for the page."""

    @property
    def residual_controller(self) -> str:
        """The classical controller under the residual: the one that was asked for, or the one it was trained with."""
        assert self.residual is not None
        return self.controllers[0] if len(self.controllers) == 1 else self.residual.bundle.manifest.controller

    def runs(self) -> list[tuple[str, str, "ResidualModel | None"]]:
        """What to simulate: label, controller, residual."""
        plain: list[tuple[str, str, ResidualModel | None]] = [(text, text, None) for text in self.controllers]
        if self.residual is None:
            return plain
        text = self.residual_controller
        return [*plain, (f"{text}+{self.residual.bundle.manifest.name}", text, self.residual)]


def register(subparsers: Any) -> None:
    """Adds `trimtab run`."""
    parser = subparsers.add_parser(
        "run", help="simulate an arm and compare controllers", description=DESCRIPTION, closing=names
    )
    parser.add_argument("--arm", default="ur5e", help="name or path of the arm's contract")
    parser.add_argument("--plant", default="nominal", help="name or path of the plant")
    parser.add_argument("--reference", default="plum", help="what the arm is to follow")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--controller", default="computed_torque", help="words joined by +, for instance friction+observer")
    which.add_argument("--compare", metavar="A,B,...", help="several controllers on the same plant, seed and reference")
    parser.add_argument(
        "--residual",
        metavar="BUNDLE",
        help="one more run with a learned torque on top: of the one --controller, or of what the bundle was trained with",
    )
    parser.add_argument("--keys", type=Path, metavar="FILE", help="public keys; the bundle must be signed with one of them")
    parser.add_argument("--duration", type=float, default=10.0, metavar="S", help="length of the reference in seconds")
    parser.add_argument("--seed", type=int, default=0, help="seed of the plant's noise")
    parser.add_argument(
        "--friction", type=Path, metavar="FILE", help="identified friction (default: identified in simulation if needed)"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="new or empty folder (default: runs/<time>-<arm>-<plant>-<reference>)"
    )
    parser.add_argument("--no-pictures", action="store_true", help="leave out the rendered pictures of the arm")
    parser.set_defaults(command=_run)


def names() -> str:
    """Names that the options take, and examples."""
    from trimtab.names import COMPENSATORS, LAWS, REFERENCES, arm_names, plant_names

    return f"""\
names:
  --arm         {", ".join(arm_names())}
  --plant       {", ".join(plant_names())}
  --reference   {", ".join(REFERENCES)}
  --controller  one law ({", ".join(LAWS)}) and any compensators ({", ".join(COMPENSATORS)});
                compensators alone are added to computed_torque

examples:
  trimtab run
  trimtab run --arm wam --plant worn --reference infinity --controller friction+observer
  trimtab run --plant worn --compare pd,computed_torque,friction,observer --out runs/worn
  trimtab run --plant worn --controller friction+adaptive+observer --residual mlp
  trimtab run --plant ./my_plant.yaml --duration 20 --seed 3 --no-pictures"""


def _run(arguments: argparse.Namespace) -> int:
    setup = prepare(arguments)
    folder = claim(arguments.out, setup)
    print(
        f"{setup.arm.name} on plant '{setup.gap.name}' follows '{setup.reference}' "
        f"for {setup.trajectory.duration:.1f} s, seed {setup.seed}"
    )
    logs, scores = simulate_all(setup, folder)
    print(_tables(scores))
    page = _report(setup, folder, logs, scores, pictures=not arguments.no_pictures)
    faulted = [log for log in logs if log.fault is not None]
    for log in faulted:
        assert log.fault is not None
        print(f"fault: {log.controller} ended in {log.fault.level.label} at {log.fault.time:.3f} s: {log.fault.reason}")
    print(f"folder: {folder}\npage:   {page}")
    return FAULTED if faulted else 0


def prepare(arguments: argparse.Namespace) -> Setup:
    """Loads and checks everything that the arguments name."""
    from trimtab.arm import load_arm
    from trimtab.control.friction import load_friction
    from trimtab.dynamics import RigidBody
    from trimtab.names import needs_friction
    from trimtab.plant import load_gap
    from trimtab.reference import make_reference

    controllers = [word.strip() for word in (arguments.compare or arguments.controller).split(",")]
    wanted = False
    for text in controllers:
        wanted |= needs_friction(text)  # refuses a text that is no controller
        if controllers.count(text) > 1:
            raise ConfigError(f"controller '{text}' is named twice in --compare; name each once")
    if arguments.seed < 0:
        raise ConfigError(f"--seed {arguments.seed} is negative; give zero or more")
    arm = load_arm(arguments.arm)
    gap = load_gap(arguments.plant, arm)
    trajectory = make_reference(arguments.reference, RigidBody(arm), arguments.duration)
    setup = Setup(arm, gap, controllers, arguments.reference, trajectory, arguments.seed)
    if arguments.friction is not None:
        setup.friction = load_friction(arguments.friction, arm)
        setup.friction_text = arguments.friction.read_text(encoding="utf-8")
        setup.notes.append(f"Friction model: {arguments.friction}.")
    if arguments.residual is not None:
        setup.residual = _residual(arguments, setup)
        wanted |= needs_friction(setup.residual_controller)
    setup.identify = wanted and setup.friction is None
    return setup


def _residual(arguments: argparse.Namespace, setup: Setup) -> "ResidualModel":
    from trimtab.names import parse_controller
    from trimtab.residual.bundle import load_bundle
    from trimtab.residual.runtime import ResidualModel

    model = ResidualModel(load_bundle(arguments.residual, setup.arm, arguments.keys), setup.arm)
    manifest = model.bundle.manifest
    setup.notes.append(f"Residual: {manifest.name}/{manifest.version}, trained on top of {manifest.controller}.")
    if len(setup.controllers) == 1 and parse_controller(setup.controllers[0]) != parse_controller(manifest.controller):
        note = (
            f"{manifest.name} was trained on top of '{manifest.controller}', not '{setup.controllers[0]}': expect less of it"
        )
        print(f"note: {note}")
        setup.notes.append(note + ".")
    return model


def claim(out: Path | None, setup: Setup) -> Path:
    """Makes the run's folder; refuses one that holds something."""
    return claim_folder(out, f"{setup.arm.name}-{setup.gap.name}-{setup.reference}")


def simulate_all(setup: Setup, folder: Path) -> tuple[list["RunLog"], list["Score"]]:
    """Runs each controller, writes its bag and scores it. Identifies friction first where that was left to us."""
    from trimtab.bag import write_log
    from trimtab.cli.progress import StepBar
    from trimtab.dynamics import RigidBody
    from trimtab.metrics import score
    from trimtab.simulate import IDENTIFICATION, SETTLE, identify_friction, simulate, steps_of

    arm, gap, body = setup.arm, setup.gap, RigidBody(setup.arm)
    steps = steps_of(arm, setup.trajectory)
    sweep = round((IDENTIFICATION + SETTLE) * arm.rate) if setup.identify else 0
    logs: list[RunLog] = []
    scores: list[Score] = []
    if setup.identify:
        print(f"no --friction given: identifying it from a sweep of {IDENTIFICATION:g} s on this plant")
    runs = setup.runs()
    with StepBar(sweep + steps * len(runs)) as bar:
        if setup.identify:
            bar.stage("identify friction", sweep)
            setup.friction = identify_friction(arm, gap, bar.advance)
            setup.friction.save(folder / "friction.yaml", arm.name, f"a sweep of {IDENTIFICATION:g} s on plant {gap.name}")
            setup.friction_text = (folder / "friction.yaml").read_text(encoding="utf-8")
            setup.notes.append(
                f"Friction was identified from a sweep of {IDENTIFICATION:g} s on this plant (friction.yaml)."
            )
        for label, text, residual in runs:
            bar.stage(label, steps)
            log = simulate(
                arm,
                gap,
                text,
                setup.trajectory,
                reference=setup.reference,
                seed=setup.seed,
                friction=setup.friction,
                residual=residual,
                bounds=None if residual is None else residual.bounds,
                progress=bar.advance,
            )
            log = replace(log, controller=label)
            write_log(folder / "bags" / label, log, _context(setup, text, residual))
            logs.append(log)
            scores.append(score(log, arm, body))
    return logs, scores


def _context(setup: Setup, controller: str, residual: "ResidualModel | None") -> "RecordingContext":
    """What a run's bag tells of itself; its controller is the classical one alone."""
    from trimtab.names import needs_friction
    from trimtab.recording.describe import describe

    return describe(
        setup.arm,
        plant=setup.gap.name,
        controller=controller,
        friction=setup.friction_text if needs_friction(controller) else "",
        residual="off" if residual is None else "on",
        model="" if residual is None else str(residual.bundle.folder),
        delivery=LOOP,
        reference=setup.reference,
        seed=str(setup.seed),
    )


def _tables(scores: list["Score"]) -> str:
    from trimtab.report.tables import comparison_table, joint_table

    tables = [comparison_table(scores)]
    if len(scores) == 1:
        tables.append(joint_table(scores[0]))
    return "\n" + "\n\n".join(table.rstrip() for table in tables) + "\n"


def _report(setup: Setup, folder: Path, logs: list["RunLog"], scores: list["Score"], *, pictures: bool) -> Path:
    from trimtab.cli.progress import StepBar
    from trimtab.report.page import report_parts, write_report

    parts = report_parts(logs, scores, pictures=pictures)
    with StepBar(parts, "part") as bar:
        bar.stage("report", parts)
        page = write_report(folder, setup.arm, setup.gap, logs, scores, setup.notes, bar.advance, pictures=pictures)
    if pictures and not (folder / "picture.png").exists():
        print("no pictures: this machine cannot draw off screen; `trimtab doctor` says what to install")
    return page
