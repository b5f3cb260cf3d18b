"""The rule for writing one file: what this program did not make is never removed or replaced."""

from __future__ import annotations

import errno
import hashlib
import os
import socket
import threading
from pathlib import Path
from typing import Any, NoReturn

import pytest

from dcfsc import files, journal, ownership
from dcfsc.errors import InputError
from dcfsc.files import is_part, part_name
from dcfsc.journal import EXPORT, LIST, RUN, Filled, filling, held, settle
from dcfsc.ownership import Output, check_place


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def put(output: Output, text: str = "new") -> None:
    with output.open() as part:
        assert part.name == output.target.name
        part.write_text(text)


def content(folder: Path) -> dict[str, str]:
    there = sorted(path for path in folder.iterdir() if path.name != LIST)
    return {p.name: f"-> {os.readlink(p)}" if p.is_symlink() else p.read_text() for p in there}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    with held(folder), filling(folder, RUN) as place:
        (place / "run.json").write_text('{"dcfsc_run": 2}')
        (place / "report.html").write_text("page")
    return folder


# somebody's files


def test_a_new_file_with_the_folders_above_it(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b" / "c.csv"
    put(Output(target))
    assert content(target.parent) == {"c.csv": "new"}


def test_a_file_of_somebodys_is_an_error_or_kept_aside(tmp_path: Path) -> None:
    target = tmp_path / "a.csv"
    target.write_text("mine")
    said = (
        r"a\.csv exists; choose another name with --out, or add --overwrite: it is then kept as a"
    )
    for more in ({}, {"asks": False}):
        with pytest.raises(InputError, match=said):
            Output(target, **more)
    assert content(tmp_path) == {"a.csv": "mine"}
    for number, aside in enumerate(("a.csv.bak", "a.csv.bak2", "a.csv.bak3")):
        with pytest.warns(UserWarning, match=rf"was not dcfsc's; it is now {aside}\.$"):
            put(Output(target, overwrite=True), f"new {number}")
    assert content(tmp_path) == {
        "a.csv": "new 2",
        "a.csv.bak": "mine",
        "a.csv.bak2": "new 0",
        "a.csv.bak3": "new 1",
    }


def test_a_link_is_set_aside_and_never_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("mine")
    for target in ("real", "nowhere", "a.csv"):
        (tmp_path / "a.csv").unlink(missing_ok=True)
        (tmp_path / "a.csv").symlink_to(target)
        with pytest.raises(InputError, match="exists"):
            Output(tmp_path / "a.csv")
        with pytest.warns(UserWarning, match="is now"):
            put(Output(tmp_path / "a.csv", overwrite=True))
    assert content(tmp_path) == {
        "a.csv": "new",
        "a.csv.bak": "-> real",
        "a.csv.bak2": "-> nowhere",
        "a.csv.bak3": "-> a.csv",
        "real": "mine",
    }


def test_a_file_that_comes_up_during_the_work_is_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "a.csv"
    output = Output(target)
    target.write_text("mine")
    with pytest.raises(InputError, match="exists"):
        put(output)
    target.unlink()
    output = Output(target, overwrite=True)
    target.write_text("mine")
    with pytest.warns(UserWarning, match=r"it is now a\.csv\.bak"):
        put(output)
    assert content(tmp_path) == {"a.csv": "new", "a.csv.bak": "mine"}


def test_a_file_that_comes_up_at_the_last_moment_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, real = tmp_path / "a.csv", files.rename_new

    def late(source: Path, new: Path) -> None:
        new.write_text("mine")
        real(source, new)

    monkeypatch.setattr(files, "rename_new", late)
    with pytest.raises(InputError, match=r"cannot write to .*a\.csv: File exists; choose another"):
        put(Output(target))
    assert content(tmp_path) == {"a.csv": "mine"}


def test_work_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("mine")

    def fail(error: BaseException) -> NoReturn:
        with Output(tmp_path / "a.csv", overwrite=True).open() as part:
            part.write_text("half")
            raise error

    for error in (KeyboardInterrupt(), ZeroDivisionError()):
        with pytest.raises(type(error)):
            fail(error)
    with pytest.raises(InputError, match="No space left on device"):
        fail(OSError(errno.ENOSPC, "No space left on device"))
    assert content(tmp_path) == {"a.csv": "mine"}


def test_what_was_half_written_there_goes(tmp_path: Path) -> None:
    (tmp_path / part_name()).mkdir()
    (tmp_path / "a.part").write_text("mine")
    put(Output(tmp_path / "b"))
    assert content(tmp_path) == {"a.part": "mine", "b": "new"}


def test_a_file_known_by_its_content(tmp_path: Path) -> None:
    def ours(path: Path) -> bool:
        return path.read_text().startswith("model")

    target = tmp_path / "model"
    for text in ("model 1", "model 2"):
        put(Output(target, asks=False, ours=ours), text)
        assert content(tmp_path) == {"model": text}
    target.write_text("mine")
    with pytest.raises(InputError, match="model exists and is not a dcfsc model; choose another n"):
        Output(target, asks=False, ours=ours)
    target.write_text("model 3")
    output = Output(target, asks=False, ours=ours)
    target.write_text("mine")
    with pytest.raises(InputError, match="exists and is not a dcfsc model"):
        put(output, "model 4")
    assert content(tmp_path) == {"model": "mine"}


# files of a run


def test_a_file_of_the_run_is_renewed_or_asked_for(run: Path) -> None:
    page = run / "report.html"
    put(Output(page, own=run, asks=False), "page 2")
    with pytest.raises(InputError, match=r"html exists; .*, or add --overwrite to replace it\.$"):
        Output(page, own=run)
    put(Output(page, own=run, overwrite=True), "page 3")
    put(Output(run / "more.csv", own=run))
    with held(run), filling(run, RUN, removes=()) as place:
        (place / "report.html").write_text("page 4")
    record = '{"dcfsc_run": 2}'
    files = {"more.csv": "new", "report.html": "page 4", "run.json": record}
    assert content(run) == files
    known = Filled.read(run)
    assert known is not None
    assert known.kind == RUN
    assert all(known.owns(run, name) for name in files)
    assert known.files["report.html"] == [sha("page 4")]


def test_a_file_of_the_run_that_was_edited_is_somebodys(run: Path) -> None:
    page = run / "report.html"
    page.write_text("mine")
    with pytest.raises(
        InputError, match=r"add --overwrite: it is then kept as report\.html\.bak\."
    ):
        Output(page, own=run, asks=False)
    with pytest.warns(UserWarning, match=r"it is now report\.html\.bak"):
        put(Output(page, own=run, asks=False, overwrite=True))
    known = Filled.read(run)
    assert known is not None
    assert known.files["report.html"] == [sha("new")]
    page.write_text("page")
    output = Output(page, own=run, asks=False, overwrite=True)
    page.write_text("mine, too")
    with pytest.warns(UserWarning, match=r"it is now report\.html\.bak2"):
        put(output, "newer")
    found = content(run)
    assert [found[f"report.html{end}"] for end in ("", ".bak", ".bak2")] == [
        "newer",
        "mine",
        "mine, too",
    ]


def test_a_kill_before_the_last_step_loses_nothing(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*args: object) -> NoReturn:
        raise KeyboardInterrupt

    for name, there in (("_write_sealed", "page"), ("_finish", "page 2")):
        with monkeypatch.context() as patch:
            patch.setattr(journal, name, killed)
            with pytest.raises(KeyboardInterrupt):
                put(Output(run / "report.html", own=run, asks=False), "page 2")
        settle(run)
        assert (run / "report.html").read_text() == there
    put(Output(run / "report.html", own=run, asks=False), "page 3")  # still ours
    assert (run / "report.html").read_text() == "page 3"


def test_another_command_on_the_run_is_waited_for(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "MOVING_SECONDS", 0.05)
    with held(run), pytest.raises(InputError, match="another process is writing to"):
        put(Output(run / "more.csv", own=run))
    assert not (run / "more.csv").exists()
    monkeypatch.setattr(ownership, "MOVING_SECONDS", 10)
    ready = threading.Event()

    def hold() -> None:
        with held(run):
            ready.set()
            threading.Event().wait(0.05)

    other = threading.Thread(target=hold)
    other.start()
    ready.wait()
    put(Output(run / "more.csv", own=run))
    other.join()
    assert (run / "more.csv").read_text() == "new"
    assert not any(map(is_part, os.listdir(run)))


def test_below_the_run_and_beside_it_no_list_speaks(run: Path, tmp_path: Path) -> None:
    before = Filled.read(run)
    put(Output(run / "sub" / "a.csv", own=run))
    put(Output(tmp_path / "report.html", own=run))
    assert Filled.read(run) == before
    for path in (run / "sub" / "a.csv", tmp_path / "report.html"):
        with pytest.raises(InputError, match="it is then kept as"):
            Output(path, own=run, asks=False)


def test_names_are_numbered_until_one_is_free(run: Path) -> None:
    first = Output.numbered(run / "p.csv", own=run)
    put(first)
    (run / "p-2.csv").symlink_to("nowhere")
    (run / "p-3.csv").mkdir()
    second = Output.numbered(run / "p.csv", own=run)
    assert [o.target.name for o in (first, second)] == ["p.csv", "p-4.csv"]
    put(second)
    assert sorted(os.listdir(run)) == sorted(
        [LIST, "p.csv", "p-2.csv", "p-3.csv", "p-4.csv", "report.html", "run.json"]
    )
    known = Filled.read(run)
    assert known is not None
    assert set(known.files) == {"p.csv", "p-4.csv", "report.html", "run.json"}


def test_a_name_that_another_process_took_meanwhile_is_passed_over(run: Path) -> None:
    first, second = (Output.numbered(run / "p.csv", own=run) for _ in range(2))
    put(first)
    put(second)
    assert [o.target.name for o in (first, second)] == ["p.csv", "p-2.csv"]


# places


def test_the_input_and_what_is_above_it_are_refused(tmp_path: Path) -> None:
    photos = tmp_path / "data" / "photos"
    photos.mkdir(parents=True)
    (photos / "a.png").write_text("mine")
    (tmp_path / "link").symlink_to(photos)
    (tmp_path / "up").symlink_to(photos.parent)
    given = [photos / "a.png", tmp_path / "link"]
    for place, said in (
        (photos, "is what the command reads"),
        (tmp_path / "link", "is what the command reads"),
        (photos / "a.png", "is what the command reads"),
        (tmp_path / "link" / "a.png", "is what the command reads"),
        (tmp_path / "up" / "photos" / ".." / "photos", "is what the command reads"),
        (photos.parent, "holds what the command reads"),
        (tmp_path / "up", "holds what the command reads"),
        (tmp_path, "holds what the command reads"),
    ):
        with pytest.raises(InputError, match=f"{place} {said}; choose another place with --out"):
            check_place(place, inputs=given)
        for overwrite in (False, True):
            with pytest.raises(InputError, match=said):
                Output(place, inputs=given, overwrite=overwrite)
    check_place(photos / "b.csv", inputs=given)
    check_place(tmp_path / "data" / "photos-clusters", inputs=given)
    check_place(photos, inputs=[])


def test_any_run_but_the_commands_own_is_refused(run: Path, tmp_path: Path) -> None:
    old, export = tmp_path / "old", tmp_path / "export"
    old.mkdir()
    (old / "run.json").write_text('{"dcfsc_run": 1}')  # of version 1.0, which kept no list
    export.mkdir()
    Filled(EXPORT, {}).write(export)
    (tmp_path / "link").symlink_to(run)
    for place in (run, run / "a.csv", run / "b" / "c.csv", tmp_path / "link" / "a", old / "a"):
        with pytest.raises(
            InputError, match=r"lies in the run .*; choose another place with --out"
        ):
            check_place(place)
        with pytest.raises(InputError, match="lies in another run"):
            check_place(place, own=tmp_path / "mine")
    for place in (run, run / "a.csv", run / "b" / "c.csv", tmp_path / "link" / "a"):
        check_place(place, own=run)
        check_place(place, own=tmp_path / "link")
    with pytest.raises(InputError, match=f"lies in another run {old}"):
        check_place(old / "sub" / "a.csv", own=run)
    check_place(export / "a.csv")
    with pytest.raises(InputError, match=r"report\.html lies in the run"):
        Output(run / "report.html", overwrite=True)


def test_a_home_and_a_root_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "link").symlink_to("home")
    monkeypatch.setenv("HOME", str(tmp_path / "link"))
    for place in ("/", "/..", tmp_path / "home", tmp_path / "link"):
        with pytest.raises(InputError, match="is not a place for results; choose a new folder"):
            check_place(Path(place))
    check_place(tmp_path / "home" / "runs")
    monkeypatch.chdir(tmp_path / "home")
    with pytest.raises(InputError, match="is not a place for results"):
        check_place(Path("."))
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # nobody knows of a home
    check_place(tmp_path / "link")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(tmp_path / "socket"))
        for number, name in enumerate((tmp_path / "pipe", tmp_path / "socket", Path("/dev/null"))):
            link = tmp_path / str(number)
            link.symlink_to(name)
            for place in (name, link):
                for overwrite in (False, True):
                    with pytest.raises(InputError, match=f"{place} is neither a file nor a folder"):
                        Output(place, overwrite=overwrite)
    with pytest.raises(InputError, match="is a folder; give the name of a file"):
        Output(tmp_path, overwrite=True)


def test_links_in_a_circle_are_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    check_place(tmp_path / "a")
    with pytest.raises(InputError, match="exists"):
        Output(tmp_path / "a")
    with pytest.raises(InputError, match="cannot write to"):
        put(Output(tmp_path / "a" / "c.csv"))


def test_a_place_that_takes_no_files_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match=r"cannot write to .*file/a\.csv: "):
        put(Output(tmp_path / "file" / "a.csv"))

    def refuse(*args: Any, **more: Any) -> NoReturn:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(InputError, match=r"cannot write to .*b\.csv: Read-only file system"):
        put(Output(tmp_path / "b.csv"))
