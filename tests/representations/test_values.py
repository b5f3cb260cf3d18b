"""What representations are made of, written out."""

from itertools import islice

import numpy as np
import pytest
import torch

from dcfsc.affinity import TopK
from dcfsc.errors import InputError
from dcfsc.pipeline import Recipe, sampling
from dcfsc.representations.base import Part, is_image, restored
from dcfsc.representations.counts import Counts
from dcfsc.representations.given import Given
from dcfsc.representations.scattering import ScatteringMetric
from dcfsc.selection.stability import random_parts
from dcfsc.self_expression import FeatureForm, SampleForm


def images(n, h, w, seed=0):
    X = torch.randn(n, h * w, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(X)


def test_scattering_is_for_at_most_4096_values():
    assert ScatteringMetric.obstacle(Recipe((64, 64), 3)) is None
    assert "4,096 values" in ScatteringMetric.obstacle(Recipe((17, 241), 3))
    assert ScatteringMetric.obstacle(Recipe((6, 6), 3)) is None
    assert "6 pixels" in ScatteringMetric.obstacle(Recipe((5, 6), 3))


def test_scattering_of_other_images_is_not_restored():
    representation = ScatteringMetric(Recipe((8, 8), 2))
    for values in ({"sample_shape": [16, 18], "input_scale": 1.0}, {"input_scale": 1.0}):
        with pytest.raises(InputError, match="its scattering features do not match its images"):
            representation.restore({}, values, "cpu")


def test_a_prepared_sample_is_not_prepared_again():
    Z = images(40, 8, 8).float()
    seen = []

    class Watched(ScatteringMetric):
        def prepare(self, Z):
            seen.append(Z)
            super().prepare(Z)

    again, fresh = (Watched(Recipe((8, 8), 2)) for _ in range(2))
    again.prepare(Z)
    again.fit_transform(Z)
    assert len(seen) == 1
    fresh.fit_transform(Z)
    assert len(seen) == 2
    assert torch.equal(again.T, fresh.T)


def test_parts_are_four_fifths_and_differ():
    parts = list(islice(random_parts(50), 12))
    assert [len(part) for part in parts] == [40] * 12
    assert len({part.tobytes() for part in parts}) == 12


def test_large_data_are_judged_by_a_random_sample_in_order(monkeypatch):
    monkeypatch.setattr(sampling, "MOST_SAMPLES", 7)
    Z = torch.arange(20.0)[:, None]
    expected = np.sort(np.random.RandomState(0).permutation(20)[:7])
    assert sampling.common_sample(Z)[:, 0].tolist() == expected.tolist()
    assert torch.equal(sampling.common_sample(Z[:7]), Z[:7])


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


@pytest.mark.parametrize(
    ("given", "ridge"),
    [
        ({}, False),
        ({"lam": 0.5}, True),
        ({"subspace_dim": 2.0}, True),
        ({"unit_length": False}, True),
        ({"form": "features"}, True),
        ({"affinity": TopK(search="approximate")}, False),
    ],
)
def test_who_gives_a_ridge_or_lengths_means_the_samples_as_they_are(given, ridge):
    assert Recipe((4,), 2, **given).ridge_given is ridge


@pytest.mark.parametrize(
    ("shape", "image"), [((4,), False), ((4, 4), True), ((3, 4, 4), True), ((2, 3, 4, 4), False)]
)
def test_images_have_two_or_three_axes(shape, image):
    assert is_image(shape) is image


def test_rows_have_unit_length_unless_told_otherwise():
    X = 3.0 * images(5, 3, 4) * torch.arange(1, 6)[:, None]
    unit = torch.nn.functional.normalize(X)
    torch.testing.assert_close(Given(Recipe((12,), 2)).rows(X), unit)
    assert Given(Recipe((12,), 2, unit_length=False)).rows(X) is X
    assert Counts(Recipe((12,), 2)).rows(X) is X


@pytest.mark.parametrize(("dim", "dof"), [(None, 6.0), (2.0, 4.0), (1.5, 3.0)])
def test_a_ridge_is_that_of_the_dimensions_given_or_of_three(dim, dof):
    Z, recipe = images(30, 3, 4), Recipe((12,), 2, subspace_dim=dim)
    model = Given(recipe)
    operator = model.solve(Z)
    assert operator.effective_dof == pytest.approx(dof, rel=1e-6)
    assert model.lam == operator.lam
    part = Part(Z, torch.arange(20), recipe)
    assert part.closed_form.effective_dof == pytest.approx(dof, rel=1e-6)
    assert model.solve_part(part) is part.closed_form


def test_a_dimension_that_is_none_is_refused():
    with pytest.raises(InputError, match="subspace_dim must be a positive number"):
        Given(Recipe((12,), 2, subspace_dim=-1.0)).solve(images(30, 3, 4))


@pytest.mark.parametrize(("form", "kind"), [("features", FeatureForm), ("samples", SampleForm)])
def test_the_form_asked_for_is_taken(form, kind):
    model = Given(Recipe((12,), 2, lam=0.3, form=form))
    operator = model.solve(images(30, 3, 4))
    assert isinstance(operator, kind)
    assert operator.lam == 0.3


def test_given_samples_restored_keep_the_ridge_they_were_fitted_with():
    Z, recipe = images(30, 3, 4), Recipe((12,), 2)
    fitted, again = Given(recipe), Given(recipe)
    lam = fitted.solve(Z).lam
    again.restore(*fitted.state(), "cpu")
    assert again.solve(Z[:15]).lam == lam != Given(recipe).solve(Z[:15]).lam
