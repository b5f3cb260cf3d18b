"""Steps with kernels of PyTorch's compiler: the same ones on a GPU, one clear line elsewhere."""

import numpy as np
import pytest
import torch

from dcfsc import DCFSC
from dcfsc.errors import InputError
from dcfsc.networks import ConvSpec, build
from dcfsc.training import Absolute, History, train

SPEC = ConvSpec((1, 8, 8), (3, 2), (3, 3), (1, 2), batch_norm=True)
CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def test_a_cpu_is_refused_in_one_line():
    X = np.random.default_rng(0).random((20, 8, 8), dtype=np.float32)
    model = DCFSC(2, network=SPEC, pretrain_epochs=0, steps=1, compile=True, device="cpu")
    with pytest.raises(InputError, match="compile=True is for CUDA devices; this is cpu") as raised:
        model.fit(X)
    assert "\n" not in str(raised.value)


@CUDA
def test_chunks_are_refused():
    X = np.random.default_rng(0).random((20, 8, 8), dtype=np.float32)
    model = DCFSC(2, network=SPEC, pretrain_epochs=0, steps=1, compile=True, batch_size=5)
    with pytest.raises(InputError, match="needs all samples at once"):
        model.fit(X)


@CUDA
def test_compiled_steps_are_the_plain_ones():
    X = torch.rand(40, 1, 8, 8, generator=torch.Generator().manual_seed(0)).cuda()
    losses = []
    for compiled in (False, True):
        network = build(SPEC)
        network.reset_parameters(torch.Generator().manual_seed(1))
        history = History()
        options = {"steps": 3, "lam": Absolute(1.0), "learning_rate": 1e-3, "history": history}
        train(network.cuda(), X, compiled=compiled, **options)
        losses.append([row["loss"] for row in history])
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
