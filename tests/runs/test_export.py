"""Exports of a run, and edits of its clusters, from a folder of images to each kind of output."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from running import fit_run

from dcfsc.errors import InputError
from dcfsc.io import Dataset, load
from dcfsc.report import read_details
from dcfsc.runs.editing import edit_run
from dcfsc.runs.edits import Edits, edited_details, edited_labels, read_edits
from dcfsc.runs.export import export_run, read_samples
from dcfsc.runs.folder import Run, read_run
from dcfsc.runs.folders import folder_names
from dcfsc.runs.life import EDITS
from dcfsc.runs.prediction import predict_run
from dcfsc.runs.trust import remember

OPTIONS = {"n_clusters": 3, "random_state": 0, "device": "cpu", "representation": "given"}


def write_images(folder: Path) -> None:
    """Twelve colored pictures of each of three kinds; some share their names."""
    rng = np.random.default_rng(0)
    for kind, shape in {"across": (16, 1), "down": (1, 16), "both": (16, 16)}.items():
        (folder / kind).mkdir(parents=True)
        basis = rng.integers(0, 200, (2, *shape, 1))
        for i in range(12):
            pixels = np.tensordot(rng.dirichlet([1, 1]), basis, 1) * [1.0, 0.5, 0.2]
            noisy = np.broadcast_to(pixels, (16, 16, 3)) + rng.integers(0, 12, (16, 16, 3))
            Image.fromarray(noisy.astype(np.uint8)).save(folder / kind / f"{i}.png")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    write_images(folder / "=pictures")
    return folder


@pytest.fixture(scope="module")
def fitted(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on relative paths, from another working directory than that of the tests."""
    folder = tmp_path_factory.mktemp("fitted") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(photos)
        fit_run(load("=pictures", labels="folders"), "closed-form", OPTIONS, folder, report=True)
    return folder


@pytest.fixture
def run(fitted: Path, tmp_path: Path) -> Run:
    return read_run(shutil.copytree(fitted, tmp_path / "run"))


def rows(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# Folders ------------------------------------------------------------------------------------


def listed(folder: Path) -> dict[str, int]:
    return {p.name: len(os.listdir(p)) for p in sorted(folder.iterdir()) if p.is_dir()}


def test_folders_link_to_every_file_once(run: Run, photos: Path, tmp_path: Path) -> None:
    target = export_run(run.folder, "folders")
    assert target == tmp_path / "run-clusters"
    sizes = np.bincount(run.labels).tolist()
    assert listed(target) == {f"cluster-{k}": n for k, n in enumerate(sizes)}
    links = [p for p in target.rglob("*") if p.is_symlink()]
    linked = sorted(os.readlink(p) for p in links)
    assert linked == sorted(str(p) for p in (photos / "=pictures").rglob("*.png"))
    data = [row["path"] for row in rows(run.folder / "labels.csv")]
    assert data[0] == "across/0.png"
    for link in links:
        sample = next(i for i, path in enumerate(linked_paths(run)) if path == os.readlink(link))
        assert link.parent.name == f"cluster-{run.labels[sample]}"
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".part")]


def linked_paths(run: Run) -> list[str]:
    paths = read_samples(run).paths
    assert paths is not None
    return paths


def test_folders_of_copies_have_the_names_that_were_given(run: Run, tmp_path: Path) -> None:
    edit_run(run.folder, {"0": "a/b: c", "1": "two"})
    target = export_run(run.folder, "folders", tmp_path / "out", copy=True)
    assert set(listed(target)) == {"a_b_ c", "two", "cluster-2"}
    files = [p for p in target.rglob("*.png") if p.is_file()]
    assert len(files) == 36
    assert not any(p.is_symlink() for p in files)
    Image.open(files[0]).verify()


def test_names_that_are_one_on_disk_are_told_apart() -> None:
    edits = Edits(4).extended({"0": "Cat", "1": "cat", "2": "..."}, [], [])
    assert folder_names(edits) == {0: "Cat-0", 1: "cat-1", 2: "cluster-2", 3: "cluster-3"}


