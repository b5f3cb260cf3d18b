"""Words that set clusters of texts apart, and how a page shows texts."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from running import fit_run
from tiny_texts import CharacterCounts

from dcfsc.errors import InputError
from dcfsc.estimators import encoder_features
from dcfsc.io import Dataset
from dcfsc.report import Details, cluster_words, read_details, render
from dcfsc.report import texts as report_texts
from dcfsc.report.texts import class_tf_idf, excerpts, stored_words, suggested_name, words_of
from dcfsc.runs.edits import edit_run
from dcfsc.runs.folder import Run, read_run

WORDS = ["bus", "train", "late", "soup", "cold", "waiter", "the", "was", "kind", "never"]
TEXTS = ["the bus was late", "late train", "bus or train", "the soup was cold", "cold, cold soup!"]
MARKUP = '<img src=x onerror=alert(1)></script><b>cold</b> soup & "bread" \''


def random_texts(n: int = 200, seed: int = 0) -> tuple[list[str], np.ndarray]:
    """Texts of five clusters of different size, each of which likes some words."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(5, n, p=[0.4, 0.3, 0.15, 0.1, 0.05])
    liking = rng.dirichlet(np.full(len(WORDS), 0.4), 5)
    texts = [" ".join(rng.choice(WORDS, rng.integers(1, 9), p=liking[k])) for k in labels]
    return texts, labels


def plain_weights(texts: list[str], labels: np.ndarray) -> np.ndarray:
    """The definition, word by word: the weights (5, words), 0 where words are common elsewhere."""
    joined = [" ".join(t for t, k in zip(texts, labels, strict=True) if k == c) for c in range(5)]
    tf = np.array([[text.split().count(word) for word in WORDS] for text in joined])
    mean_words = sum(len(text.split()) for text in joined) / 5
    weights = tf * np.log(1 + mean_words / tf.sum(axis=0))
    for c in range(5):
        elsewhere = np.delete(tf, c, axis=0).sum(axis=0) / np.delete(tf, c, axis=0).sum()
        weights[c, tf[c] / tf[c].sum() < 2 * elsewhere] = 0
    return weights


def test_weights_and_order_are_those_of_the_definition() -> None:
    texts, labels = random_texts()
    weights = plain_weights(texts, labels)
    expected = {
        c: [WORDS[i] for i in np.argsort(-weights[c], kind="stable") if weights[c, i] > 0]
        for c in range(5)
    }
    assert cluster_words(texts, labels, n_words=20) == expected
    assert sum(map(len, expected.values())) > 10
    counts = np.array([[0, 3, 1], [2, 1, 0]])
    # A = 7 / 2, f = (2, 4, 1)
    expected_weights = [3 * np.log(1 + 3.5 / 4), np.log(1 + 3.5), 2 * np.log(1 + 3.5 / 2)]
    np.testing.assert_allclose(class_tf_idf(counts), [*expected_weights, np.log(1 + 3.5 / 4)])


def test_common_words_do_not_set_a_cluster_apart() -> None:
    words = cluster_words(TEXTS, [0, 0, 0, 1, 1])
    assert words == {0: ["bus", "late", "train", "or"], 1: ["cold", "soup"]}
    assert cluster_words(TEXTS, [7, 7, 7, -1, -1], n_words=1) == {-1: ["cold"], 7: ["bus"]}


def test_any_script() -> None:
    texts = [
        "公交车又迟到了",
        "公交车没来。",
        "ラーメンが冷たい",
        "الحافلةُ متأخرة",
        "हिन्दी में लिखा",
        "iPhone手机",
    ]
    words = cluster_words(texts, range(6))
    assert words[0] == ["到了", "又迟", "车又", "迟到", "交车", "公交"]  # the last two are in two
    assert "ラー" in words[2]
    assert words[3] == ["الحافلةُ", "متأخرة"]  # the vowel sign is a part of its word
    assert words[4] == ["में", "लिखा", "हिन्दी"]
    assert words[5] == ["iphone", "手机"]
    assert cluster_words(["Café CAFÉ", "naïve"], [0, 1]) == {0: ["café"], 1: ["naïve"]}


def test_empty_equal_and_long_texts() -> None:
    assert cluster_words(["", "!?", "a"], [0, 1, 1]) == {0: [], 1: []}
    assert cluster_words(["same words"] * 4, [0, 0, 1, 1]) == {0: [], 1: []}
    assert cluster_words(["cold soup"] * 3, [4, 4, 4]) == {4: ["cold", "soup"]}
    long = "bus " * 200_000
    assert cluster_words([long, "train late"], [0, 1]) == {0: ["bus"], 1: ["late", "train"]}
    assert excerpts([long, "x", ""]).tolist() == [long[:299] + "…", "x", ""]


@pytest.mark.parametrize("labels", [[0, 1], [0.0, 1.0, 1.0], [[0], [1], [1]], ["a", "b", "b"]])
def test_labels_that_are_none(labels: list) -> None:
    with pytest.raises(InputError, match="3 texts need as many whole numbers as labels"):
        cluster_words(["a", "b", "c"], labels)
    with pytest.raises(InputError, match="None in row 1"):
        cluster_words(["a", None, "c"], [0, 1, 1])


