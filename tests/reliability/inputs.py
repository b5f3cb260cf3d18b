"""The kinds of input that are fuzzed: whole files of each, how they are damaged, who reads them."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import malformed
import mutations
import numpy as np

from dcfsc import DCFSC, AutoencoderFeatures, ClosedFormSubspaceClustering
from dcfsc.estimators.registry import load_model
from dcfsc.io import check_finite, load
from dcfsc.networks.weights import load_published_weights, preset_for_weights
from dcfsc.report import read_details, write_report
from dcfsc.runs.executor import execute
from dcfsc.runs.folder import read_run
from dcfsc.runs.prediction import predict_run
from dcfsc.runs.request import RunRequest
from research.data import originals

Rng = np.random.Generator
N, SHAPE, K = 12, (8, 8), 3
FAST = {"pretrain_epochs": 1, "steps": 1, "device": "cpu", "random_state": 0, "verbose": False}


def images() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (N, *SHAPE)).astype(np.uint8)


# Whole files --------------------------------------------------------------------------------


def write_seeds(root: Path) -> None:
    """Small whole files of every kind under ``root/KIND/``, and a run's folder in ``root/run``."""
    X, y = images(), np.arange(N) % K
    flat = X.reshape(N, -1)[:, :6].astype(np.float64)
    for kind in KINDS:
        (root / kind).mkdir(parents=True, exist_ok=True)
    np.save(root / "npy/1.npy", X)
    np.save(root / "npy/2.npy", np.asfortranarray(flat))
    np.savez(root / "npz/1.npz", X=X, y=y)
    np.savez(root / "npz/2.npz", images=X, labels=y.astype(str))
    np.savez_compressed(root / "npz-deflated/1.npz", X=flat, y=y)
    _write_mat(root / "mat", flat, y)
    _write_tables(root, flat, y)
    _write_pictures(root / "picture", X)
    _write_archive(root / "archive", X)
    for place in ("idx/1.gz", "idx/2"):
        content = struct.pack(">4B3I", 0, 0, 8, 3, *X.shape) + X.tobytes()
        (root / place).write_bytes(gzip.compress(content) if "gz" in place else content)
    _write_run(root, X, y)


def _write_mat(folder: Path, flat: np.ndarray, y: np.ndarray) -> None:
    import scipy.io
    import scipy.sparse

    values = {"fea": flat, "gnd": y[:, None] + 1.0}
    scipy.io.savemat(folder / "1.mat", values)
    scipy.io.savemat(folder / "2.mat", values, do_compression=True)
    scipy.io.savemat(folder / "3.mat", {"X": scipy.sparse.csc_matrix(flat), "name": "text"})
    scipy.io.savemat(folder / "4.mat", {"X": flat, "cell": np.array([flat, "a"], object)})


def _write_tables(root: Path, flat: np.ndarray, y: np.ndarray) -> None:
    rows = [[*map(str, row), f"class {k}"] for row, k in zip(flat.tolist(), y, strict=True)]
    header = [*(f"f{i}" for i in range(flat.shape[1])), "label"]
    for kind, mark in (("csv", ","), ("tsv", "\t")):
        text = "\n".join(mark.join(row) for row in [header, *rows]) + "\n"
        (root / kind / f"1.{kind}").write_text(text, encoding="utf-8")
    objects = (dict(zip(header, [*map(float, row[:-1]), row[-1]], strict=True)) for row in rows)
    (root / "jsonl/1.jsonl").write_text("\n".join(map(json.dumps, objects)))
    vectors = ({"v": row, "label": int(k)} for row, k in zip(flat.tolist(), y, strict=True))
    (root / "jsonl/2.jsonl").write_text("\n".join(map(json.dumps, vectors)))
    (root / "csv/2.csv").write_text("\n".join(";".join(row[:-1]) for row in rows))
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {f"f{i}": flat[:, i] for i in range(3)}
    table = pa.table({**columns, "label": [f"class {k}" for k in y]})
    pq.write_table(table, root / "parquet/1.parquet")
    pq.write_table(table, root / "parquet/2.parquet", compression="gzip", row_group_size=5)
    pq.write_table(pa.table({"v": list(flat)}), root / "parquet/3.parquet", compression="none")
    constant = pa.array(np.zeros(5_000_000))  # a run of one value takes no room in the file
    pq.write_table(pa.table({f"f{i}": constant for i in range(28)}), root / "parquet/4.parquet")


