"""Every public parameter does what it says, or is refused in one line before anything is computed.

The parameters are those of the signatures and tables: a new one without an entry in
``parameter_cases`` fails.
"""

from __future__ import annotations

import inspect
import random
import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from parameter_cases import (
    AFFINITIES,
    ESTIMATORS,
    IMAGES,
    MODULE_OF_ENCODERS,
    OPERATOR,
    SUGGESTION,
    TABLE,
    left,
    tiny_encoder,
    watched,
)
from sklearn.base import clone
from tiny_texts import CharacterCounts

from dcfsc import TextEncoderFeatures, suggest_k
from dcfsc import affinity as affinities
from dcfsc.affinity import TopK
from dcfsc.errors import InputError
from dcfsc.estimators.registry import FEATURES, METHODS
from dcfsc.estimators.suggest import TABLE as SUGGESTION_TABLE
from dcfsc.estimators.views import EFFORTS
from dcfsc.parameters import table_of

pytestmark = pytest.mark.filterwarnings("ignore")
NONSENSE = [
    None,
    True,
    -1,
    0,
    10**30,
    2.7,
    -0.5,
    float("nan"),
    float("inf"),
    1e-320,
    "",
    "False",
    b"x",
    [],
    {},
    (1, 2, 3),
    {"x": object()},
    object(),
    int,
    np.ones(2),
]
CLASSES = {
    **{name: cls for name, (cls, *_) in ESTIMATORS.items()},
    **{name: cls for name, (cls, _) in AFFINITIES.items()},
}


@pytest.fixture(autouse=True)
def a_small_encoder(monkeypatch):
    monkeypatch.setattr(f"{MODULE_OF_ENCODERS}.open_encoder", tiny_encoder)
    monkeypatch.setattr(f"{MODULE_OF_ENCODERS}.open_text_encoder", CharacterCounts)


@pytest.fixture
def count(record_property):
    """Add to the numbers of parameters tried and refused, which the summary prints."""
    return lambda tried, refused: record_property("parameters", (tried, refused))


def placed(options, folder):
    """Options with FOLDER in their place."""
    return {
        k: v.replace("FOLDER", str(folder)) if isinstance(v, str) else v for k, v in options.items()
    }


def one_line(error):
    assert "\n" not in str(error)
    assert 10 < len(str(error)) < 400


FITTED = {}


def fitted(cls, X, options):
    """A model, the same one for the same options, said or not."""
    said = {p.name: p.default for p in inspect.signature(cls).parameters.values()} | options
    key = cls, id(X), repr(sorted(said.items()))
    if key not in FITTED:
        FITTED[key] = cls(**options).fit(X)
    return FITTED[key]


def parameters(cls):
    return set(inspect.signature(cls).parameters)


# Every parameter is in a table, and has two values ---------------------------------------------


def test_every_public_class_is_here():
    assert {cls for cls, *_ in ESTIMATORS.values()} == {
        *METHODS.values(),
        *FEATURES.values(),
        TextEncoderFeatures,
    }
    public = [vars(affinities)[name] for name in affinities.__all__]
    made = {cls for cls in public if isinstance(cls, type) and hasattr(cls, "_table")}
    assert {cls for cls, _ in AFFINITIES.values()} == made
    assert {cls.__name__ for cls in public if isinstance(cls, type)} - {
        c.__name__ for c in made
    } == {"Affinity"}


@pytest.mark.parametrize("cls", dict.fromkeys(CLASSES.values()), ids=lambda cls: cls.__name__)
def test_every_parameter_has_a_constraint_and_two_values(cls):
    assert table_of(cls).keys() >= parameters(cls)
    both = (*ESTIMATORS.values(), *AFFINITIES.values())
    assert {name for found, *_, cases in both if found is cls for name in cases} == parameters(cls)


def test_every_option_of_the_suggestion_has_a_constraint_and_two_values():
    named = parameters(suggest_k) - {"X", "network"}
    assert named == SUGGESTION.keys() == SUGGESTION_TABLE.keys()


# Two values differ in what they do -------------------------------------------------------------


