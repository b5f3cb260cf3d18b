"""Records on lines: several processes, kills in the middle of a line, replaced and removed keys."""

import json
import multiprocessing
import os

import pytest

from research.experiments import record_file

PROCESSES, EACH = 4, 40


def record(key, **values):
    return {"key": key, **values}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cells" / "ssc.jsonl"


def test_records_come_back_by_key(path):
    assert record_file.read(path) == {}
    for key in ("b", "c", "a"):
        record_file.append(path, record(key, value=key * 2))
    assert list(record_file.read(path)) == ["a", "b", "c"]
    assert record_file.read(path)["b"] == record("b", value="bb")
    assert [json.loads(line)["key"] for line in path.read_text().splitlines()] == ["b", "c", "a"]


def test_a_later_record_replaces_an_earlier_one(path):
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


def test_removing_the_last_record_removes_the_file(path):
    record_file.discard(path, "a")
    assert not path.exists()
    for key in ("a", "b"):
        record_file.append(path, record(key))
    record_file.discard(path, "a")
    record_file.discard(path, "never there")
    assert list(record_file.read(path)) == ["b"]
    record_file.discard(path, "b")
    assert list(path.parent.iterdir()) == []


def append_many(path, process):
    failed = path.with_name("ssc.failed.jsonl")
    for number in range(EACH):
        key = f"{process}-{number:02d}"
        record_file.append(failed, record(key))
        record_file.append(path, record(key, text="x" * 20_000))
        record_file.discard(failed, key)
        if number % 10 == process:
            record_file.tidy(path)


def test_processes_append_at_once_and_lose_nothing(path):
    # a forked process has everything imported; its work is plain Python
    context = multiprocessing.get_context("fork" if hasattr(os, "fork") else "spawn")
    processes = [
        context.Process(target=append_many, args=(path, process)) for process in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(600)
        assert process.exitcode == 0
    assert len(record_file.read(path)) == PROCESSES * EACH
    assert len(path.read_text().splitlines()) == PROCESSES * EACH
    assert [p.name for p in path.parent.iterdir()] == ["ssc.jsonl"]


FOREIGN = "a note, that is no record\n"


@pytest.mark.parametrize("change", [record_file.tidy, lambda path: record_file.discard(path, "a")])
def test_a_file_without_a_record_is_somebodys(path, change):
    path.parent.mkdir()
    path.write_text(FOREIGN)
    change(path)
    assert path.read_text() == FOREIGN


def test_what_somebody_wrote_between_records_is_kept_and_the_records_go_on(path):
    record_file.append(path, record("a", value=1))
    changed = path.read_text() + FOREIGN
    path.write_text(changed)
    record_file.append(path, record("b", value=2))
    record_file.tidy(path)
    record_file.discard(path, "a")
    assert path.read_text() == changed + '{"key": "b", "value": 2}\n'
    with pytest.warns(UserWarning, match="1 in number"):
        assert list(record_file.read(path)) == ["a", "b"]


def test_a_link_is_not_followed(path):
    path.parent.mkdir()
    other = path.with_name("other")
    other.write_text("mine")
    path.symlink_to(other)
    with pytest.raises(OSError, match="symbolic links"):
        record_file.append(path, record("a"))
    assert other.read_text() == "mine"


LINES = [b"a note", b"[1, 2]", b'{"no": "key"}', b'{"key": 3}', b"\xff\xfe", b"[" * 9000]


def test_lines_that_are_no_records_are_counted_in_one_line(path):
    for key in ("b", "a"):
        record_file.append(path, record(key))
    path.write_bytes(path.read_bytes() + b"".join(line + b"\n" for line in LINES))
    with pytest.warns(UserWarning, match=r"ssc\.jsonl has lines that are no results, 6 in number"):
        assert list(record_file.read(path)) == ["a", "b"]


def test_a_pipe_is_not_waited_for(path):
    path.parent.mkdir()
    os.mkfifo(path)
    assert record_file.read(path) == {}
