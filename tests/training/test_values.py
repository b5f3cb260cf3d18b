"""Training against the same steps written out in plain torch, and its parts by hand."""

import copy
from itertools import pairwise

import numpy as np
import pytest
import torch
from samples import SelfExpressionTerm
from torch import nn

from dcfsc import processes
from dcfsc.errors import InputError
from dcfsc.training import (
    Absolute,
    Checkpoint,
    ChunkedStep,
    DSCLoss,
    History,
    ShareOfEnergy,
    chunked,
    encode,
    pretrain,
    train,
    train_dsc,
)
from dcfsc.training.chunked import chunk_slices, evaluation_chunk
from dcfsc.training.loop import _Batches, check_finite, reconstruction_gradient
from dcfsc.training.loss import energy
from dcfsc.training.norms import ExactNorms, sum_gradients


class Tiny(nn.Module):
    def __init__(self, dtype=torch.float64, seed=0):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 4), nn.Tanh()).to(dtype)
        self.decoder = nn.Linear(4, 6).to(dtype)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(torch.randn(p.shape, dtype=dtype, generator=generator) * 0.4)


def samples(n=20, dtype=torch.float64):
    return torch.randn(n, 6, dtype=dtype, generator=torch.Generator().manual_seed(1))


def dense_B(Z, lam):
    P = torch.linalg.inv(Z @ Z.mT + lam * torch.eye(len(Z), dtype=Z.dtype))
    return (-P / P.diagonal()[:, None]).fill_diagonal_(0.0).detach()


def weights(network):
    return torch.cat([p.detach().flatten() for p in network.parameters()])


@pytest.mark.parametrize("batch_size", [None, 6])
def test_training_is_adam_on_algorithm_2(batch_size):
    X, ours, theirs, history = samples(), Tiny().eval(), Tiny(), History()
    train(
        ours,
        X,
        steps=5,
        lam=ShareOfEnergy(0.02),
        learning_rate=1e-2,
        history=history,
        terms=[SelfExpressionTerm(0.3)],
        batch_size=batch_size,
    )
    optimizer = torch.optim.Adam(theirs.parameters(), lr=1e-2)
    for step in range(1, 6):
        optimizer.zero_grad()
        Z = theirs.encoder(X)
        lam = 0.02 * float(Z.detach().square().sum())
        B = dense_B(Z.detach(), lam)
        reconstruction = (theirs.decoder(B @ Z) - X).square().sum()
        expression = 0.15 * (Z - B @ Z).square().sum()
        (reconstruction + expression).backward()
        optimizer.step()
        s = torch.linalg.svdvals(Z.detach()).square()
        row = history[step - 1]
        assert (row["phase"], row["step"]) == ("train", step)
        assert row["reconstruction"] == pytest.approx(float(reconstruction.detach()), rel=1e-9)
        assert row["self_expression"] == pytest.approx(float(expression.detach()), rel=1e-9)
        assert row["loss"] == pytest.approx(row["reconstruction"] + row["self_expression"])
        assert row["lam"] == pytest.approx(lam, rel=1e-9)
        assert row["effective_dof"] == pytest.approx(float((s / (s + lam)).sum()), rel=1e-9)
        assert 0.0 <= row["seconds"] < 60.0
    assert len(history) == 5
    assert ours.training
    torch.testing.assert_close(weights(ours), weights(theirs), rtol=1e-9, atol=1e-11)


def test_without_terms_a_row_has_no_parts():
    history = History()
    train(Tiny(), samples(), steps=1, lam=Absolute(1.0), learning_rate=0.0, history=history)
    assert set(history[0]) == {"phase", "step", "loss", "seconds", "lam", "effective_dof"}


