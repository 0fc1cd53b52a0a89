"""Reads a bundle's file once, and only if it is a plain file of sane size that lies in the bundle itself."""

import errno
import os
import stat
from pathlib import Path

from trimtab.errors import BundleRefused


def read_file(file: Path, limit: int) -> bytes:
    """All bytes of a file of at most `limit` bytes.

    The file is opened before it is looked at, so that nobody can exchange it in between.
    """
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise BundleRefused(f"{file}: is a symbolic link; a bundle must hold its files itself, copy it there") from error
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            raise BundleRefused(f"{file}: is missing; a bundle is a folder with model.onnx and manifest.yaml") from error
        raise BundleRefused(f"{file}: cannot be read: {error.strerror}") from error
    with os.fdopen(handle, "rb") as stream:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise BundleRefused(f"{file}: is not a plain file")
        data = stream.read(limit + 1)
    return within(data, limit, str(file))


def within(data: bytes, limit: int, what: str) -> bytes:
    """The data, or a refusal when it is longer than `limit`."""
    if len(data) > limit:
        raise BundleRefused(f"{what}: is larger than the {limit // 1024} kB that are taken")
    return data
