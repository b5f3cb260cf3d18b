"""tr H and the leave-one-out error along lam, at two scales: docs/images/lambda_path.svg.

python docs/figures/lambda_path.py
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import torch
from style import BLUE, INK, MUTED, ORANGE, save

from dcfsc.io import synthetic
from dcfsc.self_expression import LambdaPath, choose_lam

CLUSTERS, DIMENSION = 5, 4


def main() -> None:
    data = synthetic(
        n_samples=400,
        n_clusters=CLUSTERS,
        subspace_dim=DIMENSION,
        ambient_dim=60,
        noise=0.15,
        random_state=0,
    )
    X = torch.from_numpy(data.X).double()
    left, right = plt.subplots(1, 2, figsize=(9.2, 3.3), layout="constrained")[1]
    for scale, color, name in ((1.0, BLUE, "X"), (255.0, ORANGE, "255 X")):
        Z = scale * X
        path = LambdaPath(Z)
        energy = float(Z.square().sum(1).mean())
        lams = energy * np.logspace(-4, 3, 120)
        chosen = choose_lam(Z, CLUSTERS * DIMENSION)
        left.semilogx(lams, [path.effective_dof(lam) for lam in lams], color=color, label=name)
        left.plot(chosen, CLUSTERS * DIMENSION, "o", color=color)
        error = [path.leave_one_out_error(lam) / float(Z.square().sum()) for lam in lams]
        right.semilogx(lams, error, color=color, label=name)
        at_chosen = path.leave_one_out_error(chosen) / float(Z.square().sum())
        right.plot(chosen, at_chosen, "o", color=color)
    left.axhline(CLUSTERS * DIMENSION, color=MUTED, lw=1, ls="--")
    left.text(left.get_xlim()[0] * 2, CLUSTERS * DIMENSION + 1.5, "K m = 20", color=INK)
    left.set(xlabel="lam", ylabel="tr H", title="effective degrees of freedom")
    right.set(xlabel="lam", ylabel="|Z - B Z|² / |Z|²", title="leave-one-out error")
    for axes in (left, right):
        axes.legend(frameon=False)
    save(left.figure, "lambda_path")


if __name__ == "__main__":
    main()
