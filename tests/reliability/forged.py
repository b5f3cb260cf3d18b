"""Runs, models, caches and folders of weights that somebody forged, read where it is watched.

    python tests/reliability/forged.py --count 1000 --seed 0 --json results/benchmarks/forged.json

Each is one of a few whole ones with something changed: bytes, the values of a JSON file or of a
header, sizes that are claimed, files that are gone or are links and pipes now. Its checksums fit
again, as one who means harm would have them. It is then used as a person would. What counts as a
failure: an exception that is no InputError in one line, code of the file run, a program or a socket
opened, a file read or written outside, more than 1 GiB, or no answer in ten seconds.

The mutations of one seed are always the same ones.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path += [str(Path(__file__).resolve().parents[i]) for i in (0, 1)]
sys.path.append(str(Path(__file__).resolve().parents[2]))  # for research

import inputs
import malformed
import mutations
import numpy as np
import torch
import watched
from PIL import Image
from safetensors.torch import save_file
from tiny_texts import write_text_model

from dcfsc import EncoderFeatures
from dcfsc.estimators import encoder_features
from dcfsc.estimators.registry import load_model
from dcfsc.features.encoder_backends import open_encoder
from dcfsc.features.encoders import InputImages, TorchEncoder
from dcfsc.features.text_encoders import open_text_encoder
from dcfsc.io import Dataset, feature_cache, load
from dcfsc.journal import digest
from dcfsc.runs.compare import compare_runs
from dcfsc.runs.editing import edit_run
from dcfsc.runs.executor import execute
from dcfsc.runs.export import export_run
from dcfsc.runs.folder import read_run
from dcfsc.runs.prediction import predict_run
from dcfsc.runs.record import reading_of
from dcfsc.runs.reporting import draw, page_of
from dcfsc.runs.request import RunRequest

Rng = np.random.Generator
CPU = torch.device("cpu")
BATCH = 100  # mutations that one process reads
HOSTILE: tuple[Any, ...] = (
    *("/etc/passwd", "../x", "../../bait/vit", "BAIT", "somebody/else", "mine.Model", "..", "~"),
    *("https://example.org/x", "hf-hub:a/b", "a\x1b[2J", "[/b]", "=1+1", "\r", "\udc80", "cuda:9"),
    *(-1, -(2**63), 2**31, 10**9, 10**12, 10**30, 1e308, float("nan"), float("inf"), True, None),
    *([10**9] * 3, [], {}, {"auto_map": {"AutoModel": "evil.Model"}}, [[]], "meta", "auto", 0),
)
FORBIDDEN = (*watched.FORBIDDEN, "socket.connect", "socket.getaddrinfo", "socket.bind", "os.fork")


# Whole ones ---------------------------------------------------------------------------------


class Tiny(TorchEncoder):
    """Means of the quarters of an image, in each channel: 12 features."""

    def __init__(self, name: str | None, device: torch.device):
        super().__init__(str(name), torch.nn.Flatten(), InputImages((8, 8)), device)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.module(torch.nn.functional.avg_pool2d(x, 4))


def write_seeds(root: Path) -> None:
    X, K = inputs.images(), inputs.K
    options: dict[str, Any] = {"n_clusters": K, "random_state": 0, "device": "cpu"}
    data = Dataset("seed", X, np.arange(len(X)) % K)
    for name, features in (("1", None), ("2", "scattering")):
        out = root / "run" / name
        given = {**options, **({"J": 2} if features else {})}
        execute(RunRequest(data, "closed-form", given, features=features, out=out))
    (root / "photos").mkdir()
    for i, image in enumerate(X):
        Image.fromarray(image).save(root / f"photos/{i}.png")
    out = root / "run/3"
    execute(RunRequest(load(root / "photos"), "closed-form", options, out=out))
    edit_run(out, {"0": "first"}, splits=["1"])
    (root / "model").mkdir()
    shutil.copy(root / "run/1/model.safetensors", root / "model/1.safetensors")
    shutil.copy(root / "run/2/features.safetensors", root / "model/2.safetensors")
    inputs.DCFSC(K, **inputs.FAST, checkpoint=root / "c").fit(X).save(root / "model/3.safetensors")
    encoder_features.open_encoder = Tiny
    EncoderFeatures("tiny", device="cpu", verbose=False).fit(X).save(root / "model/4.safetensors")
    EncoderFeatures("tiny", cache=root / "cache/1", device="cpu", verbose=False).fit_transform(X)
    if os.path.exists(root / "c"):
        os.unlink(root / "c")
    _write_weights(root / "weights")
    shutil.copytree(root / "weights/1", root / "bait/vit")
    write_text_model(root / "texts/1")
    dense = ("Dense", {"activation_function": "torch.nn.modules.activation.Tanh"})
    write_text_model(root / "texts/2", [("Pooling", {"pooling_mode": "max"}), dense])
    save_file({"linear.weight": torch.ones(5, 16)}, root / "texts/2/2_Dense/model.safetensors")
    lengths = {"max_seq_length": 12, "do_lower_case": True}
    (root / "texts/2/sentence_bert_config.json").write_text(json.dumps(lengths))


def _write_weights(folder: Path) -> None:
    import transformers

    sides = {"image_size": 16, "patch_size": 8, "num_attention_heads": 2, "hidden_size": 16}
    config = transformers.ViTConfig(**sides, num_hidden_layers=1, intermediate_size=24)
    transformers.utils.logging.disable_progress_bar()
    transformers.ViTModel(config).save_pretrained(folder / "1")
    small = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1])
    transformers.ResNetModel(small).save_pretrained(folder / "2")
    settings = {
        "size": {"height": 16, "width": 16},
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
    }
    for name in ("1", "2"):
        (folder / name / "preprocessor_config.json").write_text(json.dumps(settings))


# What is forged ------------------------------------------------------------------------------


def forged_json(rng: Rng, value: Any) -> Any:
    if rng.random() < 0.4:
        return mutations.damaged_json(rng, value)
    document = json.loads(json.dumps(value))
    for _ in range(int(rng.integers(1, 3))):
        places = list(mutations._places(document))
        parent, key = places[int(rng.integers(len(places)))] if places else (document, "a")
        parent[key] = HOSTILE[int(rng.integers(len(HOSTILE)))]
        if rng.random() < 0.1 and isinstance(parent, dict):
            parent["auto_map"] = {"AutoModel": "evil.Model", "AutoConfig": "evil.Config"}
    return document


def forged_safetensors(rng: Rng, data: bytes) -> bytes:
    """A model's header or tensors changed, its checksum right."""
    from safetensors.torch import load, save

    length = int.from_bytes(data[:8], "little")
    header, tensors = json.loads(data[8 : 8 + length]), load(data)
    kept = header.get("__metadata__", {})
    if not tensors or (rng.random() < 0.5 and "dcfsc" in kept):
        ours = json.loads(kept["dcfsc"])
        ours.pop("sha256", None)
        ours = forged_json(rng, ours)
    else:
        name = sorted(tensors)[int(rng.integers(len(tensors)))]
        kind = int(rng.integers(4))
        if kind == 0:
            del tensors[name]
        elif kind == 1:
            tensors[name] = tensors[name].reshape(-1)[: int(rng.integers(1, 5))].clone()
        elif kind == 2:
            tensors[name] = torch.full((3, 2), int(rng.choice([-1, 7, 2**31 - 1])))
        else:
            tensors[name] = torch.full_like(tensors[name], int(rng.choice([0, 1, 100])))
        ours = json.loads(kept["dcfsc"]) if "dcfsc" in kept else {}
        ours.pop("sha256", None)
    if "dcfsc" in kept:
        if isinstance(ours, dict):
            ours["sha256"] = mutations.fingerprint(ours, tensors)
        kept = {"dcfsc": json.dumps(ours)}
    elif "sha256" in kept and {"digests", "features"} <= tensors.keys():
        found = [tensors[key].numpy() for key in ("digests", "features")]
        kept = {"sha256": feature_cache._checksum(*found)}
    return save(tensors, kept)


