"""The list of what is ours in a folder, and changes that happen whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

from dcfsc import journal
from dcfsc.errors import InputError
from dcfsc.files import LOCK, PLAN, is_part, part_name, stages
from dcfsc.journal import (
    EXPORT,
    LIST,
    RESULTS,
    RUN,
    Filled,
    digest,
    filling,
    held,
    is_record,
    kind_of,
    settle,
)


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def fill(folder: Path, files: Mapping[str, str], kind: str = RUN, **options: Any) -> None:
    with held(folder), filling(folder, kind, **options) as place:
        write(place, files)


def content(folder: Path) -> dict[str, str]:
    """What is in a folder, but the list; a link is where it leads."""
    found: dict[str, str] = {}
    for above, folders, files in os.walk(folder):
        for path in (Path(above, name) for name in (*files, *folders)):
            name = path.relative_to(folder).as_posix()
            if path.is_symlink():
                found[name] = f"-> {os.readlink(path)}"
            elif path.is_dir():
                found |= {} if any(path.iterdir()) else {f"{name}/": ""}
            else:
                found[name] = path.read_text()
    assert found.pop(LIST, "") != "-> "
    return dict(sorted(found.items()))


def listed(folder: Path) -> dict[str, list[str]]:
    known = Filled.read(folder)
    assert known is not None
    return dict(known.files)


def seal(path: Path, inner: Any) -> None:
    """What only somebody would write who knows how lists are sealed."""
    text = json.dumps(inner, sort_keys=True)
    path.write_text(json.dumps({"sha256": sha(text), "content": inner}))


def planned(folder: Path, new: Mapping[str, str], **plan: Any) -> Path:
    """What a process leaves that is killed as soon as its change counts, or somebody forges."""
    stage = folder / part_name()
    (stage / "files").mkdir(parents=True)
    write(stage / "files", new)
    made = {name: [sha(text)] for name, text in new.items()}
    given = {"kind": RUN, "files": made, "removes": {}, "renames": {}}
    seal(stage / PLAN, {"dcfsc_files": 1, **given, **plan})
    return stage


# digests


def test_a_digest_is_of_the_content_or_of_where_a_link_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("a" * 3_000_000)
    assert digest(tmp_path / "a") == sha("a" * 3_000_000)
    for target in ("a", "nowhere", os.fsdecode(b"\xff\n")):
        link = tmp_path / "link"
        link.symlink_to(target)
        assert digest(link) == f"link {hashlib.sha256(os.fsencode(target)).hexdigest()}"
        link.unlink()
    os.mkfifo(tmp_path / "pipe")
    assert [digest(tmp_path / name) for name in (".", "pipe")] == ["other", "other"]
    assert [digest(tmp_path / name) for name in ("none", "a/b")] == [None, None]

    def denied(*args: object) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("builtins.open", denied)
    assert digest(tmp_path / "a") == "other"  # whatever it is, it is not known for ours


# the list


def test_the_list_says_what_is_ours(tmp_path: Path) -> None:
    write(tmp_path, {"a": "a", "b": "b", "c/d": "d", "gone": "", "linked": "x", "mine": "a"})
    known = Filled(EXPORT, {"a": [sha("a")], "c/d": [sha("old"), sha("d")], "gone": [sha("")]})
    known = Filled(EXPORT, {**known.files, "b": [sha("was b")], "linked": [sha("x")]})
    known.write(tmp_path)
    assert Filled.read(tmp_path) == known
    assert known.files["b"] == [sha("was b")]
    (tmp_path / "gone").unlink()
    (tmp_path / "linked").rename(tmp_path / "real")
    (tmp_path / "linked").symlink_to("real")
    ours = ["a", "c/d"]
    assert [n for n in (*known.files, "mine", LIST) if known.owns(tmp_path, n)] == ours
    assert kind_of(tmp_path) == EXPORT
    assert Filled.read(tmp_path / "c") is None
    assert kind_of(tmp_path / "c") is None
    assert Filled(RUN, {"none": []}).owns(tmp_path, "none") is False


def sealed_list(**changes: Any) -> dict[str, Any]:
    return {"dcfsc_files": 1, "kind": RUN, "files": {"a": [sha("a")]}, **changes}


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "photos"},
        {"kind": ["run"]},
        {"files": []},
        {"files": None},
        {"files": {"a": 5}},
        {"files": {"a": None}},
        {"files": {"a": sha("a")}},
        {"files": {"a": {sha("a"): 1}}},
        {"files": {"a": [5]}},
        {"files": {"a": [None]}},
        {"files": {"a": ["other"]}},
        {"files": {"a": [sha("a").upper()]}},
        {"files": {"a": [sha("a") + " "]}},
        {"more": 1},
        {"dcfsc_files": "1"},
        {"dcfsc_files": None},
    ],
)
def test_a_list_with_other_fields_is_refused_though_sealed(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    seal(tmp_path / LIST, sealed_list())
    assert listed(tmp_path) == {"a": [sha("a")]}
    seal(tmp_path / LIST, sealed_list(**changes))
    with pytest.raises(InputError, match=r"\.dcfsc\.json is damaged or not written by dcfsc; mo"):
        Filled.read(tmp_path)
    assert kind_of(tmp_path) is None


NAMES_OUTSIDE = [
    *("", ".", "..", "../a", "a/../../b", "/etc/passwd", "//a", "./a", "a/", "a//b", "a/."),
    *(LIST, f"{LIST}/a", LOCK, f"a/{part_name('0123abcd')}", "a\0b", "\ud800"),
]


@pytest.mark.parametrize("name", NAMES_OUTSIDE)
def test_names_outside_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    seal(tmp_path / LIST, sealed_list(files={name: [sha("a")]}))
    with pytest.raises(InputError, match="damaged or not written by dcfsc"):
        Filled.read(tmp_path)
    (tmp_path / LIST).unlink()
    victim = tmp_path / "victim"
    victim.mkdir()
    for plan in (
        {"files": {name: [sha("a")]}},
        {"removes": {name: [sha("a")]}},
        {"renames": {"a": name}},
        {"renames": {name: "a"}},
    ):
        stage = planned(victim, {"b": "b"}, **plan)
        (victim / "a").write_text("a")
        with pytest.raises(InputError, match=r"plan\.json is damaged or not written by dcfsc"):
            settle(victim)
        assert (victim / "a").read_text() == "a"
        shutil.rmtree(stage)


def test_a_list_that_was_edited_is_no_longer_ours(tmp_path: Path) -> None:
    fill(tmp_path, {"a": "a"})
    text = (tmp_path / LIST).read_text()
    (tmp_path / "b").write_text("mine")
    for edited in (
        text.replace(sha("a"), sha("mine")),
        text.replace('"a"', '"b"'),
        text.replace('"run"', '"export"'),
        text[:-20],
        "",
        "[]",
        "{}",
        "[" * 100_000,
        '{"sha256": 1, "content": "a"}',
        text + "\0",
    ):
        assert edited != text
        (tmp_path / LIST).write_text(edited)
        with pytest.raises(InputError, match="damaged or not written by dcfsc"):
            fill(tmp_path, {"b": "new"})
        assert content(tmp_path) == {"a": "a", "b": "mine"}
    seal(tmp_path / LIST, {**sealed_list(), "dcfsc_files": 2, "later": 1})
    with pytest.raises(InputError, match="written by a later dcfsc; upgrade dcfsc"):
        Filled.read(tmp_path)


def test_a_list_is_a_file_of_some_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, {"a": "a"})
    (tmp_path / LIST).rename(tmp_path / "real")
    (tmp_path / LIST).symlink_to("real")
    assert kind_of(tmp_path) is None
    (tmp_path / LIST).unlink()
    os.mkfifo(tmp_path / LIST)  # nobody waits for it
    assert kind_of(tmp_path) is None
    (tmp_path / LIST).unlink()
    (tmp_path / "real").rename(tmp_path / LIST)
    assert kind_of(tmp_path) == RUN
    monkeypatch.setattr(journal, "LONGEST_LIST", 20)
    assert kind_of(tmp_path) is None


def test_a_record_makes_a_run_of_a_folder_without_a_list(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    for text, run in (
        ('{"dcfsc_run": 2}', True),
        ('{"dcfsc_run": 99, "name": "later"}', True),
        ('["dcfsc_run"]', False),
        ('"dcfsc_run"', False),
        ("{}", False),
        ("5", False),
        ("{", False),
        ("[" * 100_000, False),
    ):
        path.write_text(text)
        assert is_record(path) is run
        assert kind_of(tmp_path) == (RUN if run else None)
    path.unlink()
    os.mkfifo(path)
    assert not is_record(path)
    assert not is_record(tmp_path)


# filling


def test_a_run_is_filled_and_filled_again(tmp_path: Path) -> None:
    """Each file ours, edited, taken out or added by hand; new, or not, in the second one."""
    first = {f"{hand}-{new}": "1" for hand in ("ours", "edited", "out") for new in ("new", "not")}
    fill(tmp_path, first)
    assert content(tmp_path) == first
    assert listed(tmp_path) == {name: [sha("1")] for name in first}
    for new in ("new", "not"):
        write(tmp_path, {f"edited-{new}": "mine", f"added-{new}": "mine"})
        (tmp_path / f"out-{new}").unlink()
    write(tmp_path, {"plain-new": "2"})  # by chance the very same
    second = dict.fromkeys(("ours-new", "edited-new", "out-new", "added-new", "plain-new"), "2")
    with pytest.warns(UserWarning, match="was not dcfsc's") as told:
        fill(tmp_path, second)
    mine = ("edited-new.bak", "edited-not", "added-new.bak", "added-not")
    assert content(tmp_path) == dict(sorted({**second, **dict.fromkeys(mine, "mine")}.items()))
    assert listed(tmp_path) == {name: [sha("2")] for name in second}
    assert sorted(str(w.message).split(" it is now ")[1] for w in told) == [
        "added-new.bak.",
        "edited-new.bak.",
    ]
    assert kind_of(tmp_path) == RUN


def test_only_what_is_to_go_goes(tmp_path: Path) -> None:
    first = {"a": "1", "b": "1", "c": "1", "edits": "1"}
    fill(tmp_path, first)
    write(tmp_path, {"b": "mine", "checkpoint": "not listed", "other": "mine"})
    again = {"d": "2"}
    fill(tmp_path, again, removes=("a", "b", "other", "none"), spent=["checkpoint", "nothing"])
    left = {"b": "mine", "c": "1", "d": "2", "edits": "1", "other": "mine"}
    assert content(tmp_path) == left
    assert set(listed(tmp_path)) == {"c", "d", "edits"}
    fill(tmp_path, {}, removes=(), renames={"edits": "edits.1", "none": "none.1", "c": "other"})
    left["edits.1"] = left.pop("edits")
    assert content(tmp_path) == dict(sorted(left.items()))
    known = Filled.read(tmp_path)
    assert known is not None
    assert [n for n in content(tmp_path) if known.owns(tmp_path, n)] == ["d", "edits.1"]


def test_an_export_stays_as_somebody_arranged_it(tmp_path: Path) -> None:
    first = {
        "0/same": "s",
        "0/edited": "e",
        "0/out": "o",
        "0/old": "x",
        "1/old": "y",
        "1/moved": "m",
    }
    fill(tmp_path, first, EXPORT)
    write(tmp_path, {"0/edited": "mine", "0/added": "mine", "note": "mine", "2/new": "mine"})
    (tmp_path / "0/out").unlink()
    (tmp_path / "1/moved").rename(tmp_path / "favorite")
    second = {"0/same": "s2", "0/edited": "e2", "0/out": "o2", "2/new": "n", "3/moved": "m"}
    stays = {"0/added": "mine", "0/edited": "mine", "0/same": "s2", "2/new": "mine"}
    stays |= {"favorite": "m", "note": "mine"}
    for _ in range(3):
        with pytest.warns(UserWarning, match=rf"^4 files of {tmp_path} were changed or taken out"):
            fill(tmp_path, second, EXPORT)
        assert content(tmp_path) == stays
        assert not (tmp_path / "1").exists()  # emptied by us
    fill(tmp_path, {}, EXPORT)
    del stays["0/same"]
    assert content(tmp_path) == stays
    with pytest.warns(UserWarning, match=r"files of .* were changed or taken out by hand"):
        fill(tmp_path, {**first, "4/plain": "p"}, EXPORT)
    again = {"0/same": "s", "0/old": "x", "1/old": "y", "4/plain": "p"}
    assert content(tmp_path) == dict(sorted({**stays, **again}.items()))


def test_links_are_ours_by_where_they_lead(tmp_path: Path) -> None:
    def link(names: Mapping[str, str]) -> None:
        with held(tmp_path), filling(tmp_path, EXPORT) as place:
            for name, target in names.items():
                (place / name).symlink_to(target)

    (tmp_path.parent / "photos").mkdir(exist_ok=True)
    link({"a": "/photos/a", "b": "/photos/b", "c": str(tmp_path.parent / "photos")})
    assert set(listed(tmp_path)) == {"a", "b", "c"}
    (tmp_path / "b").unlink()
    (tmp_path / "b").symlink_to("/mine/b")
    with pytest.warns(UserWarning, match="^1 file of .* was changed"):
        link({"a": "/other/a", "b": "/other/b"})
    assert content(tmp_path) == {"a": "-> /other/a", "b": "-> /mine/b"}


def test_a_folder_in_the_place_of_a_file_is_set_aside(tmp_path: Path) -> None:
    fill(tmp_path, {"a": "1"})
    (tmp_path / "a").unlink()
    write(tmp_path, {"a/photo": "mine"})
    with pytest.warns(UserWarning, match=r"it is now a\.bak"):
        fill(tmp_path, {"a": "2"})
    assert content(tmp_path) == {"a": "2", "a.bak/photo": "mine"}


@pytest.mark.parametrize("kind", [RUN, EXPORT, RESULTS])
def test_links_to_elsewhere_are_not_followed(tmp_path: Path, kind: str) -> None:
    ours, outside = tmp_path / "ours", tmp_path / "outside"
    ours.mkdir()
    fill(ours, {"sub/a": "1", "sub/b": "1"}, kind)
    (ours / "sub").rename(outside)
    (ours / "sub").symlink_to(outside)
    with pytest.warns(UserWarning, match="2 files of"):
        fill(ours, {"sub/a": "2", "sub/c": "2"}, kind)
    assert content(outside) == {"a": "1", "b": "1"}
    fill(ours, {"d": "3"}, kind)
    assert content(outside) == {"a": "1", "b": "1"}
    assert content(ours) == {"d": "3", "sub": f"-> {outside}"}


def test_a_forged_plan_moves_nothing_in_or_out(tmp_path: Path) -> None:
    ours, outside = tmp_path / "ours", tmp_path / "outside"
    ours.mkdir()
    write(outside, {"secret": "s"})
    (ours / "link").symlink_to(outside)
    stage = planned(ours, {}, files={"sub/secret": [sha("s")]})
    (stage / "files/sub").symlink_to(outside)
    with pytest.warns(UserWarning, match="^1 file of .* was changed"):
        settle(ours)
    planned(ours, {}, removes={"link/secret": [sha("s")]})
    settle(ours)
    planned(ours, {}, renames={"link/secret": "secret"})
    with pytest.raises(InputError, match="damaged or not written by dcfsc"):
        settle(ours)
    assert content(outside) == {"secret": "s"}


@pytest.mark.parametrize(
    "plan",
    [
        {"files": {"b": sha("b")}},
        {"files": {"b": [{}]}},
        {"removes": {"a": sha("a")}},
        {"removes": {"a": 1}},
        {"removes": {"folder": ["other"]}},
        {"renames": {"a": 5}},
        {"renames": {"a": ["b"]}},
        {"kind": None},
        {"removes": None},
        {"more": {}},
        {"dcfsc_files": 2},
    ],
)
def test_a_plan_with_other_fields_is_one_line_and_changes_nothing(
    tmp_path: Path, plan: dict[str, Any]
) -> None:
    write(tmp_path, {"a": "a", "folder/b": "b"})
    stage = planned(tmp_path, {"c": "c"}, **plan)
    for act in (settle, lambda folder: fill(folder, {"a": "2"})):
        with pytest.raises(InputError) as error:
            act(tmp_path)
        assert len(str(error.value).splitlines()) == 1
        assert (stage / "files/c").read_text() == "c"
    shutil.rmtree(stage)
    assert content(tmp_path) == {"a": "a", "folder/b": "b"}


def test_a_failure_before_the_plan_changes_nothing(tmp_path: Path) -> None:
    fill(tmp_path, {"a": "1"})

    def fail(error: BaseException) -> None:
        with held(tmp_path), filling(tmp_path, RUN) as place:
            write(place, {"a": "2", "b": "2"})
            raise error

    for error in (KeyboardInterrupt(), ZeroDivisionError()):
        with pytest.raises(type(error)):
            fail(error)
    with pytest.raises(InputError, match=r"cannot write to .*: No space left on device"):
        fail(OSError(errno.ENOSPC, "No space left on device"))
    assert content(tmp_path) == {"a": "1"}
    assert sorted(os.listdir(tmp_path)) == [LIST, "a"]


def test_a_failure_after_the_plan_is_told_and_completed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, {"a": "1", "b": "1"})
    replace = os.replace

    def full(source: Any, target: Any) -> None:
        if Path(target).name == "b":
            raise OSError(errno.EIO, "Input/output error")
        replace(source, target)

    told = r"are complete, but could not be moved into place: Input/output error; repeat .*--resume"
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(InputError, match=told):
            fill(tmp_path, {"a": "2", "b": "2", "c": "2"}, last="a")
        for again in (settle, lambda folder: fill(folder, {})):
            with pytest.raises(InputError, match=told):
                again(tmp_path)
        assert (tmp_path / "a").read_text() == "1"  # the last one
    settle(tmp_path)
    assert content(tmp_path) == {"a": "2", "b": "2", "c": "2"}
    assert listed(tmp_path) == {name: [sha("2")] for name in ("a", "b", "c")}


# interruptions

CHANGES = ("replace", "rename", "link", "unlink", "rmdir", "mkdir")


def killed_at(step: int, work: Callable[[], None]) -> int:
    """Do ``work`` in a child that dies before its ``step``-th change; its exit status."""
    child = os.fork()
    if not child:
        left = iter(range(step - 1))

        def counted(change: Callable[..., None]) -> Callable[..., None]:
            def counting(*args: Any, **more: Any) -> None:
                if next(left, None) is None:
                    os._exit(9)
                change(*args, **more)

            return counting

        try:
            for name in CHANGES:
                setattr(os, name, counted(getattr(os, name)))
            work()
            os._exit(0)
        finally:
            os._exit(70)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def interrupted(
    tmp_path: Path, start: Path, work: Callable[[Path], None]
) -> Iterator[tuple[int, Path]]:
    """A copy of ``start`` for each moment at which ``work`` may be killed, completed since."""
    for step in range(1, 400):
        folder = tmp_path / f"step-{step}"
        shutil.copytree(start, folder, symlinks=True)
        status = killed_at(step, lambda: work(folder))  # noqa: B023
        assert status in (0, 9)
        if step % 2:  # by a reader, or by a writer
            settle(folder)
        else:
            fill(folder, {}, str(kind_of(start)), removes=())
        assert not [name for name in os.listdir(folder) if is_part(name)]
        yield step, folder
        if status == 0:
            return
    raise AssertionError("it never ends")


@pytest.fixture
def _fast_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.mark.usefixtures("_fast_disk")
@pytest.mark.filterwarnings("ignore:.* was not dcfsc's", "ignore:.*multi-threaded")
def test_a_run_that_is_killed_anywhere_is_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    start = tmp_path / "start"
    start.mkdir()
    fill(start, {"run.json": "1", "labels": "1", "edited": "1", "details": "1", "edits": "1"})
    write(start, {"edited": "mine", "note": "mine", "checkpoint": "c"})
    before = content(start)

    def work(folder: Path) -> None:
        fill(
            folder,
            {"run.json": "2", "labels": "2", "edited": "2", "sub/new": "2"},
            last="run.json",
            removes=("details",),
            renames={"edits": "edits.1"},
            spent=["checkpoint"],
        )

    new = {"edited": "2", "labels": "2", "run.json": "2", "sub/new": "2"}
    after = {**new, "edited.bak": "mine", "edits.1": "1", "note": "mine"}
    ends = []
    for step, folder in interrupted(tmp_path, start, work):
        found = content(folder)
        if found.get("edited.bak2") == "mine":  # linked, and not yet unlinked
            del found["edited.bak2"]
        assert found in (before, dict(sorted(after.items()))), step
        ends.append(found == before)
        known = Filled.read(folder)
        assert known is not None
        ours = {name for name in found if known.owns(folder, name)}
        assert ours == (
            {"run.json", "labels", "details", "edits"} if ends[-1] else {*new, "edits.1"}
        )
    assert ends == sorted(ends, reverse=True)
    assert {True, False} == set(ends)


@pytest.mark.usefixtures("_fast_disk")
@pytest.mark.filterwarnings("ignore:.* by hand", "ignore:.*multi-threaded")
def test_an_export_that_is_killed_anywhere_is_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    start = tmp_path / "start"
    start.mkdir()
    fill(start, {"0/a": "1", "0/edited": "1", "0/out": "1", "1/b": "1"}, EXPORT)
    write(start, {"0/edited": "mine", "0/note": "mine"})
    (start / "0/out").unlink()
    before = content(start)
    new = {"0/a": "2", "0/edited": "2", "0/out": "2", "2/b": "2"}
    after = {"0/a": "2", "0/edited": "mine", "0/note": "mine", "2/b": "2"}

    def work(folder: Path) -> None:
        fill(folder, new, EXPORT)

    ends = []
    for step, folder in interrupted(tmp_path, start, work):
        found = content(folder)
        found.pop("1/", None)  # a folder that was emptied, and not yet removed
        ends.append(found == before)
        assert found in (before, after), step
        work(folder)  # and what was done by hand is still known
        assert {name: text for name, text in content(folder).items() if name != "1/"} == after, step
    assert {True, False} == set(ends)


def test_a_plan_is_done_by_whoever_comes_next(tmp_path: Path) -> None:
    fill(tmp_path, {"a": "1"})
    for act in (settle, lambda folder: fill(folder, {}, removes=())):
        write(tmp_path, {"a": "1"})
        planned(tmp_path, {"a": "2", "b": "2"})
        (tmp_path / part_name()).mkdir()  # one that was killed before it counted
        act(tmp_path)
        assert content(tmp_path) == {"a": "2", "b": "2"}
        fill(tmp_path, {"a": "1"})


# one at a time


def test_another_process_is_refused_or_waited_for(tmp_path: Path) -> None:
    with held(tmp_path):
        assert os.listdir(tmp_path) == [LOCK]
        with pytest.raises(InputError, match=r"another process is writing to .*; wait until it"):
            fill(tmp_path, {"a": "1"})
        with pytest.raises(InputError, match="another process is writing"):
            fill_after(tmp_path, 0.05)
    assert os.listdir(tmp_path) == []
    ready = threading.Event()

    def hold() -> None:
        with held(tmp_path):
            ready.set()
            ready.wait()
            threading.Event().wait(0.05)

    other = threading.Thread(target=hold)
    other.start()
    ready.wait()
    fill_after(tmp_path, 10)
    other.join()
    assert content(tmp_path) == {"a": "1"}


def fill_after(folder: Path, wait: float) -> None:
    with held(folder, wait), filling(folder, RUN) as place:
        write(place, {"a": "1"})


def test_a_reader_leaves_alone_what_a_living_process_writes(tmp_path: Path) -> None:
    with held(tmp_path), filling(tmp_path, RUN) as place:
        write(place, {"a": "1"})
        settle(tmp_path)
        assert content(place) == {"a": "1"}
    with filling(tmp_path, RUN) as place:  # by one whose lock of the folder was lost
        write(place, {"a": "2"})
        dead = tmp_path / part_name()
        dead.mkdir()
        settle(tmp_path)
        assert stages(tmp_path) == [place.parent]
    assert content(tmp_path) == {"a": "2"}


@contextmanager
def read_only() -> Iterator[None]:
    def refuse(path: Path) -> NoReturn:
        raise OSError(errno.EROFS, "Read-only file system")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "try_lock", refuse)
        yield


def test_a_folder_that_is_only_read_from(tmp_path: Path) -> None:
    fill(tmp_path, {"a": "1"})
    (tmp_path / part_name()).mkdir()
    with read_only():
        settle(tmp_path)
        with pytest.raises(InputError, match=r"cannot write to .*: Read-only file system; choose"):
            fill(tmp_path, {"a": "2"})
    planned(tmp_path, {"a": "2"})
    with read_only(), pytest.raises(InputError, match="complete, but could not be moved into"):
        settle(tmp_path)
    settle(tmp_path / "nowhere")
    settle(tmp_path)
    assert content(tmp_path) == {"a": "2"}
