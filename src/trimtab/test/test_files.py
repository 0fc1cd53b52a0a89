"""A file that matters is written whole or not at all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trimtab.files import write_whole


def test_writes_text_and_bytes_and_makes_the_folder(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "file.txt"
    write_whole(file, "schön\n")
    assert file.read_bytes() == "schön\n".encode()
    write_whole(file, b"\x00\xff")
    assert file.read_bytes() == b"\x00\xff"
    assert [entry.name for entry in file.parent.iterdir()] == ["file.txt"]


def test_others_may_read_the_file(tmp_path: Path) -> None:
    file = tmp_path / "file.txt"
    write_whole(file, "content")
    assert file.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("no space left on device")])
@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_interrupted_write_leaves_the_old_file(
    where: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file.txt"
    file.write_text("old")
    seen = []

    def interrupt(*_: object) -> None:
        seen.append(file.read_text())
        raise error

    monkeypatch.setattr(*((os, "fsync", interrupt) if where == "fsync" else (Path, "replace", interrupt)))
    with pytest.raises(error if isinstance(error, type) else type(error)):
        write_whole(file, "new" * 1000)
    assert seen == ["old"], "until the very end a reader sees the old content"
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file], "nothing is left lying about"


def test_a_process_that_dies_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "file.txt"
    file.write_text("old")
    script = (
        "import os, sys; from pathlib import Path; from trimtab.files import write_whole\n"
        "os.fsync = lambda handle: os._exit(9)\n"
        "write_whole(Path(sys.argv[1]), 'new' * 1000)"
    )
    process = subprocess.run([sys.executable, "-c", script, str(file)], check=False)
    assert process.returncode == 9
    assert file.read_text() == "old"
