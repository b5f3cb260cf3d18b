"""Which augmentations views have: those after which a judge still knows the samples."""

import itertools

import numpy as np
import pytest
import torch

from dcfsc.views import choice as view_choice
from dcfsc.views.augmentations import augmentations_for
from dcfsc.views.choice import clearly_fewer, measure_consistency, profiles, stray_shares


def chosen(judge, shape=(1, 12, 12), plain=None, x=None, light=True):
    """The profiles, and the consistency of each augmentation by strength."""
    if x is None:
        x = torch.rand(40, *shape, generator=torch.Generator().manual_seed(0)) + 0.1
    random = torch.Generator().manual_seed(0)
    measured = measure_consistency(x, judge, plain or judge, random, light)
    return profiles(measured), {name: dict(tried) for name, tried in measured.items()}


def dots(n=60, side=21):
    """A bright dot somewhere in the dark."""
    place = torch.randint(4, side - 4, (n, 2), generator=torch.Generator().manual_seed(1))
    axis = torch.arange(side)
    apart = (axis - place[:, :1])[:, :, None] ** 2 + (axis - place[:, 1:])[:, None, :] ** 2
    return torch.exp(-apart / 2.0)[:, None]


def cell_of_the_brightest_pixel(width):
    def judge(x):
        brightest = x.flatten(1).argmax(dim=1)
        rows, columns = brightest // x.shape[-1], brightest % x.shape[-1]
        return rows // width * 100 + columns // width

    return judge


def test_a_judge_whom_nothing_disturbs_allows_everything_at_full_strength():
    (strengths,), consistency = chosen(lambda x: torch.zeros(len(x)))
    assert strengths == dict.fromkeys(augmentations_for((1, 12, 12)), 1.0) | {"crop": 0.0}
    assert all(tried == {1.0: 1.0} for name, tried in consistency.items() if name != "crop")


def test_a_judge_of_every_pixel_allows_nothing():
    weights = torch.rand(1, 12, 12, generator=torch.Generator().manual_seed(2))
    (strengths,), consistency = chosen(lambda x: ((x * weights).sum(dim=(1, 2, 3)) * 1e5).long())
    assert set(strengths.values()) == {0.0}
    assert consistency["hole"] == {1.0: 0.0, 0.5: 0.0}  # of the views that have one


def test_where_the_place_tells_clusters_apart_light_is_allowed_and_geometry_is_not():
    both, consistency = chosen(cell_of_the_brightest_pixel(1), x=dots())
    for strengths in both:
        assert strengths["light"] == strengths["contrast"] == 1.0
        assert strengths["geometry"] < 0.5
    assert consistency["light"][1.0] > 0.9
    assert consistency["geometry"][1.0] < 0.3


def test_the_gentle_profile_is_weaker_where_the_strong_one_is_doubtful():
    (strong, gentle), consistency = chosen(cell_of_the_brightest_pixel(3), x=dots())
    tried = consistency["geometry"]
    assert strong["geometry"] > gentle["geometry"] > 0
    assert 0.5 <= tried[strong["geometry"]] < 0.85 <= tried[gentle["geometry"]]
    assert all(share < 0.5 for s, share in tried.items() if s > strong["geometry"])


def test_mirror_images_are_judged_by_samples_as_they_are():
    def left_or_right(x):
        return x[:, 0, :, :6].mean(dim=(1, 2)) > x[:, 0, :, 6:].mean(dim=(1, 2))

    (strengths,), consistency = chosen(lambda x: torch.zeros(len(x)), plain=left_or_right)
    assert strengths["mirror"] == 0.0
    assert consistency["mirror"] == {1.0: 0.0}
    assert strengths["geometry"] == 1.0


def test_light_is_tried_only_where_neighbors_differ_by_smooth_factors():
    (strengths,), consistency = chosen(lambda x: torch.zeros(len(x)), light=False)
    assert strengths["light"] == 0.0
    assert consistency["light"] == {}


@pytest.mark.parametrize("shape", [(9,), (3, 8, 8)])
def test_vectors_and_color_have_augmentations_of_their_own(shape):
    (strengths,), _ = chosen(lambda x: torch.zeros(len(x)), shape)
    assert set(strengths) == set(augmentations_for(shape))


@pytest.mark.parametrize("shape", [(9,), (3, 8, 8)])
def test_the_strongest_is_tried_first_and_every_strength_if_need_be(shape):
    seen = itertools.count()
    _, consistency = chosen(lambda x: torch.tensor([next(seen) for _ in x]), shape)
    expected = {name: [1.0, 0.5] for name in augmentations_for(shape)}
    if shape != (9,):
        expected |= {"geometry": [1.0, 0.5, 0.25, 0.1], "crop": [], "mirror": [1.0]}
    assert {name: list(tried) for name, tried in consistency.items()} == expected
    assert all(share == 0.0 for tried in consistency.values() for share in tried.values())


