"""
A hundred thousand points
=========================

The graph that dcfsc cuts has a few edges for each sample. The default makes no N x N matrix, so
memory grows with the number of samples and not with its square. This example clusters 100,000
points on a CPU. A GPU clusters a million such points in seconds (:doc:`../results`).
"""

# %%
# Points of 20 subspaces of dimension 6 in 64 dimensions. We set ``subspace_dim``, so no time goes
# into choosing a representation.

from time import perf_counter

import matplotlib.pyplot as plt

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.affinity import TopK
from dcfsc.io import synthetic
from dcfsc.metrics import clustering_error


def points(n):
    return synthetic(n, n_clusters=20, subspace_dim=6, ambient_dim=64, noise=0.1, random_state=0)


def timed(name, data, label):
    """Seconds that ``label`` takes for the samples, with its error."""
    start = perf_counter()
    labels = label(data.X)
    seconds = perf_counter() - start
    error = clustering_error(data.y, labels)
    print(f"{name}, {len(data):7,} points: {seconds:5.1f} s, error {error:.1f}%")
    return seconds


# %%
# The default compares all pairs of samples to find neighbors. This is exact, and its time grows
# with the square of the number of samples.

exact = ClosedFormSubspaceClustering(20, subspace_dim=6, random_state=0)
exact_sizes = (1_000, 3_000, 10_000, 20_000)
exact_seconds = [timed("exact", points(n), exact.fit_predict) for n in exact_sizes]

# %%
# The approximate search misses few neighbors. It has a fixed cost that only pays for many points.
# ``recall`` is the share of the true neighbors that it found, measured on a sample.

approximate = ClosedFormSubspaceClustering(
    20, subspace_dim=6, affinity=TopK(search="approximate"), random_state=0
)
most = points(100_000)
approximate_seconds = timed("approximate", most, approximate.fit_predict)
print(f"recall: {approximate.coefficients_.recall:.4f}")

# %%
# If that is still too slow, fit on a part and let ``predict`` label the rest.


def label_from_a_part(X):
    return exact.fit(X[:10_000]).predict(X)


part_seconds = timed("fit 10,000, predict", most, label_from_a_part)

# %%
# Time against the number of points, and the memory of one N x N matrix in single precision beside
# that of the samples and their graph.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
left.loglog(exact_sizes, exact_seconds, "o-", label="exact")
left.loglog(len(most), approximate_seconds, "s", label="approximate")
left.loglog(len(most), part_seconds, "D", label="fit 10,000, predict the rest")
left.set(xlabel="points", ylabel="seconds", title="time on this machine")
left.legend(frameon=False)
counts = (1_000, 10_000, 100_000, 1_000_000)
right.loglog(counts, [4 * n**2 / 1e9 for n in counts], "--", color="C7", label="an N x N matrix")
right.loglog(counts, [4 * n * (64 + 2 * 8) / 1e9 for n in counts], label="samples and graph")
right.set(xlabel="points", ylabel="GB", title="memory, computed")
right.legend(frameon=False)
plt.show()
