"""The command suggest-k."""

from __future__ import annotations

import json
from typing import Annotated, Any

from dcfsc.cli import output
from dcfsc.cli.options import (
    ColorOption,
    DataArgument,
    DeviceOption,
    JsonOption,
    SeedOption,
    SizeOption,
    SkipOption,
    load_samples,
    option,
    reading_for,
)

MOST = 10


def suggest_k(
    data: DataArgument,
    max_k: Annotated[
        int | None,
        option("Largest K to consider.", "M", shown="50, or N/5"),
    ] = None,
    method: Annotated[
        str, option("closed-form (samples) or dcfsc (latents of an auto-encoder).", "NAME")
    ] = "closed-form",
    features: Annotated[
        str | None, option("Use features: encoder, scattering or autoencoder.", "NAME")
    ] = None,
    subspace_dim: Annotated[
        float | None, option("Expected dimension of each subspace.", "M")
    ] = None,
    weights: Annotated[str | None, option("Weights of the auto-encoder.", "FILE")] = None,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    size: SizeOption = None,
    color: ColorOption = None,
    skip_broken: SkipOption = False,
    as_json: JsonOption = False,
) -> None:
    """Suggest numbers of clusters for DATA, the best candidate first.

    The first candidate is often wrong on images: compare several. The documentation says how often
    it was right.
    """
    reading = reading_for(features, device, data)
    samples = load_samples(data, None, size, color, skip_broken, seed, reading)
    from dcfsc.estimators.registry import create_features
    from dcfsc.runs.executor import suggest_for_run

    options: dict[str, Any] = {
        "subspace_dim": subspace_dim,
        "device": device,
        "random_state": seed,
        "weights": weights,
    }
    transformer = None
    if features is not None:
        transformer, options = create_features(features, "closed-form", options)
    suggestion = suggest_for_run(
        samples, options, transformer, method=method, max_k=max_k
    ).to_dict()
    if as_json:
        print(json.dumps(suggestion))
        return
    candidates = suggestion["candidates"]
    output.print_table(output.CANDIDATE_HEADER, output.candidate_rows(candidates[:MOST]))
    used = f"{suggestion['n_samples']:,} of {len(samples):,} samples"
    output.say(f"suggested: K = {suggestion['k']} ({output.clarity(candidates)}; {used})")
