"""Atomic writes, names of our own for what is half written, locks, renames that never replace."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from safetensors.numpy import save_file

from dcfsc import files
from dcfsc.files import (
    LOCK,
    PLAN,
    WriteError,
    atomic_path,
    header_of,
    is_part,
    new_stage,
    part_name,
    remove_abandoned,
    rename_new,
    set_aside,
    stages,
    sync,
    try_lock,
    write_errors,
    write_text,
)


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def fails(number: int, *args: object) -> NoReturn:
    raise OSError(number, os.strerror(number), *args)


# names of our own


def test_a_part_has_a_name_that_nobody_else_makes() -> None:
    assert part_name("0123abcd") == ".dcfsc-0123abcd-16bd8c5b063f7246.part"
    made = {part_name() for _ in range(20)}
    assert len(made) == 20
    assert all(map(is_part, made))
    assert is_part(LOCK)
    assert part_name("lock") == LOCK


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".part",
        "a.part",
        ".running.part",
        ".staged.part",
        ".labels.csv.abcdefgh.part",
        ".dcfsc-0123abcd-0000000000000000.part",
        ".dcfsc-0123abcd-16bd8c5b063f7246.part ",
        ".dcfsc-0123abcd-16bd8c5b063f7246.part\n",
        "x.dcfsc-0123abcd-16bd8c5b063f7246.part",
        ".DCFSC-0123abcd-16bd8c5b063f7246.part",
        ".dcfsc-0123abce-16bd8c5b063f7246.part",
    ],
)
def test_other_names_are_no_parts(name: str) -> None:
    assert not is_part(name)


# atomic writes


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "new" / "a.txt"
    with atomic_path(target) as part:
        assert part.name == "a.txt"  # other libraries go by the ending
        assert is_part(part.parent.name)
        part.write_text("one")
        assert not target.exists()
    assert target.read_text() == "one"
    assert names(target.parent) == ["a.txt"]
    with suppress(ZeroDivisionError), atomic_path(target) as part:
        part.write_text("two")
        part.with_name("more").touch()
        _ = 1 / 0
    assert target.read_text() == "one"
    with pytest.raises(FileNotFoundError), atomic_path(target):
        pass  # nothing was written
    assert target.read_text() == "one"
    assert names(target.parent) == ["a.txt"]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_files_have_the_mode_of_new_files(tmp_path: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        with atomic_path(tmp_path / "a") as part:
            part.touch(0o700)  # as tempfile makes them, or a library that copies a program
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o7777 == mode


def test_a_link_is_replaced_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_text(tmp_path / "link", "ä\n")
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "link").read_bytes() == "ä\n".encode()
    assert (tmp_path / "real").read_text() == "mine"


def test_what_is_left_of_killed_processes_goes_and_nothing_else(tmp_path: Path) -> None:
    """One that is killed in the middle, one at work, a finished plan, and lookalikes."""
    program = (
        "import os, sys; from pathlib import Path; from dcfsc.files import atomic_path\n"
        "with atomic_path(Path(sys.argv[1], 'a.txt')) as part:\n"
        "    part.write_text('half'); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path], check=False)
    (killed,) = stages(tmp_path)
    assert names(killed) == sorted([LOCK, "a.txt"])
    planned, somebodys = tmp_path / part_name(), tmp_path / ".staged.part"
    for folder in (planned, somebodys, tmp_path / "elsewhere"):
        folder.mkdir()
    (planned / PLAN).touch()
    (somebodys / "photo.png").touch()
    (tmp_path / "elsewhere" / "photo.png").touch()
    link, file = tmp_path / part_name(), tmp_path / part_name()
    link.symlink_to(tmp_path / "elsewhere")
    file.write_text("a file is no stage")
    with new_stage(tmp_path) as working:
        remove_abandoned(tmp_path)
        there = [planned.name, somebodys.name, "elsewhere", link.name, file.name, working.name]
        assert names(tmp_path) == sorted(there)
        assert names(working) == [LOCK]
        assert os.listdir(somebodys) == os.listdir(tmp_path / "elsewhere") == ["photo.png"]
    assert not working.exists()
    remove_abandoned(tmp_path / "nowhere")
    (tmp_path / part_name()).mkdir()
    write_text(tmp_path / "b.txt", "1")
    assert stages(tmp_path) == [planned]


def test_without_locks_nobody_can_tell_and_all_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / part_name()
    left.mkdir()
    (left / "a.txt").touch()
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", lambda *a: fails(errno.ENOSYS))
        with new_stage(tmp_path) as stage:
            remove_abandoned(tmp_path)
            assert set(stages(tmp_path)) == {left, stage}
    assert stages(tmp_path) == [left]
    with monkeypatch.context() as patch:  # a file system without them
        patch.setattr(fcntl, "flock", lambda *a: fails(errno.ENOLCK))
        remove_abandoned(tmp_path)
        write_text(tmp_path / "b.txt", "1")
        assert stages(tmp_path) == [left]
        patch.setattr(fcntl, "flock", lambda *a: fails(errno.EIO))
        with pytest.raises(OSError, match="Input/output"):
            try_lock(tmp_path / "lock")
    remove_abandoned(tmp_path)
    assert stages(tmp_path) == []


def test_a_stage_with_a_plan_outlives_its_process(tmp_path: Path) -> None:
    with new_stage(tmp_path) as stage:
        (stage / PLAN).touch()
    assert names(stage) == sorted([LOCK, PLAN])


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(WriteError) as error, write_errors(tmp_path / "a"):
        fails(errno.ENOSPC)
    assert str(error.value) == (
        f"cannot write to {tmp_path / 'a'}: No space left on device; choose another place with "
        "--out."
    )
    with pytest.raises(ZeroDivisionError), write_errors(tmp_path):
        _ = 1 / 0


def test_what_cannot_be_synced_is_no_error_but_a_broken_disk_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (errno.EINVAL, errno.ENOTSUP):
        monkeypatch.setattr(os, "fsync", lambda _, n=number: fails(n))
        sync(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda _: fails(errno.EIO))
    with pytest.raises(OSError, match="Input/output"):
        sync(tmp_path)
    monkeypatch.setattr(os, "open", lambda *_: fails(errno.EACCES))
    sync(tmp_path)  # a folder that takes files and does not show them


# locks


def test_a_lock_is_for_one_and_given_back(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = try_lock(path)
    assert first is not None
    assert try_lock(path) is None
    os.close(first)
    again = try_lock(path)
    assert again is not None
    os.close(again)


def test_a_lock_is_of_the_file_that_bears_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its holder may take the file away, or another process make a new one, between two looks."""
    path, take, calls = tmp_path / "lock", files.take_lock, []

    def late(descriptor: int) -> bool:
        calls.append(descriptor)
        if len(calls) == 1:
            path.unlink()
        if len(calls) == 2:
            path.unlink()
            path.touch()
        return take(descriptor)

    monkeypatch.setattr(files, "take_lock", late)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    lock = try_lock(path)
    assert lock is not None
    assert len(calls) == 3
    assert os.path.samestat(os.fstat(lock), path.stat())
    if before is not None:
        assert len(os.listdir("/proc/self/fd")) == before + 1
    os.close(lock)


