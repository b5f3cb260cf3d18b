"""Training on views: what it lowers, that it is repeatable, and features of a sample alone."""

import math

import numpy as np
import pytest
import torch

from dcfsc.errors import DivergenceError
from dcfsc.networks import ResidualSpec, ViewNetwork
from dcfsc.training import History, Views
from dcfsc.training.view_lessons import Lessons
from dcfsc.training.view_loop import Schedule, train_views, view_features

SPEC = ResidualSpec((1, 8, 8), (6, 8), 1, hidden=16, projection=8, n_clusters=3)
CHANGES = {"geometry": 0.5, "light": 0.5, "contrast": 1.0, "hole": 1.0, "noise": 1.0}


def samples(n=30):
    random = torch.Generator().manual_seed(0)
    patterns = torch.rand(3, 1, 8, 8, generator=random)
    return patterns[torch.arange(n) % 3] + 0.1 * torch.rand(n, 1, 8, 8, generator=random)


def trained(weights=None, steps=12, lessons=None, seed=0, rate=3e-3, batch=16, **options):
    X = samples()
    network = ViewNetwork(SPEC, torch.Generator().manual_seed(seed))
    lessons = Lessons(len(X), X.device) if lessons is None else lessons
    history = History()
    train_views(
        network,
        X,
        Views((1, 8, 8), CHANGES),
        {"contrastive": 1.0} if weights is None else weights,
        Schedule(steps, batch, rate),
        lessons,
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
        {"coding_rate": 0.1, "agreement": 5.0},
        {"coding_rate": 0.1, "agreement": 1.0, "self_expression": 1.0},
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


def test_targets_are_learnt():
    lessons = Lessons(30, torch.device("cpu"))
    lessons.targets.copy_(torch.arange(30) % 3)
    network, _ = trained({"clusters": 1.0}, steps=30, lessons=lessons)
    logits = network(samples())[2]
    assert (logits.argmax(dim=1) == torch.arange(30) % 3).float().mean() > 0.9


def test_samples_that_are_partners_come_close():
    """Samples of the first two patterns are partners; the third one's have none."""
    lessons = Lessons(30, torch.device("cpu"), k=1)
    pattern = torch.arange(30) % 3
    lessons.partners[:, 1] = torch.arange(30) + torch.tensor([1, -1, 0])[pattern]
    lessons.shares[:, 0] = 0.0

    def apart(network):
        Z = view_features(network, samples())
        first, second, third = (Z[pattern == i].mean(dim=0) for i in range(3))
        return float((first - second).norm() / (first - third).norm())

    assert apart(trained(steps=25, lessons=lessons)[0]) < 0.5 * apart(trained(steps=25)[0])


def test_lessons_come_at_their_steps():
    seen = []
    trained(steps=6, lessons_at={2: lambda: seen.append(2), 5: lambda: seen.append(5)})
    assert seen == [2, 5]


def test_the_same_seed_gives_the_same_network_and_global_randomness_is_left_alone():
    before = torch.random.get_rng_state()
    one, same, other = (trained(steps=3, seed=s)[0].state_dict() for s in (0, 0, 1))
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_a_diverging_loss_is_told():
    with pytest.raises(DivergenceError, match="learning rate"):
        trained({"agreement": 1.0, "coding_rate": 1.0}, steps=40, rate=1e20)


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
