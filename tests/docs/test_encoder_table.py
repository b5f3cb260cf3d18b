"""The table of encoders in the documentation, and the help, say what the registry says."""

from __future__ import annotations

from inspect import signature
from pathlib import Path

from dcfsc import EncoderFeatures
from dcfsc.cli.fit import fit
from dcfsc.features.packaged_weights import DEFAULT, PACKAGED

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "images.md").read_text(encoding="utf-8")


def test_every_packaged_encoder_is_in_the_table() -> None:
    for name, weights in PACKAGED.items():
        cells = [
            f"`{name}`",
            weights.title,
            f"{weights.side} x {weights.side}",
            f"{weights.features:,}",
            f"{weights.parameters / 1e6:.1f} million",
            f"{weights.megabytes} MB",
            weights.trained_on,
            weights.license,
            weights.paper,
        ]
        assert f"| {' | '.join(cells)} |" in PAGE


def test_the_default_is_named() -> None:
    assert f"| `encoder` | {PACKAGED[DEFAULT].title}, trained on ImageNet |" in PAGE
    assert f'None is "{DEFAULT}"' in (EncoderFeatures.__doc__ or "")


def test_the_help_names_them() -> None:
    features = signature(fit).parameters["features"].default.help
    assert ", ".join(PACKAGED) in features
