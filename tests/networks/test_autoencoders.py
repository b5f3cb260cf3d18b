"""Auto-encoders: one interface, tables equal to the paper's, seeded and indifferent to the path."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch

from dcfsc.errors import InputError
from dcfsc.networks import (
    PRESETS,
    Autoencoder,
    ConvSpec,
    MLPSpec,
    build,
    preset,
)

PAPER_TABLES = {
    "orl": [130, 138, 84, 84, 140, 126],
    "eyaleb": [260, 1820, 5430, 5420, 1810, 251],
    "coil100": [696, 5280, 10560, 20928, 3528, 3648, 20928, 10464, 5280, 601],
}
LATENTS = {
    "orl": 48,
    "eyaleb": 1080,
    "coil100": 4608,
    "dsc-orl": 80,
    "dsc-eyaleb": 1080,
    "dsc-coil100": 12800,
}
SMALL_CONV = ConvSpec((2, 9, 6), (4, 5), (5, 3), (2, 2), transposed=True, input_scale=0.5)
SPECS = {
    "conv": SMALL_CONV,
    "conv, batch norm": replace(SMALL_CONV, batch_norm=True, latent_relu=False),
    "mlp": MLPSpec(7, (12, 9), 3, "tanh", input_scale=2.0),
}


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def samples(net: Autoencoder, n: int = 20, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.rand(n, *net.spec.sample_shape, generator=generator(5), dtype=dtype)


def layer_sizes(net: Autoencoder) -> list[int]:
    """Numbers that each layer holds, the running statistics of its batch norm among them."""
    return [
        sum(value.numel() for value in layer.state_dict().values() if value.ndim)
        for layer in (*net.encoder, *net.decoder)
        if list(layer.parameters())
    ]


@pytest.mark.parametrize(("name", "counts"), PAPER_TABLES.items())
def test_layers_have_the_sizes_of_the_papers_tables(name, counts):
    assert layer_sizes(preset(name)) == counts
    assert sum(counts) == {"orl": 702, "eyaleb": 14_991, "coil100": 81_913}[name]


def test_published_dsc_counts():
    assert sum(layer_sizes(preset("dsc-eyaleb"))) == 14_991
    assert layer_sizes(preset("dsc-coil100")) == [1300, 1251]


def plain(net, on=True):
    """The network with PyTorch's own convolutions, or with products over patches if it may."""
    net.encoder.plain = net.decoder.plain = on
    return net


@pytest.fixture
def patches_for_all(monkeypatch):
    """Products over patches for a handful of samples as well."""
    monkeypatch.setattr("dcfsc.networks.layers.FEWEST_SAMPLES", 0)


@pytest.mark.parametrize("by_patches", [False, True])
@pytest.mark.parametrize("name", PRESETS)
def test_preset_shapes(name, by_patches, patches_for_all):
    net = plain(preset(name), not by_patches)
    x = samples(net, 3)
    z = net.encoder(x)
    assert z.shape == (3, LATENTS[name]) == (3, net.latent_dim)
    assert net.decoder(z).shape == net(x).shape == x.shape


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_interface(spec):
    net = build(spec, generator())
    x = samples(net)
    z = net.encoder(x)
    assert z.shape == (20, net.latent_dim) == (20, spec.latent_dim)
    assert torch.equal(net.decoder(z), net(x))
    net(x).square().sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in net.parameters())


def test_an_mlp_has_a_mirrored_decoder():
    assert layer_sizes(build(SPECS["mlp"])) == [96, 117, 30, 36, 120, 91]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("spec", [SPECS["conv"], SPECS["conv, batch norm"]])
def test_both_convolutions_agree(spec, training, monkeypatch):
    # Nine kilobytes hold the patches of a few samples, so blocks are cut as in a large batch.
    monkeypatch.setattr("dcfsc.networks.patches.BLOCK_BYTES", 9_000)
    nets, results = [], []
    for on in (True, False):
        net = plain(build(spec, generator(3)), on).double().train(training)
        x = samples(net, dtype=torch.float64)
        out = net(x)
        gradients = torch.autograd.grad((out - x).square().sum(), list(net.parameters()))
        results.append([net.encoder(x), out, *gradients])
        nets.append(net)
    for native, fast in zip(*results, strict=True):
        torch.testing.assert_close(fast, native, rtol=1e-9, atol=1e-9)
    for (name, native), fast in zip(nets[0].named_buffers(), nets[1].buffers(), strict=True):
        torch.testing.assert_close(fast, native, msg=name)


def test_gradients_reach_the_input_on_both_convolutions():
    gradients = []
    for on in (True, False):
        net = plain(build(SPECS["conv"], generator()), on).double()
        x = samples(net, dtype=torch.float64).requires_grad_()
        gradients.append(torch.autograd.grad(net(x).square().sum(), x)[0])
    torch.testing.assert_close(*gradients)


def test_patches_are_for_batches_on_a_cpu_without_batch_norm():
    encoder = build(SPECS["conv"]).encoder
    assert encoder._uses_patches(torch.zeros(400, 1))
    assert not encoder._uses_patches(torch.zeros(2, 1))
    assert not encoder._uses_patches(torch.zeros(400, 1, device="meta"))
    assert not build(SPECS["conv, batch norm"]).encoder._uses_patches(torch.zeros(400, 1))
    assert not plain(build(SPECS["conv"])).encoder._uses_patches(torch.zeros(400, 1))


