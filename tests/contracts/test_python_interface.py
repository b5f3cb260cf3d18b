"""What people who come from scikit-learn, pandas and polars expect of every estimator."""

import inspect
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.pipeline import Pipeline, make_pipeline

import dcfsc
from dcfsc import AutoencoderFeatures, ScatteringFeatures, spectral, suggest_k
from dcfsc.errors import InputError
from dcfsc.estimators.registry import METHODS
from dcfsc.io import Dataset, synthetic
from dcfsc.runs.executor import execute
from dcfsc.runs.request import RunRequest

FAST = {
    "dcfsc": {"pretrain_epochs": 2, "steps": 2},
    "views": {"effort": "quick", "steps": 2, "batch_size": 32},
    "dsc": {"pretrain_epochs": 2, "steps": 2},
}
WITH_PREDICT = ["closed-form", "dcfsc", "views"]
over_all = pytest.mark.parametrize("name", METHODS)


def make(name, **options):
    return METHODS[name](**{"n_clusters": 3, "random_state": 0, **FAST.get(name, {}), **options})


@pytest.fixture(scope="module")
def data():
    return synthetic(n_samples=160, n_clusters=4, subspace_dim=3, ambient_dim=30, random_state=0)


@pytest.fixture(scope="module")
def few():
    """Numbers of clusters are looked at up to a fifth of the samples."""
    return synthetic(n_samples=40, n_clusters=4, subspace_dim=3, ambient_dim=30, random_state=0)


@pytest.fixture(scope="module")
def suggested(few):
    return suggest_k(few.X, random_state=0)


@pytest.mark.slow
class TestNumberOfClusters:
    @over_all
    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_auto_is_the_first_candidate_and_fits_as_the_number_does(self, name, few, suggested):
        auto = make(name, n_clusters="auto").fit(few.X)
        assert auto.n_clusters == "auto"
        assert auto.n_clusters_ == suggested.k == 4
        number = make(name, n_clusters=4).fit(few.X)
        assert number.n_clusters_ == 4
        np.testing.assert_array_equal(auto.labels_, number.labels_)
        np.testing.assert_array_equal(auto.confidence_, number.confidence_)

    def test_auto_takes_the_number_that_the_command_takes(self, few, tmp_path):
        request = RunRequest(
            Dataset("tables", few.X),
            "closed-form",
            {"n_clusters": "auto", "random_state": 3, "device": "cpu"},
            out=tmp_path / "run",
            report=False,
        )
        run = execute(request)
        model = make("closed-form", n_clusters="auto", random_state=3, device="cpu").fit(few.X)
        assert model.n_clusters_ == run.record["n_clusters"]
        np.testing.assert_array_equal(model.labels_, run.labels)

    def test_auto_uses_the_subspace_dimension(self):
        X = synthetic(48, 4, 3, 30, noise=0.5, random_state=0).X
        model = make("closed-form", n_clusters="auto", subspace_dim=8).fit(X)
        with_it, without = (suggest_k(X, subspace_dim=m, random_state=0).k for m in (8, None))
        assert model.n_clusters_ == with_it != without

    @pytest.mark.parametrize("name", WITH_PREDICT)
    def test_predict_cut_save_and_load_know_the_number(self, name, few, tmp_path):
        model = make(name, n_clusters="auto").fit(few.X)
        model.save(tmp_path / "model.safetensors")
        again = type(model).load(tmp_path / "model.safetensors")
        assert (again.n_clusters, again.n_clusters_) == ("auto", 4)
        np.testing.assert_array_equal(again.predict_proba(few.X), model.predict_proba(few.X))
        assert model.predict_proba(few.X[:3]).shape == (3, 4)
        assert len(model.spectrum(extra=2)) == 6
        two = model.cut(2)
        assert (two.n_clusters, two.n_clusters_, set(two.labels_)) == (2, 2, {0, 1})

    def test_an_earlier_model_without_the_number_is_read(self, data, tmp_path, monkeypatch):
        model = make("closed-form", n_clusters=4).fit(data.X)
        with monkeypatch.context() as patch:
            patch.delattr(model, "n_clusters_")
            model.save(tmp_path / "model.safetensors")
        again = dcfsc.load(tmp_path / "model.safetensors")
        assert again.n_clusters_ == 4
        np.testing.assert_array_equal(again.predict(data.X), model.predict(data.X))

    @pytest.mark.parametrize(
        ("X", "said"),
        [
            (np.ones((20, 3)), "no number of clusters: all 20 samples are the same"),
            (np.eye(3), "no number of clusters: .*minimum of 4"),
        ],
    )
    def test_where_there_is_none_the_error_says_why(self, X, said):
        with pytest.raises(InputError, match=said) as raised:
            make("closed-form", n_clusters="auto").fit(X)
        assert "\n" not in str(raised.value)

    def test_other_words_are_refused(self, data):
        with pytest.raises(InputError, match=r"n_clusters='many' is not allowed: an integer"):
            make("closed-form", n_clusters="many").fit(data.X)


