"""Every command that writes, at every kind of target, and killed at every change that it makes.

    python tests/reliability/walk.py --json results/benchmarks/walk.json
    python tests/reliability/walk.py --only "export links | the data folder | --overwrite"

A small world on the disk has a data folder, runs, and files of a person. A command is run on a copy
of it with a target of one kind. The walk then compares each file, folder and link that was there
with what is there now: what dcfsc did not make must be as it was, byte for byte and with its mode,
under its name or as NAME.bak. The same holds for the state that a kill leaves before each change of
the disk, and for the state after the command has then been repeated, as its message says. A command
ends with success or with one line.

The states that kills leave are copied while the command runs: no process has to be killed for them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import stat
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import faults
import numpy as np

from dcfsc.errors import InputError
from dcfsc.files import is_part
from dcfsc.journal import EXPORT, RUN

SECONDS = 60  # a command that takes longer hangs
NOBODY = 65534  # who may not write everywhere, where root runs the walk
PART = re.compile(r"\.dcfsc-[0-9a-z]+-[0-9a-f]{16}\.part")
BACKUP = re.compile(r"\.bak[0-9]*(?=/|$)")
Entry = tuple[Any, ...]
Snapshot = dict[str, Entry]

_open, _mkdir, _symlink, _mknod, _chmod = os.open, os.mkdir, os.symlink, os.mknod, os.chmod
_write, _replace = os.write, os.replace


# The world --------------------------------------------------------------------------------------


def snapshot(top: Path) -> Snapshot:
    """What there is below a folder: of each name its kind, its mode, and its content."""
    found: Snapshot = {}
    pending = [str(top)]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                name, mode = os.path.relpath(entry.path, top), status.st_mode
                if stat.S_ISLNK(mode):
                    found[name] = ("link", os.readlink(entry.path))
                elif stat.S_ISDIR(mode):
                    found[name] = ("folder", stat.S_IMODE(mode))
                    pending.append(entry.path)
                elif stat.S_ISREG(mode):
                    found[name] = ("file", stat.S_IMODE(mode), _digest(entry.path))
                else:
                    found[name] = ("other", mode, status.st_rdev)
    return found


def _digest(path: str) -> str:
    descriptor = _open(path, os.O_RDONLY)
    try:
        return hashlib.sha256(os.read(descriptor, 1 << 26)).hexdigest()[:16]
    finally:
        os.close(descriptor)


def copied(source: str, target: str) -> None:
    """Copy a tree, with modes, links, pipes and devices, by calls that nothing stands between."""
    _mkdir(target)
    with os.scandir(source) as entries:
        for entry in entries:
            status, path = entry.stat(follow_symlinks=False), f"{target}/{entry.name}"
            mode = status.st_mode
            if stat.S_ISLNK(mode):
                _symlink(os.readlink(entry.path), path)
                continue
            if stat.S_ISDIR(mode):
                copied(entry.path, path)
            elif stat.S_ISREG(mode):
                given = _open(entry.path, os.O_RDONLY)
                taken = _open(path, os.O_WRONLY | os.O_CREAT, 0o600)
                _write(taken, os.read(given, 1 << 26))
                os.close(given)
                os.close(taken)
            else:
                _mknod(path, mode, status.st_rdev)
            if os.geteuid() == 0:
                os.chown(path, status.st_uid, status.st_gid, follow_symlinks=False)
            _chmod(path, stat.S_IMODE(mode))


def removed(path: Path) -> None:
    if path.exists():
        shutil.rmtree(path)


@dataclass
class World:
    """A place with a person's files and ours; ``ours`` says what dcfsc made there."""

    root: Path
    ours: Snapshot = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return self.root / "world"

    @property
    def desk(self) -> Path:
        """Where commands are run."""
        return self.path / "desk"

    def build(self) -> None:
        """Make the world once: what the person has, and runs of ours."""
        photos = self.path / "pictures" / "photos"
        self.desk.mkdir(parents=True)
        photos.mkdir(parents=True)
        faults.write_pictures(photos.parent / "some")
        for number, picture in enumerate(sorted((photos.parent / "some").iterdir())):
            folder = photos / "ab"[number % 2]
            folder.mkdir(exist_ok=True)
            picture.rename(folder / picture.name)
        (photos.parent / "some").rmdir()
        (self.path / "home").mkdir()
        for folder in (self.desk, photos.parent, self.path / "home"):
            (folder / "note.txt").write_text(f"a note in {folder.name}")
        faults.write_points(self.path / "points.npy")
        before = snapshot(self.path)
        for words in (
            (*FIT, "--out", "../run"),
            (*FIT, "--out", "../other", "--seed", "1"),
            ("name", "../run", "0=zebras"),
            ("predict", "../run", PHOTOS, "--device", "cpu"),
            ("export", "../run", "--to", "folders", "--out", "../made/export"),
            (*FIT, "--out", "../made/run", "--no-report"),
            (*REPRODUCE, "--out", "../made/results"),
        ):
            self.told(lambda words=words: faults.call(words))  # type: ignore[misc]
        self.told(lambda: model().save("../model.safetensors"))
        self.told(lambda: interrupted((*DEEP, "--out", "../half")))
        made = self.path / "made"
        shutil.move(made, self.root / "made")
        self.ours = {k: v for k, v in snapshot(self.path).items() if before.get(k) != v}
        copied(str(self.path), str(self.root / "origin"))

    def told(self, work: Callable[[], Any]) -> None:
        code, said = forked(work, self)
        if code:
            raise RuntimeError(said)

    def places(self, word: str) -> set[str]:
        """What a word leads to from the desk: the name, and where its links lead."""
        given, real = os.path.normpath(self.desk / word), os.path.realpath(self.desk / word)
        return {os.path.relpath(place, self.path) for place in (given, real)}

    def reset(self) -> None:
        removed(self.path)
        copied(str(self.root / "origin"), str(self.path))

    def copy_of(self, kind: str, place: Path) -> None:
        """A folder of ours at a place, in which everything is known to be ours."""
        source = self.root / "made" / kind
        place.parent.mkdir(parents=True, exist_ok=True)
        copied(str(source), str(place))
        self.own(place)

    def own(self, place: Path) -> None:
        """What lies there is ours."""
        name = os.path.relpath(place, self.path)
        entries = snapshot(self.path)
        self.ours |= {k: v for k, v in entries.items() if k == name or k.startswith(f"{name}/")}


