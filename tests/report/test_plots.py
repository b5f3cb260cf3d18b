"""Plots: drawn on the axes given, from estimators or from arrays, and nothing global is touched."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import dcfsc
from dcfsc import DCFSC, SSCOMP, ClosedFormSubspaceClustering
from dcfsc.errors import InputError
from dcfsc.io import synthetic
from dcfsc.report.drawing import cluster_colors

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")
from matplotlib.figure import Figure  # noqa: E402

DATA = synthetic(60, 3, 3, 16, noise=0.1, random_state=0)


@pytest.fixture(scope="module")
def model() -> ClosedFormSubspaceClustering:
    return ClosedFormSubspaceClustering(3, random_state=0, device="cpu").fit(DATA.X)


@pytest.fixture(scope="module")
def deep() -> DCFSC:
    return DCFSC(3, pretrain_epochs=2, steps=3, random_state=0, device="cpu").fit(DATA.X)


@pytest.fixture
def ax() -> Any:
    return Figure().subplots()


@pytest.fixture(autouse=True)
def pyplot_is_left_as_it_was() -> Iterator[None]:
    import matplotlib.pyplot as plt

    settings, figures = dict(matplotlib.rcParams), plt.get_fignums()
    yield
    assert dict(matplotlib.rcParams) == settings
    assert plt.get_fignums() == figures


def drawn(ax: Any) -> Any:
    """The axes after a picture was really made of them."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(ax.figure).draw()
    return ax


def test_affinity_is_ordered_by_the_labels(model: Any, ax: Any) -> None:
    assert dcfsc.plot_affinity(model, ax=ax) is ax
    (image,) = drawn(ax).images
    order = np.argsort(model.labels_, kind="stable")
    expected = model.affinity_matrix_.toarray()[np.ix_(order, order)]
    np.testing.assert_allclose(image.get_array(), expected, rtol=1e-5)
    assert len(ax.lines) == 2 * 2  # rules between three clusters, both ways


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, sp.coo_array])
def test_affinity_of_a_matrix_with_names_as_labels(kind: Any, ax: Any) -> None:
    A = np.kron(np.eye(2), np.ones((5, 5)))
    names = np.array(["b"] * 5 + ["a"] * 5)
    dcfsc.plot_affinity(kind(A), names, ax=ax)
    np.testing.assert_allclose(drawn(ax).images[0].get_array(), A)


def test_spectrum_of_an_estimator_a_suggestion_and_values(model: Any) -> None:
    axes = Figure().subplots(1, 3)
    dcfsc.plot_spectrum(model, ax=axes[0])
    suggestion = dcfsc.suggest_k(DATA.X, random_state=0)
    dcfsc.plot_spectrum(suggestion, ax=axes[1])
    dcfsc.plot_spectrum([1.0, 0.9, 0.2], n_clusters=2, ax=axes[2])
    shown = [axis.lines[0].get_ydata() for axis in axes]
    np.testing.assert_allclose(shown[0][:3], model.eigenvalues_[:3], atol=1e-3)
    assert len(shown[0]) == 13
    np.testing.assert_array_equal(shown[1], suggestion.eigenvalues)
    assert axes[2].lines[2].get_xdata()[0] == 2.5
    drawn(axes[0])


def test_history_has_a_line_a_phase(deep: Any, ax: Any) -> None:
    dcfsc.plot_history(deep, ax=ax)
    assert [line.get_label() for line in drawn(ax).lines] == ["pretrain", "train"]
    np.testing.assert_allclose(ax.lines[1].get_ydata(), deep.history_.column("loss", "train"))
    assert ax.get_yscale() == "log"
    other = dcfsc.plot_history(list(deep.history_), "effective_dof", ax=Figure().subplots())
    assert len(other.lines) == 1


