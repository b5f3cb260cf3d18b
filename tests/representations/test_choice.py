"""Which representation is taken: the one that is named, or the most stable one."""

import logging

import numpy as np
import pytest
import torch

from dcfsc import ClosedFormSubspaceClustering, processes
from dcfsc.affinity import TopK
from dcfsc.errors import InputError
from dcfsc.pipeline import Recipe
from dcfsc.representations import REPRESENTATIONS, Representation, create, names, registry, restore
from dcfsc.selection import choice, select
from dcfsc.self_expression import Coding, CosineForm

VECTORS, IMAGES = Recipe((12,), 3), Recipe((16, 16), 3)


def test_names_are_listed_once_and_auto_is_one():
    assert names()[0] == "auto"
    assert len(set(names())) == len(names()) == len(REPRESENTATIONS) + 1


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        (VECTORS, ["ranks", "given", "cosine"]),
        (Recipe((20,), 3), ["ranks", "given", "cosine"]),
        (Recipe((21,), 3), ["counts", "joined", "given", "cosine", "columns"]),
        (IMAGES, ["scattering", "given", "metric-twice"]),
        (Recipe((5000,), 3), ["counts", "joined", "given", "cosine", "columns"]),
        (Recipe((200,), 3), ["counts", "joined", "given", "cosine", "columns", "affine"]),
        (Recipe((70, 70), 3), ["given"]),
        (Recipe((12,), 3, lam=1.0), ["given"]),
        (Recipe((16, 16), 3, lam=1.0), ["given"]),
        (Recipe((16, 16), 3, subspace_dim=2.0), ["given"]),
        (Recipe((16, 16), 3, unit_length=False), ["given"]),
        (Recipe((16, 16), 3, affinity=TopK(search="approximate")), ["given", "metric-twice"]),
        (Recipe((12,), 3, affinity=TopK(search="approximate")), ["given", "metric-twice"]),
    ],
)
def test_candidates_of_auto(recipe, expected):
    assert [c.name for c in create("auto", recipe)] == expected


@pytest.mark.parametrize("name", ["scatering", "none", None, 3])
def test_an_unknown_name_is_one_line_that_lists_the_known(name):
    with pytest.raises(InputError, match="unknown representation") as raised:
        ClosedFormSubspaceClustering(2, representation=name).fit(np.eye(6))
    assert "\n" not in str(raised.value)
    assert "metric-twice" in str(raised.value)


@pytest.mark.parametrize("cls", REPRESENTATIONS)
def test_every_representation_keeps_its_contract(cls):
    """Fit, transform, solve, and the same again from its state."""
    random = np.random.default_rng(0)
    Z = torch.nn.functional.normalize(torch.from_numpy(random.normal(size=(60, 256))).float())
    Z[3] = 0.0
    recipe = Recipe((16, 16), 3)
    (representation,) = create(cls.name, recipe)
    assert type(representation) is cls
    R = representation.fit_transform(Z)
    torch.testing.assert_close(representation.transform(Z), R, rtol=1e-5, atol=1e-6)
    operator = representation.solve(R)
    assert operator.n == len(R) == 60
    assert isinstance(operator, Coding)
    assert (operator.lam is not None) == cls.has_ridge
    assert (operator.effective_dof is not None) == cls.has_ridge
    tensors, values = representation.state()
    assert (len(tensors) > 0) == cls.learns
    again = restore(cls.name, recipe, tensors, values, torch.device("cpu"))
    assert torch.equal(again.transform(Z), representation.transform(Z))
    new = representation.transform_unseen(Z[:5])
    assert torch.equal(again.transform_unseen(Z[:5]), new)
    one, two = operator.topk_code(new, 4), again.solve(R).topk_code(new, 4)
    assert torch.equal(one[0], two[0])
    assert torch.equal(one[1], two[1])