def _write_pictures(folder: Path, X: np.ndarray) -> None:
    from PIL import Image

    for suffix in ("png", "jpg", "bmp", "gif", "tif", "pgm", "webp"):
        Image.fromarray(X[0]).save(folder / f"1.{suffix}")
    Image.fromarray(np.stack([X[0]] * 3, -1)).save(folder / "2.png")
    Image.fromarray(X[0].astype(np.uint16) * 257).save(folder / "3.png")
    Image.fromarray(X[0]).convert("P").save(folder / "4.png")
    Image.fromarray(X[0]).save(folder / "5.tif", compression="tiff_lzw")
    Image.fromarray(np.stack([X[0]] * 3, -1)).save(folder / "6.jpg", progressive=True)


def _write_archive(folder: Path, X: np.ndarray) -> None:
    from PIL import Image

    with zipfile.ZipFile(folder / "1.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for i, image in enumerate(X[:4]):
            picture = io.BytesIO()
            Image.fromarray(image).save(picture, "png")
            archive.writestr(f"coil-100/obj{i % 2 + 1}__{5 * i}.png", picture.getvalue())


def _write_run(root: Path, X: np.ndarray, y: np.ndarray) -> None:
    from safetensors.torch import save_file

    from dcfsc.io import Dataset
    from dcfsc.networks import preset

    options = {k: v for k, v in FAST.items() if k != "verbose"} | {"n_clusters": K}
    data = Dataset("seed", X, y)
    execute(RunRequest(data, "dcfsc", options, out=root / "run"))
    for kind, file in RUN_FILES.items():
        shutil.copy(root / "run" / file, root / kind / f"1{Path(file).suffix}")
    ClosedFormSubspaceClustering(K, random_state=0, device="cpu").fit(X).save(
        root / "model/2.safetensors"
    )
    features = {k: v for k, v in FAST.items() if k != "steps"}
    AutoencoderFeatures(**features).fit(X).save(root / "features/1.safetensors")  # type: ignore[arg-type]
    for steps, name in ((1, "1"), (2, "2")):
        path = root / f"checkpoint/{name}.safetensors"
        DCFSC(K, **{**FAST, "steps": steps}, checkpoint=path, checkpoint_every=0).fit(X)  # type: ignore[arg-type]
    save_file(preset("dsc-orl").state_dict(), root / "weights/1.safetensors")


RUN_FILES = {
    "run.json": "run.json",
    "labels.csv": "labels.csv",
    "details": "details.npz",
    "model": "model.safetensors",
}


# Readers ------------------------------------------------------------------------------------


def read_data(path: Path) -> None:
    data = load(path)
    check_finite(data.X, data.name)
    assert len(data.X[:2]) in (1, 2)


def read_pictures(path: Path) -> None:
    data = load(path.parent, strict=not path.name.startswith("skip"))
    assert data.X.dtype == np.uint8


def read_archive(path: Path) -> None:
    originals.read_coil_tree("coil100", path, (8, 8))


def read_idx(path: Path) -> None:
    originals.read_idx(path, 3)


def read_model(path: Path) -> None:
    model: Any = load_model(path, device="cpu")
    labels = model.predict(images()[:3])
    assert ((labels >= 0) & (labels < model.n_clusters)).all()


def read_features(path: Path) -> None:
    model = load_model(path, device="cpu")
    assert np.isfinite(model.transform(images()[:3])).all()


def read_weights(path: Path) -> None:
    from dcfsc.networks import preset

    load_published_weights(preset(preset_for_weights(path)), path)


def read_checkpoint(path: Path) -> None:
    labels = DCFSC(K, **FAST, checkpoint=path, checkpoint_every=9).fit_predict(images())  # type: ignore[arg-type]
    assert ((labels >= 0) & (labels < K)).all()


def read_folder_of_run(path: Path) -> None:
    """What 'dcfsc report' and 'dcfsc predict' do with a run's folder."""
    run = read_run(path.parent)
    write_report(path.parent / "page.html", run.record, read_details(path.parent / "details.npz"))
    if path.name in ("run.json", "model.safetensors"):
        from dcfsc.io import Dataset

        predict_run(path.parent, Dataset("new", images()), device="cpu")


# Kinds --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """Who reads a kind of file, and what is made for it beside damaged whole files."""

    read: Callable[[Path], None]
    make: Callable[[Rng, bytes], bytes] | None = None
    share: float = 0.4  # of inputs that ``make`` gives
    weight: int = 1


def _odd_details(rng: Rng, data: bytes) -> bytes:
    """The arrays of a run's details, one of them another one."""
    with np.load(io.BytesIO(data)) as archive:
        arrays = dict(archive)
    names = list(arrays)
    for _ in range(int(rng.integers(1, 3))):
        name = names[int(rng.integers(len(names)))]
        shape = [(), (0,), (3,), (N,), (N, 2), (3, 2), (2, 3, 4), (0, 0, 0)][int(rng.integers(8))]
        value: Any = [np.nan, 1e300, -1, 7, "text", True, 2**62, 1j][int(rng.integers(8))]
        arrays[name] = np.full(shape, value)
        if rng.random() < 0.3:
            del arrays[name]
            names.remove(name)
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


KINDS: dict[str, Kind] = {
    "npy": Kind(
        read_data,
        lambda r, d: malformed.odd_npy(r) if r.random() < 0.8 else malformed.pickled(r),
        0.6,
    ),
    "npz": Kind(read_data, lambda r, d: malformed.odd_npz(r), 0.6, 2),
    "npz-deflated": Kind(read_data),
    "mat": Kind(read_data, lambda r, d: malformed.odd_mat(r), 0.3, 2),
    "csv": Kind(read_data, lambda r, d: malformed.odd_table(r), 0.7, 2),
    "tsv": Kind(read_data, lambda r, d: malformed.odd_table(r), 0.7),
    "jsonl": Kind(read_data),
    "parquet": Kind(read_data, weight=2),
    "picture": Kind(read_pictures, weight=4),
    "folder": Kind(read_pictures),
    "archive": Kind(read_archive),
    "idx": Kind(read_idx),
    "model": Kind(read_model, mutations.safetensors, 0.6, 2),
    "features": Kind(read_features, mutations.safetensors, 0.6),
    "weights": Kind(read_weights, lambda r, d: d[:200], 0.1),
    "checkpoint": Kind(read_checkpoint, mutations.safetensors, 0.6),
    "run.json": Kind(read_folder_of_run, mutations.json_text, 0.8, 2),
    "labels.csv": Kind(read_folder_of_run, lambda r, d: malformed.odd_labels(r), 0.7),
    "details": Kind(read_folder_of_run, _odd_details, 0.7),
}


def place(kind: str, rng: Rng, seeds: Path, scratch: Path) -> tuple[str, Path]:
    """Write one malformed input of a kind into ``scratch``; what was done, and where it lies."""
    if kind == "folder":
        return odd_folder(rng, seeds, scratch)
    files = sorted((seeds / kind).iterdir())
    seed = files[int(rng.integers(len(files)))]
    data, suffix, made = seed.read_bytes(), seed.suffix, KINDS[kind].make
    if kind == "picture" and rng.random() < 0.3:
        what, (suffix, data) = "made", malformed.odd_picture(rng)
    elif seed.name == "4.parquet" and rng.random() < 0.2:
        what = "bomb"
    elif made is not None and rng.random() < KINDS[kind].share:
        what, data = "made", made(rng, data)
    else:
        change = mutations.ANY_BYTES[int(rng.integers(len(mutations.ANY_BYTES)))]
        others = [f.read_bytes() for f in files]
        what, data = change.__name__, change(rng, data, others)
    if kind in RUN_FILES and kind != "model":
        for file in (seeds / "run").iterdir():
            shutil.copy(file, scratch / file.name)
        target = scratch / RUN_FILES[kind]
    elif kind == "picture":
        shutil.copy(seeds / "picture/1.png", scratch / "good.png")
        target = scratch / f"{'skip' if rng.random() < 0.3 else 'bad'}{suffix}"
    else:
        target = scratch / f"input{suffix}"
    target.write_bytes(data)
    return what, target


def odd_folder(rng: Rng, seeds: Path, scratch: Path) -> tuple[str, Path]:
    """A folder of images with names, links and entries that no one expects."""
    good = seeds / "picture/1.png"
    names = (
        *(b"a.png", b"\xff\xfe.png", b"line\nbreak.png", b"\x1b[31mred.png", b"9" * 200 + b".png"),
        *(b".hidden.png", b"space .PNG", b"-rf.png", b"\xe2\x80\xae.png", b"class/a.png"),
        *(b"class\n2/\xff.png", b"__MACOSX/a.png", b"deep/" * 60 + b"a.png", b"a.png.txt"),
    )
    done = []
    top = os.fsencode(scratch) + b"/data"
    os.makedirs(top)
    for _ in range(int(rng.integers(1, 5))):
        path = top + b"/" + names[int(rng.integers(len(names)))]
        action = str(
            rng.choice(
                ["copy", "copy", "copy", "empty", "folder", "loop", "dangling", "fifo", "up"]
            )
        )
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.lexists(path):
            continue
        done.append(action)
        if action in ("copy", "empty"):
            with open(path, "wb") as file:
                file.write(good.read_bytes() if action == "copy" else b"")
        elif action == "folder":
            os.mkdir(path)
        elif action == "fifo":
            os.mkfifo(path)
        else:
            targets = {"loop": path, "dangling": top + b"/nowhere.png", "up": b".."}
            os.symlink(targets[action], path)
    name = "skip" if rng.random() < 0.5 else "bad"
    return "+".join(sorted(set(done))), Path(os.fsdecode(top)) / name
