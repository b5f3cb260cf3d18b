"""A small world on the disk, with a person's files and ours, and every kind of target in it."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import socket
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import faults
import numpy as np

from dcfsc.errors import InputError
from dcfsc.journal import EXPORT, RUN

SECONDS = 60  # a command that takes longer hangs
NOBODY = 65534  # who may not write everywhere, where root runs the walk
Entry = tuple[Any, ...]
Snapshot = dict[str, Entry]

# what the walk itself does to the disk, once commands are watched
_open, _mkdir, _symlink, _mknod, _chmod = os.open, os.mkdir, os.symlink, os.mknod, os.chmod
_write = os.write


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
        faults.write_shards(self.path / "shards")
        before = snapshot(self.path)
        for words in (
            (*FIT, "--out", "../run"),
            (*FIT, "--out", "../other", "--seed", "1"),
            ("name", "../run", "0=zebras"),
            ("predict", "../run", PHOTOS, "--device", "cpu"),
            ("export", "../run", "--to", "folders", "--out", "../made/export"),
            (*FIT, "--out", "../made/run", "--no-report"),
            ("fit", "../points.npy", *FIT[2:], "--out", "../points", "--no-report"),
            (*SHARDS, "--out", "../made/predictions"),
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
SHARDS = ("predict", "../points", "../shards", "--device", "cpu")
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


def forked(work: Callable[[], Any], world: World, humble: bool = False) -> tuple[int, str]:
    """Do the work in a child at the desk; its exit code and what it said to the error file."""

    def careful() -> int:
        signal.alarm(SECONDS)
        if humble and os.geteuid() == 0:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        try:
            return int(work() or 0)
        except InputError as error:
            os.write(2, f"error: {error}\n".encode())
            return 2

    said = world.root / "said"
    return faults.forked(careful, world.desk, said)


def give_away(world: World) -> None:
    """Let another user have the world, except what is read-only."""
    if os.geteuid() != 0:
        return
    for name, entry in snapshot(world.path).items():
        if not (entry[0] == "folder" and entry[1] == 0o555):
            os.chown(world.path / name, NOBODY, NOBODY, follow_symlinks=False)


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


def read_only(place: Path) -> None:
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


KINDS = ("run", "export", "results", "predictions")
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
