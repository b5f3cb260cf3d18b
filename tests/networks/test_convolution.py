"""SAME convolution and its adjoint: every path against the definition, forward and backward."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from dcfsc.networks import convolution, patches
from dcfsc.networks.convolution import SameGeometry

geometries = st.builds(
    SameGeometry,
    height=st.integers(1, 9),
    width=st.integers(1, 9),
    kernel=st.sampled_from([1, 2, 3, 5]),
    stride=st.integers(1, 3),
)


def by_definition(x: Tensor, weight: Tensor, geometry: SameGeometry) -> Tensor:
    """y[n, o, i, j] = sum over c, a, b of weight[o, c, a, b] x[n, c, s i + a - top, s j + b - left]
    with TensorFlow's SAME padding, pixels outside the image being zero."""
    n, _, height, width = x.shape
    k, s = geometry.kernel, geometry.stride
    rows, columns = -(-height // s), -(-width // s)
    top = max((rows - 1) * s + k - height, 0) // 2
    left = max((columns - 1) * s + k - width, 0) // 2
    y = x.new_zeros(n, len(weight), rows, columns)
    for i in range(rows):
        for j in range(columns):
            for a in range(k):
                for b in range(k):
                    r, q = s * i + a - top, s * j + b - left
                    if 0 <= r < height and 0 <= q < width:
                        y[:, :, i, j] += x[:, :, r, q] @ weight[:, :, a, b].T
    return y


def random_case(geometry: SameGeometry, n: int = 3, c: int = 2, o: int = 3, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    return (
        draw(n, c, geometry.height, geometry.width),
        draw(n, o, geometry.out_height, geometry.out_width),
        draw(o, c, geometry.kernel, geometry.kernel),
        draw(o),
        draw(c),
    )


def last(x: Tensor) -> Tensor:
    return x.permute(1, 2, 3, 0)


def first(x: Tensor) -> Tensor:
    return x.permute(3, 0, 1, 2)


PATHS = {
    "native": (convolution.convolve, convolution.convolve_transposed),
    "patches": (
        lambda x, *rest: first(patches.convolve(last(x), *rest)),
        lambda y, *rest: first(patches.convolve_transposed(last(y), *rest)),
    ),
}


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "expected"),
    [
        (32, 3, 2, (0, 1)),  # even sizes see one more row after
        (32, 5, 2, (1, 2)),
        (21, 3, 2, (1, 1)),
        (11, 3, 2, (1, 1)),
        (42, 5, 2, (1, 2)),
        (32, 5, 1, (2, 2)),
        (8, 1, 1, (0, 0)),
        (8, 1, 2, (0, 0)),
        (7, 2, 3, (0, 1)),
    ],
)
def test_same_padding_is_tensorflows(size, kernel, stride, expected):
    geometry = SameGeometry(size, size, kernel, stride)
    assert geometry.rows == geometry.columns == expected


def test_a_hand_computed_convolution():
    x = torch.arange(1.0, 5.0, dtype=torch.float64).view(1, 1, 1, 4)
    weight = torch.tensor([[[[0.0, 0, 0], [1, 10, 100], [0, 0, 0]]]], dtype=torch.float64)
    geometry = SameGeometry(1, 4, 3, 2)  # one row of zeros above and below, one column after
    down = torch.tensor([1 + 20 + 300, 3 + 40], dtype=torch.float64)
    up = torch.tensor([1, 10, 100 + 2, 20], dtype=torch.float64)
    for convolve, transposed in PATHS.values():
        assert torch.equal(convolve(x, weight, None, geometry).flatten(), down)
        y = torch.tensor([1.0, 2.0], dtype=torch.float64).view(1, 1, 1, 2)
        assert torch.equal(transposed(y, weight, None, geometry).flatten(), up)


@pytest.mark.parametrize("path", PATHS)
@settings(max_examples=40, deadline=None)
@given(geometry=geometries, n=st.integers(1, 5))
def test_convolution_equals_its_definition(path, geometry, n):
    x, _, weight, bias, _ = random_case(geometry, n)
    expected = by_definition(x, weight, geometry) + bias.view(1, -1, 1, 1)
    found = PATHS[path][0](x, weight, bias, geometry)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("path", PATHS)
