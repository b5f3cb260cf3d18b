"""The blocked inverse of a triangular matrix, which a GPU takes, on the CPU."""

import pytest
import torch

from dcfsc.self_expression.triangular import joined_inverse, triangular_inverse


@pytest.mark.parametrize("d", [1, 3, 4, 5, 8, 11, 12, 17, 32, 37])
@pytest.mark.parametrize("leaf", [1, 4, 5])
def test_joined_blocks_are_the_inverse(d, leaf):
    L = torch.randn(d, d, dtype=torch.float64, generator=torch.Generator().manual_seed(d)).tril()
    L.diagonal().abs_().add_(1.0)
    before = L.clone()
    inverse = joined_inverse(L, leaf)
    torch.testing.assert_close(inverse, torch.linalg.inv(L), rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(triangular_inverse(L), inverse, rtol=1e-9, atol=1e-11)
    assert not inverse.triu(1).any()
    assert torch.equal(L, before)
