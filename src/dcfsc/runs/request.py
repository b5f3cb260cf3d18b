"""What a run was asked for, as one object that nothing changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from dcfsc.io import Dataset


@dataclass(frozen=True, eq=False)
class RunRequest:
    """Cluster ``data`` by a method and write the run's folder.

    Parameters
    ----------
    data : Dataset
        Its labels only score the result.
    method : str
        A name of ``dcfsc.estimators.registry.METHODS``.
    options : mapping
        Parameters of its estimator, ``n_clusters`` among them; None means not given. Without
        ``random_state`` a seed is drawn, and recorded. ``n_clusters="auto"`` takes the first of
        :func:`dcfsc.suggest_k`'s candidates, which are recorded.
    features : str or None
        A name of ``dcfsc.estimators.registry.FEATURES``, computed first and clustered instead of
        the samples. Options that are not the method's are its.
    out : Path or None
        A new or empty folder. None is ``runs/<data>[-<features>]-<method>``, with a number
        appended if that is taken.
    resume : bool
        Go on from the folder's checkpoint, if there is one. Training keeps one there until the run
        is whole. Where the same run was finished before, that one is returned.
    overwrite : bool
        Replace the run that the folder holds, once the new one is whole.
    report : bool
        Whether to write the details and the page; a failure there is a warning, the run stays.
    timeout : float or None
        Seconds that a process of torchrun waits for another one, 600 unless given.
    inputs : tuple of Path
        The files and folders that the data come from, which are never written to.
    command : str or None
        The command line, for the record.
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

    def with_options(self, **options: Any) -> RunRequest:
        """The same request with other values of some options."""
        return replace(self, options={**self.options, **options})

    def seeded(self) -> RunRequest:
        """The same request with a seed, drawn where none was given."""
        if "random_state" in self.given:
            return self
        return self.with_options(random_state=int(np.random.SeedSequence().generate_state(1)[0]))

    @property
    def name(self) -> str:
        """What the run is called where its folder was not named."""
        return "-".join(filter(None, (self.data.name, self.features, self.method)))