@settings(max_examples=60, deadline=None)
@given(geometry=geometries, n=st.integers(1, 5))
def test_transposed_convolution_is_the_adjoint(path, geometry, n):
    x, y, weight, _, bias = random_case(geometry, n)
    convolve, transposed = PATHS[path]
    back = transposed(y, weight, None, geometry)
    assert back.shape == x.shape
    left = (convolve(x, weight, None, geometry) * y).sum()
    torch.testing.assert_close(left, (x * back).sum(), rtol=1e-11, atol=1e-11)
    with_bias = transposed(y, weight, bias, geometry)
    torch.testing.assert_close(with_bias, back + bias.view(1, -1, 1, 1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
@settings(max_examples=30, deadline=None)
@given(geometry=geometries, n=st.integers(1, 7), seed=st.integers(0, 99))
def test_patches_equal_native_forward_and_backward(transposed, with_bias, geometry, n, seed):
    x, y, weight, bias_o, bias_c = random_case(geometry, n, seed=seed)
    inputs = (y if transposed else x).requires_grad_()
    weight.requires_grad_()
    bias = (bias_c if transposed else bias_o).requires_grad_() if with_bias else None
    native = PATHS["native"][transposed](inputs, weight, bias, geometry)
    found = PATHS["patches"][transposed](inputs, weight, bias, geometry)
    torch.testing.assert_close(found, native, rtol=1e-12, atol=1e-12)
    direction = torch.randn(found.shape, generator=torch.Generator().manual_seed(1)).to(found)
    wanted = [inputs, weight] + ([bias] if with_bias else [])
    expected = torch.autograd.grad((native * direction).sum(), wanted)
    gradients = torch.autograd.grad((found * direction).sum(), wanted)
    for gradient, reference in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, reference, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    "geometry", [SameGeometry(5, 4, 3, 2), SameGeometry(4, 3, 5, 1), SameGeometry(4, 5, 1, 2)]
)
def test_patches_pass_gradcheck(transposed, geometry):
    x, y, weight, bias_o, bias_c = random_case(geometry, n=2)
    inputs = last(y if transposed else x).contiguous()
    bias = bias_c if transposed else bias_o
    function = patches.convolve_transposed if transposed else patches.convolve
    for t in (inputs, weight, bias):
        t.requires_grad_()
    assert gradcheck(lambda *t: function(*t, geometry), (inputs, weight, bias))


def test_only_the_gradients_asked_for():
    geometry = SameGeometry(6, 6, 3, 2)
    x, y, weight, bias_o, bias_c = random_case(geometry)
    for function, inputs, bias in (
        (patches.convolve, last(x), bias_o),
        (patches.convolve_transposed, last(y), bias_c),
    ):
        bias.requires_grad_()
        function(inputs, weight, bias, geometry).sum().backward()
        assert bias.grad is not None
        assert inputs.grad is None
        assert weight.grad is None
        v = inputs.clone().requires_grad_()
        function(v, weight, None, geometry).sum().backward()
        assert v.grad is not None
        assert v.grad.shape == v.shape


def test_a_graph_can_be_used_twice_and_passes_may_interleave():
    geometry = SameGeometry(6, 6, 3, 2)
    x, _, weight, bias, _ = random_case(geometry)
    weight.requires_grad_()
    one = patches.convolve(last(x), weight, bias, geometry)
    two = patches.convolve(last(2 * x), weight, bias, geometry)
    (alone,) = torch.autograd.grad(patches.convolve(last(x), weight, bias, geometry).sum(), weight)
    (early,) = torch.autograd.grad(one.sum(), weight, retain_graph=True)
    torch.autograd.grad(two.sum(), weight)
    (again,) = torch.autograd.grad(one.sum(), weight)
    assert torch.equal(early, alone)
    assert torch.equal(again, alone)


@pytest.mark.parametrize(("n", "size", "counts"), [(11, 4, [4, 4, 3]), (4, 4, [4]), (0, 4, [0])])
def test_blocks_are_nearly_even_and_lose_nothing(n, size, counts):
    x = torch.randn(n, 2, 3, 5)
    blocks = patches.samples_last(x, size)
    assert [block.shape[-1] for block in blocks] == counts
    assert torch.equal(patches.samples_first(blocks), x.flatten(1))


def test_a_block_holds_as_many_patches_as_its_bytes(monkeypatch):
    monkeypatch.setattr(patches, "BLOCK_BYTES", 4 * 9 * 2 * 9 * 8)
    geometry = SameGeometry(6, 5, 3, 2)
    assert patches.block_size(random_case(geometry)[2], geometry) == 4
