"""Features of texts: rows that equal texts share, the cache, and scikit-learn's contracts."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from tiny_texts import CharacterCounts, write_text_model

import dcfsc
from dcfsc import ClosedFormSubspaceClustering, TextEncoderFeatures
from dcfsc.errors import InputError
from dcfsc.estimators import encoder_features

TEXTS = ["the bus", "", "bus the", "the bus", "今天", "حافلة", "🚌" * 300, "x", "the bus", "café"]


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(encoder_features, "open_text_encoder", CharacterCounts)
    monkeypatch.setattr(encoder_features, "default_place", lambda: tmp_path / "cache")
    monkeypatch.setattr(CharacterCounts, "encoded", 0)


@pytest.fixture
def a_small_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.undo()
    return str(write_text_model(tmp_path / "model", [("Pooling", {}), ("Normalize", {})]))


def make(name: str | None = None, **options: Any) -> TextEncoderFeatures:
    return TextEncoderFeatures(name, **{"device": "cpu", "verbose": False, **options})


def counts(text: str) -> list[int]:
    return np.bincount([ord(c) % 7 for c in text] or [0], minlength=7).tolist()


def test_one_row_per_text_in_their_order():
    Z = make().fit_transform(TEXTS)
    assert Z.dtype == np.float32
    assert Z.tolist() == [counts(text) for text in TEXTS]
    assert CharacterCounts.encoded == 8  # equal texts once


@pytest.mark.parametrize("batch_size", [1, 3, 32])
def test_equal_texts_have_equal_rows_whatever_the_batch(a_small_network, batch_size):
    texts = ["the bus was late .", "soup", "", "the soup was cold . " * 9, "cold soup"] * 3
    model = make(a_small_network, cache=None, batch_size=batch_size).fit(texts)
    Z = model.transform(texts)
    np.testing.assert_array_equal(Z, np.tile(Z[:5], (3, 1)))
    np.testing.assert_array_equal(model.transform(texts[::-1]), Z[::-1])
    alone = np.concatenate([model.transform([text]) for text in texts])
    np.testing.assert_allclose(Z, alone, rtol=0, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1.0, rtol=1e-5)


def test_nothing_is_encoded_twice():
    Z = make().fit_transform(TEXTS)
    np.testing.assert_array_equal(make().fit_transform(TEXTS[::-1]), Z[::-1])
    assert CharacterCounts.encoded == 8
    np.testing.assert_array_equal(make().fit_transform(["new", *TEXTS])[1:], Z)
    assert CharacterCounts.encoded == 9
    make("other").fit_transform(TEXTS)  # another network and another length have their own
    make(max_length=3).fit_transform(TEXTS)
    assert CharacterCounts.encoded == 25
    make(cache=None).fit_transform(TEXTS)
    assert CharacterCounts.encoded == 33


def test_an_interrupted_run_goes_on(monkeypatch):
    texts = [f"text {i}" for i in range(40)]
    expected = make(cache=None).fit_transform(texts)
    monkeypatch.setattr(encoder_features, "CHUNK", 16)
    plain = CharacterCounts.__call__

    def interrupted(self: CharacterCounts, batch: Any) -> torch.Tensor:
        if CharacterCounts.encoded >= 24:
            raise KeyboardInterrupt
        return plain(self, batch)

    CharacterCounts.encoded = 0
    monkeypatch.setattr(CharacterCounts, "__call__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make().fit_transform(texts)
    monkeypatch.setattr(CharacterCounts, "__call__", plain)
    CharacterCounts.encoded = 0
    np.testing.assert_array_equal(make().fit_transform(texts), expected)
    assert CharacterCounts.encoded == 24


def test_long_texts_are_cut_at_max_length():
    Z = make(max_length=4).fit_transform(["the bus", "the train", "that"])
    assert Z.tolist() == [counts("the "), counts("the "), counts("that")]


@pytest.mark.parametrize(
    "hold",
    [
        tuple,
        np.array,
        lambda X: np.array(X, dtype=object),
        lambda X: pd.Series(X, index=[f"row {i}" for i in range(len(X))]),
        lambda X: pd.Series(X, dtype="string"),
        pd.Index,
        pl.Series,
        pa.array,
        lambda X: pa.chunked_array([X[:4], X[4:]]),
    ],
)
def test_any_sequence_of_texts(hold):
    expected = make(cache=None).fit_transform(TEXTS)
    np.testing.assert_array_equal(make(cache=None).fit_transform(hold(TEXTS)), expected)


@pytest.mark.parametrize(
    ("X", "said"),
    [
        (["a", None], r"^X has None in row 1 \(counted from 0\), which is not a text; leave such"),
        (["a", "b", float("nan")], "X has nan in row 2 "),
        (pd.Series(["a", None, "b"]), "X has (None|nan) in row 1 "),
        (pd.Series(["a", pd.NA], dtype="string"), "X has (<NA>|nan) in row 1 "),
        ([1, 2], "X has 1 in row 0 "),
        (np.arange(3), r"X has (np\.int64\(0\)|0) in row 0 "),
        ([b"bytes"], "X has b'bytes' in row 0 "),
        ([["a"], ["b"]], r"X has \['a'\] in row 0 "),
        (["a", "\ud800"], "the text in row 1 .* is not Unicode"),
        ("a text", "X must be a list, an array or a Series of texts, one per sample; got str"),
        (pd.DataFrame({"t": ["a"]}), r"one per sample; got DataFrame \(1, 1\)"),
        (np.array([["a"]]), r"got ndarray \(1, 1\)"),
        (np.array("a"), r"got ndarray \(\)"),
        ({"a": "b"}, "got dict"),
        ({"a"}, "got set"),
        (None, "got NoneType"),
        ((t for t in "ab"), "got generator"),
        ([], "X has no texts"),
    ],
)
def test_what_is_not_a_text_is_one_line(X, said):
    model = make().fit(["a"])
    for use in (make().fit, model.transform):
        with pytest.raises(InputError, match=said) as raised:
            use(X)
        assert "\n" not in str(raised.value)
        assert len(str(raised.value)) < 200


def test_values_that_are_no_features_are_refused(monkeypatch):
    monkeypatch.setattr(
        CharacterCounts, "__call__", lambda self, X: torch.full((len(X), 7), np.nan)
    )
    with pytest.raises(InputError, match="gives NaN or infinity"):
        make().fit_transform(TEXTS)
    monkeypatch.setattr(CharacterCounts, "__call__", lambda self, X: torch.ones(len(X), 3))
    with pytest.raises(InputError, match="gives 3 features"):
        make().fit_transform(TEXTS)


def test_parameters_survive_a_clone_and_a_failed_fit_leaves_nothing():
    model = make(batch_size=3, max_length=9).fit(TEXTS)
    assert model.encoder_ == "Counts None"
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        copy.transform(TEXTS)
    with pytest.raises(InputError):
        model.fit([None])
    with pytest.raises(NotFittedError):
        model.transform(TEXTS)
    with pytest.raises(InputError, match="max_length=2 is not allowed: an integer of at least 3"):
        make(max_length=2).fit(TEXTS)


def test_features_have_names_and_can_be_a_frame():
    model = make().set_output(transform="pandas")
    frame = model.fit_transform(pd.Series(TEXTS, index=range(5, 15)))
    names = [f"textencoderfeatures{i}" for i in range(7)]
    assert list(frame.columns) == list(model.get_feature_names_out()) == names
    assert list(frame.index) == list(range(5, 15))


def test_a_saved_or_pickled_model_gives_the_same_features(tmp_path):
    model = make("some/name", max_length=5).fit(TEXTS)
    Z = model.transform(TEXTS)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).transform(TEXTS), Z)
    model.save(tmp_path / "model")
    for again in (TextEncoderFeatures.load(tmp_path / "model"), dcfsc.load(tmp_path / "model")):
        assert again.get_params() == model.get_params()
        assert (again.encoder_, again.identity_) == (model.encoder_, model.identity_)
        assert list(again.get_feature_names_out()) == list(model.get_feature_names_out())
        np.testing.assert_array_equal(again.transform(TEXTS), Z)


def test_another_network_under_the_same_name_is_refused(tmp_path, monkeypatch):
    make().fit(TEXTS).save(tmp_path / "model")
    other = lambda name, device, length: CharacterCounts("other", device, length)  # noqa: E731
    monkeypatch.setattr(encoder_features, "open_text_encoder", other)
    with pytest.raises(InputError, match="how it prepares texts, differ; fit again"):
        TextEncoderFeatures.load(tmp_path / "model").transform(TEXTS)


def test_a_parameter_that_is_changed_after_the_fit_is_not_ignored():
    model = make().fit(TEXTS)
    model.set_params(max_length=3)
    with pytest.raises(InputError, match="not the one that these features were made with"):
        model.transform(TEXTS)


def test_texts_in_a_pipeline():
    texts = [word * (1 + i % 3) for i in range(10) for word in ("aaah", "bbbi", "ccck")]
    model = make_pipeline(
        make(), ClosedFormSubspaceClustering(3, representation="given", random_state=0)
    )
    labels = model.fit_predict(texts)
    assert len({tuple(labels[k::3]) for k in range(3)}) == 3
    assert all(len(set(labels[k::3])) == 1 for k in range(3))
    np.testing.assert_array_equal(model.predict(texts[:6]), labels[:6])
    tags = make().__sklearn_tags__().input_tags
    assert (tags.string, tags.one_d_array, tags.two_d_array) == (True, True, False)