def forged_details(rng: Rng, data: bytes) -> bytes:
    if rng.random() < 0.3:
        head = malformed.odd_npy(rng)
        return malformed.zip_of("labels.npy", 0, head, int(rng.choice([len(head), 2**32 - 1])))
    return inputs._odd_details(rng, data)


def forge(rng: Rng, folder: Path) -> str:
    """Change something in a folder, or in a folder with one file; what was done."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix not in (".html", ".py"))
    file = files[int(rng.integers(len(files)))]
    action, data = rng.random(), file.read_bytes()
    if action < 0.12:
        file.unlink()
        kind = str(rng.choice(["gone", "pipe", "link", "loop", "folder", "up"]))
        bait = folder.parent / "bait/vit" / str(rng.choice(["config.json", "model.safetensors"]))
        if kind == "pipe":
            os.mkfifo(file)
        elif kind == "folder":
            file.mkdir()
        elif kind != "gone":
            file.symlink_to({"link": bait, "loop": file, "up": Path("..")}[kind])
        return f"{file.name} {kind}"
    if action < 0.3:
        change = mutations.ANY_BYTES[int(rng.integers(len(mutations.ANY_BYTES)))]
        file.write_bytes(change(rng, data, [data]))
        return f"{file.name} {change.__name__}"
    if file.suffix == ".json":
        deep = rng.random() < 0.03
        text = mutations.deep_json(rng) if deep else json.dumps(forged_json(rng, json.loads(data)))
        file.write_text(text.replace("BAIT", str(folder.parent / "bait/vit")))
    elif file.suffix == ".safetensors":
        other = rng.random() < 0.2 and b'"dcfsc"' in data[:100] and not data.rstrip().endswith(b"}")
        file.write_bytes((mutations.safetensors if other else forged_safetensors)(rng, data))
    elif file.suffix == ".npz":
        file.write_bytes(forged_details(rng, data))
    else:
        file.write_bytes(malformed.odd_labels(rng))
    return f"{file.name} forged"


def seal(folder: Path) -> None:
    """Have the record of a run describe the files as they are now."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        record = json.loads((folder / "run.json").read_text())
        record["files"] |= {name: digest(folder / name) for name in record["files"]}
        (folder / "run.json").write_text(json.dumps(record))


