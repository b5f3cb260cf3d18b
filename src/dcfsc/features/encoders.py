"""Pretrained networks as encoders of images: an image -> a feature vector.

An encoder declares which images it takes (:class:`InputImages`) and maps a batch of them to
features. Its identity is a digest of its weights and of that declaration: features are the same
only where it is the same. The backends are in :mod:`.encoder_backends`.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from dcfsc.errors import InputError
from dcfsc.io.working_size import Reading

CPU_BATCH, GPU_BATCH = 4, 128  # on a CPU more images leave the cache
LARGEST_SIDE = 1024  # of an encoder's input images


@dataclass(frozen=True)
class InputImages:
    """The images that an encoder takes.

    ``size`` is (height, width). An image of another aspect ratio is stretched, or with
    ``keep_aspect`` cropped; ``crop`` is the share of the remainder that is used, from the
    center, or more of it if the image is small. Pixels p in 0..255 become (p - mean) / std,
    channel by channel.
    """

    size: tuple[int, int]
    crop: float = 1.0
    keep_aspect: bool = True
    mean: tuple[float, float, float] = (127.5, 127.5, 127.5)
    std: tuple[float, float, float] = (127.5, 127.5, 127.5)

    def __post_init__(self) -> None:
        if not all(0 < side <= LARGEST_SIDE for side in self.size):
            height, width = (str(side)[:20] for side in self.size)
            raise InputError(f"an encoder takes images of {height} x {width}, which is not usable.")

    @property
    def reading(self) -> Reading:
        """How files become these images."""
        return Reading(self.size, False, self.crop, self.keep_aspect)

    def cut(self, pixels: Tensor) -> Tensor:
        """Images (n, 3, H, W) of any size at ``size``, float32 in 0..255."""
        left, top, right, bottom = self.reading.box(pixels.shape[-1], pixels.shape[-2])
        rows, columns = max(1, round(bottom - top)), max(1, round(right - left))
        y, x = round(top), round(left)
        taken = pixels[..., y : y + rows, x : x + columns].float()
        if taken.shape[-2:] == self.size:
            return taken
        resized = interpolate(taken, self.size, mode="bicubic", antialias=True)
        return resized.clamp_(0.0, 255.0)

    def scale(self, pixels: Tensor) -> Tensor:
        """Images (n, 3, h, w) in 0..255 as the network takes them."""
        mean, std = (
            torch.tensor(values, device=pixels.device).view(3, 1, 1)
            for values in (self.mean, self.std)
        )
        return (pixels.float() - mean) / std


class Pretrained:
    """A pretrained network that maps samples to vectors; on a GPU it may compute in bfloat16."""

    title: str  # the name that people read
    identity: str  # a digest of its weights and of how samples are prepared
    n_features: int
    device: torch.device = torch.device("cpu")
    precision: str = "float32"  # features of another precision differ in their last digits
    batch_size: int


class Encoder(Pretrained, ABC):
    """A pretrained network that maps images to vectors; ``device`` is where they are resized."""

    images: InputImages
    batch_size = CPU_BATCH

    @cached_property
    def n_features(self) -> int:  # type: ignore[override]
        """Number of features per image."""
        return self(torch.zeros(1, 3, *self.images.size)).shape[1]

    @abstractmethod
    def encode(self, x: Tensor) -> Tensor:
        """Features (n, k) of scaled images x (n, 3, h, w)."""

    def __call__(self, pixels: Tensor) -> Tensor:
        """Features (n, k), float32 on the CPU, of images (n, 3, h, w) in 0..255 at ``size``."""
        with torch.inference_mode():
            features = self.encode(self.images.scale(pixels))
        return features.float().cpu()


class TorchEncoder(Encoder):
    """A PyTorch module as an encoder; on a GPU it computes in bfloat16."""

    def __init__(self, title: str, module: Any, images: InputImages, device: torch.device):
        self.title, self.images, self.device = title, images, device
        self.identity = digest(described(images), *state_bytes(module))
        self.module = module.eval().to(device, memory_format=torch.channels_last)
        if device.type == "cuda":
            self.precision, self.batch_size = "bfloat16", GPU_BATCH

    def encode(self, x: Tensor) -> Tensor:
        x = x.to(self.device, memory_format=torch.channels_last)
        with torch.autocast("cuda", torch.bfloat16, enabled=self.device.type == "cuda"):
            return self.forward(x)

    def forward(self, x: Tensor) -> Tensor:
        """Features (n, k) of images on the device."""
        return self.module(x)


def described(images: InputImages) -> bytes:
    """How images are prepared; the number grows with the rules of :meth:`InputImages.cut`."""
    return json.dumps([2, asdict(images)], sort_keys=True).encode()


def digest(*parts: bytes | memoryview) -> str:
    """SHA-256 of some bytes."""
    result = hashlib.sha256()
    for part in parts:
        result.update(part)
    return result.hexdigest()


def state_bytes(module: torch.nn.Module) -> Iterable[bytes | memoryview]:
    """The names and values of all weights."""
    for name, value in module.state_dict().items():
        yield f"{name} {tuple(value.shape)} {value.dtype}".encode()
        flat = value.detach().cpu().contiguous().reshape(-1)
        yield memoryview(flat.view(torch.uint8).numpy())


def pooled(output: Any) -> Tensor:
    """One vector per image, (n, k), from any output of a vision network.

    Of tokens (n, t, k) it is the first, which stands for the image; of maps (n, k, h, w) the mean.
    """
    values = output if isinstance(output, Tensor) else torch.as_tensor(output)
    if values.ndim == 3:
        return values[:, 0]
    return values.mean(dim=(2, 3)) if values.ndim == 4 else values
