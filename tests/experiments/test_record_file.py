"""Records on lines: several processes, kills in the middle of a line, replaced and removed keys."""

import json
import multiprocessing
import os
from pathlib import Path

import pytest

from dcfsc.experiments import record_file

PROCESSES, EACH = 4, 40


def record(key, **values):
    return {"key": key, **values}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cells" / "ssc.jsonl"


@pytest.fixture(params=["flock", "lock file"])
def locks(request, monkeypatch):
    """Both ways to lock a file, where the system has both."""
    if request.param == "lock file":
        monkeypatch.setattr(record_file, "fcntl", None)


def test_records_come_back_by_key(path, locks):
    assert record_file.read(path) == {}
    for key in ("b", "c", "a"):
        record_file.append(path, record(key, value=key * 2))
    assert list(record_file.read(path)) == ["a", "b", "c"]
    assert record_file.read(path)["b"] == record("b", value="bb")
    assert [json.loads(line)["key"] for line in path.read_text().splitlines()] == ["b", "c", "a"]


def test_a_later_record_replaces_an_earlier_one(path, locks):
    for value in (1, 2):
        record_file.append(path, record("a", value=value))
    record_file.append(path, record("0"))
    assert record_file.read(path)["a"]["value"] == 2
    record_file.tidy(path)
    assert path.read_text() == '{"key": "0"}\n{"key": "a", "value": 2}\n'


def test_a_tidy_file_is_left_alone(path):
    record_file.append(path, record("a"))
    before = path.stat()
    record_file.tidy(path)
    assert os.path.samestat(before, path.stat())
    assert before.st_mtime_ns == path.stat().st_mtime_ns


def test_a_last_line_cut_short_is_passed_over_then_removed(path):
    record_file.append(path, record("a"))
    whole = path.read_bytes()
    line = json.dumps(record("b", text="é, and more")).encode() + b"\n"
    for length in range(1, len(line)):
        path.write_bytes(whole + line[:length])
        kept = ["a"] if length < len(line) - 1 else ["a", "b"]  # whole but for its end
        assert list(record_file.read(path)) == kept
        record_file.append(path, record("c"))
        assert list(record_file.read(path)) == [*kept, "c"]
        assert all(json.loads(text) for text in path.read_text().splitlines())


def test_removing_the_last_record_removes_the_file(path, locks):
    record_file.discard(path, "a")
    assert not path.exists()
    for key in ("a", "b"):
        record_file.append(path, record(key))
    record_file.discard(path, "a")
    record_file.discard(path, "never there")
    assert list(record_file.read(path)) == ["b"]
    record_file.discard(path, "b")
    assert list(path.parent.iterdir()) == []


def append_many(path, process, by_lock_file):
    if by_lock_file:
        record_file.fcntl = None
    failed = path.with_name("ssc.failed.jsonl")
    for number in range(EACH):
        key = f"{process}-{number:02d}"
        record_file.append(failed, record(key))
        record_file.append(path, record(key, text="x" * 20_000))
        record_file.discard(failed, key)
        if number % 10 == process:
            record_file.tidy(path)


@pytest.mark.parametrize("by_lock_file", [False, True])
def test_processes_append_at_once_and_lose_nothing(path, by_lock_file):
    # a forked process has everything imported; its work is plain Python
    context = multiprocessing.get_context("fork" if hasattr(os, "fork") else "spawn")
    processes = [
        context.Process(target=append_many, args=(path, process, by_lock_file))
        for process in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(600)
        assert process.exitcode == 0
    assert len(record_file.read(path)) == PROCESSES * EACH
    assert len(path.read_text().splitlines()) == PROCESSES * EACH
    assert [p.name for p in path.parent.iterdir()] == ["ssc.jsonl"]


def test_an_abandoned_lock_file_is_removed(path, monkeypatch):
    monkeypatch.setattr(record_file, "fcntl", None)
    path.parent.mkdir()
    lock = Path(path.parent, ".ssc.jsonl.lock")
    lock.touch()
    os.utime(lock, (0, 0))
    record_file.append(path, record("a"))
    assert list(record_file.read(path)) == ["a"]
    assert not lock.exists()


FOREIGN = [
    *(b"a note of somebody's", b"[1, 2]", b'{"no": "key"}', b'{"key": 3}', b"\xff\xfe", b"[" * 9000)
]


@pytest.mark.filterwarnings("ignore:.*no results")
def test_foreign_lines_are_told_and_stay(path, locks):
    for key in ("b", "a"):
        record_file.append(path, record(key))
    path.write_bytes(path.read_bytes() + b"".join(line + b"\n" for line in FOREIGN))
    with pytest.warns(UserWarning, match=r"ssc\.jsonl has 6 lines that are no results; they stay"):
        assert list(record_file.read(path)) == ["a", "b"]
    record_file.tidy(path)
    record_file.append(path, record("c"))
    record_file.discard(path, "a")
    assert path.read_bytes().splitlines() == [*FOREIGN, b'{"key": "b"}', b'{"key": "c"}']
    record_file.discard(path, "b")
    record_file.discard(path, "c")
    assert path.read_bytes().splitlines() == FOREIGN


@pytest.mark.filterwarnings("ignore:.*no results")
def test_a_foreign_line_without_an_end_stays(path):
    record_file.append(path, record("a"))
    path.write_bytes(path.read_bytes() + b"a note")
    record_file.append(path, record("b"))
    assert path.read_bytes() == b'{"key": "a"}\na note\n{"key": "b"}\n'


def test_a_pipe_is_not_waited_for(path):
    path.parent.mkdir()
    os.mkfifo(path)
    assert record_file.read(path) == {}
