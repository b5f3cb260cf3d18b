"""Losses on views: values from their definitions, and gradients in float64."""

import math

import pytest
import torch
import torch.nn.functional as F

from dcfsc.self_expression import solve
from dcfsc.views.losses import (
    SMOOTHING,
    TEMPERATURE,
    TERMS,
    Batch,
    layer_lam,
    weighted_terms,
)

N, D, K = 7, 4, 3


def parts(seed=0, grad=False):
    random = torch.Generator().manual_seed(seed)
    return [
        torch.randn(N, width, dtype=torch.float64, generator=random).requires_grad_(grad)
        for width in (D, D, 5, 5, K, K, 5, 5)
    ]


TARGETS = (torch.tensor([0, 1, 2, -1, 0, 1, 2]), torch.tensor([0, 1, 1, -1, -1, 1, 2]))


def batch(made):
    pairs = [tuple(made[i : i + 2]) for i in (0, 2, 4, 6)]
    return Batch(*pairs[:3], TARGETS, K, pairs[3])


def test_contrastive_is_the_cross_entropy_over_all_other_views():
    made = parts()
    p = F.normalize(torch.cat(made[2:4]), dim=1)
    losses = []
    for i in range(2 * N):
        positive = (i + N) % (2 * N)
        others = [math.exp(float(p[i] @ p[j]) / TEMPERATURE) for j in range(2 * N) if j != i]
        losses.append(-float(p[i] @ p[positive]) / TEMPERATURE + math.log(sum(others)))
    expected = sum(losses) / len(losses)
    assert float(TERMS["contrastive"](batch(made))) == pytest.approx(expected, rel=1e-10)


def test_clusters_leave_samples_without_a_target_out():
    made = parts()
    logits, targets = torch.cat(made[4:6]), torch.cat(TARGETS)
    known = targets >= 0
    log = F.log_softmax(logits[known], dim=1)
    right = log.gather(1, targets[known, None])[:, 0]
    expected = -((1 - SMOOTHING) * right + SMOOTHING * log.mean(dim=1)).mean()
    torch.testing.assert_close(TERMS["clusters"](batch(made)), expected)
    unknown = Batch((), (), tuple(made[4:6]), (torch.full((N,), -1),) * 2, K)
    assert float(TERMS["clusters"](unknown)) == 0.0