class TestScore:
    @pytest.mark.parametrize("name", WITH_PREDICT)
    def test_with_labels_it_is_the_adjusted_rand_index_of_predict(self, name, data):
        model = make(name, n_clusters=4).fit(data.X[:100])
        expected = adjusted_rand_score(data.y[100:], model.predict(data.X[100:]))
        assert model.score(data.X[100:], data.y[100:]) == expected

    @pytest.mark.parametrize("name", WITH_PREDICT)
    def test_without_labels_it_compares_with_a_new_fit(self, name, few):
        model = make(name, n_clusters="auto").fit(few.X)
        anew = clone(model).set_params(n_clusters=4).fit_predict(few.X[:30])
        expected = adjusted_rand_score(anew, model.predict(few.X[:30]))
        assert model.score(few.X[:30]) == expected

    def test_clean_subspaces_have_the_best_score(self, data):
        model = make("closed-form", n_clusters=4).fit(data.X[:100])
        assert model.score(data.X[100:]) == model.score(data.X[100:], data.y[100:]) == 1.0

    def test_a_search_needs_no_scoring(self, data):
        search = GridSearchCV(
            make("closed-form"), {"n_clusters": [3, 4]}, cv=ShuffleSplit(2, random_state=0)
        ).fit(data.X, data.y)
        assert search.best_params_ == {"n_clusters": 4}
        assert search.best_score_ == 1.0

    @pytest.mark.parametrize("name", sorted(set(METHODS) - set(WITH_PREDICT)))
    def test_a_method_without_predict_says_why_it_has_none(self, name):
        model = make(name)
        assert not hasattr(model, "score")
        with pytest.raises(AttributeError, match="only the samples it was fitted on"):
            model.score  # noqa: B018


class TestEmbedding:
    @over_all
    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_it_is_an_array_of_eigenvectors_of_the_normalized_affinity(self, name, data):
        model = make(name, n_clusters=4).fit(data.X)
        V, w = model.embedding_, model.eigenvalues_
        assert type(V) is np.ndarray
        assert V.shape == (160, len(w))
        assert len(w) >= 4
        assert (np.diff(w) <= 1e-12).all()
        np.testing.assert_allclose(V.T @ V, np.eye(len(w)), atol=1e-8)
        S = spectral.embed(model.affinity_matrix_, len(w), random_state=0)
        np.testing.assert_allclose(np.sort(S.values)[-4:], np.sort(w)[-4:], atol=1e-6)

    def test_a_table_can_be_made_of_it(self, data):
        model = make("closed-form", n_clusters=4, representation="given").fit(data.X)
        frame = pd.DataFrame(model.embedding_)
        np.testing.assert_array_equal(frame.to_numpy(), model._partition.embedding.vectors)


class TestFrames:
    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
    @over_all
    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_a_frame_is_clustered_as_its_array(self, name, frame, few):
        columns = [f"f{i}" for i in range(30)]
        table = frame(dict(zip(columns, few.X.T, strict=True)))
        model, plain = make(name).fit(table), make(name).fit(few.X)
        np.testing.assert_array_equal(model.labels_, plain.labels_)
        assert model.feature_names_in_.tolist() == columns
        if hasattr(model, "predict"):
            np.testing.assert_array_equal(model.predict(table[:9]), plain.predict(few.X[:9]))
            assert model.score(table) == plain.score(few.X)

    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
    def test_suggest_k_takes_a_frame(self, frame, few, suggested):
        table = frame({f"f{i}": few.X[:, i] for i in range(30)})
        assert suggest_k(table, random_state=0).candidates == suggested.candidates

    @pytest.mark.parametrize(
        ("table", "said"),
        [
            (pl.DataFrame({"a": [1.0, None, 3.0], "b": [1.0, 2.0, 3.0]}), "NaN"),
            (pl.DataFrame({"a": ["x", "y", "z"], "b": [1.0, 2.0, 3.0]}), "could not convert"),
            (pl.LazyFrame({"a": [1.0, 2.0], "b": [1.0, 2.0]}), "LazyFrame.*collect"),
            (pd.DataFrame({"a": [1.0, None, 3.0], "b": [1.0, 2.0, 3.0]}), "NaN"),
        ],
    )
    def test_what_cannot_be_used_is_one_line(self, table, said):
        with pytest.raises(InputError, match=said) as raised:
            make("closed-form", n_clusters=2).fit(table)
        assert "\n" not in str(raised.value)


