"""Two values for every public parameter, on data where they matter, and the effect that differs."""

from __future__ import annotations

import io
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import torch
from samples import SelfExpressionTerm
from torch import nn
from torch.overrides import TorchFunctionMode

from dcfsc import TextEncoderFeatures, networks
from dcfsc import affinity as affinities
from dcfsc.affinity import by_degrees
from dcfsc.estimators.registry import FEATURES, METHODS
from dcfsc.features.encoders import InputImages, TorchEncoder
from dcfsc.io import synthetic
from dcfsc.self_expression import ExplicitCoefficients, solve

TABLE = synthetic(60, 3, 2, 8, noise=0.3, random_state=0).X
ELSEWHERE = synthetic(20, 3, 2, 8, noise=0.3, random_state=1).X
IMAGES = np.random.default_rng(0).integers(0, 256, (24, 8, 8)).astype(np.uint8)
SMALL_IMAGES = IMAGES[:16, :5, :5].copy()
POSITIVE = np.random.default_rng(3).normal(size=(80, 15)) + 0.5
TEXTS = np.array([f"text {i} of {c}" for i in range(12) for c in "ab"])
MODULE_OF_ENCODERS = "dcfsc.estimators.encoder_features"


def tiny_encoder(name: Any, device: Any) -> TorchEncoder:
    """In place of a pretrained network, what pools an image: coarsely, unless it has a name."""
    pool = nn.Sequential(nn.AvgPool2d(4 if name is None else 2), nn.Flatten())
    return TorchEncoder(str(name), pool, InputImages((12, 12)), device)


class Largest(TorchFunctionMode):
    """The number of values of the largest tensors that are made: of all, and by layers."""

    def __init__(self):
        super().__init__()
        self.all = self.layers = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            self.all = max(self.all, out.numel())
            if getattr(func, "__name__", "") in ("linear", "conv2d", "addmm"):
                self.layers = max(self.layers, out.numel())
        return out


def partition(labels: np.ndarray) -> list[int]:
    """Labels numbered by their first appearance."""
    number: dict[int, int] = {}
    return [number.setdefault(int(k), len(number)) for k in labels]


def watched(model: Any, X: Any, folder: Path, effect: str) -> Any:
    """What is seen while a model is fitted and, if it makes features, transforms."""
    memory = Largest()
    looks = memory if effect == "memory" else nullcontext()
    with looks, redirect_stderr(io.StringIO()) as text, redirect_stdout(text):
        model.fit(X)
        if not hasattr(model, "labels_"):
            model.transform(X)
    files = sorted((p.name, p.read_bytes()) for p in folder.rglob("*") if p.is_file())
    return {"memory": (memory.all, memory.layers), "text": text.getvalue(), "file": files}[effect]


def left(model: Any, X: Any, effect: str = "output") -> Any:
    """What a fitted model says."""
    if effect == "labels":
        return partition(model.labels_)
    if effect == "prediction":
        return model.predict_proba(ELSEWHERE if X is TABLE else X[::-1].copy()).tolist()
    parts = [model.transform(X)] if hasattr(model, "transform") else []
    parts += [v for k, v in sorted(vars(model).items()) if k.endswith("_") and k != "history_"]
    return repr([_plain(part) for part in parts])


def _plain(value: Any) -> Any:
    if hasattr(value, "toarray"):
        value = value.toarray()
    return (str(value.dtype), value.tolist()) if isinstance(value, np.ndarray) else repr(value)