@pytest.mark.parametrize(
    ("which", "name"), [(which, name) for which, case in ESTIMATORS.items() for name in case[3]]
)
def test_two_values_differ_or_are_refused(which, name, tmp_path, count):
    cls, X, base, cases = ESTIMATORS[which]
    *values, effect = cases[name][:3]
    more = cases[name][3] if len(cases[name]) > 3 else {}
    seen = []
    for i, value in enumerate(values):
        folder = tmp_path / str(i)
        folder.mkdir()
        options = placed({**base, **more, name: value}, folder)
        if effect == "refused" and i == 1:
            with pytest.raises(InputError) as raised:
                cls(**options).fit(X)
            assert "\n" not in str(raised.value)
            count(2, 1)
            return
        if effect in ("memory", "text", "file"):
            seen.append(watched(cls(**options), X, folder, effect))
        else:
            seen.append(left(fitted(cls, X, options), X, effect))
    assert seen[0] != seen[1]
    count(2, 0)


@pytest.mark.parametrize(
    ("which", "name"), [(which, name) for which, case in AFFINITIES.items() for name in case[1]]
)
def test_two_values_make_another_graph(which, name, count):
    cls, cases = AFFINITIES[which]
    one, two, _, *rest = cases[name]
    more, operator = [*rest, *({}, OPERATOR)[len(rest) :]]
    graphs = []
    for value in (one, two):
        A = cls(**{**more, name: value})(operator, 3)
        A = A.toarray() if hasattr(A, "toarray") else A.numpy()
        graphs.append((A.dtype, A.tolist()))
    assert graphs[0] != graphs[1]
    count(2, 0)


@pytest.mark.parametrize("name", SUGGESTION)
def test_two_options_make_another_suggestion(name, count):
    options = {"max_k": 5, "device": "cpu", "random_state": 0}
    if name != "method":
        options["representation"] = "given"
    one, two = SUGGESTION[name]
    if name == "method":
        two = {"method": two, "pretrain_epochs": 1}
    first = suggested(**{**options, name: one})
    try:
        second = suggest_k(TABLE, **{**options, **(two if name == "method" else {name: two})})
    except InputError as error:
        assert name in ("device", "working_size")
        one_line(error)
        count(2, 1)
        return
    assert repr(first.to_dict()) != repr(second.to_dict())
    count(2, 0)


@pytest.mark.parametrize(
    "name", ["metric", "metric-twice", "affine", "counts", "scattering", "given"]
)
@pytest.mark.parametrize(
    ("options", "beside"),
    [
        ({}, {"representation": None}),
        ({"lam": 5.0}, {}),
        ({"subspace_dim": 1.0}, {}),
        ({"normalize": False}, {}),
        ({"form": "samples"}, {"form": "features"}),
        ({"affinity": TopK(signs="positive")}, {"affinity": TopK(signs="both")}),
        ({"affinity": "symmetric"}, {}),
        ({"working_size": (6, 6)}, {}),
    ],
    ids=lambda options: "".join(options) or "plain",
)
def test_a_representation_reads_an_option_or_refuses_it(name, options, beside, count):
    """It gives another result than beside it, the samples as they are or no option, does."""
    X = IMAGES if name in ("scattering", "given") else TABLE
    make = METHODS["closed-form"]
    base = {"n_clusters": 3, "random_state": 0, "device": "cpu", "representation": name}
    other = {**base, **beside}
    if "representation" in beside:
        other["representation"] = "metric" if name == "given" else "given"
    try:
        seen = left(fitted(make, X, {**base, **options}), X)
        plain = left(fitted(make, X, other), X)
    except InputError as error:
        assert options
        one_line(error)
        count(1, 1)
        return
    assert seen != plain
    count(1, 0)


# What another parameter makes meaningless is refused -------------------------------------------


def conditions():
    for which, (cls, *_, cases) in ESTIMATORS.items():
        for name, kind in table_of(cls).items():
            for other, values in kind.conditions:
                if name in cases:
                    yield pytest.param(which, name, other, values, id=f"{which}-{name}-{other}")


