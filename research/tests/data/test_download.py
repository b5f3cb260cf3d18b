from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

import pytest

from dcfsc.errors import InputError
from research.data import fetch

BODY = bytes(range(256)) * 2000
SHA256 = hashlib.sha256(BODY).hexdigest()


def one_line(error: pytest.ExceptionInfo[InputError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def nothing_left(folder: Path) -> bool:
    return not folder.exists() or list(folder.iterdir()) == []


def test_good_file(site, tmp_path):
    site.files["a.bin"] = BODY
    target = tmp_path / "deep" / "a.bin"
    assert fetch(site.address + "a.bin", SHA256, target) == target
    assert target.read_bytes() == BODY
    assert [p.name for p in target.parent.iterdir()] == ["a.bin"]


def test_present_file_is_not_downloaded_again(site, tmp_path):
    target = tmp_path / "a.bin"
    target.write_bytes(BODY)
    fetch(site.address + "a.bin", SHA256, target)
    assert site.asked == []


def test_compressed_file_arrives_byte_for_byte(site, tmp_path):
    import gzip

    site.files["a.gz"] = packed = gzip.compress(BODY)
    fetch(site.address + "a.gz", hashlib.sha256(packed).hexdigest(), tmp_path / "a.gz")
    assert (tmp_path / "a.gz").read_bytes() == packed


def test_wrong_checksum_keeps_nothing(site, tmp_path):
    site.files["a.bin"] = BODY[:-1]
    folder = tmp_path / "d"
    with pytest.raises(InputError, match="instead of") as error:
        fetch(site.address + "a.bin", SHA256, folder / "a.bin")
    assert SHA256 in one_line(error)
    assert nothing_left(folder)


def test_wrong_checksum_leaves_the_old_file(site, tmp_path):
    site.files["a.bin"] = b"other"
    (tmp_path / "a.bin").write_bytes(b"old")
    with pytest.raises(InputError):
        fetch(site.address + "a.bin", SHA256, tmp_path / "a.bin")
    assert (tmp_path / "a.bin").read_bytes() == b"old"


def test_not_found(site, tmp_path):
    with pytest.raises(InputError, match="404") as error:
        fetch(site.address + "none.bin", SHA256, tmp_path / "d" / "none.bin")
    assert site.address in one_line(error)
    assert nothing_left(tmp_path / "d")


def test_cut_connection(site, tmp_path):
    site.files["a.bin"] = BODY
    site.cut.add("a.bin")
    with pytest.raises(InputError, match="cut") as error:
        fetch(site.address + "a.bin", SHA256, tmp_path / "d" / "a.bin")
    one_line(error)
    assert nothing_left(tmp_path / "d")


def test_no_server(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(InputError, match="refused") as error:
        fetch(f"http://127.0.0.1:{port}/a.bin", SHA256, tmp_path / "d" / "a.bin")
    one_line(error)
    assert nothing_left(tmp_path / "d")


def test_target_that_cannot_be_written(site, tmp_path):
    site.files["a.bin"] = BODY
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match=r"cannot write.*DCFSC_DATA") as error:
        fetch(site.address + "a.bin", SHA256, tmp_path / "file" / "a.bin")
    one_line(error)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_read_only_folder(site, tmp_path):
    site.files["a.bin"] = BODY
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(InputError, match="cannot write"):
            fetch(site.address + "a.bin", SHA256, tmp_path / "a.bin")
    finally:
        tmp_path.chmod(0o700)
