"""Deep closed-form subspace clustering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from dcfsc import parameters as p
from dcfsc import processes
from dcfsc.machine import resolve_device
from dcfsc.self_expression import ClosedForm, Operator, choose_lam, solve, target_dof
from dcfsc.training import (
    Absolute,
    Callback,
    Checkpoint,
    LamRule,
    LossTerm,
    ShareOfEnergy,
    calibrate_batch_norm,
    encode,
    train,
)
from dcfsc.training.precision import PRECISIONS

from .base import ASSIGNMENTS, SubspaceClusterer
from .deep import LEARNING_RATE, identity
from .persistence import Persistent
from .prediction import Predictor, restored_partition
from .sharded import check_choices, check_whole, common_random_state
from .suggest import number_for
from .validation import LAM, SUBSPACE_DIM, check_array, fixed_lam, local_generator
from .views import NUMBERS, TRAININGS, ViewEstimator

LATENT_SUBSPACE_DIM = 1.5  # chosen with labels, on image sets
STEPS = 100
_BY_ITSELF = "_training", "reconstruction"


@dataclass(eq=False, repr=False)
class DCFSC(ViewEstimator, Predictor, Persistent, SubspaceClusterer):
    """Deep Closed-Form Subspace Clustering (Seo, Koo and Jeon 2019).

        min_Theta |X - Dec(B Enc(X))|_F^2,
        B = argmin_C |Z - C Z|_F^2 + lam |C|_F^2  subject to  diag(C) = 0,   Z = Enc(X)

    An auto-encoder is trained through a self-expressive layer without parameters: B is solved in
    closed form at each step and held constant in the backward pass (Algorithm 2). The coefficients
    of the trained latents then give an affinity, and spectral clustering the labels.

    With ``training="views"`` an encoder without a decoder learns from random views of the samples
    instead, on mini-batches. The closed form of the samples determines which changes a view may
    have and which samples are neighbors, whose views should agree. Later the closed form of the
    features gives better neighbors and, at the end, the clusters. Images of which the closed form
    knows too little, as of photographs of things, are learned from views alone, which takes longer.

    Choose it for images, or for features whose clusters are curved; the same pipeline without a
    network is :class:`ClosedFormSubspaceClustering`. A step costs that of the
    network plus N d^2 + d^3 for d latent dimensions; there is no N x N matrix.

    Parameters
    ----------
    n_clusters : int or "auto"
        Number of clusters K; "auto" is the first candidate of :func:`dcfsc.suggest_k`.
    lam : float or "auto"
        Ridge parameter of the layer in absolute units, as in the paper, or a share of the latents'
        energy such that the effective degrees of freedom are ``n_clusters * subspace_dim``.
    subspace_dim : float or None
        Expected dimension m of a subspace, used by ``lam="auto"``; None is 1.5.
    training : "reconstruction", "views" or None
        The paper's training of an auto-encoder, or that of an encoder on views. None is "views"
        for the networks "residual" and "head", and "reconstruction" for others.
    network : "auto", "residual", "head", a preset's name ("orl", "eyaleb", ...) or a spec
        "auto" picks an architecture from the shape of a sample. Views take a residual network for
        images, and for feature vectors a "head": a small MLP on features that are fixed.
    views : "auto" or a mapping
        Which changes views have, and how strong: ``{"geometry": 1.0, "light": 0.5}``; the names
        and what strength 1 means are in :mod:`dcfsc.views.augmentations`. "auto" lets the data say.
    losses : mapping or None
        The weights of the losses on views: "contrastive", "coding_rate", "agreement",
        "prediction", "self_expression", "clusters" and "groups"
        (:mod:`dcfsc.views.losses`). None is ``{"contrastive": 1.0, "clusters": 1.0}``, and
        for a head "self_expression" as well; where images are learned from views alone,
        ``{"prediction": 1.0}``, without a GPU ``{"contrastive": 1.0}``, and then "groups" for a
        head on the features.
    partners : int
        With views: the number of a sample's neighbors in the closed form whose views are made to
        agree with its own; 0 for none.
    weights : None or a path
        A .safetensors file of weights to start from; None pre-trains on X.
    pretrain_epochs : int or None
        Epochs of plain reconstruction before the layer is put in; None is 0 with ``weights``
        and 60 otherwise.
    steps : int or None
        Full-batch steps of Algorithm 2, 100 if None. Of views: mini-batches, 1,500 if None, and
        300 without a GPU. From views alone: so many that each sample is seen 200 times, and no
        fewer than 20,000; 2,400 without a GPU.
    learning_rate : float or None
        Of Adam, in both phases; None is 1e-3. With views: the largest of its cycle; None is 3e-3.
        From views alone on a GPU: of SGD with momentum; None is 0.06.
    pretrain_batch_size : int
        Samples of a mini-batch in pre-training.
    batch_size : int or None
        Samples whose activations are held at a time in training; None is all of them. The steps
        are the same full-batch steps, batch norm included: it buys memory with time. With views:
        samples of a mini-batch, 512 if None, and 256 without a GPU; 128 from views alone on a GPU.
    terms : sequence of loss terms
        Added to equation 1; see :mod:`dcfsc.training`.
    tol, patience : float or None, int
        Stop early once the loss has not fallen by the share ``tol`` for ``patience`` steps.
    precision : "float32", "bfloat16" or None
        Of the network's convolutions on a GPU; the layer's solve is accurate either way. None is
        "float32", and "bfloat16" for views on a GPU.
    compile : bool
        Have PyTorch's compiler build the network's kernels before the first step, which takes some
        twenty seconds and pays for long trainings on a GPU. Two such runs may differ in
        rounding.
    assign : str or None
        How the embedding becomes labels; None is "kmeans", and "filtered" for views.
    affinity, n_neighbors, device, random_state
        As in :class:`ClosedFormSubspaceClustering`.
    checkpoint : path or None
        A file to which training saves its state, and resumes from if it exists: to the same result,
        if ``random_state`` is an integer. It is left to the caller to delete.
    checkpoint_every : float
        Seconds between two savings; 0 saves after every step.
    verbose : "auto" or bool
        A progress bar; "auto" shows one on a terminal only.
    callbacks : sequence of callables
        Each is given a dictionary after every step.

    Attributes
    ----------
    labels_, confidence_, next_best_ : ndarray (N,)
    n_clusters_ : int
    network_ : the trained auto-encoder or encoder
    view_strengths_, view_consistency_ : dict
        With views: the strength of each change, and how often it left samples in their clusters.
    representation_, stability_ : str, dict
        With views: how the closed form compares the features.
    history_ : list of dictionaries, one a step
    latents_ : ndarray (N, d)
    lam_, effective_dof_ : float; None where views end in a representation without a ridge
    leverage_, affinity_matrix_, embedding_, eigenvalues_
        As in :class:`ClosedFormSubspaceClustering`.
    """

    n_clusters: int | Literal["auto"] = 8
    _: KW_ONLY
    lam: float | str = "auto"
    subspace_dim: float | None = None
    training: str | None = None
    network: Any = "auto"
    views: Any = "auto"
    losses: Mapping[str, float] | None = None
    partners: int = 3
    weights: Any = None
    pretrain_epochs: int | None = None
    steps: int | None = None
    learning_rate: float | None = None
    pretrain_batch_size: int = 256
    batch_size: int | None = None
    terms: Sequence[LossTerm] = ()
    tol: float | None = None
    patience: int = 20
    precision: str | None = None
    compile: bool = False
    affinity: Any = "topk"
    assign: str | None = None
    n_neighbors: int = 10
    device: Any = "auto"
    random_state: Any = None
    checkpoint: Any = None
    checkpoint_every: float = 30.0
    verbose: bool | str = "auto"
    callbacks: Sequence[Callback] = ()

    _table = p.table(
        lam=LAM,
        subspace_dim=SUBSPACE_DIM,
        training=p.one_of(*TRAININGS) | p.NONE,
        views=(p.one_of("auto") | NUMBERS).needs("_training", "views"),
        losses=(p.NONE | NUMBERS).needs("_training", "views"),
        partners=p.whole(0).needs("_training", "views"),
        weights=(p.PATH | p.NONE).needs(*_BY_ITSELF),
        pretrain_epochs=(p.whole(0) | p.NONE).needs(*_BY_ITSELF),
        steps=p.whole(0) | p.NONE,
        learning_rate=p.real(0.0, p.LARGEST_RATE) | p.NONE,
        pretrain_batch_size=p.whole(1).needs(*_BY_ITSELF),
        batch_size=p.whole(1) | p.NONE,
        terms=p.CALLABLES.needs(*_BY_ITSELF),
        tol=(p.POSITIVE | p.NONE).needs(*_BY_ITSELF),
        patience=p.whole(1).needs(*_BY_ITSELF).needs("tol"),
        precision=p.one_of(*PRECISIONS) | p.NONE,
        compile=p.FLAG,
        assign=p.one_of(*ASSIGNMENTS) | p.NONE,
        n_neighbors=p.whole(1),
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
        checkpoint = None
        if self.checkpoint is not None:
            checkpoint = Checkpoint(self.checkpoint, identity(self, X), self.checkpoint_every)
        self._forget_views()
        if self._training() == "views":
            self._fit_views(X, n_clusters, random_state, checkpoint)
        else:
            self._fit_reconstruction(X, n_clusters, fixed, random_state, checkpoint)
        return self

    def _fit_reconstruction(
        self,
        X: Any,
        n_clusters: int,
        fixed: float | None,
        random_state: np.random.RandomState,
        checkpoint: Checkpoint | None,
    ) -> None:
        """The paper's training."""
        steps = STEPS if self.steps is None else self.steps
        generator = local_generator(random_state)
        with self._pretrained(X, generator, steps, checkpoint) as inputs:
            if steps:
                train(
                    self.network_,
                    inputs,
                    steps=int(steps),
                    lam=self._lam_rule(inputs, n_clusters, fixed, checkpoint),
                    learning_rate=LEARNING_RATE
                    if self.learning_rate is None
                    else self.learning_rate,
                    history=self.history_,
                    terms=self.terms,
                    tol=self.tol,
                    patience=self.patience,
                    precision="float32" if self.precision is None else self.precision,
                    batch_size=self.batch_size,
                    compiled=bool(self.compile),
                    checkpoint=checkpoint,
                )
        calibrate_batch_norm(self.network_, inputs, self.batch_size)
        Z = encode(self.network_, inputs, self.batch_size)
        if fixed is None:
            fixed = choose_lam(Z, self._target_dof(n_clusters))
        self.lam_ = fixed
        self._cluster(X, self._set_latents(Z), n_clusters, random_state)

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
        if self._has_views():
            return self._unseen_views(X)
        Z = self._encode(X)
        check_whole(self)
        if self._operator is None:
            self._set_latents(torch.from_numpy(self.latents_).to(Z.device))
        assert self._operator is not None
        return self._operator, Z

    def _set_latents(self, Z: Tensor) -> ClosedForm:
        assert self.lam_ is not None
        operator = self._operator = solve(Z, self.lam_)
        self.latents_ = Z.cpu().numpy()
        self.leverage_ = operator.leverage.cpu().numpy()
        self.effective_dof_ = operator.effective_dof
        self._n_features_out = Z.shape[1]
        return operator

    def _ridge_features(self) -> Any:
        return self._views_ridge_features() if self._has_views() else self.latents_

    def _state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        check_whole(self)
        tensors, values = super()._state()
        tensors["latents"] = torch.from_numpy(self.latents_)
        tensors["labels"] = torch.from_numpy(self.labels_)
        tensors |= self._memberships_state()
        return tensors, {**values, "lam": self.lam_}

    def _restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        super()._restore(tensors, values)
        self._take_partition(restored_partition(tensors, self.n_clusters_))
        if not self._has_views():
            self.lam_ = float(values["lam"])
            self._set_latents(tensors["latents"].to(resolve_device(self.device)))
