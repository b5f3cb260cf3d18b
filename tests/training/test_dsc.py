import pytest
import torch
from torch import nn

from dcfsc.errors import DivergenceError
from dcfsc.training import DSCLoss, History, train_dsc


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.encoder = nn.Linear(6, 4, dtype=torch.float64)
        self.decoder = nn.Linear(4, 6, dtype=torch.float64)
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(torch.randn(p.shape, dtype=p.dtype, generator=generator))


X = torch.randn(15, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_the_loss_is_equation_3(norm):
    network = Linear()
    C = torch.randn(15, 15, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    parts = DSCLoss(2.0, 3.0, 1.0, norm)(X, network.encoder(X), network, C)
    used = C - torch.diag(C.diagonal()) if norm == "l1" else C
    Z = network.encoder(X)
    size = used.abs().sum() if norm == "l1" else (used**2).sum()
    expected = ((network.decoder(used @ Z) - X) ** 2).sum() + 2.0 * size
    expected = expected + 1.5 * ((Z - used @ Z) ** 2).sum()
    torch.testing.assert_close(sum(parts.values()), expected)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_training_moves_both_and_removes_the_diagonal_for_l1(norm):
    network, history = Linear(), History()
    start = torch.full((15, 15), 1e-4, dtype=torch.float64)
    before = [p.detach().clone() for p in network.parameters()]
    C = train_dsc(
        network, X, start, DSCLoss(norm=norm), steps=30, learning_rate=1e-2, history=history
    )
    assert history.column("loss")[-1] < history.column("loss")[0]
    assert bool((C.diagonal() == 0).all()) == (norm == "l1")
    assert torch.equal(start, torch.full_like(start, 1e-4))
    assert any(not torch.equal(a, p) for a, p in zip(before, network.parameters(), strict=True))


def test_a_loss_that_is_not_finite_is_told():
    start = torch.full((15, 15), torch.inf, dtype=torch.float64)
    with pytest.raises(DivergenceError, match="at training step 1"):
        train_dsc(Linear(), X, start, DSCLoss(), steps=2, learning_rate=1e-2, history=History())
