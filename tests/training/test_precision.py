"""In which precision networks run, what is compiled, and what stays as it is on a CPU."""

import gc
import weakref

import pytest
import torch
from torch import nn

from dcfsc import processes
from dcfsc.errors import InputError
from dcfsc.self_expression import FeatureForm
from dcfsc.training import Absolute, ChunkedStep, History, forward, train
from dcfsc.training.loop import _WholeBatch
from dcfsc.training.precision import (
    Compiled,
    check_compilable,
    check_precision,
    convolutions,
    network_context,
    prepare,
)


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 4), nn.Tanh())
        self.decoder = nn.Linear(4, 6)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(torch.randn(p.shape, generator=generator) * 0.4)


def samples(n=20):
    return torch.randn(n, 6, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("chunked", [False, True])
def test_the_network_alone_runs_in_bfloat16(chunked):
    """Autocast works on a CPU as well: near float32, not equal to it, and float32 outside."""
    X, results = samples(30), {}
    for precision in ("float32", "bfloat16"):
        network = Tiny()
        if chunked:
            step = ChunkedStep(network, X, 8, (), precision)
            loss = step(Absolute(0.5))()[0]["reconstruction"]
            latent = step.encode()
        else:
            state, _ = forward(network, X, Absolute(0.5), precision)
            assert state.latent.dtype == state.reconstruction.dtype == torch.float32
            value = (state.reconstruction - X).square().sum()
            value.backward()
            loss, latent = float(value.detach()), state.latent.detach()
        gradient = torch.cat([p.grad.flatten() for p in network.parameters()])
        results[precision] = loss, gradient, latent
    single, half = results["float32"], results["bfloat16"]
    assert half[0] != single[0]
    assert half[0] == pytest.approx(single[0], rel=2e-2)
    assert 0 < float((half[1] - single[1]).norm() / single[1].norm()) < 5e-2
    assert 0 < float((half[2] - single[2]).norm() / single[2].norm()) < 5e-2


def test_images_on_a_cpu_stay_as_they_lie():
    X, network = torch.zeros(3, 2, 4, 4), nn.Conv2d(2, 3, 3)
    assert prepare(network, X) is X
    assert network.weight.is_contiguous()


def test_precisions_are_checked_in_words():
    check_precision("float32", torch.device("cpu"))
    check_precision("bfloat16", torch.device("cuda"))
    with pytest.raises(InputError, match="for CUDA devices"):
        check_precision("bfloat16", torch.device("cpu"))
    with pytest.raises(InputError, match="unknown precision"):
        check_precision("float16", torch.device("cpu"))


def test_compiling_is_refused_on_the_cpu():
    with pytest.raises(InputError, match="compile=True is for CUDA devices; this is cpu"):
        train(
            Tiny(),
            samples(),
            steps=1,
            lam=Absolute(1.0),
            learning_rate=1e-3,
            history=History(),
            compiled=True,
        )
    with pytest.raises(InputError, match="needs all samples at once"):
        check_compilable(torch.device("cuda"), 5)
    check_compilable(torch.device("cuda"), None)


def test_both_halves_of_a_network_are_compiled(monkeypatch):
    network = Tiny()
    monkeypatch.setattr(torch, "compile", lambda module: ("compiled", module))
    made = Compiled(network)
    assert made.encoder == ("compiled", network.encoder)
    assert made.decoder == ("compiled", network.decoder)


@pytest.mark.parametrize(
    ("precision", "dtype"), [("float32", torch.float32), ("bfloat16", torch.bfloat16)]
)
def test_chunks_are_encoded_and_decoded_in_the_precision_asked_for(precision, dtype):
    """Also where a batch norm of the decoder is given its statistics in a pass of its own."""
    network, seen = Tiny(), set()
    network.decoder = nn.Sequential(network.decoder, nn.BatchNorm1d(6))
    for module in (network.encoder, network.decoder[0]):
        module.register_forward_hook(lambda module, given, result: seen.add(result.dtype))
    ChunkedStep(network, samples(30), 8, (), precision)(Absolute(0.5))
    assert seen == {dtype}


@pytest.mark.parametrize("lam", [None, Absolute(0.5)])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_encoder_and_decoder_run_in_the_precision_asked_for(precision, lam):
    network, seen = Tiny(), []
    for module in (network.encoder[0], network.decoder):
        module.register_forward_hook(lambda module, given, result: seen.append(result.dtype))
    state, operator = forward(network, samples(), lam, precision)
    assert seen == [getattr(torch, precision)] * 2
    assert state.reconstruction.dtype == state.expressed.dtype == torch.float32
    assert (operator is None) == (lam is None) == (state.expressed is state.latent)


def test_the_network_computes_in_single_precision_unless_asked():
    network, seen = Tiny(), set()
    network.decoder.register_forward_hook(lambda module, given, result: seen.add(result.dtype))
    X = samples()
    forward(network, X, None)
    ChunkedStep(network, X, 8)(Absolute(0.5))
    train(network, X, steps=1, lam=Absolute(0.5), learning_rate=0.0, history=History())
    assert seen == {torch.float32}
    with network_context("float32", X.device):
        assert not torch.is_autocast_enabled("cpu")
    with network_context("bfloat16", X.device):
        assert torch.is_autocast_enabled("cpu")
        assert not torch.is_autocast_cache_enabled()


@pytest.mark.parametrize("allow_tf32", [False, True])
def test_convolutions_are_repeatable_within_the_block_alone(monkeypatch, allow_tf32):
    flags = torch.backends.cudnn
    monkeypatch.setattr(flags, "benchmark", True)
    monkeypatch.setattr(flags, "allow_tf32", allow_tf32)
    with convolutions(fastest=False):
        assert (flags.enabled, flags.benchmark, flags.deterministic) == (True, False, True)
        assert flags.allow_tf32 is allow_tf32
    assert (flags.benchmark, flags.deterministic) == (True, False)


def test_a_compiled_step_runs_what_was_compiled(monkeypatch):
    network, seen = Tiny(), []
    monkeypatch.setattr(torch, "compile", lambda part: lambda x: seen.append(part) or part(x))
    plain = _WholeBatch(network, samples(), ())(Absolute(0.5))()
    assert seen == []
    assert _WholeBatch(network, samples(), (), "float32", True)(Absolute(0.5))() == plain
    assert seen == [network.encoder, network.decoder]


def test_several_processes_do_not_compile(monkeypatch):
    monkeypatch.setattr(processes, "active", lambda: True)
    with pytest.raises(InputError, match="needs all samples at once"):
        check_compilable(torch.device("cuda"), None)


def test_what_a_step_says_of_itself_holds_none_of_its_memory(monkeypatch):
    """Not even the closed form, which stays as long as the graph does."""
    kept = []
    original = FeatureForm.for_backward

    def for_backward(self, rounded):
        form = original(self, rounded)
        kept.append(weakref.ref(form))
        return form

    monkeypatch.setattr(FeatureForm, "for_backward", for_backward)
    figures = _WholeBatch(Tiny(), samples(), ())(Absolute(0.5))
    gc.collect()
    assert [form() for form in kept] == [None]
    parts, ridge = figures()
    assert set(parts) == {"reconstruction"}
    assert ridge["lam"] == 0.5
