"""Networks by name and by sample shape."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dcfsc.errors import InputError
from dcfsc.networks import ConvSpec, MLPSpec, architecture_for, build, preset, preset_spec


def test_unknown_name_lists_the_known():
    with pytest.raises(InputError, match=r"unknown network 'orll'.*Did you mean 'orl'.*eyaleb"):
        preset("orll")
    with pytest.raises(InputError, match="unknown network"):
        preset_spec("mnist")


def test_which_presets_are_transposed():
    names = ("orl", "eyaleb", "coil100", "dsc-orl", "dsc-eyaleb", "dsc-coil100")
    assert [n for n in names if preset_spec(n).transposed] == ["dsc-orl", "dsc-coil100"]


def test_preset_is_seeded():
    one, two = (preset("orl", torch.Generator().manual_seed(s)) for s in (1, 2))
    assert not torch.equal(one.encoder[0].weight, two.encoder[0].weight)
    assert torch.equal(preset("orl").encoder[0].weight, preset("orl").encoder[0].weight)


def test_faces_get_the_papers_channels():
    spec, paper = architecture_for((48, 42)), preset_spec("eyaleb")
    assert (spec.channels, spec.kernels, spec.strides) == (
        paper.channels,
        paper.kernels,
        paper.strides,
    )


@pytest.mark.parametrize(
    ("shape", "latent_shape"),
    [
        ((8, 8), (10, 4, 4)),
        ((28, 28), (20, 7, 7)),
        ((3, 32, 32), (20, 8, 8)),
        ((3, 128, 128), (40, 8, 8)),
    ],
)
def test_common_image_sizes(shape, latent_shape):
    assert architecture_for(shape).latent_shape == latent_shape


def test_vectors_get_a_perceptron():
    assert architecture_for((500,)) == MLPSpec(500, (512,), 128)
    assert architecture_for((2,)) == MLPSpec(2, (32,), 2)


@settings(max_examples=30, deadline=None)
@given(shape=st.lists(st.integers(1, 40), min_size=1, max_size=3).map(tuple))
def test_any_shape_gets_a_network_that_fits(shape):
    spec = architecture_for(shape)
    assert isinstance(spec, MLPSpec if len(shape) == 1 else ConvSpec)
    net = build(spec)
    x = torch.zeros(2, *spec.sample_shape)
    assert x[0].numel() == torch.Size(shape).numel()
    assert net(x).shape == x.shape


@pytest.mark.parametrize("shape", [(), (3, 4, 5, 6), (0,), (4, 0)])
def test_shapes_that_are_no_sample(shape):
    with pytest.raises(InputError, match="samples must be"):
        architecture_for(shape)
