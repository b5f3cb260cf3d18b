"""Estimators as parts of scikit-learn's tools: Pipeline, GridSearchCV, clone, repr."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.pipeline import make_pipeline

from dcfsc import (
    DCFSC,
    SSCOMP,
    AutoencoderFeatures,
    ClosedFormSubspaceClustering,
    ScatteringFeatures,
)
from dcfsc.affinity import TopK
from dcfsc.estimators.registry import METHODS
from dcfsc.io import synthetic
from dcfsc.metrics import clustering_error
from dcfsc.self_expression import solve


def as_given(**options: Any) -> ClosedFormSubspaceClustering:
    """The closed form of the samples as they are: nothing is tried out first."""
    return ClosedFormSubspaceClustering(
        representation="given", random_state=0, device="cpu", **options
    )


def prediction_strength(model: Any, X: Any, y: Any = None) -> float:
    """Label-free: whether held-out samples are labeled as when clustered by themselves."""
    return 100.0 - clustering_error(clone(model).fit_predict(X), model.predict(X))


def test_grid_search_without_labels_finds_the_number_of_clusters() -> None:
    data = synthetic(240, 4, 3, 30, noise=0.1, random_state=0)
    search = GridSearchCV(
        as_given(),
        {"n_clusters": [9, 4, 6], "affinity": [TopK(4), TopK(8)]},
        scoring=prediction_strength,
        cv=ShuffleSplit(2, test_size=0.5, random_state=0),
        error_score="raise",
    ).fit(data.X)
    assert search.best_params_["n_clusters"] == 4
    assert search.best_score_ == 100.0
    assert len(search.cv_results_["params"]) == 6
    assert clustering_error(data.y, search.predict(data.X)) == 0.0


def test_scattering_features_in_a_pipeline() -> None:
    rng = np.random.default_rng(0)
    across = np.broadcast_to(rng.uniform(0, 1, (20, 16, 1)), (20, 16, 16))
    down = np.broadcast_to(rng.uniform(0, 1, (20, 1, 16)), (20, 16, 16))
    X = np.concatenate([across, down]) + 0.05 * rng.normal(size=(40, 16, 16))
    model = make_pipeline(
        ScatteringFeatures(device="cpu"),
        ClosedFormSubspaceClustering(2, random_state=0, device="cpu"),
    )
    labels = clone(model).fit_predict(X)
    features, cluster = (clone(step) for step in (model[0], model[1]))
    np.testing.assert_array_equal(labels, cluster.fit_predict(features.fit_transform(X)))
    np.testing.assert_array_equal(
        model.fit(X).predict(X[:5]), cluster.predict(features.transform(X[:5]))
    )


def test_autoencoder_features_in_a_pipeline_and_its_grid() -> None:
    data = synthetic(60, 2, 2, 12, random_state=0)
    model = make_pipeline(
        AutoencoderFeatures(pretrain_epochs=2, random_state=0, device="cpu"),
        SSCOMP(2, random_state=0),
    )
    assert model.fit_predict(data.X).shape == (60,)
    assert len(model[0].history_) == 2
    names = model.get_params()
    assert {"autoencoderfeatures__pretrain_epochs", "sscomp__n_clusters"} <= set(names)
    again = clone(model).set_params(autoencoderfeatures__pretrain_epochs=1)
    assert len(again.fit(data.X)[0].history_) == 1


@pytest.mark.parametrize("name", METHODS)
def test_repr_is_scikit_learns_and_clone_keeps_every_parameter(name: str) -> None:
    model = METHODS[name](n_clusters=5, affinity=TopK(7), random_state=3)
    text = repr(model)
    assert text.startswith(f"{type(model).__name__}(")
    assert "n_clusters=5" in text
    assert "TopK(k=7" in text
    assert repr(clone(model)) == text
    assert type(model).__name__ in model._repr_html_()


def test_repr_of_the_closed_form_and_of_a_fitted_deep_model() -> None:
    data = synthetic(40, 2, 2, 12, random_state=0)
    model = DCFSC(2, pretrain_epochs=1, steps=1, random_state=0, device="cpu").fit(data.X)
    assert repr(model).startswith("DCFSC(device='cpu', n_clusters=2")
    assert repr(model._operator).startswith("FeatureForm(N=40")
    import torch

    small = solve(torch.from_numpy(data.X[:5]), 0.1)
    assert repr(small).startswith("SampleForm(N=5, d=12, lam=0.1")
