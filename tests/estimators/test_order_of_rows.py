"""The order of the rows makes no difference, and predictions agree with the labels."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.metrics import adjusted_rand_score

from dcfsc import ClosedFormSubspaceClustering


def gaussian_clouds(n=300, d=30, spread=0.25):
    random = np.random.default_rng(0)
    y = np.arange(n) % 3
    means = 1.0 + random.normal(size=(3, d))
    return means[y] + spread * np.sqrt(d) * random.normal(size=(n, d)), y


DATA = {
    "iris": load_iris(return_X_y=True),
    "clouds": gaussian_clouds(),
    "overlapping clouds": gaussian_clouds(spread=0.5),
}


def fitted(X, representation="auto"):
    model = ClosedFormSubspaceClustering(
        3, representation=representation, random_state=0, device="cpu"
    )
    return model.fit(X)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dtype", "representation"),
    [
        ("iris", np.float64, "auto"),
        ("clouds", np.float32, "auto"),
        ("overlapping clouds", np.float32, "joined"),
        ("overlapping clouds", np.float64, "cosine"),
        ("overlapping clouds", np.float64, "given"),
    ],
)
def test_five_orders_of_the_rows_have_one_partition(name, dtype, representation):
    X = DATA[name][0].astype(dtype)
    first = fitted(X, representation)
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(X))
        model = fitted(X[order], representation)
        assert model.representation_ == first.representation_
        assert model.stability_ == pytest.approx(first.stability_, abs=1e-12)
        assert adjusted_rand_score(model.labels_, first.labels_[order]) == 1.0


def test_clusters_are_numbered_by_their_first_samples():
    X = DATA["iris"][0]
    labels = fitted(X[np.random.default_rng(0).permutation(150)]).labels_
    first = [int(np.flatnonzero(labels == k)[0]) for k in range(3)]
    assert first == sorted(first)


def test_predictions_of_the_training_rows_are_their_labels():
    X, y = gaussian_clouds(spread=0.2)
    model = fitted(X)
    assert adjusted_rand_score(y, model.labels_) > 0.95
    assert (model.predict(X) == model.labels_).mean() >= 0.95
    unseen = X + 0.01 * np.random.default_rng(1).normal(size=X.shape)
    assert (model.predict(unseen) == model.labels_).mean() >= 0.95
