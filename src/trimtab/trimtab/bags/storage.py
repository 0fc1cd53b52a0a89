"""What every kind of storage offers: its channels, and batches of raw messages in the order of their log times."""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from trimtab.bags.findings import Findings

AT_ONCE = 4096  # messages of a batch, about, where the storage itself has no blocks


class Raw(NamedTuple):
    """One message as it lies in the bag."""

    time: int
    """When it was recorded [ns]."""
    data: bytes


Batch = dict[str, list[Raw]]
"""Some messages of some topics, by topic, each list by log time."""


@dataclass(frozen=True)
class Channel:
    """One topic of a bag, as one writer announced it."""

    topic: str
    type: str
    hash: str = ""
    """RIHS01 hash of the type; empty where nobody told."""
    count: int | None = None
    """Messages that the bag claims to hold; None where it does not tell."""


class StorageFile(Protocol):
    """One file of a bag."""

    channels: list[Channel]
    custom: Mapping[str, str]
    """What the recorder told of the bag, where the file itself says so."""

    def batches(self, topics: Set[str], findings: Findings) -> Iterator[Batch]:
        """All messages of these topics; what is damaged is left out and told to `findings`."""

    def close(self) -> None:
        """Lets go of the file."""


def open_file(path: Path, findings: Findings) -> StorageFile:
    """The reader for a file, by its name."""
    from trimtab.bags.mcap_file import McapFile
    from trimtab.bags.sqlite_file import SqliteFile

    return SqliteFile(path) if path.suffix == ".db3" else McapFile(path, findings)


def reason_of(error: BaseException) -> str:
    """The first line of what a library says, or what kind of trouble it is."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
