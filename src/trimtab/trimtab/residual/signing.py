"""Ed25519 signatures of bundles: keys in files that the operator owns."""

import base64
import binascii
import os
import re
from dataclasses import replace
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from trimtab.errors import BundleRefused, ConfigError
from trimtab.files import write_whole
from trimtab.residual.manifest import MANIFEST, Manifest, load_manifest
from trimtab.residual.parts import Signature

KEY = re.compile(r"[0-9a-f]{64}")


def make_key(file: Path) -> str:
    """Writes a new private key (hex, readable by its owner alone) and `<file>.pub`; gives the public key, hex."""
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw().hex()
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise ConfigError(f"{file}: exists already; a key is never overwritten, choose another name") from error
    with os.fdopen(handle, "w", encoding="ascii") as stream:
        stream.write(key.private_bytes_raw().hex() + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    write_whole(file.with_name(file.name + ".pub"), public + "\n")
    return public


def sign_bundle(folder: Path, key: Path) -> Manifest:
    """Signs the manifest in a bundle's folder with a private key's file, and gives the signed manifest."""
    private = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(_key(_read(key), key)))
    manifest = load_manifest(folder / MANIFEST)
    value = base64.b64encode(private.sign(manifest.canonical())).decode("ascii")
    signed = replace(manifest, signature=Signature(private.public_key().public_bytes_raw().hex(), value))
    signed.save(folder)
    return signed


def check_signature(manifest: Manifest, trusted_keys: Path, folder: Path) -> None:
    """Refuses a bundle that none of the keys in `trusted_keys` has signed."""
    file = folder / MANIFEST
    trusted = load_keys(trusted_keys)
    signature = manifest.signature
    if signature is None:
        raise BundleRefused(f"{file}: is not signed and signatures are demanded; `trimtab models sign` it")
    if signature.key not in trusted:
        raise BundleRefused(
            f"{file}: is signed with the key {signature.key[:12]}..., which is not in {trusted_keys}; "
            "add it there if you trust it"
        )
    try:
        value = base64.b64decode(signature.value, validate=True)
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(signature.key)).verify(value, manifest.canonical())
    except (InvalidSignature, binascii.Error, ValueError) as error:
        raise BundleRefused(
            f"{file}: its signature does not match: the manifest was changed after signing; copy the bundle again"
        ) from error


def load_keys(file: Path) -> set[str]:
    """Public keys of a file, one in hex per line; # begins a comment."""
    lines = (line.partition("#")[0].strip() for line in _read(file).splitlines())
    keys = {_key(line, file) for line in lines if line}
    if not keys:
        raise ConfigError(f"{file}: holds no key; add public keys, one per line, in hex")
    return keys


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii")
    except OSError as error:
        raise ConfigError(f"{file}: the key file cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: is not a key file") from error


def _key(text: str, file: Path) -> str:
    text = text.strip().lower()
    if not KEY.fullmatch(text):
        raise ConfigError(f"{file}: a key is 64 hex digits; make one with `trimtab models keygen`")
    return text
