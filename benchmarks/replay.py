#!/usr/bin/env python3
"""What a replay takes: hours of bag per minute on one core, by part, held against a loop that only reads with rosbags."""

import argparse
import resource
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from common import benchmark, pin_to_one_core, write_result
from residual_step import make_manifest, make_mlp
from rosbags.rosbag2 import Reader, StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from trimtab.arm import load_arm
from trimtab.bag import write_log
from trimtab.bags.reading import LogReader
from trimtab.bags.topics import JOINT_STATE, STATES, TORQUES
from trimtab.dynamics import RigidBody
from trimtab.plant import load_gap
from trimtab.realtime import garbage_kept_out
from trimtab.recording.describe import describe
from trimtab.reference import make_reference
from trimtab.replay.playback import Playback
from trimtab.replay.task import Task, replay_bag
from trimtab.residual.bundle import load_bundle, write_bundle
from trimtab.residual.runtime import ResidualModel
from trimtab.simulate import simulate

LIBRARIES = ("numpy", "onnxruntime", "pin", "rosbags", "mcap")
MEGABYTE = 1024.0  # of what getrusage tells, on Linux

DESCRIPTION = """\
Records runs of an arm in simulation, one with a random MLP (64, 64) and one with the arm's committed model at work, which
carries state and has ten times as many nodes, and measures for each in one process on one core:

  rosbags    all messages of the bag read and decoded by rosbags, nothing done with them: the least that a reader costs
  reading    the same bag through `LogReader`: rows in the arm's order, matched by stamp
  replay     `trimtab replay` with one candidate: reading, control step, model, filter, judgement

Times are of the process (CPU). --gigabytes makes a bag of that size as well and tells the most memory that its replay
took; the memory of a replay must not grow with the bag."""

EXAMPLES = """\
examples:
  python benchmarks/replay.py
  python benchmarks/replay.py --arm ur5e --controller adaptive --seconds 120
  python benchmarks/replay.py --gigabytes 2 --json runs/replay.json"""


