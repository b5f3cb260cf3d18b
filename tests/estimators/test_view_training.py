"""DCFSC(training="views") and DCFSC(network="head")."""

import numpy as np
import pytest
import torch

from dcfsc import DCFSC, ClosedFormSubspaceClustering
from dcfsc.affinity import Symmetric, TopK
from dcfsc.affinity.joined import by_degrees
from dcfsc.errors import InputError
from dcfsc.estimators import views as view_estimator
from dcfsc.io import synthetic
from dcfsc.metrics import clustering_error
from dcfsc.networks import ResidualSpec
from dcfsc.views import Schedule

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
    given = {"training": "views", "network": SMALL, "steps": 8, "batch_size": 32}
    given |= {"views": PLAIN, "random_state": 0, "device": "cpu", "verbose": False, **options}
    return DCFSC(K, **given)


@pytest.fixture(scope="module")
def fitted():
    return model(views="auto", steps=20, network=WIDER).fit(stripes()[0])


def test_images_are_clustered_without_labels(fitted):
    X, y = stripes()
    assert clustering_error(y, fitted.labels_) < 3
    assert fitted.latents_.shape == (90, 32)
    np.testing.assert_allclose(np.linalg.norm(fitted.latents_, axis=1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(fitted.transform(X), fitted.latents_, atol=1e-5)
    assert len(fitted.history_) == 20
    assert {"contrastive", "clusters"} < set(fitted.history_[0])
    assert fitted.affinity_matrix_.shape == (90, 90)


def test_the_data_choose_the_changes(fitted):
    assert set(fitted.view_strengths_) == {"crop", *fitted.view_consistency_}
    assert fitted.view_strengths_["contrast"] == 1.0
    assert all(0.0 <= share <= 1.0 for share in fitted.view_consistency_.values())


def test_targets_begin_with_the_first_lesson(fitted):
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
    loaded = DCFSC.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(new), labels)
    np.testing.assert_array_equal(loaded.labels_, fitted.labels_)
    np.testing.assert_allclose(loaded.transform(new), fitted.transform(new), atol=1e-6)
    assert loaded.view_strengths_ == fitted.view_strengths_
    assert loaded.lam_ == fitted.lam_
    assert loaded.representation_ == fitted.representation_


def test_the_same_seed_gives_the_same_labels_and_another_fit_forgets_the_views(undisturbed):
    X, _ = stripes()
    one, same = undisturbed, model().fit(X)
    np.testing.assert_array_equal(one.latents_, same.latents_)
    np.testing.assert_array_equal(one.labels_, same.labels_)
    same.set_params(training="reconstruction", network="auto", views="auto", steps=1)
    same.set_params(pretrain_epochs=1).fit(X)
    assert not hasattr(same, "view_strengths_")
    assert not hasattr(same, "representation_")
    assert same.predict(X[:5]).shape == (5,)


@pytest.fixture(scope="module")
def undisturbed():
    return model().fit(stripes()[0])


@pytest.mark.parametrize("step", [1, 3, 4, 7])
def test_going_on_gives_the_undisturbed_result(undisturbed, tmp_path, step):
    """The fourth step comes after the first lesson on features, which the checkpoint keeps."""
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


def test_a_checkpoint_keeps_the_changes_that_were_chosen(fitted, tmp_path):
    X, file = stripes()[0], tmp_path / "checkpoint"
    options = {"views": "auto", "steps": 20, "network": WIDER}
    options |= {"checkpoint": file, "checkpoint_every": 0}

    def stop(row):
        if row["step"] == 2:
            raise Stop

    with pytest.raises(Stop):
        model(**options, callbacks=[stop]).fit(X)
    resumed = model(**options).fit(X)
    assert resumed.view_strengths_ == fitted.view_strengths_
    assert resumed.view_consistency_ == fitted.view_consistency_
    np.testing.assert_array_equal(resumed.latents_, fitted.latents_)


def test_a_head_learns_on_fixed_features(tmp_path):
    data = synthetic(120, 3, 2, 20, noise=0.05, random_state=0)
    head = DCFSC(3, network="head", steps=10, random_state=0, device="cpu").fit(data.X)
    assert clustering_error(data.y, head.labels_) < 5
    assert set(head.view_strengths_) == {"hole", "noise"}
    head.save(tmp_path / "head")
    loaded = DCFSC.load(tmp_path / "head")
    np.testing.assert_array_equal(loaded.predict(data.X[:9]), head.predict(data.X[:9]))


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"training": "both"}, "both"),
        ({"network": "orl"}, "orl"),
        ({"network": "head"}, "feature vectors"),
        ({"network": ResidualSpec((1, 9, 9))}, "shape"),
        ({"views": {"blur": 1.0}}, "blur"),
        ({"views": "geometry"}, "views"),
        ({"losses": {"triplet": 1.0}}, "triplet"),
        ({"losses": "contrastive"}, "losses"),
        ({"weights": "dsc_orl"}, "weights"),
        ({"pretrain_epochs": 3}, "pretrain_epochs"),
        ({"batch_size": 1}, "batch_size"),
        ({"learning_rate": -1.0}, "learning_rate"),
        ({"precision": "bfloat16"}, "bfloat16"),
        ({"compile": True}, "compile"),
        ({"training": "reconstruction", "views": "auto"}, "build takes"),
    ],
)
def test_bad_options_are_refused_in_one_line(options, word):
    with pytest.raises(InputError, match=word) as error:
        model(**options).fit(stripes()[0])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("options", [{"losses": {"contrastive": 1.0}}, {"views": {"hole": 1.0}}])
