"""Encoders: what they do to images first, and what each backend makes of them."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from dcfsc.errors import InputError
from dcfsc.features import encoder_backends
from dcfsc.features.encoder_backends import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    from_processor,
    open_encoder,
)
from dcfsc.features.encoders import InputImages, TorchEncoder, pooled
from dcfsc.features.packaged_weights import DEFAULT as DEFAULT_NAME
from dcfsc.features.packaged_weights import PACKAGED, packaged

CPU = torch.device("cpu")
DEFAULT = InputImages((8, 8))


class TestInputImages:
    def test_what_has_the_size_is_left_as_it_is(self):
        pixels = torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8)
        assert torch.equal(DEFAULT.cut(pixels), pixels.float())

    def test_margins_are_lost_where_the_aspect_is_kept(self):
        pixels = torch.zeros(1, 3, 8, 16)
        pixels[..., 4:12] = 200.0
        assert (DEFAULT.cut(pixels) == 200.0).all()
        stretched = InputImages((8, 8), keep_aspect=False).cut(pixels)
        assert stretched[..., 0].max() < 20.0

    def test_the_crop_is_central(self):
        pixels = torch.zeros(1, 3, 16, 16)
        pixels[..., 4:12, 4:12] = 100.0
        assert (InputImages((8, 8), crop=0.5).cut(pixels) == 100.0).all()

    @pytest.mark.parametrize(("side", "taken"), [(32, 16), (16, 8), (12, 8), (8, 8), (4, 4)])
    def test_a_crop_does_not_cost_pixels(self, side, taken):
        """Of 8 x 8 or less nothing is cut off, of a little more only what is not needed."""
        pixels = torch.zeros(1, 3, side, side)
        margin = (side - taken) // 2
        pixels[..., margin : side - margin, margin : side - margin] = 100.0
        cut = InputImages((8, 8), crop=0.5).cut
        torch.testing.assert_close(cut(pixels), torch.full((1, 3, 8, 8), 100.0))
        pixels[..., margin, :] = 0.0
        assert (cut(pixels) < 90.0).any()

    def test_pixels_are_scaled_channel_by_channel(self):
        images = InputImages((1, 1), mean=(10.0, 20.0, 30.0), std=(1.0, 2.0, 5.0))
        scaled = images.scale(torch.tensor([10, 30, 80], dtype=torch.uint8).view(1, 3, 1, 1))
        assert scaled.flatten().tolist() == [0.0, 5.0, 10.0]


class TestProcessor:
    def write(self, folder: Path, **settings: object) -> InputImages:
        (folder / "preprocessor_config.json").write_text(json.dumps(settings))
        return from_processor(folder, DEFAULT)

    def test_shortest_edge_and_crop(self, tmp_path):
        images = self.write(
            tmp_path,
            size={"shortest_edge": 256},
            do_center_crop=True,
            crop_size={"height": 224, "width": 224},
            image_mean=[0.485, 0.456, 0.406],
            image_std=[0.229, 0.224, 0.225],
            rescale_factor=1 / 255,
        )
        assert (images.size, images.crop, images.keep_aspect) == ((224, 224), 0.875, True)
        assert images.mean == pytest.approx(IMAGENET_MEAN)
        assert images.std == pytest.approx(IMAGENET_STD)

    def test_height_and_width_stretch(self, tmp_path):
        images = self.write(
            tmp_path,
            size={"height": 32, "width": 48},
            image_mean=[0.5, 0.5, 0.5],
            image_std=[0.5, 0.5, 0.5],
        )
        assert (images.size, images.crop, images.keep_aspect) == ((32, 48), 1.0, False)
        assert images.mean == images.std == pytest.approx((127.5,) * 3)

    def test_an_integer_is_the_shorter_edge(self, tmp_path):
        images = self.write(tmp_path, size=24, do_normalize=False)
        assert (images.size, images.keep_aspect) == ((24, 24), True)
        assert images.std == pytest.approx((255.0,) * 3)

    def test_nested_in_a_processor_and_none_at_all(self, tmp_path):
        assert from_processor(tmp_path, DEFAULT) is DEFAULT
        settings = {"image_processor": {"size": {"height": 9, "width": 7}}}
        (tmp_path / "processor_config.json").write_text(json.dumps(settings))
        assert from_processor(tmp_path, DEFAULT).size == (9, 7)

    def test_damage_is_one_line(self, tmp_path):
        (tmp_path / "preprocessor_config.json").write_text("[1")
        with pytest.raises(InputError, match="does not say how images are prepared"):
            from_processor(tmp_path, DEFAULT)


def test_pooling():
    tokens, maps = torch.arange(24.0).view(2, 4, 3), torch.arange(16.0).view(2, 2, 2, 2)
    assert torch.equal(pooled(tokens), tokens[:, 0])
    assert pooled(maps).tolist() == [[1.5, 5.5], [9.5, 13.5]]
    assert pooled(np.ones((2, 5), np.float16)).shape == (2, 5)


def test_the_identity_is_that_of_weights_and_preparation():
    def identity(seed: int, images: InputImages) -> str:
        torch.manual_seed(seed)
        return TorchEncoder("tiny", nn.Conv2d(3, 2, 3), images, CPU).identity

    with torch.random.fork_rng():
        assert identity(0, DEFAULT) == identity(0, InputImages((8, 8)))
        assert identity(0, DEFAULT) != identity(1, DEFAULT)
        assert identity(0, DEFAULT) != identity(0, InputImages((8, 8), crop=0.5))


def test_a_missing_package_is_one_line(monkeypatch):
    monkeypatch.setattr(encoder_backends, "installed", lambda *packages: False)
    for name in (None, "lite2", "facebook/dinov2-small"):
        with pytest.raises(InputError, match=r"needs the package.*dcfsc\[encoders\]") as raised:
            open_encoder(name, CPU)
        assert "\n" not in str(raised.value)


# The largest feature of a fixed image, its value, and the mean and the length of all features.
FIXED = {
    "lite0": (113, 5.2660, 0.14883, 19.1846),
    "lite1": (827, 3.7772, 0.13623, 15.5548),
    "lite2": (966, 4.2362, 0.14478, 15.2568),
}
NAMES = ["lite0", *(pytest.param(name, marks=pytest.mark.slow) for name in ("lite1", "lite2"))]


@pytest.mark.parametrize("name", NAMES)
class TestEfficientNetLite:
    def test_features_are_those_before_the_classifier(self, name):
        encoder, weights = open_encoder(name, CPU), PACKAGED[name]
        side = weights.side
        pixels = torch.randint(
            0, 256, (2, 3, side, side), generator=torch.Generator().manual_seed(0)
        )
        features = encoder(pixels)
        assert features.shape == (2, weights.features)
        with torch.inference_mode():
            logits = encoder.module((pixels.float() - 127) / 128)
            np.testing.assert_allclose(encoder.module._fc(features), logits, rtol=1e-3, atol=1e-4)

    def test_features_of_a_fixed_image(self, name):
        side = PACKAGED[name].side
        y, x, channel = torch.meshgrid(
            torch.arange(side), torch.arange(side), torch.arange(3), indexing="ij"
        )
        pixels = ((channel + 1) * y + 2 * x).permute(2, 0, 1)[None] % 256
        features = open_encoder(name, CPU)(pixels)[0]
        at, value, mean, norm = FIXED[name]
        assert int(features.argmax()) == at
        assert [features[at], features.mean(), features.norm()] == pytest.approx(
            [value, mean, norm], rel=1e-3
        )

    def test_what_the_table_says_is_so(self, name):
        encoder, weights = open_encoder(name, CPU), PACKAGED[name]
        assert encoder.title == f"EfficientNet-Lite{name[-1]}"
        assert encoder.images.size == (weights.side, weights.side)
        assert encoder.module._global_params.image_size == weights.side
        count = sum(p.numel() for p in encoder.module.parameters())
        classifier = sum(p.numel() for p in encoder.module._fc.parameters())
        assert count - classifier == weights.parameters
        assert encoder.images.scale(torch.tensor([[[[0, 127, 255]]] * 3]))[0, 0].tolist() == [
            [-127 / 128, 0.0, 1.0]
        ]

    def test_a_changed_file_is_refused(self, name, tmp_path, monkeypatch):
        weights = PACKAGED[name]
        located = getattr(import_module(weights.package), f"Efficientnet{name.title()}ModelFile")
        content = bytearray(Path(located.get_model_file_path()).read_bytes())
        content[len(content) // 2] ^= 1
        (tmp_path / "weights.pth").write_bytes(content)
        monkeypatch.setattr(
            located, "get_model_file_path", staticmethod(lambda: str(tmp_path / "weights.pth"))
        )
        with pytest.raises(InputError, match=r"weights\.pth differs from the published file"):
            open_encoder(name, CPU)


def test_packaged_encoders_have_several_names():
    assert packaged(None) is PACKAGED[DEFAULT_NAME]
    for name, weights in PACKAGED.items():
        assert packaged(name) is packaged(name.upper()) is packaged(weights.title) is weights
    assert packaged("facebook/dinov2-small") is None
    assert packaged("models/lite0") is None


@pytest.fixture(scope="module")
def vit(tmp_path_factory) -> Path:
    """A vision transformer with random weights, as transformers saves it."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("models") / "vit"
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = transformers.ViTConfig(
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=24,
            image_size=32,
            patch_size=8,
        )
        transformers.ViTModel(config).save_pretrained(folder)
    return folder


