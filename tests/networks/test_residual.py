"""Encoders that learn from views: shapes, seeds, and their specs as JSON."""

import json
from dataclasses import replace

import pytest
import torch

from dcfsc.errors import InputError
from dcfsc.networks import (
    HeadSpec,
    ResidualSpec,
    ViewNetwork,
    from_dict,
    head_spec,
    view_spec,
)


@pytest.mark.parametrize(
    ("shape", "stride", "features"),
    [((8, 8), 1, 256), ((32, 32), 1, 256), ((48, 42), 2, 256), ((3, 96, 64), 4, 256)],
)
def test_the_encoder_is_chosen_by_the_size_of_the_images(shape, stride, features):
    spec = view_spec(shape, 5)
    assert (spec.stem_stride, spec.latent_dim, spec.n_clusters) == (stride, features, 5)
    assert spec.sample_shape == (shape if len(shape) == 3 else (1, *shape))
    small = view_spec(shape, 5, small=True)
    network = ViewNetwork(small)
    outputs = network(torch.randn(4, *small.sample_shape))
    assert [tuple(o.shape) for o in outputs] == [(4, 96), (4, 128), (4, 5)]
    assert sum(small.layer_sizes) < sum(spec.layer_sizes)


def test_images_that_only_views_teach_get_a_larger_network():
    spec = view_spec((3, 32, 32), 5, alone=True)
    assert (spec.channels, spec.blocks, spec.stem_stride) == ((64, 128, 256, 512), 2, 1)
    assert (spec.hidden, spec.projection, spec.predictor) == (2048, 2048, 0)
    small = view_spec((3, 32, 32), 5, small=True)
    assert view_spec((3, 32, 32), 5, small=True, alone=True) == small
    assert view_spec((9,), alone=True) == view_spec((9,))


def test_a_predictor_guesses_from_normalized_projections():
    spec = ResidualSpec((3, 9, 7), (4, 6), 1, hidden=8, projection=12, predictor=5)
    network = ViewNetwork(spec, torch.Generator().manual_seed(0))
    x = torch.randn(20, 3, 9, 7, generator=torch.Generator().manual_seed(1))
    _, projections, _, predictions = network(x)
    torch.testing.assert_close(projections.mean(dim=0), torch.zeros(12), atol=1e-5, rtol=0)
    spread = projections.std(dim=0, correction=0)
    torch.testing.assert_close(spread, torch.ones(12), atol=1e-3, rtol=0)
    assert predictions.shape == projections.shape
    torch.testing.assert_close(network.predictor(projections), predictions)
    widths = [m.out_features for m in network.modules() if isinstance(m, torch.nn.Linear)]
    assert sorted(widths) == sorted([8, 8, 12, 5, 12, 1])


def test_a_head_on_an_encoder_makes_the_features():
    spec = ResidualSpec((1, 9, 7), (4, 6), 1, hidden=8, projection=12, predictor=5)
    network, trained = ViewNetwork(spec), ViewNetwork(head_spec(6, 5, 20))
    x = torch.randn(20, 1, 9, 7, generator=torch.Generator().manual_seed(1))
    before = [part.detach() for part in network.eval()(x)]
    torch.testing.assert_close(network.features(x), before[0])
    assert (network.latent_dim, trained.spec.hidden) == (6, 10)
    network.attach(trained.eval())
    assert network.spec == replace(spec, head=5)
    assert network.latent_dim == 5
    torch.testing.assert_close(network.features(x), trained.encoder(before[0]))
    for part, same in zip(network(x), before, strict=True):  # the losses read the encoder's own
        torch.testing.assert_close(part, same)
    again = ViewNetwork(network.spec).eval()
    again.load_state_dict(network.state_dict())
    torch.testing.assert_close(again.features(x), network.features(x))


def test_vectors_get_a_head():
    spec = view_spec((20,), 3)
    assert isinstance(spec, HeadSpec)
    features, projections, logits = ViewNetwork(spec)(torch.randn(6, 20))
    assert (features.shape, projections.shape, logits.shape) == ((6, 256), (6, 128), (6, 3))


def test_weights_depend_on_the_generator_alone():
    spec = view_spec((8, 8), 2, small=True)
    before = torch.random.get_rng_state()
    a, b = (ViewNetwork(spec, torch.Generator().manual_seed(s)) for s in (1, 1))
    c = ViewNetwork(spec, torch.Generator().manual_seed(2))
    assert torch.equal(before, torch.random.get_rng_state())
    one, same, other = (torch.cat([p.flatten() for p in n.parameters()]) for n in (a, b, c))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_features_know_no_brightness_and_no_gain():
    network = ViewNetwork(view_spec((8, 8), 2, small=True)).eval()
    x = torch.rand(5, 1, 8, 8)
    torch.testing.assert_close(
        network.encoder(x), network.encoder(3.0 * x + 2.0), rtol=1e-2, atol=1e-2
    )


@pytest.mark.parametrize(
    "spec",
    [
        ResidualSpec((3, 9, 7), (4, 6), 1, 2),
        ResidualSpec((3, 9, 7), (4, 6), 1, 2, predictor=9),
        ResidualSpec((3, 9, 7), (4, 6), 1, 2, head=7),
        HeadSpec(11, 5, 7, 3),
        HeadSpec(11, 5, 7, 3, predictor=2),
    ],
)
def test_specs_survive_json_and_describe_their_layers(spec):
    assert from_dict(json.loads(json.dumps(spec.to_dict()))) == spec
    sizes = {p.numel() for p in ViewNetwork(spec).parameters()}
    assert set(spec.layer_sizes) <= sizes


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: ResidualSpec((8, 8)), "input_shape"),
        (lambda: ResidualSpec((1, 8, 8), ()), "channels"),
        (lambda: ResidualSpec((1, 8, 8), blocks=0), "blocks"),
        (lambda: ResidualSpec((1, 8, 8), blocks=1000), "at most 100"),
        (lambda: ResidualSpec((1, 8, 8), predictor=-1), "predictor"),
        (lambda: ResidualSpec((1, 8, 8), head=-1), "head"),
        (lambda: HeadSpec(4, predictor=0.5), "predictor"),
        (lambda: HeadSpec(0), "input_dim"),
        (lambda: HeadSpec(4, n_clusters=-1), "n_clusters"),
    ],
)
def test_specs_refuse_in_one_line(make, word):
    with pytest.raises(InputError, match=word) as error:
        make()
    assert "\n" not in str(error.value)