MLP = networks.MLPSpec(8, (6,), 4)
CLUSTERER = {
    "n_clusters": (3, 4, "labels"),
    "affinity": ("symmetric", "topk", "output"),
    "assign": ("discretize", "cluster_qr", "output", {"n_clusters": 12}),
    "device": ("cpu", "cuda:99", "refused"),
    "random_state": (0, 1, "output", {"n_clusters": 12, "assign": "discretize"}),
}
SHALLOW = {**CLUSTERER, "scale": ("none", "unit", "output")}
NETWORK = {
    "network": ("auto", MLP, "output"),
    "weights": (None, "no such weights", "refused"),
    "pretrain_epochs": (2, 3, "output"),
    "learning_rate": (1e-3, 1e-2, "output"),
    "device": ("cpu", "cuda:99", "refused"),
    "random_state": (0, 1, "output"),
    "verbose": (False, True, "text"),
    "callbacks": ((), (print,), "text"),
}
DEEP = {"device": "cpu", "random_state": 0, "verbose": False, "pretrain_epochs": 2}
SEEDED = {"n_clusters": 3, "device": "cpu", "random_state": 0}
ON_VIEWS = {
    **SEEDED,
    "augmentations": {"noise": 1.0},
    "effort": "quick",
    "steps": 2,
    "batch_size": 8,
    "verbose": False,
}