def test_a_link_is_no_lock_and_what_it_leads_to_is_not_made(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        try_lock(tmp_path / "lock")
    assert names(tmp_path) == ["lock"]


def test_a_pipe_in_the_place_of_a_lock_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lock")
    lock = try_lock(tmp_path / "lock")
    assert lock is not None
    os.close(lock)
    with pytest.raises(IsADirectoryError):
        try_lock(tmp_path)


# renames that never replace


@pytest.fixture(params=["links", "no links"])
def _links(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "no links":
        monkeypatch.setattr(os, "link", lambda *a, **o: fails(errno.EPERM))


@pytest.mark.usefixtures("_links")
def test_a_rename_never_replaces(tmp_path: Path) -> None:
    a, b, folder = tmp_path / "a", tmp_path / "b", tmp_path / "folder"
    a.write_text("a")
    rename_new(a, b)
    assert names(tmp_path) == ["b"]
    assert b.read_text() == "a"
    assert b.stat().st_nlink == 1
    folder.mkdir()
    (folder / "mine").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    a.write_text("new")
    for there in (b, folder, tmp_path / "dangling"):
        for source in (a, folder):
            with pytest.raises(FileExistsError):
                rename_new(source, there)
    assert a.read_text() == "new"
    assert b.read_text() == "a"
    assert names(folder) == ["mine"]
    rename_new(folder, tmp_path / "other")
    rename_new(tmp_path / "dangling", tmp_path / "link")
    assert names(tmp_path) == ["a", "b", "link", "other"]
    assert os.readlink(tmp_path / "link") == "nowhere"
    with pytest.raises(FileNotFoundError):
        rename_new(tmp_path / "none", tmp_path / "c")


def test_another_error_of_a_link_is_no_reason_to_replace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("a")
    monkeypatch.setattr(os, "link", lambda *a, **o: fails(errno.EIO))
    with pytest.raises(OSError, match="Input/output"):
        rename_new(tmp_path / "a", tmp_path / "b")
    assert names(tmp_path) == ["a"]


@pytest.mark.usefixtures("_links")
def test_what_stands_in_the_way_takes_the_first_free_name(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    (tmp_path / "a.csv.bak2").mkdir()
    (tmp_path / "a.csv.bak4").symlink_to("nowhere")
    for number, aside in enumerate(("a.csv.bak", "a.csv.bak3", "a.csv.bak5")):
        path.write_text(str(number))
        with pytest.warns(UserWarning, match=rf"a\.csv was not dcfsc's; it is now {aside}\.$"):
            set_aside(path)
    path.symlink_to("a.csv.bak")
    with pytest.warns(UserWarning, match=r"is now a\.csv\.bak6"):
        set_aside(path)
    path.mkdir()
    (path / "photo.png").touch()
    with pytest.warns(UserWarning, match=r"is now a\.csv\.bak7"):
        set_aside(path)
    assert names(tmp_path) == ["a.csv.bak", *(f"a.csv.bak{i}" for i in range(2, 8))]
    read = [(tmp_path / f"a.csv.bak{i}").read_text() for i in ("", 3, 5)]
    assert read == ["0", "1", "2"]
    assert os.readlink(tmp_path / "a.csv.bak6") == "a.csv.bak"
    assert names(tmp_path / "a.csv.bak7") == ["photo.png"]


# headers


def safetensors(header: bytes, length: int | None = None) -> bytes:
    return (len(header) if length is None else length).to_bytes(8, "little") + header


def test_the_header_of_a_file_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_file({"x": np.zeros(3)}, path, metadata={"dcfsc": json.dumps({"class": "DCFSC"})})
    assert header_of(path) == {"class": "DCFSC"}
    (tmp_path / "link").symlink_to(path)
    assert header_of(tmp_path / "link") == {"class": "DCFSC"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x05",
        safetensors(b"{}"),
        safetensors(b"[]"),
        safetensors(b'{"__metadata__": 3}'),
        safetensors(b'{"__metadata__": {}}'),
        safetensors(b'{"__metadata__": {"dcfsc": {"class": "DCFSC"}}}'),
        safetensors(b'{"__metadata__": {"dcfsc": "[1]"}}'),
        safetensors(b'{"__metadata__": {"dcfsc": "not JSON"}}'),
        safetensors(b'{"__metadata__": {"other": "{}"}}'),
        safetensors(b'{"__metadata__": {"dcfsc": "{}"}}', 1 << 62),
        safetensors(b'{"__metadata__": {"dcfsc": "{}"}}', 1000),
        safetensors(b'{"__metadata__": {"dcfsc": "{}"}}', 0),
        safetensors(b'{"__metadata__": {"dcfsc": "{}"}}', 5),
        safetensors(b"[" * 100_000),
        safetensors(b'{"__metadata__": {"dcfsc": "' + b"[" * 100_000 + b'"}}'),
        safetensors(b"\xff\xfe\xfd"),
        b"PK\x03\x04 of another program",
    ],
)
def test_other_files_have_no_header_of_ours(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    assert header_of(tmp_path / "a") is None


def test_what_is_no_file_has_no_header_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "link").symlink_to("pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(tmp_path / "socket"))
        odd: list[Any] = [tmp_path, tmp_path / "none", "/dev/zero", "a\0b", "a" * 5000]
        odd += [tmp_path / name for name in ("pipe", "loop", "link", "socket")]
        assert [header_of(path) for path in odd] == [None] * len(odd)
