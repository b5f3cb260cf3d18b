"""What one process and several must agree on.

    python cases.py FOLDER PORT PORT

Every case is a function of a share of the samples. The script computes all of them alone, by two
processes and by three, and writes FOLDER/1.npz, 2.npz and 3.npz. The processes are forked from the
one that has computed alone, and so has imported everything. It must not see a GPU, as the threads
of autograd do not survive a fork then.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from dcfsc import DCFSC, ClosedFormSubspaceClustering, ViewClustering, networks, processes
from dcfsc.affinity import TopK
from dcfsc.estimators import sharded
from dcfsc.io import synthetic
from dcfsc.networks import ConvSpec, MLPSpec, ResidualSpec
from dcfsc.self_expression import solve
from dcfsc.training import (
    Absolute,
    ChunkedStep,
    History,
    ShareOfEnergy,
    pretrain,
    train,
)

Results = dict[str, Any]


class SelfExpressionTerm:
    """0.15 |Z - B Z|_F^2, added to the loss."""

    name = "self_expression"

    def __call__(self, state: Any) -> torch.Tensor:
        return 0.15 * (state.latent - state.expressed).square().sum()


N = 37
SPECS = {
    "mlp": MLPSpec(9, (12,), 5),
    "conv": ConvSpec((1, 8, 6), (3, 4), (3, 3), (2, 2)),
    "batch norm": ConvSpec(
        (1, 8, 8), (4, 3, 2), (3, 3, 3), (1, 2, 2), batch_norm=True, latent_relu=False
    ),
}


def share(n: int) -> slice:
    """Unequal shares: all but the last process have few samples, the second just one."""
    rank, size = processes.rank(), processes.size()
    ends = [0, *(n // 4 + i for i in range(size - 1)), n]
    return slice(ends[rank], ends[rank + 1])


def network_and_samples(kind: str) -> tuple[Any, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    network = networks.build(SPECS[kind], generator).double()
    shape = network.spec.sample_shape
    X = torch.randn(N, *shape, dtype=torch.float64, generator=generator) + 0.5
    return network.train(), X[share(N)]


def gradients() -> Results:
    found: Results = {}
    for kind in SPECS:
        network, X = network_and_samples(kind)
        step = ChunkedStep(network, X, 10, (SelfExpressionTerm(),))
        parts, ridge = step(Absolute(0.7))()
        found[f"{kind} loss"] = sum(parts.values())
        found[f"{kind} degrees of freedom"] = ridge["effective_dof"]
        for name, parameter in network.named_parameters():
            found[f"{kind} {name}"] = parameter.grad.numpy()
        for name, buffer in network.named_buffers():
            found[f"{kind} {name}"] = buffer.numpy()
    return found


def training() -> Results:
    found: Results = {}
    for kind in ("conv", "batch norm"):
        network, X = network_and_samples(kind)
        history = History()
        pretrain(
            network,
            X,
            epochs=2,
            batch_size=9,
            learning_rate=1e-3,
            generator=torch.Generator().manual_seed(1),
            history=history,
        )
        rule = ShareOfEnergy(0.01)
        train(network, X, steps=3, lam=rule, learning_rate=1e-3, history=history, batch_size=20)
        found[f"{kind} losses"] = np.array(history.column("loss"))
        found[f"{kind} weights"] = torch.cat(
            [p.detach().flatten() for p in network.parameters()]
        ).numpy()
    return found


def features(duplicates: int = 0) -> np.ndarray:
    X = synthetic(160, 4, 3, 20, noise=0.05, random_state=3).X.astype(np.float64)
    if duplicates:
        X[-duplicates:] = X[:duplicates]
    return X


def neighbors() -> Results:
    found: Results = {}
    for name, X in {"graph": features(), "copies": features(60)}.items():
        Z = torch.from_numpy(X[share(len(X))])
        values, indices = solve(Z, 0.3, form="features").topk(7)
        # The last one may tie with the first one left out.
        found[f"{name} values"] = processes.gather_rows(values)[:, :6].numpy()
        found[f"{name} indices"] = processes.gather_rows(indices)[:, :6].numpy()
    return found


def fitted(model: Any, X: np.ndarray, new: np.ndarray, path: Path) -> Results:
    """All there is to know of a model that was fitted on shares of X."""
    model.fit(X[share(len(X))])
    own = (len(X[share(len(X))]),)
    assert model.labels_.shape == own
    assert model.lam_ is None or model.leverage_.shape == own
    labels = processes.gather_rows(torch.from_numpy(model.labels_)).numpy()
    if processes.active():
        assert processes.rank() or np.array_equal(labels, model.all_labels_)
        sharded.gather(model)
    found: Results = {"labels": labels}
    if model.lam_ is not None:
        found |= {"lam": model.lam_, "dof": model.effective_dof_}
    if processes.rank() == 0:
        A = model.affinity_matrix_.tocoo()
        found |= {"rows": A.row, "columns": A.col, "weights": A.data}
        with processes.alone():
            model.save(path)
            loaded = type(model).load(path)
            if model.lam_ is not None:
                found |= {"leverage": loaded.leverage_, "leverage now": model.leverage_}
            found |= {"predicted": loaded.predict(new), "predicted now": model.predict(new)}
    return found


def closed_form(path: Path) -> Results:
    X = features()
    model = ClosedFormSubspaceClustering(4, random_state=0, form="features", device="cpu")
    return fitted(model, X, X[:30] + 0.01, path)


def equal(path: Path) -> Results:
    """As many distinct samples as clusters, of which each process has some."""
    line = np.arange(1.0, 5.0)[:, None] * np.ones((1, 6))  # one subspace, and four clusters
    X = line[[*range(4), *np.random.default_rng(0).integers(0, 4, 36)]]
    model = ClosedFormSubspaceClustering(4, random_state=0, form="features", device="cpu")
    found = fitted(model, X, X[:30] + 0.01, path)
    return {name: found[name] for name in ("labels", "predicted") if name in found}


def scattered(path: Path) -> Results:
    """Images that drift: by their scattering coefficients, with and without mirror images."""
    random = np.random.default_rng(0)
    patterns = np.kron(random.random((4, 8, 8)), np.ones((2, 2)))
    shifts = random.integers(-4, 5, (160, 2))
    X = np.stack([np.roll(patterns[i % 4], tuple(s), (0, 1)) for i, s in enumerate(shifts)])
    X = (X + 0.1 * random.random(X.shape)).astype(np.float32)
    model = ClosedFormSubspaceClustering(4, random_state=0, device="cpu")
    found = fitted(model, X, X[:30] + 0.01, path)
    assert model.representation_ == "scattering"
    return found


def shared_products(path: Path) -> Results:
    """The eigenproblem with its products divided; the graph is small, so it is asked for."""
    before, sharded.SMALLEST_SHARED = sharded.SMALLEST_SHARED, 0
    X = synthetic(350, 5, 3, 20, noise=0.3, random_state=1).X
    grow = TopK(k=2)  # falls apart at first: k must grow
    model = ClosedFormSubspaceClustering(5, random_state=0, affinity=grow, device="cpu")
    try:
        return fitted(model, X, X[:30], path)
    finally:
        sharded.SMALLEST_SHARED = before


def deep(path: Path) -> Results:
    generator = np.random.default_rng(0)
    bars = generator.normal(size=(60, 1, 1)) * generator.normal(size=(3, 8, 8)).repeat(20, 0)
    X = (bars + 0.05 * generator.normal(size=(60, 8, 8)))[generator.permutation(60)]
    spec = ConvSpec((1, 8, 8), (3, 2), (3, 3), (2, 2), batch_norm=True)
    options: dict[str, Any] = {"pretrain_epochs": 3, "steps": 5}
    options |= {"device": "cpu", "random_state": 3, "verbose": False, "batch_size": 7}
    with mock.patch("dcfsc.estimators.deep.PRETRAIN_BATCH", 16):
        return fitted(DCFSC(3, network=spec, **options), X.astype(np.float32), X[:9], path)


def views(path: Path, **options: Any) -> Results:
    """Stripes of three directions at random phases; the encoder learns from views of them."""
    generator = np.random.default_rng(0)
    y = np.arange(60) % 3
    across, down = np.array([(1, 0), (0, 1), (1, 1)]).T[:, y, None, None]
    rows, columns = np.mgrid[:8, :8]
    X = np.sin(np.pi / 2 * (across * columns + down * rows) + generator.uniform(0, 6, (60, 1, 1)))
    X = (X + 0.1 * generator.random(X.shape)).astype(np.float32)
    spec = ResidualSpec((1, 8, 8), (6, 8), 1, hidden=16, projection=8)
    given = {"network": spec, "effort": "quick", "steps": 4, "batch_size": 21}
    given |= {"device": "cpu", "random_state": 4, "verbose": False} | options
    names = "contrastive", "prediction", "self_expression", "clusters"
    losses = dict.fromkeys(names, 1.0)
    with mock.patch.multiple("dcfsc.views.model", LOSSES=losses, LOSSES_TWO=losses):
        model = ViewClustering(3, **given)
        found = fitted(model, X, X[:9], path)
    found |= {f"strength of {name}": s for name, s in model.augmentations_.items()}
    return found | {"losses": np.array(model.history_.column("loss"))}


def unguided(path: Path) -> Results:
    """The same where the clusters of the samples are not to be trusted."""
    with mock.patch("dcfsc.views.model.TRUSTED", 1.1):
        found = views(path, positives=0)
    assert found["strength of crop"] == 1.0
    return found


CASES: dict[str, Callable[..., Results]] = {
    "gradients": gradients,
    "training": training,
    "neighbors": neighbors,
    "closed form": closed_form,
    "equal": equal,
    "scattered": scattered,
    "shared products": shared_products,
    "deep": deep,
    "views": views,
    "unguided": unguided,
}
WITH_MODELS = (closed_form, equal, scattered, shared_products, deep, views, unguided)


def run_all(folder: Path, size: int) -> None:
    results = {}
    for case, function in CASES.items():
        path = folder / f"{case}-{size}.safetensors"
        found = function(path) if function in WITH_MODELS else function()
        results |= {f"{case}: {name}": np.asarray(value) for name, value in found.items()}
    if processes.rank() == 0:
        np.savez(folder / f"{size}.npz", **results)


def work(folder: Path, rank: int, size: int, port: str) -> None:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size)}
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": port}
    with processes.process_group(torch.device("cpu"), 600), processes.sharded():
        run_all(folder, size)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    run_all(folder, 1)
    fork = multiprocessing.get_context("fork")
    for size, port in zip((2, 3), sys.argv[2:], strict=True):
        given = [(folder, rank, size, port) for rank in range(size)]
        workers = [fork.Process(target=work, args=each, daemon=True) for each in given]
        for process in workers:
            process.start()
        for process in workers:
            process.join()
        if any(process.exitcode for process in workers):
            sys.exit(f"{size} processes ended with {[p.exitcode for p in workers]}")
