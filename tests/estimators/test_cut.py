"""One fit cut into several numbers of clusters."""

from __future__ import annotations

import numpy as np
import pytest

from dcfsc import SSCOMP, ClosedFormSubspaceClustering
from dcfsc.errors import InputError
from dcfsc.io import synthetic
from dcfsc.metrics import clustering_error

DATA = synthetic(n_samples=120, n_clusters=4, subspace_dim=3, ambient_dim=30, random_state=1)


@pytest.fixture(scope="module")
def whole() -> ClosedFormSubspaceClustering:
    model = ClosedFormSubspaceClustering(8, representation="given", random_state=0, device="cpu")
    return model.fit(DATA.X)


def test_the_graph_and_the_eigenvectors_are_shared(whole) -> None:
    four = whole.cut(4)
    assert four.affinity_matrix_ is whole.affinity_matrix_
    assert np.shares_memory(four.embedding_, whole.embedding_)
    assert four.embedding_.shape == (120, 8)
    assert (four.n_clusters, whole.n_clusters) == (4, 8)
    assert (four.n_clusters_, whole.n_clusters_) == (4, 8)
    assert set(four.labels_) == {0, 1, 2, 3}
    assert clustering_error(DATA.y, four.labels_) == 0.0
    assert whole.labels_.max() == 7
    assert four.confidence_.mean() > 0.9
    assert (four.next_best_ < 4).all()


def test_a_cut_model_predicts_and_can_be_saved(whole, tmp_path) -> None:
    four = whole.cut(4)
    assert np.array_equal(four.predict(DATA.X), four.labels_)
    four.save(tmp_path / "four.safetensors")
    again = ClosedFormSubspaceClustering.load(tmp_path / "four.safetensors")
    np.testing.assert_allclose(again.predict_proba(DATA.X), four.predict_proba(DATA.X), atol=1e-6)
    assert again.lam_ == pytest.approx(whole.lam_)
    with pytest.raises(InputError, match="loaded model cannot be cut"):
        again.cut(2)


def test_other_methods_can_be_cut_and_more_clusters_cannot(whole) -> None:
    model = SSCOMP(6, random_state=0).fit(DATA.X)
    assert clustering_error(DATA.y, model.cut(4).labels_) == 0.0
    with pytest.raises(InputError):
        whole.cut(9)


def test_equal_samples_stay_together() -> None:
    X = np.repeat(np.eye(3), 5, axis=0)
    with pytest.warns(UserWarning, match="3 clusters were found"):
        model = ClosedFormSubspaceClustering(6, random_state=0, device="cpu").fit(X)
    assert np.array_equal(model.cut(4).labels_, model.labels_)
