"""Many bags: found, shared out to processes or a cluster, kept, and taken up again; a worker that dies costs only time."""

import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trimtab.arm import load_arm
from trimtab.bag import write_log
from trimtab.dynamics import RigidBody
from trimtab.errors import ConfigError, LogError
from trimtab.plant import load_gap
from trimtab.recording.describe import describe
from trimtab.reference import make_reference
from trimtab.replay import many
from trimtab.replay.many import find_bags, key_of, replay_all
from trimtab.replay.task import BagResult, Task, with_bag
from trimtab.simulate import simulate


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with six small bags below, one of which is damaged."""
    root, arm = tmp_path_factory.mktemp("logs"), load_arm("so101")
    trajectory = make_reference("reach", RigidBody(arm), 1.5)
    for i in range(6):
        log = simulate(arm, load_gap("worn", arm), "pd", trajectory, seed=i)
        context = describe(arm, plant="worn", controller="pd", delivery="loop", labels={"site": f"hall {i % 2}"})
        write_log(root / f"day{i % 3}" / f"bag{i}", log, context)
    file = root / "day2" / "bag5" / "bag5.mcap"
    file.write_bytes(file.read_bytes()[:1000])
    return root


def plain(results: list[BagResult]) -> list[dict[str, Any]]:
    """What must be the same whoever did the work: all but what a step took."""
    documents = [one.as_dict() for one in results]
    for document in documents:
        for tally in document["tallies"].values():
            tally.pop("latency")
    return documents


def tasks_of(folder: Path) -> list[Task]:
    return with_bag(Task("", "mlp"), find_bags([folder]))


@pytest.fixture(scope="module")
def expected(logs: Path) -> list[dict[str, Any]]:
    return plain(replay_all(tasks_of(logs)))


def test_bags_are_found_below_folders_once(logs: Path, tmp_path: Path) -> None:
    found = find_bags([logs, logs / "day0", logs / "day0" / "bag0"])
    assert [path.name for path in found] == ["bag0", "bag3", "bag1", "bag4", "bag2", "bag5"]
    with pytest.raises(LogError, match="has none below it"):
        find_bags([tmp_path])


def test_one_bad_bag_does_not_end_the_others(expected: list[dict[str, Any]]) -> None:
    bad = [one for one in expected if one["error"] or one["findings"].get("partial")]
    assert [Path(one["bag"]).name for one in bad] == ["bag5"]


def test_processes_give_the_same_results(logs: Path, expected: list[dict[str, Any]]) -> None:
    assert plain(replay_all(tasks_of(logs), jobs=2)) == expected


def test_what_is_done_is_not_done_again(
    logs: Path, tmp_path: Path, expected: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = tasks_of(logs)
    replay_all(tasks[:3], results=tmp_path)
    assert len(list(tmp_path.glob("*.json"))) == 3
    done = []
    original = many.try_bag
    monkeypatch.setattr(many, "try_bag", lambda task: done.append(task.bag) or original(task))
    told: list[str] = []
    assert plain(replay_all(tasks, results=tmp_path, done=lambda one: told.append(one.bag))) == expected
    assert done == [task.bag for task in tasks[3:]]
    assert len(told) == 6
    (tmp_path / f"{many.key_of(tasks[0])}.json").write_text("{")
    done.clear()
    replay_all(tasks[:3], results=tmp_path)
    assert done == [tasks[0].bag]


def test_a_result_depends_on_content_models_and_options(logs: Path, tmp_path: Path) -> None:
    task = tasks_of(logs)[0]
    copied = tmp_path / "elsewhere"
    shutil.copytree(task.bag, copied)
    assert key_of(replace(task, bag=str(copied))) == key_of(task)
    file = copied / "bag0.mcap"
    file.write_bytes(file.read_bytes() + b"x")
    keys = {key_of(replace(task, bag=str(copied))), key_of(task), key_of(replace(task, controller="adaptive"))}
    assert len(keys | {key_of(replace(task, baseline="mlp"))}) == 4


def test_a_cluster_without_scheduler_is_refused(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    import distributed

    def nobody(*_: object, **__: object) -> None:
        raise OSError("Timed out trying to connect")

    monkeypatch.setattr(distributed, "Client", nobody)
    with pytest.raises(ConfigError, match="no scheduler answers there"):
        replay_all(tasks_of(logs), dask="tcp://127.0.0.1:1")


def test_without_the_package_a_cluster_is_refused(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(ConfigError, match="needs the package distributed"):
        replay_all(tasks_of(logs), dask="tcp://127.0.0.1:1")


def test_a_cluster_gives_the_same_results_though_a_worker_is_killed(logs: Path, expected: list[dict[str, Any]]) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, protocol="tcp://"
    ) as cluster:
        victims = [worker.pid for worker in cluster.workers.values()]
        killed: list[int] = []

        def after_the_first(_: BagResult) -> None:
            if not killed:
                killed.append(victims[0])
                os.kill(victims[0], signal.SIGKILL)

        results = replay_all(tasks_of(logs), dask=cluster.scheduler_address, done=after_the_first)
    assert killed
    assert plain(results) == expected
