"""The datasets known by name: what they are, where they come from, the forms they come in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from dcfsc.io import Dataset

from . import originals
from .motions import HOPKINS155
from .registry import Download, Entry, Form, file_named, idx_pairs, tree_of


def _file(read: Callable[[Path], Dataset], *names: str) -> Form:
    """One file, under any of the names."""
    return Form(names[0], file_named(*names), read)


def _npz(name: str, file: str) -> Form:
    return _file(partial(originals.read_npz, name), file)


ORL = Entry(
    name="orl",
    n=400,
    shape=(32, 32),
    classes=40,
    source="AT&T Laboratories Cambridge, https://cam-orl.co.uk/facedatabase.html; ORL_32x32.mat "
    "is the cropped version of the subspace clustering benchmarks",
    licence="credit AT&T Laboratories Cambridge; Samaria and Harter, Parameterisation of a "
    "stochastic model for human face identification, 1994",
    folders=("orl",),
    forms=(
        _npz("orl", "orl_32x32.npz"),
        _file(partial(originals.read_cai_mat, "orl", shape=(32, 32)), "ORL_32x32.mat"),
    ),
)


def _eyaleb_notes(data: Dataset) -> str:
    kept = "18 images that the release marks as corrupted are kept, as in the DSC benchmark"
    return data.notes or (kept if len(data) == 2432 else "")


_yale_tree = partial(originals.read_yale_tree, "eyaleb", shape=(48, 42))
EYALEB = Entry(
    name="eyaleb",
    n=2432,
    shape=(48, 42),
    classes=38,
    source="UCSD Computer Vision, CroppedYale.zip at "
    "http://vision.ucsd.edu/extyaleb/CroppedYaleBZip/CroppedYale.zip",
    licence="free for research; Georghiades, Belhumeur and Kriegman, From few to many, 2001; Lee, "
    "Ho and Kriegman, Acquiring linear subspaces for face recognition, 2005",
    folders=("eyaleb", "ExtendedYaleB", "CroppedYale"),
    forms=(
        _npz("eyaleb", "eyaleb_48x42.npz"),
        _file(partial(originals.read_yale_mat, "eyaleb", shape=(48, 42)), "YaleBCrop025.mat"),
        Form("CroppedYale/yaleB01/*.pgm ...", tree_of(originals.YALE), _yale_tree),
        _file(_yale_tree, "CroppedYale.zip"),
    ),
    notes=_eyaleb_notes,
)


def _coil_notes(data: Dataset) -> str:
    missing = originals.missing_views(data.y) if data.y is not None else ""
    if missing and len(data) == 7168:
        # the collection this count identifies; object 1's views exist in it only in reduced form
        missing += "; object 1's views came already reduced"
    return missing


_coil_tree = partial(originals.read_coil_tree, "coil100", shape=(32, 32))
COIL100 = Entry(
    name="coil100",
    n=7200,
    shape=(32, 32),
    classes=100,
    source="Columbia University CAVE, "
    "https://www.cs.columbia.edu/CAVE/software/softlib/coil-100.php",
    licence="non-commercial research; Nene, Nayar and Murase, Columbia Object Image Library "
    "(COIL-100), CUCS-006-96, 1996",
    folders=("coil100", "coil-100"),
    forms=(
        _npz("coil100", "coil100_32x32.npz"),
        _file(partial(originals.read_cai_mat, "coil100", shape=(32, 32)), "COIL100.mat"),
        Form("coil-100/obj1__0.png ...", tree_of(originals.COIL), _coil_tree),
        _file(_coil_tree, "coil-100.zip"),
    ),
    downloads=(
        Download(
            "https://www.cs.columbia.edu/CAVE/databases/SLAM_coil-20_coil-100/coil-100/coil-100.zip",
            "fcb4b8b01c0778f416d8d7a09f45082c4f7075cc74743dcddd5c44307bd4afe7",
            "coil-100.zip",
        ),
    ),
    notes=_coil_notes,
)

_MNIST_SITE = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_MNIST_SHA256 = {
    "train-images-idx3-ubyte": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
MNIST = Entry(
    name="mnist",
    n=70000,
    shape=(28, 28),
    classes=10,
    source=f"LeCun, Cortes and Burges, {_MNIST_SITE}",
    licence="CC BY-SA 3.0; LeCun, Bottou, Bengio and Haffner, Gradient-based learning applied to "
    "document recognition, 1998",
    folders=("mnist", "raw"),
    forms=(
        _npz("mnist", "mnist_28x28.npz"),
        Form(
            "{train,t10k}-{images-idx3,labels-idx1}-ubyte[.gz]",
            idx_pairs,
            partial(originals.read_idx_pairs, "mnist"),
        ),
    ),
    downloads=tuple(
        Download(f"{_MNIST_SITE}{file}.gz", sha256, f"{file}.gz")
        for file, sha256 in _MNIST_SHA256.items()
    ),
)


def _idx_pairs_below(places: Sequence[Path]) -> tuple[tuple[Path, Path], ...] | None:
    """The four files in a folder of their own: in the data root they may be MNIST's."""
    return idx_pairs(places[1:])


FASHION = Entry(
    name="fashion-mnist",
    n=70000,
    shape=(28, 28),
    classes=10,
    source="Zalando Research, https://github.com/zalandoresearch/fashion-mnist",
    licence="MIT; Xiao, Rasul and Vollgraf, Fashion-MNIST: a novel image dataset for benchmarking "
    "machine learning algorithms, 2017",
    folders=("fashion-mnist", "fashion"),
    forms=(
        _npz("fashion-mnist", "fashion_28x28.npz"),
        Form(
            "fashion-mnist/{train,t10k}-{images-idx3,labels-idx1}-ubyte[.gz]",
            _idx_pairs_below,
            partial(originals.read_idx_pairs, "fashion-mnist"),
        ),
    ),
)

CIFAR10 = Entry(
    name="cifar10",
    n=60000,
    shape=originals.CIFAR_SHAPE,
    classes=10,
    source="Alex Krizhevsky, https://www.cs.toronto.edu/~kriz/cifar.html, the binary version",
    licence="none stated; Krizhevsky, Learning multiple layers of features from tiny images, 2009",
    folders=("cifar10", "cifar-10", "cifar-10-batches-bin"),
    forms=(
        _npz("cifar10", "cifar10_32x32.npz"),
        Form(
            "cifar-10-batches-bin/{data_batch_1...5,test_batch}.bin",
            file_named(originals.CIFAR_FILES[0]),
            partial(originals.read_cifar, "cifar10"),
        ),
    ),
)

ENTRIES = {
    entry.name: entry for entry in (ORL, EYALEB, COIL100, MNIST, FASHION, CIFAR10, HOPKINS155)
}
DIGITS = Entry(
    name="digits",
    n=1797,
    shape=(8, 8),
    classes=10,
    source="scikit-learn, from the UCI repository",
    licence="CC BY 4.0; Alpaydin and Kaynak, Optical recognition of handwritten digits, 1998",
    built_in="embedded",
)
SYNTHETIC = Entry(
    name="synthetic",
    n=None,
    shape=None,
    classes=None,
    source="generated: a union of random subspaces",
    licence="none needed",
    built_in="generated",
)


def describe() -> list[Entry]:
    """Every dataset that ``load`` knows by name."""
    return [DIGITS, *ENTRIES.values(), SYNTHETIC]


def names() -> list[str]:
    return [entry.name for entry in describe()]
