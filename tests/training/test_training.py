from types import SimpleNamespace

import pytest
import torch
from samples import SelfExpressionTerm
from torch import nn

from dcfsc.errors import InputError
from dcfsc.self_expression import solve
from dcfsc.training import (
    Absolute,
    History,
    ShareOfEnergy,
    calibrate_batch_norm,
    encode,
    forward,
    pretrain,
    train,
)


class Tiny(nn.Module):
    """A linear auto-encoder with batch norm on request."""

    def __init__(self, features=6, latent=4, batch_norm=False, dtype=torch.float64):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        layers = [nn.Linear(features, latent, dtype=dtype)]
        if batch_norm:
            layers.append(nn.BatchNorm1d(latent, dtype=dtype))
        self.encoder = nn.Sequential(*layers)
        self.decoder = nn.Linear(latent, features, dtype=dtype)
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(torch.randn(p.shape, dtype=dtype, generator=generator) * 0.3)


def samples(n=20, dtype=torch.float64):
    return torch.randn(n, 6, dtype=dtype, generator=torch.Generator().manual_seed(1))


def test_a_step_is_algorithm_2():
    """Loss and every gradient equal the paper's listing written out with a detached B."""
    X, network = samples(), Tiny()
    state, operator = forward(network, X, Absolute(0.5))
    (state.reconstruction - X).square().sum().backward()
    ours = [p.grad.clone() for p in network.parameters()]
    network.zero_grad()
    Z = network.encoder(X)
    P = torch.linalg.inv(Z @ Z.T + 0.5 * torch.eye(len(X), dtype=X.dtype))
    B = (-P / P.diagonal()[:, None]).fill_diagonal_(0.0).detach()
    (network.decoder(B @ Z) - X).square().sum().backward()
    for a, p in zip(ours, network.parameters(), strict=True):
        torch.testing.assert_close(a, p.grad)
    torch.testing.assert_close(operator.dense(), B)


def test_training_lowers_the_loss_and_records_each_step():
    X, network, seen = samples(), Tiny(), []
    history = History(callbacks=[seen.append])
    train(network, X, steps=60, lam=Absolute(0.1), learning_rate=1e-2, history=history)
    losses = history.column("loss", phase="train")
    assert len(losses) == 60 == len(seen)
    assert losses[-1] < losses[0]
    assert {"phase", "step", "loss", "seconds", "lam", "effective_dof"} <= set(history[0])


def test_pretraining_is_seeded_and_leaves_the_global_generator_alone():
    losses, networks = [], [Tiny(), Tiny()]
    before = torch.random.get_rng_state()
    for network in networks:
        history = History()
        pretrain(
            network,
            samples(),
            epochs=3,
            batch_size=7,
            learning_rate=1e-2,
            generator=torch.Generator().manual_seed(4),
            history=history,
        )
        losses.append(history.column("loss"))
    assert losses[0] == losses[1]
    assert torch.equal(before, torch.random.get_rng_state())


def test_added_terms_enter_the_loss_and_the_history():
    X = samples()
    history = History()
    term = SelfExpressionTerm(weight=2.0)
    train(Tiny(), X, steps=1, lam=Absolute(0.5), learning_rate=0.0, history=history, terms=[term])
    state, _ = forward(Tiny(), X, Absolute(0.5))
    expected = (state.latent - state.expressed).square().sum().item()
    assert history[0]["self_expression"] == pytest.approx(expected)
    assert history[0]["loss"] == pytest.approx(expected + history[0]["reconstruction"])


def test_a_share_of_the_energy_keeps_the_degrees_of_freedom_at_any_scale():
    Z = samples(40)
    rule = ShareOfEnergy.for_dof(Z, 3.0)
    for scale in (1e-3, 1.0, 1e4):
        assert solve(Z * scale, rule(Z * scale)).effective_dof == pytest.approx(3.0, rel=1e-6)


def test_a_diverging_loss_is_named():
    network = SimpleNamespace(
        encoder=lambda X: X, decoder=lambda Z: Z * w, train=lambda: None, parameters=lambda: [w]
    )
    w = torch.tensor(float("inf"), requires_grad=True, dtype=torch.float64)
    with pytest.raises(InputError, match="learning rate"):
        train(network, samples(), steps=1, lam=Absolute(1.0), learning_rate=1.0, history=History())


def test_calibrated_batch_norm_encodes_a_sample_alone_as_within_the_batch():
    X, network = samples(50), Tiny(batch_norm=True)
    within = encode(network, X, training=True)
    calibrate_batch_norm(network, X)
    assert not network.training
    alone = torch.cat([encode(network, x) for x in X.split(1)])
    # The running variance is the unbiased one; the batch's own is not.
    torch.testing.assert_close(alone * (50 / 49) ** 0.5, within, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(alone, encode(network, X))
