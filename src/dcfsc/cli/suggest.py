"""The command suggest-k."""

from __future__ import annotations

import json
from typing import Any

from dcfsc.cli import options, output
from dcfsc.cli.options import option

MOST = 10


def suggest_k(
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
    seed: int = options.SEED,
    device: str = options.DEVICE,
    size: str | None = options.SIZE,
    color: bool | None = options.COLOR,
    skip_broken: bool = options.SKIP_BROKEN,
    as_json: bool = options.JSON,
) -> None:
    """Suggest numbers of clusters for DATA, the best candidate first.

    The first candidate is often wrong on images: compare several. The documentation says how often
    it was right.
    """
    reading = options.reading_for(features, device, data)
    samples = options.load_samples(data, None, size, color, skip_broken, seed, reading)
    from dcfsc.estimators.registry import create_features
    from dcfsc.runs.executor import suggest_for_run

    given_options: dict[str, Any] = {
        "subspace_dim": subspace_dim,
        "device": device,
        "random_state": seed,
        "weights": weights,
    }
    transformer = None
    if features is not None:
        transformer, given_options = create_features(features, "closed-form", given_options)
    suggestion = suggest_for_run(
        samples, given_options, transformer, method=method, max_k=max_k
    ).to_dict()
    if as_json:
        print(json.dumps(suggestion))
        return
    candidates = suggestion["candidates"]
    output.print_table(output.CANDIDATE_HEADER, output.candidate_rows(candidates[:MOST]))
    used = f"{suggestion['n_samples']:,} of {len(samples):,} samples"
    output.say(f"suggested: K = {suggestion['k']} ({output.clarity(candidates)}; {used})")
