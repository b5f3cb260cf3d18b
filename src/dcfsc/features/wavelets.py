"""Morlet wavelets and the Gaussian of the scattering transform, as spectra on a grid.

A Gabor function has a Gaussian envelope, longer along its waves by 1 / slant, and a frequency xi
across them; a Morlet wavelet is one whose mean an envelope of the same shape takes away,

    psi(u) = exp(-u' C u) (exp(i xi' u) - beta) / norm,   C = R diag(1, slant^2) R' / (2 sigma^2),

made periodic on the grid by adding its copies. Widths, frequencies and slant are those of Bruna and
Mallat (2013) as kymatio (Andreux et al. 2020) has them, so that features are the same numbers.

References
----------
J. Bruna, S. Mallat. Invariant Scattering Convolution Networks. IEEE TPAMI 35(8), 2013.
M. Andreux et al. Kymatio: Scattering Transforms in Python. JMLR 21(60), 2020.
"""

from __future__ import annotations

import math

import numpy as np

WIDTH = 0.8  # of the finest envelope, in pixels
FREQUENCY = 0.75 * math.pi  # of the finest wavelet
COPIES = 5  # of the periodic continuation, along each side
NORM = 2 * 3.1415  # kymatio's rounding of 2 pi


def wavelet_spectra(shape: tuple[int, int], j: int, L: int) -> np.ndarray:
    """The real spectra (L, M, N) of the wavelets of scale 2^j at L angles."""
    sigma, xi, slant = WIDTH * 2**j, FREQUENCY / 2**j, 4 / L
    return np.stack([_morlet(shape, sigma, angle, xi, slant) for angle in angles(L)])


def angles(L: int) -> np.ndarray:
    """The angles of the wavelets, in the order of the paths."""
    return (int(L - L / 2 - 1) - np.arange(L)) * np.pi / L


def gaussian_spectrum(shape: tuple[int, int], J: int) -> np.ndarray:
    """The real spectrum (M, N) of the low-pass filter of width 2^J."""
    return np.fft.fft2(_periodic(_envelope(shape, WIDTH * 2 ** (J - 1), 0.0, 1.0), shape)).real


def at_resolution(spectra: np.ndarray, level: int) -> np.ndarray:
    """Spectra (..., M, N) of filters for a signal sampled at one pixel in 2^level.

    Frequencies beyond that signal's band are dropped; the others are folded onto its own.
    """
    step = 2**level
    M, N = spectra.shape[-2:]
    inside = np.outer(_band(M, level), _band(N, level))
    blocks = (spectra * inside).reshape(*spectra.shape[:-2], step, M // step, step, N // step)
    return blocks.sum(axis=(-4, -2))


def _band(n: int, level: int) -> np.ndarray:
    mask = np.ones(n)
    first = int(n / 2 ** (level + 1))
    mask[first : first + int(n * (1 - 1 / 2**level))] = 0.0
    return mask


def _morlet(
    shape: tuple[int, int], sigma: float, angle: float, xi: float, slant: float
) -> np.ndarray:
    x, y = _grid(shape)
    over = _envelope(shape, sigma, angle, slant)
    # exp(i xi' u) on the grid is a product over the two axes
    waves = np.exp(1j * xi * np.cos(angle) * x) * np.exp(1j * xi * np.sin(angle) * y)
    wave, envelope = (_periodic(f, shape) for f in (over * waves, over))
    return np.fft.fft2(wave - wave.sum() / envelope.sum() * envelope).real


def _envelope(shape: tuple[int, int], sigma: float, angle: float, slant: float) -> np.ndarray:
    """exp(-u' C u) / norm on the copies of the grid (M, N), with its origin at (0, 0)."""
    x, y = _grid(shape)
    across = np.cos(angle) * x + np.sin(angle) * y
    along = np.cos(angle) * y - np.sin(angle) * x
    exponent = (across**2 + (slant * along) ** 2) / (2 * sigma**2)
    return np.exp(-exponent) / (NORM * sigma**2 / slant)


def _grid(shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the grid (M, N) and its copies."""
    before = COPIES // 2
    x, y = (np.arange(-before * n, (COPIES - before) * n, dtype=np.float64) for n in shape)
    return x[:, None], y[None, :]


def _periodic(f: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    M, N = shape
    return f.reshape(COPIES, M, COPIES, N).sum(axis=(0, 2))
