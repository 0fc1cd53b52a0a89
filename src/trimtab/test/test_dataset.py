"""Training sets: no row in two splits, nothing made up in a gap, no look into the future, the same seed the same set."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from trimtab.arm import load_arm
from trimtab.bags.findings import Findings
from trimtab.bags.reading import Reference
from trimtab.bags.topics import Topics
from trimtab.cli.main import main
from trimtab.convert.recording import ForeignRun, find_oddities
from trimtab.convert.writing import write_run
from trimtab.dataset import load_dataset
from trimtab.dataset.building import Request, build
from trimtab.dataset.filtering import METHODS, accelerations, settling_rows
from trimtab.dataset.recorded import Recorded, read_recorded
from trimtab.dataset.resampling import find_segments, hold, instants, interpolate, wanted
from trimtab.dataset.rows import Settings, make_rows
from trimtab.dataset.splits import HELD_OUT, TRAIN, Candidate, decide
from trimtab.errors import ConfigError, LogError
from trimtab.foreign import Embodiment, load_embodiment
from trimtab.recording.context import RecordingContext
from trimtab.reference import Trajectory

RATE, DOF = 100.0, 2
SETTINGS = Settings(rate=RATE, method="causal", cutoff=20.0, gap=0.0)
ARM = Embodiment("two", ("a", "b"), RATE, "A", foreign=True, file=Path("two.yaml"))


def recorded(t: Any, seed: int = 0, **changes: Any) -> Recorded:
    """A recording with rows at these times [s], of smooth but arbitrary motion."""
    stamp = np.round(np.asarray(t) * 1e9).astype(np.int64) + 10**9
    count = len(stamp)
    values = np.random.default_rng(seed).normal(size=(count, 3, DOF))
    findings = Findings(rows=count, period=1.0 / RATE)
    nothing = np.full((count, DOF), np.nan)
    made = Recorded(
        path=Path("bag"),
        sha256="",
        context=RecordingContext(),
        findings=findings,
        stamp=stamp,
        stretch=np.zeros(count, dtype=np.int64),
        q=values[:, 0],
        qd=values[:, 1],
        torque=values[:, 2],
        learned=nothing,
        effort=nothing,
        references=(),
    )
    return replace(made, **changes)


def bag(folder: Path, seed: int, t: Any = None, started: str = "", **labels: str) -> Path:
    """A bag of two joints, with a torque for each state."""
    times = np.arange(60) / RATE if t is None else np.asarray(t)
    q, qd, sent = np.random.default_rng(seed).normal(size=(3, len(times), DOF))
    odd = find_oddities(times, np.hstack([q, qd]), 1.0 / RATE)
    run = ForeignRun("run", ARM.joints, RATE, times, q, qd, qd * 2.0, "A", sent, None, None, None, odd)
    return write_run(folder, run, RecordingContext(arm="two", started=started, labels=labels), {})


def request(*bags: Path, **changes: Any) -> Request:
    made = Request(bags, ARM, SETTINGS, Topics(), None, seed=0, validation=0.2, test=0.2)
    return replace(made, **changes)


steps = st.lists(st.sampled_from([0.008, 0.01, 0.0102, 0.012, 0.02, 0.05, 0.4]), min_size=30, max_size=90)


# Gaps


@given(steps, st.sampled_from(METHODS), st.sampled_from([100.0, 60.0, 33.0]))
def test_no_row_lies_in_a_gap(spacing: list[float], method: str, rate: float) -> None:
    """Each row has recorded rows around it that are no gap apart, and causal ones hold what was recorded, bit for bit."""
    run = recorded(np.cumsum([0.0, *([0.01] * 50), *spacing]))
    rows = make_rows(run, replace(SETTINGS, method=method, rate=rate, cutoff=10.0))
    times = run.stamp - run.stamp[0]
    gaps = np.flatnonzero(np.diff(times) > 0.015e9)
    at = np.round(rows.t * 1e9)
    for i in gaps:
        late = times[i] + (0.25e7 if method == "causal" else 0)  # what a causal row follows its sample by
        assert not ((at > late + 1) & (at < times[i + 1] - 1)).any()
    if method == "causal":
        newest = np.searchsorted(times, at + 1, side="right") - 1
        assert np.array_equal(rows.columns["q"], run.q[newest])
        assert (at - times[newest] <= 0.015e9 + 1).all()
    # Within a segment no time is missing; between two there is some.
    apart = np.diff(rows.t)
    same = np.diff(rows.segment) == 0
    assert np.allclose(apart[same], 1.0 / rate, atol=2e-9)
    assert rows.counts.gaps == len(gaps)


@given(steps)
def test_segments_are_all_rows_once(spacing: list[float]) -> None:
    run = recorded(np.cumsum([0.0, *spacing]))
    found = find_segments(run.stamp, run.stretch, 0.015)
    assert [row for one in found for row in range(one.first, one.end)] == list(range(len(run.stamp)))


def test_a_jump_back_of_the_clock_is_a_break_too() -> None:
    times = np.concatenate([np.arange(30), np.arange(25, 55)]) / RATE
    run = recorded(times, stretch=np.repeat([0, 1], 30))
    assert make_rows(run, SETTINGS).counts.segments == 2


def test_jitter_makes_neither_repeats_nor_holes() -> None:
    """Samples up to a quarter of a period early or late give one row each."""
    late = np.random.default_rng(1).uniform(-0.002, 0.002, size=200)
    late[0], late[-1] = 0.0, 0.002
    run = recorded(np.arange(200) / RATE + late)
    rows = make_rows(run, replace(SETTINGS, gap=0.03))
    dropped = settling_rows(RATE, SETTINGS.cutoff)
    assert np.array_equal(rows.columns["q"], run.q[dropped:])


def test_interpolation_stays_between_its_neighbours_and_knows_no_more_than_they() -> None:
    stamp = np.array([0, 10, 20, 30])
    values = np.array([[0.0], [1.0], [np.nan], [3.0]])
    lines = interpolate(stamp, values, np.array([0, 5, 10, 15, 20, 30]))[:, 0]
    assert np.array_equal(lines, [0.0, 0.5, 1.0, np.nan, np.nan, 3.0], equal_nan=True)
    assert list(hold(stamp, np.array([0, 9, 10, 31]))) == [0, 0, 1, 3]
    assert list(instants(np.array([0, 10**7]), 200.0, 0.0)) == [0, 5 * 10**6, 10**7]


# No look into the future


@given(steps, st.integers(0, 1000), st.sampled_from([100.0, 45.0]))
def test_a_later_sample_changes_no_earlier_row(spacing: list[float], pick: int, rate: float) -> None:
    run = recorded(np.cumsum([0.0, *([0.01] * 20), *spacing]))
    changed = 1 + pick % (len(run.stamp) - 1)
    other = {name: np.array(getattr(run, name)) for name in ("q", "qd", "torque")}
    for values in other.values():
        values[changed:] += 7.0
    settings = replace(SETTINGS, rate=rate)
    before, after = make_rows(run, settings), make_rows(replace(run, **other), settings)
    earlier = before.t * 1e9 < run.stamp[changed] - run.stamp[0] - 1
    assert np.array_equal(before.t, after.t)
    for name, values in before.columns.items():
        assert np.array_equal(values[earlier], after.columns[name][earlier], equal_nan=True), name
    # What is cut off later changes nothing either.
    cut = {name: getattr(run, name)[:changed] for name in ("stamp", "stretch", "q", "qd", "torque", "learned", "effort")}
    if changed > 25:
        part = make_rows(replace(run, **cut), settings)
        common = min(int(earlier.sum()), len(part.t))
        for name in part.columns:
            assert np.array_equal(part.columns[name][:common], before.columns[name][:common], equal_nan=True), name


@given(st.integers(0, 1000))
def test_without_a_phase_no_row_depends_on_another_segment(pick: int) -> None:
    run = recorded([*np.arange(40) / RATE, *(np.arange(40) / RATE + 1.0)])
    changed = np.array(run.qd)
    changed[40 + pick % 40] += 5.0
    settings = replace(SETTINGS, method="zero_phase")
    before, after = make_rows(run, settings), make_rows(replace(run, qd=changed), settings)
    first = before.segment == 0
    assert first.any()
    assert np.array_equal(before.columns["qdd"][first], after.columns["qdd"][first])
    assert not np.array_equal(before.columns["qdd"], after.columns["qdd"])


@pytest.mark.parametrize("method", METHODS)
def test_accelerations_are_those_of_the_motion(method: str) -> None:
    t = np.arange(400) / 200.0
    qd = np.stack([np.sin(2 * np.pi * t), 3.0 * t], axis=1)
    found = accelerations(qd, 200.0, 20.0, method)
    known = np.isfinite(found).all(axis=1)
    wanted_ = np.stack([2 * np.pi * np.cos(2 * np.pi * t), np.full_like(t, 3.0)], axis=1)
    assert known.sum() >= 380
    assert np.abs(found[known][20:, 1] - 3.0).max() < 0.05
    late = 2 if method == "causal" else 0  # rows by which the causal filter lags
    shifted = wanted_[:, 0][: len(t) - late]
    assert np.abs(found[late:, 0][known[late:]] - shifted[known[late:]])[20:].max() < 0.2


def test_what_was_wanted_is_known_from_the_first_point_of_a_reference_on() -> None:
    stamp = np.arange(10) * 10**8
    line = Trajectory(np.array([0.2, 0.5]), np.array([[1.0], [2.0]]), np.zeros((2, 1)), np.zeros((2, 1)))
    q, _, _ = wanted([(1, Reference(0, 0, line)), (8, Reference(0, 0, None))], stamp, stamp, 1)
    assert np.isnan(q[:2]).all()
    assert q[2, 0] == 1.0
    assert np.array_equal(q[5:7, 0], [2.0, 2.0])
    assert np.isnan(q[7:]).all()


# Splits


revisions = st.sampled_from(["", "r2", "r9", "r10"])
runs = st.lists(revisions, min_size=1, max_size=30)


def candidates(names: list[str]) -> list[Candidate]:
    return [Candidate(f"run{i}", {"hardware": name} if name else {}, "") for i, name in enumerate(names)]


@given(runs, st.integers(0, 99), st.floats(0.0, 0.49), st.floats(0.0, 0.49), st.randoms(use_true_random=False))
def test_every_run_has_one_split_whatever_the_order(
    names: list[str], seed: int, validation: float, test: float, random: Any
) -> None:
    given_ = candidates(names)
    decided = decide(given_, seed=seed, validation=validation, test=test)
    assert set(decided.splits) == {run.key for run in given_}
    shuffled = list(given_)
    random.shuffle(shuffled)
    assert decide(shuffled, seed=seed, validation=validation, test=test).splits == decided.splits
    held = {run.key for run in given_ if decided.splits[run.key] == HELD_OUT}
    different = {name for name in names if name}
    if len(different) > 1:
        newest = max(different, key=["r2", "r9", "r10"].index)
        assert held == {run.key for run in given_ if run.labels.get("hardware") == newest}
    else:
        assert not held
    assert TRAIN in decided.splits.values() or len(held) == len(given_)


def test_another_seed_shares_out_otherwise() -> None:
    given_ = candidates([""] * 20)
    first = decide(given_, seed=0, validation=0.2, test=0.2).splits
    assert any(decide(given_, seed=seed, validation=0.2, test=0.2).splits != first for seed in range(1, 5))
    assert sorted(first.values()) == ["test"] * 4 + [TRAIN] * 12 + ["validation"] * 4


def test_between_equal_revisions_the_later_recording_is_newer() -> None:
    given_ = [
        Candidate("a", {"hardware": "1.0"}, "2026-01-02T00:00:00"),
        Candidate("b", {"hardware": "1.00"}, "2026-03-01T00:00:00"),
        Candidate("c", {"hardware": "0.9"}, "2026-05-01T00:00:00"),
    ]
    assert decide(given_, seed=0, validation=0.0, test=0.0).revision == "1.00"


def test_shares_must_leave_something() -> None:
    with pytest.raises(ConfigError, match="must leave something to train on"):
        decide(candidates(["", ""]), seed=0, validation=0.5, test=0.5)


# The whole set


def test_a_set_is_built_read_and_described(tmp_path: Path) -> None:
    hardware = ["r1", "r1", "r2", "r1", "r1", "r1"]
    bags = [bag(tmp_path / "bags" / f"b{i}", i, hardware=name, payload="1kg") for i, name in enumerate(hardware)]
    card = build(request(*bags), tmp_path / "set")
    found = load_dataset(tmp_path / "set")
    assert (found.arm, found.joints, found.rate, found.units["effort"]) == ("two", ("a", "b"), RATE, "A")
    assert [run.name for run in found.split(HELD_OUT)] == ["b2"]
    assert {run.split for run in found.runs} == {TRAIN, "validation", "test", HELD_OUT}
    assert found.runs[0].labels == {"hardware": "r1", "payload": "1kg"}
    rows = found.runs[0].load()
    original = read_recorded(bags[0], ARM, Topics(), None)
    dropped = settling_rows(RATE, SETTINGS.cutoff)
    for name in ("q", "qd", "torque", "effort"):
        assert np.array_equal(rows.columns[name], getattr(original, name)[dropped:]), name
    assert np.array_equal(rows.columns["effort"], 2.0 * rows.columns["qd"])
    assert "q_des" not in rows.columns
    assert sum(run.rows for run in found.runs) == card["totals"]["rows"] == 6 * (60 - dropped)
    assert card["totals"]["hours"] == pytest.approx(card["totals"]["rows"] / RATE / 3600)
    low, high = card["ranges"]["q"]["b"]
    every = np.concatenate([run.load().columns["q"][:, 1] for run in found.runs])
    assert (low, high) == (every.min(), every.max())
    text = (tmp_path / "set" / "README.md").read_text()
    for word in ("'r2' is the newest of r1, r2", "payload=1kg", "| b2 | b2 |", "q [rad]", "effort [A]"):
        assert word in text, word
    assert yaml.safe_load((tmp_path / "set" / "card.yaml").read_text()) == card


def test_the_same_seed_makes_the_same_set_byte_for_byte(tmp_path: Path) -> None:
    bags = [bag(tmp_path / "bags" / f"b{i}", i) for i in range(5)]
    build(request(*bags), tmp_path / "one")
    build(request(*bags[::-1]), tmp_path / "two")
    one, two = ({file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert one == two


def test_one_recording_under_two_names_is_refused(tmp_path: Path) -> None:
    bags = [bag(tmp_path / "a", 1), bag(tmp_path / "b", 1, payload="none")]
    with pytest.raises(LogError, match="holds the same recording as"):
        build(request(*bags), tmp_path / "set")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a", "b"]


def test_bags_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    bags = [bag(tmp_path / day / "pd", i) for i, day in enumerate(("monday", "tuesday"))]
    build(request(*bags), tmp_path / "set")
    assert [run.name for run in load_dataset(tmp_path / "set").runs] == ["monday-pd", "tuesday-pd"]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    one = bag(tmp_path / "one", 1)
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "mine.txt").write_text("mine")
    with pytest.raises(ConfigError, match="never overwritten"):
        build(request(one), tmp_path / "set")
    assert [file.name for file in (tmp_path / "set").iterdir()] == ["mine.txt"]


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    build(request(bag(tmp_path / "one", 1)), tmp_path / "set")
    (run,) = load_dataset(tmp_path / "set").runs
    run.file.write_bytes(run.file.read_bytes()[:-1] + b"x")
    with pytest.raises(LogError, match="sha256 differs"):
        run.load()


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["--cutoff", "60"], "--cutoff 60 Hz must lie between 0 and half the rate, 50 Hz"),
        (["--rate", "400"], "was recorded at 100 Hz; 400 Hz would only repeat its rows"),
        (["--effort", "kg"], "effort unit 'kg' is not known"),
        (["--effort", "Nm"], "effort in Nm is no effort of two, whose unit is A"),
        (["--states", "/elsewhere"], "has no topic /elsewhere"),
        (["--cutoff", "1"], "no stretch without a gap is long enough"),
        (["--validation", "0.6", "--test", "0.6"], "must leave something"),
    ],
)
def test_the_command_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], reason: str) -> None:
    one = bag(tmp_path / "one", 1)
    (tmp_path / "two.yaml").write_text("foreign: two\njoints: [a, b]\nrate: 100\neffort_unit: A\n")
    given_ = ["dataset", str(one), "--arm", str(tmp_path / "two.yaml"), "--out", str(tmp_path / "set"), *more]
    assert main(given_) == 2
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "set").exists()


def test_the_command_takes_folders_of_bags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for i in range(4):
        bag(tmp_path / "logs" / f"b{i}", i, t=np.delete(np.arange(80), 40) / RATE)
    (tmp_path / "two.yaml").write_text("foreign: two\njoints: [a, b]\nrate: 100\neffort_unit: A\n")
    given_ = ["dataset", str(tmp_path / "logs"), "--arm", str(tmp_path / "two.yaml"), "--out", str(tmp_path / "set")]
    assert main(given_) == 0
    out = capsys.readouterr().out
    assert "4 runs, 276 rows at 100 Hz" in out
    assert "4 gaps (longest 0.02 s" in out


DATA = Path(os.environ.get("TRIMTAB_DATA", ""))


@pytest.mark.skipif(
    not (os.environ.get("TRIMTAB_DATA") and DATA.is_dir()), reason="TRIMTAB_DATA names no folder of real recordings"
)
def test_a_real_bag_of_servos(tmp_path: Path) -> None:
    arm = load_embodiment("wx200")
    topics = Topics(states="/wx200/joint_states")
    settings = Settings(100.0, "causal", 20.0, gap=0.03)
    asked = Request([DATA / "widowx200_bag"], arm, settings, topics, "mA", seed=0, validation=0.0, test=0.0)
    card = build(asked, tmp_path / "set")
    assert card["totals"]["recorded_rows"] == 10598
    assert card["totals"]["gaps"] == 1
    assert card["totals"]["longest_gap"] == pytest.approx(0.064, abs=0.001)
    assert max(abs(value) for pair in card["ranges"]["effort"].values() for value in pair) < 3.0  # A, not mA


def test_an_arm_of_ours_is_known_by_its_contract() -> None:
    ours = load_embodiment("so101")
    assert (ours.joints, ours.foreign) == (load_arm("so101").joints, False)
