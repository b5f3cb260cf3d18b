"""Training on views: what it lowers, that it is repeatable, and features of a sample alone."""

import copy
import math

import numpy as np
import pytest
import torch

from dcfsc import processes
from dcfsc.errors import DivergenceError
from dcfsc.networks import HeadSpec, ResidualSpec, ViewNetwork
from dcfsc.training import Checkpoint, History
from dcfsc.views import loop as view_loop
from dcfsc.views.augmentations import Views
from dcfsc.views.loop import Schedule, train_views, view_features
from dcfsc.views.losses import Batch, weighted_terms
from dcfsc.views.pseudo_labels import PseudoLabels

SPEC = ResidualSpec((1, 8, 8), (6, 8), 1, hidden=16, projection=8, n_clusters=3)
AUGMENTATIONS = {"geometry": 0.5, "light": 0.5, "contrast": 1.0, "hole": 1.0, "noise": 1.0}


def samples(n=30):
    random = torch.Generator().manual_seed(0)
    patterns = torch.rand(3, 1, 8, 8, generator=random)
    return patterns[torch.arange(n) % 3] + 0.1 * torch.rand(n, 1, 8, 8, generator=random)


def trained(weights=None, steps=12, pseudo_labels=None, seed=0, rate=3e-3, batch=16, **options):
    X = samples()
    network = ViewNetwork(SPEC, torch.Generator().manual_seed(seed))
    pseudo_labels = PseudoLabels(len(X), X.device) if pseudo_labels is None else pseudo_labels
    history = History()
    train_views(
        network,
        X,
        Views((1, 8, 8), AUGMENTATIONS),
        {"contrastive": 1.0} if weights is None else weights,
        Schedule(steps, batch, rate),
        pseudo_labels,
        n_clusters=3,
        generator=torch.Generator().manual_seed(seed),
        history=history,
        **options,
    )
    return network, history


@pytest.mark.parametrize(
    "weights",
    [
        {"contrastive": 1.0},
        {"contrastive": 0.5, "self_expression": 1.0},
    ],
)
def test_training_lowers_the_losses_and_records_each(weights):
    _, history = trained(weights, steps=30)
    idle = trained(weights, steps=30, rate=0.0)[1]  # the same batches and views
    losses, before = (np.array(h.column("loss")) for h in (history, idle))
    assert (losses[-10:] < before[-10:]).all()
    for row in history:
        assert set(weights) < set(row)
        assert row["loss"] == pytest.approx(sum(row[name] for name in weights), rel=1e-5)
        assert row["phase"] == "train"
    assert history.column("step") == list(range(1, 31))


def test_a_long_history_has_means(monkeypatch):
    """Here a look takes three steps; eight steps are many."""
    full = trained(steps=8)[1]
    monkeypatch.setattr(view_loop, "MANY_STEPS", 7)
    monkeypatch.setattr(view_loop, "look_every", lambda device: 3)
    short = trained(steps=8)[1]
    assert short.column("step") == [3, 6, 8]
    means = [np.mean(full.column("contrastive")[i:j]) for i, j in ((0, 3), (3, 6), (6, 8))]
    assert short.column("contrastive") == pytest.approx(means, rel=1e-5)
    assert short.column("loss") == short.column("contrastive")


def test_targets_are_learned():
    pseudo_labels = PseudoLabels(30, torch.device("cpu"))
    pseudo_labels.targets.copy_(torch.arange(30) % 3)
    network, _ = trained({"clusters": 1.0}, steps=30, pseudo_labels=pseudo_labels)
    logits = network(samples())[2]
    assert (logits.argmax(dim=1) == torch.arange(30) % 3).float().mean() > 0.9


def test_samples_that_are_positives_come_close():
    """Samples of the first two patterns are positives; the third one's have none."""
    pseudo_labels = PseudoLabels(30, torch.device("cpu"), k=1)
    pattern = torch.arange(30) % 3
    pseudo_labels.positives[:, 1] = torch.arange(30) + torch.tensor([1, -1, 0])[pattern]
    pseudo_labels.shares[:, 0] = 0.0

    def apart(network):
        Z = view_features(network, samples())
        first, second, third = (Z[pattern == i].mean(dim=0) for i in range(3))
        return float((first - second).norm() / (first - third).norm())

    assert apart(trained(steps=25, pseudo_labels=pseudo_labels)[0]) < 0.5 * apart(
        trained(steps=25)[0]
    )