def test_embedding_has_a_color_a_cluster(model: Any, ax: Any) -> None:
    dcfsc.plot_embedding(model, ax=ax)
    assert sum(len(c.get_offsets()) for c in drawn(ax).collections) == 60
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["0", "1", "2"]
    assert ax.get_xlabel() == "x (no unit)"
    assert ax.get_ylabel() == "y (no unit)"
    assert [matplotlib.colors.to_hex(c.get_facecolor()[0]) for c in ax.collections] == (
        cluster_colors(3)
    )
    titled = dcfsc.plot_embedding(model, ax=Figure().subplots(), names={1: "_a$b"})
    texts = [t.get_text() for t in titled.get_legend().get_texts()]
    assert texts == ["0", r" _a\$b", "2"]
    named = np.array(["x", "y"])[np.asarray(DATA.y) % 2]
    other = dcfsc.plot_embedding(model, named, ax=Figure().subplots())
    assert [t.get_text() for t in other.get_legend().get_texts()] == ["x", "y"]


def test_lambda_path_marks_the_lam_that_was_used(model: Any, deep: Any, ax: Any) -> None:
    dcfsc.plot_lambda_path(model, ax=ax)
    path = model.lambda_path()
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), path[:, 1])
    assert ax.lines[1].get_xdata()[0] == model.lam_
    assert np.interp(np.log(model.lam_), np.log(path[:, 0]), path[:, 1]) == pytest.approx(
        model.effective_dof_, rel=1e-6
    )
    drawn(dcfsc.plot_lambda_path(deep, ax=Figure().subplots()))
    without_error = path.copy()
    without_error[:, 2] = np.nan
    figure = Figure()
    dcfsc.plot_lambda_path(without_error, ax=figure.subplots())
    assert len(figure.axes) == 1


def test_without_axes_a_new_pyplot_figure_is_the_current_one(model: Any) -> None:
    import matplotlib.pyplot as plt

    before = plt.figure()
    drawn_over = before.subplots()
    try:
        axes = dcfsc.plot_spectrum(model)
        assert axes is plt.gca()
        assert axes.figure is not before
        assert not drawn_over.lines
        plt.close(axes.figure)
    finally:
        plt.close(before)


def test_axes_of_ones_own_need_no_pyplot() -> None:
    code = (
        "import sys\nimport numpy as np\nimport dcfsc\nfrom matplotlib.figure import Figure\n"
        "dcfsc.plot_affinity(np.eye(4), ax=Figure().subplots())\n"
        "dcfsc.plot_spectrum([1.0, 0.5], ax=Figure().subplots())\n"
        "found = {'matplotlib.pyplot', 'torch'} & set(sys.modules)\n"
        "sys.exit(f'imported {found}' if found else 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_loaded_and_unfitted_models_are_refused_in_one_line(model: Any, tmp_path: Any) -> None:
    model.save(tmp_path / "m.safetensors")
    loaded = ClosedFormSubspaceClustering.load(tmp_path / "m.safetensors")
    other = SSCOMP(3, random_state=0).fit(DATA.X)
    for call in (
        lambda: dcfsc.plot_affinity(loaded),
        lambda: dcfsc.plot_embedding(loaded),
        lambda: dcfsc.plot_spectrum(loaded),
        lambda: dcfsc.plot_history(loaded),
        lambda: dcfsc.plot_history([]),
        lambda: dcfsc.plot_history([{"phase": "train", "step": 1}], "gloss"),
        lambda: dcfsc.plot_lambda_path(other),
        lambda: dcfsc.plot_lambda_path(ClosedFormSubspaceClustering(3)),
        lambda: dcfsc.plot_lambda_path(np.zeros((3, 2))),
        lambda: dcfsc.plot_affinity(np.zeros((3, 2))),
        lambda: dcfsc.plot_affinity(np.eye(3), [0, 1]),
        lambda: dcfsc.plot_spectrum([]),
    ):
        with pytest.raises(InputError) as caught:
            call()
        assert "\n" not in str(caught.value)
    assert dcfsc.plot_lambda_path(loaded, ax=Figure().subplots()).lines


def test_without_matplotlib_one_line_says_so(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(InputError, match=r"dcfsc\[plots\]"):
        dcfsc.plot_spectrum(model)
