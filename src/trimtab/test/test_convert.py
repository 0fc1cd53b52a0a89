"""Foreign recordings become bags: values as they were, oddities counted and not mended, nonsense refused with a reason."""

import json
import os
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_typestore

from trimtab.arm import load_arm
from trimtab.bag import START, read_log
from trimtab.cli.main import main
from trimtab.convert import writing
from trimtab.convert.mapping import load_mapping
from trimtab.convert.recording import ForeignRun, find_oddities, pd_torque, read_run
from trimtab.convert.tables import Table
from trimtab.convert.writing import write_run
from trimtab.errors import ConfigError, JointNamesError, LogError
from trimtab.foreign import load_embodiment
from trimtab.recording.context import RecordingContext

STORE = get_typestore(Stores.ROS2_JAZZY)
DOF = 7


def rollout(rows: int = 30, seed: int = 0) -> dict[str, np.ndarray]:
    """A rollout as the WAM's recordings hold it: the last state has no reference."""
    random = np.random.default_rng(seed)
    q, qd = random.normal(size=(2, rows, DOF)) * 0.1
    wanted = q[:-1] + random.normal(size=(rows - 1, DOF)) * 0.05
    return {"t": np.arange(rows) / 500.0, "q": q, "qd": qd, "q_des": wanted, "qd_des": qd[:-1] * 0.9}


def save(file: Path, **runs: dict[str, np.ndarray]) -> Path:
    np.savez(file, **{f"{run}.{key}": values for run, columns in runs.items() for key, values in columns.items()})
    return file


def read(file: Path, mapping: str | Path = "wam_pd", arm: str | Path = "wam", rate: float | None = None) -> ForeignRun:
    found = load_mapping(mapping)
    table = Table(file)
    return read_run(table, table.runs(found)[0], found, load_embodiment(arm), rate=rate or found.rate, pd=found.pd)


def messages(bag: Path, topic: str) -> list[tuple[int, Any]]:
    with Reader(bag) as reader:
        wanted = [one for one in reader.connections if one.topic == topic]
        return [(stamp, STORE.deserialize_cdr(data, one.msgtype)) for one, stamp, data in reader.messages(wanted)]


def metadata(bag: Path) -> dict[str, str]:
    found = yaml.safe_load((bag / "metadata.yaml").read_text())["rosbag2_bagfile_information"]["custom_data"]
    assert isinstance(found, dict)
    return found


def mapping_file(folder: Path, **changes: Any) -> Path:
    """Two joints in a CSV, in units that are not ours, in an order that is not the arm's."""
    content = {
        "recording": "mine",
        "joints": ["b", "a"],
        "time": {"from": "ms", "unit": "ms"},
        "position": {"from": ["pb", "pa"], "unit": "deg"},
        "velocity": {"from": ["vb", "va"], "unit": "rpm"},
        "effort": {"from": ["eb", "ea"], "unit": "mA"},
    }
    content |= changes
    file = folder / "mapping.yaml"
    file.write_text(yaml.safe_dump({key: value for key, value in content.items() if value is not None}))
    return file


def foreign_file(folder: Path) -> Path:
    file = folder / "two.yaml"
    file.write_text("foreign: two\njoints: [a, b]\nrate: 100\neffort_unit: A\n")
    return file


def csv_file(folder: Path, text: str = "ms,pa,pb,va,vb,ea,eb\n0,180,0,60,0,1000,5\n10,90,1,30,0,2000,6\n") -> Path:
    file = folder / "log.csv"
    file.write_text(text)
    return file