# name: class, samples, options of every fit, and for each parameter two values and their effect
Cases = dict[str, tuple[type, Any, dict[str, Any], dict[str, tuple[Any, ...]]]]
ESTIMATORS: Cases = {
    "closed-form": (
        METHODS["closed-form"],
        TABLE,
        {**SEEDED, "representation": "given"},
        {
            **CLUSTERER,
            "lam": ("auto", 5.0, "labels"),
            "subspace_dim": (None, 1.0, "labels"),
            "normalize": (True, False, "labels"),
            "representation": ("given", "metric", "labels"),
            "form": ("samples", "features", "output"),
            "n_neighbors": (10, 1, "prediction"),
        },
    ),
    "closed-form of images": (
        METHODS["closed-form"],
        IMAGES,
        {**SEEDED, "representation": "given"},
        {"working_size": ("auto", (4, 4), "output")},
    ),
    "dcfsc": (
        METHODS["dcfsc"],
        TABLE,
        {**SEEDED, **DEEP, "steps": 2},
        {
            **CLUSTERER,
            **NETWORK,
            "assign": ("kmeans", "discretize", "output", {"affinity": "symmetric"}),
            "lam": ("auto", 5.0, "output"),
            "subspace_dim": (None, 1.0, "output"),
            "steps": (2, 3, "output"),
            "batch_size": (None, 7, "memory", {"pretrain_epochs": 0}),
            "terms": ((), (SelfExpressionTerm(9.0),), "output"),
            "precision": ("float32", "bfloat16", "refused"),
            "compile": (False, True, "refused"),
            "checkpoint": ("FOLDER/a", "FOLDER/b", "file", {"checkpoint_every": 0.0}),
            "checkpoint_every": (30.0, 0.0, "file", {"checkpoint": "FOLDER/state"}),
        },
    ),
    "views": (
        METHODS["views"],
        SMALL_IMAGES,
        ON_VIEWS,
        {
            "network": (
                "auto",
                networks.ResidualSpec((1, 5, 5), (4, 8), 1, hidden=8, projection=4),
                "output",
            ),
            "augmentations": ({"noise": 1.0}, {"light": 1.0}, "output"),
            "positives": (3, 0, "output"),
            "effort": ("quick", "full", "output"),
            "steps": (2, 3, "output"),
            "batch_size": (8, 4, "output"),
            "learning_rate": (None, 0.1, "output"),
            "lam": ("auto", 5.0, "output"),
            "subspace_dim": (None, 1.0, "output"),
            "assign": ("filtered", "discretize", "labels"),
            "n_clusters": (3, 4, "labels"),
            "affinity": ("topk", "symmetric", "output"),
            "precision": (None, "bfloat16", "refused"),
            "compile": (False, True, "refused"),
            "device": ("cpu", "cuda:99", "refused"),
            "random_state": (0, 1, "output"),
            "verbose": (False, True, "text"),
            "callbacks": ((), (print,), "text"),
            "checkpoint": ("FOLDER/a", "FOLDER/b", "file", {"checkpoint_every": 0.0}),
            "checkpoint_every": (30.0, 0.0, "file", {"checkpoint": "FOLDER/state"}),
        },
    ),
    "dsc": (
        METHODS["dsc"],
        TABLE,
        {**SEEDED, **DEEP, "steps": 2},
        {
            **CLUSTERER,
            **NETWORK,
            "norm": ("l1", "l2", "output"),
            "coefficient_weight": (1.0, 9.0, "output"),
            "self_expression_weight": (100.0, 9.0, "output"),
            "reconstruction_weight": (0.5, 900.0, "output"),
            "initial": (1e-4, 1e-2, "output"),
            "steps": (2, 3, "output"),
        },
    ),
    "a-dssc": (
        METHODS["a-dssc"],
        TABLE,
        SEEDED,
        {
            **SHALLOW,
            "eta1": (0.1, 1.0, "output"),
            "eta2": (0.05, 0.5, "output"),
            "eta3": (0.0, 0.1, "output"),
        },
    ),
    "edsc": (
        METHODS["edsc"],
        TABLE,
        SEEDED,
        {
            **SHALLOW,
            "l1": (100.0, 1.0, "output"),
            "l2": (None, 0.01, "output", {"l1": 1.0}),
            "outliers": (True, False, "output"),
            "max_iter": (1000, 2, "output"),
        },
    ),
    "ensc": (
        METHODS["ensc"],
        TABLE[:40],
        SEEDED,
        {**SHALLOW, "l1_ratio": (0.95, 0.3, "output"), "alpha": (50.0, 3.0, "output")},
    ),
    "ensc in rounds": (
        METHODS["ensc"],
        POSITIVE,
        SEEDED,
        {"tol": (1e-3, 0.5, "output"), "max_iter": (100, 1, "output")},
    ),
    "kssc": (
        METHODS["kssc"],
        TABLE,
        {**SEEDED, "max_iter": 20},
        {
            **SHALLOW,
            "kernel": ("polynomial", "rbf", "output"),
            "degree": (2, 3, "output"),
            "coef0": (1.0, 0.0, "output"),
            "gamma": (None, 3.0, "output"),
            "alpha": (20.0, 2.0, "output"),
            "affine": (False, True, "output"),
            "tol": (2e-4, 0.5, "output"),
            "max_iter": (20, 3, "output"),
        },
    ),
    "lrr": (
        METHODS["lrr"],
        TABLE,
        {**SEEDED, "lam": 1.0},
        {
            **SHALLOW,
            "lam": (1.0, 3.0, "output"),
            "norm": ("l21", "l1", "output"),
            "max_iter": (2000, 2, "output"),
        },
    ),
    "lrsc": (
        METHODS["lrsc"],
        TABLE,
        SEEDED,
        {**SHALLOW, "tau": (None, 10.0, "output"), "alpha": (None, float("inf"), "output")},
    ),
    "lsr": (METHODS["lsr"], TABLE, SEEDED, {**SHALLOW, "lam": (0.004, 1.0, "labels")}),
    "ssc": (
        METHODS["ssc"],
        TABLE,
        {**SEEDED, "max_iter": 20},
        {
            **SHALLOW,
            "alpha": (20.0, 2.0, "output"),
            "outliers": (True, False, "output"),
            "affine": (False, True, "output"),
            "tol": (2e-4, 0.5, "output"),
            "max_iter": (20, None, "output"),
        },
    ),
    "ssc-omp": (
        METHODS["ssc-omp"],
        TABLE,
        SEEDED,
        {**SHALLOW, "n_nonzero": (5, 2, "labels"), "tol": (1e-6, 0.5, "output")},
    ),
    "autoencoder": (FEATURES["autoencoder"], TABLE, DEEP, NETWORK),
    "scattering": (
        FEATURES["scattering"],
        IMAGES,
        {"J": 2, "L": 4, "n_components": 5, "device": "cpu", "verbose": False},
        {
            "J": (2, 1, "output"),
            "L": (4, 3, "output"),
            "n_components": (5, 3, "output"),
            "center": (True, False, "output"),
            "scale_paths": (True, False, "output"),
            "unit_rows": (True, False, "output"),
            "batch_size": (24, 3, "memory"),
            "device": ("cpu", "cuda:99", "refused"),
            "verbose": (False, True, "text"),
        },
    ),
    "encoder": (
        FEATURES["encoder"],
        IMAGES,
        {"cache": None, "device": "cpu", "verbose": False},
        {
            "name": (None, "other", "output"),
            "batch_size": (24, 3, "memory"),
            "cache": (None, "FOLDER", "file"),
            "device": ("cpu", "cuda:99", "refused"),
            "verbose": (False, True, "text"),
        },
    ),
    "texts": (
        TextEncoderFeatures,
        TEXTS,
        {"cache": None, "device": "cpu", "verbose": False},
        {
            "name": (None, "other", "output"),
            "batch_size": (24, 3, "memory"),
            "cache": (None, "FOLDER", "file"),
            "device": ("cpu", "cuda:99", "refused"),
            "verbose": (False, True, "text"),
            "max_length": (None, 3, "output"),
        },
    ),
}