def test_a_transposed_network_is_the_upright_one_on_transposed_images():
    upright = build(replace(SMALL_CONV, transposed=False, input_shape=(2, 6, 9)), generator())
    transposed = build(SMALL_CONV, generator())
    x = samples(transposed)
    expected = upright(x.transpose(2, 3)).transpose(2, 3)
    torch.testing.assert_close(transposed(x), expected)
    torch.testing.assert_close(transposed(x[:3]), expected[:3])


@pytest.mark.parametrize("name", ["conv", "mlp"])
def test_input_scale_is_undone(name):
    spec = SPECS[name]
    scaled, plain = build(spec), build(replace(spec, input_scale=1.0))
    x = samples(scaled)
    torch.testing.assert_close(scaled.encoder(x), plain.encoder(x * spec.input_scale))
    torch.testing.assert_close(scaled(x), plain(x * spec.input_scale) / spec.input_scale)


@pytest.mark.parametrize("latent_relu", [True, False])
@pytest.mark.parametrize("output_relu", [True, False])
def test_where_relu_follows(latent_relu, output_relu):
    net = build(replace(SMALL_CONV, latent_relu=latent_relu, output_relu=output_relu), generator(1))
    x = samples(net) - 0.5
    z = net.encoder(x)
    assert (z.min() >= 0) == latent_relu
    assert (net.decoder(z).min() >= 0) == output_relu


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_seeded_and_global_generator_untouched(spec):
    before = torch.get_rng_state()
    nets = [build(spec, generator(seed)) for seed in (7, 7, 8)]
    default = [build(spec), build(spec)]
    nets[0](samples(nets[0]))
    assert torch.equal(torch.get_rng_state(), before)
    states = [list(net.parameters()) for net in (*nets, *default)]
    assert all(torch.equal(a, b) for a, b in zip(states[0], states[1], strict=True))
    assert all(torch.equal(a, b) for a, b in zip(states[3], states[4], strict=True))
    weights = [(a, b) for a, b in zip(states[0], states[2], strict=True) if a.ndim > 1]
    assert not any(torch.equal(a, b) for a, b in weights)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_reset_parameters_is_glorot_with_zero_biases(spec):
    net = build(spec, generator(1))
    fresh = copy.deepcopy(net.state_dict())
    for p in net.parameters():
        p.data.fill_(9.0)
    net(samples(net))
    net.reset_parameters(generator(1))
    assert all(torch.equal(v, fresh[k]) for k, v in net.state_dict().items())
    for name, p in net.named_parameters():
        if name.endswith("bias"):
            assert not p.any()
        elif p.ndim > 1:
            bound = (6 / ((p.shape[0] + p.shape[1]) * p[0, 0].numel())) ** 0.5
            assert 0.5 * bound < p.abs().max() <= bound


def test_batch_norm_follows_tensorflows_defaults():
    net = preset("coil100")
    norms = [m for m in net.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert len(norms) == 8
    assert {(m.eps, m.momentum) for m in norms} == {(1e-3, 0.01)}
    biases = [name for name, _ in net.named_parameters() if name.endswith(".bias")]
    assert [b for b in biases if "norm" not in b] == ["encoder.4.bias", "decoder.4.bias"]


def test_batch_norm_uses_the_batch_in_training_and_the_average_afterwards():
    net = build(SPECS["conv, batch norm"], generator())
    x = samples(net)
    alone, together = net.encoder(x[:17]), net.encoder(x)[:17]
    assert not torch.allclose(alone, together)
    net.eval()
    torch.testing.assert_close(net.encoder(x[:17]), net.encoder(x)[:17])


def test_integer_images_and_refusals():
    net = build(SMALL_CONV)
    pixels = torch.randint(0, 256, (20, 2, 9, 6), generator=generator(), dtype=torch.uint8)
    assert torch.equal(net.encoder(pixels), net.encoder(pixels.float()))
    with pytest.raises(InputError, match=r"\(n, 2, 9, 6\) images, got \(20, 2, 6, 9\)"):
        net.encoder(torch.zeros(20, 2, 6, 9))
    with pytest.raises(InputError, match=r"latents, got \(20, 4\)"):
        net.decoder(torch.zeros(20, 4))
    with pytest.raises(InputError, match=r"\(n, 7\) features"):
        build(SPECS["mlp"]).encoder(torch.zeros(3, 6))
    with pytest.raises(InputError, match="ConvSpec or an MLPSpec, got dict"):
        build({"kind": "conv"})


@pytest.mark.parametrize("by_patches", [False, True])
def test_no_samples_is_no_error(by_patches, patches_for_all):
    net = plain(build(SMALL_CONV), not by_patches)
    assert net(torch.zeros(0, 2, 9, 6)).shape == (0, 2, 9, 6)


def test_threads_may_share_a_network():
    net = build(SMALL_CONV, generator())
    batches = [samples(net, n) * n for n in (16, 20, 33, 16, 40, 20)] * 4
    with torch.no_grad():
        expected = [net(x) for x in batches]
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(torch.no_grad()(net), batches))
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_copies_and_pickles_are_whole_networks():
    net = build(SMALL_CONV, generator(2))
    x = samples(net)
    expected = net(x)
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert torch.equal(twin(x), expected)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", ["dsc-orl", "eyaleb", "coil100"])
def test_cuda_agrees_with_the_cpu(name):
    net = preset(name).double().eval()
    x = samples(net, dtype=torch.float64)
    expected = net(x)
    found = copy.deepcopy(net).cuda()
    torch.testing.assert_close(found(x.cuda()).cpu(), expected, rtol=1e-9, atol=1e-9)
    plain(found)
    torch.testing.assert_close(found(x.cuda()).cpu(), expected, rtol=1e-9, atol=1e-9)
