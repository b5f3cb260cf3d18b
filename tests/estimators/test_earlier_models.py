"""Headers of models that version 1 saved."""

import numpy as np
import pytest

from dcfsc import DCFSC
from dcfsc.errors import InputError
from dcfsc.estimators.persistence import renewed

COMMON = {"n_clusters": 3, "steps": 4, "lam": "auto", "learning_rate": None, "n_neighbors": 5}
COMMON |= {"pretrain_batch_size": 256, "tol": None, "patience": 20, "training": None}
COMMON |= {"losses": {"mapping": {"contrastive": 1.0}}, "weights": None, "pretrain_epochs": 2}


def test_a_model_of_the_papers_training_keeps_its_class():
    params = {**COMMON, "views": "auto", "partners": 3}
    header = renewed({"class": "DCFSC", "params": params, "values": {"lam": 2.0}, "format": 2})
    expected = {"n_clusters": 3, "steps": 4, "lam": "auto", "pretrain_epochs": 2}
    values = {"lam": 2.0, "n_neighbors": 5}
    assert header == {"class": "DCFSC", "params": expected, "values": values, "format": 2}


def test_a_model_of_views_is_a_view_clustering():
    params = {**COMMON, "views": {"mapping": {"noise": 1.0}}, "partners": 2, "assign": "kmeans"}
    header = renewed({"class": "DCFSC", "params": params, "values": {"views": [{}, {}]}})
    assert header["class"] == "ViewClustering"
    assert header["params"] == {
        "n_clusters": 3,
        "steps": 4,
        "lam": "auto",
        "assign": "kmeans",
        "augmentations": {"mapping": {"noise": 1.0}},
        "positives": 2,
    }
    assert header["values"] == {"views": [{}, {}], "n_neighbors": 5}


def test_a_model_of_this_version_stays_as_it_is():
    header = {"class": "DCFSC", "params": {"n_clusters": 3, "weights": None}, "values": {}}
    assert renewed(header) is header


def test_the_number_of_voters_is_kept(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 6))
    model = DCFSC(3, pretrain_epochs=1, steps=1, random_state=0, device="cpu").fit(X)
    model.__dict__["n_neighbors"] = 1  # as restored from version 1
    model.save(tmp_path / "model")
    again = DCFSC.load(tmp_path / "model")
    assert again.n_neighbors == 1
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    model.__dict__["n_neighbors"] = 0
    model.save(tmp_path / "bad")
    with pytest.raises(InputError, match="n_neighbors=0 is not allowed"):
        DCFSC.load(tmp_path / "bad")
