"""The datasets known by name, from sets.toml, and the forms that their files come in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from dcfsc.io import Dataset

from . import motions, originals
from .registry import SETS, Entry, Form, file_named, idx_pairs, tree_of


def _file(read: Callable[[Path], Dataset], *names: str) -> Form:
    """One file, under any of the names."""
    return Form(names[0], file_named(*names), read)


def _npz(name: str, file: str) -> Form:
    return _file(partial(originals.read_npz, name), file)


def _eyaleb_notes(data: Dataset) -> str:
    kept = "18 images that the release marks as corrupted are kept, as in the DSC benchmark"
    return data.notes or (kept if len(data) == 2432 else "")


def _coil_notes(data: Dataset) -> str:
    missing = originals.missing_views(data.y) if data.y is not None else ""
    if missing and len(data) == 7168:
        # the collection this count identifies; object 1's views exist in it only in reduced form
        missing += "; object 1's views came already reduced"
    return missing


def _idx_pairs_below(places: Sequence[Path]) -> tuple[tuple[Path, Path], ...] | None:
    """The four files in a folder of their own: in the data root they may be MNIST's."""
    return idx_pairs(places[1:])


IDX = "{train,t10k}-{images-idx3,labels-idx1}-ubyte[.gz]"
_yale_tree = partial(originals.read_yale_tree, "eyaleb", shape=(48, 42))
_coil_tree = partial(originals.read_coil_tree, "coil100", shape=(32, 32))
FORMS: dict[str, tuple[Form, ...]] = {
    "orl": (
        _npz("orl", "orl_32x32.npz"),
        _file(partial(originals.read_cai_mat, "orl", shape=(32, 32)), "ORL_32x32.mat"),
    ),
    "eyaleb": (
        _npz("eyaleb", "eyaleb_48x42.npz"),
        _file(partial(originals.read_yale_mat, "eyaleb", shape=(48, 42)), "YaleBCrop025.mat"),
        Form("CroppedYale/yaleB01/*.pgm ...", tree_of(originals.YALE), _yale_tree),
        _file(_yale_tree, "CroppedYale.zip"),
    ),
    "coil100": (
        _npz("coil100", "coil100_32x32.npz"),
        _file(partial(originals.read_cai_mat, "coil100", shape=(32, 32)), "COIL100.mat"),
        Form("coil-100/obj1__0.png ...", tree_of(originals.COIL), _coil_tree),
        _file(_coil_tree, "coil-100.zip"),
    ),
    "mnist": (
        _npz("mnist", "mnist_28x28.npz"),
        Form(IDX, idx_pairs, partial(originals.read_idx_pairs, "mnist")),
    ),
    "fashion-mnist": (
        _npz("fashion-mnist", "fashion_28x28.npz"),
        Form(
            f"fashion-mnist/{IDX}",
            _idx_pairs_below,
            partial(originals.read_idx_pairs, "fashion-mnist"),
        ),
    ),
    "cifar10": (
        _npz("cifar10", "cifar10_32x32.npz"),
        Form(
            "cifar-10-batches-bin/{data_batch_1...5,test_batch}.bin",
            file_named(originals.CIFAR_FILES[0]),
            partial(originals.read_cifar, "cifar10"),
        ),
    ),
    "hopkins155": motions.FORMS,
}
_NOTES = {"eyaleb": _eyaleb_notes, "coil100": _coil_notes}
_ALL = {
    name: Entry(name, forms=FORMS.get(name, ()), notes=_NOTES.get(name, Entry.notes))
    for name in SETS
}
ENTRIES = {name: entry for name, entry in _ALL.items() if entry.forms}


def describe() -> list[Entry]:
    """Every dataset that ``load`` knows by name."""
    return list((_ALL | ENTRIES).values())


def names() -> list[str]:
    return list(_ALL)
