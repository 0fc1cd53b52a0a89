"""A signature is asked for only where keys are given, and then only a true one of a trusted key will do."""

import base64
import stat
from pathlib import Path
from typing import Any

import pytest
from bundle_maker import edit_manifest, make_bundle

from trimtab.arm import Arm
from trimtab.errors import BundleRefused, ConfigError
from trimtab.residual.bundle import load_bundle
from trimtab.residual.manifest import MANIFEST, MODEL
from trimtab.residual.signing import load_keys, make_key, sign_bundle


@pytest.fixture
def folder(tmp_path: Path, ur5e: Arm) -> Path:
    return make_bundle(tmp_path, ur5e)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    make_key(tmp_path / "my.key")
    return tmp_path / "my.key"


@pytest.fixture
def trusted(key: Path) -> Path:
    return key.with_name("my.key.pub")


def test_a_signed_bundle_is_taken(folder: Path, ur5e: Arm, key: Path, trusted: Path) -> None:
    signed = sign_bundle(folder, key)
    assert load_bundle(folder, ur5e, trusted).manifest == signed
    assert sorted(file.name for file in folder.iterdir()) == [MANIFEST, MODEL]


def test_signing_again_replaces_the_signature(folder: Path, ur5e: Arm, key: Path, trusted: Path, tmp_path: Path) -> None:
    make_key(tmp_path / "other.key")
    sign_bundle(folder, tmp_path / "other.key")
    sign_bundle(folder, key)
    load_bundle(folder, ur5e, trusted)


def test_without_keys_no_signature_is_asked_for(folder: Path, ur5e: Arm) -> None:
    load_bundle(folder, ur5e)


def refused(folder: Path, arm: Arm, trusted: Path, text: str) -> None:
    with pytest.raises(BundleRefused, match=text):
        load_bundle(folder, arm, trusted)


def test_a_missing_signature_is_refused(folder: Path, ur5e: Arm, trusted: Path) -> None:
    refused(folder, ur5e, trusted, "is not signed and signatures are demanded; `trimtab models sign` it")


def test_an_unknown_key_is_refused(folder: Path, ur5e: Arm, trusted: Path, tmp_path: Path) -> None:
    public = make_key(tmp_path / "stranger.key")
    sign_bundle(folder, tmp_path / "stranger.key")
    refused(folder, ur5e, trusted, rf"is signed with the key {public[:12]}\.\.\., which is not in .*my\.key\.pub")


def loosen(document: dict[str, Any]) -> None:
    document["bounds"] = {joint: 2 * limit for joint, limit in document["bounds"].items()}


def forge(document: dict[str, Any]) -> None:
    value = bytearray(base64.b64decode(document["signature"]["value"]))
    value[0] ^= 1
    document["signature"]["value"] = base64.b64encode(value).decode()


@pytest.mark.parametrize(
    "change",
    [
        loosen,
        forge,
        lambda document: document["signature"].update(value=""),
        lambda document: document["signature"].update(value="no base64!"),
        lambda document: document["scores"].update(rmse=0.1),
        lambda document: document.update(sha256="0" * 64),
    ],
)
def test_a_bad_signature_is_refused(folder: Path, ur5e: Arm, key: Path, trusted: Path, change: Any) -> None:
    sign_bundle(folder, key)
    edit_manifest(folder, change)
    refused(folder, ur5e, trusted, "its signature does not match: the manifest was changed after signing")


def test_a_stolen_name_of_a_trusted_key_does_not_help(
    folder: Path, ur5e: Arm, trusted: Path, tmp_path: Path, key: Path
) -> None:
    make_key(tmp_path / "stranger.key")
    sign_bundle(folder, tmp_path / "stranger.key")
    known = trusted.read_text(encoding="ascii").strip()
    edit_manifest(folder, lambda document: document["signature"].update(key=known))
    refused(folder, ur5e, trusted, "its signature does not match")


def test_the_signature_covers_the_model_by_its_hash(folder: Path, ur5e: Arm, key: Path, trusted: Path) -> None:
    sign_bundle(folder, key)
    (folder / MODEL).write_bytes((folder / MODEL).read_bytes() + b"\x00")
    refused(folder, ur5e, trusted, "its sha256 is")


# Keys


def test_a_private_key_is_its_owners_alone_and_never_overwritten(key: Path) -> None:
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    before = key.read_text(encoding="ascii")
    with pytest.raises(ConfigError, match="exists already; a key is never overwritten"):
        make_key(key)
    assert key.read_text(encoding="ascii") == before
    assert before.strip() != key.with_name("my.key.pub").read_text(encoding="ascii").strip()


def test_key_files_may_hold_comments_and_several_keys(tmp_path: Path) -> None:
    file = tmp_path / "trusted"
    file.write_text(f"# ours\n{'ab' * 32}  # desk 1\n\n{'CD' * 32}\n", encoding="ascii")
    assert load_keys(file) == {"ab" * 32, "cd" * 32}


@pytest.mark.parametrize(
    ("text", "problem"),
    [("", "holds no key"), ("# none\n", "holds no key"), ("abc\n", "64 hex"), ("é", "no|not a key file")],
)
def test_key_files_without_keys_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "trusted"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=problem):
        load_keys(file)


def test_a_key_file_that_is_not_there_is_named(folder: Path, ur5e: Arm, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere: the key file cannot be read"):
        load_bundle(folder, ur5e, tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="nowhere: the key file cannot be read"):
        sign_bundle(folder, tmp_path / "nowhere")
