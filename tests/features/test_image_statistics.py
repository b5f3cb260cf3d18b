"""Whether images vary by light, and whether their pixels have an order."""

import pytest
import torch

from dcfsc.features.image_statistics import SMOOTH, roughness, smooth_share


def test_smooth_factors_between_neighbors_are_told_from_other_differences():
    random = torch.Generator().manual_seed(0)
    x = 0.1 + 0.4 * torch.rand(20, 1, 24, 24, generator=random)
    ramp = torch.linspace(0.3, 2.0, 24)
    assert smooth_share(x, x * ramp) > 0.8 > SMOOTH
    assert smooth_share(x, x.roll(1, 0)) < 0.1 < SMOOTH
    assert smooth_share(x, x) == 0.0
    assert smooth_share(x, -x) == 0.0
    assert smooth_share(x.flatten(1), x.flatten(1)) == 0.0


def test_roughness_is_that_of_adjacent_pixels():
    x = torch.tensor([[[[0.0, 1.0], [0.0, 3.0]]]])
    # across 1 and 9, down 0 and 4; the variance of 0, 1, 0, 3 is 1.5
    assert roughness(x) == pytest.approx(0.25 * (5.0 + 2.0) / 1.5)
    assert roughness(5.0 * x) == pytest.approx(roughness(x))
    assert roughness(torch.ones(3, 1, 8, 8)) == 0.0


def test_shuffled_pixels_are_rough_and_waves_are_not():
    grid = torch.linspace(0, 6, 16)
    phases = torch.rand(30, 1, 1, 1, generator=torch.Generator().manual_seed(0)) * 6
    waves = torch.sin(grid[:, None] + phases) + torch.cos(grid + 2 * phases)
    assert roughness(waves) < 0.1
    order = torch.randperm(256, generator=torch.Generator().manual_seed(0))
    shuffled = waves.flatten(2)[:, :, order].reshape(waves.shape)
    assert roughness(shuffled) == pytest.approx(1.0, abs=0.1)