def test_pretraining_is_adam_over_shuffled_batches():
    X, ours, theirs, history = samples(), Tiny().eval(), Tiny(), History()
    pretrain(
        ours,
        X,
        epochs=4,
        batch_size=7,
        learning_rate=1e-2,
        generator=torch.Generator().manual_seed(3),
        history=history,
    )
    optimizer = torch.optim.Adam(theirs.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(3)
    for epoch in range(1, 5):
        total = 0.0
        for batch in torch.randperm(20, generator=generator).tensor_split(3):
            optimizer.zero_grad()
            loss = (theirs.decoder(theirs.encoder(X[batch])) - X[batch]).square().sum()
            loss.backward()
            optimizer.step()
            total += float(loss.detach())
        row = history[epoch - 1]
        assert (row["phase"], row["step"]) == ("pretrain", epoch)
        assert row["loss"] == pytest.approx(total, rel=1e-12)
        assert 0.0 <= row["seconds"] < 60.0
    assert len(history) == 4
    assert ours.training
    torch.testing.assert_close(weights(ours), weights(theirs), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("n", "size", "lengths"),
    [(20, 7, [7, 7, 6]), (21, 20, [21]), (5, 100, [5]), (9, 2, [3, 2, 2, 2]), (4, 4, [4])],
)
def test_mini_batches_are_nearly_equal_and_hold_every_sample_once(n, size, lengths):
    batches = list(_Batches(n, size, torch.device("cpu")).shuffled(torch.Generator()))
    assert [len(b) for b in batches] == lengths
    assert sorted(torch.cat(batches).tolist()) == list(range(n))


def test_dsc_is_adam_on_equation_3():
    X, ours, theirs, history = samples(), Tiny().eval(), Tiny(), History()
    start = torch.full((20, 20), 1e-2, dtype=X.dtype)
    loss = DSCLoss(coefficients=0.7, self_expression=0.4)
    C = train_dsc(ours, X, start, loss, steps=4, learning_rate=1e-2, history=history)
    D = start.clone().requires_grad_()
    optimizer = torch.optim.Adam([*theirs.parameters(), D], lr=1e-2)
    for row in history:
        optimizer.zero_grad()
        Z = theirs.encoder(X)
        parts = {
            "reconstruction": 0.5 * (theirs.decoder(D @ Z) - X).square().sum(),
            "coefficients": 0.7 * D.square().sum(),
            "self_expression": 0.2 * (Z - D @ Z).square().sum(),
        }
        total = sum(parts.values())
        total.backward()
        optimizer.step()
        for name, part in parts.items():
            assert row[name] == pytest.approx(float(part.detach()), rel=1e-9)
        assert row["loss"] == pytest.approx(float(total.detach()), rel=1e-9)
        assert 0.0 <= row["seconds"] < 60.0
    assert [row["step"] for row in history] == [1, 2, 3, 4]
    assert ours.training
    torch.testing.assert_close(C, D.detach(), rtol=1e-9, atol=1e-12)


def test_the_energy_is_the_sum_of_squares_of_all_rows():
    Z = np.random.default_rng(0).normal(size=((1 << 16) + 300, 2))
    assert energy(torch.from_numpy(Z)) == pytest.approx(float((Z**2).sum()), rel=1e-12)
    assert ShareOfEnergy(0.3)(torch.from_numpy(Z)) == pytest.approx(0.3 * float((Z**2).sum()))
    assert 0.0 < energy(torch.zeros(3, 2)) < 1e-200  # dead latents still have a lam


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), -float("inf")])
def test_a_loss_that_is_no_number_ends_training(loss):
    with pytest.raises(InputError, match="training step 7; lower the learning rate"):
        check_finite(loss, "training", 7, 0.1)
    check_finite(-1e300, "training", 7, 0.1)


