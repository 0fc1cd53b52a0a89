"""Makes a complete bag of one that was cut off or damaged: a new one beside it, of all that can still be read."""

import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any

import yaml

from trimtab.errors import RecordingError
from trimtab.recording.metadata import METADATA, NO_TIME, BagTopic
from trimtab.recording.salvage import Salvage, messages_of
from trimtab.recording.writer import SUFFIXES, BagWriter

REPAIRED = "repaired"
"""Key of the time at which a bag was repaired; DAMAGE: of what could not be read."""
DAMAGE = "damage"
REPORT_EVERY = 1000  # messages
STORAGE_OF = {suffix: storage for storage, suffix in SUFFIXES.items()}
Progress = Callable[[int], object]


@dataclass(frozen=True)
class Repaired:
    """What a repair gave."""

    folder: Path
    counts: dict[str, int]
    """Messages by topic."""
    seconds: float
    """Time from the first to the last."""
    damage: tuple[str, ...]
    """What could not be read, by file; empty where all could."""
    promised: int | None
    """Messages that the old metadata.yaml told of; None where it told nothing."""


def files_of(bag: Path) -> list[Path]:
    """Data files of a bag, in the order in which they were recorded; bag: a folder, or one of the files."""
    if not bag.exists():
        raise RecordingError(f"{bag}: does not exist; give the folder of a bag, or its .mcap or .db3 file")
    inside = sorted(bag.iterdir(), key=_natural) if bag.is_dir() else [bag]
    files = [file for file in inside if file.suffix in STORAGE_OF]
    if not files:
        raise RecordingError(f"{bag}: holds no *.mcap or *.db3 file to repair; unpack it first where it is compressed")
    if len({file.suffix for file in files}) > 1:
        raise RecordingError(f"{bag}: holds both .mcap and .db3 files; give the file that is meant")
    told = _told(bag).get("relative_file_paths")
    order = [PurePath(str(name)).name for name in told] if isinstance(told, list) else []
    return sorted(files, key=lambda file: order.index(file.name) if file.name in order else len(order))


def repair(bag: Path, out: Path | None = None, progress: Progress = lambda _: None) -> Repaired:
    """Writes a complete bag to the folder `out`, which must not exist (default: `<bag>-repaired`).

    progress: told the bytes that were read since it was called last. The old bag is not touched.
    """
    files = files_of(bag)
    out = out if out is not None else bag.with_name(f"{bag.stem if bag.is_file() else bag.resolve().name}-repaired")
    if out.exists():
        raise RecordingError(f"{out}: exists already and a bag is never overwritten; choose another folder with --out")
    told = _told(bag)
    out.parent.mkdir(parents=True, exist_ok=True)
    # Whole or not at all: the new bag grows under its own name inside a hidden folder, then moves out.
    hidden = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
    try:
        kept = told.get("custom_data")
        custom = {str(key): str(value) for key, value in kept.items()} if isinstance(kept, dict) else {}
        writer = BagWriter(hidden / out.name, STORAGE_OF[files[0].suffix], custom)
        try:
            first, last, damage = _copy(files, writer, progress)
            writer.custom |= {REPAIRED: datetime.now(UTC).isoformat(timespec="seconds"), DAMAGE: "; ".join(damage) or "none"}
            writer.close()
        except BaseException:
            writer.abandon()
            raise
        if not sum(writer.counts.values()):
            raise RecordingError(
                f"{bag}: not one message can be read, so nothing was made; {'; '.join(damage) or 'it is empty'}"
            )
        (hidden / out.name).rename(out)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
    promised = told.get("message_count")
    return Repaired(out, writer.counts, (last - first) / 1e9, tuple(damage), promised if isinstance(promised, int) else None)


def _copy(files: list[Path], writer: BagWriter, progress: Progress) -> tuple[int, int, list[str]]:
    """Copies all messages that can be read; gives the first stamp, the last [ns], and what could not be read."""
    damage: list[str] = []
    first, last = NO_TIME, 0
    numbers: dict[tuple[str, str], int] = {}

    def number_of(topic: BagTopic) -> int:
        key = (topic.name, topic.type)
        if key not in numbers:
            numbers[key] = writer.add_topic(topic)
        return numbers[key]

    for file in files:
        result, reported = Salvage(), 0
        for i, found in enumerate(messages_of(file, STORAGE_OF[file.suffix], result)):
            writer.write(number_of(found.topic), found.stamp, found.data, found.sequence, found.sent)
            first, last = min(first, found.stamp), max(last, found.stamp)
            if i % REPORT_EVERY == 0:
                progress(result.read - reported)
                reported = result.read
        for topic in result.topics.values():
            number_of(topic)
        # What metadata.yaml tells is newer than what the file told at its start.
        writer.custom |= {key: value for key, value in result.custom.items() if key not in writer.custom}
        damage += [f"{file.name}: {text}" for text in result.damage]
    return first, last, damage


def _told(bag: Path) -> dict[str, Any]:
    """What a bag's metadata.yaml says, as far as there is one that can be read."""
    try:
        document = yaml.safe_load(((bag if bag.is_dir() else bag.parent) / METADATA).read_bytes())
        information = document["rosbag2_bagfile_information"]
    except (OSError, ValueError, yaml.YAMLError, TypeError, LookupError, RecursionError):
        return {}
    return information if isinstance(information, dict) else {}


def _natural(file: Path) -> list[tuple[int, str]]:
    """A key by which bag_2 comes before bag_10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", file.name)]
