"""The fused batch norm and overlap-add against PyTorch: on a GPU, or in Triton's interpreter."""

import importlib.util
import os
import subprocess
import sys
import textwrap

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dcfsc.networks import fused, single_channel
from dcfsc.networks.convolution import SameGeometry

CUDA = torch.cuda.is_available()
TRITON = importlib.util.find_spec("triton") is not None
DEVICE = "cuda" if CUDA else "cpu"


def norm_and_map(channels=24, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    norm = nn.BatchNorm2d(channels, 1e-3, 0.01)
    with torch.no_grad():
        norm.weight.copy_(torch.rand(channels, generator=generator) + 0.5)
        norm.bias.copy_(torch.randn(channels, generator=generator))
    x = 2.0 * torch.randn(7, channels, 9, 5, generator=generator) + 5.0
    x = x.to(DEVICE, dtype).contiguous(memory_format=torch.channels_last)
    return norm.to(DEVICE), x.requires_grad_(), torch.randn(x.shape, generator=generator)


def check_the_norm():
    for channels in (1, 24, 48):
        (ours, x, g), (theirs, y, _) = norm_and_map(channels), norm_and_map(channels)
        g = g.to(DEVICE)
        found, expected = fused.batch_norm_relu(x, ours), F.relu(theirs(y))
        found.backward(g)
        expected.backward(g)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(x.grad, y.grad, rtol=1e-4, atol=1e-5)
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-4)
        for a, b in zip(ours.buffers(), theirs.buffers(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def check_the_overlap_add():
    for height, width, kernel in ((8, 6, 5), (7, 9, 3), (4, 4, 1)):
        geometry = SameGeometry(height, width, kernel, 1)
        columns = single_channel._width(kernel)
        generator = torch.Generator().manual_seed(kernel)
        spread = torch.randn(3 * height * width, columns, generator=generator)
        expected = single_channel._OverlapAdd.apply(spread, 3, geometry)
        top, left = geometry.rows[0], geometry.columns[0]
        found = fused.kernels().overlap_add(spread.to(DEVICE), 3, height, width, kernel, top, left)
        torch.testing.assert_close(found.cpu(), expected)


@pytest.mark.skipif(not CUDA, reason="needs a CUDA device")
def test_the_norm_on_cuda():
    check_the_norm()
    norm, x, _ = norm_and_map()
    assert fused.applies(x, norm)
    assert not fused.applies(x, norm.eval())
    assert not fused.applies(x.double(), norm.train())


@pytest.mark.skipif(not CUDA, reason="needs a CUDA device")
def test_the_overlap_add_on_cuda():
    check_the_overlap_add()


@pytest.mark.skipif(CUDA or not TRITON, reason="the interpreter needs Triton and no GPU")
def test_the_kernels_in_the_interpreter():
    code = f"""
        import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})
        import test_fused
        test_fused.check_the_norm(); test_fused.check_the_overlap_add()
    """
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_nothing_is_fused_on_a_cpu():
    norm = nn.BatchNorm2d(3)
    x = torch.zeros(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    assert not fused.applies(x, norm)
