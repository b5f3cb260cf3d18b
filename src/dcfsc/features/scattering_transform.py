"""The two-dimensional scattering transform of images."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from dcfsc.errors import InputError
from dcfsc.machine import one_a_core

from .wavelets import at_resolution, gaussian_spectrum, wavelet_spectra

CACHE_IMAGES = 32  # of 32 x 32: what one block of them needs stays in the cache
DEVICE_PIXELS = 1 << 19  # of a block on a GPU


class Scattering:
    """Scattering coefficients of order 0 to 2 of images (n, h, w), as kymatio defines them.

        S0 = x * phi,   S1 = |x * psi_a| * phi,   S2 = ||x * psi_a| * psi_b| * phi

    with Morlet wavelets psi of L angles at the scales 2^0 .. 2^(J-1), b coarser than a, and a
    Gaussian phi of width 2^J; each is sampled every 2^J pixels. Images are padded with zeros to
    multiples of 2^J, and reflected by 2^J pixels on each side. Filters, borders and the order of
    the paths are kymatio's, and so are the numbers. All angles of a few images go together, so that
    they stay in the cache, and the last low-pass, which is separable and keeps one pixel in 2^J, is
    two thin matrix products A U B' in place of two transforms.

    Calling it gives (n, paths, h / 2^J, w / 2^J) in float32; paths = 1 + L J + L^2 J (J-1) / 2.
    """

    def __init__(self, shape: tuple[int, int], J: int, L: int, device: torch.device):
        step = 2**J
        if min(shape) < step:
            raise InputError(
                f"scattering with J={J} needs images of at least {step} x {step} pixels; these are "
                f"{shape[0]} x {shape[1]}; use a smaller J or larger images."
            )
        h, w = (-(-side // step) * step for side in shape)
        top, left = (h - shape[0]) // 2, (w - shape[1]) // 2
        self._zeros = (left, w - shape[1] - left, top, h - shape[0] - top)
        self._rows, self._columns = (_reflection(side, step).to(device) for side in (h, w))
        padded = (h + 2 * step, w + 2 * step)
        self.J = J
        self.shape = (1 + L * J + L * L * (J * (J - 1) // 2), h // step, w // step)
        self._device = device
        phi = gaussian_spectrum(padded, J)
        self._low_pass = [
            _LowPass(at_resolution(phi, level), 2 ** (J - level), device) for level in range(J)
        ]
        self._wavelets = {}
        for j in range(J):
            psi = wavelet_spectra(padded, j, L)
            for fine in range(min(j, max(J - 2, 0)) + 1):
                level = at_resolution(psi, fine)
                self._wavelets[fine, j] = _Wavelets(level, 2 ** (j - fine), device)
        budget = CACHE_IMAGES * 48 * 48 if device.type == "cpu" else DEVICE_PIXELS
        self._block = max(1, budget // (padded[0] * padded[1]))

    def __call__(self, images: Tensor) -> Tensor:
        """Coefficients (n, paths, h', w') of images (n, h, w), float32 on the device."""
        out = torch.empty((len(images), *self.shape), dtype=torch.float32, device=self._device)
        # Blocks at the same time, a thread each: not every library's transforms have more.
        size = self._block_of(len(images))
        pairs = zip(images.split(size), out.split(size), strict=True)
        one_a_core(lambda pair: self._scatter(*pair), pairs, self._device)
        return out

    def _block_of(self, n: int) -> int:
        """How many of n images to a block, so that all cores have as many blocks."""
        if self._device.type != "cpu":
            return self._block
        threads = torch.get_num_threads()
        rounds = max(1, -(-n // (threads * self._block)))
        return max(1, -(-n // (threads * rounds)))

    def _scatter(self, x: Tensor, out: Tensor) -> None:
        x = pad(x, self._zeros)[:, self._rows][:, :, self._columns]  # (n, M, N)
        out[:, 0] = self._low_pass[0](x)
        spectrum = torch.fft.fft2(x)
        second: list[Tensor] = []
        path = 1
        for j in range(self.J):
            U = self._wavelets[0, j](spectrum)  # (n, L, M / 2^j, N / 2^j)
            out[:, path : path + U.shape[1]] = self._low_pass[j](U)
            path += U.shape[1]
            if j < self.J - 1:
                second.append(self._second_order(torch.fft.fft2(U), j))
        if second:
            out[:, path:] = torch.cat(second, dim=1)

    def _second_order(self, spectra: Tensor, j: int) -> Tensor:
        """Paths that start at scale j, (n, L * L * (J-1-j), h', w'), the first angle outermost."""
        coarser = [
            self._low_pass[k](self._wavelets[j, k](spectra.flatten(0, 1)))
            for k in range(j + 1, self.J)
        ]
        joined = torch.cat(coarser, dim=1)  # (n * L, (J-1-j) * L, h', w')
        return joined.reshape(len(spectra), -1, *joined.shape[2:])


class _Wavelets:
    """|x * psi| for L filters of one scale, at one pixel in ``step``.

    Sampling folds the spectrum: a frequency of the result is the mean of the step^2 frequencies
    that share it, each under psi's (real) transform.
    """

    def __init__(self, filters: np.ndarray, step: int, device: torch.device):
        self._step = step
        self._size = (filters.shape[1] // step, filters.shape[2] // step)
        psi = self._fold(torch.from_numpy(filters)) / step**2  # (L, step^2, m' n')
        # each weight twice: for the real and for the imaginary part of a frequency
        self._weights = psi.float().repeat_interleave(2, dim=-1).to(device)

    def _fold(self, spectra: Tensor) -> Tensor:
        """(..., m, n) -> (..., step^2, m' n'): the frequencies that share a sample's."""
        (m, n), k = self._size, self._step
        blocks = spectra.unflatten(-1, (k, n)).unflatten(-3, (k, m))  # (..., k, m', k, n')
        return blocks.transpose(-3, -2).reshape(*spectra.shape[:-2], k * k, m * n)

    def __call__(self, spectra: Tensor) -> Tensor:
        """(p, m, n) complex -> (p, L, m', n')."""
        X = torch.view_as_real(self._fold(spectra)).flatten(-2)  # (p, step^2, 2 m' n')
        Y = X[:, None, 0] * self._weights[:, 0]
        for alias in range(1, self._step**2):
            Y.addcmul_(X[:, None, alias], self._weights[:, alias])
        filtered = torch.view_as_complex(Y.unflatten(-1, (*self._size, 2)))
        parts = torch.view_as_real(torch.fft.ifft2(filtered)).square_()
        return (parts[..., 0] + parts[..., 1]).sqrt_()