def test_the_export_of_another_run_is_replaced_only_when_asked(run: Run, tmp_path: Path) -> None:
    target = export_run(run.folder, "folders", tmp_path / "out")
    (target / "mine.txt").write_text("kept")
    edit_run(run.folder, {}, [["0", "1"]])
    export_run(run.folder, "folders", target)
    assert (target / "mine.txt").read_text() == "kept"
    assert len(listed(target)) == 2
    shutil.copytree(run.folder, tmp_path / "other")
    record = json.loads((run.folder / "run.json").read_text())
    (tmp_path / "other" / "run.json").write_text(json.dumps({**record, "started": "later"}))
    remember(tmp_path / "other" / "run.json")
    edit_run(tmp_path / "other", {}, undo=True)
    with pytest.raises(InputError, match="holds an earlier export; add --overwrite"):
        export_run(tmp_path / "other", "folders", target)
    export_run(tmp_path / "other", "folders", target, overwrite=True)
    assert (target / "mine.txt").read_text() == "kept"
    assert len(listed(target)) == 3


def test_two_clusters_swap_their_names_in_one_command(run: Run) -> None:
    edit_run(run.folder, {"0": "a", "1": "b"})
    assert edit_run(run.folder, {"0": "b", "1": "a"}).names == {0: "b", 1: "a"}
    assert edit_run(run.folder, {"a": "b", "b": "a"}).names == {0: "a", 1: "b"}
    with pytest.raises(InputError, match="clusters 0 and 2 cannot both have the name 'a'"):
        edit_run(run.folder, {"2": "a"})
    assert read_edits(run).names == {0: "a", 1: "b"}


def test_files_that_have_gone_are_named(photos: Path, tmp_path: Path) -> None:
    write_images(tmp_path / "pictures")
    data = load(tmp_path / "pictures")
    run = fit_run(data, "closed-form", OPTIONS, tmp_path / "run")
    (tmp_path / "pictures" / "down" / "3.png").unlink()
    with pytest.raises(InputError, match=r"1 of 36 files cannot be found.*3\.png"):
        export_run(run.folder, "folders")
    assert not (tmp_path / "run-clusters").exists()


def test_samples_without_files_are_refused_as_folders(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(30, 5))
    run = fit_run(Dataset("table", X), "closed-form", OPTIONS, tmp_path / "run")
    with pytest.raises(InputError, match="export to csv or parquet"):
        export_run(run.folder, "folders")
    with pytest.raises(InputError, match="kind of export 'excel'"):
        export_run(run.folder, "excel")


# Tables -------------------------------------------------------------------------------------


def test_csv_has_the_names_and_the_confidence(run: Run) -> None:
    edit_run(run.folder, {"1": "=two"})
    table = rows(export_run(run.folder, "csv"))
    assert list(table[0]) == [
        *("index", "path", "cluster", "name", "confidence", "next_best", "true_label")
    ]
    fitted = rows(run.folder / "labels.csv")
    for row, before in zip(table, fitted, strict=True):
        assert row["cluster"] == before["label"]
        assert row["name"] == {"1": "'=two"}.get(row["cluster"], row["cluster"])
        assert row["confidence"] == before["confidence"]
        assert row["next_best"] == before["next_best"]
        assert row["path"] == before["path"]