class Fifth(Representation):
    """Rows in reverse order of features: what a new file and a new line would add."""

    name, has_ridge = "reversed", False

    @classmethod
    def considered(cls, recipe):
        return True

    def solve_part(self, part):
        return CosineForm(part.Z)

    def transform(self, Z):
        return Z.flip(1)

    def solve(self, R):
        return CosineForm(R)


def test_a_fifth_is_one_class_and_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr(registry, "REPRESENTATIONS", (*REPRESENTATIONS, Fifth))
    monkeypatch.setitem(registry._BY_NAME, "reversed", Fifth)
    X = np.random.default_rng(0).normal(1.5, size=(90, 12)).astype(np.float32)
    model = ClosedFormSubspaceClustering(3, representation="reversed", random_state=0).fit(X)
    assert model.representation_ == "reversed"
    model.save(tmp_path / "model.safetensors")
    loaded = ClosedFormSubspaceClustering.load(tmp_path / "model.safetensors")
    assert np.array_equal(loaded.predict(X[:9]), model.predict(X[:9]))
    auto = ClosedFormSubspaceClustering(3, random_state=0, device="cpu").fit(X)
    assert list(auto.stability_) == ["ranks", "given", "cosine", "reversed"]


def test_the_winner_of_the_race_is_taken_and_fitted(monkeypatch, caplog):
    caplog.set_level(logging.INFO, "dcfsc.stage")
    Z = torch.nn.functional.normalize(1.5 + torch.randn(90, 12, generator=torch.Generator()))
    scores = {"given": 0.5, "cosine": 0.5, "ranks": 0.6}
    for name in scores:
        winner = ["ranks", "given", "cosine"].index(name)
        monkeypatch.setattr(
            choice, "race", lambda c, *args, winner=winner: (c[winner], scores, None)
        )
        selected = select(create("auto", VECTORS), Z, VECTORS)
        chosen = selected.representation
        assert (chosen.name, selected.stability) == (name, scores)
    assert chosen.ascending.shape == (12, 90)
    fitting = [m for m in caplog.messages if " of 90" not in m]  # but for the scan of signs
    assert fitting == ["fitting the representation ranks"]


def test_images_prefer_scattering_tables_ranks_and_other_vectors_joined_neighbors():
    assert create("auto", IMAGES)[0].name == "scattering"
    assert create("auto", VECTORS)[0].name == "ranks"
    assert [c.name for c in create("auto", Recipe((30,), 3))][:2] == ["counts", "joined"]


def test_few_samples_are_taken_as_they_are():
    Z = torch.nn.functional.normalize(torch.randn(30, 12, generator=torch.Generator()))
    selected = select(create("auto", VECTORS), Z, VECTORS)
    chosen, scores = selected.representation, selected.stability
    assert (chosen.name, scores) == ("given", {})


class Told(Fifth):
    """A candidate that says what it was told to."""

    def __init__(self, name, suits=None, head_start=None, learns=False):
        super().__init__(VECTORS)
        self.name, self.learns, self.fitted = name, learns, []
        self.suits = lambda X: suits
        self.head_start = lambda Z: head_start

    def fit_transform(self, Z):
        if self.learns:
            self.fitted.append(Z)
        return self.transform(Z)

    def transform(self, Z):
        return Z


