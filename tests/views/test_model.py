"""What a view model does around its training: whom it trusts, what it tries, what it teaches."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from dcfsc import processes
from dcfsc.errors import InputError
from dcfsc.features.image_statistics import SMOOTH
from dcfsc.networks import HeadSpec, ResidualSpec, ViewNetwork
from dcfsc.training import Checkpoint, History
from dcfsc.training.checkpoint import State
from dcfsc.views import model as view_model
from dcfsc.views.augmentations import cautious_strengths, usual_strengths
from dcfsc.views.choice import measure_consistency
from dcfsc.views.loop import Schedule, view_features
from dcfsc.views.model import Clustering, ViewOptions, ViewTraining

N = 24
HEAD = HeadSpec(6, latent_dim=4, hidden=8, projection=4, n_clusters=2)
IMAGES = ResidualSpec((1, 8, 8), (4,), 1, hidden=8, projection=4, n_clusters=2)
LARGER = ResidualSpec((1, 8, 8), (4, 6), 1, hidden=8, projection=12, n_clusters=2)
ALONE = Schedule(70, 8, 0.02, views=3, sgd=True)
FIRST = np.arange(N) // 12
NOISE = {"noise": 1.0, "hole": 0.5}


def pairs(n=N):
    """Every sample has one neighbor: 0 and 1 are joined, 2 and 3, and so on."""
    neighbor = np.minimum(np.arange(n) ^ 1, n - 1)  # the last of an odd number has none
    return csr_array((np.ones(n), (np.arange(n), neighbor)), (n, n))


class Scripted:
    """A teacher that gives the clusterings it was told, and remembers what it was asked."""

    def __init__(self, *later, stability=1.0, n=N):
        first = np.arange(n) * 2 // n
        self.given = [Clustering(first, pairs(n), stability)]
        self.given += [Clustering(labels, pairs(n)) for labels in later]
        self.asked, self.judged = [], []

    def cluster(self, rows, beside):
        self.asked.append((rows, beside))
        return self.given[len(self.asked) - 1]

    def judge(self, rows, plain):
        self.judged.append((rows, plain))
        return lambda x: torch.zeros(len(x))


class Trainings(list):
    """What train_views was called with, in place of training."""

    def __call__(self, network, X, views, weights, schedule, pseudo_labels, **options):
        self.append((network, X, views.strengths, weights, schedule, pseudo_labels, options))


@pytest.fixture
def trainings(monkeypatch):
    seen = Trainings()
    monkeypatch.setattr(view_model, "train_views", seen)
    return seen


def samples(spec, n=N):
    return torch.rand(n, *spec.sample_shape, generator=torch.Generator().manual_seed(0))


def training(teacher, spec=HEAD, steps=40, X=None, checkpoint=None, **options):
    options = {"augmentations": NOISE if spec is HEAD else {}} | options
    made = ViewTraining(
        samples(spec) if X is None else X,
        (spec, LARGER if spec is IMAGES else spec),
        teacher,
        ViewOptions(Schedule(steps, 16, 0.01), ALONE, **options),
        generator=torch.Generator().manual_seed(5),
        checkpoint=checkpoint,
    )
    made.choose()
    return made


@pytest.mark.parametrize(
    ("spec", "stability", "guided"),
    [(IMAGES, 1.0, True), (IMAGES, 0.6, True), (IMAGES, 0.59, False), (HEAD, 0.1, True)],
)
def test_images_whose_clusters_are_not_stable_teach_nothing(spec, stability, guided):
    """Then the network and its training are those for views alone. Vectors always teach."""
    teacher = Scripted(stability=stability)
    made = training(teacher, spec)
    ((rows, beside),) = teacher.asked
    assert torch.equal(rows, samples(spec))
    assert beside is None
    assert made.guided is guided
    assert (made.samples is teacher.given[0]) == guided
    assert made.schedule == (Schedule(40, 16, 0.01) if guided else ALONE)
    assert made.spec == (spec if guided else replace(LARGER, predictor=3))
    expected = FIRST if guided else np.full(N, -1)
    assert made.pseudo_labels.first.tolist() == expected.tolist()
    neighbors = np.arange(N) ^ 1 if guided else np.arange(N)
    assert made.pseudo_labels.positives[:, 1].tolist() == neighbors.tolist()


def test_a_stability_that_is_not_known_is_an_error():
    with pytest.raises(ValueError, match="the stability of the images' clusters is not known"):
        training(Scripted(stability=None), IMAGES)
    assert training(Scripted(stability=None), HEAD).guided  # vectors are always trusted


def test_training_starts_from_the_seeds_that_the_generator_gives(trainings):
    teacher = Scripted()
    history = History()
    made = training(teacher, losses={"contrastive": 2.0})
    trained = made.fit(history)
    ((network, X, strengths, weights, schedule, pseudo_labels, options),) = trainings
    first, second = torch.randint(
        2**31 - 1, (2,), generator=torch.Generator().manual_seed(5)
    ).tolist()
    expected = ViewNetwork(HEAD, torch.Generator().manual_seed(first)).state_dict()
    assert all(torch.equal(expected[name], v) for name, v in network.state_dict().items())
    state = torch.Generator().manual_seed(second).get_state()
    assert torch.equal(options["generator"].get_state(), state)
    assert torch.equal(X, samples(HEAD))
    assert strengths == made.augmentations == NOISE
    assert weights == {"contrastive": 2.0}
    assert schedule == Schedule(40, 16, 0.01)
    assert pseudo_labels is made.pseudo_labels
    assert pseudo_labels.positives.shape == (N, 4)
    assert options["n_clusters"] == 2
    assert options["history"] is history
    assert (options["precision"], options["compiled"]) == ("float32", False)
    assert options["checkpoint"] is None
    assert (trained, made.consistency, made.samples) == (network, {}, teacher.given[0])


def test_options_are_passed_on(trainings):
    training(Scripted(), precision="bfloat16", compiled=True, positives=2).fit(History())
    options, pseudo_labels = trainings[0][-1], trainings[0][-2]
    assert (options["precision"], options["compiled"]) == ("bfloat16", True)
    assert pseudo_labels.positives.shape == (N, 3)


@pytest.mark.parametrize(("spec", "layer"), [(IMAGES, {}), (HEAD, {"self_expression": 1.0})])
def test_losses_that_are_not_given_count_the_same(trainings, spec, layer):
    """A head has the layer of the paper in its loss."""
    training(Scripted(), spec).fit(History())
    assert trainings[0][3] == {"contrastive": 1.0, "clusters": 1.0, **layer}


def test_views_alone_predict_each_other(trainings):
    training(Scripted(FIRST, stability=0.0), IMAGES).fit(History())
    network, weights, schedule = trainings[0][0], trainings[0][3], trainings[0][4]
    assert weights == {"prediction": 1.0}
    assert network.spec.predictor == 3  # a quarter of the projections
    assert schedule == ALONE


def test_two_views_alone_are_told_apart(monkeypatch, trainings):
    monkeypatch.setattr(sys.modules[__name__], "ALONE", Schedule(70, 8, 0.02))
    training(Scripted(FIRST, stability=0.0), IMAGES).fit(History())
    assert trainings[0][3] == {"contrastive": 1.0}
    assert trainings[0][0].spec.predictor == 0


def test_what_views_alone_have_taught_is_grouped_with_its_neighbors(trainings):
    teacher = Scripted(FIRST, stability=0.0)
    made = training(teacher, IMAGES, precision="bfloat16", compiled=True)
    network = made.fit(History())
    (first, *_), (head, Z, strengths, weights, schedule, pseudo_labels, options) = trainings
    assert network is first
    assert network.head is head.encoder
    assert (network.latent_dim, head.spec.input_dim, head.spec.n_clusters) == (256, 6, 16 * 3 * 2)
    bare = ViewNetwork(replace(network.spec, head=0))
    bare.load_state_dict(network.state_dict(), strict=False)
    torch.testing.assert_close(Z, view_features(bare, made.X))
    assert torch.equal(teacher.asked[1][0], Z)
    assert teacher.asked[1][1] is None
    assert set(strengths.values()) == {0.0}
    assert weights == {"groups": 1.0}
    assert schedule == Schedule(500, 1024, 5e-3)
    assert (options["n_clusters"], options.get("precision", "float32")) == (2, "float32")
    assert not options.get("compiled")
    assert pseudo_labels.positives.shape == (N, 11)
    assert pseudo_labels.positive_of(torch.arange(N), torch.zeros(N)).tolist() == [
        i ^ 1 for i in range(N)
    ]
    seed = torch.Generator().manual_seed(made.seeds[1])
    assert torch.equal(options["generator"].get_state(), seed.get_state())


@pytest.mark.parametrize("options", [{"losses": {"contrastive": 1.0}}, {"positives": 0}])
def test_nothing_is_grouped_where_losses_are_given_or_neighbors_refused(trainings, options):
    network = training(Scripted(stability=0.0), IMAGES, **options).fit(History())
    assert len(trainings) == 1
    assert network.head is None


@pytest.mark.parametrize(
    ("losses", "predictor"), [({"prediction": 2.0}, 3), ({"contrastive": 1.0}, 0)]
)
def test_there_is_a_predictor_only_where_it_is_of_use(losses, predictor):
    for stability in (0.0, 1.0):
        teacher = Scripted(stability=stability)
        made = training(teacher, replace(IMAGES, projection=12), losses=losses, augmentations={})
        assert made.spec.predictor == predictor
    own = replace(IMAGES, predictor=5)
    made = training(Scripted(), own, losses=losses, augmentations={})
    assert made.spec.predictor == (5 if predictor else 0)


@pytest.mark.parametrize(("stability", "steps"), [(1.0, {17: 0.0, 29: 0.5}), (0.0, {})])
def test_features_teach_after_shares_of_the_training(trainings, stability, steps):
    """At 0.4 and 0.7 of 40 steps; the second time trusts clusters. Views alone need none."""
    kept = np.where(np.arange(N) < 16, 0, 1)  # four samples of cluster 1 are in cluster 0
    teacher = Scripted(*[kept] * 3, stability=stability)
    made = training(teacher, IMAGES)
    made.fit(History())
    network, options = trainings[0][0], trainings[0][-1]
    learned = []
    made.pseudo_labels.learn = lambda *given: learned.append(given)
    assert list(options["before_step"]) == list(steps)
    for relabel in options["before_step"].values():
        relabel()
    assert [doubtful for _, _, doubtful in learned] == list(steps.values())
    features = view_features(network, samples(IMAGES))
    for (rows, beside), given, taught in zip(
        teacher.asked[1:], teacher.given[1:], learned, strict=False
    ):
        torch.testing.assert_close(rows, features)
        assert beside is teacher.given[0].graph
        assert taught[:2] == (given.graph, given.labels)


@pytest.mark.parametrize(
    ("positives", "losses", "count"),
    [
        (0, {"contrastive": 1.0}, 0),
        (1, {"contrastive": 1.0}, 2),
        (0, {"clusters": 1.0}, 2),
        (1, {"clusters": 1.0}, 2),
    ],
)
def test_features_are_clustered_only_where_it_is_of_use(trainings, positives, losses, count):
    training(Scripted(), positives=positives, losses=losses).fit(History())
    assert len(trainings[0][-1]["before_step"]) == count


def test_bad_options_are_refused_before_the_work():
    teacher = Scripted()
    with pytest.raises(InputError, match="blur"):
        training(teacher, augmentations={"blur": 1.0})
    assert teacher.asked == []


def test_augmentations_of_images_that_are_not_trusted_are_the_usual_ones():
    made = training(Scripted(stability=0.0), IMAGES, augmentations=None)
    assert (made.augmentations, made.consistency) == (usual_strengths((1, 8, 8)), {})


@pytest.mark.parametrize("n", [7, 8])
def test_four_samples_a_cluster_are_needed_to_measure_consistency(n):
    teacher = Scripted(n=n)
    made = training(teacher, X=samples(HEAD, n), augmentations=None)
    if n < 8:
        assert (made.augmentations, made.consistency) == (cautious_strengths((6,)), {})
        assert teacher.judged == []
    else:  # a judge who sees no difference allows everything
        assert made.augmentations == {"hole": 1.0, "noise": 1.0}
        assert made.consistency == {"hole": 1.0, "noise": 1.0}
        assert [len(rows) for rows, _ in teacher.judged] == [4, 4]


@pytest.mark.parametrize(("K", "count"), [(2, 2000), (66, 2000), (68, 2040), (90, 2100)])
def test_augmentations_are_measured_on_2000_samples_or_30_a_cluster(monkeypatch, K, count):
    n, seen = 2100, []

    def watched(x, *options):
        seen.append(len(x))
        return measure_consistency(x, *options)

    monkeypatch.setattr(view_model, "measure_consistency", watched)
    spec = HeadSpec(3, latent_dim=2, hidden=2, projection=2, n_clusters=K)
    teacher = Scripted(n=n)
    training(teacher, spec, X=samples(spec, n), augmentations=None)
    assert len(teacher.judged[0][0]) == count // 2
    assert seen == [count - count // 2]


@pytest.mark.parametrize(("share", "light"), [(SMOOTH, True), (0.999 * SMOOTH, False)])
@pytest.mark.parametrize("positives", [0, 1, 3])
def test_half_of_a_random_sample_judges_the_other_half(monkeypatch, share, light, positives):
    n, seen, compared = 11, [], []
    X = samples(IMAGES, n)
    teacher = Scripted(n=n)
    graph = np.zeros((n, n))
    graph[np.arange(n), (np.arange(n) + 2) % n] = 2.0  # the strongest
    graph[np.arange(n), (np.arange(n) + 3) % n] = 1.0
    teacher.given[0] = Clustering(np.arange(n) % 2, csr_array(graph), 1.0)

    def watched(x, judge, plain_judge, random, light):
        seen.append((x, judge, plain_judge, random.initial_seed(), light))
        return measure_consistency(x, judge, plain_judge, random, light)

    def smooth_share(x, neighbors):
        compared.append((x, neighbors))
        return share

    monkeypatch.setattr(view_model, "measure_consistency", watched)
    monkeypatch.setattr(view_model, "smooth_share", smooth_share)
    judges = {False: lambda x: torch.zeros(len(x)), True: lambda x: torch.ones(len(x))}
    teacher.judge = lambda rows, plain: teacher.judged.append((rows, plain)) or judges[plain]
    training(teacher, IMAGES, X=X, augmentations=None, positives=positives)
    index = torch.randperm(n, generator=torch.Generator().manual_seed(0))
    assert [plain for _, plain in teacher.judged] == [False, True]
    assert all(torch.equal(rows, X[index[:5]]) for rows, _ in teacher.judged)
    ((x, judge, plain_judge, seed, allowed),) = seen
    assert torch.equal(x, X[index[5:]])
    assert (judge, plain_judge, seed, allowed) == (judges[False], judges[True], 0, light)
    ((own, neighbors),) = compared
    assert torch.equal(own, X[index])
    assert torch.equal(neighbors, X[(index + 2) % n if positives else index])


MEASURED = {
    "geometry": [[1.0, 0.3], [0.5, 0.6], [0.25, 0.8], [0.1, 0.9]],
    "crop": [],
    "mirror": [[1.0, 0.2]],
    "light": [],
    "contrast": [[1.0, 0.7], [0.5, 0.8]],
    "hole": [[1.0, 0.95]],
    "noise": [[1.0, 0.75], [0.5, 0.86]],
}
REST = {"crop": 0.0, "mirror": 0.0, "light": 0.0, "hole": 1.0}
STRONG = {"geometry": 0.5, "contrast": 1.0, "noise": 1.0} | REST
GENTLE = {"geometry": 0.1, "contrast": 0.0, "noise": 0.5} | REST


@pytest.fixture
def measured(monkeypatch):
    monkeypatch.setattr(view_model, "measure_consistency", lambda *_: MEASURED)


@pytest.fixture
def strays(monkeypatch):
    """Sets how many in a hundred samples stray, one time after the other; gives what was seen."""

    def found(*counts):
        looked, left = [], list(counts)

        def stray_shares(Z, labels):
            looked.append((Z, labels))
            return (torch.arange(100) < left.pop(0)).double()

        monkeypatch.setattr(view_model, "stray_shares", stray_shares)
        return looked

    return found


@pytest.mark.parametrize(
    ("strong", "gentle", "chosen"),
    [(20, 10, GENTLE), (20, 15, GENTLE), (20, 17, STRONG), (10, 20, STRONG), (20, 20, STRONG)],
)
def test_gentle_augmentations_are_taken_if_their_features_have_clearly_fewer_strays(
    trainings, measured, strays, strong, gentle, chosen
):
    looked = strays(strong, gentle)
    teacher = Scripted()
    made = training(teacher, IMAGES, steps=43, augmentations=None)
    assert made.augmentations == chosen
    shares = {"geometry": 0.6, "contrast": 0.7, "noise": 0.75}
    if chosen is GENTLE:  # of contrast that of the weakest tried
        shares = {"geometry": 0.9, "contrast": 0.8, "noise": 0.86}
    assert made.consistency == shares | {"mirror": 0.2, "hole": 0.95}
    assert [run[2] for run in trainings] == [STRONG, GENTLE]
    for *_, schedule, _, options in trainings:
        assert schedule == Schedule(10, 16, 0.01)  # a quarter of the steps
        assert options["before_step"] == {}
        assert options["history"] == []
        assert options["checkpoint"] is None
    for (network, *_), (features, labels) in zip(trainings, looked, strict=True):
        assert torch.equal(features, view_features(network, samples(IMAGES)))
        assert labels.tolist() == FIRST.tolist()
    assert len(teacher.asked) == 1  # nothing else is clustered
    assert (made.pseudo_labels.targets == -1).all()  # a short training teaches nothing


def test_a_training_that_is_too_short_is_not_tried_out(trainings, measured, strays):
    strays(20, 10)
    assert training(Scripted(), IMAGES, steps=3, augmentations=None).augmentations == STRONG
    assert trainings == []
    made = training(Scripted(), IMAGES, steps=4, augmentations=None)
    assert [run[4].steps for run in trainings] == [1, 1]
    assert made.augmentations == GENTLE


def test_what_takes_long_is_said(trainings, measured, strays, caplog):
    strays(25, 17)
    with caplog.at_level("INFO", "dcfsc"):
        training(Scripted(), IMAGES, augmentations=None)
    assert caplog.messages == [
        "choosing the augmentations on 24 samples",
        "training briefly on strong views",
        "training briefly on gentle views",
        "views: 0.2500 of the neighbors stray if strong, 0.1700 if gentle",
        "views: geometry 0.1, crop 0, mirror 0, light 0, contrast 0, hole 1, noise 0.5",
    ]


def test_a_single_profile_is_taken_as_it_is(trainings):
    teacher = Scripted()
    assert training(teacher, augmentations=None).augmentations == {"hole": 1.0, "noise": 1.0}
    assert trainings == []
    assert len(teacher.asked) == 1


def test_another_process_than_the_first_is_told_what_was_found(monkeypatch, trainings):
    told = []
    monkeypatch.setattr(processes, "rank", lambda: 1)
    monkeypatch.setattr(processes, "total_number", lambda own: told.append(own) or 0.9)
    monkeypatch.setattr(processes, "broadcast_bytes", lambda own: json.dumps(MEASURED).encode())
    teacher = Scripted()
    made = training(teacher, IMAGES, augmentations=None)
    assert made.guided
    assert made.samples == Clustering(None, None)
    assert (teacher.asked, teacher.judged) == ([], [])
    assert told == [0.0, 0.0]  # the stability, and whether gentle augmentations are taken
    assert made.augmentations == STRONG


def test_the_choice_of_augmentations_is_kept_for_a_restart(tmp_path, trainings, measured):
    file = tmp_path / "checkpoint.safetensors"
    checkpoint = Checkpoint(file, "a run", every=0)
    made = training(Scripted(), IMAGES, augmentations=None, checkpoint=checkpoint)
    assert checkpoint.notes == {"augmentations": (made.augmentations, made.consistency)}
    made.fit(History())
    assert trainings[-1][-1]["checkpoint"] is checkpoint
    network = torch.nn.Linear(1, 1)
    state = State(network, torch.optim.Adam(network.parameters()), History())
    checkpoint.after_step("train", 1, state)
    teacher = Scripted()
    resumed = Checkpoint(file, "a run")
    again = training(teacher, IMAGES, augmentations=None, checkpoint=resumed)
    assert (again.augmentations, again.consistency) == (made.augmentations, made.consistency)
    assert teacher.judged == []
    assert list(resumed.notes["augmentations"]) == [made.augmentations, made.consistency]


def test_a_model_is_trained_and_taught():
    """The whole way, without anything replaced: positives and targets are those of the features."""
    later = np.roll(FIRST, 1)
    teacher = Scripted(later, later)
    made, history = training(teacher, steps=5), History()
    network = made.fit(history)
    assert [row["step"] for row in history] == [1, 2, 3, 4, 5]
    assert made.pseudo_labels.targets.tolist() == np.where(later == FIRST, later, -1).tolist()
    features = view_features(network, samples(HEAD))
    assert features.shape == (N, 4)
    untrained = ViewNetwork(HEAD, torch.Generator().manual_seed(made.seeds[0]))
    assert not torch.allclose(features, view_features(untrained, samples(HEAD)))
    assert not network.training