def test_a_bag_holds_what_the_rollouts_held(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = rollout(seed=1), rollout(seed=2)
    source = save(tmp_path / "rollouts.npz", one=one, two=two)
    given = ["convert", str(source), "--mapping", "wam_pd", "--arm", "wam", "--label", "payload=none"]
    assert main([*given, "--out", str(tmp_path / "bags")]) == 0
    assert "2 bags in" in capsys.readouterr().out
    assert sorted(folder.name for folder in (tmp_path / "bags").iterdir()) == ["one", "two"]
    log = read_log(tmp_path / "bags" / "one", load_arm("wam"))
    assert np.array_equal(log.q, one["q"][:-1])
    assert np.array_equal(log.qd, one["qd"][:-1])
    assert log.dropped == 1  # the last state, for which nothing was wanted
    told = metadata(tmp_path / "bags" / "two")
    assert told["torque_command"] == "reconstructed"
    assert json.loads(told["torque_command_pd"])["kp"][:2] == [200.0, 300.0]
    assert (told["arm"], told["label.payload"], told["rows"], told["run"]) == ("wam", "none", "30", "two")
    ((stamp, reference),) = messages(tmp_path / "bags" / "one", "/reference")
    assert stamp == START
    assert np.array_equal([point.positions for point in reference.points], one["q_des"])
    assert np.array_equal([point.velocities for point in reference.points], one["qd_des"])


def test_the_torque_of_a_pd_is_matched_by_name_and_limited() -> None:
    mapping = load_mapping("wam_pd")
    pd = mapping.pd
    assert pd is not None
    one = rollout()
    for away in (0.0, 1.0):  # within the limits, and far beyond some of them
        torque = pd_torque(pd, np.arange(DOF), one["q"], one["qd"], one["q_des"] + away, one["qd_des"])
        asked = pd.kp * (one["q_des"] + away - one["q"][:-1]) + pd.kd * (one["qd_des"] - one["qd"][:-1])
        assert np.allclose(torque, np.clip(asked, -np.array(pd.limit), pd.limit), atol=1e-12)
        assert (np.abs(torque) == pd.limit).any() == (away > 0.0)
    order = np.arange(DOF)[::-1]
    backwards = pd_torque(pd, order, *(one[key][:, order] for key in ("q", "qd", "q_des", "qd_des")))
    plain = pd_torque(pd, np.arange(DOF), *(one[key] for key in ("q", "qd", "q_des", "qd_des")))
    assert np.array_equal(backwards[:, order], plain)


def test_columns_of_a_csv_come_in_our_units_and_order(tmp_path: Path) -> None:
    run = read(csv_file(tmp_path), mapping_file(tmp_path), foreign_file(tmp_path))
    assert run.joints == ("a", "b")
    assert np.allclose(run.q, np.radians([[180, 0], [90, 1]]))
    assert np.allclose(run.qd, [[2 * np.pi, 0], [np.pi, 0]])
    assert run.effort is not None
    assert np.allclose(run.effort, [[1.0, 0.005], [2.0, 0.006]])
    assert (run.effort_unit, run.rate) == ("A", 100.0)
    assert np.allclose(run.t, [0.0, 0.01])
    bag = write_run(tmp_path / "bag", run, RecordingContext(arm="two"), {})
    states = [message for _, message in messages(bag, "/joint_states")]
    assert np.allclose([state.effort for state in states], run.effort)
    assert list(states[0].name) == ["a", "b"]
    assert metadata(bag)["effort_unit"] == "A"


def test_repeats_and_gaps_stay_and_are_counted(tmp_path: Path) -> None:
    text = "ms,pa,pb,va,vb,ea,eb\n" + "".join(f"{at},{value},0,0,0,0,0\n" for at, value in
        [(0, 1), (10, 1), (20, 1), (30, 2), (80, 3), (80, 4), (70, 5), (90, ""), (100, 6)])  # fmt: skip
    run = read(csv_file(tmp_path, text), mapping_file(tmp_path), foreign_file(tmp_path))
    odd = run.oddities
    assert (odd.rows, odd.repeats, odd.longest_repeat, odd.gaps, odd.steps_back, odd.not_finite) == (9, 2, 2, 2, 2, 1)
    assert odd.longest_gap == pytest.approx(0.05)
    bag = write_run(tmp_path / "bag", run, RecordingContext(), {})
    states = messages(bag, "/joint_states")
    assert len(states) == 9
    assert {key: metadata(bag)[key] for key in ("repeats", "gaps", "steps_back", "not_finite")} == {
        "repeats": "2", "gaps": "2", "steps_back": "2", "not_finite": "1"
    }  # fmt: skip


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40))
def test_repeats_are_counted_as_a_plain_loop_would(values: list[int]) -> None:
    measured = np.array(values, dtype=np.float64)[:, None]
    odd = find_oddities(np.arange(len(values)) * 0.01, measured, 0.01)
    repeats = [later == earlier for earlier, later in pairwise(values)]
    longest = max((len(run) for run in "".join("x" if same else " " for same in repeats).split()), default=0)
    assert (odd.repeats, odd.longest_repeat, odd.gaps, odd.steps_back) == (sum(repeats), longest, 0, 0)


