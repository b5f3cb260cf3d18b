"""Which changes views have: those after which a judge still knows the samples."""

import pytest
import torch

from dcfsc.training.view_choice import measure_changes, profiles
from dcfsc.training.views import changes_for


def chosen(judge, shape=(1, 12, 12), plain=None, x=None, light=True):
    """The profiles, and the consistency of each change by strength."""
    if x is None:
        x = torch.rand(40, *shape, generator=torch.Generator().manual_seed(0)) + 0.1
    random = torch.Generator().manual_seed(0)
    measured = measure_changes(x, judge, plain or judge, random, light)
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
    assert strengths == dict.fromkeys(changes_for((1, 12, 12)), 1.0) | {"crop": 0.0}
    assert all(tried == {1.0: 1.0} for name, tried in consistency.items() if name != "crop")


def test_a_judge_of_every_pixel_allows_nothing():
    weights = torch.rand(1, 12, 12, generator=torch.Generator().manual_seed(2))
    (strengths,), _ = chosen(lambda x: ((x * weights).sum(dim=(1, 2, 3)) * 1e5).long())
    assert set(strengths.values()) == {0.0}


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


def test_light_is_tried_only_where_neighbours_differ_by_smooth_factors():
    (strengths,), consistency = chosen(lambda x: torch.zeros(len(x)), light=False)
    assert strengths["light"] == 0.0
    assert consistency["light"] == {}


@pytest.mark.parametrize("shape", [(9,), (3, 8, 8)])
def test_vectors_and_colour_have_changes_of_their_own(shape):
    (strengths,), _ = chosen(lambda x: torch.zeros(len(x)), shape)
    assert set(strengths) == set(changes_for(shape))
