"""How samples become tensors: shared where they may be, copied where they must be."""

import numpy as np
import pytest
import torch

from dcfsc.estimators.network_choice import network_input
from dcfsc.pipeline.samples import as_float, writeable

CPU = torch.device("cpu")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_may_be_written_to_is_not_copied(dtype):
    X = np.random.default_rng(0).normal(size=(30, 4)).astype(dtype)
    assert np.shares_memory(as_float(X, CPU).numpy(), X)
    assert writeable(X) is X
    if dtype == np.float32:
        assert np.shares_memory(network_input(X, CPU, 1.0).numpy(), X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
@pytest.mark.parametrize("block", [64, 1 << 26])
def test_what_is_read_only_is_copied_block_by_block(dtype, block, monkeypatch):
    monkeypatch.setattr("dcfsc.io.streamed.BLOCK_BYTES", block)
    X = (10 * np.random.default_rng(0).random((30, 4, 3))).astype(dtype)
    X.flags.writeable = False
    Z = as_float(X, CPU)
    assert Z.dtype == (torch.float64 if dtype == np.float64 else torch.float32)
    np.testing.assert_array_equal(Z.numpy(), X)
    Z += 1.0
    assert X.max() <= 10
    Z = network_input(X, CPU, 1.0)
    np.testing.assert_array_equal(Z[:, 0].numpy(), X.astype(np.float32))
    Z += 1.0
    assert X.max() <= 10
