"""What every estimator must satisfy, run over all of them."""

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from dcfsc import AutoencoderFeatures, ScatteringFeatures
from dcfsc.errors import InputError
from dcfsc.estimators.registry import METHODS
from dcfsc.io import synthetic
from dcfsc.metrics import clustering_error
from dcfsc.networks import MLPSpec

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
FAST = {
    "dcfsc": {"pretrain_epochs": 2, "steps": 2},
    "views": {"effort": "quick", "steps": 2, "batch_size": 32},
    "dsc": {"pretrain_epochs": 2, "steps": 2},
    "ssc": {"max_iter": 20},  # of 150
}


TRANSFORMERS = [
    AutoencoderFeatures(pretrain_epochs=2, random_state=0, verbose=False),
    ScatteringFeatures(),  # takes images alone: what else is asked of it is in test_transformers.py
]


def make(name, **options):
    return METHODS[name](**{"n_clusters": 3, "random_state": 0, **FAST.get(name, {}), **options})


@pytest.fixture(scope="module")
def subspaces():
    return synthetic(n_samples=120, n_clusters=3, subspace_dim=3, ambient_dim=30, random_state=1)


def expected_failures(estimator):
    """Checks that contradict what a method is for, each with the reason."""
    if type(estimator).__name__ == "SSCOMP":
        return {
            "check_clustering": "isotropic blobs in two dimensions are no union of subspaces: at "
            "unit length any two samples represent every other one exactly"
        }
    if type(estimator).__name__ == "LRR":
        return {
            "check_n_features_in_after_fitting": "the penalty is absolute: it leaves the few "
            "random samples of scikit-learn 1.6's check without any coefficient"
        }
    if hasattr(estimator, "predict_proba"):
        reason = "scikit-learn takes whatever has predict_proba for a classifier of two classes"
        return dict.fromkeys(
            ("check_estimator_sparse_array", "check_estimator_sparse_matrix"), reason
        )
    return {}


def test_sparse_samples_are_labelled_as_dense_ones(subspaces):
    X = np.where(np.abs(subspaces.X) > 0.05, subspaces.X, 0.0)
    for name in ("closed-form", "dcfsc", "views"):
        dense, sparse = make(name).fit(X), make(name).fit(sp.csr_array(X))
        np.testing.assert_array_equal(sparse.labels_, dense.labels_)
        unseen = sp.csr_array(X[:7])
        np.testing.assert_array_equal(sparse.predict(unseen), dense.predict(X[:7]))
        np.testing.assert_allclose(
            sparse.predict_proba(unseen), dense.predict_proba(X[:7]), rtol=0, atol=1e-12
        )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [*(make(name) for name in METHODS), *TRANSFORMERS], expected_failed_checks=expected_failures
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", METHODS)
def test_noiseless_independent_subspaces_are_recovered_without_a_wrong_label(name, subspaces):
    # A linear network keeps subspaces linear, as the statement needs.
    linear = {"network": MLPSpec(30, (), 30), "pretrain_epochs": 30}
    options = {"dcfsc": {**linear, "steps": 50}, "dsc": {**linear, "steps": 300}}
    options |= {"views": {"steps": 40}, "ssc": {"max_iter": None}}
    labels = make(name, **options.get(name, {})).fit_predict(subspaces.X)
    assert clustering_error(subspaces.y, labels) == 0.0


