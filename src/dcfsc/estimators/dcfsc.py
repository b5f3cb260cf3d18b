"""Deep closed-form subspace clustering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from dcfsc import parameters as p
from dcfsc import processes
from dcfsc.machine import resolve_device
from dcfsc.self_expression import ClosedForm, Operator, choose_lam, solve, target_dof
from dcfsc.training import (
    Absolute,
    Checkpoint,
    LamRule,
    LossTerm,
    ShareOfEnergy,
    calibrate_batch_norm,
    encode,
    train,
)
from dcfsc.training.precision import PRECISIONS

from .base import SubspaceClusterer
from .deep import AutoencoderEstimator, checkpoint_of
from .persistence import Persistent
from .prediction import LabelsUnseen, restored_partition
from .sharded import check_choices, check_whole, common_random_state
from .suggest import number_for
from .validation import LAM, SUBSPACE_DIM, check_array, fixed_lam, local_generator

LATENT_SUBSPACE_DIM = 1.5  # chosen with labels, on image sets


@dataclass(eq=False, repr=False)
class DCFSC(AutoencoderEstimator, LabelsUnseen, Persistent, SubspaceClusterer):
    """Deep Closed-Form Subspace Clustering (Seo, Koo and Jeon 2019).

        min_Theta |X - Dec(B Enc(X))|_F^2,
        B = argmin_C |Z - C Z|_F^2 + lam |C|_F^2  subject to  diag(C) = 0,   Z = Enc(X)

    An auto-encoder is trained through a self-expressive layer without parameters: B is solved in
    closed form at each step and held constant in the backward pass (Algorithm 2). The coefficients
    of the trained latents then give an affinity, and spectral clustering the labels.

    Choose it for images, or for features whose clusters are curved; the same pipeline without a
    network is :class:`ClosedFormSubspaceClustering`, and with a network that learns from augmented
    images :class:`ViewClustering`. A step costs that of the network plus N d^2 + d^3 for d latent
    dimensions; there is no N x N matrix.

    Parameters
    ----------
    lam : float or "auto"
        Ridge parameter of the layer in absolute units, as in the paper, or a share of the latents'
        energy such that the effective degrees of freedom are ``n_clusters * subspace_dim``.
    subspace_dim : float or None
        Expected dimension m of a subspace, used by ``lam="auto"``; None is 1.5.
    network : "auto", a preset's name ("orl", "eyaleb", ...) or a spec
        "auto" picks an architecture from the shape of a sample.
    weights : None or a path
        A .safetensors file of weights to start from; None pre-trains on X.
    pretrain_epochs : int or None
        Epochs of plain reconstruction before the layer is put in; None is 0 with ``weights``
        and 60 otherwise.
    steps : int
        Full-batch steps of Algorithm 2.
    learning_rate : float
        Of Adam, in both phases.
    batch_size : int or None
        Samples whose activations are held at a time in training; None is all of them. The steps
        are the same full-batch steps, batch norm included: it buys memory with time.
    terms : sequence of loss terms
        Added to equation 1; see :mod:`dcfsc.training`.
    precision : "float32" or "bfloat16"
        Of the network's convolutions on a GPU; the layer's solve is accurate either way.
    compile : bool
        Have PyTorch's compiler build the network's kernels before the first step, which takes some
        twenty seconds and pays for long trainings on a GPU. Two such runs may differ in
        rounding.
    checkpoint : path or None
        A file to which training saves its state, and resumes from if it exists: to the same result,
        if ``random_state`` is an integer. It is left to the caller to delete.
    checkpoint_every : float
        Seconds between two savings; 0 saves after every step.
    verbose : "auto" or bool
        A progress bar; "auto" shows one on a terminal only.
    callbacks : sequence of callables
        Each is given a dictionary after every step.
    others, and attributes that are not here : as in :class:`ClosedFormSubspaceClustering`

    Attributes
    ----------
    network_ : the trained auto-encoder
    history_ : list of dictionaries, one a step
    latents_ : ndarray (N, d)
    """

    n_clusters: int | Literal["auto"] = 8
    _: KW_ONLY
    lam: float | str = "auto"
    subspace_dim: float | None = None
    steps: int = 100
    batch_size: int | None = None
    terms: Sequence[LossTerm] = ()
    precision: str = "float32"
    compile: bool = False
    affinity: Any = "topk"
    assign: str = "kmeans"
    checkpoint: Any = None
    checkpoint_every: float = 30.0

    _table = p.table(
        lam=LAM,
        subspace_dim=SUBSPACE_DIM,
        steps=p.whole(0),
        batch_size=p.whole(1) | p.NONE,
        terms=p.CALLABLES,
        precision=p.one_of(*PRECISIONS),
        compile=p.FLAG,
        checkpoint=p.PATH | p.NONE,
        checkpoint_every=p.real(0.0).needs("checkpoint"),
    )

    def fit(self, X: Any, y: Any = None) -> DCFSC:
        """Train on X (n, features), (n, h, w) or (n, c, h, w) and cluster its samples."""
        X = check_array(self, X, reset=True, least_samples=1 if processes.active() else 2)
        n_clusters = self.n_clusters_ = number_for(self, X)
        check_choices(self, n_clusters)
        fixed = fixed_lam(self.lam)
        random_state = common_random_state(self.random_state)
        checkpoint = checkpoint_of(self, X)
        generator = local_generator(random_state)
        with self._pretrained(X, generator, self.steps, checkpoint) as inputs:
            if self.steps:
                train(
                    self.network_,
                    inputs,
                    steps=int(self.steps),
                    lam=self._lam_rule(inputs, n_clusters, fixed, checkpoint),
                    learning_rate=self.learning_rate,
                    history=self.history_,
                    terms=self.terms,
                    precision=self.precision,
                    batch_size=self.batch_size,
                    compiled=bool(self.compile),
                    checkpoint=checkpoint,
                )
        calibrate_batch_norm(self.network_, inputs, self.batch_size)
        Z = encode(self.network_, inputs, self.batch_size)
        self.lam_ = choose_lam(Z, self._target_dof(n_clusters)) if fixed is None else fixed
        self._cluster(X, self._set_latents(Z), n_clusters, random_state)
        return self

    def _lam_rule(
        self, inputs: Any, n_clusters: int, fixed: float | None, checkpoint: Checkpoint | None
    ) -> LamRule:
        if fixed is not None:
            return Absolute(fixed)
        if checkpoint is not None and checkpoint.finished("pretrain"):
            return ShareOfEnergy(checkpoint.noted("share_of_energy"))
        Z = encode(self.network_, inputs, self.batch_size, training=True)
        rule = ShareOfEnergy.for_dof(Z, self._target_dof(n_clusters))
        if checkpoint is not None:
            checkpoint.notes["share_of_energy"] = rule.share
        return rule

    def _target_dof(self, n_clusters: int) -> float:
        m = LATENT_SUBSPACE_DIM if self.subspace_dim is None else self.subspace_dim
        return target_dof(n_clusters, m)

    def _unseen(self, X: Any) -> tuple[Operator, Tensor]:
        Z = self._encode(X)
        check_whole(self)
        if self._operator is None:
            self._set_latents(torch.from_numpy(self.latents_).to(Z.device))
        assert self._operator is not None
        return self._operator, Z

    def _set_latents(self, Z: Tensor) -> ClosedForm:
        operator = self._operator = solve(Z, self.lam_)
        self.latents_ = Z.cpu().numpy()
        self.leverage_ = operator.leverage.cpu().numpy()
        self.effective_dof_ = operator.effective_dof
        self._n_features_out = Z.shape[1]
        return operator

    def _ridge_features(self) -> Any:
        return self.latents_

    def _state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, values = super()._state()
        tensors["latents"] = torch.from_numpy(self.latents_)
        return tensors | self._partition_state(), {**values, "lam": self.lam_}

    def _restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        super()._restore(tensors, values)
        self._take_partition(restored_partition(tensors, self.n_clusters_))
        self.lam_ = float(values["lam"])
        self._set_latents(tensors["latents"].to(resolve_device(self.device)))