PHOTOS = "../pictures/photos"
FIT = ("fit", PHOTOS, "-k", "3", "--device", "cpu", "--representation", "given")
DEEP = ("fit", "../points.npy", "-k", "3", "--device", "cpu", "--method", "dcfsc")
DEEP += ("--pretrain-epochs", "1", "--steps", "3", "--checkpoint-every", "0", "--no-report")
REPRODUCE = ("reproduce", "smoke", "--methods", "closed-form", "--device", "cpu", "--trials", "1")


def model(features: bool = False) -> Any:
    """A fitted estimator or transformer."""
    from dcfsc import ClosedFormSubspaceClustering
    from dcfsc.estimators.scattering_features import ScatteringFeatures

    X = np.load("../points.npy")
    if features:
        return ScatteringFeatures(n_components=2).fit(np.resize(X, (9, 8, 8)))
    return ClosedFormSubspaceClustering(3, random_state=0).fit(X)


def interrupted(words: tuple[str, ...]) -> int:
    """A training that is killed at its end: its checkpoint stays."""
    from dcfsc.runs import executor

    def killed(*_: Any, **__: Any) -> None:
        os._exit(0)

    executor.write_run = killed
    return faults.call(words)


# Targets ----------------------------------------------------------------------------------------


def somebodys_folder(place: Path) -> None:
    (place / "sub").mkdir(parents=True)
    (place / "sub" / "letter.txt").write_text("dear all")
    (place / "private").write_text("mine")
    (place / "private").chmod(0o600)
    (place / "link").symlink_to("sub/letter.txt")


def named_like_ours(place: Path) -> None:
    """A person's files that bear our names."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "labels.csv").write_text("name,label\nzebra,1\n")
    (place / "model.safetensors").write_bytes(b"weights of mine")


def staged_like_ours(place: Path) -> None:
    """A person's files that are named as version 1.0 named what was half written."""
    place.mkdir(parents=True, exist_ok=True)
    (place / ".staged.part").mkdir()
    (place / ".staged.part" / "thesis.txt").write_text("chapter 1")
    (place / ".whole.part").mkdir()
    (place / ".whole.part" / "labels.csv").write_text("mine")
    (place / ".link.old.part").symlink_to("../note.txt")
    (place / ".labels.csv.abcdefgh.part").write_text("mine too")


