"""The number of clusters: what the slopes mean, and that nothing but the samples is used."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dcfsc import suggest_k
from dcfsc.datasets import synthetic
from dcfsc.errors import InputError
from dcfsc.estimators import number_of_clusters
from dcfsc.estimators.number_of_clusters import FLOOR, slopes


@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_independent_subspaces_are_counted(k: int, noise: float) -> None:
    X = synthetic(30 * k, k, 3, 40, noise=noise, random_state=k).X
    found = suggest_k(X, random_state=0)
    assert found.k == k
    assert found[0].agreement >= 0.5


@given(st.floats(0.1, 3.0), st.floats(1e-4, 1e-2))
@settings(max_examples=30, deadline=None)
def test_weyls_law_has_the_same_slope_everywhere(power: float, scale: float) -> None:
    mu = scale * np.arange(1, 40) ** power
    found = slopes(1.0 - mu, floor=1e-12)
    K = np.arange(1, 39)
    np.testing.assert_allclose(found, power * K * np.log1p(1 / K), rtol=1e-6)
    assert (np.abs(found - power) <= 0.5 * power).all()


def test_a_drop_after_the_k_th_has_the_largest_slope_and_zeros_are_no_drop() -> None:
    mu = np.concatenate([np.linspace(0.0, 5 * FLOOR, 6), np.linspace(0.3, 0.6, 20)])
    assert slopes(1.0 - mu).argmax() + 1 == 6
    almost_apart = np.array([0.0, 1e-16, 1e-9, 1e-5, 0.5, 0.6])
    found = slopes(1.0 - almost_apart)
    assert (found[:3] == 0).all()
    assert found.argmax() + 1 == 4


def test_ranking_is_complete_descending_and_plain() -> None:
    X = synthetic(120, 4, 3, 30, random_state=0).X
    found = suggest_k(X, max_k=12, random_state=0)
    assert sorted(c.k for c in found) == list(range(2, 13))
    assert [c.slope for c in found] == sorted((c.slope for c in found), reverse=True)
    assert len(found) == 11
    assert found[0] is found.candidates[0]
    assert found.eigenvalues.shape == (13,)
    assert (np.diff(found.eigenvalues) <= 1e-8).all()
    assert (np.diff(found.effective_dof) > 0).all()
    plain = json.loads(json.dumps(found.to_dict(most=3)))
    assert [c["k"] for c in plain["candidates"]] == [c.k for c in found[:3]]
    assert plain["k"] == 4
    assert "k=4" in repr(found)
    assert found._repr_html_().count("<tr>") == 11  # a header and ten candidates


def test_seed_repeats_and_global_state_is_left_alone() -> None:
    X = synthetic(200, 4, 3, 30, noise=0.5, random_state=0).X
    numpy_state = np.random.get_state()[1].copy()  # noqa: NPY002
    torch_state = torch.random.get_rng_state()
    one, two = (suggest_k(X, random_state=3, max_samples=150) for _ in range(2))
    assert one.to_dict() == two.to_dict()
    assert one.n_samples == 150
    assert np.array_equal(np.random.get_state()[1], numpy_state)  # noqa: NPY002
    assert torch.equal(torch.random.get_rng_state(), torch_state)


def test_scale_of_the_samples_does_not_matter() -> None:
    X = synthetic(120, 4, 3, 30, noise=0.1, random_state=0, dtype=np.float64).X
    one, two = suggest_k(X, random_state=0), suggest_k(255.0 * X, random_state=0)
    np.testing.assert_allclose([c.slope for c in one], [c.slope for c in two], rtol=1e-3, atol=1e-3)


def test_rank_below_the_degrees_of_freedom_asked_for() -> None:
    X = synthetic(150, 2, 2, 4, random_state=0).X
    found = suggest_k(X, random_state=0)
    assert max(found.effective_dof) < 4
    assert len(found) == 29


def test_latents_of_an_autoencoder() -> None:
    X = synthetic(90, 3, 3, 20, random_state=0).X
    found = suggest_k(X, method="dcfsc", pretrain_epochs=2, random_state=0, max_k=6)
    assert found.method == "dcfsc"
    assert sorted(c.k for c in found) == [2, 3, 4, 5, 6]


def test_images_and_their_flat_rows_are_the_same() -> None:
    X = synthetic(60, 3, 3, 16, random_state=0).X
    flat = suggest_k(X, random_state=0).to_dict()
    assert suggest_k(X.reshape(60, 4, 4), random_state=0).to_dict() == flat


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_k": 1}, "max_k is 1"),
        ({"max_k": 59}, "from 2 to 58"),
        ({"max_k": 2.5}, "max_k is 2.5"),
        ({"method": "ssc"}, "ssc"),
        ({"weights": "dsc_orl"}, "method='dcfsc'"),
        ({"max_samples": 2}, "max_samples is 2"),
        ({"affinity": "nothing"}, "nothing"),
    ],
)
def test_bad_parameters_are_one_line(options: dict[str, object], said: str) -> None:
    X = synthetic(60, 3, 3, 16, random_state=0).X
    with pytest.raises(InputError, match=said) as caught:
        suggest_k(X, **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_graphs_are_those_of_fit() -> None:
    """The graph made for K is the one that the estimator clusters into K, without a metric."""
    from dcfsc import ClosedFormSubspaceClustering
    from dcfsc.neighbours import unit_rows

    X = synthetic(100, 3, 3, 20, noise=0.2, random_state=0).X
    dofs, spectra = number_of_clusters._spectra(unit_rows(torch.from_numpy(X)), 8, 3.0, "topk", 0)
    model = ClosedFormSubspaceClustering(
        8, random_state=0, device="cpu", representation="given"
    ).fit(X)
    assert dofs[-1] == pytest.approx(model.effective_dof_, rel=1e-6)
    np.testing.assert_allclose(spectra[-1][:8], model.eigenvalues_[:8], atol=1e-6)