def test_what_comes_before_a_step_is_called_before_it():
    seen = []
    trained(steps=6, before_step={2: lambda: seen.append(2), 5: lambda: seen.append(5)})
    assert seen == [2, 5]


def test_the_same_seed_gives_the_same_network_and_global_randomness_is_left_alone():
    before = torch.random.get_rng_state()
    one, same, other = (trained(steps=3, seed=s)[0].state_dict() for s in (0, 0, 1))
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_a_diverging_loss_is_told():
    with pytest.raises(DivergenceError, match="learning rate"):
        trained({"contrastive": 1.0}, steps=40, rate=1e30)


def test_the_learning_rate_goes_through_one_cycle():
    schedule = Schedule(100, learning_rate=2.0)
    rates = [schedule.rate(step) for step in range(100)]
    top = int(np.argmax(rates))
    assert 10 <= top <= 20
    assert max(rates) == pytest.approx(2.0, rel=0.01)
    assert all(np.diff(rates[:top]) > 0)
    assert all(np.diff(rates[top + 1 :]) < 0)
    assert 0 < rates[-1] < 0.01
    assert math.isfinite(Schedule(1).rate(0))
    # up from step 0 in the first 15 per cent, which is 15 steps, and down over the other 85
    assert rates[0] == pytest.approx(1 - math.cos(math.pi / 16))
    assert rates[14] == pytest.approx(1 - math.cos(math.pi * 15 / 16))
    assert rates[15] == pytest.approx(2.0)
    assert rates[49] == pytest.approx(1 + math.cos(math.pi * 34 / 85))
    assert rates[99] == pytest.approx(1 + math.cos(math.pi * 84 / 85))


def test_features_of_a_sample_do_not_depend_on_its_company():
    network, _ = trained(steps=3)
    X = samples()
    whole = view_features(network, X)
    torch.testing.assert_close(whole.norm(dim=1), torch.ones(30))
    torch.testing.assert_close(view_features(network, X[7:9]), whole[7:9])


def test_the_learning_rate_by_hand():
    """Fifteen of a hundred steps up, half a cosine of sixteen; the others down, half of 85."""
    schedule = Schedule(100, learning_rate=2.0)
    for step, angle in ((0, 1 / 16), (7, 0.5), (14, 15 / 16)):
        assert schedule.rate(step) == pytest.approx(1 - math.cos(math.pi * angle), rel=1e-12)
    for step, angle in ((15, 0.0), (32, 0.2), (99, 84 / 85)):
        assert schedule.rate(step) == pytest.approx(1 + math.cos(math.pi * angle), rel=1e-12)
    one = Schedule(1, learning_rate=2.0)
    assert one.rate(0) == pytest.approx(1 - math.cos(math.pi / 1.15), rel=1e-12)
    assert one.rate(1) == pytest.approx(1 + math.cos(math.pi * 0.85), rel=1e-12)
    assert (one.batch_size, Schedule(1).learning_rate) == (1024, 3e-3)


HEAD = HeadSpec(6, latent_dim=4, hidden=8, projection=4, n_clusters=2)
WEIGHTS = {"contrastive": 0.7, "clusters": 2.0}
NOISE = {"noise": 1.0, "hole": 1.0}


def taught(n=20):
    """Pseudo-labels in which the next sample is a positive, and some clusters are known."""
    pseudo_labels = PseudoLabels(n, torch.device("cpu"), k=1)
    pseudo_labels.positives[:, 1] = (torch.arange(n) + 1) % n
    pseudo_labels.shares[:, 0] = 0.5
    pseudo_labels.targets.copy_(torch.arange(n) % 3 - 1)
    return pseudo_labels


def vectors(n=20):
    return torch.randn(n, 6, generator=torch.Generator().manual_seed(2))


