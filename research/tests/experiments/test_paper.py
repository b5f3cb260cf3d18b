"""The paper's numbers as data: complete, and consistent where the paper is."""

import pytest

from research.experiments import paper


def test_extended_yale_b_has_ten_methods_and_seven_sizes():
    assert set(paper.EYALEB) == set(paper.METHODS)
    assert len(paper.METHODS) == 10
    for by_clusters in paper.EYALEB.values():
        assert tuple(by_clusters) == paper.CLUSTERS


@pytest.mark.parametrize(
    ("method", "K", "mean", "median"),
    [
        ("lrr", 10, 22.22, 23.49),
        ("ssc-omp", 10, 12.08, 8.28),
        ("ae+edsc", 20, 7.67, 6.56),
        ("dsc", 35, 2.65, 2.64),
        ("dcfsc", 10, 5.72, 5.63),
        ("dcfsc", 38, 6.13, None),
    ],
)
def test_printed_values(method, K, mean, median):
    assert paper.printed("eyaleb", method, K) == paper.Printed(mean, median)


def test_only_what_the_text_says_of_the_bar_charts():
    assert paper.printed("orl", "dcfsc", 40) == paper.Printed(14.8)
    assert paper.printed("orl", "dsc", 40) == paper.Printed(14.0)
    assert paper.printed("coil100", "dcfsc", 100) == paper.Printed(27.3)
    assert paper.printed("orl", "lrr", 40) is None
    assert paper.printed("coil100", "dsc", 100) is None
    assert paper.printed("digits", "dcfsc", 3) is None


@pytest.mark.parametrize("table", paper.NETWORKS.values(), ids=list(paper.NETWORKS))
def test_layers_sum_to_the_printed_totals(table):
    assert sum(table["dcfsc"]["layers"]) == table["dcfsc"]["total"]
    assert sum(table["dsc"]["layers"]) + table["n"] ** 2 == table["dsc"]["total"]
