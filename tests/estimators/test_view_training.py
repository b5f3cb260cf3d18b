"""ViewClustering, on images and with a head on feature vectors."""

import warnings

import numpy as np
import pytest
import torch

from dcfsc import DCFSC, ClosedFormSubspaceClustering, ViewClustering
from dcfsc.affinity import Symmetric, TopK
from dcfsc.affinity.joined import by_degrees
from dcfsc.errors import InputError
from dcfsc.estimators import views as view_estimator
from dcfsc.io import synthetic
from dcfsc.metrics import clustering_error
from dcfsc.networks import ConvSpec, ResidualSpec
from dcfsc.views.loop import Schedule
from dcfsc.views.model import ViewTraining

pytestmark = pytest.mark.slow


class Stop(Exception):
    pass


SMALL = ResidualSpec((1, 8, 8), (6, 8), 1, hidden=16, projection=8)
WIDER = ResidualSpec((1, 8, 8), (16, 32), 1, hidden=32, projection=16)
PLAIN = {"contrast": 1.0, "noise": 1.0}


def stripes(n=90):
    """Stripes of three directions, at a random phase each."""
    random = np.random.default_rng(0)
    y = np.arange(n) % 3
    across, down = np.array([(1, 0), (0, 1), (1, 1)]).T[:, y, None, None]
    rows, columns = np.mgrid[:8, :8]
    phase = random.uniform(0, 2 * np.pi, (n, 1, 1))
    X = 1.0 + np.sin(np.pi / 2 * (across * columns + down * rows) + phase)
    return (X + 0.1 * random.random(X.shape)).astype(np.float32), y


def model(K=3, **options):
    given = {"network": SMALL, "effort": "quick", "steps": 8, "batch_size": 32}
    given |= {"augmentations": PLAIN, "random_state": 0, "device": "cpu", "verbose": False}
    return ViewClustering(K, **given | options)


@pytest.fixture(scope="module")
def fitted():
    return model(augmentations="auto", steps=20, network=WIDER).fit(stripes()[0])


def test_images_are_clustered_without_labels(fitted):
    X, y = stripes()
    assert clustering_error(y, fitted.labels_) < 3
    assert fitted.latents_.shape == (90, 32)
    np.testing.assert_allclose(np.linalg.norm(fitted.latents_, axis=1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(fitted.transform(X), fitted.latents_, atol=1e-5)
    assert len(fitted.history_) == 20
    assert {"contrastive", "clusters"} < set(fitted.history_[0])
    assert fitted.affinity_matrix_.shape == (90, 90)


def test_the_data_choose_the_augmentations(fitted):
    assert set(fitted.augmentations_) == {"crop", *fitted.consistency_}
    assert fitted.augmentations_["contrast"] == 1.0
    assert all(0.0 <= share <= 1.0 for share in fitted.consistency_.values())


def test_pseudo_labels_begin_with_the_features_first_clusters(fitted):
    column = np.array(fitted.history_.column("clusters"))
    assert (column[:8] == 0).all()
    assert (column[8:] > 0).all()


def test_unseen_samples_are_predicted_and_a_saved_model_does_the_same(fitted, tmp_path):
    X, y = stripes(150)
    new, truth = X[90:], y[90:]
    labels = fitted.predict(new)
    together = clustering_error(
        np.concatenate([y[:90], truth]), np.concatenate([fitted.labels_, labels])
    )
    assert together < 3
    fitted.save(tmp_path / "model")
    loaded = ViewClustering.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(new), labels)
    np.testing.assert_array_equal(loaded.labels_, fitted.labels_)
    np.testing.assert_allclose(loaded.transform(new), fitted.transform(new), atol=1e-6)
    assert loaded.augmentations_ == fitted.augmentations_
    assert loaded.lam_ == fitted.lam_
    assert loaded.representation_ == fitted.representation_


def test_the_same_seed_gives_the_same_labels(undisturbed):
    same = model().fit(stripes()[0])
    np.testing.assert_array_equal(undisturbed.latents_, same.latents_)
    np.testing.assert_array_equal(undisturbed.labels_, same.labels_)


@pytest.fixture(scope="module")
def undisturbed():
    return model().fit(stripes()[0])


@pytest.mark.parametrize("step", [1, 3, 4, 7])
def test_going_on_gives_the_undisturbed_result(undisturbed, tmp_path, step):
    """The fourth step comes after the first clusters of features, which the checkpoint keeps."""
    X, file = stripes()[0], tmp_path / "checkpoint"

    def stop(row):
        if row["step"] == step:
            raise Stop

    options = {"checkpoint": file, "checkpoint_every": 0}
    with pytest.raises(Stop):
        model(**options, callbacks=[stop]).fit(X)
    resumed = model(**options).fit(X)
    np.testing.assert_array_equal(resumed.latents_, undisturbed.latents_)
    np.testing.assert_array_equal(resumed.labels_, undisturbed.labels_)
    losses = [fit.history_.column("loss") for fit in (resumed, undisturbed)]
    assert losses[0] == losses[1]


def test_a_checkpoint_keeps_the_augmentations_that_were_chosen(fitted, tmp_path):
    X, file = stripes()[0], tmp_path / "checkpoint"
    options = {"augmentations": "auto", "steps": 20, "network": WIDER}
    options |= {"checkpoint": file, "checkpoint_every": 0}

    def stop(row):
        if row["step"] == 2:
            raise Stop

    with pytest.raises(Stop):
        model(**options, callbacks=[stop]).fit(X)
    resumed = model(**options).fit(X)
    assert resumed.augmentations_ == fitted.augmentations_
    assert resumed.consistency_ == fitted.consistency_
    np.testing.assert_array_equal(resumed.latents_, fitted.latents_)


def test_a_head_learns_on_fixed_features(tmp_path):
    data = synthetic(120, 3, 2, 20, noise=0.05, random_state=0)
    head = model(network="head", augmentations="auto", steps=10, batch_size=None).fit(data.X)
    assert clustering_error(data.y, head.labels_) < 5
    assert set(head.augmentations_) == {"hole", "noise"}
    head.save(tmp_path / "head")
    loaded = ViewClustering.load(tmp_path / "head")
    np.testing.assert_array_equal(loaded.predict(data.X[:9]), head.predict(data.X[:9]))


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"effort": "both"}, "both"),
        ({"network": "orl"}, "orl"),
        ({"network": "head"}, "feature vectors"),
        ({"network": ResidualSpec((1, 9, 9))}, "shape"),
        ({"network": ConvSpec((1, 8, 8), (3,), (3,), (2,))}, "ViewClustering takes"),
        ({"augmentations": {"blur": 1.0}}, "blur"),
        ({"augmentations": "geometry"}, "augmentations"),
        ({"batch_size": 1}, "batch_size"),
        ({"learning_rate": -1.0}, "learning_rate"),
        ({"precision": "bfloat16"}, "bfloat16"),
        ({"compile": True}, "compile"),
    ],
)
def test_bad_options_are_refused_in_one_line(options, word):
    with pytest.raises(InputError, match=word) as error:
        model(**options).fit(stripes()[0])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("network", ["head", "residual", SMALL])