class _LowPass:
    """U -> A U B': the Gaussian of width 2^J, one pixel in ``step``, without the border's pixel."""

    def __init__(self, phi: np.ndarray, step: int, device: torch.device):
        rows = _axis_operator(phi[:, 0], step)
        columns = _axis_operator(phi[0] / phi[0, 0], step)
        self._rows, self._columns = (t.T.float().contiguous().to(device) for t in (rows, columns))

    def __call__(self, U: Tensor) -> Tensor:
        """(..., m, n) -> (..., h', w')."""
        return ((U @ self._columns).mT.contiguous() @ self._rows).mT


def _axis_operator(response: np.ndarray, step: int) -> Tensor:
    """The matrix (outputs, n) that filters a signal of n samples and keeps one in ``step``."""
    weights = torch.from_numpy(response).double()
    n = len(weights)
    spectrum = torch.fft.fft(torch.eye(n, dtype=torch.float64), dim=0) * weights[:, None]
    folded = spectrum.reshape(step, n // step, n).mean(0)
    return torch.fft.ifft(folded, dim=0).real[1:-1]


def _reflection(n: int, border: int) -> Tensor:
    """Indices (n + 2 border,) of a signal of n samples, reflected at its first and last one."""
    place = torch.arange(-border, n + border).remainder(2 * (n - 1))
    return torch.minimum(place, 2 * (n - 1) - place)