@pytest.mark.parametrize("name", METHODS)
def test_the_same_seed_gives_the_same_labels_and_touches_no_global_state(name, subspaces):
    numpy_state = np.random.get_state()[1].copy()  # noqa: NPY002
    torch_state = torch.random.get_rng_state()
    one = make(name).fit(subspaces.X).labels_
    two = clone(make(name)).fit(subspaces.X).labels_
    assert np.array_equal(one, two)
    assert np.array_equal(numpy_state, np.random.get_state()[1])  # noqa: NPY002
    assert torch.equal(torch_state, torch.random.get_rng_state())


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_clusters": 0}, "at least 1"),
        ({"n_clusters": 1000}, "more than n_samples=120"),
        ({"n_clusters": 2.5}, "n_clusters=2.5 is not allowed: an integer"),
        ({"affinity": "top-k"}, "unknown affinity 'top-k'. Did you mean 'topk'"),
        ({"device": "gpu"}, "unknown device 'gpu'"),
    ],
)
def test_bad_parameters_are_one_line(name, options, message, subspaces):
    with pytest.raises(InputError, match=message) as raised:
        make(name, **options).fit(subspaces.X)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinity_are_refused(name, value, subspaces):
    X = subspaces.X.copy()
    X[3, 4] = value
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        make(name).fit(X)


@pytest.mark.parametrize("name", METHODS)
def test_images_and_their_flat_rows(name):
    X = np.random.default_rng(0).integers(0, 255, size=(40, 8, 8)).astype(np.uint8)
    model = make(name).fit(X)
    assert model.labels_.shape == (40,)
    assert model.sample_shape_ == (8, 8)


@pytest.mark.parametrize("name", METHODS)
def test_every_label_has_a_confidence_and_a_next_best(name, subspaces):
    model = make(name).fit(subspaces.X)
    assert model.confidence_.shape == model.next_best_.shape == (120,)
    assert ((model.confidence_ >= 0) & (model.confidence_ <= 1)).all()
    assert set(model.next_best_) <= {0, 1, 2}
    assert (model.next_best_ != model.labels_).all()
    if hasattr(model, "predict"):
        p = model.predict_proba(subspaces.X[:40])
        assert p.shape == (40, 3)
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        assert np.array_equal(p.argmax(axis=1), model.predict(subspaces.X[:40]))


def test_samples_that_are_all_alike_leave_no_doubt():
    X = np.repeat(np.eye(3), 5, axis=0)
    model = make("closed-form").fit(X)
    assert model.confidence_.tolist() == [1.0] * 15


@pytest.mark.parametrize("name", METHODS)
def test_duplicates_and_a_zero_row_are_survived(name, subspaces):
    X = subspaces.X.copy()
    X[10:20] = X[0]
    X[50] = 0.0
    labels = make(name).fit(X).labels_
    assert labels.shape == (120,)
    assert set(labels) <= {0, 1, 2}


def held(X, how, folder):
    """The samples as a pandas frame, an array or a file that must not be written to."""
    if how == "frame":
        columns = [f"f{i}" for i in range(X.shape[1])]
        return pd.DataFrame(X, columns=columns, copy=False)  # its array is read-only then
    if how == "memmap":
        np.save(folder / "X.npy", X)
        return np.load(folder / "X.npy", mmap_mode="r")
    X = X.copy()
    X.flags.writeable = False
    return X


@cache
def fitted_on(name, shape, dtype, content):
    """A model of samples given by their bytes: one for all the ways in which they are held."""
    return make(name).fit(np.frombuffer(bytearray(content), dtype).reshape(shape))


@pytest.mark.usefixtures("every_warning")
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
@pytest.mark.parametrize("how", ["frame", "read-only", "memmap"])
@pytest.mark.parametrize("name", METHODS)
def test_samples_that_must_not_be_written_to_draw_no_warning(name, how, dtype, tmp_path):
    X = synthetic(n_samples=40, n_clusters=3, ambient_dim=12, random_state=1).X
    X = (20 * (X - X.min())).astype(dtype)
    given = held(X, how, tmp_path)
    plain = X.astype(np.float64) if how == "frame" and dtype == np.uint8 else X
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        # said once per process, and here always, as every other warning of PyTorch
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        model = make(name).fit(given)
        expected = fitted_on(name, plain.shape, plain.dtype, plain.tobytes())
        assert np.array_equal(model.labels_, expected.labels_)
        if hasattr(model, "predict"):
            assert np.array_equal(model.predict(given), expected.predict(plain))
    assert np.array_equal(np.asarray(given), X)
