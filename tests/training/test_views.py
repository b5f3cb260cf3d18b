"""Views: what each change does, and that they depend on the generator and the sample alone."""

import pytest
import torch

from dcfsc.errors import InputError
from dcfsc.training.views import CHANGES, NOISE, Views, cautious_strengths, changes_for

SHAPE = (3, 12, 10)


def images(n=6, shape=SHAPE):
    return torch.rand(n, *shape, generator=torch.Generator().manual_seed(5)) + 0.1


def view(strengths, x=None, seed=0):
    x = images() if x is None else x
    return Views(tuple(x.shape[1:]), strengths)(x, torch.Generator().manual_seed(seed))


def test_without_changes_a_view_is_the_sample():
    assert torch.equal(view({}), images())
    torch.testing.assert_close(view({"geometry": 1e-9}), images(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_changes_and_depends_on_the_seed_alone(name):
    one, same, other = (view({name: 1.0}, seed=seed) for seed in (0, 0, 1))
    assert one.shape == images().shape
    assert torch.isfinite(one).all()
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert not torch.allclose(one, images())
    if name != "mirror":
        small = view({name: 0.25})
        assert (one - images()).abs().mean() > (small - images()).abs().mean()


def test_mirror_exchanges_left_and_right_in_half_of_the_views():
    x = images(200)
    mirrored = view({"mirror": 1.0}, x)
    flipped = (mirrored - x.flip(3)).abs().amax(dim=(1, 2, 3)) < 1e-5
    kept = (mirrored - x).abs().amax(dim=(1, 2, 3)) < 1e-5
    assert (flipped ^ kept).all()
    assert 70 < int(flipped.sum()) < 130


def test_light_is_a_smooth_positive_factor_common_to_the_channels():
    x = images(50, (3, 24, 24))
    factor = view({"light": 1.0}, x) / x
    assert (factor > 0).all()
    torch.testing.assert_close(factor[:, 0], factor[:, 2])
    steps = factor.log().diff(dim=3).abs()
    assert float(steps.mean()) < 0.2 * float(factor.log().std())


def test_a_hole_sets_a_rectangle_to_the_mean_in_half_of_the_views():
    x = images(300)
    changed = view({"hole": 1.0}, x) != x
    some = changed.any(dim=1)  # (n, h, w)
    assert 100 < int(some.flatten(1).any(dim=1).sum()) < 200
    rows, columns = some.any(dim=2), some.any(dim=1)
    assert torch.equal(some, rows[:, :, None] & columns[:, None, :])
    assert int(rows.sum(dim=1).max()) <= 4
    mean = x.mean(dim=(1, 2, 3), keepdim=True).expand_as(x)
    assert torch.equal(view({"hole": 1.0}, x)[changed], mean[changed])


def test_noise_has_the_deviation_it_says():
    x = images(100)
    assert float((view({"noise": 2.0}, x) - x).std()) == pytest.approx(2 * NOISE, rel=0.03)


def test_a_shift_moves_by_at_most_nine_per_cent_of_the_side():
    x = torch.zeros(400, 1, 41, 41)
    x[:, :, 20, 20] = 1.0
    y = view({"geometry": 1.0}, x)
    place = torch.arange(41.0) - 20
    mass = y.sum(dim=(1, 2, 3))
    shift = (y.sum(dim=(1, 2)) @ place) / mass
    assert 2.5 < float(shift.abs().max()) < 0.09 * 41 / 0.6 + 0.5


def test_colour_is_for_three_channels_only():
    assert "colour" not in changes_for((1, 8, 8))
    with pytest.raises(InputError, match="colour"):
        Views((1, 8, 8), {"colour": 1.0})


def test_vectors_lose_a_fifth_of_their_features_or_get_noise():
    x = torch.randn(500, 40, generator=torch.Generator().manual_seed(0))
    kept = view({"hole": 1.0}, x)
    zero = kept == 0
    assert torch.equal(kept[~zero], x[~zero])
    assert float(zero.float().mean()) == pytest.approx(0.2, abs=0.01)
    noise = view({"noise": 1.0}, x) - x
    assert float(noise.std()) == pytest.approx(0.2, rel=0.1)


def test_a_part_of_a_batch_has_the_views_of_the_whole():
    x = images()
    views = Views(SHAPE, dict.fromkeys(CHANGES, 1.0))
    drawn = views.draw(len(x), torch.Generator().manual_seed(3))
    whole = views.apply(x, drawn)
    torch.testing.assert_close(views.apply(x[2:5], drawn.rows(slice(2, 5))), whole[2:5])


@pytest.mark.parametrize("shape", [(9,), (1, 8, 8), (3, 8, 8)])
def test_cautious_strengths_are_of_changes_that_there_are(shape):
    strengths = cautious_strengths(shape)
    assert Views(shape, strengths).strengths.items() >= strengths.items()


@pytest.mark.parametrize(
    ("strengths", "word"), [({"blur": 1.0}, "blur"), ({"light": -1.0}, "light"), ({"hole": 9}, "4")]
)
def test_bad_strengths_are_refused_in_one_line(strengths, word):
    with pytest.raises(InputError, match=word) as error:
        Views(SHAPE, strengths)
    assert "\n" not in str(error.value)