def run(network, steps, *, batch=8, pseudo_labels=None, history=None, stop=None, **options):
    def end(row):
        if row["step"] == stop:
            raise KeyboardInterrupt

    train_views(
        network,
        vectors(),
        Views((6,), NOISE),
        WEIGHTS,
        Schedule(steps, batch, 0.05),
        taught() if pseudo_labels is None else pseudo_labels,
        n_clusters=2,
        generator=torch.Generator().manual_seed(3),
        history=History(callbacks=[end]) if history is None else history,
        **options,
    )


@pytest.mark.parametrize(("batch", "taken"), [(8, 8), (50, 20)])
def test_training_is_adamw_on_views_of_samples_and_positives(batch, taken):
    """The same steps in plain torch, with the same random numbers."""
    ours, theirs = (ViewNetwork(HEAD, torch.Generator().manual_seed(1)) for _ in range(2))
    history, pseudo_labels, X = History(), taught(), vectors()
    run(ours.eval(), 4, batch=batch, history=history)
    assert not ours.training
    random, views = torch.Generator().manual_seed(3), Views((6,), NOISE)
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=1.0, weight_decay=1e-4)
    theirs.train()
    for step in range(4):
        optimizer.param_groups[0]["lr"] = Schedule(4, batch, 0.05).rate(step)
        rows = torch.randperm(20, generator=random)[:taken]
        positives = torch.where(torch.rand(taken, generator=random) < 0.5, rows, (rows + 1) % 20)
        pairs = torch.cat((rows, positives))
        outputs = theirs(views(X[pairs], random))
        halves = [(part[:taken], part[taken:]) for part in (*outputs, pseudo_labels.targets[pairs])]
        parts = weighted_terms(Batch(*halves, 2), WEIGHTS)
        optimizer.zero_grad()
        sum(parts.values()).backward()
        optimizer.step()
        row = history[step]
        assert (row["phase"], row["step"]) == ("train", step + 1)
        for name, part in parts.items():
            assert row[name] == pytest.approx(float(part.detach()), rel=1e-4)
        assert row["loss"] == pytest.approx(sum(row[name] for name in WEIGHTS), rel=1e-6)
        assert 0.0 <= row["seconds"] < 60.0
    assert len(history) == 4
    for one, other in zip(ours.state_dict().values(), theirs.state_dict().values(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_several_views_are_learned_by_momentum():
    """Four views of each sample, each predicting the others, and SGD: in plain torch."""
    spec = HeadSpec(6, latent_dim=4, hidden=8, projection=4, n_clusters=2, predictor=3)
    ours, theirs = (ViewNetwork(spec, torch.Generator().manual_seed(1)) for _ in range(2))
    schedule, weights = Schedule(4, 8, 0.05, views=4, sgd=True), {"prediction": 1.5}
    options = {"n_clusters": 2, "history": History()}
    random, views, pseudo_labels = torch.Generator().manual_seed(3), Views((6,), NOISE), taught()
    train_views(ours, vectors(), views, weights, schedule, taught(), generator=random, **options)
    random.manual_seed(3)
    optimizer = torch.optim.SGD(theirs.parameters(), lr=1.0, momentum=0.9, weight_decay=5e-4)
    theirs.train()
    for step in range(4):
        optimizer.param_groups[0]["lr"] = schedule.rate(step)
        rows = torch.randperm(20, generator=random)[:8]
        taken = torch.rand(24, generator=random).view(3, 8)
        others = torch.where(taken < 0.5, rows, (rows + 1) % 20)
        samples = torch.cat((rows, *others))
        features, projections, logits, predictions = (
            part.chunk(4) for part in theirs(views(vectors()[samples], random))
        )
        targets = pseudo_labels.targets[samples].chunk(4)
        batch = Batch(features, projections, logits, targets, 2, predictions)
        (loss,) = weighted_terms(batch, weights).values()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert options["history"][step]["prediction"] == pytest.approx(float(loss.detach()))
    for one, other in zip(ours.state_dict().values(), theirs.state_dict().values(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_a_compiled_training_runs_what_the_compiler_made_of_the_network(monkeypatch):
    """It stands in here for a network with other weights, whose losses are then those of a step."""
    asked, other = [], ViewNetwork(HEAD, torch.Generator().manual_seed(9))

    def compiler(network, mode):
        asked.append((network, mode))
        return other

    monkeypatch.setattr(view_loop.torch, "compile", compiler)
    losses = []
    for network, compiled in ((copy.deepcopy(other), False), (ViewNetwork(HEAD), True)):
        history, random = History(), torch.Generator().manual_seed(3)
        arguments = vectors(), Views((6,), NOISE), WEIGHTS, Schedule(1, 8), taught()
        options = {"n_clusters": 2, "generator": random, "history": history}
        train_views(network, *arguments, **options, compiled=compiled)
        losses += history.column("loss")
    assert asked == [(network, "reduce-overhead")]
    assert losses[1] == losses[0]


@pytest.mark.parametrize("stop", [1, 3])
def test_training_goes_on_where_it_stopped(tmp_path, stop):
    """Weights, averages, random numbers, history and pseudo-labels are those of one training."""
    file = tmp_path / "checkpoint.safetensors"
    seeds = (torch.Generator().manual_seed(s) for s in (1, 1, 2))
    whole, stopped, resumed = (ViewNetwork(HEAD, seed) for seed in seeds)
    expected, history = History(), History()
    calls = []

    def teach(pseudo_labels):
        def relabel():
            calls.append(1)
            pseudo_labels.targets.fill_(1)

        return {2: relabel}

    first, second, third = taught(), taught(), taught()
    run(whole, 5, pseudo_labels=first, history=expected, before_step=teach(first))
    with pytest.raises(KeyboardInterrupt):
        run(
            stopped,
            5,
            pseudo_labels=second,
            stop=stop + 1,
            before_step=teach(second),
            checkpoint=Checkpoint(file, "a run", every=0),
        )
    calls.clear()
    run(
        resumed,
        5,
        pseudo_labels=third,
        history=history,
        before_step=teach(third),
        checkpoint=Checkpoint(file, "a run", every=0),
    )
    assert len(calls) == (stop < 2)
    assert [row["loss"] for row in history] == [row["loss"] for row in expected]
    assert history.column("step") == [1, 2, 3, 4, 5]
    for one, other in zip(whole.state_dict().values(), resumed.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    assert (third.targets == 1).all()


def test_what_is_called_may_leave_the_network_in_evaluation_mode():
    network, modes = ViewNetwork(HEAD), []
    network.register_forward_hook(lambda module, *_: modes.append(module.training))
    run(network, 3, before_step={2: network.eval})
    assert modes == [True, True, True]


def test_a_network_on_the_cpu_stays_as_it_lies():
    network, _ = trained(steps=2)
    assert all(p.is_contiguous() for p in network.parameters())


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_networks_and_features_have_the_precision_asked_for(precision):
    network, seen = ViewNetwork(HEAD), []
    network.projector[0].register_forward_hook(lambda m, x, y: seen.append(y.dtype))
    run(network, 1, precision=precision)
    assert seen == [getattr(torch, precision)]
    exact = view_features(network, vectors())
    features = view_features(network, vectors(), precision)
    assert features.dtype == torch.float32
    assert torch.equal(features, exact) == (precision == "float32")
    torch.testing.assert_close(features, exact, rtol=0, atol=0.05)


def test_features_are_computed_in_chunks_of_unit_length(monkeypatch):
    network = ViewNetwork(HEAD).train()
    monkeypatch.setattr(view_loop, "evaluation_chunk", lambda X: 7)
    features = view_features(network, vectors())
    assert not network.training
    with torch.no_grad():
        Z = network.encoder(vectors())
    torch.testing.assert_close(features, Z / Z.norm(dim=1, keepdim=True))


def test_a_process_puts_its_rows_where_they_belong(monkeypatch):
    """The other processes' rows are zero here, and added by what connects them."""
    output = torch.ones(3, 2, dtype=torch.bfloat16)
    assert view_loop._whole(output, slice(2, 5), 7) is output
    monkeypatch.setattr(processes, "active", lambda: True)
    monkeypatch.setattr(processes, "differentiable_total", lambda rows: 2 * rows)
    expected = 2.0 * torch.tensor([0.0, 0, 1, 1, 1, 0, 0])[:, None].expand(7, 2)
    torch.testing.assert_close(view_loop._whole(output, slice(2, 5), 7), expected)
    wide = view_loop._whole(output.double(), slice(2, 5), 7)
    torch.testing.assert_close(wide, expected.double())


def test_a_process_of_two_has_half_of_the_gradient(monkeypatch):
    """Here both see the whole batch: half of the loss each, summed over the two."""
    alone, one = (ViewNetwork(HEAD, torch.Generator().manual_seed(1)) for _ in range(2))
    X, pseudo_labels, views = vectors(), taught(), Views((6,), NOISE)
    options = (X, views, WEIGHTS, pseudo_labels, 2, "float32")
    whole = view_loop._Step(alone, *options)(8, torch.Generator().manual_seed(3))
    monkeypatch.setattr(processes, "size", lambda: 2)
    monkeypatch.setattr(processes, "shard", lambda n, rank, size: slice(0, n))
    half = view_loop._Step(one, *options)(8, torch.Generator().manual_seed(3))
    assert whole == half
    for a, b in zip(alone.parameters(), one.parameters(), strict=True):
        torch.testing.assert_close(a.grad, 2 * b.grad)


def test_weights_that_no_loss_depends_on_decay_slowly():
    """By one part in ten thousand of the learning rate a step, as without targets."""
    network = ViewNetwork(HEAD, torch.Generator().manual_seed(1))
    before = network.clusters.weight.detach().clone()
    schedule = Schedule(2, 8, 100.0)
    train_views(
        network,
        vectors(),
        Views((6,), NOISE),
        {"clusters": 1.0},
        schedule,
        PseudoLabels(20, torch.device("cpu")),
        n_clusters=2,
        generator=torch.Generator(),
        history=History(),
    )
    kept = (1 - 1e-4 * schedule.rate(0)) * (1 - 1e-4 * schedule.rate(1))
    assert kept < 0.995
    torch.testing.assert_close(network.clusters.weight.detach(), kept * before)


def test_gradients_are_summed_over_processes_before_a_step(monkeypatch):
    """Processes that are told to bring nothing leave the weights where they were."""
    network = ViewNetwork(HEAD, torch.Generator().manual_seed(1))
    before = network.projector[0].weight.detach().clone()
    monkeypatch.setattr(view_loop, "WEIGHT_DECAY", 0.0)
    monkeypatch.setattr(view_loop, "sum_gradients", lambda network: network.zero_grad())
    run(network, 1)
    assert not torch.equal(network.projector[0].weight, before)
    network = ViewNetwork(HEAD, torch.Generator().manual_seed(1))
    monkeypatch.setattr(processes, "active", lambda: True)
    monkeypatch.setattr(processes, "rank", lambda: 0)
    monkeypatch.setattr(processes, "size", lambda: 1)
    monkeypatch.setattr(processes, "total", lambda tensor: tensor)
    monkeypatch.setattr(processes, "differentiable_total", lambda tensor: tensor)
    run(network, 1)
    assert torch.equal(network.projector[0].weight, before)


@pytest.fixture
def slow_device(monkeypatch):
    """A device that is done 1.5 seconds after somebody begins to wait for it."""
    now = [10.0]

    def wait(tensor, tolist=torch.Tensor.tolist):
        now[0] += 1.5
        return tolist(tensor)

    monkeypatch.setattr(torch.Tensor, "tolist", wait)
    monkeypatch.setattr(view_loop.time, "perf_counter", lambda: now[0])


PARTS = [{"a": torch.tensor(1.0 * i), "b": torch.tensor(10.0 * i)} for i in (1, 2, 3)]


def test_rows_of_several_steps_are_recorded_at_once(slow_device):
    history = History()
    view_loop._record(PARTS, 7, 10.0, Schedule(10), history)
    assert history.column("step") == [5, 6, 7]
    assert history.column("loss") == [11.0, 22.0, 33.0]
    assert (history.column("a"), history.column("b")) == ([1.0, 2.0, 3.0], [10.0, 20.0, 30.0])
    assert history.column("seconds") == [0.5] * 3


def test_a_row_of_a_long_training_is_the_mean_of_its_steps(slow_device):
    history = History()
    view_loop._record(PARTS, 7, 10.0, Schedule(view_loop.MANY_STEPS + 1), history)
    assert (history.column("step"), history.column("loss")) == ([7], [22.0])
    assert history.column("seconds") == [0.5]
