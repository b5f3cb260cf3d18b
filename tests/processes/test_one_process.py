"""The functions of many processes in a group of one: what they refuse, what they hand back."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from running import fit_run

from dcfsc import DCFSC, ClosedFormSubspaceClustering, networks, processes
from dcfsc.affinity import TopK
from dcfsc.errors import InputError
from dcfsc.estimators import SSCOMP, sharded
from dcfsc.io import Dataset, synthetic
from dcfsc.io.streamed import stream_npy
from dcfsc.neighbors.sharded import in_order
from dcfsc.networks import MLPSpec
from dcfsc.runs.executor import Share
from dcfsc.self_expression import solve
from dcfsc.training import History, ShareOfEnergy, train


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    for name, value in {"RANK": 0, "WORLD_SIZE": 1, "MASTER_PORT": port}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    with processes.process_group(torch.device("cpu"), 30), processes.sharded():
        yield


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    return synthetic(60, 3, 3, 15, random_state=0).X


def test_a_model_of_a_share_neither_predicts_nor_is_saved(
    group: None, X: np.ndarray, tmp_path: Path
) -> None:
    model = ClosedFormSubspaceClustering(3, random_state=0, device="cpu").fit(X)
    assert model.share_ == (0, 60)
    for use in (lambda: model.predict(X), lambda: model.save(tmp_path / "model.safetensors")):
        with pytest.raises(InputError, match="60 of 60 samples"):
            use()
    sharded.gather(model)
    with processes.alone():
        model.save(tmp_path / "model.safetensors")
        assert model.predict(X).shape == (60,)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (ClosedFormSubspaceClustering(3, affinity="low_rank"), "all samples in one process"),
        (ClosedFormSubspaceClustering(3, affinity=TopK(search="approximate")), "exact search"),
        (ClosedFormSubspaceClustering(3, form="samples"), "use 'features'"),
        (DCFSC(3, affinity="symmetric"), "all samples in one process"),
        (SSCOMP(3), "SSCOMP needs all samples in one process"),
        (ClosedFormSubspaceClustering(61), "more than n_samples=60"),
    ],
)
def test_what_cannot_be_divided_is_refused(
    group: None, X: np.ndarray, model: object, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        model.set_params(device="cpu").fit(X)  # type: ignore[attr-defined]


def test_sample_form_is_refused_where_rows_are_shares(group: None) -> None:
    with pytest.raises(InputError, match="features"):
        solve(torch.ones(3, 4), 1.0, form="samples")


def test_a_seed_that_is_not_an_integer_is_the_first_processes(group: None) -> None:
    state = np.random.RandomState(5)
    expected = np.random.RandomState(np.random.RandomState(5).randint(2**31 - 1)).rand()
    seed = sharded.common_seed(state)
    assert np.random.RandomState(seed).rand() == expected
    assert sharded.common_seed(7) == 7


def test_bytes_and_rows_travel_unchanged(group: None) -> None:
    for content in (None, b"", b"\x00dcfsc\xff"):
        assert processes.broadcast_bytes(content) == content
    rows = torch.arange(12.0).view(4, 3)
    torch.testing.assert_close(processes.collect_rows(rows), rows)
    torch.testing.assert_close(processes.gather_rows(rows), rows)


def test_a_step_moves_what_the_cost_model_says(
    group: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G in float64, S and the gradients in the data's precision, and single numbers."""
    network = networks.build(MLPSpec(20, (16,), 6), torch.Generator().manual_seed(0))
    P = sum(p.numel() for p in network.parameters())
    moved: list[int] = []
    reduce = torch.distributed.all_reduce

    def counted(tensor: torch.Tensor, **options: object) -> object:
        moved.append(tensor.nbytes)
        return reduce(tensor, **options)

    monkeypatch.setattr(torch.distributed, "all_reduce", counted)
    X = torch.randn(50, 20, generator=torch.Generator().manual_seed(1))
    history = History()
    train(network, X, steps=1, lam=ShareOfEnergy(0.1), learning_rate=1e-3, history=history)
    assert sorted(moved)[-3:] == sorted([8 * 6**2, 4 * 6**2, 4 * P])
    assert sum(moved) - 12 * 6**2 - 4 * P <= 8 * 6


def test_a_share_of_samples_on_disk_reads_its_own_rows(tmp_path: Path, X: np.ndarray) -> None:
    np.save(tmp_path / "x.npy", X)
    rows = Share(stream_npy(tmp_path / "x.npy"), slice(20, 45))
    assert rows.shape == (25, 15)
    np.testing.assert_array_equal(rows[3:9], X[23:29])
    np.testing.assert_array_equal(rows[[24, 0, 7]], X[[44, 20, 27]])
    np.testing.assert_array_equal(np.asarray(rows), X[20:45])


def test_torchrun_is_refused_what_one_process_must_do(
    monkeypatch: pytest.MonkeyPatch, X: np.ndarray
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    data = Dataset("points", X)
    for method, options, extra, message in [
        ("ssc", {"n_clusters": 3}, {}, "'ssc' needs all samples in one process"),
        ("closed-form", {"n_clusters": 3}, {"features": "scattering"}, "compute the features"),
        ("closed-form", {"n_clusters": "auto"}, {}, "give torchrun a number"),
        ("closed-form", {"n_clusters": 3}, {"timeout": 0.0}, "positive number of seconds"),
        ("nonsense", {"n_clusters": 3}, {}, "unknown method"),
    ]:
        with pytest.raises(InputError, match=message):
            fit_run(data, method, options, **extra)


def test_sharded_needs_a_group() -> None:
    with pytest.raises(InputError, match="process group"), processes.sharded():
        pass


def test_equal_magnitudes_go_by_column_and_become_equal() -> None:
    eps = torch.finfo(torch.float64).eps
    values = torch.tensor([[0.5, -0.7, 0.5 + 2 * eps, -0.5, 0.6]], dtype=torch.float64)
    columns = torch.tensor([[9, 3, 8, 1, 2]])
    ordered, places = in_order(values, columns)
    assert places.tolist() == [[3, 2, 1, 8, 9]]
    top = 0.5 + 2 * eps
    assert ordered.tolist() == [[-0.7, 0.6, -top, top, top]]
