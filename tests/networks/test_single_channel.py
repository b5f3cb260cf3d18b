import pytest
import torch

from dcfsc.networks import convolution, single_channel
from dcfsc.networks.convolution import SameGeometry


def tensor(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator, requires_grad=True)


@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("transposed", [False, True])
def test_the_patches_are_the_library_convolution_forward_and_backward(kernel, transposed):
    geometry = SameGeometry(8, 7, kernel, 1)
    weight, bias = tensor(6, 1, kernel, kernel), tensor(1 if transposed else 6, seed=1)
    x = tensor(3, 6 if transposed else 1, 8, 7, seed=2)
    name = "convolve_transposed" if transposed else "convolve"
    results = []
    for library in (single_channel, convolution):
        y = getattr(library, name)(x, weight, bias, geometry)
        gradients = torch.autograd.grad((y * y.detach().cos()).sum(), (x, weight, bias))
        results.append((y, *gradients))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_the_result_has_its_channels_last():
    y = single_channel.convolve(
        tensor(2, 1, 4, 4), tensor(5, 1, 3, 3), None, SameGeometry(4, 4, 3, 1)
    )
    assert y.is_contiguous(memory_format=torch.channels_last)


def test_only_one_channel_at_stride_one_on_a_gpu_applies():
    x = torch.zeros(1, 1, 4, 4)
    assert not single_channel.applies(x, torch.zeros(5, 1, 3, 3), SameGeometry(4, 4, 3, 1))
