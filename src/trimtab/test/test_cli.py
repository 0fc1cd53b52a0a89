"""The command line: runs end to end, refuses with the known names, and is fast where it only talks."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from trimtab import bag
from trimtab import simulate as simulation
from trimtab.arm import Arm, load_arm
from trimtab.bag import read_log, write_log
from trimtab.cli import folder, run
from trimtab.cli import main as cli
from trimtab.cli.main import main
from trimtab.control.friction import FrictionModel, load_friction
from trimtab.dynamics import RigidBody
from trimtab.faults import Fault, Level
from trimtab.names import CONTROLLERS, REFERENCES, arm_names, plant_names
from trimtab.plant import load_gap
from trimtab.recording.context import RecordingContext
from trimtab.recording.describe import revision
from trimtab.reference import Trajectory, make_reference
from trimtab.runlog import RunLog
from trimtab.simulate import simulate

# The plant `worn` without play, cogging and noise: friction is all there is to find.
DRY = """\
plant: dry
description: dry joints, nothing else
friction: {{coulomb: 0.03, breakaway_factor: {breakaway}, stribeck_speed: 0.02, viscous: 0.06}}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def arm() -> Arm:
    return load_arm("ur5e")


def quick(*more: str) -> list[str]:
    return ["run", "--duration", "4", "--reference", "reach", "--no-pictures", *more]


