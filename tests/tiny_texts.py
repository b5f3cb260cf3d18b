"""Encoders of texts for tests: one without a network, and a small network as a folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from dcfsc.features.encoders import Pretrained, digest

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "bus", "was", "late", "soup", "cold", "."]
TINY = {
    "vocab_size": len(WORDS),
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 20,
    "initializer_range": 0.5,
}


class CharacterCounts(Pretrained):
    """How often characters occur, by their remainder: 7 features."""

    encoded = 0
    batch_size = 8
    n_features = 7

    def __init__(self, name: Any, device: torch.device, max_length: int | None = None):
        self.title, self.max_length = f"Counts {name}", max_length
        self.power = 1 if name is None else 2
        self.identity = digest(f"{self.power} {max_length}".encode())

    def tokens(self, text: str) -> Tensor:
        return torch.tensor([ord(c) for c in text[: self.max_length]] or [0])

    def __call__(self, texts: Sequence[Tensor]) -> Tensor:
        CharacterCounts.encoded += len(texts)
        remainders = pad_sequence(list(texts), batch_first=True, padding_value=-1) % 7
        lengths = torch.tensor([len(tokens) for tokens in texts])
        there = torch.arange(remainders.shape[1]) < lengths[:, None]
        counts = [((remainders == r) & there).sum(dim=1) for r in range(7)]
        return torch.stack(counts, dim=1).float() ** self.power


def write_text_model(folder: Path, steps: Sequence[tuple[str, dict[str, Any]]] = ()) -> Path:
    """A BERT with random weights as transformers saves it, with what follows the network."""
    from transformers import BertConfig, BertModel

    with torch.random.fork_rng():
        torch.manual_seed(0)
        BertModel(BertConfig(**TINY)).save_pretrained(folder)
    write_tokenizer(folder)
    if steps:
        kinds = ["Transformer", *(kind for kind, _ in steps)]
        paths = ["", *(f"{i}_{kind}" for i, kind in enumerate(kinds[1:], 1))]
        write_modules(folder, kinds, paths)
        for path, (_, settings) in zip(paths[1:], steps, strict=True):
            (folder / path).mkdir()
            (folder / path / "config.json").write_text(json.dumps(settings))
    return folder


def write_modules(folder: Path, kinds: Sequence[str], paths: Sequence[str]) -> None:
    listed = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(zip(kinds, paths, strict=True))
    ]
    (folder / "modules.json").write_text(json.dumps(listed))


def write_tokenizer(folder: Path, words: Sequence[str] = WORDS) -> None:
    """Words, between a mark of the beginning and one of the end."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    vocabulary = {word: i for i, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    marks = [(mark, vocabulary[mark]) for mark in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, marks)
    tokenizer.save(str(folder / "tokenizer.json"))