def changed(folder: Path, how: str) -> None:
    """Somebody adds, changes or removes a file in a folder of ours."""
    files = sorted(p for p in folder.rglob("*") if not p.is_dir() and p.name != ".dcfsc.json")
    files = [p for p in files if p.name != "run.json"]
    if how == "added":
        (files[0].parent / "added.txt").write_text("a note")
        (folder / "edits.1.json").write_text("not edits")
        (folder / "predictions.csv.bak").write_text("mine")
        staged_like_ours(folder)
    for path in files[::2] if how != "added" else ():
        path.unlink()
        if how == "changed":
            path.write_text("changed by hand")


def ours(kind: str, how: str = "") -> Callable[[World, Path], None]:
    def make(world: World, place: Path) -> None:
        world.copy_of(kind, place)
        changed(place, how) if how else None

    return make


def link_to(target: str) -> Callable[[World, Path], None]:
    return lambda world, place: place.symlink_to(world.path / target)


def _socket(_: World, place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        here = os.getcwd()
        os.chdir(place.parent)  # the name of a socket is short
        bound.bind(place.name)
        os.chdir(here)


def _device(_: World, place: Path) -> None:
    if os.geteuid() == 0:
        os.mknod(place, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    else:
        os.mkfifo(place)


def _read_only(_: World, place: Path) -> None:
    somebodys_folder(place.parent)
    place.parent.chmod(0o555)


def _ours_read_only(world: World, place: Path) -> None:
    world.copy_of(RUN, place)
    place.chmod(0o555)


def _damaged_list(world: World, place: Path) -> None:
    world.copy_of(EXPORT, place)
    (place / ".dcfsc.json").write_text('{"mine": 1}')


def _file(_: World, place: Path) -> None:
    place.write_text("somebody's")
    place.chmod(0o640)


def _backups(world: World, place: Path) -> None:
    _file(world, place)
    place.with_name(f"{place.name}.bak").write_text("the first")
    place.with_name(f"{place.name}.bak2").mkdir()


def _edited(world: World, place: Path) -> None:
    shutil.copy(world.path / "run" / "labels.csv", place)
    with open(place, "a") as file:
        file.write("a line by hand\n")


def _model(world: World, place: Path) -> None:
    shutil.copy(world.path / "model.safetensors", place)
    world.own(place)


def _foreign(world: World, place: Path) -> None:
    somebodys_folder(place)


def _lone(world: World, place: Path) -> None:
    place.mkdir()
    (place / "checkpoint.safetensors").write_bytes(b"weights of mine")


def _empty(world: World, place: Path) -> None:
    place.mkdir()


def _nothing(world: World, place: Path) -> None:
    pass


KINDS = ("run", "export", "results")
HOWS = ("added", "changed", "removed")
# what is made at the place of a command's output
MAKERS: dict[str, Callable[[World, Path], None]] = {
    "nothing": _nothing,
    "an empty folder": _empty,
    **{f"our {kind}": ours(kind) for kind in KINDS},
    **{f"our {kind}, a file {how}": ours(kind, how) for kind in KINDS for how in HOWS},
    "our export, its list replaced": _damaged_list,
    "our run, read-only": _ours_read_only,
    "somebody's folder": _foreign,
    "somebody's labels.csv and model": lambda world, place: named_like_ours(place),
    "somebody's checkpoint": _lone,
    "somebody's .staged.part": lambda world, place: staged_like_ours(place),
    "a link to the data folder": link_to("pictures/photos"),
    "a link to its parent": link_to("pictures"),
    "a link to somebody's file": link_to("desk/note.txt"),
    "a link to nothing": link_to("desk/nowhere"),
    "a link to our run": link_to("other"),
    "somebody's file": _file,
    "somebody's file, its .bak too": _backups,
    "our file, edited": _edited,
    "our model": _model,
    "a pipe": lambda world, place: os.mkfifo(place),
    "a socket": _socket,
    "a device": _device,
}
# what is given as the place of a command's output
GIVEN = {
    "the data folder": PHOTOS,
    "its parent": "../pictures",
    "a file of the data": f"{PHOTOS}/a/0.png",
    "a new name in the data folder": f"{PHOTOS}/new",
    "the current folder": ".",
    "an input": "../points.npy",
    "another run": "../other",
    "a file in another run": "../other/new.csv",
    "a file of its own run": "../run/labels.csv",
    "a new name in its own run": "../run/new.csv",
    "the home": "../home",
    "the root": "/",
    "a name with a newline": "new\nline",
    "a read-only place": "locked/new",
    "below a file": "note.txt/new",
}
# what is done to the run that a command works on, where it writes into it
RUNS: dict[str, Callable[[World, Path], None]] = {
    "its run": lambda world, run: None,
    "its run, files added": lambda world, run: changed(run, "added"),
    "its run, the page changed": lambda world, run: (run / "report.html").write_text("mine"),
    "its run, the page removed": lambda world, run: (run / "report.html").unlink(),
    "its run, the edits changed": lambda world, run: (run / "edits.json").write_text(
        '{"dcfsc_edits": 1, "commands": [[{"name": [1, "lions"]}]]}'
    ),
    "its run, without a list": lambda world, run: (run / ".dcfsc.json").unlink(),
    "its run, the list replaced": lambda world, run: (run / ".dcfsc.json").write_text("[]"),
    "its run, read-only": lambda world, run: run.chmod(0o555),
    "its run, behind a link": lambda world, run: _behind_a_link(world, run),
}


def _behind_a_link(world: World, run: Path) -> None:
    run.rename(run.with_name("moved"))
    run.symlink_to("moved")
    world.own(run.with_name("moved"))


# Commands ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Command:
    """A command that writes: its words, or a function of the place where it is to write.

    ``renews`` are the files that it replaces unasked. ``place`` is where it writes without
    ``--out``; ``out`` whether it has this option.
    """

    words: tuple[str, ...] = ()
    work: Callable[[str], None] | None = None
    place: str = "target"
    out: bool = True
    asks: bool = True  # whether it has --overwrite
    in_run: bool = False
    renews: tuple[str, ...] = ()
    resumes: bool = False


def _save(features: bool) -> Callable[[str], None]:
    return lambda place: model(features).save(place)


def _cache(place: str) -> None:
    from dcfsc.datasets.feature_cache import FeatureCache

    FeatureCache(place, "maker").add([b"1" * 32, b"2" * 32], np.ones((2, 3)))


def _download(place: str) -> None:
    from dcfsc.datasets import download

    download._download = lambda url, part: part.write_bytes(b"content") and None  # type: ignore
    download.fetch("http://localhost/file", hashlib.sha256(b"content").hexdigest(), place)


EXPORT_TO = ("export", "../run", "--to")
PREDICT = ("predict", "../run", PHOTOS, "--device", "cpu")
LIST = "../run/.dcfsc.json"
EDITS = (LIST, "../run/edits.json", "../run/report.html")
COMMANDS = {
    "fit": Command((*FIT, "--no-report")),
    "fit and report": Command(FIT),
    "fit --resume": Command((*DEEP, "--resume"), resumes=True),
    "predict": Command(
        PREDICT, place="../run/predictions.csv", out=False, in_run=True, renews=(LIST,)
    ),
    "predict --out": Command(PREDICT, renews=(LIST,)),
    "report": Command(
        ("report", "../run"),
        place="../run/report.html",
        out=False,
        in_run=True,
        renews=(LIST, "../run/report.html"),
    ),
    "report --out": Command(("report", "../run"), renews=(LIST,)),
    "export links": Command((*EXPORT_TO, "folders")),
    "export copies": Command((*EXPORT_TO, "folders", "--copy")),
    "export links, beside the run": Command(
        (*EXPORT_TO, "folders"), place="../run-clusters", out=False
    ),
    "export csv": Command((*EXPORT_TO, "csv"), renews=(LIST,)),
    "export csv, in the run": Command(
        (*EXPORT_TO, "csv"), place="../run/export.csv", out=False, in_run=True, renews=(LIST,)
    ),
    "export parquet": Command((*EXPORT_TO, "parquet"), renews=(LIST,)),
    "compare": Command(("compare", "../run", "../other"), place="compare.html", out=False),
    "compare --out": Command(("compare", "../run", "../other")),
    "name": Command(
        ("name", "../run", "1=lions", "--merge", "1,2", "--split", "0"),
        place="../run/edits.json",
        out=False,
        asks=False,
        in_run=True,
        renews=EDITS,
    ),
    "name --undo": Command(
        ("name", "../run", "--undo"),
        place="../run/edits.json",
        out=False,
        asks=False,
        in_run=True,
        renews=EDITS,
    ),
    "save": Command(work=_save(False), asks=False),
    "save features": Command(work=_save(True), asks=False),
    "reproduce": Command(REPRODUCE, asks=False),
    "feature cache": Command(work=_cache, asks=False),
    "download": Command(work=_download, asks=False),
}


@dataclass(frozen=True)
class Case:
    """A command, the kind of its target, and whether ``--overwrite`` is given."""

    command: str
    target: str
    overwrite: bool

    def __str__(self) -> str:
        return f"{self.command} | {self.target}{' | --overwrite' if self.overwrite else ''}"


def cases() -> Iterator[Case]:
    for name, command in COMMANDS.items():
        targets = [*MAKERS, *GIVEN] if command.out else list(MAKERS)
        targets += RUNS if command.in_run else ()
        targets += ("its checkpoint",) if command.resumes else ()
        for target in targets:
            for overwrite in (False, True) if command.asks else (False,):
                yield Case(name, target, overwrite)


def prepared(case: Case, world: World) -> str:
    """Make the target of a case; the word that says it to the command."""
    command = COMMANDS[case.command]
    word = GIVEN.get(case.target, command.place)
    place = world.desk / word
    if case.target == "its checkpoint":
        word = "../half"
    elif case.target == "a read-only place":
        _read_only(world, place)
    elif case.target in RUNS:
        RUNS[case.target](world, world.path / "run")
    elif case.target in MAKERS:
        if os.path.lexists(place) and case.target != "nothing":
            place.unlink()  # of ours: somebody takes it away first
        MAKERS[case.target](world, place)
    return word


def forked(work: Callable[[], Any], world: World, read_only: bool = False) -> tuple[int, str]:
    """Do the work in a child at the desk; its exit code and what it said to the error file."""

    def careful() -> int:
        signal.alarm(SECONDS)
        if read_only and os.geteuid() == 0:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        try:
            return int(work() or 0)
        except InputError as error:
            os.write(2, f"error: {error}\n".encode())
            return 2

    said = world.root / "said"
    return faults.forked(careful, world.desk, said)


class Watch(faults.Faults):
    """Copies the world before each change of the disk: what a kill would leave there."""

    def __init__(self, world: World, states: Path):
        super().__init__("none", 0, world.path)
        self.world, self.states, self.busy = world, states, False

    def point(self, name: str, half: Callable[[], Any] | None = None) -> None:
        if self.busy or name == "fsync":
            return
        self.busy = True
        copied(str(self.world.path), str(self.states / f"{self.count:04d}"))
        self.count += 1
        self.busy = False


def work_of(case: Case, word: str) -> tuple[str, ...]:
    command = COMMANDS[case.command]
    more = ("--out", word) if command.out else ()
    return (*command.words, *more, *(("--overwrite",) if case.overwrite else ()))


# What must hold ---------------------------------------------------------------------------------


def lost(case: Case, word: str, world: World, before: Snapshot, after: Snapshot) -> list[str]:
    """What was there before, may not be replaced, and is not there any more."""
    command = COMMANDS[case.command]
    places = tuple(world.places(word))
    replaced = {name for renewed in command.renews for name in world.places(renewed)}
    found: dict[str, list[str]] = {}
    for name in after:
        found.setdefault(BACKUP.sub("", name), []).append(name)
    wrong = []
    for name, entry in before.items():
        inside = any(name == place or name.startswith(f"{place}/") for place in places)
        mine = world.ours.get(name) == entry
        renewed = case.command == "reproduce" or command.resumes or case.overwrite
        renewed = renewed or case.command.startswith("save")
        if mine and (name in replaced or (inside and renewed)):
            continue
        if not any(after[other] == entry for other in found.get(BACKUP.sub("", name), ())):
            whose = "ours" if mine else "somebody's"
            wrong.append(
                f"{name!r} ({whose}, {entry[0]}) is {'changed' if name in after else 'gone'}"
            )
    allowed = (*places, "run", "moved") if command.in_run or word.startswith("../run") else places
    for name in after.keys() - before.keys():
        if not name.startswith(allowed) and not any(map(is_part, Path(name).parts)):
            wrong.append(f"{name!r} is new")
    return wrong


def misspoken(code: int, said: str) -> list[str]:
    """Whether the command ended otherwise than with success or one line."""
    errors = [line for line in said.splitlines() if not line.startswith("warning: ")]
    if code == 0 and not errors:
        return []
    if code in (1, 2) and len(errors) == 1 and errors[0].startswith("error: "):
        return []
    return [f"it ended with {code} and said {said.strip()[-300:]!r}"]


def walked(case: Case, world: World, every: int = 1) -> dict[str, Any]:
    """Try one case; how it ended, how many kills were tried, and what went wrong."""
    world.reset()
    known = dict(world.ours)
    states = world.root / "states"
    removed(states)
    states.mkdir()
    begin = time.perf_counter()
    try:
        word = prepared(case, world)
        read_only = "read-only" in case.target
        if read_only:
            give_away(world, word)
        before = snapshot(world.path)
        command, words = COMMANDS[case.command], work_of(case, word)

        def watched() -> Any:
            if every:
                Watch(world, states).install()
            return faults.call(words) if command.work is None else command.work(word)

        code, said = forked(watched, world, read_only)
        after = snapshot(world.path)
        wrong = [*misspoken(code, said), *lost(case, word, world, before, after)]
        if code == 0:
            wrong += left_behind(before, after)
        kills = 0
        for place in _distinct(states, every):
            kills += 1
            problems = killed(case, word, words, world, before, place, code)
            wrong += [f"killed at {place.name}: {problem}" for problem in problems]
        kinds = "refused" if code else "done"
    finally:
        world.ours = known
    seconds = round(time.perf_counter() - begin, 2)
    return {
        "case": str(case),
        "ended": kinds,
        "said": said.strip(),
        "kills": kills,
        "wrong": wrong,
        "seconds": seconds,
    }


def give_away(world: World, word: str) -> None:
    """Let another user have the world, except what is read-only."""
    if os.geteuid() != 0:
        return
    for name, entry in snapshot(world.path).items():
        if not (entry[0] == "folder" and entry[1] == 0o555):
            os.chown(world.path / name, NOBODY, NOBODY, follow_symlinks=False)


def left_behind(before: Snapshot, after: Snapshot) -> list[str]:
    new = sorted(after.keys() - before.keys())
    return [f"{name!r} is left behind" for name in new if is_part(Path(name).name)]


def _distinct(states: Path, every: int) -> Iterator[Path]:
    """Every so many of the states that differ by more than what is half written.

    The files that wait in a stage without a plan are alike: all of them go together.
    """
    known: set[int] = set()
    for place in sorted(states.iterdir()):
        content = snapshot(place)
        planned = {name.rpartition("/")[0] for name in content if name.endswith("/plan.json")}
        waits = [re.match(f"(.*{PART.pattern})/files/", name) for name in content]
        counts = [match is None or match[1] in planned for match in waits]
        named = zip(content.items(), counts, strict=True)
        new = hash(frozenset((PART.sub("PART", name), e) for (name, e), counted in named if counted))
        if new in known:
            continue
        known.add(new)
        if len(known) % every == 0:
            yield place


def killed(
    case: Case,
    word: str,
    words: tuple[str, ...],
    world: World,
    before: Snapshot,
    place: Path,
    undisturbed: int,
) -> list[str]:
    """What is wrong with the state that a kill left, or after the command was repeated."""
    removed(world.path)
    _replace(place, world.path)
    wrong = lost(case, word, world, before, snapshot(world.path))
    command, read_only = COMMANDS[case.command], "read-only" in case.target
    if command.work is not None:
        code, said = forked(lambda: command.work(word), world, read_only)  # type: ignore[misc]
    else:
        code, said = forked(lambda: faults.call(words), world, read_only)
        added = re.search(r"add (--resume|--overwrite)|with (--resume)", said)
        option = added and (added[1] or added[2])
        if code == 2 and option and not undisturbed and option not in words:
            case = Case(case.command, case.target, case.overwrite or option == "--overwrite")
            code, said = forked(lambda: faults.call((*words, option)), world, read_only)
    after = snapshot(world.path)
    again = Case(case.command, case.target, case.overwrite)
    wrong += misspoken(code, said)
    if code and not undisturbed and "no edit to undo" not in said:
        wrong.append(f"repeated, it ended with {code}: {said.strip()[-200:]}")
    wrong += [f"repeated: {problem}" for problem in lost(again, word, world, before, after)]
    return wrong + (left_behind(before, after) if code == 0 else [])


# All of it --------------------------------------------------------------------------------------


def warm() -> None:
    """Make in this process what every child would have to make, and spare them the drawing."""
    import functools

    import jinja2
    from matplotlib.figure import Figure

    jinja2.Environment.get_template = functools.cache(jinja2.Environment.get_template)  # type: ignore
    jinja2.Environment.__hash__ = lambda self: 0  # type: ignore[method-assign]
    jinja2.Environment.__eq__ = lambda self, other: self.loader is other.loader  # type: ignore

    def savefig(self: Any, part: Any, **_: Any) -> None:
        Path(part).write_bytes(b"a drawing")

    Figure.savefig = savefig  # type: ignore[method-assign]


def measured(chosen: list[Case], every: int, jobs: int, tell: bool) -> list[dict[str, Any]]:
    """Walk the cases in some processes; the results in the order of the cases."""
    with tempfile.TemporaryDirectory(prefix="walk-") as folder:
        os.chmod(folder, 0o755)
        root = Path(folder)
        faults.import_what_commands_import(list(faults.COMMANDS), root)
        children = []
        for job in range(jobs):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    _worker(root / f"job{job}", chosen[job::jobs], every, tell)
                    code = 0
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(code)
            children.append(child)
        for child in children:
            if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
                raise RuntimeError("a process of the walk ended early")
        parts = [json.loads((root / f"job{job}.json").read_text()) for job in range(jobs)]
    return [parts[i % jobs][i // jobs] for i in range(len(chosen))]


def _worker(place: Path, chosen: list[Case], every: int, tell: bool) -> None:
    place.mkdir()
    os.environ |= {"HOME": f"{place}/world/home", "XDG_CACHE_HOME": f"{place}/cache"}
    warm()
    world = World(place)
    world.build()
    results = []
    for case in chosen:
        results.append(walked(case, world, every))
        if tell:
            print(json.dumps(results[-1]), flush=True)
    Path(f"{place}.json").write_text(json.dumps(results))


def summed(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts by command and in all, and everything that went wrong."""
    commands: dict[str, Counter[str]] = {}
    for result in results:
        row = commands.setdefault(result["case"].split(" | ")[0], Counter())
        row.update(
            cases=1,
            done=result["ended"] == "done",
            refused=result["ended"] == "refused",
            kills=result["kills"],
            wrong=len(result["wrong"]),
        )
    total = sum(commands.values(), Counter())
    wrong = [f"{result['case']}: {problem}" for result in results for problem in result["wrong"]]
    return {
        "commands": {name: {k: row[k] for k in _KEYS} for name, row in commands.items()},
        "total": {k: total[k] for k in _KEYS},
        "wrong": wrong[:200],
    }


_KEYS = ("cases", "done", "refused", "kills", "wrong")


def fixed() -> list[Case]:
    """A part of the walk in which each command and each kind of target comes at least once."""
    left, chosen = list(cases()), []
    commands, targets = Counter(), Counter()  # type: ignore[var-annotated]
    for case in left:
        if not commands[case.command] or not targets[case.target]:
            chosen.append(case)
            commands[case.command] += 1
            targets[case.target] += 1
    return chosen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--only", help="the cases whose names begin so")
    parser.add_argument("--every", type=int, default=1, help="0: no kills; n: every n-th kill")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--tell", action="store_true", help="print each case as it is done")
    options = parser.parse_args()
    chosen = [c for c in cases() if options.only is None or str(c).startswith(options.only)]
    found = summed(measured(chosen, options.every, min(options.jobs, len(chosen)), options.tell))
    print(json.dumps(found, indent=1))
    return int(bool(found["wrong"]))


if __name__ == "__main__":
    sys.exit(main())