def test_a_residual_is_one_more_run_with_its_own_plot_and_topic(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["run", "--arm", "so101", "--plant", "worn", "--duration", "4", "--no-pictures", "--out", "learned"]
    stack = "friction+adaptive+observer"
    assert main([*given, "--controller", stack, "--residual", "mlp"]) == 0
    out = capsys.readouterr().out
    assert f"{stack}+mlp " in out
    assert Path("learned/residual.png").is_file()
    assert "authority that it has earned" in Path("learned/index.html").read_text()
    metadata = (Path("learned/bags") / f"{stack}+mlp" / "metadata.yaml").read_text()
    assert "/residual_torque" in metadata
    assert "/residual_torque" not in (Path("learned/bags") / stack / "metadata.yaml").read_text()
    scores = json.loads(Path("learned/scores.json").read_text())["scores"]
    assert [row["controller"] for row in scores] == [stack, f"{stack}+mlp"]
    # The bag holds what it takes to compute the run again.
    context = RecordingContext.from_custom_data(yaml.safe_load(metadata)["rosbag2_bagfile_information"]["custom_data"])
    assert (context.controller, context.residual, context.bundle) == (stack, "on", "mlp/1")
    assert context.friction == Path("learned/friction.yaml").read_text()
    assert context.contract == load_arm("so101").file.read_text()
    assert (context.plant, context.seed, context.reference, context.delivery) == ("worn", "0", "plum", "loop")
    assert (context.revision, context.dirty) == revision()


def test_a_residual_on_another_stack_is_noted_and_one_of_another_arm_refused(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(quick("--arm", "so101", "--controller", "pd", "--residual", "mlp", "--out", "other")) == 0
    assert "trained on top of 'friction+adaptive+observer', not 'pd'" in capsys.readouterr().out
    assert main(quick("--residual", "mlp/99")) == 2
    assert "no bundle 'mlp/99' for ur5e (known: mlp/1)" in capsys.readouterr().err


def test_one_controller_leaves_a_page_a_bag_and_both_tables(
    here: Path, capsys: pytest.CaptureFixture[str], arm: Arm
) -> None:
    assert main(quick("--out", "one")) == 0
    out = capsys.readouterr().out
    assert "computed_torque" in out
    assert all(joint in out for joint in arm.joints)
    page = Path(out.splitlines()[-1].removeprefix("page:").strip())
    assert page.is_file()
    assert "folder: one" in out
    read = read_log(Path("one/bags/computed_torque"), arm)
    assert len(read.t) > 500
    assert not (page.parent / "picture.png").exists()
    assert not list(Path("one").rglob("*.gif"))


def test_compared_controllers_get_a_bag_each_and_friction_is_identified(
    here: Path, capsys: pytest.CaptureFixture[str], arm: Arm
) -> None:
    assert main(quick("--plant", "worn", "--compare", "pd,friction", "--out", "two")) == 0
    out = capsys.readouterr().out
    assert "no --friction given: identifying it" in out
    assert {folder.name for folder in Path("two/bags").iterdir()} == {"pd", "friction"}
    assert (load_friction(Path("two/friction.yaml"), arm).coulomb > 0.0).all()


def test_a_given_friction_model_is_used(here: Path, capsys: pytest.CaptureFixture[str], arm: Arm) -> None:
    body = RigidBody(arm)
    zeros = np.zeros(arm.dof)
    FrictionModel(arm.joints, zeros, zeros, zeros + 0.1, zeros, zeros).save(Path("none.yaml"), arm.name, "nothing")
    assert main(quick("--controller", "friction", "--friction", "none.yaml", "--out", "given")) == 0
    assert "identifying" not in capsys.readouterr().out
    assert not Path("given/friction.yaml").exists()
    # A model without friction changes nothing of computed torque.
    trajectory = make_reference("reach", body, 4.0)
    expected = simulate(arm, load_gap("nominal", arm), "computed_torque", trajectory)
    np.testing.assert_array_equal(read_log(Path("given/bags/friction"), arm).torque, expected.torque)


def test_the_default_folder_names_what_was_run(here: Path) -> None:
    assert main(quick()) == 0
    (made,) = Path("runs").iterdir()
    assert made.name.endswith("-ur5e-nominal-reach")


def test_two_runs_within_a_second_do_not_share_a_folder(here: Path, monkeypatch: pytest.MonkeyPatch, arm: Arm) -> None:
    body = RigidBody(arm)
    setup = run.Setup(arm, load_gap("nominal", arm), ["pd"], "reach", make_reference("reach", body, 4.0), 0)

    class Clock:
        @staticmethod
        def now(zone: tzinfo) -> datetime:
            return datetime(2025, 1, 2, 3, 4, 5, tzinfo=zone)

    monkeypatch.setattr(folder, "datetime", Clock)
    first, second = run.claim(None, setup), run.claim(None, setup)
    assert (first.name, second.name) == ("20250102-030405-ur5e-nominal-reach", "20250102-030405-ur5e-nominal-reach-2")


def test_a_folder_that_holds_something_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("full").mkdir()
    (Path("full") / "precious").touch()
    assert main(quick("--out", "full")) == 2
    assert "trimtab: error: --out full is not an empty folder" in capsys.readouterr().err
    assert main(quick("--out", "full/precious")) == 2
    assert [file.name for file in Path("full").iterdir()] == ["precious"]


@pytest.mark.parametrize(
    ("option", "known"),
    [
        ("--arm", arm_names()),
        ("--plant", plant_names()),
        ("--reference", REFERENCES),
        ("--controller", CONTROLLERS),
        ("--compare", CONTROLLERS),
    ],
)
def test_unknown_names_are_refused_with_the_known_ones(
    here: Path, capsys: pytest.CaptureFixture[str], option: str, known: Sequence[str]
) -> None:
    words = ["run", option, "pd,nonsense" if option == "--compare" else "nonsense"]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith("trimtab: error: unknown ")
    assert "'nonsense'" in error
    assert all(name in error for name in known)
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--compare", "pd,pd"], "named twice in --compare"),
        (["--duration", "0.5"], "more than one second"),
        (["--duration", "nan"], "more than one second"),
        (["--friction", "absent.yaml"], "absent.yaml: cannot be read"),
        (["--arm", "absent.yaml"], "arm file absent.yaml does not exist"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_written(
    here: Path, capsys: pytest.CaptureFixture[str], words: list[str], text: str
) -> None:
    assert main(["run", *words]) == 2
    assert text in capsys.readouterr().err
    assert list(here.iterdir()) == []


def test_controller_and_compare_exclude_each_other(here: Path) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["run", "--controller", "pd", "--compare", "pd,friction"])
    assert stop.value.code == 2


def test_a_latched_fault_gives_exit_code_1(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def faulty(*args: Any, **kwargs: Any) -> RunLog:
        return replace(simulate(*args, **kwargs), fault=Fault(Level.HOLD, "joint 'elbow_joint' got lost", 1.25))

    monkeypatch.setattr(simulation, "simulate", faulty)
    assert main(quick("--out", "fault")) == 1
    assert "fault: computed_torque ended in hold at 1.250 s: joint 'elbow_joint' got lost" in capsys.readouterr().out


def test_an_interrupt_returns_130_and_leaves_no_part_of_a_bag(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bag, "_trajectory", interrupt)
    assert main(quick("--out", "stopped")) == 130
    assert "interrupted" in capsys.readouterr().err
    assert list(Path("stopped/bags").iterdir()) == []


@pytest.mark.parametrize(
    ("breakaway", "tolerance"),
    [
        (1.0, 0.05),
        # As on `worn`. The model has no Stribeck term: of the torque at low speed a part goes to Coulomb, off viscous.
        (1.5, 0.10),
    ],
)
def test_friction_is_recovered_through_a_bag(here: Path, arm: Arm, breakaway: float, tolerance: float) -> None:
    Path("dry.yaml").write_text(DRY.format(breakaway=breakaway))
    gap = load_gap("dry.yaml", arm)
    trajectory = make_reference("sweep", RigidBody(arm), 20.0)
    write_log(Path("sweep"), simulate(arm, gap, "computed_torque+integral", trajectory))
    assert main(["fit", "friction", "sweep", "--arm", "ur5e"]) == 0
    model = load_friction(Path("friction-ur5e.yaml"), arm)
    assert gap.friction is not None
    np.testing.assert_allclose(model.coulomb, gap.friction.coulomb, rtol=tolerance)
    np.testing.assert_allclose(model.viscous, gap.friction.viscous, rtol=tolerance)


def test_the_table_of_a_fit_says_how_much_is_explained(here: Path, capsys: pytest.CaptureFixture[str], arm: Arm) -> None:
    trajectory = make_reference("sweep", RigidBody(arm), 8.0)
    write_log(Path("sweep"), simulate(arm, load_gap("worn", arm), "computed_torque+integral", trajectory))
    assert main(["fit", "friction", "sweep", "--arm", "ur5e", "--out", "found.yaml"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.endswith("%")]
    assert [row[0] for row in rows] == list(arm.joints)
    assert all(50 <= int(row[-1].rstrip("%")) <= 100 for row in rows)
    model = load_friction(Path("found.yaml"), arm)
    shown = np.array([[float(cell) for cell in row[1:-1]] for row in rows]).T
    fitted = np.array([model.coulomb, model.viscous, model.inertia, model.offset, model.speed])
    np.testing.assert_allclose(shown, fitted, atol=6e-5)


def test_a_log_that_cannot_be_fitted_is_refused(here: Path, capsys: pytest.CaptureFixture[str], arm: Arm) -> None:
    trajectory = make_reference("reach", RigidBody(arm), 4.0)
    write_log(Path("bag"), simulate(arm, load_gap("nominal", arm), "pd", trajectory))
    assert main(["fit", "friction", "bag", "--arm", "wam", "--out", "f.yaml"]) == 2
    assert "bag: /joint_states: joint 'base_yaw' is missing" in capsys.readouterr().err
    assert main(["fit", "friction", "bag", "--arm", "ur5e", "--torques", "/effort", "--out", "f.yaml"]) == 2
    assert "has no topic /effort" in capsys.readouterr().err
    resting = simulate(arm, load_gap("nominal", arm), "pd", Trajectory.through(np.array([0.0]), arm.home[None, :]))
    write_log(Path("resting"), resting)
    assert main(["fit", "friction", "resting", "--arm", "ur5e", "--out", "f.yaml"]) == 2
    assert "resting: joint 'shoulder_pan_joint' hardly moves" in capsys.readouterr().err
    assert not Path("f.yaml").exists()


def test_arms_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["arms"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in arm_names())
    assert "500 Hz  the robot does it" in out
    assert "shoulder_pan_joint" in out


def test_contracts_are_checked(here: Path, capsys: pytest.CaptureFixture[str], arm: Arm) -> None:
    broken = Path("broken.yaml")
    broken.write_text(arm.file.read_text().replace("\nrate: 500", "\nrate: 100"))
    assert main(["arms", "--check", str(arm.file)]) == 0
    assert ": ok: ur5e, 6 joints" in capsys.readouterr().out
    assert main(["arms", "--check", str(arm.file), "broken.yaml"]) == 1
    assert "broken.yaml: refused: broken.yaml: rate is 100 Hz" in capsys.readouterr().out


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "trimtab run" in capsys.readouterr().err


def test_help_lists_the_names(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["run", "--help"])
    assert stop.value.code == 0
    out = capsys.readouterr().out
    for name in (*arm_names(), *plant_names(), *REFERENCES, *CONTROLLERS):
        assert name in out
    assert "(default: ur5e)" in out


def test_help_imports_nothing_heavy() -> None:
    code = """
import json, sys
from trimtab.cli import main
main.entry_points = lambda group: []  # what other packages import is theirs to keep small
main.build_parser().format_help()
print(json.dumps(list(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"mujoco", "matplotlib", "pinocchio", "scipy", "rclpy", "rosbags", "mcap"} & set(json.loads(done.stdout))


def test_the_module_runs_as_a_script() -> None:
    done = subprocess.run([sys.executable, "-m", "trimtab.cli.main", "arms"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "ur5e" in done.stdout


def register_greet(subparsers: Any) -> None:
    subparsers.add_parser("greet", help="says hello").set_defaults(command=lambda _: print("hello") or 0)


def test_installed_commands_are_found_and_a_broken_one_is_only_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Found:
        name, value = "greet", "somewhere:register"

        def load(self) -> object:
            return register_greet

    broken = EntryPoint("broken", "no_such_module:register", cli.GROUP)
    monkeypatch.setattr(cli, "entry_points", lambda group: [broken, Found()] if group == cli.GROUP else [])
    assert main(["greet"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "hello\n"
    assert captured.err.splitlines() == [
        "trimtab: warning: command 'broken' (no_such_module:register) is broken: "
        "ModuleNotFoundError: No module named 'no_such_module'"
    ]


def test_a_folder_that_cannot_be_made_is_one_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").touch()
    assert main(quick("--out", "file/run")) == 2
    error = capsys.readouterr().err
    assert error.startswith("trimtab: error: ")
    assert "Not a directory" in error