class TestTransformers:
    def test_features_are_the_first_token(self, vit):
        encoder = open_encoder(str(vit), CPU)
        assert encoder.images == InputImages((32, 32), keep_aspect=False)
        pixels = torch.randint(0, 256, (3, 3, 32, 32), generator=torch.Generator().manual_seed(0))
        with torch.inference_mode():
            output = encoder.module(pixel_values=(pixels - 127.5) / 127.5)
        features = encoder(pixels)
        assert features.shape == (3, 16)
        np.testing.assert_allclose(features, output.last_hidden_state[:, 0], rtol=1e-4, atol=1e-5)

    def test_images_and_texts(self, tmp_path):
        transformers = pytest.importorskip("transformers")
        tiny = {
            "hidden_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 24,
        }
        config = transformers.CLIPConfig(
            vision_config={**tiny, "image_size": 16, "patch_size": 8},
            text_config={**tiny, "vocab_size": 20, "max_position_embeddings": 8},
            projection_dim=12,
        )
        with torch.random.fork_rng():
            transformers.CLIPModel(config).save_pretrained(tmp_path)
        encoder = open_encoder(str(tmp_path), CPU)
        assert encoder.images.size == (16, 16)
        assert encoder(torch.zeros(2, 3, 16, 16)).shape == (2, 12)

    def test_what_is_not_there_is_one_line_that_says_what_to_put_where(self, tmp_path, monkeypatch):
        pytest.importorskip("transformers")
        with pytest.raises(InputError, match=r"put config\.json, model\.safetensors"):
            open_encoder(str(tmp_path), CPU)
        import huggingface_hub

        def unreachable(*args: object, **options: object) -> str:
            raise OSError("no network\nat all")

        monkeypatch.setattr(huggingface_hub, "snapshot_download", unreachable)
        with pytest.raises(InputError, match=r"no network\); put its config\.json.*encoder:FOLDER"):
            open_encoder("somebody/something", CPU)

    def test_damaged_weights_are_one_line(self, vit, tmp_path):
        for file in vit.iterdir():
            (tmp_path / file.name).write_bytes(
                file.read_bytes()[: 200 if "model" in file.name else None]
            )
        with pytest.raises(InputError, match="cannot open the encoder"):
            open_encoder(str(tmp_path), CPU)