def main() -> int:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(
        description=DESCRIPTION, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--arm", default="wam", help="name of the arm (default: wam, seven joints at 500 Hz)")
    parser.add_argument("--controller", default="computed_torque+observer", help="(default: computed_torque+observer)")
    parser.add_argument("--models", default="random,mlp", help="random, or a bundle by name (default: random,mlp)")
    parser.add_argument("--seconds", type=float, default=120.0, help="of the recorded run (default: 120)")
    parser.add_argument("--rounds", type=int, default=3, help="of each measurement, the best counts (default: 3)")
    parser.add_argument("--gigabytes", type=float, default=0.0, help="size of a large bag (default: none)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there")
    return benchmark(run, parser.parse_args())


def run(options: argparse.Namespace) -> int:
    """Measures and prints."""
    _, pinned = pin_to_one_core()
    print(pinned)
    with tempfile.TemporaryDirectory(prefix="trimtab-replay-") as name:
        folder = Path(name)
        document: dict[str, Any] = {"arm": options.arm, "controller": options.controller, "models": {}}
        for name in options.models.split(","):
            model = random_model(folder, options.arm) if name == "random" else name
            bag, seconds = record(folder / name, model, options)
            document["models"][name] = measure(bag, name, model, seconds, options)
            if options.gigabytes > 0.0:
                document["models"][name]["large"] = large(folder / f"{name}-large", bag, model, options)
    write_result(options.json, document, LIBRARIES)
    return 0


def measure(bag: Path, name: str, model: str, seconds: float, options: argparse.Namespace) -> dict[str, Any]:
    """Prints and gives what reading and replaying a bag take."""
    found = {key: min(one(bag, model) for _ in range(options.rounds)) for key, one in PARTS.items()}
    shares = stage_shares(bag, model)
    print(f"\n{options.arm}, {options.controller}, model {name}, {seconds:.0f} s of bag")
    for key, took in found.items():
        speed = seconds / took
        print(f"  {key:<10} {took:8.3f} s   {speed:8.1f} times real time   {speed / 60.0:6.2f} hours of bag per minute")
    shares["reading"] = found["reading"]
    rest = found["replay"] - sum(shares.values())
    for key, took in (shares | {"the rest": rest}).items():
        print(f"    {key:<12} {100.0 * took / found['replay']:5.1f} % of the replay")
    return {"seconds": seconds, "cpu_s": found, "shares_s": shares}


def random_model(folder: Path, arm_name: str) -> str:
    """An MLP with random weights as a bundle: what inference costs at least."""
    arm = load_arm(arm_name)
    manifest = make_manifest(arm)
    place = folder / "models" / arm.name / manifest.name / manifest.version
    write_bundle(place, manifest, make_mlp([manifest.width, 64, 64, arm.dof]))
    return str(place)


def record(folder: Path, name: str, options: argparse.Namespace) -> tuple[Path, float]:
    """A run with a model at work."""
    arm = load_arm(options.arm)
    trajectory = make_reference("infinity", RigidBody(arm), options.seconds)
    model = ResidualModel(load_bundle(name, arm), arm)
    log = simulate(arm, load_gap("worn", arm), options.controller, trajectory, residual=model, bounds=model.bounds)
    context = describe(
        arm, plant="worn", controller=options.controller, residual="on", model=name, delivery="loop", reference="infinity"
    )
    return write_log(folder, log, context), len(log.t) * arm.period


def _rosbags(bag: Path, _model: str) -> float:
    store = get_typestore(Stores.ROS2_JAZZY)
    start = process_time()
    with Reader(bag) as reader:
        for connection, _, data in reader.messages():
            store.deserialize_cdr(data, connection.msgtype)
    return process_time() - start


def _reading(bag: Path, _model: str) -> float:
    arm = load_arm(_arm_of(bag))
    start = process_time()
    with garbage_kept_out():  # as in a replay
        for _ in LogReader(bag, arm).blocks():
            pass
    return process_time() - start


def _replay(bag: Path, model: str) -> float:
    start = process_time()
    replay_bag(Task(str(bag), model))
    return process_time() - start


PARTS = {"rosbags": _rosbags, "reading": _reading, "replay": _replay}


def _arm_of(bag: Path) -> str:
    from trimtab.bags.files import Bag

    return Bag(bag).custom["arm"]


def stage_shares(bag: Path, name: str) -> dict[str, float]:
    """Time in controller, model and filter over the whole bag, as the control step itself tells [s]."""
    arm = load_arm(_arm_of(bag))
    reader = LogReader(bag, arm)
    model = ResidualModel(load_bundle(name, arm), arm)
    variants = [("classical", None), ("candidate", model)]
    playback = Playback(reader, arm, reader.context.controller, None, variants, loop=True)
    totals = np.zeros(3)
    for block in playback.blocks():
        stages = [made.stages[:, :3].sum(axis=0) * 1e-9 for made in block.made.values()]
        # The classical torque is computed once, and counted in each variant.
        totals += stages[1] + np.array([0.0, 0.0, stages[0][2]])
    return {"control": float(totals[0]), "inference": float(totals[1]), "filter": float(totals[2])}


def large(folder: Path, small: Path, model: str, options: argparse.Namespace) -> dict[str, float]:
    """A bag of a given size, made of the small one again and again with rising stamps; its replay's time and memory."""
    arm = load_arm(options.arm)
    store = get_typestore(Stores.ROS2_JAZZY)
    with Reader(small) as reader:
        messages = [(one.topic, time, data) for one, time, data in reader.messages() if one.topic in (STATES, TORQUES)]
    length = messages[-1][1] - messages[0][1] + round(1e9 * arm.period)
    goal, written, turn = options.gigabytes * 1e9, 0, 0
    with Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connections = {topic: writer.add_connection(topic, JOINT_STATE, typestore=store) for topic in (STATES, TORQUES)}
        for key, value in (("arm", options.arm), ("controller", options.controller)):
            writer.set_custom_data(key, value)
        while written < goal:
            for topic, time, data in messages:
                stamp = time + turn * length
                moved = (
                    data[:4]
                    + int(stamp // 10**9).to_bytes(4, "little")
                    + int(stamp % 10**9).to_bytes(4, "little")
                    + data[12:]
                )
                writer.write(connections[topic], stamp, moved)
                written += len(moved) + 31
            turn += 1
    size = sum(file.stat().st_size for file in folder.iterdir()) / 1e9
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MEGABYTE
    start = perf_counter()
    result = replay_bag(Task(str(folder), model))
    took = perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MEGABYTE
    print(
        f"\n  {size:.2f} GB, {result.seconds / 3600.0:.2f} h of bag: replayed in {took:.0f} s, "
        f"{result.seconds / took:.1f} times real time, peak memory {peak:.0f} MB (before it {before:.0f} MB)"
    )
    return {"gigabytes": size, "hours": result.seconds / 3600.0, "wall_s": took, "peak_mb": peak, "before_mb": before}


if __name__ == "__main__":
    sys.exit(main())
