"""Whatever array an estimator is handed: labels of K clusters, or one line saying why not."""

from __future__ import annotations

import numpy as np
import odd_arrays
import pytest
import scipy.sparse
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from odd_arrays import Recipe

from dcfsc import AutoencoderFeatures
from dcfsc.errors import InputError
from dcfsc.estimators.registry import METHODS

SHAPES = st.one_of(
    st.tuples(st.integers(1, 40)),
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.tuples(st.integers(1, 3), st.integers(1, 8), st.integers(1, 8)),
)
RECIPES = st.builds(
    Recipe,
    n=st.integers(2, 30),
    shape=SHAPES,
    content=st.sampled_from(odd_arrays.CONTENTS),
    dtype=st.sampled_from(odd_arrays.TYPES),
    exponent=st.integers(-30, 30),
    seed=st.integers(0, 10_000),
)
DEFECTIVE = st.builds(
    Recipe,
    n=st.integers(2, 8),
    shape=SHAPES,
    dtype=st.sampled_from(("float64", "float32", "float16")),
    defect=st.sampled_from(odd_arrays.DEFECTS[1:]),
)
CHOICES = st.fixed_dictionaries(
    {},
    optional={
        "affinity": st.sampled_from(("topk", "symmetric", "low_rank")),
        "assign": st.sampled_from(("kmeans", "discretize", "cluster_qr")),
    },
)
few = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("method", METHODS)
@few
@given(recipe=RECIPES, choices=CHOICES, data=st.data())
def test_labels_of_k_clusters_or_one_line(method, recipe, choices, data):
    n_clusters = data.draw(st.integers(1, recipe.n), label="n_clusters")
    found = odd_arrays.cluster(method, recipe.array(), n_clusters, **choices)
    assert isinstance(found, ValueError) or set(found) <= set(range(n_clusters))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(7,), (3, 4), (1, 5, 5)])
def test_one_sample_a_cluster(method, shape):
    found = odd_arrays.cluster(method, Recipe(n=6, shape=shape).array(), 6)
    # LRR's penalty is absolute: a handful of samples may be left without any coefficient
    assert isinstance(found, np.ndarray) or (method == "lrr" and "no point has" in str(found))


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=5, deadline=None)
@given(recipe=DEFECTIVE)
def test_what_is_not_finite_is_refused_in_one_line(method, recipe):
    refusal = odd_arrays.cluster(method, recipe.array(), 2)
    assert isinstance(refusal, InputError)
    # a shape that may have its channels first or last is refused before its values are looked at
    assume("not clear whether channels" not in str(refusal))
    assert "NaN" in str(refusal) or "infinity" in str(refusal)


@settings(max_examples=150, deadline=None)
@given(
    recipe=RECIPES,
    exponent=st.integers(-30, 30),
    form=st.sampled_from(("auto", "samples", "features")),
)
def test_the_closed_form_is_finite_or_refused(recipe, exponent, form):
    X = recipe.array().reshape(recipe.n, -1)
    lam = 10.0**exponent
    took = odd_arrays.solved(X, lam, form)
    assert took or X.dtype not in (np.float32, np.float64) or not _is_ordinary(X, lam)


def _is_ordinary(X: np.ndarray, lam: float) -> bool:
    """Whether lam is within 1e-6 to 1e6 times the mean squared norm, which is what is promised."""
    with np.errstate(over="ignore"):
        energy = float((X.astype(np.float64) ** 2).sum(axis=1).mean())
    return 1e-30 < energy < 1e30 and 1e-6 <= lam / energy <= 1e6


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(recipe=RECIPES)
def test_latents_are_finite_or_the_samples_refused(recipe):
    X = recipe.array()
    features = AutoencoderFeatures(pretrain_epochs=1, random_state=0, device="cpu", verbose=False)
    try:
        latents = features.fit_transform(X)
    except ValueError as error:
        odd_arrays.assert_one_line(error)
    else:
        assert latents.shape[0] == recipe.n
        assert np.isfinite(latents).all()


@pytest.mark.parametrize(
    "X",
    [
        np.zeros(5),
        np.float64(3.0),
        np.zeros((0, 4)),
        np.zeros((4, 0)),
        np.zeros((2, 2, 2, 2, 2)),
        np.ones((4, 3)) * 1j,
        [[1.0, 2.0], [3.0]],
        [["a", "b"], ["c", "d"]],
        scipy.sparse.eye_array(6) * 1j,
    ],
    ids=lambda X: f"{type(X).__name__}{getattr(X, 'shape', '')}",
)
@pytest.mark.parametrize("method", ["closed-form", "ssc-omp", "dcfsc"])
def test_what_is_no_matrix_of_numbers_is_refused_in_one_line(method, X):
    model = METHODS[method](n_clusters=2, device="cpu", **odd_arrays.OPTIONS.get(method, {}))
    with pytest.raises(InputError) as raised:
        model.fit(X)
    odd_arrays.assert_one_line(raised.value)
