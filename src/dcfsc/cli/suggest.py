"""The command suggest-k."""

from __future__ import annotations

import json
from typing import Any

import typer

from dcfsc.cli import options, output
from dcfsc.cli.options import option

MOST = 10


def suggest_k(
    ctx: typer.Context,
    data: str = options.SAMPLES,
    max_k: int | None = option("Largest K to consider.", "M", shown="50, or N/5"),
    method: str = option(
        "closed-form (samples) or dcfsc (latents of an auto-encoder).",
        "NAME",
        default="closed-form",
    ),
    features: str | None = option("Use features: encoder, scattering or autoencoder.", "NAME"),
    subspace_dim: float | None = option("Expected dimension of each subspace.", "M"),
    weights: str | None = option("Weights of the auto-encoder.", "FILE"),
    sample: int | None = options.SAMPLE,
    seed: int = options.SEED,
    device: str = options.DEVICE,
    labels: str | None = options.LABELS,
    text: str | None = options.TEXT,
    id: str | None = options.ID,
    columns: str | None = options.COLUMNS,
    ignore: str | None = options.IGNORE,
    missing: str | None = options.MISSING,
    transpose: bool = options.TRANSPOSE,
    size: str | None = options.SIZE,
    color: bool | None = options.COLOR,
    page: str | None = options.PAGE,
    channels: str | None = options.CHANNELS,
    strict: bool = options.STRICT,
    as_json: bool = options.JSON,
) -> None:
    """Suggest numbers of clusters for DATA, the best candidate first.

    The score of a candidate is the sum of its slope, separation and evenness. The first one is
    often wrong on images: compare several. The documentation says how often it was right.
    """
    reading = options.reading_for(features, device, data)
    table = {name: ctx.params[name] for name in options.TABLE}
    samples = options.load_samples(
        data, labels, size, color, strict, seed, reading, page, channels, **table
    )
    from dcfsc.estimators.registry import create_features, features_for
    from dcfsc.runs.executor import suggest_for_run

    given_options: dict[str, Any] = {
        "subspace_dim": subspace_dim,
        "device": device,
        "random_state": seed,
        "weights": weights,
    }
    transformer, texts = None, samples.texts is not None
    if (name := features_for(features, texts)) is not None:
        transformer, given_options = create_features(
            name, "closed-form", given_options, texts=texts
        )
    suggestion = suggest_for_run(
        samples, given_options, transformer, method=method, max_k=max_k
    ).to_dict()
    if as_json:
        print(json.dumps(suggestion))
        return
    if samples.notes:
        output.print_facts([("notes", samples.notes)])
    candidates = suggestion["candidates"]
    output.print_table(output.CANDIDATE_HEADER, output.candidate_rows(candidates[:MOST]))
    used = f"{suggestion['n_samples']:,} of {len(samples):,} samples"
    output.say(f"suggested: K = {suggestion['k']} ({output.clarity(candidates)}; {used})")
