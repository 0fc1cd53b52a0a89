"""`trimtab faults`: writes its folder, says what it found by its exit code, refuses what it cannot do."""

import json
from pathlib import Path

import pytest
from bundle_maker import make_bundle

from trimtab.arm import Arm
from trimtab.campaign import runner
from trimtab.cli.main import main


@pytest.fixture
def model(tmp_path: Path, so101: Arm) -> str:
    return str(make_bundle(tmp_path / "models", so101, controller="observer"))


def faults(model: str, *more: str) -> list[str]:
    return ["faults", "--arm", "so101", "--model", model, "--duration", "2", "--references", "plum", *more]


def test_a_campaign_leaves_a_page_and_data_and_prints_a_table(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(faults(model, "--faults", "nan,bundle", "--out", str(out))) == 0
    printed = capsys.readouterr().out
    assert "refused at load" in printed
    assert "8 faults, 9 rows: all pass" in printed
    assert f"page:   {out / 'index.html'}" in printed
    data = json.loads((out / "faults.json").read_text(encoding="utf-8"))
    assert data["ok"] is True
    assert [row["fault"] for row in data["outcomes"]][:3] == ["none", "nan", "bit-flip"]
    nan = data["outcomes"][1]
    assert nan["detected_by"] == "residual off"
    assert "not finite" in nan["reason"]
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "all pass" in page
    assert "not finite" in page
    assert "src=" not in page.replace('src="data:', "")
    assert "href=" not in page


def test_a_folder_that_holds_something_is_refused(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine", encoding="utf-8")
    assert main(faults(model, "--faults", "nan", "--out", str(out))) == 2
    assert "is not an empty folder" in capsys.readouterr().err
    assert [file.name for file in out.iterdir()] == ["mine.txt"]


def test_a_failure_is_told_by_the_exit_code(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runner, "exceeded", lambda *_: ["torque: 2 times the limit"])
    out = tmp_path / "out"
    assert main(faults(model, "--faults", "nan", "--out", str(out))) == 1
    assert "nan, so101, plum: torque: 2 times the limit" in capsys.readouterr().out
    assert json.loads((out / "faults.json").read_text(encoding="utf-8"))["ok"] is False


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (["--faults", "gremlin"], "unknown fault 'gremlin'"),
        (["--references", "plum,plum"], "'plum' is named twice"),
        (["--references", "spiral"], "unknown reference 'spiral'"),
        (["--seed", "-1"], "is negative"),
        (["--model", "nosuch"], "no bundle 'nosuch' for so101"),
        (["--duration", "0.5"], "takes more than one second"),
    ],
    ids=lambda value: value[1] if isinstance(value, list) else "",
)
def test_refusals_come_before_anything_is_written(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], text: str
) -> None:
    out = tmp_path / "out"
    assert main(faults(model, *more, "--out", str(out))) == 2
    assert text in capsys.readouterr().err
    assert not out.exists()
