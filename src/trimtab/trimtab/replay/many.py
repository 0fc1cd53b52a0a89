"""Many bags: found below folders, replayed by several processes or a Dask cluster, results kept so that work can go on."""

import hashlib
import json
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import trimtab
from trimtab.bags.files import is_bag
from trimtab.errors import BundleRefused, ConfigError, LogError
from trimtab.files import write_whole
from trimtab.replay.task import BagResult, Task, content_hash, try_bag
from trimtab.residual.bundle import find_bundle
from trimtab.residual.manifest import MANIFEST, MODEL

SCHEMA = 1
Done = Callable[[BagResult], object]


def find_bags(paths: Sequence[Path]) -> list[Path]:
    """The bags themselves and all bags below folders, each once, by path."""
    found: dict[Path, Path] = {}
    for path in paths:
        if not path.exists():
            raise LogError(f"{path}: does not exist; give bags, or folders with bags below")
        some = [path] if is_bag(path) else list(_below(path))
        if not some:
            raise LogError(f"{path}: is no bag and has none below it; give bags, or folders with bags below")
        found |= {one.resolve(): one for one in some}
    return [found[key] for key in sorted(found)]


def _below(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if is_bag(path):
            yield path
        elif path.is_dir():
            yield from _below(path)


def key_of(task: Task) -> str:
    """What a result depends on: bag, models, contracts and friction by content, options, this software. Not the policy."""
    from trimtab.share import share_directory

    parts: dict[str, Any] = asdict(replace(task, bag="")) | {"schema": SCHEMA, "version": trimtab.__version__}
    parts["content"] = content_hash(Path(task.bag))
    for name in ("candidate", "baseline"):
        parts[name] = _bundle_hash(getattr(task, name), task.arm)
    for name in ("friction", "arm", "keys"):
        file = Path(getattr(task, name))
        if getattr(task, name) and file.is_file():
            parts[name] = hashlib.sha256(file.read_bytes()).hexdigest()
    contracts = sorted((share_directory() / "config" / "arms").glob("*.yaml"))
    parts["contracts"] = [hashlib.sha256(file.read_bytes()).hexdigest() for file in contracts]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def _bundle_hash(name: str, arm: str) -> str:
    """Of a bundle's two files where it lies in a folder or the arm is known; else of all installed ones of that name."""
    from trimtab.names import arm_names

    found = hashlib.sha256(name.encode())
    for one in [arm] if arm else arm_names():
        try:
            folder = find_bundle(name, one)
        except BundleRefused:
            continue
        for file in (folder / MANIFEST, folder / MODEL):
            if file.is_file():
                found.update(file.read_bytes())
    return found.hexdigest()


class Store:
    """Results of bags, one JSON file each; written whole, so that what is there can be used."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def get(self, task: Task) -> BagResult | None:
        """A result that is there already; one that cannot be read is made anew."""
        if self._folder is None:
            return None
        try:
            data = json.loads((self._folder / f"{key_of(task)}.json").read_text())
            return replace(BagResult.from_dict(data), bag=task.bag)
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def put(self, task: Task, result: BagResult) -> None:
        """Keeps a result. One of a bag that could not be replayed is not kept: it may be mended."""
        if self._folder is not None and not result.error:
            write_whole(self._folder / f"{key_of(task)}.json", json.dumps(result.as_dict()))


def replay_all(
    tasks: Sequence[Task], *, jobs: int = 1, dask: str = "", results: Path | None = None, done: Done | None = None
) -> list[BagResult]:
    """Results in the order of the tasks. done: called with each as it comes. Kept ones are not made again."""
    store = Store(results)
    found: dict[int, BagResult] = {}

    def take(i: int, result: BagResult, *, fresh: bool = True) -> None:
        found[i] = result
        if fresh:
            store.put(tasks[i], result)
        if done is not None:
            done(result)

    left = []
    for i, task in enumerate(tasks):
        kept = store.get(task)
        if kept is None:
            left.append(i)
        else:
            take(i, kept, fresh=False)
    run = _with_dask(tasks, left, dask) if dask else _with_processes(tasks, left, jobs)
    for i, result in run:
        take(i, result)
    return [found[i] for i in range(len(tasks))]


def _with_processes(tasks: Sequence[Task], left: Iterable[int], jobs: int) -> Iterator[tuple[int, BagResult]]:
    left = list(left)
    if jobs <= 1 or len(left) <= 1:
        for i in left:
            yield i, try_bag(tasks[i])
        return
    # Fresh interpreters: a fork would take threads of onnxruntime and numpy along in whatever state they are.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(left)), mp_context=context) as pool:
        futures = {pool.submit(try_bag, tasks[i]): i for i in left}
        for future in as_completed(futures):
            i = futures[future]
            try:
                yield i, future.result()
            except BrokenProcessPool:
                yield (
                    i,
                    BagResult(bag=tasks[i].bag, error=f"{tasks[i].bag}: a process died (out of memory?); use fewer --jobs"),
                )


def _with_dask(tasks: Sequence[Task], left: Iterable[int], address: str) -> Iterator[tuple[int, BagResult]]:
    """The same work on a cluster. A worker that dies costs what it was at: the scheduler gives that to another one."""
    left = list(left)
    try:
        import distributed
    except ImportError as error:
        raise ConfigError("--dask needs the package distributed; install it, or use --jobs") from error
    try:
        client = distributed.Client(address, timeout="10s")
    except (OSError, ValueError, TimeoutError) as error:
        raise ConfigError(
            f"--dask {address}: no scheduler answers there ({error}); start one with `dask scheduler`"
        ) from error
    with client:
        futures = {client.submit(try_bag, tasks[i], pure=False, retries=2): i for i in left}
        for future in distributed.as_completed(futures):
            i = futures[future]
            try:
                yield i, future.result()
            except Exception as error:  # whatever happens in a cluster: the other bags go on
                yield i, BagResult(bag=tasks[i].bag, error=f"{tasks[i].bag}: the cluster gave up on it: {error}")
