"""Download one file: whole and checked, or not at all."""

from __future__ import annotations

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from dcfsc.errors import InputError
from dcfsc.files import atomic_path

if TYPE_CHECKING:
    import requests

TIMEOUT_SECONDS = 30
CHUNK_BYTES = 1 << 16


def fetch(url: str, checksum: str, target: str | Path) -> Path:
    """Download ``url`` to ``target`` and return it.

    ``checksum`` is the file's SHA-256 (64 hexadecimal digits) or MD5 (32). The bytes go to a
    temporary name beside the target, which takes the target's name only once the checksum has
    matched. A file already at ``target`` with that checksum is not downloaded again.
    """
    target = Path(target)
    algorithm = _algorithm(checksum)
    if not re.match(r"https?://", url):
        raise InputError(f"cannot download {url}: only http:// and https:// addresses are used.")
    try:
        import pooch
    except ImportError:
        raise InputError(
            f"downloading needs the package pooch; install it, or put {url} at {target} yourself."
        ) from None
    if target.is_file() and pooch.file_hash(str(target), alg=algorithm) == checksum.lower():
        return target
    if os.path.lexists(target):
        raise InputError(
            f"{target} is not the published file; move it away, and it is downloaded again."
        )
    try:
        with atomic_path(target) as part:
            _download(url, part)
            found = pooch.file_hash(str(part), alg=algorithm)
            if found != checksum.lower():
                raise InputError(
                    f"{url} arrived with {algorithm} {found} instead of {checksum}: damaged on the "
                    f"way or changed at the source; nothing was kept. Try again, or put the right "
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
    import pooch
    import requests

    download = pooch.HTTPDownloader(
        progressbar=sys.stderr.isatty() and find_spec("tqdm") is not None,
        chunk_size=CHUNK_BYTES,
        timeout=TIMEOUT_SECONDS,
        # a server that compresses on the way would hand over other bytes than its file's
        headers={"Accept-Encoding": "identity"},
    )
    try:
        download(url, str(part), None)
    except requests.RequestException as error:
        raise InputError(f"cannot download {url}: {_reason(error)}.") from None


def _reason(error: requests.RequestException) -> str:
    """What went wrong on the network."""
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"the server answered {error.response.status_code}"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection was cut; nothing was kept, try again"
    if isinstance(error, requests.Timeout):
        return f"no answer within {TIMEOUT_SECONDS} s; try again later"
    if isinstance(error, requests.ConnectionError):
        return "the server cannot be reached or stopped answering; check the network"
    return type(error).__name__


def _algorithm(checksum: str) -> str:
    digits = {64: "sha256", 32: "md5"}
    if re.fullmatch(r"[0-9a-fA-F]+", checksum) and len(checksum) in digits:
        return digits[len(checksum)]
    raise InputError(
        f"checksum {checksum!r} is neither a SHA-256 (64 hexadecimal digits) nor an MD5 (32)."
    )
