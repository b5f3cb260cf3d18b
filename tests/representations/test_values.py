"""What representations are made of, written out."""

import numpy as np
import pytest
import torch

from dcfsc.errors import InputError
from dcfsc.representations import REPRESENTATIONS, stability
from dcfsc.representations.base import Part, Setting, restored
from dcfsc.representations.given import Given
from dcfsc.representations.orbits import Mirror, Shifts, ShiftsAndMirror
from dcfsc.representations.scattering import ScatteringMetric
from dcfsc.self_expression import ClosedForm, OrbitForm


def images(n, h, w, seed=0):
    X = torch.randn(n, h * w, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(X)


def changed(Z, h, w, shifts, mirror):
    x = Z.view(-1, h, w)
    views = [x]
    if shifts:
        views += [x.roll(1, 1), x.roll(-1, 1), x.roll(1, 2), x.roll(-1, 2)]
    if mirror:
        views += [view.flip(2) for view in views]
    return [view.flatten(1) for view in views]


@pytest.mark.parametrize(
    ("kind", "name", "shifts", "mirror"),
    [
        (Shifts, "shifts", True, False),
        (Mirror, "mirror", False, True),
        (ShiftsAndMirror, "shifts+mirror", True, True),
    ],
)
def test_orbits_are_the_dense_formula_over_all_changes(kind, name, shifts, mirror):
    """Coefficients max_a |z_i (G + lam I)^-1 z_ja| / (1 - h_i), G the sum over all changes."""
    assert kind.name == name
    Z, lam = images(10, 3, 4), 0.7
    views = changed(Z, 3, 4, shifts, mirror)
    G = sum(view.T @ view for view in views)
    P = torch.linalg.inv(G + lam * torch.eye(12, dtype=Z.dtype))
    h = (Z @ P * Z).sum(1)
    C = torch.stack([(Z @ P @ view.T).abs() for view in views]).amax(0)
    C = C.fill_diagonal_(0.0) / (1 - h)[:, None]
    representation = kind(Setting((3, 4), 2, lam=lam))
    torch.testing.assert_close(representation.solve(Z).rows(0, 10), C)
    index = torch.tensor([0, 2, 3, 7])
    part = representation.solve_part(Part(Z, index, representation.setting))
    alone = kind(Setting((3, 4), 2, lam=lam)).solve(Z[index])
    assert (part.n, part.lam) == (4, lam)
    torch.testing.assert_close(part.rows(0, 4), alone.rows(0, 4))


@pytest.mark.parametrize("kind", [Shifts, Given])
def test_what_is_restored_keeps_the_ridge_it_was_fitted_with(kind):
    Z, setting = images(10, 3, 4), Setting((3, 4), 2)
    fitted, restored = kind(setting), kind(setting)
    lam = fitted.solve(Z).lam
    tensors, values = fitted.state()
    assert (tensors, values) == ({}, {"lam": lam})
    restored.restore(tensors, values, "cpu")
    assert restored.lam == lam
    operator = restored.solve(Z[:5])  # other samples would have another ridge
    assert isinstance(operator, OrbitForm if kind is Shifts else ClosedForm)
    assert operator.lam == lam != kind(setting).solve(Z[:5]).lam


@pytest.mark.parametrize(("subspace_dim", "dof"), [(None, 6.0), (2.5, 5.0)])
def test_the_ridge_has_the_dimensions_that_were_asked_for_or_three_a_cluster(subspace_dim, dof):
    Z, setting = images(40, 3, 4), Setting((12,), 2, subspace_dim=subspace_dim)
    assert Given(setting).solve(Z).effective_dof == pytest.approx(dof, rel=1e-6)
    part = Part(Z, torch.arange(30), setting)
    assert part.closed_form.effective_dof == pytest.approx(dof, rel=1e-6)


@pytest.mark.parametrize("kind", REPRESENTATIONS)
def test_rows_have_unit_length_unless_they_keep_theirs(kind):
    X = 3.0 * images(5, 8, 8)
    keeps = kind.name in ("affine", "counts")
    assert torch.equal(kind(Setting((8, 8), 2, unit_length=False)).rows(X), X)
    torch.testing.assert_close(kind(Setting((8, 8), 2)).rows(X), X if keeps else X / 3.0)


def test_scattering_is_for_at_most_4096_values():
    assert ScatteringMetric.obstacle(Setting((64, 64), 3)) is None
    assert "4,096 values" in ScatteringMetric.obstacle(Setting((17, 241), 3))
    assert ScatteringMetric.obstacle(Setting((6, 6), 3)) is None
    assert "6 pixels" in ScatteringMetric.obstacle(Setting((5, 6), 3))


def test_scattering_of_other_images_is_not_restored():
    representation = ScatteringMetric(Setting((8, 8), 2))
    for values in ({"sample_shape": [16, 18], "input_scale": 1.0}, {"input_scale": 1.0}):
        with pytest.raises(InputError, match="its scattering features do not match its images"):
            representation.restore({}, values, "cpu")


def test_a_prepared_sample_is_not_prepared_again_and_another_is():
    Z, other = images(40, 8, 8).float(), images(40, 8, 8, seed=1).float()
    seen = []

    class Watched(ScatteringMetric):
        def prepare(self, Z):
            seen.append(Z)
            super().prepare(Z)

    again, fresh = (Watched(Setting((8, 8), 2)) for _ in range(2))
    again.prepare(Z)
    again.fit(Z)
    assert len(seen) == 1
    again.prepare(other)
    again.fit(Z)
    assert len(seen) == 3
    assert seen[-1] is Z
    fresh.fit(Z)
    assert torch.equal(again.T, fresh.T)


def test_there_are_four_parts_of_four_fifths():
    assert [len(part) for part in stability.random_parts(50)] == [40] * 4


def test_large_data_are_judged_by_a_random_sample_in_order(monkeypatch):
    monkeypatch.setattr(stability, "MOST_SAMPLES", 7)
    Z = torch.arange(20.0)[:, None]
    expected = np.sort(np.random.RandomState(0).permutation(20)[:7])
    assert stability.common_sample(Z)[:, 0].tolist() == expected.tolist()
    assert torch.equal(stability.common_sample(Z[:7]), Z[:7])


@pytest.mark.parametrize(
    ("saved", "message"),
    [
        ({}, "has no metric"),
        ({"metric": torch.zeros(3)}, "has no metric"),
        ({"metric": torch.zeros(3, 2)}, r"its metric has the shape \(3, 2\)"),
    ],
)
def test_a_state_without_what_belongs_to_it_is_refused(saved, message):
    with pytest.raises(InputError, match=message):
        restored(saved, "metric", (None, 3), "cpu")
    whole = torch.ones(2, 3)
    assert torch.equal(restored({"metric": whole}, "metric", (None, 3), "cpu"), whole)