@pytest.mark.parametrize(
    ("n", "size", "bounds"),
    [(7, None, [0, 7]), (7, 7, [0, 7]), (7, 6, [0, 3, 7]), (8, 3, [0, 2, 5, 8]), (0, 3, [0, 0])],
)
def test_chunks_by_hand(n, size, bounds):
    assert [(c.start, c.stop) for c in chunk_slices(n, size)] == list(pairwise(bounds))


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("momentum", [0.1, 0.3, None])
def test_measured_statistics_are_those_of_torch(affine, momentum):
    """One pass of all samples through torch's own norms, and its running averages."""
    theirs = nn.Sequential(
        nn.Conv2d(2, 3, 3, dtype=torch.float64),
        nn.BatchNorm2d(3, affine=affine, momentum=momentum, eps=0.05, dtype=torch.float64),
    ).train()
    ours = copy.deepcopy(theirs)
    X = torch.randn(11, 2, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        expected = theirs(X)
    norms = ExactNorms(ours)
    chunks = [X[:4], X[4:5], X[5:]]
    with norms.installed():
        assert not ours[1].training
        norms.measure(chunks, ours)
        got = torch.cat([ours(x) for x in chunks]).detach()
    assert ours[1].training
    assert len(norms) == 1
    torch.testing.assert_close(got, expected)
    assert int(ours[1].num_batches_tracked) == 1
    if momentum is not None:  # without one, PyTorch averages over all batches; here it stays
        torch.testing.assert_close(ours[1].running_mean, theirs[1].running_mean)
        torch.testing.assert_close(ours[1].running_var, theirs[1].running_var)
    norms.fix_running_statistics()
    inner = ours[0](X).detach()
    torch.testing.assert_close(ours[1].running_mean, inner.mean((0, 2, 3)))
    torch.testing.assert_close(ours[1].running_var, inner.var((0, 2, 3), correction=0))


def test_a_norm_that_is_not_reached_is_named():
    network = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    norms = ExactNorms(network)
    with norms.installed(), pytest.raises(RuntimeError, match="not reached"):
        norms.measure([torch.ones(3, 2)], network[0])
    with norms.installed(), pytest.raises(RuntimeError, match="another order"):
        ExactNorms(network)._layers[0](torch.ones(3, 2))


def test_parameters_without_a_gradient_get_a_zero_one():
    network = Tiny()
    network.encoder(samples()).sum().backward()
    sum_gradients(network)
    assert torch.equal(network.decoder.weight.grad, torch.zeros_like(network.decoder.weight))
    assert float(network.encoder[0].weight.grad.abs().sum()) > 0


def test_the_weights_of_equation_3_are_one_and_the_reconstruction_counts_half():
    X, network = samples(), Tiny()
    C = torch.randn(20, 20, dtype=X.dtype, generator=torch.Generator().manual_seed(5))
    Z = network.encoder(X)
    parts = DSCLoss()(X, Z, network, C)
    expected = {
        "reconstruction": 0.5 * (network.decoder(C @ Z) - X).square().sum(),
        "coefficients": C.square().sum(),
        "self_expression": 0.5 * (Z - C @ Z).square().sum(),
    }
    assert parts.keys() == expected.keys()
    for name, part in parts.items():
        torch.testing.assert_close(part, expected[name])


class Sleeping(Tiny):
    """With a weight that no loss depends on."""

    def __init__(self):
        super().__init__()
        self.unused = nn.Parameter(torch.ones(3, dtype=torch.float64))


def test_weights_without_influence_have_a_gradient_of_zero():
    network = Sleeping()
    ChunkedStep(network, samples(), 6)(Absolute(0.5))
    torch.testing.assert_close(network.unused.grad, torch.zeros(3, dtype=torch.float64))


@pytest.mark.parametrize(
    ("width", "batch_size", "expected"),
    [
        (1, None, 4096),
        (1, 100, 100),
        (1 << 14, None, 1024),
        (1 << 14, 500, 500),
        (1 << 14, 5000, 1024),
        (1 << 24, None, 1),
        (1 << 25, None, 1),
    ],
)
def test_samples_encoded_at_a_time_hold_64_mebibytes_at_most(width, batch_size, expected):
    X = torch.zeros(1).expand(3, width)
    assert evaluation_chunk(X, batch_size) == expected


def test_statistics_are_constants_again_once_differentiated():
    network = nn.Sequential(
        nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 3), nn.BatchNorm1d(3)
    ).double()
    norms, X = ExactNorms(network), samples()
    with norms.installed():
        norms.measure([X[:9], X[9:]], network)
        norms.differentiate([X[:9], X[9:]], lambda x: network(x).square().sum())
        assert not any(s.requires_grad for layer in norms._layers for s in layer.statistics)


