"""Benchmark problems made from a seed, with geometries that subspace clustering is used for.

Unions of subspaces, tracked points of moving bodies, surfaces under many lights, objects on a
turntable and letters in many fonts. Every function returns samples in float32 and labels from 0;
the same seed gives the same data, and no global random state is touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from dcfsc.errors import InputError

Samples = tuple[np.ndarray, np.ndarray]
Numbers = Sequence[int]

SIDE = 32  # pixels a side of the surfaces and of the objects
LETTERS = "ABCDEFGHJKLMNPRSTVXZ"
FONTS = (
    *("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSans-BoldOblique"),
    *("DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSansMono-Oblique"),
    *("DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic", "DejaVuSerif-BoldItalic"),
    *("STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic", "STIXGeneralBolIta"),
    *("cmr10", "cmb10", "cmss10", "cmti10", "cmtt10"),
)


def unions(
    seed: int, sizes: Numbers, dims: Numbers, ambient: int, noise: float, offset: float = 0.0
) -> Samples:
    """x = U_k a + b_k + e: |U_k a| = 1, |b_k| = ``offset``, e Gaussian with |e| near ``noise``.

    Cluster k has ``sizes[k]`` samples on a random subspace of dimension ``dims[k]``, moved off the
    origin at right angles; ``seed`` draws the subspaces, the coefficients and the noise.
    """
    rng = np.random.default_rng(seed)
    parts = []
    for size, dim in zip(sizes, dims, strict=True):
        basis = np.linalg.qr(rng.standard_normal((ambient, dim + 1)))[0]
        a = rng.standard_normal((size, dim))
        a /= np.linalg.norm(a, axis=1, keepdims=True)
        part = a @ basis[:, :dim].T + offset * basis[:, dim]
        parts.append(part + noise / np.sqrt(ambient) * rng.standard_normal(part.shape))
    return np.concatenate(parts).astype(np.float32), np.repeat(np.arange(len(sizes)), sizes)


def rotations(axis: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """R_f = I + sin(a_f) S + (1 - cos(a_f)) S^2, with S v = axis x v for a unit axis: (F, 3, 3)."""
    x, y, z = axis
    S = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    sines, cosines = np.sin(angles)[:, None, None], np.cos(angles)[:, None, None]
    return np.eye(3) + sines * S + (1 - cosines) * (S @ S)


def motions(seed: int, sizes: Numbers, perspective: bool, frames: int = 30) -> Samples:
    """Points of rigidly moving bodies as a camera tracks them: (n, 2 F) image coordinates.

    Body k is a cloud of ``sizes[k]`` points that turns about its own axis and drifts; ``seed``
    draws the bodies, their motions and the noise of half a pixel. With an affine camera a motion
    spans at most four dimensions; with ``perspective`` it does so nearly. The principal point is
    the origin, and the bodies cross each other's place in the image.
    """
    rng = np.random.default_rng(seed)
    time = np.linspace(0.0, 1.0, frames)[:, None]
    focal, depth, parts = 500.0, 8.0, []
    for size in sizes:
        points = rng.standard_normal((size, 3)) * rng.uniform(0.3, 0.8, 3)
        axis = rng.standard_normal(3)
        axis /= np.linalg.norm(axis)
        turn = rotations(axis, rng.uniform(0.3, 1.2) * time[:, 0])
        start, drift = rng.uniform(-1.0, 1.0, (2, 3))
        sway = rng.uniform(-0.3, 0.3, 3) * np.sin(np.pi * rng.uniform(0.5, 2.0, 3) * time)
        path = start + drift * time + sway
        world = np.einsum("fij,pj->fpi", turn, points) + path[:, None, :]
        far = depth + world[..., 2:] if perspective else depth
        pixels = focal * world[..., :2] / far
        pixels = pixels + rng.normal(0.0, 0.5, pixels.shape)
        parts.append(pixels.transpose(1, 0, 2).reshape(size, 2 * frames))
    return np.concatenate(parts).astype(np.float32), np.repeat(np.arange(len(sizes)), sizes)


def fourier(rng: np.random.Generator, highest: int, decay: float) -> np.ndarray:
    """A random smooth field (SIDE, SIDE) of unit variance: waves up to ``highest`` per image."""
    v, u = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    field = np.zeros((SIDE, SIDE))
    for p in range(highest + 1):
        for q in range(-highest, highest + 1):
            if p or q > 0:
                wave = np.cos(2 * np.pi * (p * u + q * v) + rng.uniform(0, 2 * np.pi))
                field += rng.standard_normal() * (p * p + q * q) ** (-decay / 2) * wave
    return field / field.std()


def lambertian(
    seed: int, surfaces: int = 20, lights: int = 40, relief: float = 0.08, contrast: float = 0.15
) -> Samples:
    """I = albedo max(0, n.l) + e: surfaces under distant lights, images (n, 32, 32).

    All share a bump and a smooth albedo, as faces do; ``relief`` and ``contrast`` are the standard
    deviations of the height and of the albedo that each adds. ``seed`` draws both, the lights (up
    to 75 degrees from the camera) and the noise, 0.02 of the brightest possible pixel.
    """
    rng = np.random.default_rng(seed)
    v, u = np.mgrid[0:SIDE, 0:SIDE] / (SIDE - 1) * 2 - 1
    bump = 1.1 * np.exp(-(u**2 / 0.5 + v**2 / 0.9)) + 0.08 * fourier(rng, highest=4, decay=2.0)
    paint = 0.6 + 0.1 * fourier(rng, highest=4, decay=1.0)
    images = []
    for _ in range(surfaces):
        height = bump + relief * fourier(rng, highest=4, decay=2.0)
        down, across = np.gradient(height, 2 / (SIDE - 1))
        normals = np.stack([-across, -down, np.ones_like(height)], axis=-1)
        normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
        albedo = np.clip(paint + contrast * fourier(rng, highest=8, decay=1.0), 0.1, 1.0)
        slant, turn = rng.uniform(0, np.deg2rad(75), lights), rng.uniform(0, 2 * np.pi, lights)
        light = np.stack(
            [np.sin(slant) * np.cos(turn), np.sin(slant) * np.sin(turn), np.cos(slant)]
        )
        shaded = np.maximum(normals @ light, 0.0) * albedo[..., None]
        images.append(shaded.transpose(2, 0, 1) + rng.normal(0, 0.02, (lights, SIDE, SIDE)))
    return np.concatenate(images).astype(np.float32), np.repeat(np.arange(surfaces), lights)


def turntable(seed: int, objects: int = 20, views: int = 36) -> Samples:
    """Translucent objects turned about the vertical axis through 360 degrees: (n, 32, 32).

    An object is a sum of six to fourteen Gaussian blobs in space, seen without perspective;
    ``seed`` draws their places, widths and brightnesses.
    """
    rng = np.random.default_rng(seed)
    grid = np.linspace(-1, 1, SIDE)
    turns = np.linspace(0, 2 * np.pi, views, endpoint=False)
    images = []
    for _ in range(objects):
        count = int(rng.integers(6, 15))
        radius, angle = rng.uniform(0, 0.7, count), rng.uniform(0, 2 * np.pi, count)
        across = radius * np.cos(angle + turns[:, None])
        height, width = rng.uniform(-0.7, 0.7, count), rng.uniform(0.08, 0.25, count)
        rows = np.exp(-((grid[:, None] - height) ** 2) / (2 * width**2))
        columns = np.exp(-((grid[:, None] - across[:, None, :]) ** 2) / (2 * width**2))
        images.append(np.einsum("b,rb,vcb->vrc", rng.uniform(0.3, 1.0, count), rows, columns))
    return np.concatenate(images).astype(np.float32), np.repeat(np.arange(objects), views)


def glyphs(seed: int, draws: int = 4, side: int = 28) -> Samples:
    """Twenty capitals in the twenty fonts that matplotlib carries: images (n, 28, 28) in 0..1.

    Each is drawn ``draws`` times; ``seed`` draws its shift (up to 1.5 pixels each way) and its turn
    (up to 8 degrees).
    """
    from PIL import Image, ImageDraw, ImageFont

    spec = find_spec("matplotlib")
    if spec is None or spec.origin is None:
        raise InputError("the letters are drawn in matplotlib's fonts: pip install matplotlib")
    folder = Path(spec.origin).parent / "mpl-data" / "fonts" / "ttf"
    rng = np.random.default_rng(seed)
    images, labels, fine = [], [], 4  # drawn larger, so that shifts by parts of a pixel are seen
    for name in FONTS:
        path = folder / f"{name}.ttf"
        if not path.exists():
            raise InputError(f"matplotlib's font {path.name} is missing: install matplotlib >= 3.9")
        font = ImageFont.truetype(str(path), 20 * fine)
        for label, letter in enumerate(LETTERS):
            for _ in range(draws):
                canvas = Image.new("L", (side * fine, side * fine))
                x, y = side * fine / 2 + rng.uniform(-1.5, 1.5, 2) * fine
                box = font.getbbox(letter)
                corner = (x - (box[0] + box[2]) / 2, y - (box[1] + box[3]) / 2)
                ImageDraw.Draw(canvas).text(corner, letter, fill=255, font=font)
                turned = canvas.rotate(rng.uniform(-8, 8), Image.Resampling.BILINEAR)
                images.append(np.asarray(turned.resize((side, side), Image.Resampling.BOX)))
                labels.append(label)
    return np.stack(images).astype(np.float32) / 255, np.array(labels)