def rows_of(n, seed=0):
    return torch.randn(n, 12, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def races(monkeypatch):
    """The candidates and margins of races, which the last candidate wins."""
    seen = []

    def race(candidates, Z, recipe, margin):
        seen.append(([c.name for c in candidates], margin))
        return candidates[-1], {c.name: 0.5 for c in candidates}, None

    monkeypatch.setattr(choice, "race", race)
    return seen


@pytest.mark.parametrize(
    ("head_start", "names", "margin"),
    [
        (None, ["one", "two"], 0.05),
        (0.0, ["one", "two"], 0.0),
        (0.2, ["one", "two"], 0.2),
    ],
)
def test_the_head_start_of_the_preferred_is_the_margin_of_the_race(
    races, head_start, names, margin
):
    candidates = [Told("one", head_start=head_start), Told("two", head_start=9.0)]
    selected = select(candidates, rows_of(90), VECTORS)
    chosen, scores = selected.representation, selected.stability
    assert races == [(names, margin)]
    assert (chosen.name, list(scores)) == (names[-1], names)


def test_an_infinite_head_start_needs_no_race(races):
    selected = select([Told("one", head_start=np.inf), Told("two")], rows_of(90), VECTORS)
    assert (selected.representation.name, selected.stability, races) == ("one", {}, [])


def test_what_suits_is_taken_and_what_does_not_leaves_the_race(races):
    one, two, three, four = (
        Told(*told, learns=True)
        for told in (("one", None), ("two", False), ("three", None), ("four", True))
    )
    X = rows_of(90)
    selected = select([one, two, three, four], X, VECTORS)
    chosen, rows = selected.representation, selected.rows
    scores = selected.stability
    assert (chosen, scores, races) == (four, {}, [])
    torch.testing.assert_close(chosen.fitted[0], rows)
    torch.testing.assert_close(rows, torch.nn.functional.normalize(X))
    assert select([one, two, three], X, VECTORS).representation is three
    assert races == [(["one", "three"], 0.05)]


def test_one_that_is_left_needs_no_race(races):
    plain = Told("plain")
    selected = select([plain, Told("other", False)], rows_of(90), VECTORS)
    chosen, rows = selected.representation, selected.rows
    scores = selected.stability
    assert (chosen, scores, races) == (plain, {}, [])
    assert rows.shape == (90, 12)


def test_too_few_samples_are_taken_by_the_first_that_learns_nothing(races):
    told = [Told("one", learns=True), Told("two"), Told("three")]
    assert select(told, rows_of(30), VECTORS).representation.name == "two"
    assert races == []
    assert select(told, rows_of(31), VECTORS).representation.name == "three"


def test_one_candidate_sees_all_samples_and_learns_from_some(monkeypatch, races):
    X = rows_of(90)
    unit = torch.nn.functional.normalize(X)
    monkeypatch.setattr("dcfsc.pipeline.sampling.MOST_SAMPLES", 40)
    for learns in (False, True):
        one = Told("one", learns=learns)
        selected = select([one], X, VECTORS)
        chosen, rows = selected.representation, selected.rows
        scores = selected.stability
        assert (chosen, scores) == (one, {})
        torch.testing.assert_close(rows, unit)
        assert [len(Z) for Z in one.fitted] == [40] * learns
    torch.testing.assert_close(one.fitted[0].norm(dim=1), torch.ones(40))
    selected = select([Told("one"), Told("two", learns=True)], X, VECTORS)
    chosen, rows = selected.representation, selected.rows
    torch.testing.assert_close(rows, unit)
    assert [len(Z) for Z in chosen.fitted] == [40]
    assert len(races) == 1


def test_what_is_fitted_is_said(caplog, races):
    with caplog.at_level("INFO", "dcfsc"):
        select([Told("one"), Told("two", learns=True)], rows_of(90), VECTORS)
    assert "fitting the representation two" in caplog.messages
    assert "representation: two (stability: one 0.500, two 0.500)" in caplog.messages


def test_an_obstacle_is_an_error_only_for_who_names_it():
    with pytest.raises(InputError, match="is for images"):
        create("scattering", VECTORS)
    with pytest.raises(InputError, match="unknown representation"):
        restore("auto", VECTORS, {}, {}, "cpu")


def test_every_process_takes_what_the_first_has_learned(monkeypatch):
    seen = []
    monkeypatch.setattr(
        processes, "broadcast", lambda tensor, source: seen.append((tensor, source))
    )
    (metric,) = create("metric", VECTORS)
    chosen = select([metric], rows_of(90), VECTORS).representation
    ((tensor, source),) = seen
    assert tensor is chosen.T
    assert source == 0
