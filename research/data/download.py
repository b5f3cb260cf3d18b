"""Download one file: whole and checked, or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
import urllib.request
from http.client import HTTPException
from pathlib import Path
from urllib.error import URLError

from dcfsc.errors import InputError
from dcfsc.files import atomic_path

TIMEOUT_SECONDS = 30


def fetch(url: str, checksum: str, target: str | Path) -> Path:
    """Download ``url``, whose SHA-256 is known, to ``target`` and return it.

    The bytes go to a temporary name beside the target, which takes the target's name only once the
    checksum has matched. A file already at ``target`` with that checksum is not downloaded again.
    """
    target = Path(target)
    if target.is_file() and _sha256(target) == checksum:
        return target
    if os.path.lexists(target):
        raise InputError(
            f"{target} is not the published file; move it away, and it is downloaded again."
        )
    try:
        with atomic_path(target) as part:
            _download(url, part)
            arrived = _sha256(part)
            if arrived != checksum:
                raise InputError(
                    f"{url} arrived with SHA-256 {arrived} instead of {checksum}: cut on the way "
                    "or changed at the source; nothing was kept. Try again, or put the right "
                    f"file at {target}."
                )
    except OSError as error:
        raise InputError(
            f"cannot write {target}: {error.strerror or error}; choose another data folder "
            "with the environment variable DCFSC_DATA."
        ) from None
    return target


def _download(url: str, part: Path) -> None:
    """The transfer alone; what goes wrong on the network becomes one line."""
    with part.open("wb") as file:
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as source:
                shutil.copyfileobj(source, file)
        except (URLError, HTTPException, TimeoutError, ConnectionError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise InputError(
                f"cannot download {url}: {reason}; check the network and try again."
            ) from None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
