"""`trimtab models`: what it prints, and which exit code a refusal gives."""

from pathlib import Path

import pytest
from bundle_maker import edit_manifest, make_bundle, put_model

from trimtab import share
from trimtab.arm import Arm
from trimtab.cli.main import main
from trimtab.residual import bundle as bundles
from trimtab.residual.manifest import MANIFEST


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A models folder of our own; arms still come from the workspace."""
    monkeypatch.setattr(bundles, "share_directory", lambda: tmp_path)
    real = share.share_directory()
    for name in ("config", "urdf"):
        (tmp_path / name).symlink_to(real / name)
    monkeypatch.setattr(share, "share_directory", lambda: tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "models"


@pytest.fixture
def folder(models: Path, ur5e: Arm) -> Path:
    return make_bundle(models, ur5e)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(["models", *words])
    shown = capsys.readouterr()
    return code, shown.out + shown.err


def test_list(folder: Path, models: Path, so101: Arm, capsys: pytest.CaptureFixture[str]) -> None:
    make_bundle(models, so101, version="3")
    code, out = run(capsys, "list")
    assert code == 0
    assert [line.split()[:2] for line in out.splitlines()[1:]] == [["so101", "mlp/3"], ["ur5e", "mlp/1"]]
    assert "so101" not in run(capsys, "list", "--arm", "ur5e")[1]
    assert "no bundles for wam" in run(capsys, "list", "--arm", "wam")[1]


def test_list_names_what_is_broken(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / MANIFEST).write_text("schema: 7\n", encoding="utf-8")
    code, out = run(capsys, "list")
    assert code == 1
    assert "ur5e/mlp/1: refused: " in out
    assert "schema 7 is unknown" in out


def test_show(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("mlp", "mlp/1", str(folder)):
        code, out = run(capsys, "show", name)
        assert code == 0
        assert "mlp/1 (mlp) for ur5e at 500 Hz" in out
        assert "q_des, qd_des, qdd_des" in out
        assert "signed by:   nobody" in out
    assert run(capsys, "show", "mlp", "--arm", "wam")[0] == 2


def test_verify_has_a_line_for_each_check(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, "verify", "mlp")
    assert code == 0
    names = [line.removeprefix("ok       ") for line in out.splitlines()]
    assert names == ["files", "folder", "hash", "arm", "graph", "probes and speed"]


def test_verify_names_everything_that_is_wrong(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_model(folder, b"no graph")
    edit_manifest(folder, lambda document: document.update(rate=250, sha256="0" * 64))
    code, out = run(capsys, "verify", str(folder))
    assert code == 1
    for check in ("hash", "arm", "graph"):
        assert f"refused  {check}: " in out
    assert "not run  probes and speed" in out


def test_verify_runs_the_probes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit_manifest(folder, lambda document: document["probes"][0]["residual"].reverse())
    code, out = run(capsys, "verify", "mlp")
    assert code == 1
    assert "refused  probes and speed: " in out


def test_verify_says_when_files_are_missing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / MANIFEST).unlink()
    code, out = run(capsys, "verify", str(folder))
    assert code == 1
    assert "refused  files: " in out


def test_verify_against_another_arm(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, "verify", str(folder), "--arm", "wam")
    assert code == 1
    assert "is for the arm 'ur5e', not 'wam'" in out


def test_keygen_sign_verify(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key, keys = str(tmp_path / "my.key"), str(tmp_path / "my.key.pub")
    assert run(capsys, "keygen", key)[0] == 0
    code, out = run(capsys, "verify", "mlp", "--keys", keys)
    assert code == 1
    assert "refused  signature: " in out
    assert run(capsys, "sign", "mlp/1", "--key", key)[0] == 0
    code, out = run(capsys, "verify", "mlp", "--keys", keys)
    assert code == 0
    assert "ok       signature" in out
    assert run(capsys, "keygen", key)[0] == 2


def test_a_damaged_bundle_is_not_signed(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "keygen", str(tmp_path / "my.key"))
    edit_manifest(folder, lambda document: document.update(sha256="0" * 64))
    code, out = run(capsys, "sign", "mlp", "--key", str(tmp_path / "my.key"))
    assert code == 2
    assert "its sha256 is" in out
    assert "signature" not in (folder / MANIFEST).read_text(encoding="utf-8")


def test_pull(tmp_path: Path, models: Path, ur5e: Arm, capsys: pytest.CaptureFixture[str]) -> None:
    source = make_bundle(tmp_path / "store", ur5e, version="2")
    code, out = run(capsys, "pull", source.as_uri())
    assert code == 0
    assert "mlp/2 for ur5e" in out
    assert run(capsys, "verify", "mlp")[0] == 0
    code, out = run(capsys, "pull", (tmp_path / "nowhere").as_uri())
    assert code == 2
    assert "is missing" in out
