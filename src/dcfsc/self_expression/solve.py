"""The closed form of Z by the cheaper of its two forms."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from dcfsc import processes
from dcfsc.errors import InputError, unknown_name

from .closed_form import ClosedForm, check_problem
from .effective_dof import lam_for_dof
from .feature_form import FeatureForm
from .gram import fewer_samples, smaller_gram
from .sample_form import SampleForm

Form = Literal["auto", "samples", "features"]


def solve(Z: Tensor, lam: float, form: Form = "auto") -> ClosedForm:
    """Solve the paper's problem (4) for the rows of Z.

    Parameters
    ----------
    Z : Tensor (N, d), float32 or float64, on any device; no gradient flows through the solution.
    lam : positive ridge parameter, in the units of the squared entries of Z.
    form : "samples" costs N^2 d + N^3 and keeps N^2 numbers; "features" costs N d^2 + d^3 and keeps
        N d; "auto" takes the cheaper one (N <= d or not). Both give the same B.

    The factorization is done in float64 whatever the precision of Z (see :mod:`.gram`); products
    with the N samples are done in the precision of Z, on factors of norm at most one, unless some
    1 - h_i is so small that single precision would lose more than two digits.
    """
    check_problem(Z, lam)
    if form not in get_args(Form):
        raise unknown_name("form", form, get_args(Form))
    if form == "auto":
        form = "samples" if fewer_samples(Z) else "features"
    if form == "samples" and processes.active():
        raise InputError("form='samples' needs all samples in one process; use 'features' here.")
    if form == "samples":
        return SampleForm(Z.detach(), lam)
    return FeatureForm(Z.detach(), lam)


def solve_for_dof(Z: Tensor, dof: float, G: Tensor | None = None) -> ClosedForm:
    """:func:`solve` with the lam of ``dof`` effective degrees of freedom, from one Gram matrix.

    ``G`` is :func:`.gram.smaller_gram` of Z if it is known, and is overwritten.
    """
    G = smaller_gram(Z) if G is None else G
    lam = lam_for_dof(torch.linalg.eigvalsh(G).clamp_min(0.0), dof)
    check_problem(Z, lam)
    return (SampleForm if fewer_samples(Z) else FeatureForm)(Z.detach(), lam, G)
