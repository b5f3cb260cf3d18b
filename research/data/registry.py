"""The data folder, and how a registered dataset is found in it, read, or downloaded to it."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dcfsc.errors import InputError, unknown_name
from dcfsc.io import Dataset
from dcfsc.io.streamed import cache_folder

from . import originals
from .download import fetch

SETS: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("sets.toml").read_text(encoding="utf-8")
)
WEIGHTS = ("dsc_orl", "dsc_eyaleb", "dsc_coil100")


def data_root() -> Path:
    """The folder of the data files: $DCFSC_DATA, else the user's cache folder."""
    named = os.environ.get("DCFSC_DATA")
    if named:
        root = Path(named).expanduser()
        if not root.is_dir():
            raise InputError(
                f"DCFSC_DATA is {named}, which is not a folder; create it or unset the variable."
            )
        return root
    return cache_folder()


def weights_path(name: str) -> Path:
    """The file of published DSC auto-encoder weights ``name``, which must be in the data root."""
    if name not in WEIGHTS:
        raise unknown_name("weights", name, WEIGHTS)
    path = data_root() / "weights" / f"{name}.safetensors"
    if not path.is_file():
        raise InputError(
            f"no weights at {path}; convert the auto-encoder weights published with Deep Subspace "
            "Clustering Networks to safetensors (encoder.I.weight, encoder.I.bias, "
            "decoder.I.weight, decoder.I.bias in PyTorch order) and put them there."
        )
    return path


Read = Callable[[str, Any, Any], Dataset]  # name of the set, place, shape of a sample


@dataclass(frozen=True)
class Form:
    """One form in which a dataset is distributed: how to find it and how to read it."""

    files: str
    find: Callable[[Sequence[Path]], Any | None]
    read: Read


@dataclass(frozen=True)
class Entry:
    """A dataset of sets.toml, and the forms in which it may be in the data root."""

    name: str
    forms: tuple[Form, ...] = ()
    notes: Callable[[Dataset], str] = lambda data: data.notes

    @property
    def facts(self) -> dict[str, Any]:
        return SETS[self.name]

    @property
    def downloads(self) -> dict[str, str]:
        """The SHA-256 of each file that is downloaded from the dataset's own site."""
        return self.facts.get("sha256", {})

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(form.files for form in self.forms)

    @property
    def location(self) -> str | None:
        found = self._locate()
        if found is None:
            return self.facts.get("built_in")
        place = found[1]
        return str(place if isinstance(place, Path) else place[0][0])

    def load(self, download: bool = True) -> Dataset:
        if download and self._locate() is None:
            self._download()
        form, place = self.find()
        data = form.read(self.name, place, tuple(self.facts.get("shape", ())))
        return replace(data, notes=self.notes(data))

    def find(self) -> tuple[Form, Any]:
        """The form that is present, and where; an error that says what to do if there is none."""
        found = self._locate()
        if found is None:
            raise InputError(f"{self.name} is not in {data_root()}: {self._remedy()}")
        return found

    def _locate(self) -> tuple[Form, Any] | None:
        """The first form that is present in the data root, and where."""
        places = candidate_folders(data_root(), self.facts["folders"]) if self.forms else []
        for form in self.forms:
            place = form.find(places)
            if place is not None:
                return form, place
        return None

    def _download(self) -> None:
        root = data_root()
        try:
            for file, checksum in self.downloads.items():
                fetch(f"{self.facts['site']}{file}", checksum, root / self.name / file)
        except InputError as error:
            raise InputError(
                f"{self.name} is not in {root}, and {error} Otherwise {self._remedy()}"
            ) from None

    def _remedy(self) -> str:
        return (
            f"put one of {', '.join(self.files)} there (from {self.facts['source']}), or point "
            "DCFSC_DATA at the folder that holds it."
        )


def candidate_folders(root: Path, names: Iterable[str]) -> list[Path]:
    """The data root, and in it the sub-folders with one of the names, up to two levels down."""
    wanted = {name.lower() for name in names}
    first = _sub_folders(root, wanted)
    return [root, *first, *(deeper for sub in first for deeper in _sub_folders(sub, wanted))]


def _sub_folders(place: Path, wanted: set[str]) -> list[Path]:
    if not place.is_dir():
        return []
    return sorted(p for p in place.iterdir() if p.name.lower() in wanted and p.is_dir())


def file_named(*names: str) -> Callable[[Sequence[Path]], Path | None]:
    """Look for a file with one of the names, whatever their case."""
    wanted = {name.lower() for name in names}

    def find(places: Sequence[Path]) -> Path | None:
        for place in places:
            if place.is_dir():
                for path in sorted(place.iterdir()):
                    if path.name.lower() in wanted and path.is_file():
                        return path
        return None

    return find


def tree_of(tree: originals.Tree) -> Callable[[Sequence[Path]], Path | None]:
    def find(places: Sequence[Path]) -> Path | None:
        return next((p for p in places if p.is_dir() and tree.in_folder(p)), None)

    return find


def idx_pairs(places: Sequence[Path]) -> tuple[tuple[Path, Path], ...] | None:
    """MNIST's four files, under the names that are in use: '.' for '-', compressed or not."""
    pairs = []
    for part in ("train", "t10k"):
        pair = []
        for kind, ndim in (("images", 3), ("labels", 1)):
            stems = [f"{part}-{kind}{dot}idx{ndim}-ubyte" for dot in "-."]
            pair.append(file_named(*stems, *(f"{stem}.gz" for stem in stems))(places))
        if pair[0] is None or pair[1] is None:
            return None
        pairs.append((pair[0], pair[1]))
    return tuple(pairs)
