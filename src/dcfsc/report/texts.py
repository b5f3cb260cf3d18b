"""Words that set clusters of texts apart, by class-based tf-idf, and texts as a page shows them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp

from dcfsc.errors import InputError
from dcfsc.io.texts import texts_of
from dcfsc.report.details import Details

APART = 2.0  # times as frequent in a cluster as outside it; common words are as frequent anywhere
NAMING, LONGEST_WORD = 3, 24  # words of a suggested name, and their characters
EXCERPT = 300  # characters of a text that are stored and shown
STORED, CELLS = (3, 100), 1 << 20  # fewest and most words of a part that are stored; about so many
UNSPACED = re.compile("([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+)")  # kana and Chinese characters


def cluster_words(texts: Any, labels: Any, n_words: int = 10) -> dict[int, list[str]]:
    """The words that set each cluster of texts apart, the most telling first.

    The weight of a word in a cluster is its class-based tf-idf,

        tf log(1 + A / f),

    where the word occurs tf times in the texts of the cluster and f times in all texts, and a
    cluster has A words on average. Words that are less than twice as frequent in the cluster as in
    the others are left out, whatever their weight. Words are runs of letters and digits of any
    script, in lower case; those of one character are left out. Chinese and Japanese, which put no
    spaces between words, give pairs of adjacent characters.

    Parameters
    ----------
    texts : sequence of str, shape (n,)
    labels : array-like of int, shape (n,)
    n_words : int
        At most so many words of a cluster. Fewer set it apart if its texts are few or short.

    Returns
    -------
    dict
        The words by cluster, for every number in ``labels``.

    Examples
    --------
    >>> from dcfsc.report import cluster_words
    >>> texts = ["The bus was late.", "A late bus again!", "The soup was cold.", "Cold soup."]
    >>> cluster_words(texts, [0, 0, 1, 1], n_words=2)
    {0: ['bus', 'late'], 1: ['cold', 'soup']}
    """
    listed, labels = texts_of(texts), np.asarray(labels)
    if labels.shape != (len(listed),) or labels.dtype.kind not in "iu":
        raise InputError(
            f"{len(listed)} texts need as many whole numbers as labels; got {labels.dtype} of "
            f"shape {labels.shape}."
        )
    clusters, groups = np.unique(labels, return_inverse=True)
    counts, words = count_words(listed, groups, len(clusters))
    telling = telling_words(counts, n_words)
    return {int(k): words[at].tolist() for k, at in zip(clusters, telling, strict=True)}


def tokens(text: str) -> Iterator[str]:
    """The words of a text."""
    for run in text.lower().translate(_LETTERS).split():
        for piece in UNSPACED.split(run):
            if UNSPACED.match(piece):
                yield from (piece[i : i + 2] for i in range(max(1, len(piece) - 1)))
            elif len(piece) > 1:
                yield piece


class _Letters(dict[int, int]):
    """What ends a word becomes a space; accents and vowel signs do not, unlike for ``\\w``."""

    def __missing__(self, code: int) -> int:
        letter = chr(code)
        kept = letter.isalnum() or unicodedata.category(letter)[0] == "M"
        self[code] = code if kept else ord(" ")
        return self[code]


_LETTERS = _Letters()


def count_words(
    texts: Sequence[str], groups: np.ndarray, n_groups: int
) -> tuple[sp.csr_array, np.ndarray]:
    """How often each word occurs in the texts of each group (n_groups, words), and the words."""
    from sklearn.feature_extraction.text import CountVectorizer

    order = np.argsort(groups, kind="stable")
    ends = np.cumsum(np.bincount(groups, minlength=n_groups))[:-1]
    joined = [[texts[i] for i in members] for members in np.split(order, ends)]
    counter = CountVectorizer(analyzer=lambda group: chain.from_iterable(map(tokens, group)))
    try:
        counts = sp.csr_array(counter.fit_transform(joined))
    except ValueError:  # no word at all
        return sp.csr_array((n_groups, 0), dtype=np.int64), np.zeros(0, np.str_)
    return counts, counter.get_feature_names_out().astype(np.str_)


def class_tf_idf(counts: Any) -> np.ndarray:
    """tf log(1 + A / f) of the counts (groups, words) that are not 0, in the order of the rows."""
    (_, columns), tf = (entries := sp.coo_array(counts)).coords, entries.data
    size, f = entries.sum(axis=1), entries.sum(axis=0)
    return tf * np.log1p(size.sum() / max(1, np.count_nonzero(size)) / f[columns])


def telling_words(counts: Any, most: int) -> list[np.ndarray]:
    """For each of the groups with these counts (groups, words), the words that set it apart."""
    (rows, columns), tf = (entries := sp.coo_array(counts)).coords, entries.data
    size, f = entries.sum(axis=1), entries.sum(axis=0)
    outside = (f[columns] - tf) / np.maximum(size.sum() - size[rows], 1)
    apart = tf / np.maximum(size[rows], 1) >= APART * outside
    rows, columns, weight = rows[apart], columns[apart], class_tf_idf(entries)[apart]
    order = np.lexsort((columns, -weight, rows))
    ends = np.cumsum(np.bincount(rows, minlength=len(size)))[:-1]
    return [columns[group[:most]] for group in np.split(order, ends)]


def stored_words(texts: Sequence[str], parts: np.ndarray, n_parts: int) -> dict[str, np.ndarray]:
    """The counts by part of the words that may tell a cluster, merged or split; and of all others.

    These others are the first word, an empty one, so that the sums are those of all words.
    """
    counts, words = count_words(texts, parts, n_parts)
    least, most = STORED
    each = int(np.clip(CELLS // n_parts**2, least, most))
    pairs = sp.csr_array(counts[0::2] + counts[1::2])
    kept = np.unique(np.concatenate([*telling_words(counts, each), *telling_words(pairs, each)]))
    few = counts[:, kept].toarray()
    rest = counts.sum(axis=1) - few.sum(axis=1)
    short = [word[:LONGEST_WORD] for word in words[kept].tolist()]
    return {"word_counts": np.column_stack([rest, few]), "words": np.array(["", *short], np.str_)}


def excerpts(texts: Iterable[str]) -> np.ndarray:
    """Texts (T,) cut to what a page shows."""
    cut = (t if len(t) <= EXCERPT else t[: EXCERPT - 1] + "…" for t in texts)
    return np.array(list(cut), np.str_)


def words_of(details: Details, present: Sequence[int], most: int = 10) -> dict[int, list[str]]:
    """The words that set each of the present clusters apart, as far as they are stored."""
    counts = np.zeros((max(present) + 1, len(details.words)), np.int64)
    if counts.size:
        cluster = np.full(len(details.word_counts), -1)
        cluster[details.parts] = details.labels
        np.add.at(counts, cluster[cluster >= 0], details.word_counts[cluster >= 0])
    telling = telling_words(counts, most + 1)
    return {k: details.words[telling[k][telling[k] > 0][:most]].tolist() for k in present}


def suggested_name(words: Sequence[str]) -> str:
    """A name made of a cluster's words; empty where they make none."""
    name = ", ".join(words[:NAMING])
    return "" if name.isdigit() else name