def test_one_array_with_columns_of_several_quantities(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(10, 18))
    run = read(save(tmp_path / "executed.npz", quintic_001={"x": values}), "ur3e_trajectories", "ur3e", rate=250.0)
    assert np.array_equal(np.hstack([run.q, run.qd, run.effort]), values)  # type: ignore[list-item]
    assert np.allclose(np.diff(run.t), 1 / 250.0)
    assert run.sent is None


def test_nothing_is_overwritten_and_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = read(save(tmp_path / "rollouts.npz", one=rollout()))
    bag = write_run(tmp_path / "bag", run, RecordingContext(), {})
    before = sorted((file.name, file.read_bytes()) for file in bag.iterdir())
    with pytest.raises(LogError, match="never overwritten"):
        write_run(bag, run, RecordingContext(), {})
    assert sorted((file.name, file.read_bytes()) for file in bag.iterdir()) == before

    def full(*_: object) -> object:
        raise OSError("no space left")

    monkeypatch.setattr(writing, "_header", full)
    with pytest.raises(OSError, match="no space"):
        write_run(tmp_path / "other", run, RecordingContext(), {})
    assert sorted(file.name for file in tmp_path.iterdir()) == ["bag", "rollouts.npz"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"position": None}, "position is missing"),
        ({"speed": 1}, "speed is not a known field"),
        ({"position": {"from": ["pa"], "unit": "inch"}}, "position.unit must be one of rad, deg"),
        ({"position": {"from": ["x", "y", "z"], "unit": "rad"}}, "names 3 columns for 2 joints"),
        ({"position": {"from": "x", "columns": [0, 3], "unit": "rad"}}, "must be .first, end. of 2 columns"),
        ({"position": {"from": "{run}.q", "unit": "rad"}}, "some columns contain"),
        ({"rate": 100}, "rate is given beside time"),
        ({"pd": {"kp": [1, 1], "kd": [1, 1], "limit": [1, 1]}}, "pd needs velocity and reference.velocity"),
    ],
)
def test_a_wrong_mapping_is_refused(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        load_mapping(mapping_file(tmp_path, **changes))


@pytest.mark.parametrize(
    ("text", "changes", "reason"),
    [
        ("ms,pa\n0,1\n", {}, "has no column 'pb'"),
        ("ms,pa,pa\n0,1,1\n", {}, "named twice"),
        ("ms,pa,pb,va,vb,ea,eb\n0,x,0,0,0,0,0\n", {}, "cannot be read, it is damaged"),
        ("ms,pa,pb,va,vb,ea,eb\n", {}, "has no rows"),
        ("ms,pa,pb,va,vb,ea,eb\n0,1\n1,2\n", {}, "names 7 columns, its rows have 2"),
        ("ms,pa,pb,va,vb,ea,eb\n,1,1,1,1,1,1\n", {}, "a time is not finite in row 0"),
        ("ms,pa,pb,va,vb,ea,eb\n5,1,1,1,1,1,1\n2,1,1,1,1,1,1\n", {}, "lies before the first one"),
        ("ms,pa,pb,va,vb,ea,eb\n5,1,1,1,1,1,1\n", {"time": None}, "has no time; give --rate"),
        ("ms,pa,pb,va,vb,ea,eb\n5,1,1,1,1,1,1\n", {}, "its time does not go on"),
    ],
)
def test_a_wrong_csv_is_refused(tmp_path: Path, text: str, changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(LogError, match=reason):
        read(csv_file(tmp_path, text), mapping_file(tmp_path, **changes), foreign_file(tmp_path))


def test_joints_of_another_arm_are_refused(tmp_path: Path) -> None:
    with pytest.raises(JointNamesError, match="joint 'shoulder_pan_joint' is missing"):
        read(save(tmp_path / "rollouts.npz", one=rollout()), "wam_pd", "ur5e")


@given(cut=st.floats(0.0, 0.999))
def test_a_damaged_npz_is_refused_wherever_it_was_cut(tmp_path_factory: pytest.TempPathFactory, cut: float) -> None:
    folder = tmp_path_factory.mktemp("cut")
    file = save(folder / "rollouts.npz", one=rollout(5))
    file.write_bytes(file.read_bytes()[: int(cut * file.stat().st_size)])
    with pytest.raises(LogError, match=r"rollouts\.npz"):
        read(file)


def test_pickled_objects_are_never_loaded(tmp_path: Path) -> None:
    one = rollout() | {"q": np.array([{"a": 1}], dtype=object)}
    with pytest.raises(LogError, match="cannot be read as numbers"):
        read(save(tmp_path / "rollouts.npz", one=one))


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["--arm", "ur99"], "unknown arm 'ur99'; known: open_manipulator_x.*ur3e"),
        (["--mapping", "nothing"], "unknown mapping 'nothing'; known: ur3e_trajectories, wam_pd"),
        (["--run", "three"], "no run 'three'; there are: one"),
        (["--rate", "0"], "--rate 0 is not within"),
        (["--kp", "1,2"], "--kd is missing|--kp must be 7 numbers"),
        (["--label", "mood=good"], "unknown label 'mood'"),
    ],
)
def test_the_command_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], reason: str) -> None:
    source = save(tmp_path / "rollouts.npz", one=rollout())
    given = ["convert", str(source), "--mapping", "wam_pd", "--arm", "wam", "--out", str(tmp_path / "bags"), *more]
    assert main(given) == 2
    assert re.search(reason, capsys.readouterr().err)
    assert not (tmp_path / "bags").exists()


