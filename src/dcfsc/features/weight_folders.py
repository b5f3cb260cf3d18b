"""A folder of weights in the format of Hugging Face transformers, from untrusted sources.

Networks are read only here: from ``config.json``, as plain values, and from ``*.safetensors``. So
no Python of the folder runs, nothing is unpickled, and nothing that a file names is followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from dcfsc.errors import InputError, reason
from dcfsc.files import read_json as read_json_file

CONFIG, MODULES = "config.json", "modules.json"
WEIGHTS = re.compile(r"model(-\d+-of-\d+)?\.safetensors")
# What a config says about code, sources and classes; features need none of it.
UNUSED = {"auto_map", "_name_or_path", "name_or_path", "architectures", "transformers_version"} | {
    *("id2label", "label2id", "num_labels", "pretrained_cfg", "custom_pipelines", "license"),
    *("attn_implementation", "_attn_implementation", "_attn_implementation_internal"),
}
ELSEWHERE = re.compile(r"backbone$|path|file|url|checkpoint$|repo|hub|kernel_config")
COUNTS = re.compile(r"layer|depth|block|stage")
LARGEST_COUNT, LARGEST_NUMBER = 256, 1 << 20  # or as many as the weights have, if that is more
SPARE_WEIGHTS = 1 << 22  # that a network may have beside twice those in its file


def own_file(folder: Path, name: str) -> Path | None:
    """The regular file of that name in the folder, or in the hub's copy that it is a view of."""
    file, top = (folder / name).resolve(), folder.resolve()
    inside = file.is_relative_to(top) or (
        top.parent.name == "snapshots" and file.is_relative_to(top.parents[1] / "blobs")
    )
    return file if inside and file.is_file() else None


def read_json(file: Path) -> dict[str, Any]:
    """The object in a JSON file, without the entries that features do not need."""
    try:
        value = read_json_file(file)
        if isinstance(value, dict):
            return _used(value)
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"cannot read {file}: {reason(error)}") from None
    raise InputError(f"{file} holds no object.")


def read_weights(folder: Path, part: str = "") -> dict[str, Tensor]:
    """All tensors of the folder, or of the folder ``part`` in it, by name."""
    place = folder / part
    names = sorted(path.name for path in place.iterdir() if WEIGHTS.fullmatch(path.name))
    whole = [name for name in names if name == "model.safetensors"]
    files = [own_file(folder, f"{part}/{name}" if part else name) for name in whole or names]
    if not files or None in files:
        raise InputError(
            f"{place} has no model.safetensors of its own; weights in another format, such as "
            "pytorch_model.bin, are not read: save them as safetensors."
        )
    return {name: value for file in files if file for name, value in load_file(file).items()}


def network_in(folder: Path, part: str = "") -> tuple[Any, list[str]]:
    """The network of a folder, a class of transformers itself, and names of weights it lacks."""
    from transformers import CONFIG_MAPPING, AutoModel

    file = own_file(folder, f"{part}/{CONFIG}" if part else CONFIG)
    if file is None:
        raise InputError(f"{folder / part} has no {CONFIG} of its own.")
    values, weights = read_json(file), read_weights(folder, part)
    kind = values.get("model_type")
    if not isinstance(kind, str) or kind not in CONFIG_MAPPING:
        raise InputError(
            f"transformers has no model of the type {kind!r}, and code that comes with weights is "
            "not run; choose another encoder, or export this one as ONNX."
        )
    if values.get("quantization_config"):
        raise InputError("its weights are quantized, which features are not made from.")
    config = CONFIG_MAPPING[kind].from_dict(values)
    size = sum(value.numel() for value in weights.values())
    for name, value in _entries(config.to_dict()):  # its defaults too
        if isinstance(value, str) and (ELSEWHERE.search(name) or re.search(r"[/\\:]", value)):
            raise InputError(f"its {name} names something outside the folder: {value[:80]!r}.")
        counts = (LARGEST_COUNT, len(weights)) if COUNTS.search(name) else (LARGEST_NUMBER, size)
        if isinstance(value, int | float) and abs(value) > max(counts):
            raise InputError(f"its {name} does not fit its weights.")
    with torch.device("meta"):
        empty = AutoModel.from_config(config, trust_remote_code=False)
    if sum(v.numel() for v in (*empty.parameters(), *empty.buffers())) > 2 * size + SPARE_WEIGHTS:
        raise InputError("its network is larger than its weights.")
    network, loading = type(empty).from_pretrained(
        None,
        config=config,
        state_dict=weights,
        dtype=torch.float32,
        local_files_only=True,
        output_loading_info=True,
    )
    return network, sorted(loading["missing_keys"])


def _used(values: dict[str, Any]) -> dict[str, Any]:
    used = {name: value for name, value in values.items() if name not in UNUSED}
    return {name: _used(v) if isinstance(v, dict) else v for name, v in used.items()}


def _entries(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """All numbers and strings in a nested value, with their names."""
    if isinstance(value, dict):
        for key, item in _used(value).items():
            yield from _entries(item, str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _entries(item, name)
    else:
        yield name, value
