"""The command suggest-k."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from dcfsc.cli import output
from dcfsc.cli.options import (
    ColorOption,
    DataArgument,
    DeviceOption,
    JsonOption,
    SizeOption,
    SkipOption,
    load_samples,
    reading_for,
)

MOST = 10


def suggest_k(
    data: DataArgument,
    max_k: Annotated[
        int | None, typer.Option(metavar="M", help="The largest K.", show_default="50, or N/5")
    ] = None,
    method: Annotated[
        str, typer.Option(help="closed-form (the samples) or dcfsc (an auto-encoder's latents).")
    ] = "closed-form",
    features: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of these: encoder, scattering, autoencoder.")
    ] = None,
    subspace_dim: Annotated[
        float | None, typer.Option(metavar="M", help="Expected dimension of a subspace.")
    ] = None,
    weights: Annotated[
        str | None, typer.Option(metavar="NAME|PATH", help="Weights of the auto-encoder.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed.")] = 0,
    device: DeviceOption = "auto",
    size: SizeOption = None,
    color: ColorOption = None,
    skip_broken: SkipOption = False,
    as_json: JsonOption = False,
) -> None:
    """Rank candidates for the number of clusters of DATA, from the spectra of its graphs.

    It is evidence, not an answer: see how often it was right in the documentation, on choosing K.
    """
    reading = reading_for(features, device, data)
    samples = load_samples(data, None, size, color, skip_broken, seed, reading)
    from dcfsc.runs.clusters import suggest_for_run

    options: dict[str, Any] = {
        "subspace_dim": subspace_dim,
        "device": device,
        "random_state": seed,
        "weights": weights,
    }
    suggestion = suggest_for_run(samples, options, features, method=method, max_k=max_k).to_dict()
    if as_json:
        print(json.dumps(suggestion))
        return
    candidates = suggestion["candidates"]
    output.print_table(output.CANDIDATE_HEADER, output.candidate_rows(candidates[:MOST]))
    used = f"{suggestion['n_samples']:,} of {len(samples):,} samples"
    print(f"suggested: K = {suggestion['k']} ({output.clarity(candidates)}; {used})")
