"""Views pixel by pixel, from the formulas in the table of :mod:`dcfsc.training.views`."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from dcfsc.errors import InputError
from dcfsc.training.views import (
    CHANGES,
    VECTOR_CHANGES,
    Views,
    cautious_strengths,
    changes_for,
    usual_strengths,
)

SHAPE = (3, 6, 9)
N = 12


def drawn_for(strengths, shape=SHAPE, seed=0):
    views = Views(shape, strengths)
    drawn = views.draw(N, torch.Generator().manual_seed(seed))
    parts = {name: None if value is None else value.double() for name, value in vars(drawn).items()}
    return views, replace(drawn, **parts)


def images(shape=SHAPE, seed=1):
    random = torch.Generator().manual_seed(seed)
    return torch.rand(N, *shape, dtype=torch.float64, generator=random) + 0.1


def compare(strengths, expected_of):
    """Views of images against a function of one image (c, h, w) and its random numbers."""
    views, drawn = drawn_for(strengths)
    x = images()
    got = views.apply(x, drawn).numpy()
    for i in range(N):
        expected = expected_of(x[i].numpy(), drawn.rows(slice(i, i + 1)))
        np.testing.assert_allclose(got[i], expected, rtol=1e-7, atol=1e-9)


def bilinear(x, theta):
    """x (c, h, w) at theta (2, 3) times (column, row, 1) in -1..1, the border going on."""
    _, h, w = x.shape
    out = np.empty_like(x)
    for i in range(h):
        for j in range(w):
            at = theta @ [(2 * j + 1) / w - 1, (2 * i + 1) / h - 1, 1.0]
            column = np.clip(((at[0] + 1) * w - 1) / 2, 0, w - 1)
            row = np.clip(((at[1] + 1) * h - 1) / 2, 0, h - 1)
            a, b = int(row), int(column)
            c, d = min(a + 1, h - 1), min(b + 1, w - 1)
            p, q = row - a, column - b
            upper = (1 - q) * x[:, a, b] + q * x[:, a, d]
            lower = (1 - q) * x[:, c, b] + q * x[:, c, d]
            out[:, i, j] = (1 - p) * upper + p * lower
    return out


def geometry(u, s, mirrored=False):
    """The matrix (2, 3) of a rotation with shear, scale and aspect in pixels, and a shift."""
    h, w = SHAPE[1:]
    scale, aspect = np.exp(s * (-0.1 + 0.25 * u[0])), np.exp(0.15 * s * u[1])
    angle, shear = 0.3 * s * u[2], 0.15 * s * u[3]
    A = np.array(
        [[aspect * np.cos(angle), shear - np.sin(angle)], [np.sin(angle), np.cos(angle) / aspect]]
    )
    A = scale * np.diag([1 / w, 1 / h]) @ A @ np.diag([w, h])
    if mirrored:
        A = A @ np.diag([-1.0, 1.0])
    return np.column_stack([A, 0.18 * s * u[4:6]])


@pytest.mark.parametrize("s", [0.6, 1.5])
def test_geometry(s):
    def expected(x, drawn):
        return bilinear(x, geometry(drawn.uniform[0].numpy(), s))

    compare({"geometry": s}, expected)


@pytest.mark.parametrize("m", [0.5, 1.0, 1.7])
def test_mirror_images_are_half_as_many_as_the_strength(m):
    def expected(x, drawn):
        u = drawn.uniform[0].numpy()
        return bilinear(x, geometry(u, 0.5, mirrored=u[6] < m - 1))

    compare({"geometry": 0.5, "mirror": m}, expected)


@pytest.mark.parametrize("s", [0.6, 1.0, 2.0])
def test_a_crop_is_a_window_inside_of_the_image(s):
    def expected(x, drawn):
        u, v = drawn.uniform[0].numpy(), drawn.crop[0].numpy()
        area, aspect = 1 - 0.8 * min(s, 1.0) * v[0], np.exp(0.29 * (2 * v[1] - 1))
        sides = np.minimum(np.sqrt([area * aspect, area / aspect]), 1.0)
        theta = sides[:, None] * geometry(u, 0.3)
        theta[:, 2] += (1 - sides) * (2 * v[2:] - 1)
        return bilinear(x, theta)

    compare({"crop": s, "geometry": 0.3}, expected)


@pytest.mark.parametrize("s", [0.6, 3.0])
def test_contrast(s):
    def expected(x, drawn):
        u = drawn.uniform[0].numpy()
        x = (x + 1e-6) ** np.exp(0.3 * s * u[7])
        return x.mean() + (x - x.mean()) * (1 + min(0.4 * s, 0.9) * u[8])

    compare({"contrast": s}, expected)


def test_the_contrast_of_negative_values_keeps_their_signs():
    views, drawn = drawn_for({"contrast": 1.0})
    x = images()
    torch.testing.assert_close(views.apply(-x, drawn), -views.apply(x, drawn))


@pytest.mark.parametrize("s", [0.6, 1.5])
def test_light(s):
    """In the corners of the image it is that of the corners of the grid."""

    def expected(x, drawn):
        field = F.interpolate(drawn.light, size=SHAPE[1:], mode="bicubic", align_corners=True)
        corners = field[0, 0].numpy()[[0, 0, -1, -1], [0, -1, 0, -1]]
        grid = drawn.light[0, 0].numpy()[[0, 0, -1, -1], [0, -1, 0, -1]]
        np.testing.assert_allclose(corners, grid, atol=1e-6)
        deviation = s * (1 + float(drawn.uniform[0, 9])) / 2
        return x * np.exp(deviation * field[0].numpy())

    compare({"light": s}, expected)


@pytest.mark.parametrize("s", [0.6, 1.5])
def test_colour(s):
    def expected(x, drawn):
        u = drawn.uniform[0].numpy()
        grey = x.mean(axis=0)
        saturation = 0.0 if u[14] < 0.4 * s - 1 else 1 + s * (-0.3 + 0.7 * u[13])
        gain = np.exp(0.3 * s * u[10:13])[:, None, None]
        return (grey + (x - grey) * saturation) * gain

    compare({"colour": s}, expected)
    views, drawn = drawn_for({"colour": s})
    drawn.uniform[0, 14] = -1.0  # a grey image
    drawn.uniform[0, 10:13] = 0.0
    grey = images()[:1].mean(dim=1, keepdim=True).expand(1, *SHAPE)
    torch.testing.assert_close(views.apply(images()[:1], drawn.rows(slice(0, 1))), grey)


@pytest.mark.parametrize("s", [1.0, 2.5])
def test_hole(s):
    def expected(x, drawn):
        u, out = drawn.uniform[0].numpy(), x.copy()
        half = 0.25 * s * (0.75 + 0.25 * u[15:17]) * (u[17] < 0)
        rows = np.abs(np.linspace(-1, 1, x.shape[1]) - u[18]) < half[0]
        columns = np.abs(np.linspace(-1, 1, x.shape[2]) - u[19]) < half[1]
        out[:, rows[:, None] & columns] = x.mean()
        return out

    compare({"hole": s}, expected)


@pytest.mark.parametrize("s", [0.5, 2.0])
def test_noise(s):
    compare({"noise": s}, lambda x, drawn: x + 0.03 * s * drawn.noise[0].numpy())


@pytest.mark.parametrize("s", [0.5, 2.0])
def test_vectors_by_their_own_deviation_and_a_share_of_zeros(s):
    views, drawn = drawn_for({"noise": s, "hole": s}, (30,))
    x = 4.0 * images((30,))
    expected = x.numpy() + 0.2 * s * x.std(dim=1, keepdim=True).numpy() * drawn.noise.numpy()
    expected[drawn.uniform.numpy() < 2 * 0.2 * s - 1] = 0.0
    np.testing.assert_allclose(views.apply(x, drawn).numpy(), expected, rtol=1e-12)
    assert 0.5 * 0.2 * s < float((expected == 0).mean()) < 2 * 0.2 * s


def test_one_change_follows_the_other():
    views, drawn = drawn_for(dict.fromkeys(CHANGES, 0.7))
    order = [("geometry", "crop", "mirror"), ("contrast",), ("light",), ("colour",), ("noise",)]
    expected = images()
    for names in (*order, ("hole",)):
        expected = Views(SHAPE, dict.fromkeys(names, 0.7)).apply(expected, drawn)
    torch.testing.assert_close(views.apply(images(), drawn), expected)


def test_what_is_random_is_drawn_in_one_order():
    """The same generator, asked for the same: numbers in [-1, 1], light, noise, window."""
    for shape, width in ((SHAPE, 20), ((5,), 5)):
        known = changes_for(shape)
        views = Views(shape, {name: 1.0 for name in ("noise", "crop") if name in known})
        drawn = views.draw(4, torch.Generator().manual_seed(3))
        random = torch.Generator().manual_seed(3)
        assert torch.equal(drawn.uniform, 2 * torch.rand(4, width, generator=random) - 1)
        assert torch.equal(drawn.light, torch.randn(4, 1, 4, 4, generator=random))
        assert torch.equal(drawn.noise, torch.randn(4, *shape, generator=random))
        if "crop" in known:
            assert torch.equal(drawn.crop, torch.rand(4, 4, generator=random))
    still = Views(SHAPE, {"geometry": 1.0}).draw(4, torch.Generator())
    assert (still.noise, still.crop) == (None, None)


def test_the_changes_of_a_shape_and_their_strengths():
    assert changes_for((7,)) == VECTOR_CHANGES == ("hole", "noise")
    assert changes_for((3, 8, 8)) == CHANGES
    assert changes_for((1, 8, 8)) == tuple(name for name in CHANGES if name != "colour")
    usual = {"crop": 1.0, "mirror": 1.0, "contrast": 1.0, "colour": 1.0}
    assert usual_strengths((3, 8, 8)) == dict.fromkeys(CHANGES, 0.0) | usual
    cautious = {"geometry": 0.25, "contrast": 1.0, "hole": 1.0, "noise": 1.0}
    assert cautious_strengths((3, 8, 8)) == dict.fromkeys(CHANGES, 0.0) | cautious
    assert cautious_strengths((7,)) == {"hole": 1.0, "noise": 1.0}


@pytest.mark.parametrize(("strength", "taken"), [(0.0, True), (4.0, True), (4.01, False)])
def test_strengths_go_up_to_four(strength, taken):
    if taken:
        assert Views(SHAPE, {"light": strength}).strengths["light"] == strength
    else:
        with pytest.raises(InputError, match="from 0 to 4"):
            Views(SHAPE, {"light": strength})
