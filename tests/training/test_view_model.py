"""What an encoder on views is taught, and when; with a teacher whose answers are written down."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from dcfsc.errors import InputError
from dcfsc.networks import HeadSpec, ResidualSpec, ViewNetwork
from dcfsc.training import Checkpoint, History, view_model
from dcfsc.training.view_lessons import agreed, strongest
from dcfsc.training.view_loop import Schedule, view_features
from dcfsc.training.view_model import Clustering, ViewOptions, ViewTraining
from dcfsc.training.views import cautious_strengths, usual_strengths

N, K = 30, 3
SPEC = ResidualSpec((1, 8, 8), (4, 6), 1, hidden=8, projection=4, n_clusters=K)
LABELS = np.arange(N) % K
GIVEN = {"contrast": 1.0}


def samples(n=N):
    return torch.rand(n, 1, 8, 8, generator=torch.Generator().manual_seed(0)) + 0.1


def graph(seed=0, n=N):
    A = np.random.default_rng(seed).random((n, n))
    return csr_array(A + A.T)


class Scripted:
    """Clusters of the samples, then those of features, one after another."""

    def __init__(self, *clusters, stability=1.0, n=N):
        self.left = [LABELS[:n], *clusters]
        self.stability, self.n = stability, n
        self.asked, self.judged = [], []

    def cluster(self, rows, beside):
        self.asked.append((rows, beside))
        labels = self.left.pop(0)
        return Clustering(labels, graph(len(self.left), self.n), self.stability)

    def judge(self, rows, plain):
        self.judged.append((rows, plain))
        return plain


def training(teacher, X=None, spec=SPEC, steps=100, changes=GIVEN, checkpoint=None, **options):
    given = ViewOptions(Schedule(steps, 16), unguided_steps=50, changes=changes, **options)
    random = torch.Generator().manual_seed(4)
    X = samples() if X is None else X
    return ViewTraining(X, spec, teacher, given, generator=random, checkpoint=checkpoint)


@pytest.fixture
def trainings(monkeypatch):
    """The arguments of trainings, which leave the networks as they are."""
    seen = []

    def train_views(network, X, views, losses, schedule, lessons, **options):
        seen.append({"network": network, "views": views, "losses": losses, **options})
        seen[-1] |= {"schedule": schedule, "lessons": lessons}

    monkeypatch.setattr(view_model, "train_views", train_views)
    return seen


def moved(count):
    """The labels of the samples but for so many."""
    labels = LABELS.copy()
    labels[:count] = (labels[:count] + 1) % K
    return labels


@pytest.mark.parametrize(("stability", "trusted"), [(1.0, True), (0.6, True), (0.59, False)])
def test_clusters_that_are_stable_guide(stability, trusted):
    teacher = Scripted(stability=stability)
    made = training(teacher, changes=None if not trusted else GIVEN)
    ((rows, beside),) = teacher.asked
    assert torch.equal(rows, samples())
    assert beside is None
    assert made.guided == trusted
    if trusted:
        assert made.samples.labels.tolist() == LABELS.tolist()
        assert made.lessons.first.tolist() == LABELS.tolist()
        np.testing.assert_array_equal(made.lessons.partners, strongest(graph(), 3)[0])
        assert made.schedule.steps == 100
        assert (made.strengths, made.consistency) == (GIVEN, {})
    else:
        assert made.samples is None
        assert (made.lessons.first == -1).all()
        assert made.schedule == Schedule(50, 16)
        assert (made.strengths, made.consistency) == (usual_strengths((1, 8, 8)), {})


def test_vectors_are_trusted_in_any_case():
    X = samples().flatten(1)
    made = training(Scripted(stability=0.0), X, HeadSpec(64, 8, 8, 8, n_clusters=K), changes={})
    assert made.guided
    assert made.schedule.steps == 100


@pytest.mark.parametrize(
    ("stability", "options", "steps"),
    [
        (1.0, {}, [41, 71]),
        (0.0, {}, [21, 31, 41]),
        (1.0, {"partners": 0}, [41, 71]),
        (1.0, {"losses": {"contrastive": 1.0}}, [41, 71]),
        (1.0, {"losses": {"contrastive": 1.0}, "partners": 0}, []),
    ],
)
def test_lessons_come_after_shares_of_the_training_where_they_are_of_use(
    trainings, stability, options, steps
):
    training(Scripted(stability=stability), **options).fit(History())
    (seen,) = trainings
    assert list(seen["lessons_at"]) == steps
    assert seen["losses"] == options.get("losses", {"contrastive": 1.0, "clusters": 1.0})


def test_features_teach_beside_the_samples_graph_and_the_second_time_whole_clusters(trainings):
    other = np.where(LABELS == 2, np.arange(N) % 2, LABELS)  # the last cluster is divided
    other[:9] = [2] * 9
    teacher = Scripted(other, other)
    made = training(teacher)
    network = made.fit(History()).network
    (seen,) = trainings
    for number, (step, doubtful) in enumerate(((41, 0.0), (71, 0.5)), start=1):
        seen["lessons_at"][step]()
        rows, beside = teacher.asked[number]
        torch.testing.assert_close(rows, view_features(network, samples()))
        assert beside is made.samples.graph
        expected = agreed(other, LABELS, doubtful)
        assert made.lessons.targets.tolist() == expected.tolist()
    assert (agreed(other, LABELS) != expected).any()


def test_without_guidance_features_teach_alone(trainings):
    teacher = Scripted(moved(0), stability=0.0)
    training(teacher).fit(History())
    trainings[0]["lessons_at"][21]()
    assert teacher.asked[1][1] is None


def test_one_seed_is_of_the_weights_and_one_of_batches(trainings):
    made = training(Scripted(), precision="bfloat16", compiled=True)
    trained = made.fit(History())
    first, second = torch.randint(2**31 - 1, (2,), generator=torch.Generator().manual_seed(4))
    expected = ViewNetwork(SPEC, torch.Generator().manual_seed(int(first))).state_dict()
    for name, value in trained.network.state_dict().items():
        assert torch.equal(value, expected[name]), name
    (seen,) = trainings
    assert seen["generator"].initial_seed() == int(second)
    assert (seen["n_clusters"], seen["precision"], seen["compiled"]) == (K, "bfloat16", True)
    assert seen["views"].strengths["contrast"] == 1.0
    assert seen["lessons"] is made.lessons
    assert (trained.strengths, trained.consistency) == (GIVEN, {})
    assert trained.samples is made.samples


@pytest.mark.parametrize("bad", [{"changes": {"blur": 1.0}}, {"losses": {"blur": 1.0}}])
def test_bad_options_are_refused_before_the_work(bad):
    teacher = Scripted()
    with pytest.raises(InputError, match="blur"):
        training(teacher, **bad)
    assert teacher.asked == []


MEASURED = {
    "geometry": [(1.0, 0.6), (0.5, 0.9)],
    "crop": [],
    "mirror": [(1.0, 0.2)],
    "contrast": [(1.0, 0.95)],
}
STRONG = {"geometry": 1.0, "crop": 0.0, "mirror": 0.0, "contrast": 1.0}


@pytest.fixture
def measured(monkeypatch):
    """What changes are measured with; nothing is, the answer is the same each time."""
    seen = {}

    def measure_changes(x, judge, plain_judge, generator, light):
        seen.update(x=x, judges=(judge, plain_judge), generator=generator, light=light)
        return seen.get("answer", MEASURED)

    monkeypatch.setattr(view_model, "measure_changes", measure_changes)
    return seen


@pytest.mark.parametrize(
    ("strong", "gentle", "taken"), [(6, 3, "gentle"), (6, 5, "strong"), (0, 0, "gentle")]
)
def test_a_short_training_decides_between_strong_and_gentle(
    trainings, measured, strong, gentle, taken
):
    teacher = Scripted(moved(strong), moved(gentle))
    made = training(teacher, changes=None, steps=90)
    assert made.strengths == STRONG | {"geometry": 1.0 if taken == "strong" else 0.5}
    share = 0.6 if taken == "strong" else 0.9
    assert made.consistency == {"geometry": share, "mirror": 0.2, "contrast": 0.95}
    assert [seen["schedule"] for seen in trainings] == [Schedule(22, 16)] * 2
    assert [seen["views"].strengths["geometry"] for seen in trainings] == [1.0, 0.5]
    assert all(seen["lessons_at"] == {} for seen in trainings)
    assert [beside for _, beside in teacher.asked] == [None] * 3


def test_half_as_much_disagreement_is_enough_at_the_bound(trainings, measured, monkeypatch):
    monkeypatch.setattr(view_model, "GENTLE_SHARE", 0.5)
    for gentle, strength in ((2, 0.5), (3, 1.0)):
        made = training(Scripted(moved(4), moved(gentle)), changes=None)
        assert made.strengths["geometry"] == strength


def test_no_short_training_where_there_is_nothing_to_decide(trainings, measured):
    made = training(Scripted(), changes=None, steps=3)  # a quarter of them is none
    assert made.strengths == STRONG
    measured["answer"] = {"contrast": [(1.0, 0.3), (0.5, 0.95)], "noise": [(1.0, 0.2), (0.5, 0.3)]}
    made = training(Scripted(), changes=None)
    assert made.strengths == {"contrast": 0.5, "noise": 0.0}
    assert made.consistency == {"contrast": 0.95, "noise": 0.3}  # of the weakest, if none is taken
    assert trainings == []


@pytest.mark.parametrize("partners", [0, 1, 3])
@pytest.mark.parametrize("smooth", [view_model.SMOOTH, view_model.SMOOTH - 1e-6])
def test_half_of_a_sample_judges_the_other_half(trainings, measured, monkeypatch, partners, smooth):
    pairs = []
    monkeypatch.setattr(view_model, "CHOICE_SAMPLES", 10)
    monkeypatch.setattr(view_model, "CHOICE_PER_CLUSTER", 4)
    monkeypatch.setattr(view_model, "smooth_share", lambda *pair: pairs.append(pair) or smooth)
    teacher = Scripted(moved(0), moved(0))
    made = training(teacher, changes=None, partners=partners)
    index = torch.randperm(N, generator=torch.Generator().manual_seed(0))[:12]
    X = samples()
    nearest = made.lessons.partners[index, 1] if partners else index
    ((own, others),) = pairs
    assert torch.equal(own, X[index])
    assert torch.equal(others, X[nearest])
    assert measured["light"] == (smooth == view_model.SMOOTH)
    assert torch.equal(measured["x"], X[index[6:]])
    assert measured["judges"] == (False, True)
    assert all(torch.equal(rows, X[index[:6]]) for rows, _ in teacher.judged)
    assert measured["generator"].initial_seed() == 0


@pytest.mark.parametrize(("n", "few"), [(11, True), (12, False)])
def test_too_few_samples_for_a_choice_have_cautious_changes(trainings, measured, n, few):
    made = training(Scripted(n=n), samples(n), changes=None, steps=3)
    assert made.strengths == (cautious_strengths((1, 8, 8)) if few else STRONG)


class Stop(Exception):
    pass


@pytest.mark.parametrize("step", [2, 4])
def test_a_training_goes_on_from_its_checkpoint(tmp_path, measured, step):
    """The changes are those of the first time, and the weights those of an undisturbed training."""
    measured["answer"] = {"contrast": [(1.0, 0.9)]}

    def stop(row):
        if row["step"] == step:
            raise Stop

    def checkpoint():
        return Checkpoint(tmp_path / "checkpoint", "this run", every=0)

    def teacher():
        return Scripted(moved(3), moved(2))

    whole = training(teacher(), changes=None, steps=5).fit(History())
    with pytest.raises(Stop):
        training(teacher(), changes=None, steps=5, checkpoint=checkpoint()).fit(
            History(callbacks=[stop])
        )
    measured["answer"] = {"contrast": [(1.0, 0.1)]}
    # the lessons come before the third and the fourth step
    again = teacher() if step == 2 else Scripted(moved(2))
    resumed = training(again, changes=None, steps=5, checkpoint=checkpoint())
    assert (resumed.strengths, resumed.consistency) == ({"contrast": 1.0}, {"contrast": 0.9})
    history = History()
    trained = resumed.fit(history)
    assert history.column("step") == [1, 2, 3, 4, 5]
    for name, value in whole.network.state_dict().items():
        assert torch.equal(trained.network.state_dict()[name], value), name