# How it is used -----------------------------------------------------------------------------


def use_run(folder: Path) -> None:
    run = read_run(folder)
    photos = folder.parents[1] / "seeds/photos"
    out, new = folder.parent / "out", Dataset("new", inputs.images()[:3])
    for step in (
        lambda: predict_run(folder, new, out / "p.csv", device="cpu"),
        lambda: reading_of(run.record),
        lambda: draw(run, page_of(run, out / "r.html")),
        lambda: export_run(folder, "csv", out / "e.csv"),
        lambda: export_run(folder, "parquet", out / "e.parquet", data=photos),
        lambda: export_run(folder, "folders", out / "e", data=photos, copy=True),
        lambda: compare_runs(folder, folder.parent / "other", out / "c.html"),
        lambda: compare_runs(folder.parent / "other", folder, out / "d.html"),
    ):
        _allowed(step)


def use_model(folder: Path) -> None:
    model: Any = load_model(folder / "model.safetensors", device="cpu")
    X = inputs.images()[:4]
    if hasattr(model, "predict"):
        model.predict(X)
        model.predict_proba(X)
    else:
        model.transform(X)
    model.save(folder.parent / "out/again.safetensors")


def use_cache(folder: Path) -> None:
    X = inputs.images()
    features = EncoderFeatures("tiny", cache=folder, device="cpu", verbose=False).fit(X)
    assert features.transform(X).shape == (len(X), 12)


def use_weights(folder: Path) -> None:
    encoder = open_encoder(str(folder), CPU)
    found = encoder(torch.zeros(2, 3, *encoder.images.size))
    assert found.shape == (2, encoder.n_features)


def use_texts(folder: Path) -> None:
    encoder = open_text_encoder(str(folder), CPU)
    texts = [encoder.tokens(text) for text in ("the bus was late", "", "soup " * 100)]
    assert encoder(texts).shape == (3, encoder.n_features)


def _allowed(step: Callable[[], Any]) -> None:
    """Each command of its own: that one refuses does not keep the next from being tried."""
    try:
        step()
    except watched.InputError as error:
        refusals.append(error)


KINDS: dict[str, Callable[[Path], None]] = {
    "run": use_run,
    "model": use_model,
    "cache": use_cache,
    "weights": use_weights,
    "texts": use_texts,
}
refusals: list[watched.InputError] = []


# Watching -----------------------------------------------------------------------------------


def outcomes(count: int, seed: int, kinds: Iterable[str] = KINDS) -> Iterator[dict[str, Any]]:
    """What became of ``count`` forged ones of each kind."""
    with tempfile.TemporaryDirectory(prefix="forged-") as folder:
        root = Path(folder).resolve()
        os.environ |= {"XDG_CACHE_HOME": f"{root}/scratch/cache", "HF_HOME": f"{root}/scratch/hub"}
        if watched._in_child(lambda: write_seeds(root / "seeds")) != 0:
            raise RuntimeError("the whole ones could not be written")
        for kind in kinds:
            start = 0
            while start < count:
                indices = range(start, min(count, start + BATCH))
                results = _child(kind, indices, seed, root)
                yield from results
                start += len(results)


def _child(kind: str, indices: range, seed: int, root: Path) -> list[dict[str, Any]]:
    """The outcomes of a process, the last of which may be that it ended."""
    told = root / "told"
    told.write_text("")
    status = watched._in_child(lambda: _batch(kind, indices, seed, root, told))
    lines = [json.loads(line) for line in told.read_text().splitlines()]
    results = [line for line in lines if "outcome" in line]
    if len(results) < len(indices):
        ended = {"outcome": "failed", "message": f"the process ended with {status}"}
        results.append({"kind": kind, "index": indices[len(results)], **ended})
    return results


def _batch(kind: str, indices: range, seed: int, root: Path, told: Path) -> None:
    encoder_features.open_encoder = Tiny
    _watch(root)
    with open(told, "w", buffering=1) as file:
        for index in indices:
            file.write(json.dumps(_one(kind, index, seed, root)) + "\n")


