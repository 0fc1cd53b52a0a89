"""Rows worked out together give what single steps give, bit for bit, whatever is wrong with the bag or the model."""

from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sabotage
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.arm import load_arm
from trimtab.bags.reading import Reference, Rows
from trimtab.bags.topics import Topics
from trimtab.dynamics import RigidBody
from trimtab.plant import load_gap
from trimtab.recording.context import RecordingContext
from trimtab.reference import make_reference
from trimtab.replay.made import Made
from trimtab.replay.playback import Playback
from trimtab.residual.bundle import load_bundle
from trimtab.residual.runtime import ResidualModel
from trimtab.runlog import RunLog
from trimtab.simulate import simulate

ARM = load_arm("so101")
SECOND = 1_000_000_000
DAMAGE = ("gap", "pause", "hole", "back", "nan", "far", "fast", "astray", "unknown", "cut", "cancel")


@pytest.fixture(scope="module")
def log() -> RunLog:
    model = ResidualModel(load_bundle("mlp", ARM), ARM)
    reference = make_reference("infinity", RigidBody(ARM), 4.0)
    return simulate(ARM, load_gap("worn", ARM), "observer", reference, residual=model, bounds=model.bounds)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    bad = sabotage.sabotaged(tmp_path_factory.mktemp("models"), ARM, sabotage.not_finite)
    return {"good": load_bundle("mlp", ARM), "not finite": load_bundle(str(bad), ARM)}


class Failing(ResidualModel):
    """Raises now and then, or offers what no filter takes."""

    calls = 0

    def offer(self, sample: Any, classical: Any, now: float) -> Any:
        self.calls += 1
        made = super().offer(sample, classical, now)
        if self.calls % 250 == 0:
            raise RuntimeError("session lost")
        if made is not None and self.calls % 131 == 0:
            made.torque = made.torque[:-1]
        return made


def rows_of(log: RunLog, damage: list[tuple[str, int]], cuts: list[int]) -> list[Rows]:
    """A log as a bag's reader gives it, with things wrong at some rows, in blocks cut at some."""
    count = len(log.t)
    stamp = SECOND + np.round(log.t * SECOND).astype(np.int64)
    assert log.residual is not None
    columns = {"q": log.q, "qd": log.qd, "torque": log.torque, "applied": log.residual}
    columns = {key: value.copy() for key, value in columns.items()}
    keep, references = np.ones(count, bool), [(0, Reference(int(stamp[0]), int(stamp[0]), log.trajectory))]
    for kind, at in damage:
        if kind in ("gap", "pause", "hole"):
            keep[at : at + {"gap": 40, "pause": 8, "hole": 2}[kind]] = False
        elif kind == "back":
            stamp[at] = stamp[at - 1]
        elif kind == "nan":
            columns["q"][at, 1] = np.nan
        elif kind == "far":
            columns["q"][at, 2] = 7.0
        elif kind == "fast":
            columns["qd"][at, 0] = 100.0
        elif kind == "astray":
            columns["q"][at:, 0] += 0.6
        elif kind == "unknown":
            columns["torque"][at : at + 5] = np.nan
        elif kind == "cut":
            columns["torque"][at] = ARM.torque
        elif kind == "cancel":
            references.append((at, Reference(int(stamp[at]), int(stamp[at]), None)))
    columns |= {key: np.full_like(log.q, np.nan) for key in ("effort", "learned", "offered")}
    columns |= {key: np.full(count, np.nan) for key in ("confidence", "live")}
    place = np.cumsum(keep) - 1
    due = [(int(max(0, place[at])), one) for at, one in references]
    chosen = np.flatnonzero(keep)
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < len(chosen)}), len(chosen)]
    blocks = []
    for first, end in pairwise(edges):
        part = chosen[first:end]
        inside = tuple((at - first, one) for at, one in due if first <= at < end)
        some = {key: value[part] for key, value in columns.items()}
        blocks.append(Rows(segment=0, stamp=stamp[part], time=stamp[part], references=inside, **some))
    return blocks


def played(blocks: list[Rows], kind: str, models: dict[str, Any], loop: bool, together: bool) -> Playback:
    """What a playback makes of these rows, kept in `kept`."""
    model = (Failing if kind == "failing" else ResidualModel)(models.get(kind, models["good"]), ARM)
    reader: Any = SimpleNamespace(blocks=lambda: iter(blocks), context=RecordingContext(), topics=Topics())
    playback = Playback(reader, ARM, "observer", None, [("classical", None), ("candidate", model)], loop=loop)
    if not together:
        playback._pass_by = lambda block, first, end: first  # type: ignore[method-assign]
    playback.kept = list(playback.blocks())  # type: ignore[attr-defined]
    return playback


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(["good", "not finite", "failing"]),
    loop=st.booleans(),
    damage=st.lists(st.tuples(st.sampled_from(DAMAGE), st.integers(1, 900)), max_size=3),
    cuts=st.lists(st.integers(1, 900), max_size=3),
)
def test_rows_together_are_rows_one_by_one(log, models, kind, loop, damage, cuts) -> None:
    blocks = rows_of(log, damage, cuts)
    one_by_one, together = (played(blocks, kind, models, loop, way) for way in (False, True))
    for single, joint in zip(one_by_one.kept, together.kept, strict=True):  # type: ignore[attr-defined]
        for name in ("classical", "q_des", "qd_des", "qdd_des"):
            np.testing.assert_array_equal(getattr(joint, name), getattr(single, name), err_msg=name)
        for role in single.made:
            for field in fields(Made):
                if field.name != "stages":
                    pair = (getattr(one.made[role], field.name) for one in (joint, single))
                    np.testing.assert_array_equal(*pair, err_msg=f"{role}: {field.name}")
    for single, joint in zip(one_by_one.variants, together.variants, strict=True):
        assert joint.step.latch.history == single.step.latch.history
        assert joint.step.safety.trust == single.step.safety.trust
        assert joint.step.safety.tank_level == single.step.safety.tank_level
    assert (together.breaks, together.refused) == (one_by_one.breaks, one_by_one.refused)


def test_nearly_all_rows_of_a_good_bag_are_worked_out_together(log, models, monkeypatch, tmp_path: Path) -> None:
    alone = []
    slow = Playback._answer
    monkeypatch.setattr(Playback, "_answer", lambda self, *rest: (alone.append(rest[2]), slow(self, *rest))[1])
    for loop in (True, False):
        alone.clear()
        played(rows_of(log, [], [300, 700]), "good", models, loop, together=True)
        assert len(alone) <= 4
