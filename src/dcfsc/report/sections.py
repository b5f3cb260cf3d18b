"""What each section of the page says: words, numbers and charts from a record and its details."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dcfsc.errors import without_folders
from dcfsc.report import charts
from dcfsc.report.details import DOUBTFUL, TYPICAL, Details
from dcfsc.report.profiles import profiles
from dcfsc.report.thumbnails import heat_map

HEAT = (43, 118, 170)
TABLE_LIMIT = 16  # classes or clusters up to which the confusion matrix is a table of numbers
LARGEST_CONFUSIONS = 8
SURE = 0.99  # a cluster whose every sample is as confident has no doubtful ones
PHASES = {"pretrain": "Pre-training (reconstruction)", "train": "Training"}


def summary(record: Mapping[str, Any], details: Details, present: Sequence[int]) -> dict[str, Any]:
    """Headline, tiles, and facts by group."""
    edited = not np.array_equal(details.labels, details.parts // 2)
    before = "; before merging and splitting" if edited else ""
    data, machine = record["data"], record.get("machine") or {}
    scores, timings = record.get("scores"), record.get("timings") or {}
    tiles = []
    if scores:
        tiles.append(
            ("error", f"{scores['error']:.2f} %", f"best matching of clusters to classes{before}")
        )
        tiles.append(("NMI", f"{scores['nmi']:.3f}", "normalized mutual information"))
        tiles.append(("ARI", f"{scores['ari']:.3f}", "Rand index adjusted for chance"))
    tiles.append(("confidence", f"{details.confidence.mean():.2f}", "mean over all samples"))
    if record.get("effective_dof") is not None:
        tiles.append(("degrees of freedom", f"{record['effective_dof']:.3g}", "effective, tr H"))
    if timings:
        tiles.append(("time", seconds(sum(timings.values())), machine.get("device", "")))
    shape = " \u00d7 ".join(map(str, data["shape"]))
    classes = data.get("classes")
    gpu = f" ({machine['gpu']})" if machine.get("gpu") else ""
    started = str(record.get("started", "")).replace("T", " ").split("+")[0]
    facts = [
        ("Data", f"{data['name']}: {data['n']:,} samples of {shape} ({data.get('dtype', '')})"),
        ("Labels", f"{classes} classes, used only to score" if classes else "none given"),
        ("Method", record["method"]),
        ("Clusters", f"{record['n_clusters']}{f', edited to {len(present)}' if edited else ''}"),
        ("Features", (record.get("features") or {}).get("name")),
        ("Seed", str(record.get("seed"))),
        ("Representation", record.get("representation")),
        ("Verdict", (record.get("verdict") or {}).get("words")),
        ("λ", f"{record['lam']:.6g}" if record.get("lam") is not None else None),
        ("Device", f"{machine.get('device', '')}{gpu}, {machine.get('threads', '?')} threads"),
        ("Started", f"{started} UTC"),
        ("Notes", data.get("notes")),
        ("Command", without_folders(record.get("command") or "")),
    ]
    return {
        "title": data["name"],
        "tiles": tiles,
        "facts": [(name, told) for name, told in facts if told],
        "parameters": [(k, _plain(v)) for k, v in record["parameters"].items()],
        "versions": list((record.get("versions") or {}).items()),
    }


def seconds(value: float) -> str:
    if value < 100:
        return f"{value:.1f} s"
    return f"{value / 60:.0f} min" if value < 5400 else f"{value / 3600:.1f} h"


def _plain(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 200 else text[:197] + "..."


def clusters(present: Sequence[int], details: Details) -> list[dict[str, Any]]:
    """A card for each cluster; members are positions in ``details.shown``."""
    found = []
    own = details.labels[details.shown]
    profile = profiles(details, max(present) + 1)
    for k in present:
        members = details.labels == k
        size = int(members.sum())
        stored = np.flatnonzero(own == k)
        doubtful = stored[details.role[stored] == DOUBTFUL]
        order = np.argsort(details.confidence[details.shown[doubtful]], kind="stable")
        card = {
            "label": k,
            "size": size,
            "confidence": float(details.confidence[members].mean()) if size else 0.0,
            "typical": _members(details, stored[details.role[stored] == TYPICAL]),
            "doubtful": _members(details, doubtful[order]),
            "doubt": size > 0 and float(details.confidence[members].min()) < SURE,
            "stored": len(stored),
            "class": None,
            "profile": profile[k],
        }
        if details.has_truth and size and details.best_class[k] >= 0:
            best = int(details.best_class[k])
            share = details.confusion[best, k] / size
            card["class"] = f"{details.class_names[best]}, {100 * share:.0f} % of it"
        found.append(card)
    return found


def _members(details: Details, positions: np.ndarray) -> list[dict[str, Any]]:
    samples = details.shown[positions]
    return [
        {"at": int(p), "sample": int(i), "confidence": float(details.confidence[i])}
        for p, i in zip(positions, samples, strict=True)
    ]


def affinity(details: Details) -> dict[str, Any]:
    """The ordered affinity as a picture, by the clusters of the fit."""
    blocks = details.blocks.astype(np.float64)
    positive = blocks[blocks > 0]
    top = float(np.quantile(positive, 0.9)) if len(positive) else 1.0
    sizes = np.bincount(details.parts // 2, minlength=len(details.coupling))
    picture = heat_map(np.sqrt(np.clip(blocks / max(top, 1e-300), 0.0, 1.0)), HEAT)
    title = "Affinity of all pairs of samples, ordered by cluster; clusters are blocks."
    return {
        "chart": charts.affinity_chart(picture, sizes.tolist(), title),
        "reduced": len(blocks) < len(details.labels),
        "blocks": len(blocks),
        "edited": not np.array_equal(details.labels, details.parts // 2),
    }


def spectrum(record: Mapping[str, Any], details: Details) -> dict[str, Any]:
    """Eigenvalues, and in words what ``suggest-k`` made of the data, if it was asked."""
    asked, suggestion = int(record["n_clusters"]), record.get("suggestion")
    first = None if suggestion is None else int(suggestion["k"])
    if first is None:
        words = (
            "The number of clusters was given. For what the data say about it, run "
            "dcfsc suggest-k on them."
        )
    elif first == asked:
        words = f"K = {asked} is the first candidate of dcfsc suggest-k."
    else:
        words = f"The first candidate of dcfsc suggest-k was K = {first}; {asked} were asked for."
    shown = first if first is not None and first < len(details.eigenvalues) else None
    title = f"{len(details.eigenvalues)} leading eigenvalues of the normalized affinity. {words}"
    return {
        "chart": charts.spectrum_chart(details.eigenvalues, asked, shown, title),
        "words": words,
        "values": [f"{v:.5f}" for v in details.eigenvalues],
    }


def losses(record: Mapping[str, Any]) -> list[dict[str, str]]:
    """A curve for each phase of the training; none for methods without one."""
    found = []
    rows = [row for row in record.get("history") or () if row.get("loss") is not None]
    for phase in dict.fromkeys(row.get("phase", "train") for row in rows):
        steps = [row["step"] for row in rows if row.get("phase", "train") == phase]
        values = [row["loss"] for row in rows if row.get("phase", "train") == phase]
        if len(values) < 2:
            continue
        name = PHASES.get(phase, phase)
        words = f"{name}: from {values[0]:.4g} to {values[-1]:.4g} in {len(values):,} steps."
        chart = charts.line_chart(
            steps,
            values,
            x_label="epoch" if phase == "pretrain" else "step",
            y_label="loss",
            title=words,
            log_y=min(values) > 0 and max(values) > 8 * min(values),
        )
        found.append({"chart": chart, "words": words})
    return found


def ridge(record: Mapping[str, Any], details: Details) -> dict[str, Any]:
    """The lambda path with the chosen point, and the leverages."""
    found: dict[str, Any] = {"path": [], "leverage": "", "words": ""}
    lam, dof = record.get("lam"), record.get("effective_dof")
    if len(details.path) and lam is not None:
        grid, dofs, errors = details.path.T
        at = int(np.abs(np.log(grid / lam)).argmin())
        found["words"] = f"λ = {lam:.4g} leaves {dofs[at]:.3g} effective degrees of freedom, "
        found["words"] += f"{dofs[at] / int(record['n_clusters']):.2g} a cluster."
        if np.isfinite(errors).all():
            least = int(errors.argmin())
            found["words"] += (
                f" Each sample is predicted from the others with {100 * errors[at]:.3g} % of the "
                f"energy left over; the least on this path is {100 * errors[least]:.3g} %, at "
                f"λ = {grid[least]:.3g}. Clusters are not found best where prediction is, so this "
                "is a point of reference, not a choice."
            )
        for values, label in (
            (dofs, "effective degrees of freedom"),
            (errors, "leave-one-out error, share of energy"),
        ):
            chart = charts.line_chart(
                grid,
                values,
                x_label="λ",
                y_label=label,
                title=f"{label} along λ; {values[at]:.4g} at the λ used",
                log_x=True,
                mark=(float(grid[at]), float(values[at]), f"{values[at]:.3g}"),
            )
            if chart:
                found["path"].append(chart)
    if len(details.leverage):
        total = float(details.leverage.sum()) if dof is None else dof
        found["leverage"] = charts.histogram(
            details.leverage,
            x_label="leverage h",
            y_label="samples",
            title=f"Leverages of the samples; they sum to {total:.4g}",
        )
    return found


def graph(details: Details) -> dict[str, Any]:
    """Connectivity in words, and the degrees."""
    isolated, pieces, aside = (int(v) for v in details.connectivity)
    n = len(details.labels)
    if pieces == 1:
        words = "The graph hangs together: every sample can be reached from every other."
    else:
        words = f"The graph falls into {pieces:,} pieces."
    if isolated:
        words += f" {isolated:,} of {n:,} samples have no neighbor at all."
    if aside:
        words += f" The spectral step set {aside:,} samples aside, too few together for a cluster."
    chart = charts.histogram(
        details.degrees, x_label="degree", y_label="samples", title="Degrees of the affinity graph"
    )
    certain = charts.histogram(
        details.confidence,
        x_label="confidence",
        y_label="samples",
        title=f"Confidence of the samples; mean {details.confidence.mean():.2f}",
    )
    return {"words": words, "degrees": chart, "confidence": certain}


def truth(details: Details, present: Sequence[int], titles: Sequence[str]) -> dict[str, Any] | None:
    """The confusion matrix, columns matched to rows, its largest entries, and the mistakes."""
    if not details.has_truth:
        return None
    M, best = details.confusion, details.best_class
    C, K = M.shape
    matched = {int(c): k for k, c in enumerate(best) if c >= 0}
    columns = [matched[c] for c in range(C) if c in matched]
    columns += [k for k in present if best[k] < 0]
    off = M.copy()
    for c, k in matched.items():
        off[c, k] = 0
    largest = np.argsort(-off, axis=None, kind="stable")[:LARGEST_CONFUSIONS]
    pairs = [(int(i) // K, int(i) % K) for i in largest if off.flat[i] > 0]
    rows = np.maximum(M.sum(axis=1, keepdims=True), 1)
    shares = M / rows
    wrong = best[details.labels] != details.truth
    stored = np.flatnonzero(wrong[details.shown])
    order = np.argsort(-details.confidence[details.shown[stored]], kind="stable")
    return {
        "columns": columns,
        "column_class": [
            str(details.class_names[best[k]]) if best[k] >= 0 else "" for k in columns
        ],
        "rows": [
            (str(details.class_names[c]), [(int(M[c, k]), float(shares[c, k])) for k in columns])
            for c in range(C)
        ],
        "table": max(C, len(columns)) <= TABLE_LIMIT,
        "picture": charts.confusion_chart(
            heat_map(np.sqrt(shares[:, columns]), HEAT),
            details.class_names.tolist(),
            [titles[k] for k in columns],
            f"Confusion matrix of {C} classes and {len(columns)} clusters; the diagonal is the "
            "best matching.",
        ),
        "confusions": [
            (str(details.class_names[c]), k, int(M[c, k]), 100 * float(shares[c, k]))
            for c, k in pairs
        ],
        "wrong": int(wrong.sum()),
        "mistakes": stored[order].tolist(),
    }