def test_self_expression_is_the_residual_of_the_layer_with_b_held_constant():
    a, b = parts(grad=True)[:2]
    value = TERMS["self_expression"](Batch((a, b), (), (), TARGETS, 1))
    found = torch.autograd.grad(value, (a, b))
    Z = F.normalize(F.normalize(a, dim=1) + F.normalize(b, dim=1), dim=1)
    B = solve(Z.detach(), layer_lam(Z, 1)).dense()
    assert (B.diagonal() == 0).all()
    residual = (Z - B @ Z).square().sum() / N
    torch.testing.assert_close(value, residual)
    for ours, theirs in zip(found, torch.autograd.grad(residual, (a, b)), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_the_layer_has_the_degrees_of_freedom_it_says():
    Z = F.normalize(torch.randn(60, 20, dtype=torch.float64), dim=1)
    assert solve(Z, layer_lam(Z, 2)).effective_dof == pytest.approx(6.0, rel=1e-6)
    assert solve(Z, layer_lam(Z, 50)).effective_dof == pytest.approx(10.0, rel=1e-6)


def several(views=3, n=4, seed=1):
    random = torch.Generator().manual_seed(seed)
    made = torch.randn(4, views, n, 5, dtype=torch.float64, generator=random)
    features, projections, logits, predictions = map(tuple, made)
    return Batch(features, projections, logits, (torch.zeros(n).long(),) * views, 5, predictions)


def test_every_pair_of_several_views_counts():
    made = several()
    every = torch.cat([F.normalize(part, dim=1) for part in made.projections])
    losses = []
    for i in range(12):
        others = [math.exp(float(every[i] @ every[j]) / TEMPERATURE) for j in range(12) if j != i]
        for positive in ((i + 4) % 12, (i + 8) % 12):
            losses.append(-float(every[i] @ every[positive]) / TEMPERATURE + math.log(sum(others)))
    expected = sum(losses) / len(losses)
    assert float(TERMS["contrastive"](made)) == pytest.approx(expected, rel=1e-10)


def test_a_view_predicts_the_mean_of_the_others():
    made = several()
    p, q = made.projections, made.predictions
    means = (p[1] + p[2]) / 2, (p[0] + p[2]) / 2, (p[0] + p[1]) / 2
    cosines = [F.cosine_similarity(a, b, dim=1).mean() for a, b in zip(q, means, strict=True)]
    expected = 1 - sum(map(float, cosines)) / 3
    assert float(TERMS["prediction"](made)) == pytest.approx(expected, rel=1e-10)


def test_what_is_predicted_is_a_constant():
    made = parts(grad=True)
    TERMS["prediction"](batch(made)).backward()
    assert all(part.grad is None for part in made[:6])
    assert all(part.grad.abs().sum() > 0 for part in made[6:])


@pytest.mark.parametrize("name", ["contrastive", "prediction", "clusters", "groups"])
def test_gradients_are_those_of_finite_differences(name):
    made = parts(grad=True)
    logits = made[4:6]
    read = {"clusters": logits, "groups": logits, "prediction": made[6:]}.get(name, made[2:4])
    assert torch.autograd.gradcheck(lambda *_: TERMS[name](batch(made)), read)


@pytest.mark.parametrize(("units", "heads"), [(12, 2), (6, 1), (5, 1), (13, None)])
def test_groups_are_shared_with_positives_and_of_equal_sizes(units, heads):
    """Two clusters have six groups in each head; fewer units are one head, others are refused."""
    random = torch.Generator().manual_seed(3)
    logits = 0.2 * torch.randn(3, 4, units, dtype=torch.float64, generator=random)
    made = Batch((), (), tuple(logits), (), 2)
    if heads is None:
        with pytest.raises(RuntimeError, match="invalid for input"):
            TERMS["groups"](made)
        return
    expected = 0.0
    for head in logits.chunk(heads, dim=2):
        p = (10.0 * head).softmax(dim=2)
        pairs = [(p[a] * p[b]).sum(dim=1).log().mean() for a, b in ((0, 1), (0, 2), (1, 2))]
        mean = p.mean(dim=(0, 1))
        expected += float(-sum(pairs) / 3 + 1.5 * (mean * mean.log()).sum()) / heads
    assert float(TERMS["groups"](made)) == pytest.approx(expected, rel=1e-10)


def test_groups_that_nobody_is_in_have_a_gradient():
    logits = torch.zeros(4, 6)
    logits[:, 0] = 1e4
    logits.requires_grad_()
    TERMS["groups"](Batch((), (), (logits, logits), (), 2)).backward()
    assert torch.isfinite(logits.grad).all()


def test_half_precision_outputs_are_summed_in_single():
    made = [part.to(torch.bfloat16) for part in parts()]
    for name, term in TERMS.items():
        assert term(batch(made)).dtype == torch.float32, name


def test_terms_are_weighted():
    weights = {"contrastive": 2.0, "prediction": 0.5}
    values = weighted_terms(batch(parts()), weights)
    for name, weight in weights.items():
        torch.testing.assert_close(values[name], weight * TERMS[name](batch(parts())))


def test_losses_of_views_on_axes():
    """Two samples whose views agree and are orthogonal to the other's: every number by hand."""
    eye = torch.eye(2, dtype=torch.float64)
    made = Batch((eye, eye), (eye, 2 * eye), (eye, eye), (torch.tensor([0, 1]),) * 2, 2)
    at = math.exp(1 / 0.3)  # a temperature of 0.3
    assert float(TERMS["contrastive"](made)) == pytest.approx(math.log((at + 2) / at), rel=1e-12)
    # a tenth of the weight is spread over both clusters
    right, wrong = -math.log(math.e / (math.e + 1)), -math.log(1 / (math.e + 1))
    expected = 0.95 * right + 0.05 * wrong
    assert float(TERMS["clusters"](made)) == pytest.approx(expected, rel=1e-12)