DATA = Path(os.environ.get("TRIMTAB_DATA", ""))
recorded = pytest.mark.skipif(
    not (os.environ.get("TRIMTAB_DATA") and DATA.is_dir()), reason="TRIMTAB_DATA names no folder of real recordings"
)


@recorded
def test_real_rollouts_of_a_wam(tmp_path: Path) -> None:
    source = DATA / "wam_pd_500hz" / "rollouts.npz"
    mapping, table = load_mapping("wam_pd"), Table(source)
    assert len(table.runs(mapping)) == 5
    run = read(source)
    assert (run.oddities.rows, run.oddities.gaps, run.rate) == (10001, 0, 500.0)
    bag = write_run(tmp_path / "bag", run, RecordingContext(), {})
    log = read_log(bag, load_arm("wam"))
    assert np.array_equal(log.q, run.q[:-1])
    assert run.q_des is not None
    errors = np.sqrt(np.mean((run.q_des - run.q[:-1]) ** 2, axis=0))
    assert np.allclose(errors, [0.013, 0.070, 0.016, 0.048, 0.019, 0.033, 0.090], atol=0.003)


@recorded
def test_real_runs_of_a_ur3e(tmp_path: Path) -> None:
    source = DATA / "ur3e_trajectories_500hz" / "executed.npz"
    mapping, table, arm = load_mapping("ur3e_trajectories"), Table(source), load_embodiment("ur3e")
    shares = []
    for run in table.runs(mapping):
        found = read_run(table, run, mapping, arm, rate=mapping.rate, pd=None)
        shares.append(found.oddities.repeats / found.oddities.rows)
    assert len(shares) == 20
    assert 0.01 < min(shares) < 0.02
    assert 0.33 < max(shares) < 0.34
