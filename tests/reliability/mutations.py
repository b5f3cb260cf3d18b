"""Damage to files: what any bytes can suffer, and what a JSON document can."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from safetensors.torch import load

from dcfsc.training.checkpoint import fingerprint

Mutation = Callable[[np.random.Generator, bytes, Sequence[bytes]], bytes]
ABSURD = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 2**62, 2**63 - 1, 2**64 - 1)


def bit_flips(rng: np.random.Generator, data: bytes, others: Sequence[bytes]) -> bytes:
    out = np.frombuffer(data, np.uint8).copy()
    for place in rng.integers(len(out), size=int(2 ** rng.integers(0, 6))):
        out[place] ^= 1 << int(rng.integers(8))
    return out.tobytes()


def flips_at_the_start(rng: np.random.Generator, data: bytes, others: Sequence[bytes]) -> bytes:
    head = bit_flips(rng, data[:128], others)
    return head + data[128:]


def truncation(rng: np.random.Generator, data: bytes, others: Sequence[bytes]) -> bytes:
    return data[: int(rng.integers(len(data)))]


def cut_start(rng: np.random.Generator, data: bytes, others: Sequence[bytes]) -> bytes:
    return data[int(rng.integers(1, len(data))) :]


def hole(rng: np.random.Generator, data: bytes, others: Sequence[bytes]) -> bytes:
    """A part that never reached the disk: zeros, as after a power cut."""
    a, b = sorted(rng.integers(len(data) + 1, size=2).tolist())
    return data[:a] + bytes(b - a) + data[b:]


def missing_part(rng: np.random.Generator, data: bytes, others: Sequence[bytes]) -> bytes:
    a, b = sorted(rng.integers(len(data) + 1, size=2).tolist())
    return data[:a] + data[b:]


def repeated_part(rng: np.random.Generator, data: bytes, others: Sequence[bytes]) -> bytes:
    a, b = sorted(rng.integers(len(data) + 1, size=2).tolist())
    return data[:b] + data[a:b] * int(rng.integers(1, 20)) + data[b:]


def splice(rng: np.random.Generator, data: bytes, others: Sequence[bytes]) -> bytes:
    """The start of one file and the end of another."""
    other = others[int(rng.integers(len(others)))]
    return data[: int(rng.integers(len(data) + 1))] + other[int(rng.integers(len(other) + 1)) :]


def absurd_number(rng: np.random.Generator, data: bytes, others: Sequence[bytes]) -> bytes:
    """A length, a count or an offset that no file has, in either byte order."""
    size = int(rng.choice([1, 2, 4, 8]))
    value = int(rng.choice(np.array(ABSURD, object))) % (1 << 8 * size)
    number = value.to_bytes(size, str(rng.choice(["little", "big"])))  # type: ignore[arg-type]
    near = len(data) if rng.random() < 0.5 else min(len(data), 256)
    place = int(rng.integers(max(1, near - size)))
    return data[:place] + number + data[place + size :]


def noise(rng: np.random.Generator, data: bytes, others: Sequence[bytes]) -> bytes:
    keep = int(rng.choice([0, 4, 8, 16, 64]))
    return data[:keep] + rng.bytes(int(rng.integers(0, 2000)))


def appended(rng: np.random.Generator, data: bytes, others: Sequence[bytes]) -> bytes:
    return data + rng.bytes(int(rng.integers(1, 3000)))


def empty(rng: np.random.Generator, data: bytes, others: Sequence[bytes]) -> bytes:
    return b""


ANY_BYTES: tuple[Mutation, ...] = (
    *(bit_flips, bit_flips, flips_at_the_start, truncation, cut_start, hole, missing_part),
    *(repeated_part, splice, absurd_number, absurd_number, noise, appended, empty),
)


def odd_value(rng: np.random.Generator) -> Any:
    """A JSON value that no one expects where it stands."""
    values: tuple[Any, ...] = (
        *(None, True, False, -1, 0, 1, 3, 0.5, 2**31, 2**63, 10**30, -(10**12), 1e308, 5e-324),
        *(float("nan"), float("inf"), "", "x" * 3000, "\x00\n\x1b[31m", "../../../etc/passwd"),
        *(
            "O",
            "float64",
            "\ud800",
            [],
            {},
            [[]],
            [1, "a", None],
            {"": {}},
            [0] * 1000,
            "10" * 2500,
        ),
        *([-1], [10**9, 10**9], [10**9] * 5, {"affinity": "TopK"}, {"spec": {}}),
    )
    return values[int(rng.integers(len(values)))]


def damaged_json(rng: np.random.Generator, value: Any) -> Any:
    """The value with one to three of its entries replaced, removed, renamed or added."""
    document = json.loads(json.dumps(value))
    for _ in range(int(rng.integers(1, 4))):
        places = list(_places(document))
        if not places:
            return odd_value(rng)
        parent, key = places[int(rng.integers(len(places)))]
        action = rng.random()
        if action < 0.65:
            parent[key] = odd_value(rng)
        elif action < 0.85:
            del parent[key]
        elif isinstance(parent, dict):
            parent[str(key) + "_"] = parent.pop(key)
        else:
            parent.append(odd_value(rng))
    return document


def _places(value: Any) -> Any:
    if isinstance(value, dict):
        items: Any = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        return
    for key, item in items:
        yield value, key
        yield from _places(item)


def deep_json(rng: np.random.Generator, key: str = "data") -> str:
    """Nesting that a recursive parser does not survive."""
    depth = int(rng.choice([500, 5_000, 100_000]))
    left, right = ("[", "]") if rng.random() < 0.5 else ('{"a":', "}")
    return '{"dcfsc_run": 1, "' + key + '": ' + left * depth + "1" + right * depth + "}"


def json_text(rng: np.random.Generator, text: bytes) -> bytes:
    """A JSON file that is still JSON, or nearly."""
    if rng.random() < 0.1:
        return deep_json(rng).encode()
    if rng.random() < 0.05:
        return b'{"dcfsc_run": ' + b"9" * 10_000 + b"}"
    return json.dumps(damaged_json(rng, json.loads(text))).encode()


def safetensors(rng: np.random.Generator, data: bytes) -> bytes:
    """A safetensors file whose header is JSON still: of its tensors, or of what dcfsc keeps."""
    (length,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    choice = rng.random()
    if choice < 0.55:
        ours = json.loads(header["__metadata__"]["dcfsc"])
        ours.pop("sha256", None)
        changed = damaged_json(rng, ours)
        if isinstance(changed, dict) and rng.random() < 0.9:
            # as one who means harm would: the sum is right, what it sums is not
            changed["sha256"] = fingerprint(changed, load(data))
        header["__metadata__"]["dcfsc"] = json.dumps(changed)
    elif choice < 0.65:
        header["__metadata__"]["dcfsc"] = deep_json(rng)
    elif choice < 0.9:
        header = damaged_json(rng, header)
    else:
        names = [n for n in header if n != "__metadata__"]
        one, two = (names[int(i)] for i in rng.integers(len(names), size=2))
        header[one], header[two] = header[two], header[one]
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body