OPERATOR = solve(torch.from_numpy(TABLE), 0.5)
PIECES = ExplicitCoefficients(torch.from_numpy(np.kron(np.eye(10), np.ones((6, 6)) - np.eye(6))))
GRAPH = affinities.TopK()(OPERATOR, 3)
TOPK: dict[str, tuple[Any, ...]] = {
    "k": (8, 3, "output"),
    "power": (4.0, 1.0, "output"),
    "scale": ("maximum", "none", "output"),
    "grow": (True, False, "output", {"k": 2, "scale": "none"}, PIECES),
    "search": ("exact", "approximate", "output"),
    "signs": ("both", "positive", "output"),
}
AFFINITIES: dict[str, tuple[type, dict[str, tuple[Any, ...]]]] = {
    "TopK": (affinities.TopK, TOPK),
    "Joined": (
        affinities.Joined,
        {
            **TOPK,
            "other": (None, by_degrees(GRAPH), "output"),
            "weight": (0.02, 1.0, "output", {"other": GRAPH}),
        },
    ),
    "LowRank": (
        affinities.LowRank,
        {
            "share": (0.2, 0.9, "output"),
            "dim": (3, 1, "output"),
            "power": (1.0, 2.0, "output"),
            "double_below": (4096, 0, "output", {}, solve(torch.from_numpy(TABLE).float(), 0.5)),
        },
    ),
    "RowSpace": (
        affinities.RowSpace,
        {"tol": (1e-4, 0.5, "output"), "power": (4, 2, "output")},
    ),
    "Symmetric": (
        affinities.Symmetric,
        {"scale": (True, False, "output"), "share": (1.0, 0.5, "output")},
    ),
    "NearestCodes": (
        affinities.NearestCodes,
        {"k": (3, 5, "output"), "n_nonzero": (50, 4, "output")},
    ),
    "DoublyStochastic": (
        affinities.DoublyStochastic,
        {
            "eta": (0.1, 0.5, "output"),
            "relative": (True, False, "output"),
            "tol": (1e-6, 0.05, "output"),
        },
    ),
}
SUGGESTION = {
    "max_k": (5, 6),
    "method": ("closed-form", "dcfsc"),
    "lam": ("auto", 5.0),
    "subspace_dim": (None, 1.0),
    "normalize": (True, False),
    "representation": ("given", "metric"),
    "affinity": ("topk", "symmetric"),
    "max_samples": (60, 40),
    "device": ("cpu", "cuda:99"),
    "random_state": (0, 1),
    "working_size": ("auto", (4, 4)),
}
