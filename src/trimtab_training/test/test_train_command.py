"""`trimtab train` refuses what cannot be done before it spends minutes on it."""

import sys
from pathlib import Path

import pytest

from trimtab.cli.main import main
from trimtab_training.cli import recipe_of


def test_minutes_become_references() -> None:
    assert recipe_of(18.0, 0).references == 6
    assert recipe_of(18.0, 0).minutes == pytest.approx(18.0)
    assert recipe_of(36.0, 3).references == 12


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--minutes", "1"], "too little"),
        (["--seed", "-1"], "negative"),
        (["--arm", "no_such_arm"], "unknown arm"),
        (["--name", "a/b"], "--name"),
        (["--version", ""], "--version"),
    ],
)
def test_refusals(options: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--out", str(tmp_path), *options]) == 2
    assert text in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_bundle_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ur5e" / "mlp" / "1").mkdir(parents=True)
    assert main(["train", "--out", str(tmp_path)]) == 2
    assert "--replace" in capsys.readouterr().err


def test_without_torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in [name for name in sys.modules if name.startswith("trimtab_training.")]:
        if not name.endswith(".cli"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["train", "--out", str(tmp_path)]) == 2
    assert "requirements-training.txt" in capsys.readouterr().err