class TestOnnx:
    def write(self, path: Path, batch: int | str = "n") -> None:
        """y = the mean of every channel, through a 1 x 1 convolution that doubles it."""
        pytest.importorskip("onnxruntime")
        onnx = pytest.importorskip("onnx")
        make = onnx.helper
        weights = make.make_tensor(
            "w", onnx.TensorProto.FLOAT, (3, 3, 1, 1), (2 * np.eye(3)).flatten().tolist()
        )
        graph = make.make_graph(
            [
                make.make_node("Conv", ["x", "w"], ["c"]),
                make.make_node("GlobalAveragePool", ["c"], ["y"]),
            ],
            "g",
            [make.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [batch, 3, 6, 5])],
            [make.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [batch, 3, 1, 1])],
            [weights],
        )
        model = make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=10)
        path.write_bytes(model.SerializeToString())

    @pytest.mark.parametrize("batch", ["n", 1, 4])
    def test_values(self, tmp_path, batch):
        self.write(tmp_path / "net.onnx", batch)
        encoder = open_encoder(str(tmp_path / "net.onnx"), CPU)
        assert encoder.images.size == (6, 5)
        assert encoder.batch_size == (4 if batch == "n" else batch)
        size = encoder.batch_size
        pixels = torch.randint(0, 256, (size, 3, 6, 5), generator=torch.Generator().manual_seed(0))
        scaled = (pixels - torch.tensor(IMAGENET_MEAN).view(3, 1, 1)) / torch.tensor(
            IMAGENET_STD
        ).view(3, 1, 1)
        np.testing.assert_allclose(encoder(pixels), 2 * scaled.mean((2, 3)), rtol=1e-4, atol=1e-5)
        assert encoder(pixels[:1]).shape == (1, 3)

    def test_what_is_not_there_or_damaged_is_one_line(self, tmp_path):
        pytest.importorskip("onnxruntime")
        with pytest.raises(InputError, match="no encoder file"):
            open_encoder(str(tmp_path / "net.onnx"), CPU)
        (tmp_path / "net.onnx").write_bytes(b"nonsense")
        with pytest.raises(InputError, match="cannot open the encoder") as raised:
            open_encoder(str(tmp_path / "net.onnx"), CPU)
        assert "\n" not in str(raised.value)
