"""Views: what each augmentation does, given the generator and the sample alone."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from dcfsc.errors import InputError
from dcfsc.views.augmentations import (
    AUGMENTATIONS,
    NOISE,
    Views,
    augmentations_for,
    cautious_strengths,
    usual_strengths,
)

SHAPE = (3, 12, 10)


def images(n=6, shape=SHAPE):
    return torch.rand(n, *shape, generator=torch.Generator().manual_seed(5)) + 0.1


def view(strengths, x=None, seed=0):
    x = images() if x is None else x
    return Views(tuple(x.shape[1:]), strengths)(x, torch.Generator().manual_seed(seed))


def test_without_augmentations_a_view_is_the_sample():
    assert torch.equal(view({}), images())
    torch.testing.assert_close(view({"geometry": 1e-9}), images(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_every_augmentation_changes_and_depends_on_the_seed_alone(name):
    one, same, other = (view({name: 1.0}, seed=seed) for seed in (0, 0, 1))
    x = images()
    if name == "crop":  # three quarters of the sides, rounded up
        x = F.interpolate(x, (9, 8), mode="bilinear", align_corners=False)
    assert one.shape == x.shape
    assert torch.isfinite(one).all()
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert not torch.allclose(one, x)
    if name != "mirror":
        small = view({name: 0.25})
        assert (one - x).abs().mean() > (small - x).abs().mean()


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


def test_color_is_for_three_channels_only():
    assert "color" not in augmentations_for((1, 8, 8))
    with pytest.raises(InputError, match="color"):
        Views((1, 8, 8), {"color": 1.0})


def test_a_single_feature_has_no_deviation_and_gets_no_noise():
    x = torch.tensor([[1.5], [-2.0], [0.0]])
    assert torch.equal(Views((1,), {"noise": 1.0})(x, torch.Generator().manual_seed(0)), x)


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
    views = Views(SHAPE, dict.fromkeys(AUGMENTATIONS, 1.0))
    drawn = views.draw(len(x), torch.Generator().manual_seed(3))
    whole = views.apply(x, drawn)
    torch.testing.assert_close(views.apply(x[2:5], drawn.rows(slice(2, 5))), whole[2:5])


@pytest.mark.parametrize("shape", [(9,), (1, 8, 8), (3, 8, 8)])
def test_cautious_strengths_are_of_augmentations_that_there_are(shape):
    strengths = cautious_strengths(shape)
    assert Views(shape, strengths).strengths.items() >= strengths.items()


@pytest.mark.parametrize(
    ("strengths", "word"), [({"blur": 1.0}, "blur"), ({"light": -1.0}, "light"), ({"hole": 9}, "4")]
)
def test_bad_strengths_are_refused_in_one_line(strengths, word):
    with pytest.raises(InputError, match=word) as error:
        Views(SHAPE, strengths)
    assert "\n" not in str(error.value)


def drawn_view(strengths, x):
    """A view of x (n, ...), and what was drawn for it."""
    views = Views(tuple(x.shape[1:]), strengths)
    drawn = views.draw(len(x), torch.Generator().manual_seed(0))
    return views.apply(x, drawn), drawn


def resampled(image, matrix, shift, size):
    """The image (c, h, w) at ``matrix`` p + ``shift`` for each pixel p = (x, y) from its center.

    Bilinear, and beyond the border as on it; ``size`` pixels of as many as the image has there.
    """
    channels, height, width = image.shape
    rows, columns = size
    out = np.empty((channels, rows, columns))
    for i in range(rows):
        for j in range(columns):
            right, down = (j + 0.5) * width / columns, (i + 0.5) * height / rows
            x, y = matrix @ [right - width / 2, down - height / 2] + shift
            column = np.clip(x + (width - 1) / 2, 0, width - 1)
            row = np.clip(y + (height - 1) / 2, 0, height - 1)
            a, b = min(int(row), height - 2), min(int(column), width - 2)
            v, u = row - a, column - b
            out[:, i, j] = (1 - v) * ((1 - u) * image[:, a, b] + u * image[:, a, b + 1])
            out[:, i, j] += v * ((1 - u) * image[:, a + 1, b] + u * image[:, a + 1, b + 1])
    return out


@pytest.mark.parametrize(
    "strengths",
    [
        {"geometry": 1.0},
        {"geometry": 0.5},
        {"geometry": 1.0, "mirror": 1.0},
        {"geometry": 0.5, "mirror": 0.5, "crop": 1.0},
        {"crop": 0.5},
        {"crop": 2.0},
    ],
)
def test_geometry_is_the_affine_map_of_the_table(strengths):
    """Pixel by pixel on an oblong image, in units of pixels from its center."""
    x = images(12, (2, 6, 9)).double()
    found, drawn = drawn_view(strengths, x)
    s, mirror = strengths.get("geometry", 0.0), strengths.get("mirror", 0.0)
    side = np.array([9, 6])
    flips = 0
    for k, u in enumerate(drawn.uniform.double().numpy()):
        scale, aspect = math.exp(s * (0.25 * u[0] - 0.1)), math.exp(0.15 * s * u[1])
        angle, shear = 0.3 * s * u[2], 0.15 * s * u[3]
        cos, sin = math.cos(angle), math.sin(angle)
        matrix = scale * np.array([[aspect * cos, shear - sin], [sin, cos / aspect]])
        if (u[6] + 1) / 2 < mirror / 2:
            flips += 1
            matrix = matrix @ np.diag([-1, 1])
        shift = 0.09 * s * side * u[4:6]
        if "crop" in strengths:
            c = drawn.crop[k].double().numpy()
            area, ratio = 1 - 0.8 * min(strengths["crop"], 1) * c[0], math.exp(0.58 * c[1] - 0.29)
            part = np.minimum(np.sqrt([area * ratio, area / ratio]), 1.0)
            matrix, shift = part[:, None] * matrix, part * shift
            shift = shift + (1 - part) * (c[2:] - 0.5) * side
        size = (5, 7) if "crop" in strengths else (6, 9)  # three quarters, rounded up
        expected = resampled(x[k].numpy(), matrix, shift, size)
        np.testing.assert_allclose(found[k].numpy(), expected, atol=2e-5)
    assert (0 < flips < 12) == (mirror > 0)


@pytest.mark.parametrize("s", [0.5, 1.0, 3.0])
def test_contrast_is_a_power_and_a_factor_around_the_mean(s):
    x = images(4) - 0.4  # some values are negative
    found, drawn = drawn_view({"contrast": s}, x)
    for y, before, u in zip(found, x.double(), drawn.uniform.double(), strict=True):
        power = before.sign() * before.abs() ** math.exp(0.3 * s * float(u[7]))
        mean = power.mean()
        expected = mean + (power - mean) * (1 + min(0.4 * s, 0.9) * float(u[8]))
        torch.testing.assert_close(y.double(), expected, atol=1e-4, rtol=1e-4)


def test_a_value_of_zero_survives_any_contrast():
    x = torch.zeros(3, 1, 4, 4)
    assert torch.equal(drawn_view({"contrast": 4.0}, x)[0], x)


@pytest.mark.parametrize("s", [0.5, 2.0])
def test_light_passes_through_the_numbers_of_its_grid(s):
    """On 7 x 10 pixels the 4 x 4 grid is on every second row and every third column."""
    x = images(3, (2, 7, 10))
    found, drawn = drawn_view({"light": s}, x)
    deviation = s * (drawn.uniform[:, 9] + 1) / 2
    expected = torch.exp(deviation[:, None, None, None] * drawn.light)
    factor = (found / x)[:, :, ::2, ::3]
    torch.testing.assert_close(factor, expected.expand_as(factor), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("s", [0.5, 1.0])
def test_color_is_a_gain_for_each_channel_and_a_saturation(s):
    x = images(30)
    found, drawn = drawn_view({"color": s}, x)
    grays = 0
    for y, before, u in zip(found, x.double(), drawn.uniform.double(), strict=True):
        gray = before.mean(dim=0)
        saturation = 1 + s * (0.7 * u[13] - 0.3)  # from 0 to 1.4 at strength 1
        if (u[14] + 1) / 2 < 0.2 * s:
            grays += 1
            saturation = 0.0
        expected = (gray + (before - gray) * saturation) * (0.3 * s * u[10:13]).exp()[:, None, None]
        torch.testing.assert_close(y.double(), expected, atol=1e-5, rtol=1e-5)
    assert 0 < grays < 15


@pytest.mark.parametrize("s", [1.0, 2.0])
def test_a_hole_is_a_rectangle_of_the_size_drawn(s):
    x = images(40, (2, 17, 9))
    found, drawn = drawn_view({"hole": s}, x)
    rows, columns = np.linspace(-1, 1, 17), np.linspace(-1, 1, 9)
    for y, before, u in zip(found, x, drawn.uniform.numpy(), strict=True):
        expected = before.clone()
        height, width = s * (0.1875 + 0.0625 * u[15]), s * (0.1875 + 0.0625 * u[16])
        for i in range(17):
            for j in range(9):
                near = abs(rows[i] - u[18]) < height and abs(columns[j] - u[19]) < width
                if u[17] < 0 and near:
                    expected[:, i, j] = before.mean()
        torch.testing.assert_close(y, expected)


def test_noise_is_a_share_of_one():
    x = images(4)
    found, drawn = drawn_view({"noise": 0.5}, x)
    torch.testing.assert_close(found, x + 0.015 * drawn.noise)


@pytest.mark.parametrize("s", [0.5, 2.0])
def test_vectors_by_hand(s):
    x = 3.0 * torch.randn(5, 12, generator=torch.Generator().manual_seed(0))
    noisy, drawn = drawn_view({"noise": s}, x)
    spread = torch.from_numpy(x.numpy().std(axis=1, ddof=1, keepdims=True))
    torch.testing.assert_close(noisy, x + 0.2 * s * spread * drawn.noise)
    thinned, drawn = drawn_view({"hole": s}, x)
    assert drawn.uniform.shape == (5, 12)
    torch.testing.assert_close(thinned, x * ((drawn.uniform + 1) / 2 >= 0.2 * s))


def test_numbers_are_drawn_in_a_fixed_order_and_only_where_they_are_used():
    """Uniform ones, the light's grid, noise, and the window; a seed keeps its views."""
    shape = (1, 5, 7)
    for strengths in ({}, {"noise": 1.0}, {"crop": 1.0}, {"noise": 1.0, "crop": 1.0}):
        drawn = Views(shape, strengths).draw(4, torch.Generator().manual_seed(1))
        random = torch.Generator().manual_seed(1)
        assert torch.equal(drawn.uniform, 2 * torch.rand(4, 20, generator=random) - 1)
        assert torch.equal(drawn.light, torch.randn(4, 1, 4, 4, generator=random))
        assert (drawn.noise is None) == ("noise" not in strengths)
        if drawn.noise is not None:
            size = (1, 4, 6) if "crop" in strengths else shape
            assert torch.equal(drawn.noise, torch.randn(4, *size, generator=random))
        assert (drawn.crop is None) == ("crop" not in strengths)
        if drawn.crop is not None:
            assert torch.equal(drawn.crop, torch.rand(4, 4, generator=random))


