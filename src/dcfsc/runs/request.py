"""What a run was asked for, as one object that nothing changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from dcfsc.estimators.registry import features_for
from dcfsc.io import Dataset


@dataclass(frozen=True, eq=False)
class RunRequest:
    """Cluster ``data`` by a method of the registry and write the run's folder.

    ``options`` are the estimator's parameters, None where not given; those that only
    the transformer ``features`` has are its. Texts have features where none are named. Without
    ``random_state`` a seed is drawn. ``n_clusters="auto"`` takes the first of
    :func:`dcfsc.suggest_k`'s candidates.

    ``out`` is a new or empty folder, by default ``runs/<data>[-<features>]-<method>``. ``resume``
    goes on from the folder's checkpoint, or returns the same run if it was finished; ``overwrite``
    replaces the run that the folder holds once the new one is whole. ``timeout`` is in seconds, for
    processes of torchrun. ``inputs`` are the files that the data come from, which are never written
    to, and ``command`` is the command line, for the record.
    """

    data: Dataset
    method: str
    options: Mapping[str, Any]
    features: str | None = None
    out: Path | None = None
    resume: bool = False
    overwrite: bool = False
    report: bool = True
    timeout: float | None = None
    inputs: tuple[Path, ...] = ()
    command: str | None = None
    given: Mapping[str, Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        given = {name: value for name, value in self.options.items() if value is not None}
        object.__setattr__(self, "given", MappingProxyType(given))
        features = features_for(self.features, self.data.texts is not None)
        object.__setattr__(self, "features", features)

    def with_options(self, **options: Any) -> RunRequest:
        return replace(self, options={**self.options, **options})

    def seeded(self) -> RunRequest:
        if "random_state" in self.given:
            return self
        return self.with_options(random_state=int(np.random.SeedSequence().generate_state(1)[0]))

    @property
    def name(self) -> str:
        """What the run is called where its folder was not named."""
        return "-".join(filter(None, (self.data.name, self.features, self.method)))