class TestSetOutput:
    @pytest.mark.parametrize(
        ("kind", "frame"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)]
    )
    def test_features_are_a_frame_with_named_columns(self, kind, frame):
        images = np.random.default_rng(0).integers(0, 256, (24, 16, 16)).astype(np.uint8)
        for transformer, prefix in (
            (AutoencoderFeatures(pretrain_epochs=1, random_state=0), "autoencoderfeatures"),
            (ScatteringFeatures(J=2, L=4, n_components=5), "scatteringfeatures"),
            (make("dcfsc"), "dcfsc"),
        ):
            plain = transformer.fit(images).transform(images)
            table = transformer.set_output(transform=kind).transform(images)
            assert isinstance(table, frame)
            np.testing.assert_array_equal(table.to_numpy(), plain)
            names = [f"{prefix}{i}" for i in range(plain.shape[1])]
            assert list(table.columns) == names == transformer.get_feature_names_out().tolist()

    def test_a_pipeline_passes_the_frame_on(self, data):
        steps = AutoencoderFeatures(pretrain_epochs=1, random_state=0), make("closed-form")
        plain = make_pipeline(*map(clone, steps)).fit(data.X)
        framed = make_pipeline(*map(clone, steps)).set_output(transform="pandas").fit(data.X)
        np.testing.assert_array_equal(framed[-1].labels_, plain[-1].labels_)
        assert framed[-1].feature_names_in_[0] == "autoencoderfeatures0"


class TestSampleWeight:
    @pytest.mark.parametrize("estimator", [*map(make, METHODS), AutoencoderFeatures()], ids=repr)
    def test_weights_are_refused_in_words(self, estimator, data):
        with pytest.raises(InputError, match="does not support sample_weight: every sample"):
            estimator.fit(data.X, sample_weight=np.ones(160))
        assert "sample_weight" not in inspect.signature(estimator.fit).parameters

    def test_none_is_no_weight(self, data):
        labels = make("closed-form").fit_predict(data.X, sample_weight=None)
        np.testing.assert_array_equal(labels, make("closed-form").fit_predict(data.X))


class TestLoad:
    @pytest.mark.parametrize("name", WITH_PREDICT)
    def test_a_file_is_whatever_was_saved(self, name, data, tmp_path):
        model = make(name).fit(data.X)
        model.save(tmp_path / "model.safetensors")
        again = dcfsc.load(str(tmp_path / "model.safetensors"))
        assert type(again) is type(model)
        np.testing.assert_array_equal(again.predict(data.X), model.predict(data.X))

    def test_a_file_may_hold_a_transformer(self, tmp_path):
        images = np.random.default_rng(0).integers(0, 256, (24, 16, 16)).astype(np.uint8)
        model = ScatteringFeatures(J=2, L=4, n_components=5).fit(images)
        model.save(tmp_path / "model.safetensors")
        again = dcfsc.load(tmp_path / "model.safetensors", device="cpu")
        assert again.device == "cpu"
        np.testing.assert_array_equal(again.transform(images), model.transform(images))

    def test_a_run_is_its_estimator_or_its_pipeline(self, data, tmp_path):
        images = Dataset("images", np.abs(data.X[:, :25]).reshape(-1, 5, 5))
        options = {"n_clusters": 3, "random_state": 0, "device": "cpu", "pretrain_epochs": 2}
        for features, kind in ((None, METHODS["dcfsc"]), ("autoencoder", Pipeline)):
            method = "dcfsc" if features is None else "closed-form"
            more = {"steps": 1} if features is None else {}
            request = RunRequest(
                images, method, {**options, **more}, features=features, out=tmp_path / method
            )
            run = execute(request)
            model = dcfsc.load(run.folder)
            assert type(model) is kind
            labels = (model if features is None else model[-1]).labels_
            np.testing.assert_array_equal(labels, run.labels)
            assert model.predict(images.X).shape == (160,)

    def test_a_run_without_a_model_says_so(self, data, tmp_path):
        request = RunRequest(
            Dataset("rows", data.X), "ssc-omp", {"n_clusters": 3}, out=tmp_path / "run"
        )
        with pytest.raises(InputError, match=r"'ssc-omp' of the run .* labels only the samples"):
            dcfsc.load(execute(request).folder)

    def test_what_is_no_model_is_one_line(self, tmp_path):
        with pytest.raises(InputError, match="there is no model file"):
            dcfsc.load(tmp_path / "missing.safetensors")
        with pytest.raises(InputError, match=r"is not the folder of a run: it has no run\.json"):
            dcfsc.load(tmp_path)
        (tmp_path / "model.safetensors").write_text(json.dumps({}))
        with pytest.raises(InputError, match="damaged or not a dcfsc model"):
            dcfsc.load(tmp_path / "model.safetensors")