def test_networks_for_views_are_refused_by_the_papers_training(network):
    with pytest.raises(InputError, match=r"views|build takes"):
        DCFSC(3, device="cpu", network=network).fit(stripes()[0])


@pytest.fixture(scope="module")
def closed():
    """The clusters of the samples as they are given."""
    return ClosedFormSubspaceClustering(3, random_state=0, device="cpu").fit(stripes()[0])


@pytest.mark.parametrize("k", [8, 5])
@pytest.mark.parametrize(("few", "weight"), [(0.0, 0.02), (1.01, 1.0)])
def test_the_samples_graph_holds_the_features_together(closed, monkeypatch, k, few, weight):
    """The affinity is the features' own, and a fiftieth of the samples' or all of it."""
    X, _ = stripes()
    monkeypatch.setattr("dcfsc.estimators.views.FEW", few)
    affinity = "topk" if k == 8 else TopK(k=k)
    fitted = model(affinity=affinity).fit(X)
    own = TopK(k=k, grow=False)(fitted.coefficients_, 3)
    joined = by_degrees(own) + weight * by_degrees(closed.affinity_matrix_)
    np.testing.assert_allclose(fitted.affinity_matrix_.toarray(), joined.toarray(), rtol=1e-5)
    graphs = [
        by_degrees(g).toarray()
        for g in (closed.affinity_matrix_, TopK(k=k)(fitted.coefficients_, 3))
    ]
    for cut, labels in zip(fitted._cuts, (fitted.labels_, closed.labels_), strict=True):
        between = labels[:, None] != labels
        assert cut == pytest.approx(np.mean([g[between].sum() / g.sum() for g in graphs]))
    assert fitted.get_params()["affinity"] == fitted._closed_form.affinity == affinity


def test_the_graphs_are_equals_where_few_labels_differ(fitted, closed):
    """Both clusterings of the stripes are right."""
    assert clustering_error(closed.labels_, fitted.labels_) < 5
    joined = by_degrees(TopK(grow=False)(fitted.coefficients_, 3)) + by_degrees(
        closed.affinity_matrix_
    )
    np.testing.assert_allclose(fitted.affinity_matrix_.toarray(), joined.toarray(), rtol=1e-5)