def test_options_of_views_are_refused_by_the_papers_training(options):
    (name,) = options
    with pytest.raises(InputError, match=rf"^{name}=.* no effect with training='reconstruction'"):
        DCFSC(3, device="cpu", **options).fit(stripes()[0])


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
    fitted = model(5, network=spec, views="auto", steps=10).fit(noise)
    usual = {"crop", "mirror", "contrast", "color"}
    assert {name for name, s in fitted.view_strengths_.items() if s} == usual
    assert fitted.view_consistency_ == {}
    assert all(row["contrastive"] == row["loss"] for row in fitted.history_)
    own = TopK()(fitted.coefficients_, 5)
    np.testing.assert_allclose(fitted.affinity_matrix_.toarray(), own.toarray(), rtol=1e-6)
    assert fitted.latents_.shape == fitted.transform(noise).shape == (100, 256)  # the groups' head
    np.testing.assert_allclose(fitted.transform(noise), fitted.latents_, rtol=1e-4, atol=1e-5)
    fitted.save(tmp_path / "model")
    again = DCFSC.load(tmp_path / "model")
    np.testing.assert_array_equal(again.transform(noise), fitted.transform(noise))
    np.testing.assert_array_equal(again.predict(noise[:20]), fitted.predict(noise[:20]))


@pytest.mark.parametrize(("n", "steps"), [(60_000, 93_750), (1000, 20_000)])
def test_views_alone_teach_for_longer(n, steps):
    """Two hundred times all samples on a GPU, and no less than 20,000 steps."""

    def options(kind, **given):
        given = {"steps": None, "batch_size": None, "learning_rate": None} | given
        return model(5, **given)._view_options(torch.device(kind), n)

    assert options("cuda").alone == Schedule(steps, 128, 0.06, views=4, sgd=True)
    assert options("cuda").schedule == Schedule(1500, 512, 3e-3)
    assert options("cpu").alone == Schedule(2400, 256, 3e-3)
    assert options("cpu").schedule == Schedule(300, 256, 3e-3)
    asked = options("cuda", steps=7, batch_size=30, learning_rate=0.5)
    assert asked.schedule == Schedule(7, 30, 0.5)
    assert asked.alone == Schedule(7, 30, 0.5, views=4, sgd=True)


def test_another_affinity_is_the_features_alone():
    fitted = model(affinity="symmetric").fit(stripes()[0])
    alone = Symmetric()(fitted.coefficients_, 3)
    np.testing.assert_allclose(fitted.affinity_matrix_, alone.numpy(), rtol=1e-6)


def test_many_samples_from_views_alone_have_more_neighbors(monkeypatch):
    noise = np.random.default_rng(0).random((60, 3, 8, 8), dtype=np.float32)
    spec = ResidualSpec((3, 8, 8), (6, 8), 1, hidden=16, projection=8)
    monkeypatch.setattr(view_estimator, "NEIGHBORLY", 40)
    fitted = model(5, network=spec, views="auto", steps=2).fit(noise)
    more = TopK(k=12)(fitted.coefficients_, 5)
    np.testing.assert_allclose(fitted.affinity_matrix_.toarray(), more.toarray(), rtol=1e-6)
    assert fitted._closed_form.affinity == fitted.affinity
