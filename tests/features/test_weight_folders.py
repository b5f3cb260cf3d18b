"""Folders of weights from anybody: nothing of them runs, nothing that they name is followed."""

from __future__ import annotations

import builtins
import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from dcfsc.errors import InputError
from dcfsc.features.encoder_backends import NameInFile, open_encoder

transformers = pytest.importorskip("transformers")
CPU = torch.device("cpu")
TINY = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "image_size": 32,
    "patch_size": 8,
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "vit"
    with torch.random.fork_rng():
        torch.manual_seed(0)
        transformers.ViTModel(transformers.ViTConfig(**TINY)).save_pretrained(folder)
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the weights, on a machine without a network and with somebody who says yes."""

    def unreachable(*args: object, **options: object) -> Any:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "create_connection", unreachable)
    monkeypatch.setattr(socket.socket, "connect", unreachable)
    monkeypatch.setattr(socket, "getaddrinfo", unreachable)
    monkeypatch.setattr(builtins, "input", lambda *prompt: "y")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    return Path(shutil.copytree(whole, tmp_path / "vit"))


def change(folder: Path, **values: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **values}))


def refused(folder: Path, said: str) -> None:
    with pytest.raises(InputError, match=said) as raised:
        open_encoder(str(folder), CPU)
    assert "\n" not in str(raised.value)


def with_code(folder: Path, marker: Path) -> None:
    names = {"AutoConfig": "mine.Config", "AutoModel": "mine.Model"}
    change(folder, model_type="mine", auto_map=names)
    (folder / "mine.py").write_text(
        f"open({str(marker)!r}, 'w')\nfrom transformers import ViTConfig, ViTModel\n"
        "class Config(ViTConfig):\n    model_type = 'mine'\n"
        "class Model(ViTModel):\n    config_class = Config\n"
    )


def test_python_of_the_folder_does_not_run_whatever_is_answered(folder, tmp_path):
    with_code(folder, tmp_path / "ran")
    refused(folder, "no model of the type 'mine', and code that comes with weights is not run")
    assert not (tmp_path / "ran").exists()


def test_a_known_type_is_the_class_of_transformers(folder, whole, tmp_path):
    with_code(folder, tmp_path / "ran")
    change(folder, model_type="vit")
    encoder = open_encoder(str(folder), CPU)
    assert type(encoder.module) is transformers.ViTModel
    assert encoder.identity == open_encoder(str(whole), CPU).identity
    assert not (tmp_path / "ran").exists()


def adapter(folder: Path) -> None:
    """Weights of an adapter, which would be put upon those of the folder that it names."""
    settings = {"peft_type": "LORA", "base_model_name_or_path": "somebody/else"}
    (folder / "adapter_config.json").write_text(json.dumps(settings))


def modules(folder: Path) -> None:
    parts = [{"idx": 0, "name": "0", "path": "../..", "type": "os.system"}]
    (folder / "modules.json").write_text(json.dumps(parts))


def tokenizer(folder: Path) -> None:
    settings = {"tokenizer_class": "mine.Tokenizer", "auto_map": {"AutoTokenizer": ["mine.T", ""]}}
    for name in ("tokenizer_config.json", "video_preprocessor_config.json"):
        (folder / name).write_text(json.dumps(settings))


@pytest.mark.parametrize("nested", [adapter, modules, tokenizer])
def test_what_other_files_name_is_not_followed(
    folder: Path, whole: Path, nested: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
):
    from transformers.models.auto import auto_factory

    # as where the package for adapters is installed
    monkeypatch.setattr(auto_factory, "is_peft_available", lambda: True)
    nested(folder)
    change(folder, _name_or_path="../../elsewhere")
    assert open_encoder(str(folder), CPU).identity == open_encoder(str(whole), CPU).identity


def test_an_index_leads_nowhere_else(folder, whole):
    shutil.move(folder / "model.safetensors", folder.parent / "secret.safetensors")
    places = dict.fromkeys(load_file(whole / "model.safetensors"), "../secret.safetensors")
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": places})
    )
    refused(folder, r"no model\.safetensors of its own")


def test_weights_in_parts_are_those_of_the_folder(folder, whole):
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    for number, part in enumerate((names[:5], names[5:]), 1):
        save_file(
            {n: tensors[n] for n in part}, folder / f"model-0000{number}-of-00002.safetensors"
        )
    assert open_encoder(str(folder), CPU).identity == open_encoder(str(whole), CPU).identity


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"model_type": "detr"}, "backbone|names something outside|not fit|not read"),
        ({"transformers_weights": "../secret.safetensors"}, "names something outside the folder"),
        ({"backbone": "resnet50", "use_pretrained_backbone": True}, "backbone names something"),
        ({"quantization_config": {"quant_method": "gptq"}}, "its weights are quantized"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers does not fit its weights"),
        ({"hidden_size": 10**9}, "hidden_size does not fit its weights"),
        ({"intermediate_size": 10**6}, "its network is larger than its weights"),
        ({"image_size": 10**5}, "100000 x 100000|not fit|larger than"),
        ({"num_attention_heads": "x"}, "cannot open the encoder"),
    ],
)
def test_a_config_that_asks_for_more_is_one_line(folder, values, said):
    change(folder, **values)
    refused(folder, said)


def test_labels_without_number_take_no_memory(folder, whole):
    change(folder, num_labels=10**9)
    assert open_encoder(str(folder), CPU).identity == open_encoder(str(whole), CPU).identity


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_only_regular_files_of_the_folder_are_read(folder, whole, name, kind):
    (folder / name).unlink()
    if kind == "link":
        (folder / name).symlink_to(whole / name)
    elif kind == "pipe":
        os.mkfifo(folder / name)
    else:
        (folder / name).mkdir()
    refused(folder, "of its own|holds no encoder")


def test_the_hub_keeps_links_to_its_own_copies(folder, whole):
    top = folder.parent / "models--some--name"
    (top / "blobs").mkdir(parents=True)
    (top / "snapshots" / "1a").mkdir(parents=True)
    for name in ("config.json", "model.safetensors"):
        shutil.copy(folder / name, top / "blobs" / name)
        (top / "snapshots" / "1a" / name).symlink_to(f"../../blobs/{name}")
    copy = open_encoder(str(top / "snapshots" / "1a"), CPU)
    assert copy.identity == open_encoder(str(whole), CPU).identity


def test_pickled_weights_are_refused_unopened(folder):
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_model.bin")
    refused(folder, r"no model\.safetensors of its own; weights in another format.*are not read")


@pytest.mark.parametrize(
    "settings",
    [
        {"size": {"height": 10**6, "width": 10**6}},
        {"size": -5},
        {"size": {"height": 32, "width": 32}, "image_mean": [1e400, 0, 0], "image_std": [1, 1, 1]},
        {"size": {"height": 10**400, "width": 1}},
        {"image_processor": 3},
    ],
)
def test_a_processor_that_asks_for_more_is_one_line(folder, settings):
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    refused(folder, "does not say how images are prepared")


def test_a_name_in_a_file_is_not_fetched(folder, monkeypatch):
    import huggingface_hub

    asked = []

    def download(name: str, *, local_files_only: bool, **options: Any) -> str:
        asked.append(local_files_only)
        if local_files_only:
            raise OSError("not here")
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    with pytest.raises(InputError, match="not on this machine, and a name in a file is not fetch"):
        open_encoder(NameInFile("some/name"), CPU)
    assert asked == [True]
    assert open_encoder("some/name", CPU).title == "some/name"
    assert asked == [True, True, False]