def test_pretraining_goes_on_where_it_stopped(tmp_path):
    file = tmp_path / "checkpoint.safetensors"
    options = {"batch_size": 10, "learning_rate": 1e-3}

    def run(network, epochs, checkpoint=None):
        history, generator = History(), torch.Generator().manual_seed(4)
        passes = []
        network.encoder.register_forward_hook(lambda *_: passes.append(1))
        pretrain(
            network,
            samples(),
            epochs=epochs,
            generator=generator,
            history=history,
            checkpoint=checkpoint,
            **options,
        )
        return history, len(passes)

    whole = Tiny()
    expected, all_passes = run(whole, 5)
    assert all_passes == 10
    run(Tiny(), 3, Checkpoint(file, "one", every=0))
    resumed = Tiny(seed=9)  # its weights are to come from the file
    history, passes = run(resumed, 5, Checkpoint(file, "one", every=0))
    assert passes == 4
    assert [row["step"] for row in history] == [1, 2, 3, 4, 5]
    assert [row["loss"] for row in history] == [row["loss"] for row in expected]
    torch.testing.assert_close(weights(resumed), weights(whole), rtol=0, atol=0)


def test_two_processes_sum_their_gradients(monkeypatch):
    """The other process is one with the same samples: every sum is twice what is here."""
    monkeypatch.setattr(processes, "active", lambda: True)
    monkeypatch.setattr(processes, "total", lambda tensor: tensor.mul_(2))
    ours, theirs = Tiny(), Tiny()
    X = samples()
    value = reconstruction_gradient(ours, X)
    loss = (theirs.decoder(theirs.encoder(X)) - X).square().sum()
    loss.backward()
    assert value == pytest.approx(float(loss.detach()))
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, 2 * other.grad)
    assert reconstruction_gradient(Tiny(), X[:0]) == 0.0