def test_strengths_are_from_zero_to_four():
    assert Views((9,), {"noise": 4, "hole": 0.0}).strengths == {"hole": 0.0, "noise": 4.0}
    assert Views((9,), {}).strengths == {"hole": 0.0, "noise": 0.0}
    with pytest.raises(InputError, match="from 0 to 4"):
        Views((9,), {"noise": 4.001})


def test_strengths_where_nothing_is_measured():
    """Photographs are cropped, mirrored and colored; a few samples are hardly moved."""
    one = {"crop": 1.0, "mirror": 1.0, "contrast": 1.0}
    zero = {"geometry": 0.0, "light": 0.0, "hole": 0.0, "noise": 0.0}
    assert usual_strengths((1, 8, 8)) == one | zero
    assert usual_strengths((3, 8, 8)) == one | zero | {"color": 1.0}
    assert usual_strengths((9,)) == {"hole": 0.0, "noise": 0.0}
    little = {"geometry": 0.25, "contrast": 1.0, "hole": 1.0, "noise": 1.0}
    none = {"crop": 0.0, "mirror": 0.0, "light": 0.0}
    assert cautious_strengths((1, 8, 8)) == little | none
    assert cautious_strengths((3, 8, 8)) == little | none | {"color": 0.0}
    assert cautious_strengths((9,)) == {"hole": 1.0, "noise": 1.0}
