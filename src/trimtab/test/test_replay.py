"""Replay: what was recorded comes out bit for bit, a good model passes, and each sabotaged one fails for its reason."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import sabotage
from hypothesis import given
from hypothesis import strategies as st

from trimtab.arm import Arm
from trimtab.bag import write_log
from trimtab.cli.main import main
from trimtab.control.friction import FrictionModel
from trimtab.dynamics import RigidBody
from trimtab.errors import ConfigError, LogError
from trimtab.names import needs_friction
from trimtab.plant import load_gap
from trimtab.recording.describe import describe
from trimtab.reference import make_reference
from trimtab.replay.policy import load_policy
from trimtab.replay.prediction import JointSums
from trimtab.replay.tally import Tally
from trimtab.replay.task import BagResult, Task, replay_bag, try_bag
from trimtab.replay.verdict import ALL, FAIL, INCONCLUSIVE, PASS, Check, Verdict, judge
from trimtab.residual.bundle import load_bundle
from trimtab.residual.runtime import ResidualModel
from trimtab.share import share_directory
from trimtab.simulate import identify_friction, simulate

BEST = "friction+adaptive+observer"
Record = Callable[..., Path]


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """`record(arm, ...)`: a bag as `trimtab run` writes it, made once for the same arguments."""
    made: dict[str, Path] = {}
    friction: dict[str, tuple[FrictionModel, str]] = {}

    def make(
        arm: Arm,
        controller: str = BEST,
        model: str = "mlp",
        plant: str = "worn",
        reference: str = "infinity",
        duration: float = 6.0,
        **labels: str,
    ) -> Path:
        key = repr((arm.name, controller, model, plant, reference, duration, sorted(labels.items())))
        if key not in made:
            folder = tmp_path_factory.mktemp("bags")
            gap, body = load_gap(plant, arm), RigidBody(arm)
            found, text = None, ""
            if needs_friction(controller):
                place = f"{arm.name}-{plant}"
                if place not in friction:
                    identified = identify_friction(arm, gap)
                    identified.save(folder / "friction.yaml", arm.name, "a sweep")
                    friction[place] = identified, (folder / "friction.yaml").read_text()
                found, text = friction[place]
            residual = ResidualModel(load_bundle(model, arm), arm) if model else None
            log = simulate(
                arm, gap, controller, make_reference(reference, body, duration), reference=reference, seed=3,
                friction=found, residual=residual, bounds=None if residual is None else residual.bounds,
            )  # fmt: skip
            context = describe(
                arm, plant=plant, controller=controller, friction=text, residual="on" if model else "off", model=model,
                delivery="loop", reference=reference, labels=labels,
            )  # fmt: skip
            made[key] = write_log(folder / "bag", log, context)
        return made[key]

    return make


def verdict_on(bag: Path, candidate: Path | str, **options: str) -> Verdict:
    return judge([try_bag(Task(str(bag), str(candidate), **options))], load_policy())


def failed(verdict: Verdict) -> set[str]:
    return {one.criterion for one in verdict.checks if one.outcome == FAIL}


def check(verdict: Verdict, criterion: str) -> Check:
    return next(one for one in verdict.checks if one.criterion == criterion and one.context == ALL)


def test_a_run_of_every_arm_is_recomputed_bit_for_bit(arm: Arm, record: Record) -> None:
    result = replay_bag(Task(str(record(arm, reference="plum", duration=3.0)), "mlp"))
    assert result.agreement is not None
    assert result.agreement.of == "candidate"
    assert result.agreement.exact == result.agreement.rows == round(4.0 * arm.rate)


@pytest.mark.parametrize("controller", ["pd", "computed_torque+integral+observer", "adaptive"])
def test_so_is_one_without_a_model(so101: Arm, record: Record, controller: str) -> None:
    bag = record(so101, controller, model="", plant="field", reference="reach", duration=2.0)
    result = replay_bag(Task(str(bag), "mlp"))
    assert result.agreement is not None
    assert result.agreement.of == "classical"
    assert result.agreement.exact == result.agreement.rows > 500


def test_a_bag_of_another_model_is_recomputed_with_that_model(ur5e: Arm, record: Record, tmp_path: Path) -> None:
    flipped = sabotage.sabotaged(tmp_path, ur5e, sabotage.sign_flipped(2))
    result = replay_bag(Task(str(record(ur5e)), str(flipped)))
    assert result.agreement is not None
    assert (result.agreement.of, result.agreement.exact) == ("recorded", result.agreement.rows)


def test_the_same_bag_gives_the_same_result(so101: Arm, record: Record) -> None:
    task = Task(str(record(so101, reference="plum", duration=3.0)), "mlp")
    results = [replay_bag(task) for _ in range(2)]
    for result in results:
        for tally in result.tallies.values():
            tally.latency = []  # the one thing that differs
    assert results[0] == results[1]
    assert BagResult.from_dict(json.loads(json.dumps(results[0].as_dict()))) == results[0]


def test_the_good_model_passes(ur5e: Arm, record: Record) -> None:
    verdict = verdict_on(record(ur5e), "mlp")
    assert verdict.outcome == PASS, verdict.reasons
    assert check(verdict, "error").value < 0.8  # type: ignore[operator]


@pytest.mark.parametrize("joint", [0, 2, 3, 4])
def test_a_flipped_sign_fails_in_that_joint(ur5e: Arm, record: Record, tmp_path: Path, joint: int) -> None:
    verdict = verdict_on(record(ur5e), sabotage.sabotaged(tmp_path, ur5e, sabotage.sign_flipped(joint)))
    assert verdict.outcome == FAIL
    blamed = {one.joint for one in verdict.checks if one.outcome == FAIL and one.criterion in ("direction", "joint_error")}
    assert blamed == {ur5e.joints[joint]}
    if joint > 0:  # in the first joint little happens: there its error tells
        assert "pushes the wrong way" in check(verdict, "direction").reason


def test_an_answer_that_is_a_cycle_late_fails_for_that_alone(ur5e: Arm, record: Record, tmp_path: Path) -> None:
    verdict = verdict_on(record(ur5e), sabotage.sabotaged(tmp_path, ur5e, sabotage.one_cycle_late))
    assert failed(verdict) == {"late"}
    assert "a cycle late" in check(verdict, "late").reason


def test_a_wrong_normalisation_fails_by_what_it_does_to_the_error(ur5e: Arm, record: Record, tmp_path: Path) -> None:
    verdict = verdict_on(record(ur5e), sabotage.sabotaged(tmp_path, ur5e, sabotage.wrongly_normalised))
    assert {"unsure", "error", "scale"} <= failed(verdict)


def test_numbers_that_are_not_finite_fail_and_are_counted(ur5e: Arm, record: Record, tmp_path: Path) -> None:
    verdict = verdict_on(record(ur5e), sabotage.sabotaged(tmp_path, ur5e, sabotage.not_finite))
    assert {"not_finite", "residual_off"} <= failed(verdict)
    assert 0.003 < (check(verdict, "not_finite").value or 0.0) < 0.03
    assert "it is not finite: that of joint" in check(verdict, "residual_off").reason


def test_a_model_of_another_arm_fails_with_its_own_manifest_and_behind_a_false_one(
    ur5e: Arm, record: Record, tmp_path: Path
) -> None:
    honest = verdict_on(record(ur5e), share_directory() / "models" / "wam" / "mlp" / "1")
    assert failed(honest) == {"bundle"}
    assert "is for the arm 'wam', not 'ur5e'" in honest.reasons[0]
    assert {"unsure"} <= failed(verdict_on(record(ur5e), sabotage.of_another_arm(tmp_path, ur5e, "wam")))


def test_a_better_mean_does_not_hide_a_worse_payload(ur5e: Arm, record: Record) -> None:
    good = try_bag(Task(str(record(ur5e)), "mlp"))
    light, heavy = (replace(good, context={"payload": word}) for word in ("none", "2kg"))
    # With the heavy one, every joint would have needed the opposite.
    heavy.sums = [replace(one, bx={role: -value for role, value in one.bx.items()}) for one in good.sums]
    verdict = judge([light] * 9 + [heavy], load_policy())
    assert verdict.outcome == FAIL
    assert {one.context for one in verdict.checks if one.outcome == FAIL} == {"payload=2kg"}
    assert any("payload=2kg" in reason and "pushes the wrong way" in reason for reason in verdict.reasons)


def test_a_baseline_is_compared_with(ur5e: Arm, record: Record, tmp_path: Path) -> None:
    flipped = str(sabotage.sabotaged(tmp_path, ur5e, sabotage.sign_flipped(2)))
    assert check(verdict_on(record(ur5e), "mlp", baseline=flipped), "error_to_baseline").outcome == PASS
    worse = verdict_on(record(ur5e), flipped, baseline="mlp")
    assert check(worse, "error_to_baseline").outcome == FAIL


def test_too_little_motion_and_too_little_to_compare_are_inconclusive(ur5e: Arm, record: Record) -> None:
    result = try_bag(Task(str(record(ur5e)), "mlp", limit=1))
    verdict = judge([replace(result, seconds=1.0)], load_policy())
    assert verdict.outcome == INCONCLUSIVE
    assert any("of motion, 5 are needed" in reason for reason in verdict.reasons)


def test_a_bag_that_cannot_be_replayed_does_not_end_the_others(ur5e: Arm, record: Record, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    results = [try_bag(Task(str(path), "mlp")) for path in (record(ur5e), tmp_path / "empty")]
    verdict = judge(results, load_policy())
    assert verdict.outcome == INCONCLUSIVE
    assert "1 of 2 bags could not be replayed" in verdict.reasons[0]


def test_a_bag_without_its_friction_is_refused_with_what_to_do(ur5e: Arm, record: Record) -> None:
    bag = record(ur5e, "pd", model="", duration=2.0)
    with pytest.raises(LogError, match="give --friction FILE"):
        replay_bag(Task(str(bag), "mlp", controller="friction"))


@given(
    st.lists(st.tuples(st.floats(-1.0, 1.0), st.floats(-1.0, 1.0)), min_size=1, max_size=20),
    st.integers(0, 20),
)
def test_sums_add_up_however_bags_are_divided(rows: list[tuple[float, float]], at: int) -> None:
    def sums(part: list[tuple[float, float]]) -> JointSums:
        b, x = np.array(part or np.empty((0, 2))).reshape(-1, 2).T
        return JointSums(len(part), 0.0, float(b @ b), {"candidate": float(b @ x)}, {"candidate": float(x @ x)})

    whole, first, second = sums(rows), sums(rows[:at]), sums(rows[at:])
    assert first.bb + second.bb == pytest.approx(whole.bb)
    left = [b - x for b, x in rows]
    assert whole.error("candidate") == pytest.approx(np.sqrt(np.mean(np.square(left))), abs=1e-7)


def test_percentiles_of_a_tally() -> None:
    tally = Tally(1)
    tally.confidence[99], tally.confidence[10] = 90, 10
    assert tally.confidence_at(5) == pytest.approx(0.10)
    assert tally.confidence_at(50) == pytest.approx(0.99)
    assert tally.unsure(0.5) == pytest.approx(0.1)


# The command ----------------------------------------------------------------------------------------------------------


def test_the_command_writes_everything_and_says_by_its_exit_code(
    ur5e: Arm, record: Record, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {key: tmp_path / f"out.{key}" for key in ("json", "junit", "html")}
    options = [word for key, file in files.items() for word in (f"--{key}", str(file))]
    flipped = sabotage.sabotaged(tmp_path, ur5e, sabotage.sign_flipped(2))
    bag = str(record(ur5e, payload="1kg"))
    assert main(["replay", bag, "--candidate", str(flipped), *options]) == 1
    printed = capsys.readouterr().out
    assert "payload=1kg" in printed
    assert printed.rstrip().endswith("verdict: fail")
    document = json.loads(files["json"].read_text())
    assert document["verdict"]["outcome"] == "fail"
    suites = ElementTree.parse(files["junit"]).getroot()
    assert {suite.get("name") for suite in suites} == {"all", "payload=1kg", "plant=worn"}
    failures = {case.get("name") for case in suites.iter("testcase") if case.find("failure") is not None}
    assert "direction" in failures
    page = files["html"].read_text()
    assert "pushes the wrong way" in page
    assert page.count("data:image/png;base64,") == 2
    assert "http" not in page.replace("http://www.w3.org", "")


def test_the_command_passes_a_good_model(ur5e: Arm, record: Record) -> None:
    assert main(["replay", str(record(ur5e)), "--candidate", "mlp"]) == 0


def test_closed_loop_is_told_apart(so101: Arm, record: Record, capsys: pytest.CaptureFixture[str]) -> None:
    bag = str(record(so101, reference="plum", duration=3.0))
    assert main(["replay", bag, "--candidate", "mlp", "--resimulate", "worn"]) in (0, 1, 3)
    assert "closed loop in simulation, not what the robot did" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["nowhere", "--candidate", "mlp"], "does not exist"),
        ([".", "--candidate", "mlp"], "has none below it"),
        (["empty.mcap", "--candidate", "mlp"], "was cut off"),
        ([".", "--candidate", "mlp", "--jobs", "0"], "give one or more"),
        ([".", "--candidate", "mlp", "--policy", "x.yaml"], "does not exist"),
        ([".", "--candidate", "mlp", "--arm", "ur5e", "--effort", "mA"], "needs torque constants"),
    ],
)
def test_a_wrong_command_is_refused(
    words: list[str], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "below").mkdir()
    if words[0].endswith(".mcap"):
        Path(words[0]).touch()
    assert main(["replay", *words]) == 2
    assert problem in capsys.readouterr().err


def test_an_unknown_threshold_is_refused(tmp_path: Path) -> None:
    text = (share_directory() / "config" / "replay.yaml").read_text()
    file = tmp_path / "policy.yaml"
    for change, problem in (
        ("  eror: 1.0", "eror is not a known field"),
        ("contexts:\n  heavy: {}", "write it as label=value"),
    ):
        file.write_text(text + change.replace("  eror", "eror") + "\n")
        with pytest.raises(ConfigError, match=problem):
            load_policy(file)
    file.write_text(text + "contexts:\n  payload=2kg: {error: 1.5}\n")
    policy = load_policy(file)
    assert (policy.of("payload=2kg").error, policy.of(ALL).error) == (1.5, policy.thresholds.error)