class Normed(nn.Module):
    """A linear auto-encoder with a batch norm."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.encoder = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4)).double()
        self.decoder = nn.Linear(4, 6).double()
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(torch.randn(p.shape, generator=generator, dtype=p.dtype))

    def forward(self, x):
        return self.decoder(self.encoder(x))


def test_a_divided_mini_batch_has_the_statistics_of_the_whole(monkeypatch):
    ours, theirs, X = Normed(), Normed(), samples()
    loss = (theirs(X) - X).square().sum()
    loss.backward()
    monkeypatch.setattr(processes, "active", lambda: True)
    monkeypatch.setattr(processes, "total", lambda tensor: tensor)
    value = reconstruction_gradient(ours, X)
    assert value == pytest.approx(float(loss.detach()))
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-9, atol=1e-9)


def test_samples_are_encoded_by_chunks_in_both_modes():
    network, X, sizes = Tiny(), samples(), []
    network.encoder.register_forward_hook(lambda module, given, result: sizes.append(len(result)))
    whole = encode(network, X)
    assert sizes == [20]
    assert not network.training
    torch.testing.assert_close(encode(network, X, batch_size=8), whole)
    assert sizes[1:] == [6, 7, 7]
    torch.testing.assert_close(encode(network, X, batch_size=8, training=True), whole)
    assert network.training
    assert sizes[4:] == [6, 7, 7]


def test_a_step_of_one_of_several_processes_takes_the_form_of_features(monkeypatch):
    """Which sums over processes; and its loss is what they have together."""
    forms, network, X = [], Tiny(), samples(4)
    original = chunked.solve

    def solve(Z, lam):
        operator = original(Z, lam)
        forms.append(type(operator).__name__)
        return operator

    monkeypatch.setattr(chunked, "solve", solve)
    ChunkedStep(network, X, 8)(Absolute(0.5))
    monkeypatch.setattr(processes, "active", lambda: True)
    monkeypatch.setattr(processes, "total", lambda tensor: tensor)
    history = History()
    train(network, X, steps=1, lam=Absolute(0.5), learning_rate=0.0, history=history)
    assert forms == ["SampleForm", "FeatureForm"]
    B = dense_B(network.encoder(X).detach(), 0.5)
    expected = (network.decoder(B @ network.encoder(X)) - X).square().sum()
    assert history[0]["loss"] == pytest.approx(float(expected.detach()), rel=1e-9)


def test_each_process_takes_its_own_samples_of_a_mini_batch(monkeypatch):
    """The second of two processes, with three and five samples."""
    monkeypatch.setattr(processes, "active", lambda: True)
    monkeypatch.setattr(processes, "rank", lambda: 1)
    monkeypatch.setattr(processes, "row_counts", lambda n, device: [3, n])
    batches = _Batches(5, 4, torch.device("cpu"))
    found = list(batches.shuffled(torch.Generator().manual_seed(0)))
    order = torch.randperm(8, generator=torch.Generator().manual_seed(0)).tolist()
    expected = [[i - 3 for i in order[a : a + 4] if i >= 3] for a in (0, 4)]
    assert [batch.tolist() for batch in found] == expected


class OfReconstruction:
    """A term that does not read the latents."""

    name = "size"

    def __call__(self, state):
        return 0.1 * state.reconstruction.square().sum()


def test_a_term_may_leave_the_latents_alone():
    X, ours, theirs = samples(), Tiny(), Tiny()
    parts, _ = ChunkedStep(ours, X, 6, (OfReconstruction(),))(Absolute(0.5))()
    Z = theirs.encoder(X)
    decoded = theirs.decoder(dense_B(Z.detach(), 0.5) @ Z)
    expected = {
        "reconstruction": (decoded - X).square().sum(),
        "size": 0.1 * decoded.square().sum(),
    }
    sum(expected.values()).backward()
    assert parts == {name: pytest.approx(float(v.detach())) for name, v in expected.items()}
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-9, atol=1e-9)


def test_a_diverging_epoch_is_told():
    network = Tiny()
    options = {"batch_size": 20, "generator": torch.Generator(), "history": History()}
    with pytest.raises(InputError, match="pre-training step 1; lower the learning rate"):
        pretrain(network, 1e200 * samples(), epochs=2, learning_rate=0.1, **options)


def test_norms_may_keep_no_averages_and_see_no_variance():
    """Without weights or running statistics; one of the channels is constant."""
    norm = nn.BatchNorm1d(3, affine=False, track_running_stats=False, eps=0.25)
    X = samples(8)[:, :3].clone()
    X[:, 1] = 2.5
    norms = ExactNorms(norm)
    with norms.installed():
        norms.measure([X[:3], X[3:]], norm)
        found = norm(X)
    expected = (X - X.mean(dim=0)) / (X.var(dim=0, correction=0) + 0.25).sqrt()
    torch.testing.assert_close(found, expected)
    norms.fix_running_statistics()
    assert (norm.running_mean, norm.running_var, norm.num_batches_tracked) == (None, None, None)


def test_a_norm_of_one_value_has_no_variance():
    norm, X = nn.BatchNorm1d(2, momentum=1.0).double(), torch.tensor([[3.0, -1.0]]).double()
    norms = ExactNorms(norm)
    with norms.installed():
        norms.measure([X], norm)
        torch.testing.assert_close(norm(X), torch.zeros_like(X))
    torch.testing.assert_close(norm.running_mean, X[0])
    torch.testing.assert_close(norm.running_var, torch.zeros(2, dtype=torch.float64))