def test_parquet_has_what_viewers_need(run: Run, photos: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    edit_run(run.folder, {"0": "zebras"})
    table = pq.read_table(export_run(run.folder, "parquet"))
    assert table.column_names == [
        *("index", "path", "thumbnail", "x", "y", "cluster", "name", "confidence", "next_best"),
        *("true_label", "neighbors"),
    ]
    content = table.to_pydict()
    details = read_details(run.folder / "details.npz")
    assert content["index"] == list(range(36))
    assert content["cluster"] == run.labels.tolist()
    assert content["name"] == ["zebras" if k == 0 else str(k) for k in run.labels]
    np.testing.assert_allclose(np.column_stack([content["x"], content["y"]]), details.view)
    np.testing.assert_allclose(content["confidence"], details.confidence)
    for i, near in enumerate(content["neighbors"]):
        assert near["ids"] == [j for j in details.neighbors[i].tolist() if j >= 0]
        assert near["distances"] == sorted(near["distances"])
        assert len(near["ids"]) == len(near["distances"]) > 0
        assert 0 <= near["distances"][0] <= near["distances"][-1] <= 1
    for path, thumbnail in zip(content["path"], content["thumbnail"], strict=True):
        image = np.asarray(Image.open(io.BytesIO(thumbnail)))
        np.testing.assert_array_equal(image, np.asarray(Image.open(photos / "=pictures" / path)))


def test_parquet_of_arrays_has_the_pictures_that_are_stored(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    X = np.random.default_rng(0).integers(0, 256, (30, 6, 5), dtype=np.uint8)
    run = fit_run(Dataset("noise", X), "closed-form", OPTIONS, tmp_path / "run", report=True)
    content = pq.read_table(export_run(run.folder, "parquet")).to_pydict()
    assert "path" not in content
    images = [np.asarray(Image.open(io.BytesIO(t))) for t in content["thumbnail"]]
    np.testing.assert_array_equal(images, X)


def test_thumbnails_stand_upright(tmp_path: Path) -> None:
    """A camera stores which side is up beside the pixels."""
    pq = pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    (tmp_path / "photos").mkdir()
    upright = {}
    for i, (size, kind) in enumerate([((20, 12), "png"), ((400, 240), "jpg")] * 3):
        pixels = np.zeros((size[1], size[0], 3), np.uint8)
        pixels[:, : size[0] // 2] = rng.integers(128, 256, 3)
        exif = Image.Exif()
        exif[0x0112] = 6  # a quarter turn clockwise makes it upright
        Image.fromarray(pixels).save(tmp_path / "photos" / f"{i}.{kind}", exif=exif)
        upright[f"{i}.{kind}"] = np.rot90(pixels, -1)
    options = {**OPTIONS, "n_clusters": 2}
    run = fit_run(load(tmp_path / "photos"), "closed-form", options, tmp_path / "run", report=True)
    content = pq.read_table(export_run(run.folder, "parquet")).to_pydict()
    for path, thumbnail in zip(content["path"], content["thumbnail"], strict=True):
        image = np.asarray(Image.open(io.BytesIO(thumbnail)), np.float64)
        expected = upright[path].astype(np.float64)
        assert image.shape[0] > image.shape[1]
        if path.endswith("png"):
            np.testing.assert_array_equal(image, expected)
        half = len(image) // 2
        for part, same in ((image[: half - 2], expected[0, 0]), (image[half + 2 :], 0.0)):
            assert np.abs(part - same).max() <= 12  # a JPEG is not exact


def test_parquet_needs_the_details(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(30, 5))
    run = fit_run(Dataset("table", X), "closed-form", OPTIONS, tmp_path / "run")
    with pytest.raises(InputError, match=r"no details\.npz"):
        export_run(run.folder, "parquet")
    assert not (run.folder / "export.parquet").exists()


# Edits --------------------------------------------------------------------------------------


def test_clusters_are_named_merged_split_and_restored(run: Run) -> None:
    edits = edit_run(run.folder, {"2": "rest"}, splits=["1"])
    assert edits.clusters == [0, 1, 2, 3]
    details = read_details(run.folder / "details.npz")
    second = (details.parts == 3).nonzero()[0]  # the second half of cluster 1
    assert 0 < len(second) < (run.labels == 1).sum()
    labels = edited_labels(run, edits)
    assert np.array_equal(labels, np.where(np.isin(np.arange(36), second), 3, run.labels))
    edits = edit_run(run.folder, {"rest": "the rest"}, merges=[["rest", "0"]])
    assert edits.clusters == [1, 2, 3]
    assert edits.names == {2: "the rest"}
    labels = edited_labels(run, edits)
    assert np.array_equal(labels == 2, np.isin(run.labels, [0, 2]))
    assert np.array_equal(read_run(run.folder).labels, run.labels)  # the fit's stay
    assert edit_run(run.folder, {}, undo=True).clusters == [0, 1, 2, 3]
    assert edit_run(run.folder, {}, undo=True) == Edits(3)
    with pytest.raises(InputError, match="no edit to undo"):
        edit_run(run.folder, {}, undo=True)


def test_what_is_so_already_is_no_edit(run: Run) -> None:
    first = edit_run(run.folder, {"0": "a"}, [["1", "2"]], ["0"])
    written = (run.folder / EDITS).stat().st_mtime_ns
    assert edit_run(run.folder, {"0": "a"}, [["1", "2"]], ["0"]) == first
    assert (run.folder / EDITS).stat().st_mtime_ns == written
    assert len(first.commands) == 1


def test_merging_adds_the_probabilities(run: Run) -> None:
    before = read_details(run.folder / "details.npz")
    doubt = np.random.default_rng(0).dirichlet([3, 2, 1], 36)
    before = replace(before, probabilities=doubt.astype(np.float32))
    after = edited_details(before, edit_run(run.folder, {}, [["0", "1"]]))
    p = np.zeros((36, 3))
    np.put_along_axis(p, before.clusters, before.probabilities, axis=1)
    joined = np.column_stack([p[:, 0] + p[:, 1], np.zeros(36), p[:, 2]])
    np.testing.assert_allclose(after.confidence, joined[np.arange(36), after.labels], rtol=1e-5)
    assert np.array_equal(after.next_best, np.where(after.labels == 2, 0, 2))
    assert after.confusion[:, 1].sum() == 0
    assert after.confusion.sum() == 36


def test_names_may_be_swapped_in_one_command(run: Run) -> None:
    first = edit_run(run.folder, {"0": "a", "1": "b"})
    swapped = edit_run(run.folder, {"a": "b", "b": "a"})
    assert swapped.names == {0: "b", 1: "a"}
    assert read_edits(run) == swapped
    assert read_edits(run).names == {0: "b", 1: "a"}
    with pytest.raises(InputError, match="clusters 0 and 2 cannot both have the name 'b'; give"):
        edit_run(run.folder, {"2": "b"})
    with pytest.raises(InputError, match="named twice, by its number and by its name"):
        edit_run(run.folder, {"0": "x", "b": "y"})
    assert read_edits(run) == swapped
    assert edit_run(run.folder, {}, undo=True) == first
    assert edit_run(run.folder, {"0": "b", "1": "c"}).names == {0: "b", 1: "c"}


def test_clusters_csv_has_the_clusters_as_edited(run: Run) -> None:
    fitted = (run.folder / "clusters.csv").read_bytes()
    table, labels = rows(run.folder / "clusters.csv"), rows(run.folder / "labels.csv")
    assert list(table[0]) == ["id", "cluster", "name", "confidence", "next_best"]
    assert [row["cluster"] for row in table] == [row["label"] for row in labels]
    assert [row["id"] for row in table] == [row.get("path", row["index"]) for row in labels]
    for name in ("confidence", "next_best"):
        assert [row[name] for row in table] == [row[name] for row in labels]
    edits = edit_run(run.folder, {"0": "=a"}, [["1", "2"]], ["0"])
    present = edited_labels(run, edits)
    table = rows(run.folder / "clusters.csv")
    assert [row["cluster"] for row in table] == [str(k) for k in present]
    names = {0: "'=a", 1: "1", 3: "3"}
    assert [row["name"] for row in table] == [names[k] for k in present]
    assert {row["next_best"] for row in table} <= {"-1", "0", "1"}
    assert (run.folder / "labels.csv").read_bytes() == (run.file("labels.csv")).read_bytes()
    edit_run(run.folder, {}, undo=True)
    assert (run.folder / "clusters.csv").read_bytes() == fitted


@pytest.mark.parametrize(
    ("names", "merges", "splits", "message"),
    [
        ({"7": "x"}, [], [], "no cluster '7'; there are 0, 1, 2"),
        ({"0": "x", "1": "x"}, [], [], "0 and 1 cannot both have the name 'x'"),
        ({"0": "12"}, [], [], "'12' cannot be given: it is a number"),
        ({"0": " "}, [], [], "'' cannot name"),
        ({"0": "a\nb"}, [], [], "cannot name"),
        ({}, [["0", "x"]], [], "no cluster 'x'"),
        ({}, [], ["1", "3"], "already half of a fitted cluster"),
    ],
)
def test_edits_that_cannot_be(run: Run, names, merges, splits, message) -> None:
    with pytest.raises(InputError, match=message) as refusal:
        edit_run(run.folder, names, merges, splits)
    assert "\n" not in str(refusal.value)
    assert not (run.folder / EDITS).exists()


def test_a_merged_cluster_is_not_split(run: Run) -> None:
    edit_run(run.folder, {}, [["0", "1"]])
    with pytest.raises(InputError, match="cluster 0 was merged from several; undo that"):
        edit_run(run.folder, {}, splits=["0"])


@pytest.mark.parametrize(
    ("content", "where"),
    [
        ("", "as a whole"),
        ("[" * 100_000, "as a whole"),
        ("[]", "in dcfsc_edits"),
        ('{"dcfsc_edits": true}', "in dcfsc_edits"),
        ('{"dcfsc_edits": "1"}', "in dcfsc_edits"),
        ('{"dcfsc_edits": -1}', "in dcfsc_edits"),
        ('{"dcfsc_edits": 1}', "in commands"),
        ('{"dcfsc_edits": 1, "commands": [[], 1]}', "in commands"),
        ([{"eat": [1, 2]}], "in commands[0][0]: {'eat': [1, 2]}"),
        ([{"name": [0, "x"], "merge": [0, 1]}], "in commands[0][0]"),
        ([{"name": ["a", "b"]}], "in commands[0][0]"),
        ([{"name": [True, "b"]}], "in commands[0][0]"),
        ([{"name": [5, "b"]}], "in commands[0][0]"),
        ([{"name": [0, 1]}], "in commands[0][0]"),
        ([{"name": [0, "a\nb"]}], "in commands[0][0]"),
        ([{"name": [0, "a", "b"]}], "in commands[0][0]"),
        ([{"merge": []}], "in commands[0][0]: {'merge': []}"),
        ([{"merge": "01"}], "in commands[0][0]"),
        ([{"merge": [0, -1]}], "in commands[0][0]: {'merge': [0, -1]}"),
        ([{"merge": [0, 1]}, {"merge": [1, 0]}], "in commands[0][1]: {'merge': [1, 0]}"),
        ([{"merge": [0, 0]}], "in commands[0][0]"),
        ([{"merge": [0, [1]]}], "in commands[0][0]"),
        ([{"merge": [0, 1.0]}], "in commands[0][0]"),
        ([{"split": [0, 10**9]}], "in commands[0][0]: {'split': [0, 1000000000]}"),
        ([{"split": [0, 10**30]}], "in commands[0][0]"),
        ([{"split": [-1, 3]}], "in commands[0][0]"),
        ([{"split": [0, 3]}, {"split": [3, 4]}], "in commands[0][1]: {'split': [3, 4]}"),
    ],
)
def test_edits_that_no_command_wrote_are_refused_in_one_line(run: Run, content, where) -> None:
    if isinstance(content, list):
        content = json.dumps({"dcfsc_edits": 1, "commands": [content]})
    (run.folder / EDITS).write_text(content)
    with pytest.raises(InputError) as refusal:
        read_edits(run)
    assert f"edits.json is damaged {where}" in str(refusal.value)
    assert str(refusal.value).endswith("; delete it to return to the fitted clusters.")


def test_edits_of_a_great_size_are_not_read(run: Run) -> None:
    with open(run.folder / EDITS, "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(InputError, match=r"edits\.json is damaged as a whole; delete"):
        read_edits(run)


def test_edits_of_a_later_version_ask_for_an_upgrade(run: Run) -> None:
    (run.folder / EDITS).write_text(json.dumps({"dcfsc_edits": 9, "commands": []}))
    with pytest.raises(InputError, match="upgrade"):
        read_edits(run)


@pytest.mark.filterwarnings("ignore:the edits of the earlier run are kept")
def test_a_fit_that_replaces_the_run_keeps_its_edits_and_exports(run: Run, photos: Path) -> None:
    edit_run(run.folder, {"0": "zebras"})
    export_run(run.folder, "csv")
    fit_run(load(photos / "=pictures"), "closed-form", OPTIONS, run.folder, overwrite=True)
    assert sorted(os.listdir(run.folder)) == [
        *(".dcfsc.json", "clusters.csv", "edits.1.json", "export.csv"),
        *("labels.csv", "model.safetensors", "run.json"),
    ]


def test_predictions_have_the_clusters_as_edited(run: Run, photos: Path) -> None:
    edits = edit_run(run.folder, {"0": "zebras"}, [["0", "2"]], ["1"])
    data = load(photos / "=pictures")
    labels, _ = predict_run(run.folder, data, device="cpu")
    assert np.array_equal(labels, edited_labels(run, edits))
    table = rows(run.folder / "predictions.csv")
    assert [row["label"] for row in table] == [str(k) for k in labels]
    assert [row["name"] for row in table] == [edits.title(k) for k in labels]
    assert all(row["next_best"] in {"0", "1", "3"} - {row["label"]} for row in table)
    assert all(0.3 < float(row["confidence"]) <= 1 for row in table)