def test_what_is_consistent_enough():
    """Half for the strong profile, 85% for the gentle one, and 70% of mirror images for both."""
    tried = {
        "geometry": [(1.0, 0.49), (0.5, 0.5), (0.25, 0.84), (0.1, 0.85)],
        "contrast": [(1.0, 0.1), (0.5, 0.51)],
        "noise": [(1.0, 0.849), (0.5, 0.849)],
        "crop": [],
    }
    strong = {"geometry": 0.5, "contrast": 0.5, "noise": 1.0, "crop": 0.0}
    gentle = {"geometry": 0.1, "contrast": 0.0, "noise": 0.0, "crop": 0.0}
    assert profiles(tried) == [strong, gentle]
    for share, strength in ((0.69, 0.0), (0.7, 1.0), (0.84, 1.0)):
        assert profiles({"mirror": [(1.0, share)]}) == [{"mirror": strength}]


@pytest.mark.parametrize(("kept", "count"), [(16, 2), (18, 1)])
def test_no_weaker_strength_is_tried_where_85_per_cent_stay(kept, count):
    """A judge who knows so many of twenty samples again, whatever is done to them."""
    x = torch.rand(20, 1, 8, 8, generator=torch.Generator().manual_seed(0)) + 0.1
    calls = []

    def judge(view):
        calls.append(len(view))
        return torch.where(torch.arange(20) < kept, 0, len(calls))

    _, consistency = chosen(judge, x=x, plain=lambda x: torch.zeros(len(x)))
    assert consistency["noise"] == dict.fromkeys([1.0, 0.5][:count], pytest.approx(kept / 20))


def test_mirror_images_exchange_left_and_right():
    x = torch.rand(6, 1, 4, 6, generator=torch.Generator().manual_seed(0))
    seen = []
    chosen(
        lambda x: torch.zeros(len(x)), x=x, plain=lambda x: seen.append(x) or torch.zeros(len(x))
    )
    assert torch.equal(seen[0], x[:, :, :, [5, 4, 3, 2, 1, 0]])
    assert torch.equal(seen[1], x)


def nearest_by_hand(Z, row):
    """The three nearest other rows, or their opposites, in plain NumPy."""
    others = np.delete(np.arange(len(Z)), row)
    return others[np.argsort(-abs(Z[others] @ Z[row]))[:3]]


@pytest.mark.parametrize(("looked_at", "rows"), [(10_000, range(50)), (20, range(0, 50, 3))])
def test_strays_are_nearest_rows_of_other_labels(monkeypatch, looked_at, rows):
    monkeypatch.setattr(view_choice, "LOOKED_AT", looked_at)
    random = np.random.default_rng(0)
    Z = random.standard_normal((50, 4))
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    labels = random.integers(0, 3, 50)
    expected = [np.mean(labels[nearest_by_hand(Z, i)] != labels[i]) for i in rows]
    found = stray_shares(torch.from_numpy(Z), torch.from_numpy(labels))
    assert found.tolist() == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(("n", "looking"), [(10_000, 10_000), (10_001, 5001), (20_001, 6667)])
def test_ten_thousand_rows_at_most_look_for_their_neighbors(n, looking):
    Z = torch.nn.functional.normalize(torch.arange(2.0 * n).view(n, 2).sin(), dim=1)
    assert stray_shares(Z, torch.zeros(n)).tolist() == [0.0] * looking


@pytest.mark.parametrize(("labels", "share"), [([0] * 6, 0.0), ([0, 1, 2, 3, 4, 5], 1.0)])
def test_strays_of_equal_rows(labels, share):
    found = stray_shares(torch.ones(len(labels), 1), torch.tensor(labels))
    assert found.tolist() == [share] * len(labels)


def test_of_two_rows_each_is_the_others_neighbor():
    assert stray_shares(torch.eye(2), torch.tensor([0, 1])).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("better", "worse", "clear"),
    [
        (4, 0, True),  # the difference is 0.04, two standard errors 0.0392
        (3, 0, False),  # 0.03 and 0.0341
        (8, 1, True),  # 0.07 and 0.0583
        (8, 2, False),  # 0.06 and 0.0621
        (0, 0, False),
        (0, 5, False),
        (100, 0, True),
    ],
)
def test_fewer_is_clear_by_two_standard_errors(better, worse, clear):
    """Of a hundred samples, some have fewer strays by one and some more."""
    others = torch.full((100,), 0.5, dtype=torch.float64)
    shares = others.clone()
    shares[:better] -= 1
    shares[100 - worse :] += 1 if worse else 0
    assert clearly_fewer(shares, others) is clear


def test_of_one_sample_any_difference_is_clear():
    assert clearly_fewer(torch.zeros(1), torch.ones(1))
    assert not clearly_fewer(torch.ones(1), torch.ones(1))
