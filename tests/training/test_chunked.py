"""Chunked training is full-batch training: loss, every gradient, the batch norms' statistics."""

import pytest
import torch
from samples import SelfExpressionTerm

from dcfsc import networks
from dcfsc.networks import ConvSpec, MLPSpec
from dcfsc.training import (
    Absolute,
    ChunkedStep,
    History,
    ShareOfEnergy,
    calibrate_batch_norm,
    encode,
    forward,
    train,
)
from dcfsc.training.chunked import chunk_slices
from dcfsc.training.loss import reconstruction_error

N = 37
SPECS = {
    "mlp": MLPSpec(9, (12,), 5),
    "conv": ConvSpec((1, 8, 6), (3, 4), (3, 3), (2, 2)),
    "batch norm": ConvSpec(
        (1, 8, 8), (4, 3, 2), (3, 3, 3), (1, 2, 2), batch_norm=True, latent_relu=False
    ),
}


def network_and_samples(kind, seed=0):
    generator = torch.Generator().manual_seed(seed)
    network = networks.build(SPECS[kind], generator).double()
    shape = network.spec.sample_shape
    X = torch.randn(N, *shape, dtype=torch.float64, generator=generator) + 0.5
    return network.train(), X


def full_gradients(network, X, lam, terms=()):
    network.zero_grad()
    state, _ = forward(network, X, lam)
    loss = reconstruction_error(state) + sum(term(state) for term in terms)
    loss.backward()
    return float(loss.detach()), {name: p.grad.clone() for name, p in network.named_parameters()}


def relative(a, b):
    return float((a - b).norm() / b.norm().clamp_min(1e-12))


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("batch_size", [1, 5, 16, 36, 37, 100])
@pytest.mark.parametrize("plain", [False, True])
def test_loss_and_every_gradient_are_those_of_the_full_batch(monkeypatch, kind, batch_size, plain):
    monkeypatch.setattr("dcfsc.networks.layers.FEWEST_SAMPLES", 0)
    network, X = network_and_samples(kind)
    network.encoder.plain = network.decoder.plain = plain
    terms = (SelfExpressionTerm(0.3),)
    loss, gradients = full_gradients(network, X, Absolute(0.7), terms)
    network.zero_grad()
    parts, ridge = ChunkedStep(network, X, batch_size, terms)(Absolute(0.7))()
    assert sum(parts.values()) == pytest.approx(loss, rel=1e-9)
    for name, parameter in network.named_parameters():
        assert relative(parameter.grad, gradients[name]) < 1e-8, name
    assert ridge["lam"] == 0.7
    assert 0.0 < ridge["effective_dof"] < N


def test_running_statistics_are_those_of_the_full_batch():
    (ours, X), (theirs, _) = network_and_samples("batch norm"), network_and_samples("batch norm")
    forward(theirs, X, Absolute(0.7))
    ChunkedStep(ours, X, 8)(Absolute(0.7))
    for (name, a), (_, b) in zip(ours.named_buffers(), theirs.named_buffers(), strict=True):
        torch.testing.assert_close(a, b, msg=name)


def test_a_fixed_statistic_would_not_do():
    """The batch norms' dependence on the weights is a real part of the gradient."""
    network, X = network_and_samples("batch norm")
    _, gradients = full_gradients(network, X, Absolute(0.7))
    calibrate_batch_norm(network, X)  # leaves evaluation mode: statistics are constants
    _, frozen = full_gradients(network, X, Absolute(0.7))
    name = next(name for name in gradients if "weight" in name)
    assert relative(frozen[name], gradients[name]) > 1e-2


@pytest.mark.parametrize("kind", SPECS)
def test_steps_of_training_agree(kind):
    histories, weights = [], []
    for batch_size in (None, 7):
        network, X = network_and_samples(kind)
        history = History()
        train(
            network,
            X,
            steps=4,
            lam=ShareOfEnergy(0.01),
            learning_rate=1e-2,
            history=history,
            batch_size=batch_size,
        )
        histories.append(history.column("loss"))
        weights.append(torch.cat([p.detach().flatten() for p in network.parameters()]))
    assert histories[0] == pytest.approx(histories[1], rel=1e-8)
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-6, atol=1e-8)


def test_encoding_in_training_mode_has_the_full_batch_statistics():
    network, X = network_and_samples("batch norm")
    with torch.no_grad():
        whole = network.encoder(X)
    torch.testing.assert_close(encode(network, X, batch_size=6, training=True), whole)
    calibrate_batch_norm(network, X, batch_size=6)
    torch.testing.assert_close(encode(network, X, batch_size=1), whole)
    assert not network.training


def test_the_norms_are_given_back_even_after_an_error():
    network, X = network_and_samples("batch norm")
    with pytest.raises(ZeroDivisionError):
        ChunkedStep(network, X, 8)(lambda Z: 1 / 0)
    norms = [m for m in network.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert norms
    assert all(m.training and "forward" not in m.__dict__ for m in norms)


@pytest.mark.parametrize(("n", "size"), [(10, 3), (10, 10), (10, 11), (1, 1), (7, None)])
def test_chunks_cover_all_and_are_nearly_equal(n, size):
    chunks = chunk_slices(n, size)
    assert [i for c in chunks for i in range(n)[c]] == list(range(n))
    lengths = [c.stop - c.start for c in chunks]
    assert max(lengths) - min(lengths) <= 1
    assert max(lengths) <= (size or n)
