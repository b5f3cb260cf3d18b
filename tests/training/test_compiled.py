"""Steps with kernels of PyTorch's compiler: the same ones on a GPU, one clear line elsewhere."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dcfsc import DCFSC
from dcfsc.errors import InputError
from dcfsc.networks import ConvSpec, ResidualSpec, ViewNetwork, build
from dcfsc.training import Absolute, History, train
from dcfsc.views.augmentations import Views, usual_strengths
from dcfsc.views.loop import Schedule, train_views
from dcfsc.views.pseudo_labels import PseudoLabels

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


@CUDA
@pytest.mark.parametrize(
    ("weights", "views"), [({"prediction": 1.0}, 4), ({"contrastive": 1.0, "clusters": 1.0}, 2)]
)
def test_compiled_steps_on_views_are_nearly_the_plain_ones(weights, views):
    """New positives and targets between two steps are seen; other kernels round differently."""
    X = torch.rand(40, 3, 8, 8, generator=torch.Generator().manual_seed(0)).cuda()
    spec = ResidualSpec((3, 8, 8), (8, 16), 1, hidden=16, projection=8, n_clusters=3)
    spec = replace(spec, predictor=4 if "prediction" in weights else 0)
    found = []
    for compiled in (False, True):
        network = ViewNetwork(spec, torch.Generator().manual_seed(1)).cuda()
        pseudo_labels, history = PseudoLabels(40, X.device), History()

        def relabel(given=pseudo_labels):
            given.targets.copy_(torch.arange(40) % 3)
            given.positives[:, 1:] = (given.positives[:, :1] + 3) % 40
            given.shares.copy_(torch.tensor([0.4, 0.6, 0.8, 1.0]))

        train_views(
            network,
            X,
            Views((3, 8, 8), usual_strengths((3, 8, 8))),
            weights,
            Schedule(9, 16, 0.01, views=views, sgd=True),
            pseudo_labels,
            n_clusters=3,
            generator=torch.Generator("cuda").manual_seed(2),
            history=history,
            before_step={5: relabel},
            compiled=compiled,
        )
        found.append(history.column("loss"))
    assert found[1] == pytest.approx(found[0], rel=1e-3)
