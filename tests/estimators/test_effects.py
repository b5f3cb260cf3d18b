"""Options that once did nothing, or something else than they say."""

from __future__ import annotations

import numpy as np
import pytest

from dcfsc import (
    ADSSC,
    LRR,
    AutoencoderFeatures,
    ClosedFormSubspaceClustering,
    EncoderFeatures,
    ScatteringFeatures,
    ViewClustering,
    spectral,
    suggest_k,
)
from dcfsc.affinity import Symmetric, TopK
from dcfsc.errors import InputError
from dcfsc.estimators import suggest as module
from dcfsc.io import synthetic
from dcfsc.pipeline import Recipe
from dcfsc.representations import create

TABLE = synthetic(60, 3, 2, 8, noise=0.3, random_state=0).X
IMAGES = np.random.default_rng(0).integers(0, 256, (24, 8, 8)).astype(np.uint8)
VIEWS = {
    "augmentations": {"noise": 1.0},
    "effort": "quick",
    "steps": 1,
    "batch_size": 8,
    "device": "cpu",
    "random_state": 0,
}


def on_views(**options):
    return ViewClustering(3, **{**VIEWS, **options})


class TestAssignOnViews:
    def test_it_is_the_features_assignment_and_filtered_by_default(self):
        labels = {}
        for assign in ("filtered", "kmeans", "discretize", "cluster_qr"):
            model = on_views(assign=assign).fit(IMAGES)
            labels[assign] = model.labels_.tolist()
            expected = spectral.assign(model._partition.embedding, 3, method=assign, random_state=0)
            assert len(set(zip(model.labels_, expected, strict=True))) == 3
        assert labels["filtered"] == on_views().fit(IMAGES).labels_.tolist()
        assert len({tuple(found) for found in labels.values()}) >= 3

    def test_a_cut_reads_the_rows_that_the_clusters_were_found_in(self):
        model = on_views().fit(IMAGES)
        two = model.cut(2)
        kept = two._partition.embedding.vectors.shape[1]
        assert kept == spectral.default_components("filtered", 2, len(IMAGES))
        assert two.assign == "filtered"
        assert on_views(assign="kmeans").fit(IMAGES).cut(2).embedding_.shape[1] == 2

    def test_an_unknown_one_is_refused_before_the_training(self):
        with pytest.raises(InputError, match="unknown assign 'nonsense'"):
            on_views(assign="nonsense", callbacks=[pytest.fail]).fit(IMAGES)


class TestNumberOfClusters:
    @pytest.mark.parametrize(
        "options",
        [
            {"lam": 7.0},
            {"normalize": False},
            {"affinity": TopK(k=3)},
            {"working_size": (6, 6)},
            {"representation": "given"},
        ],
    )
    def test_it_is_looked_for_in_graphs_like_those_of_the_fit(self, options, monkeypatch):
        asked = {}
        plain = suggest_k

        def suggested(X, **given):
            asked.update(given)
            return plain(X, **given)

        monkeypatch.setattr(module, "suggest_k", suggested)
        model = ClosedFormSubspaceClustering("auto", device="cpu", random_state=0, **options)
        model.fit(IMAGES)
        assert asked.items() >= options.items()
        assert model.n_clusters_ == plain(IMAGES, device="cpu", random_state=0, **options).k

    def test_a_ridge_and_a_dense_affinity_change_the_graphs(self):
        options = {"max_k": 6, "random_state": 0, "representation": "given"}
        plain = suggest_k(TABLE, **options)
        for other in (
            {"lam": 9.0},
            {"affinity": "symmetric"},
            {"affinity": Symmetric(scale=False)},
        ):
            found = suggest_k(TABLE, **{**options, **other})
            assert found.eigenvalues.shape == plain.eigenvalues.shape
            assert not np.allclose(found.eigenvalues, plain.eigenvalues)

    def test_options_of_the_samples_graph_are_refused_for_latents(self):
        for options in ({"lam": 2.0}, {"normalize": False}, {"working_size": None}):
            (name,) = options
            with pytest.raises(InputError, match=f"^{name}=.* has no effect with method='dcfsc'"):
                suggest_k(TABLE, method="dcfsc", **options)


class TestSigns:
    def test_they_are_refused_where_mirror_images_are_compared(self):
        model = ClosedFormSubspaceClustering(
            3, representation="scattering", affinity=TopK(signs="positive")
        )
        with pytest.raises(InputError, match="so signs='positive' has no effect; leave it out"):
            model.fit(IMAGES)

    def test_who_gives_them_gets_a_representation_that_has_signs(self):
        names = [
            {
                candidate.name
                for candidate in create("auto", Recipe((16, 16), 3, affinity=TopK(signs=signs)))
            }
            for signs in ("auto", "both")
        ]
        assert names[0] - names[1] == {"scattering"}
        model = ClosedFormSubspaceClustering(3, random_state=0, affinity=TopK(signs="both"))
        assert model.fit(IMAGES).representation_ != "scattering"


def test_callbacks_do_not_keep_a_model_from_being_saved(tmp_path):
    options = {"pretrain_epochs": 1, "random_state": 0, "device": "cpu"}
    model = AutoencoderFeatures(callbacks=[lambda row: None], **options).fit(TABLE)
    model.save(tmp_path / "model.safetensors")
    again = AutoencoderFeatures.load(tmp_path / "model.safetensors")
    assert again.callbacks == ()
    np.testing.assert_array_equal(again.transform(TABLE), model.transform(TABLE))


@pytest.mark.parametrize(
    ("model", "X", "said"),
    [
        (ClosedFormSubspaceClustering(3, n_neighbors=0), TABLE, "n_neighbors=0 is not allowed: an"),
        (ClosedFormSubspaceClustering(3, normalize="False"), TABLE, "normalize='False' is not"),
        (ClosedFormSubspaceClustering(3, working_size="nonsense"), TABLE, "size is 'nonsense'"),
        (ClosedFormSubspaceClustering(3, working_size=(4, 4)), TABLE, "the samples are vectors"),
        (
            ClosedFormSubspaceClustering(3, lam=1.0, subspace_dim=3.0),
            TABLE,
            "effect with lam=1.0",
        ),
        (ScatteringFeatures(J=10**9), IMAGES, "J=1000000000 is not allowed: an integer of"),
        (ScatteringFeatures(L=10**9), IMAGES, "L=1000000000 is not allowed: an integer of"),
        (EncoderFeatures(cache=""), IMAGES, "cache='' is not allowed"),
        (LRR(3, max_iter=2.7), TABLE, r"max_iter=2\.7 is not allowed: an integer of at least 1"),
        (ADSSC(3, eta2=1e-320), TABLE, "eta2=1e-320 is not allowed: a number of at least 1e-06"),
        (ADSSC(3, affinity="topk", eta2=0.2), TABLE, "eta2=0.2 has no effect with affinity='topk'"),
    ],
)
def test_what_is_of_no_use_is_one_line_at_once(model, X, said):
    with pytest.raises(InputError, match=said) as raised:
        model.fit(X)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("value", [np.int64(3), np.int32(3), np.uint8(3)])
def test_integers_of_numpy_are_integers(value):
    model = ClosedFormSubspaceClustering(value, n_neighbors=value, normalize=np.True_)
    assert model.fit(TABLE).n_clusters_ == 3
