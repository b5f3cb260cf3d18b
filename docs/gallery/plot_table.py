"""
A table of measurements
=======================

Rows are samples and columns are measurements, as in a spreadsheet. Here each row is a light
spectrum of a liquid at 60 wavelengths. There are four recipes; a recipe is a mix of three dyes,
and the amounts differ from sample to sample. Mixing adds spectra, so the samples of one recipe lie
in one subspace of dimension three.
"""

# %%
# Make the table. With a file of your own this is ``pandas.read_csv("my_table.csv")``.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.metrics import clustering_error

rng = np.random.default_rng(0)
wavelengths = np.linspace(400, 700, 60)
centers = rng.uniform(400, 700, size=(10, 2))
widths = rng.uniform(15, 60, size=(10, 2))
dyes = np.exp(-(((wavelengths - centers[..., None]) / widths[..., None]) ** 2) / 2).sum(axis=1)
recipes = [rng.choice(10, size=3, replace=False) for _ in range(4)]

recipe = rng.permutation(np.repeat(np.arange(4), 75))
amounts = rng.gamma(2.0, 0.5, size=(300, 3))
spectra = np.stack([a @ dyes[recipes[r]] for a, r in zip(amounts, recipe, strict=True)])
spectra += rng.normal(scale=0.02, size=spectra.shape)
table = pd.DataFrame(spectra, columns=[f"{w:.0f} nm" for w in wavelengths])

# %%
# Pass the table as it is. Do not subtract the mean of each column, because a subspace contains the
# origin. If you standardize the columns, the origin moves and the clusters are no longer subspaces.

model = ClosedFormSubspaceClustering(n_clusters=4, random_state=0).fit(table)
standardized = StandardScaler().fit_transform(table)
labels = {
    "k-means": KMeans(4, n_init=10, random_state=0).fit_predict(table),
    "k-means, standardized": KMeans(4, n_init=10, random_state=0).fit_predict(standardized),
    "dcfsc": model.labels_,
    "dcfsc, standardized": ClosedFormSubspaceClustering(4, random_state=0).fit_predict(
        standardized
    ),
}
errors = {name: clustering_error(recipe, found) for name, found in labels.items()}

# %%
# Left: the errors. Right: the samples of each cluster that dcfsc found in the table as it is.

figure = plt.figure(figsize=(11, 4), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=(1, 1.6))
bars = left.subplots()
drawn = bars.barh(list(errors), list(errors.values()), color=["C7", "C7", "C0", "C0"])
bars.bar_label(drawn, fmt="%.0f%%", padding=3)
bars.invert_yaxis()
bars.set(xlabel="clustering error, %", xlim=(0, 75))
bars.spines[["top", "right"]].set_visible(False)
for k, ax in enumerate(right.subplots(2, 2, sharex=True, sharey=True).ravel()):
    ax.plot(wavelengths, table[model.labels_ == k].T, color=f"C{k}", lw=0.4, alpha=0.5)
    ax.set_title(f"cluster {k}", fontsize=10)
right.supxlabel("wavelength, nm", fontsize=10)
plt.show()
