"""The number of clusters: what the slopes mean, and that nothing but the samples is used."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from dcfsc import suggest_k
from dcfsc.errors import InputError
from dcfsc.graphs import read_affinity
from dcfsc.io import synthetic
from dcfsc.metrics.cluster_counts import SIZE_FLOOR
from dcfsc.pipeline import Recipe
from dcfsc.representations import create
from dcfsc.representations.given import Given
from dcfsc.selection import number_of_clusters
from dcfsc.selection.choice import choose

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_independent_subspaces_are_counted(k: int, noise: float) -> None:
    X = synthetic(30 * k, k, 3, 40, noise=noise, random_state=k).X
    found = suggest_k(X, max_k=min(6 * k, 20), random_state=0)
    assert found.k == k
    assert found[0].agreement >= 0.5


def test_ranking_is_complete_descending_and_plain() -> None:
    X = synthetic(120, 4, 3, 30, random_state=0).X
    found = suggest_k(X, max_k=12, random_state=0)
    assert sorted(c.k for c in found) == list(range(2, 13))
    leading = [c for c in found if c.separation is not None]
    scores = [c.slope + c.separation + c.evenness for c in leading]
    assert scores == [c.score for c in leading]
    assert scores == sorted(scores, reverse=True)
    assert list(found[: len(leading)]) == leading
    others = [c.score for c in found[len(leading) :]]
    assert others == [c.slope for c in found[len(leading) :]]
    assert others == sorted(others, reverse=True)
    assert len(found) == 11
    assert found[0] is found.candidates[0]
    assert found.eigenvalues.shape == (13,)
    assert (np.diff(found.eigenvalues) <= 1e-8).all()
    assert found.representation == "given"
    plain = json.loads(json.dumps(found.to_dict(most=3)))
    assert [c["k"] for c in plain["candidates"]] == [c.k for c in found[:3]]
    assert [c["score"] for c in plain["candidates"]] == [c.score for c in found[:3]]
    assert plain["k"] == 4
    assert "k=4" in repr(found)
    assert found._repr_html_().count("<tr>") == 11  # a header and ten candidates


def test_seed_repeats_and_global_state_is_left_alone() -> None:
    X = synthetic(80, 4, 3, 30, noise=0.5, random_state=0).X
    numpy_state = np.random.get_state()[1].copy()  # noqa: NPY002
    torch_state = torch.random.get_rng_state()
    one, two = (suggest_k(X, random_state=3, max_samples=60) for _ in range(2))
    assert one.to_dict() == two.to_dict()
    assert one.n_samples == 60
    assert np.array_equal(np.random.get_state()[1], numpy_state)  # noqa: NPY002
    assert torch.equal(torch.random.get_rng_state(), torch_state)


def test_scale_of_the_samples_does_not_matter() -> None:
    X = synthetic(60, 4, 3, 30, noise=0.1, random_state=0, dtype=np.float64).X
    one, two = suggest_k(X, random_state=0), suggest_k(255.0 * X, random_state=0)
    np.testing.assert_allclose([c.slope for c in one], [c.slope for c in two], rtol=1e-3, atol=1e-3)


def test_rank_below_the_degrees_of_freedom_asked_for() -> None:
    X = synthetic(150, 2, 2, 4, random_state=0).X
    found = suggest_k(X, random_state=0)
    assert len(found) == 29
    assert all(np.isfinite(c.slope) for c in found)


def test_latents_of_an_autoencoder() -> None:
    X = synthetic(90, 3, 3, 20, random_state=0).X
    found = suggest_k(X, method="dcfsc", pretrain_epochs=2, random_state=0, max_k=6)
    assert found.method == "dcfsc"
    assert sorted(c.k for c in found) == [2, 3, 4, 5, 6]


def test_images_and_their_flat_rows_are_the_same_as_given() -> None:
    X = synthetic(60, 3, 3, 16, random_state=0).X
    flat = suggest_k(X, random_state=0, representation="given").to_dict()
    images = suggest_k(X.reshape(60, 4, 4), random_state=0, representation="given")
    assert images.to_dict() == flat


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_k": 1}, "max_k=1 is not allowed: an integer of at least 2"),
        ({"max_k": 59}, "max_k=59 is not allowed: at most 58"),
        ({"max_k": 2.5}, "max_k=2.5 is not allowed"),
        ({"method": "ssc"}, "ssc"),
        ({"weights": "dsc_orl"}, "method='dcfsc'"),
        ({"max_samples": 2}, "max_samples=2 is not allowed"),
        ({"affinity": "nothing"}, "nothing"),
    ],
)
def test_bad_parameters_are_one_line(options: dict[str, object], said: str) -> None:
    X = synthetic(60, 3, 3, 16, random_state=0).X
    with pytest.raises(InputError, match=said) as caught:
        suggest_k(X, **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_equal_sizes_decide_between_clusters_told_apart_alike() -> None:
    mu = np.array([0.0, 0.1, 0.1, 0.2, 0.4, 0.4])  # 3 ln 2 after 3, 4 ln 2 after 4
    sizes = {2: [60, 120], 3: [60, 60, 60], 4: [60, 60, 30, 30], 5: [60, 60, 30, 20, 10]}
    graph = Drawn(2, 1.0 - mu, right=0, sizes=sizes)
    found = number_of_clusters._ranked([graph], 0)  # type: ignore[list-item]
    assert [c.k for c in found] == [3, 4, 2, 5]
    assert max(found, key=lambda c: c.slope).k == 4
    assert [c.separation for c in found] == [0.0] * 4
    beside = np.log(2) + (np.log(1 / 3) + 2 * np.log(2 / 3)) / 3  # u of [60, 120], the least
    expected = 3 * np.log((beside + SIZE_FLOOR) / SIZE_FLOOR)
    assert found[0].evenness == pytest.approx(expected)
    assert found[0].score == pytest.approx(3 * np.log(2) + expected)
    assert [c.evenness for c in found[1:]] == [0.0] * 3


class Drawn:
    """A graph of given eigenvalues, whose partition into ``right`` clusters is the best."""

    own = True

    def __init__(
        self,
        made_for: int,
        values: np.ndarray,
        right: int,
        sizes: dict[int, list[int]] | None = None,
    ):
        self.made_for, self.values, self.right, self.sizes = made_for, values, right, sizes or {}
        self.seen: list[int] = []

    def cut(self, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        self.seen.append(k)
        sizes = np.array(self.sizes.get(k, np.ones(k)))
        return sizes, np.full((k, k), 0.1) + np.diag(np.full(k, 0.5 if k == self.right else 0.0))


def test_neighbors_of_the_leading_candidates_are_looked_at_again() -> None:
    mu = np.array([0.0, 0.1, 0.1, 0.1, 0.1, 0.3, 0.3, 0.31, 0.32, 0.33, 0.34, 0.5, 0.51, 0.52])
    graphs = [Drawn(k, 1.0 - mu, right=4) for k in (2, 5, 12)]
    found = number_of_clusters._ranked(graphs, 0)  # type: ignore[arg-type]
    assert max(found, key=lambda c: c.slope).k == 5
    assert found[0].k == 4
    assert found[0].slope == 0.0
    assert found[0].separation == pytest.approx(4 * np.log(0.63 / 0.13))
    looked_at = {c.k for c in found if c.separation is not None}
    assert looked_at == set(range(4, 13))  # the five are 5, 11, 10, 9, 8
    assert looked_at == set().union(*(g.seen for g in graphs))
    assert set(graphs[0].seen) <= {2, 3}
    assert 4 in graphs[1].seen


def as_images(n: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    across = np.broadcast_to(rng.uniform(0, 1, (n // 2, 16, 1)), (n // 2, 16, 16))
    kinds = np.concatenate([across, across.transpose(0, 2, 1)])
    return np.abs(kinds + rng.normal(0, 0.05, kinds.shape)).astype(np.float32)


@pytest.mark.parametrize("images", [False, True])
def test_graphs_are_those_of_fit(images: bool) -> None:
    """The graph made for the largest K is the one that the estimator clusters into so many."""
    from dcfsc import ClosedFormSubspaceClustering

    X = as_images(120) if images else synthetic(100, 3, 3, 20, noise=0.2, random_state=0).X
    name = "auto" if images else "given"
    found = suggest_k(X, max_k=8, representation=name, random_state=0, device="cpu")
    model = ClosedFormSubspaceClustering(8, representation=name, random_state=0, device="cpu").fit(
        X
    )
    assert found.representation == model.representation_
    assert (found.representation == "scattering") == images
    recipe, Z = model._recipe(4), model._rows(X)
    chosen, compared, _ = choose(create(name, recipe), Z, recipe)
    if not compared:
        chosen.prepare(chosen.rows(Z))
    graphs = number_of_clusters._graphs(chosen, Z, 8, 0)
    assert [(g.made_for, g.own) for g in graphs] == [
        (k, own) for k in (2, 4, 8) for own in (True, False, False)
    ]
    np.testing.assert_allclose(graphs[6].values[:8], model.eigenvalues_[:8], atol=1e-6)
    links = [np.diff(g.affinity.indptr).mean() for g in graphs[6:]]
    assert links[1] < links[0] < links[2]


def test_graphs_in_more_pieces_than_clusters_stay_so() -> None:
    X = np.repeat(np.eye(3, dtype=np.float32), 30, axis=0)
    X += np.random.default_rng(0).uniform(0, 0.01, X.shape).astype(np.float32)
    recipe = Recipe(sample_shape=(3,), n_clusters=2)
    graphs = number_of_clusters._graphs(Given(recipe), torch.from_numpy(X), 8, 0)
    assert graphs[0].made_for == 2
    assert read_affinity(graphs[0].affinity).n_components == 3