@pytest.mark.parametrize(("which", "name", "other", "values"), list(conditions()))
def test_a_value_without_effect_is_refused_in_one_line(which, name, other, values, count):
    cls, X, base, cases = ESTIMATORS[which]
    default = inspect.signature(cls).parameters[name].default
    value = next(v for v in cases[name][:2] if v is not default and v != default)
    options = {k: v for k, v in base.items() if k != name}
    there = {"affinity": "topk", "outliers": False, "kernel": "linear", "lam": 1.0}
    options[other] = there.get(other)
    with pytest.raises(InputError, match=rf"^{name}=.* has no effect with .*; leave it out\.$"):
        cls(**{**options, name: value}).fit(X)
    count(1, 1)


# Nonsense --------------------------------------------------------------------------------------


@cache
def small(which):
    """Half of the samples of a case."""
    return ESTIMATORS[which][1][::2].copy()


@pytest.mark.parametrize(
    ("which", "name"), [(which, name) for which, case in ESTIMATORS.items() for name in case[3]]
)
def test_nonsense_is_one_line_or_a_fit(which, name, tmp_path, count, monkeypatch):
    """No value ends in an exception of others, hangs, or is taken for what it is not."""
    monkeypatch.chdir(tmp_path)
    short = {name: (replace(guided, steps=2), alone) for name, (guided, alone) in EFFORTS.items()}
    monkeypatch.setattr("dcfsc.estimators.views.EFFORTS", short)
    cls, _, base, _ = ESTIMATORS[which]
    refused = 0
    for value in NONSENSE:
        try:
            model = cls(**{**base, name: value}).fit(small(which))
        except InputError as error:
            one_line(error)
            refused += 1
        else:
            assert table_of(cls)[name].test(value), value
            if hasattr(model, "labels_"):
                assert model.labels_.shape == (len(small(which)),)
    assert refused >= 8
    count(len(NONSENSE), refused)


@pytest.mark.parametrize(
    ("which", "name"), [(which, name) for which, case in AFFINITIES.items() for name in case[1]]
)
def test_nonsense_makes_no_affinity(which, name, count):
    cls = AFFINITIES[which][0]
    refused = 0
    for value in NONSENSE:
        try:
            A = cls(**{name: value})(OPERATOR, 3)
        except InputError as error:
            one_line(error)
            refused += 1
        else:
            A = A.toarray() if hasattr(A, "toarray") else A.numpy()
            assert np.isfinite(A).all()
            assert (A >= 0).all()
    assert refused >= 8
    count(len(NONSENSE), refused)


@pytest.mark.parametrize("name", SUGGESTION)
def test_nonsense_makes_no_suggestion(name, count):
    refused = 0
    for value in NONSENSE:
        options = {"max_k": 3, "device": "cpu", "random_state": 0, "representation": "given"}
        if not takes(name, value):
            with pytest.raises(InputError) as raised:
                suggest_k(TABLE[:20], **{**options, name: value})
            assert "\n" not in str(raised.value)
            refused += 1
    count(len(NONSENSE), refused)


@cache
def suggested(**options):
    return suggest_k(TABLE, **options)


def takes(name, value):
    try:
        return SUGGESTION_TABLE[name].test(value)
    except InputError:
        return False


# Pairs -----------------------------------------------------------------------------------------

PAIRS = dict.fromkeys(ESTIMATORS, 12) | {"views": 8, "ensc in rounds": 2}


@pytest.mark.parametrize("which", ESTIMATORS)
def test_pairs_of_values_are_a_fit_or_one_line(which, tmp_path, count):
    cls, _, base, cases = ESTIMATORS[which]
    X = small(which)
    draw = random.Random(which)
    names = sorted(cases.keys() - {"device", "weights"})
    tried = refused = 0
    for i in range(PAIRS[which] if len(names) > 1 else 0):
        folder = tmp_path / str(i)
        folder.mkdir()
        chosen = {name: draw.choice(cases[name][:2]) for name in draw.sample(names, 2)}
        tried += 1
        try:
            with warnings.catch_warnings():
                model = clone(cls(**placed({**base, **chosen}, folder))).fit(X)
        except InputError as error:
            one_line(error)
            refused += 1
            continue
        if hasattr(model, "labels_"):
            assert set(model.labels_) <= set(range(model.n_clusters_))
            assert np.isfinite(model.confidence_).all()
    count(tried, refused)