def _one(kind: str, index: int, seed: int, root: Path) -> dict[str, Any]:
    rng = np.random.default_rng([seed, index])
    scratch = root / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    (scratch / "out").mkdir(parents=True)
    shutil.copytree(root / "seeds/bait", scratch / "bait")
    (scratch / "evil.py").write_text(f"open({str(root / 'ran')!r}, 'w')\n")
    seeds = sorted((root / "seeds" / kind).iterdir())
    chosen, target = seeds[int(rng.integers(len(seeds)))], scratch / "given"
    if chosen.is_dir():
        shutil.copytree(chosen, target)
        (target / "evil.py").write_text(f"open({str(root / 'ran')!r}, 'w')\n")
    else:
        target.mkdir()
        shutil.copy(chosen, target / "model.safetensors")
    if kind == "run":
        shutil.copytree(root / "seeds/run/1", scratch / "other")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        what = forge(rng, target)
        if kind == "run" and (target / "run.json").is_file() and rng.random() < 0.8:
            seal(target)
    before, begin = watched._memory("VmRSS"), time.process_time()
    watched._limit_memory()
    watched._limit_processor()
    refusals.clear()
    outcome, message = watched.watched_call(lambda: KINDS[kind](target), target)
    if outcome == "handled" and refusals:
        outcome, message = "refused", str(refusals[0])
    if any("\n" in str(refusal) for refusal in refusals):
        outcome, message = "failed", "a refusal of several lines"
    grown = max(0, watched._memory("VmHWM") - before)
    if (root / "ran").exists():
        outcome, message = "failed", "its code ran"
    if _changed(scratch / "bait", root / "seeds/bait"):
        outcome, message = "failed", "a file outside was changed"
    if grown > watched.MEMORY_BYTES:
        outcome, message = "failed", f"{grown >> 20} MiB"
    return {
        "kind": kind,
        "index": index,
        "what": what,
        "outcome": outcome,
        "message": message,
        "seconds": round(time.process_time() - begin, 3),
        "bytes": grown,
    }


def _changed(folder: Path, original: Path) -> bool:
    def content(top: Path) -> dict[str, bytes]:
        files = (p for p in top.rglob("*") if p.is_file())
        return {str(p.relative_to(top)): p.read_bytes() for p in files}

    return content(folder) != content(original)


def _watch(root: Path) -> None:
    import encodings.idna  # noqa: F401 - what is imported late would be read from elsewhere

    program = (
        str(root / "seeds/photos"),
        sys.prefix,
        sys.base_prefix,
        str(Path(__file__).resolve().parents[2]),
        "/usr",
        "/lib",
    )
    given = os.path.realpath(root / "scratch")
    inside = tuple(f"{given}/{name}" for name in ("given", "out", "cache", "hub", "other"))

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not watched._reading:
            return
        if event in FORBIDDEN:
            raise watched.Forbidden(event)
        if event == "exec" and str(getattr(arguments[0], "co_filename", "")).startswith(str(root)):
            raise watched.Forbidden("code of the file")
        if event == "open" and isinstance(arguments[0], str | bytes):
            place = os.path.realpath(os.fsdecode(arguments[0]))
            writes = isinstance(arguments[2], int) and arguments[2] & watched.WRITES
            known = (
                ("/dev/null", "/proc/", "/sys/")
                if writes
                else ("/dev/", "/proc/", "/sys/", *program)
            )
            if not place.startswith((*inside, *known)) and "__pycache__" not in place:
                raise watched.Forbidden(f"{'writing' if writes else 'reading'} {place}")

    sys.addaudithook(hook)


def summary(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts by kind, the largest memory and time, and what was neither refused nor handled."""
    names, kinds = ("refused", "handled", "failed"), []
    for kind in KINDS:
        here = [r for r in results if r["kind"] == kind]
        counts = {name: sum(r["outcome"] == name for r in here) for name in names[:2]}
        counts["failed"] = len(here) - sum(counts.values())
        peak = max((r.get("bytes", 0) for r in here), default=0)
        longest = max((r.get("seconds", 0.0) for r in here), default=0.0)
        if here:
            sizes = {"peak_bytes": peak, "seconds": longest}
            kinds.append({"kind": kind, "mutations": len(here), **counts, **sizes})
    failures = [r for r in results if r["outcome"] not in names[:2]]
    return {"kinds": kinds, "failures": failures[:100]}


def main() -> int:
    from research import record

    parser = record.parser(__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--count", type=int, default=1000, help="mutations of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS)
    options = parser.parse_args()
    kinds = KINDS if options.kind is None else (options.kind,)
    results = list(outcomes(options.count, options.seed, kinds))
    figures = summary(results)
    record.finish(options, "forged", figures)
    return int(bool(figures["failures"]))


if __name__ == "__main__":
    sys.exit(main())
