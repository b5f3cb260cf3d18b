"""The columns of a table keep their names: in a model's file, in a run, and in new samples."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import fit_run
from sklearn.datasets import load_wine
from typer.testing import CliRunner

import dcfsc
from dcfsc.cli import app
from dcfsc.errors import InputError
from dcfsc.estimators import AutoencoderFeatures, ClosedFormSubspaceClustering
from dcfsc.io import load
from dcfsc.runs.prediction import predict_run

pd = pytest.importorskip("pandas")
OPTIONS: dict[str, Any] = {"n_clusters": 3, "random_state": 0, "device": "cpu"}


@pytest.fixture
def wine() -> Any:
    table = load_wine(as_frame=True).data
    return table.drop(columns=["proline", "magnesium"])


@pytest.fixture
def run(wine: Any, tmp_path: Path) -> Path:
    wine.to_csv(tmp_path / "wine.csv", index=False)
    data = load(tmp_path / "wine.csv")
    return fit_run(data, "closed-form", OPTIONS, tmp_path / "run").folder


def predicted(run: Path, table: Path) -> np.ndarray:
    return predict_run(run, load(table))[0]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_columns_in_another_order_are_put_in_the_order_of_the_run(
    run: Path, wine: Any, tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = predicted(run, tmp_path / "wine.csv")
    assert len(set(right)) == 3
    turned = wine[wine.columns[::-1]]
    new = tmp_path / f"new.{suffix}"
    if suffix == "csv":
        turned.to_csv(new, index=False)
    else:
        turned.to_parquet(new)
        monkeypatch.setattr("dcfsc.io.streamed.STREAM_BYTES", 100)  # read by row groups
    np.testing.assert_array_equal(predicted(run, new), right)
    out = tmp_path / "labels.csv"
    result = CliRunner().invoke(app, ["predict", str(run), str(new), "--out", str(out)])
    assert result.exit_code == 0, result.output
    np.testing.assert_array_equal(pd.read_csv(out)["label"], right)


def test_another_set_of_columns_is_refused_with_their_names(
    run: Path, wine: Any, tmp_path: Path
) -> None:
    wine.rename(columns={"ash": "smoke"}).to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(InputError, match=r"'ash' missing and 'smoke' extra\.$"):
        predicted(run, tmp_path / "new.csv")
    wine.drop(columns="hue").to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(InputError, match=r"not those of the run: 'hue' missing\.$"):
        predicted(run, tmp_path / "new.csv")


def test_columns_without_names_are_taken_in_order_and_it_is_said(
    run: Path, wine: Any, tmp_path: Path
) -> None:
    wine.to_csv(tmp_path / "new.csv", index=False, header=False)
    with pytest.warns(UserWarning, match="have no names; they are taken in the run's order"):
        labels = predicted(run, tmp_path / "new.csv")
    np.testing.assert_array_equal(labels, predicted(run, tmp_path / "wine.csv"))


def test_features_of_a_table_know_its_columns(wine: Any, tmp_path: Path) -> None:
    wine.iloc[:60].to_csv(tmp_path / "wine.csv", index=False)
    options = {**OPTIONS, "pretrain_epochs": 1}
    data = load(tmp_path / "wine.csv")
    run = fit_run(data, "closed-form", options, tmp_path / "run", features="autoencoder").folder
    wine.iloc[:60, ::-1].to_csv(tmp_path / "new.csv", index=False)
    right = predicted(run, tmp_path / "wine.csv")
    np.testing.assert_array_equal(predicted(run, tmp_path / "new.csv"), right)
    with pytest.raises(InputError, match="names should match"):
        dcfsc.load(run).predict(wine.iloc[:60, ::-1])
    np.testing.assert_array_equal(dcfsc.load(run).predict(wine.iloc[:60]), right)


@pytest.mark.parametrize("kind", [ClosedFormSubspaceClustering, AutoencoderFeatures])
def test_a_loaded_model_refuses_what_it_refuses_in_memory(
    kind: Any, wine: Any, tmp_path: Path
) -> None:
    wine = wine.iloc[:60]
    more = {"n_clusters": 3} if kind is ClosedFormSubspaceClustering else {"pretrain_epochs": 1}
    model = kind(random_state=0, device="cpu", **more).fit(wine)
    model.save(tmp_path / "m.safetensors")
    loaded = kind.load(tmp_path / "m.safetensors")
    assert list(loaded.feature_names_in_) == list(wine.columns)
    for each in (model, loaded):
        use = each.predict if hasattr(each, "predict") else each.transform
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            use(wine)
        with pytest.raises(InputError, match="must be in the same order"):
            use(wine[wine.columns[::-1]])
        with pytest.raises(InputError, match=r"- smoke.*missing: - ash"):
            use(wine.rename(columns={"ash": "smoke"}))
