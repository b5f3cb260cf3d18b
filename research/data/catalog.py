"""The datasets known by name, from sets.toml, and the forms that their files come in."""

from __future__ import annotations

from dcfsc.io import Dataset

from . import motions
from .originals import (
    CIFAR_FILES,
    COIL,
    YALE,
    missing_views,
    read_cai_mat,
    read_cifar,
    read_coil_tree,
    read_idx_pairs,
    read_npz,
    read_yale_mat,
    read_yale_tree,
)
from .registry import SETS, Entry, Form, Read, file_named, idx_pairs, tree_of


def _file(name: str, read: Read) -> Form:
    return Form(name, file_named(name), read)


def _eyaleb_notes(data: Dataset) -> str:
    kept = "18 images that the release marks as corrupted are kept, as in the DSC benchmark"
    return data.notes or (kept if len(data) == 2432 else "")


def _coil_notes(data: Dataset) -> str:
    missing = missing_views(data.y) if data.y is not None else ""
    if missing and len(data) == 7168:
        # the collection this count identifies; object 1's views exist in it only in reduced form
        missing += "; object 1's views came already reduced"
    return missing


IDX = "{train,t10k}-{images-idx3,labels-idx1}-ubyte[.gz]"
CIFAR = "cifar-10-batches-bin/{data_batch_1...5,test_batch}.bin"
FORMS: dict[str, tuple[Form, ...]] = {
    "orl": (_file("orl_32x32.npz", read_npz), _file("ORL_32x32.mat", read_cai_mat)),
    "eyaleb": (
        _file("eyaleb_48x42.npz", read_npz),
        _file("YaleBCrop025.mat", read_yale_mat),
        Form("CroppedYale/yaleB01/*.pgm ...", tree_of(YALE), read_yale_tree),
        _file("CroppedYale.zip", read_yale_tree),
    ),
    "coil100": (
        _file("coil100_32x32.npz", read_npz),
        _file("COIL100.mat", read_cai_mat),
        Form("coil-100/obj1__0.png ...", tree_of(COIL), read_coil_tree),
        _file("coil-100.zip", read_coil_tree),
    ),
    "mnist": (_file("mnist_28x28.npz", read_npz), Form(IDX, idx_pairs, read_idx_pairs)),
    "fashion-mnist": (
        _file("fashion_28x28.npz", read_npz),
        # in a folder of their own: in the data root they may be MNIST's
        Form(f"fashion-mnist/{IDX}", lambda places: idx_pairs(places[1:]), read_idx_pairs),
    ),
    "cifar10": (
        _file("cifar10_32x32.npz", read_npz),
        Form(CIFAR, file_named(CIFAR_FILES[0]), read_cifar),
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
    return list(_ALL.values())


def names() -> list[str]:
    return list(_ALL)
