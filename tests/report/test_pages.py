"""write_report and show: the report of a fitted estimator, without a run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import dcfsc
from dcfsc import SSCOMP, ClosedFormSubspaceClustering, show, write_report
from dcfsc.errors import InputError
from dcfsc.io import Dataset, synthetic

DATA = synthetic(60, 3, 3, 8, noise=0.1, random_state=0)


@pytest.fixture(scope="module")
def model() -> ClosedFormSubspaceClustering:
    return ClosedFormSubspaceClustering(3, random_state=0, device="cpu").fit(DATA.X)


def content(html: str) -> dict[str, Any]:
    return json.loads(re.search(r'id="data">(.*?)</script>', html, re.S)[1])  # type: ignore[index]


def test_the_page_is_written_whole(model: Any, tmp_path: Path) -> None:
    names = {1: "the <second>"}
    write_report(model, DATA.X, tmp_path / "page.html", names=names, y=DATA.y)
    page = (tmp_path / "page.html").read_text()
    assert "60 samples in 3 clusters" in page
    assert "the &lt;second&gt;" in page
    assert "differ from the given labels" in page
    found = content(page)
    assert found["all"]["l"] == model.labels_.tolist()
    assert found["titles"] == ["0", "the <second>", "2"]
    assert found["ids"] is None
    at = found["shown"]["i"].index(17)
    np.testing.assert_allclose(found["shown"]["v"][at], DATA.X[17], rtol=1e-4)
    assert "s folder has more" not in page  # there is none
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_a_file_is_replaced_only_when_asked(model: Any, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("mine")
    with pytest.raises(InputError, match="give another path, or overwrite=True to keep it as page"):
        write_report(model, DATA.X, tmp_path / "page.html")
    with pytest.warns(UserWarning, match=r"it is now page.html.bak"):
        write_report(model, DATA.X, tmp_path / "page.html", overwrite=True)
    assert (tmp_path / "page.html.bak").read_text() == "mine"
    assert "dcfsc report" in (tmp_path / "page.html").read_text()


def test_columns_and_index_of_a_frame_are_on_the_page(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    index = [f"plant {i}" for i in range(60)]
    frame = pd.DataFrame(DATA.X, index=index, columns=[f"leaf {j}" for j in range(8)])
    fitted = ClosedFormSubspaceClustering(3, random_state=0, device="cpu").fit(frame)
    page = show(fitted, frame)
    found = content(page.html)
    assert found["ids"] == index
    assert found["measured"] == list(frame.columns)
    assert "leaf 1" in page.html
    assert content(show(fitted, frame, ids=range(60)).html)["ids"] == [str(i) for i in range(60)]


def test_a_notebook_gets_a_frame_of_its_own(model: Any) -> None:
    page = show(model, Dataset("points", DATA.X))
    assert repr(page) == "Page(title='ClosedFormSubspaceClustering', height=800)"
    frame = page._repr_html_()
    assert frame.startswith("<iframe ")
    assert frame.count("<") == 2  # the page is within an attribute
    assert "allow-same-origin" not in frame
    assert "points" in frame


@pytest.mark.parametrize(
    "estimator",
    [
        SSCOMP(3, random_state=0),
        ClosedFormSubspaceClustering("auto", random_state=np.random.RandomState(0), device="cpu"),
        make_pipeline(FunctionTransformer(), ClosedFormSubspaceClustering(3, random_state=0)),
    ],
)
def test_whatever_has_a_graph_has_a_page(estimator: Any) -> None:
    assert "60 samples in" in show(estimator.fit(DATA.X), DATA.X).html


def test_what_cannot_be_drawn_is_one_line(model: Any, tmp_path: Path) -> None:
    model.save(tmp_path / "model.safetensors")
    loaded = dcfsc.load(tmp_path / "model.safetensors")
    for call, words in (
        (lambda: show(loaded, DATA.X), "a loaded model has none"),
        (lambda: show(ClosedFormSubspaceClustering(3), DATA.X), "needs a fitted clusterer"),
        (lambda: show(model, DATA.X[:50]), "X has 50 samples; .* was fitted on 60"),
        (lambda: show(model, DATA.X, names={3: "x"}), "the cluster 3; there are 0 to 2"),
        (lambda: show(model, DATA.X, y=[1, 2]), "60 samples but labels of shape"),
        (lambda: show(model, DATA.X, ids=["a"]), "60 samples but 1 ids"),
    ):
        with pytest.raises(InputError, match=words) as caught:
            call()
        assert "\n" not in str(caught.value)
