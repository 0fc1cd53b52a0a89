"""A bag on disk: a folder with metadata.yaml, a folder that lost it, or a bare file; whole, or what is left of it."""

import re
import tempfile
from collections.abc import Iterator, Mapping, Set
from pathlib import Path, PurePath
from typing import Any

import yaml
import zstandard

from trimtab.bags.findings import Findings
from trimtab.bags.storage import Batch, Channel, Raw, StorageFile, open_file, reason_of
from trimtab.errors import LogError

SUFFIXES = (".mcap", ".db3")
METADATA = "metadata.yaml"
ZSTD = ".zstd"
MOST_BYTES_OF_A_MESSAGE = 1 << 28


class Bag:
    """What a bag has, before anything of it is read. `findings` tells what is missing."""

    def __init__(self, path: Path, findings: Findings | None = None) -> None:
        if not path.exists():
            raise LogError(f"{path}: does not exist; give the folder of a bag")
        self.path = path
        self.findings = findings or Findings()
        self.custom: Mapping[str, str] = {}
        self._compressed_messages = False
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        announced: dict[str, Channel] = {}
        if path.is_dir():
            self.files, announced = self._of_folder()
        else:
            if path.suffix not in SUFFIXES:
                raise LogError(f"{path}: is no bag; give a folder, or a file that ends in {' or '.join(SUFFIXES)}")
            self.files = [path]
        self.channels = self._look_inside(announced)

    def topics(self) -> list[str]:
        """Names of all topics, sorted."""
        return sorted({channel.topic for channel in self.channels})

    def batches(self, topics: Set[str]) -> Iterator[Batch]:
        """All messages of these topics, file after file."""
        for path in self.files:
            file = self._open(path)
            if file is None:
                continue
            try:
                for batch in file.batches(topics, self.findings):
                    yield self._unpacked(batch) if self._compressed_messages else batch
            finally:
                file.close()

    def _of_folder(self) -> tuple[list[Path], dict[str, Channel]]:
        found = sorted((file for file in self.path.iterdir() if _is_storage(file)), key=_by_number)
        file = self.path / METADATA
        if not file.is_file():
            if not found:
                problem = (
                    f"is no bag, or its recording was cut off: {METADATA} is missing, and there is no .mcap or .db3 file"
                )
                raise LogError(f"{self.path}: {problem}; {advice(self.path)}")
            self.findings.missing(f"is no bag, or its recording was cut off: {METADATA} is missing")
            return found, {}
        try:
            document: Any = yaml.load(file.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
            information = document["rosbag2_bagfile_information"]
            named = [self.path / PurePath(str(name)).name for name in information["relative_file_paths"]]
            announced = dict(_announced(information["topics_with_message_count"]))
            self._compressed_messages = str(information.get("compression_mode", "")).lower() == "message"
            custom = information.get("custom_data") or {}
            self.custom = {str(key): str(value) for key, value in custom.items()}
        except (yaml.YAMLError, LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
            self.findings.missing(f"{METADATA} is damaged ({reason_of(error)})")
            return found, {}
        for one in named:
            if not one.is_file():
                self.findings.missing(f"the file {one.name} is missing")
        return [one for one in named if one.is_file()], announced

    def _look_inside(self, announced: dict[str, Channel]) -> list[Channel]:
        """Channels of all files; what metadata.yaml says of a topic counts where the file is silent."""
        inside: list[Channel] = []
        for path in self.files:
            file = self._open(path)
            if file is None:
                continue
            inside += file.channels
            self.custom = self.custom or file.custom
            file.close()
        if not inside:
            reasons = "; ".join(self.findings.partial) or "it holds nothing"
            raise LogError(f"{self.path}: cannot be read, it is damaged or was cut off ({reasons}); {advice(self.path)}")
        channels = [
            Channel(one.topic, one.type, one.hash or announced[one.topic].hash, announced[one.topic].count)
            if one.topic in announced
            else one
            for one in inside
        ]
        known = {one.topic for one in inside}
        return channels + [channel for topic, channel in announced.items() if topic not in known]

    def _open(self, path: Path) -> StorageFile | None:
        try:
            return open_file(self._decompressed(path), self.findings)
        except LogError as error:
            self.findings.missing(str(error))
        except (OSError, zstandard.ZstdError) as error:
            self.findings.missing(f"{path.name} cannot be read ({reason_of(error)})")
        return None

    def _decompressed(self, path: Path) -> Path:
        """A file that is compressed as a whole is unpacked once, beside nothing of the user's."""
        if path.suffix != ZSTD:
            return path
        if self._temporary is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="trimtab-bag-")
        plain = Path(self._temporary.name) / path.stem
        if not plain.exists():
            with path.open("rb") as packed, plain.open("wb") as unpacked:
                zstandard.ZstdDecompressor().copy_stream(packed, unpacked)
        return plain

    def _unpacked(self, batch: Batch) -> Batch:
        unpack = zstandard.ZstdDecompressor().decompress
        out: Batch = {}
        for topic, messages in batch.items():
            out[topic] = []
            for raw in messages:
                try:
                    out[topic].append(Raw(raw.time, unpack(raw.data, max_output_size=MOST_BYTES_OF_A_MESSAGE)))
                except zstandard.ZstdError as error:
                    self.findings.malformed += 1
                    self.findings.malformed_first = self.findings.malformed_first or f"{topic}: {reason_of(error)}"
        return out


def advice(path: Path) -> str:
    """What helps a damaged bag."""
    return f"record it again, or make a whole one of what is left: `trimtab bag repair {path}`"


def is_bag(path: Path) -> bool:
    """Whether a path looks like a bag: a folder with metadata.yaml or storage files, or such a file."""
    if path.is_dir():
        return (path / METADATA).is_file() or any(_is_storage(file) for file in path.iterdir())
    return path.suffix in SUFFIXES


def _is_storage(file: Path) -> bool:
    plain = file.with_suffix("") if file.suffix == ZSTD else file
    return plain.suffix in SUFFIXES and not file.name.startswith(".") and file.is_file()


def _by_number(file: Path) -> tuple[str, int, str]:
    """name_2 before name_10: the parts of a split bag are numbered."""
    found = re.fullmatch(r"(.*?)_?(\d*)", file.name.split(".")[0])
    assert found is not None
    return found[1], int(found[2] or -1), file.name


def _announced(rows: Any) -> Iterator[tuple[str, Channel]]:
    for row in rows:
        topic = row["topic_metadata"]
        name, count = str(topic["name"]), row["message_count"]
        claimed = count if isinstance(count, int) else None
        yield name, Channel(name, str(topic["type"]), str(topic.get("type_description_hash") or ""), claimed)