@pytest.mark.parametrize("room", [1 << 20, 100])
def test_stored_counts_give_the_same_words(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    texts, labels = random_texts(400)
    parts = 2 * labels + np.random.default_rng(1).integers(0, 2, len(labels))
    monkeypatch.setattr(report_texts, "CELLS", room)
    stored = stored_words(texts, parts, 10)
    assert stored["words"][0] == ""
    total = [
        sum(len(t.split()) for t, p in zip(texts, parts, strict=True) if p == q) for q in range(10)
    ]
    assert stored["word_counts"].sum(axis=1).tolist() == total
    of_run = Details.__new__(Details)  # no more than the arrays that count here
    of_run.__dict__.update(labels=labels, parts=parts, **stored)
    expected = cluster_words(texts, labels, 3)
    assert words_of(of_run, range(5), 3) == expected
    merged = np.where(labels == 3, 1, labels)
    of_run.__dict__.update(labels=merged)
    if room > 100:
        assert words_of(of_run, [0, 1, 2, 4], 3) == cluster_words(texts, merged, 3)


def test_words_that_tell_a_cluster_or_its_half_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    labels, parts = np.repeat([0, 1, 2], 40), np.repeat(range(6), 20)
    texts = []
    for k, part in zip(labels, parts, strict=True):
        halves, clusters = rng.choice(5, 3) + 10 * part, rng.choice(5, 2) + 100 * (k + 1)
        texts.append(" ".join(f"w{i}" for i in [*halves, *clusters, *rng.integers(1000, 2000, 4)]))
    monkeypatch.setattr(report_texts, "STORED", (2, 2))
    of_clusters, of_halves = (
        {word for words in cluster_words(texts, groups, 2).values() for word in words}
        for groups in (labels, parts)
    )
    assert of_clusters - of_halves
    assert of_halves - of_clusters
    stored = stored_words(texts, parts, 6)["words"]
    assert {*stored.tolist()} == {"", *of_clusters, *of_halves}


def test_the_words_that_are_not_stored_are_no_word() -> None:
    details = Details.__new__(Details)
    counts = np.array([[60, 2, 1], [30, 1, 0], [0, 0, 4], [0, 0, 0]])
    details.__dict__.update(
        labels=np.array([0, 0, 1]),
        parts=np.array([0, 1, 2]),
        words=np.array(["", "bus", "soup"]),
        word_counts=counts,
    )
    assert words_of(details, [0, 1], 1) == {0: ["bus"], 1: ["soup"]}


def test_names() -> None:
    assert suggested_name(["bus", "late", "train", "or"]) == "bus, late, train"
    assert suggested_name(["bus"]) == "bus"
    assert suggested_name([]) == ""
    assert suggested_name(["404"]) == ""  # would be a cluster's number


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Texts in two clusters, told apart by their characters."""
    place = tmp_path_factory.mktemp("texts")
    rng = np.random.default_rng(0)
    kinds = ["bus bus train late", "soup cold waiter kind"]
    texts = [" ".join(rng.permutation((kinds[i % 2] + " the was").split())) for i in range(60)]
    texts[0], texts[1] = MARKUP, "late " * 400
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoder_features, "open_text_encoder", CharacterCounts)
        patch.setattr(encoder_features, "default_place", lambda: place / "cache")
        data = Dataset("answers", np.array(texts, object))
        options = {"n_clusters": 2, "random_state": 0, "device": "cpu", "representation": "given"}
        return fit_run(data, "closed-form", options, place / "run", report=True)


def page_of(run: Run) -> str:
    return (run.folder / "report.html").read_text(encoding="utf-8")


def test_the_page_shows_texts_and_words(run: Run) -> None:
    page, details = page_of(run), run.details()
    assert render(read_run(run.folder).record, details) == page
    assert len(details.texts) == len(details.shown) == 60
    assert details.shown.tolist() != sorted(details.shown.tolist())
    for at in (MARKUP, "late " * 59):
        sample = next(i for i, text in zip(details.shown, details.texts, strict=True) if at in text)
        assert sample == (0 if at == MARKUP else 1)
    quotes = re.findall(r'<span class="quote" dir="auto">(.*?)</span>', page)
    typical = int(((details.role == 0) | (details.role == 1)).sum())
    assert len(quotes) >= typical > 10
    words = words_of(details, [0, 1])
    for k in (0, 1):
        assert ", ".join(words[k]) in page
        assert f'dcfsc edit RUN "{k}={suggested_name(words[k])}"' in page
    assert "60 texts" in page
    assert "shown by its row number" not in page


def test_markup_in_texts_is_escaped(run: Run) -> None:
    page = page_of(run)
    assert MARKUP in run.details().texts
    assert "<img src=x" not in page
    assert "<b>cold" not in page
    assert page.count("</script>") == 3
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    assert MARKUP in data["shown"]["text"]


def test_long_texts_are_cut(run: Run) -> None:
    assert max(map(len, run.details().texts)) == 300
    assert "late " * 80 not in page_of(run)


def test_a_name_of_a_person_replaces_the_suggestion(run: Run) -> None:
    edit_run(run.folder, {"0": "late buses"})
    details = run.details()
    page = render(run.record, details, names={0: "late buses"})
    assert 'dcfsc edit RUN "0=' not in page
    assert 'dcfsc edit RUN "1=' in page
    edit_run(run.folder, {}, undo=True)


def test_details_without_texts_are_read(run: Run, tmp_path: Path) -> None:
    """Those of earlier versions have no words and no texts."""
    with np.load(run.folder / "details.npz") as arrays:
        kept = {k: arrays[k] for k in arrays if k not in ("texts", "words", "word_counts")}
    np.savez(tmp_path / "details.npz", **kept)
    details = read_details(tmp_path / "details.npz")
    assert details.texts.size == details.words.size == details.word_counts.size == 0
    page = render(run.record, details)
    assert "Words that set it apart" not in page
    assert "shown by its row number" in page


@pytest.mark.parametrize("name", ["texts", "words", "word_counts"])
def test_details_that_do_not_fit_are_refused(run: Run, name: str) -> None:
    with pytest.raises(InputError, match="do not fit together"):
        replace(run.details(), **{name: getattr(run.details(), name)[:-1]})