def test_images_without_stable_clusters_are_learned_from_views_alone(tmp_path):
    """Nothing teaches but the views, and nothing of the samples remains."""
    noise = np.random.default_rng(0).random((100, 3, 8, 8), dtype=np.float32)
    spec = ResidualSpec((3, 8, 8), (6, 8), 1, hidden=16, projection=8)
    fitted = model(5, network=spec, augmentations="auto", steps=10).fit(noise)
    usual = {"crop", "mirror", "contrast", "color"}
    assert {name for name, s in fitted.augmentations_.items() if s} == usual
    assert fitted.consistency_ == {}
    assert all(row["contrastive"] == row["loss"] for row in fitted.history_)
    own = TopK()(fitted.coefficients_, 5)
    np.testing.assert_allclose(fitted.affinity_matrix_.toarray(), own.toarray(), rtol=1e-6)
    assert fitted.latents_.shape == fitted.transform(noise).shape == (100, 256)  # the groups' head
    np.testing.assert_allclose(fitted.transform(noise), fitted.latents_, rtol=1e-4, atol=1e-5)
    fitted.save(tmp_path / "model")
    again = ViewClustering.load(tmp_path / "model")
    np.testing.assert_array_equal(again.transform(noise), fitted.transform(noise))
    np.testing.assert_array_equal(again.predict(noise[:20]), fitted.predict(noise[:20]))


UNSET = {"steps": None, "batch_size": None, "learning_rate": None}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(("n", "steps"), [(60_000, 93_750), (1000, 20_000)])
def test_the_effort_alone_says_how_long_to_train(device, n, steps):
    """From views alone a full one sees every sample 200 times, in no less than 20,000 steps."""

    def options(effort, **given):
        return model(5, effort=effort, **UNSET | given)._options(torch.device(device), n)

    assert options("full").alone == Schedule(steps, 128, 0.06, views=4, sgd=True)
    assert options("full").schedule == Schedule(1500, 512, 3e-3)
    assert options("quick").alone == Schedule(2400, 256, 3e-3)
    assert options("quick").schedule == Schedule(300, 256, 3e-3)
    asked = options("full", steps=7, batch_size=30, learning_rate=0.5)
    assert asked.schedule == Schedule(7, 30, 0.5)
    assert asked.alone == Schedule(7, 30, 0.5, views=4, sgd=True)
    assert options("full", batch_size=30).alone.steps == steps


@pytest.mark.parametrize(
    ("effort", "channels"), [("full", (64, 128, 256)), ("quick", (24, 48, 96))]
)
def test_the_effort_alone_says_how_large_the_network_is(effort, channels):
    fitted = model(network="auto", effort=effort, steps=1, batch_size=4).fit(stripes(30)[0])
    assert fitted.network_.spec.channels == channels


@pytest.mark.parametrize(("seconds", "said"), [(599.0, False), (36_000.0, True)])
@pytest.mark.parametrize("effort", ["full", "quick"])
def test_a_full_training_that_takes_hours_on_a_cpu_is_announced(
    monkeypatch, caplog, seconds, said, effort
):
    monkeypatch.setattr(
        ViewTraining,
        "seconds",
        lambda self, spec, schedule: seconds if schedule.batch_size == 512 else 90.0,
    )
    text = "a full training takes about 10 h on this CPU; with the effort 'quick' about 90 s"
    expected = [text] if said and effort == "full" else []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model(effort=effort, steps=1, batch_size=None).fit(stripes(30)[0])
    assert [str(w.message) for w in caught] == expected
    with caplog.at_level("INFO", "dcfsc"):
        model(effort=effort, steps=1, batch_size=None).fit(stripes(30)[0])
    assert [m for m in caplog.messages if "a full training" in m] == expected


class OfUnknownStability:
    representation_, n_clusters_ = "given", 3

    def measure_stability(self, samples):
        return {}


def test_a_stability_that_is_not_known_is_an_error():
    """Except of images that are too few to measure it."""
    few, many = torch.zeros(30, 8, 8), torch.zeros(31, 8, 8)
    assert view_estimator._stability(OfUnknownStability(), few) == 1.0
    with pytest.raises(KeyError):
        view_estimator._stability(OfUnknownStability(), many)
    OfUnknownStability.measure_stability = lambda self, samples: {"given": 0.25, "metric": 0.5}
    assert view_estimator._stability(OfUnknownStability(), many) == 0.25


def test_another_affinity_is_the_features_alone():
    fitted = model(affinity="symmetric").fit(stripes()[0])
    alone = Symmetric()(fitted.coefficients_, 3)
    np.testing.assert_allclose(fitted.affinity_matrix_, alone.numpy(), rtol=1e-6)


def test_many_samples_from_views_alone_have_more_neighbors(monkeypatch):
    noise = np.random.default_rng(0).random((60, 3, 8, 8), dtype=np.float32)
    spec = ResidualSpec((3, 8, 8), (6, 8), 1, hidden=16, projection=8)
    monkeypatch.setattr(view_estimator, "NEIGHBORLY", 40)
    fitted = model(5, network=spec, augmentations="auto", steps=2).fit(noise)
    more = TopK(k=12)(fitted.coefficients_, 5)
    np.testing.assert_allclose(fitted.affinity_matrix_.toarray(), more.toarray(), rtol=1e-6)
    assert fitted._closed_form.affinity == fitted.affinity
