"""The clusters as a frame, with the index of the frame that came in."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from dcfsc import LRSC, ClosedFormSubspaceClustering
from dcfsc.errors import InputError
from dcfsc.io import synthetic

pd = pytest.importorskip("pandas")
X = synthetic(60, 3, 2, 8, random_state=0).X


@pytest.mark.parametrize("kind", [ClosedFormSubspaceClustering, LRSC])
def test_the_index_is_that_of_the_fit(kind: type) -> None:
    names = [f"s{i}" for i in range(60)][::-1]
    frame = pd.DataFrame(X, index=names, columns=[f"x{j}" for j in range(8)])
    model = kind(3, random_state=0, device="cpu").fit(frame)
    found = model.to_frame()
    assert [*found.columns] == ["cluster", "confidence", "next_best"]
    assert [*found.index] == names
    np.testing.assert_array_equal(found["cluster"], model.labels_)
    np.testing.assert_array_equal(found["confidence"], model.confidence_)
    np.testing.assert_array_equal(found["next_best"], model.next_best_)
    assert isinstance(model.labels_, np.ndarray)
    assert [*model.fit(X).to_frame().index] == [*range(60)]  # not that of the earlier fit


def test_it_needs_a_fit_and_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ClosedFormSubspaceClustering(3, random_state=0, device="cpu")
    with pytest.raises(NotFittedError):
        model.to_frame()
    model.fit(X)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=r"pip install 'dcfsc\[pandas\]'"):
        model.to_frame()
