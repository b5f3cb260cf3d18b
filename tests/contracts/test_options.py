"""Every option of the command line changes what it says, or is refused in one line that says why.

The options are those of the commands: a new one without an entry here fails. Every command is run
in a folder of its own, with the option and without, or with another value. What is compared is
named: the labels, the files, the text (numbers masked, as times are among them), or a file's bytes.
"""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest
from PIL import Image
from typer.main import get_command
from typer.testing import CliRunner

from dcfsc.cli import app
from dcfsc.io import synthetic

CPU = ("--device", "cpu")
K3 = ("-k", "3", *CPU)
FIT = ("fit", "table.npz", *K3, "--no-report", "--representation", "given")
PLAIN = ("fit", "table.npz", *K3, "--no-report")
DEEP = (*PLAIN, "--method", "dcfsc", "--steps", "2", "--pretrain-epochs", "1")
VIEWS = (*PLAIN, "--effort", "quick", "--steps", "2", "--batch-size", "8")
AGAIN = (*FIT, "--out", "run", "--overwrite")
SHOWN = ("fit", "shades", *K3, "--no-report", "--representation", "given")
SUGGEST = ("suggest-k", "table.npz", "--max-k", "4", *CPU)

# command and option: two commands, and what differs; a third word of a refusal in place of a second
CASES = {
    ("fit", "--clusters"): (FIT, (*FIT, "-k", "4"), "labels"),
    ("fit", "--method"): (PLAIN, (*PLAIN, "--method", "lsr"), "labels"),
    ("fit", "--out"): (FIT, (*FIT, "--out", "elsewhere"), "files"),
    ("fit", "--seed"): (DEEP, (*DEEP, "--seed", "1"), "labels"),
    ("fit", "--device"): (FIT, (*FIT, "--device", "cuda:99"), "device 'cuda:99' was asked for"),
    ("fit", "--lam"): (PLAIN, (*PLAIN, "--lam", "9"), "labels"),
    ("fit", "--subspace-dim"): (PLAIN, (*PLAIN, "--subspace-dim", "1"), "labels"),
    ("fit", "--representation"): (FIT, (*FIT, "--representation", "metric"), "labels"),
    ("fit", "--steps"): (DEEP, (*DEEP, "--steps", "30"), "labels"),
    ("fit", "--augmentations"): (VIEWS, (*VIEWS, "--augmentations", "fog"), "unknown augmentation"),
    ("fit", "--positives"): (DEEP, (*DEEP, "--positives", "2"), "has no option 'positives'"),
    ("fit", "--effort"): (VIEWS, (*VIEWS, "--effort", "much"), "unknown effort 'much'"),
    ("fit", "--affinity"): (FIT, (*FIT, "--affinity", "symmetric"), "labels"),
    ("fit", "--assign"): (FIT, (*FIT, "--assign", "cluster_qr"), "labels"),
    ("fit", "--features"): (PLAIN, (*PLAIN, "--features", "scattering"), "made from images"),
    ("fit", "--weights"): (DEEP, (*DEEP, "--weights", "no_such"), "no_such"),
    ("fit", "--network"): (DEEP, (*DEEP, "--network", "orl"), "takes samples of shape"),
    ("fit", "--pretrain-epochs"): (DEEP, (*DEEP, "--pretrain-epochs", "40"), "labels"),
    ("fit", "--learning-rate"): (DEEP, (*DEEP, "--learning-rate", "0.3"), "labels"),
    ("fit", "--batch-size"): (DEEP, (*DEEP, "--batch-size", "0"), "batch_size=0 is not allowed"),
    ("fit", "--text"): (FIT, (*FIT, "--text", "answer"), "text is for tables, and has no effect"),
    ("fit", "--labels"): (FIT, (*FIT, "--labels", "none"), "text"),
    ("fit", "--sample"): (FIT, (*FIT, "--sample", "40"), "labels"),
    ("fit", "--size"): (SHOWN, (*SHOWN, "--size", "4x4"), "labels"),
    ("fit", "--color"): (SHOWN, (*SHOWN, "--gray"), "text"),
    ("fit", "--page"): (SHOWN, (*SHOWN, "--page", "2"), "0.png: it has no page 2"),
    ("fit", "--channels"): (SHOWN, (*SHOWN, "--channels", "1,2,3,4"), "no channel 4"),
    ("fit", "--strict"): (
        ("fit", "broken", *SHOWN[2:]),
        ("fit", "broken", *SHOWN[2:], "--strict"),
        "2.png",
    ),
    ("fit", "--no-report"): (FIT, tuple(a for a in FIT if a != "--no-report"), "files"),
    ("fit", "--resume"): (
        (*FIT, "--out", "run", "--overwrite"),
        (*FIT, "--out", "run", "--resume"),
        "text",
    ),
    ("fit", "--overwrite"): (
        (*FIT, "--out", "run", "--overwrite"),
        (*FIT, "--out", "run"),
        "holds a finished run",
    ),
    ("fit", "--checkpoint-every"): (
        DEEP,
        (*FIT, "--method", "lsr", "--checkpoint-every", "5"),
        "the method 'lsr' has no option",
    ),
    ("fit", "--dist-timeout"): (FIT, (*FIT, "--dist-timeout", "9"), "is for many processes"),
    ("fit", "--fast"): (PLAIN, (*PLAIN, "--fast", "--affinity", "symmetric"), "labels"),
    ("fit", "--verbose"): (FIT, (*FIT, "--verbose"), "text"),
    ("fit", "--quiet"): (FIT, (*FIT, "--quiet"), "text"),
    ("fit", "--json"): (FIT, (*FIT, "--json"), "text"),
    ("suggest-k", "--max-k"): (SUGGEST, (*SUGGEST, "--max-k", "5"), "text"),
    ("suggest-k", "--method"): (SUGGEST, (*SUGGEST, "--method", "no"), "unknown method 'no'"),
    ("suggest-k", "--features"): (SUGGEST, (*SUGGEST, "--features", "scattering"), "from images"),
    ("suggest-k", "--subspace-dim"): (SUGGEST, (*SUGGEST, "--subspace-dim", "1"), "numbers"),
    ("suggest-k", "--weights"): (
        SUGGEST,
        (*SUGGEST, "--method", "dcfsc", "--weights", "no_such.safetensors"),
        "no_such.safetensors",
    ),
    ("suggest-k", "--sample"): (SUGGEST, (*SUGGEST, "--sample", "0"), "sample=0 is not allowed"),
    ("suggest-k", "--seed"): (SUGGEST, (*SUGGEST, "--seed", "-1"), "seed=-1 is not allowed"),
    ("suggest-k", "--device"): (SUGGEST, (*SUGGEST, "--device", "gpu"), "unknown device 'gpu'"),
    ("suggest-k", "--text"): (SUGGEST, (*SUGGEST, "--text", "answer"), "text is for tables"),
    ("suggest-k", "--size"): (SUGGEST, (*SUGGEST, "--size", "4x4"), "needs images"),
    ("suggest-k", "--color"): (SUGGEST, (*SUGGEST, "--gray"), "gray is for folders of images"),
    ("suggest-k", "--page"): (SUGGEST, (*SUGGEST, "--page", "2"), "page is for folders of images"),
    ("suggest-k", "--channels"): (SUGGEST, (*SUGGEST, "--channels", "1"), "channels is for"),
    ("suggest-k", "--strict"): (SUGGEST, (*SUGGEST, "--strict"), "strict is for"),
    ("suggest-k", "--json"): (SUGGEST, (*SUGGEST, "--json"), "text"),
}
GRID = ("fit", "grid.csv", *FIT[2:])
SUGGEST_GRID = ("suggest-k", "grid.csv", *SUGGEST[2:])
for command in (GRID, SUGGEST_GRID):
    gaps = (command[0], "gaps.csv", *command[2:])
    CASES |= {
        (command[0], "--columns"): (command, (*command, "--columns", "q*"), "no column 'q*'"),
        (command[0], "--ignore"): (command, (*command, "--ignore", "x1,no"), "no column 'no'"),
        (command[0], "--missing"): ((*gaps, "--missing", "median"), gaps, "1 missing or infinite"),
        (command[0], "--text"): (command, (*command, "--text", "x1"), "'x1' holds no texts"),
        (command[0], "--transpose"): (
            command,
            (*command, "--transpose", "--id", "name"),
            "id is for tables with samples in rows",
        ),
    }
CASES |= {
    ("fit", "--id"): (GRID, (*GRID, "--id", "name"), "labels"),
    ("suggest-k", "--id"): (SUGGEST_GRID, (*SUGGEST_GRID, "--id", "no"), "no column 'no'"),
    ("suggest-k", "--labels"): (SUGGEST, (*SUGGEST, "--labels", "no"), "no array 'no'"),
}
PREDICT = ("predict", "run", "table.npz", *CPU)
CASES |= {
    ("predict", "--out"): (PREDICT, (*PREDICT, "--out", "new.csv"), "files"),
    ("predict", "--overwrite"): (
        (*PREDICT, "--out", "mine.csv", "--overwrite"),
        (*PREDICT, "--out", "mine.csv"),
        "mine.csv exists",
    ),
    ("predict", "--device"): (PREDICT, (*PREDICT, "--device", "cuda:99"), "was asked for"),
    ("predict", "--labels"): (PREDICT, (*PREDICT, "--labels", "none"), "text"),
    ("predict", "--size"): (PREDICT, (*PREDICT, "--size", "4x4"), "needs images"),
    ("predict", "--color"): (PREDICT, (*PREDICT, "--color"), "color is for folders of images"),
    ("predict", "--to"): (PREDICT, (*PREDICT, "--to", "folders"), "no files of its own to sort"),
    ("predict", "--copy"): (PREDICT, (*PREDICT, "--copy"), "no effect without --to folders"),
    ("predict", "--strict"): (PREDICT, (*PREDICT, "--strict"), "strict is for"),
    ("predict", "--quiet"): (PREDICT, (*PREDICT, "--quiet"), "text"),
    ("predict", "--json"): (PREDICT, (*PREDICT, "--json"), "text"),
    ("report", "--data"): (("report", "run"), ("report", "run", "--data", "no_such"), "no_such"),
    ("report", "--out"): (("report", "run"), ("report", "run", "--out", "page.html"), "files"),
    ("report", "--map"): (("report", "run"), ("report", "run", "--map", "map.png"), "files"),
    ("report", "--overwrite"): (
        ("report", "run", "--out", "mine.csv", "--overwrite"),
        ("report", "run", "--out", "mine.csv"),
        "mine.csv exists",
    ),
    ("report", "--size"): (("report", "run"), ("report", "run", "--size", "4x4"), "are for --data"),
    ("report", "--color"): (("report", "run"), ("report", "run", "--gray"), "are for --data"),
    ("report", "--strict"): (
        ("report", "run"),
        ("report", "run", "--strict"),
        "are for --data",
    ),
    ("report", "--quiet"): (("report", "run"), ("report", "run", "--quiet"), "text"),
    ("edit", "--merge"): (("edit", "run"), ("edit", "run", "--merge", "0,1"), "text"),
    ("edit", "--split"): (("edit", "run"), ("edit", "run", "--split", "7"), "7"),
    ("edit", "--undo"): (("edit", "run"), ("edit", "run", "--undo"), "undo"),
    ("edit", "--quiet"): (("edit", "run"), ("edit", "run", "--quiet"), "text"),
    ("edit", "--json"): (("edit", "run"), ("edit", "run", "--json"), "text"),
    ("compare", "--out"): (
        ("compare", "run", "other"),
        ("compare", "run", "other", "--out", "page.html"),
        "files",
    ),
    ("compare", "--overwrite"): (
        ("compare", "run", "other", "--out", "mine.csv", "--overwrite"),
        ("compare", "run", "other", "--out", "mine.csv"),
        "mine.csv exists",
    ),
    ("compare", "--quiet"): (
        ("compare", "run", "other"),
        ("compare", "run", "other", "--quiet"),
        "text",
    ),
    ("compare", "--json"): (
        ("compare", "run", "other"),
        ("compare", "run", "other", "--json"),
        "text",
    ),
    ("export", "--to"): (("export", "run", "--to", "csv"), ("export", "run", "--to", "x"), "kind"),
    ("export", "--out"): (
        ("export", "run", "--to", "csv"),
        ("export", "run", "--to", "csv", "--out", "new.csv"),
        "files",
    ),
    ("export", "--copy"): (
        ("export", "run", "--to", "csv"),
        ("export", "run", "--to", "csv", "--copy"),
        "--copy is for folders, and has no effect on csv",
    ),
    ("export", "--data"): (
        ("export", "run", "--to", "csv"),
        ("export", "run", "--to", "csv", "--data", "."),
        "--data is for samples that come from files",
    ),
    ("export", "--absolute-paths"): (
        ("export", "run", "--to", "csv"),
        ("export", "run", "--to", "csv", "--absolute-paths"),
        "--absolute-paths is for samples that come from files",
    ),
    ("report", "--absolute-paths"): (
        ("report", "run"),
        ("report", "run", "--absolute-paths"),
        "--absolute-paths is for samples that come from files",
    ),
    ("export", "--overwrite"): (
        ("export", "run", "--to", "csv", "--out", "mine.csv", "--overwrite"),
        ("export", "run", "--to", "csv", "--out", "mine.csv"),
        "mine.csv exists",
    ),
    ("export", "--quiet"): (
        ("export", "run", "--to", "csv"),
        ("export", "run", "--to", "csv", "--quiet"),
        "text",
    ),
}
EFFECTS = {"labels", "files", "text", "numbers"}
SEEN = {}  # what a command left, by its arguments and the effect


def dcfsc(*args):
    return CliRunner().invoke(app, list(args))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A table, images in color, a folder with a broken one, and two finished runs."""
    place = tmp_path_factory.mktemp("prepared")
    data = synthetic(60, 3, 2, 8, noise=0.3, random_state=0)
    np.savez(place / "table.npz", X=data.X, y=data.y)
    header = "id,name," + ",".join(f"x{j}" for j in range(8)) + "\n"
    rows = [f"s{i},n{i}," + ",".join(map(str, x)) for i, x in enumerate(data.X.tolist())]
    (place / "grid.csv").write_text(header + "\n".join(rows))
    (place / "gaps.csv").write_text(header + "\n".join([*rows, "s60,n60,,1,2,3,4,5,6,7"]))
    rng = np.random.default_rng(0)
    for folder in ("shades", "broken"):
        (place / folder).mkdir()
        for i in range(20):
            pixels = rng.integers(0, 256, (8, 8, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(place / folder / f"{i}.png")
    (place / "broken" / "2.png").write_bytes(b"no picture")
    (place / "mine.csv").write_text("mine")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for folder in ("run", "other"):
            command = (*FIT[:6], *FIT[7:], "--out", folder)
            assert dcfsc(*command).exit_code == 0
    return place


def seen(args, effect, prepared, place, monkeypatch):
    """What a command leaves, as far as the effect goes."""
    shutil.copytree(prepared, place, symlinks=True)
    monkeypatch.chdir(place)
    result = dcfsc(*args)
    assert result.exit_code == 0, result.output
    if effect == "files":
        return sorted(str(p.relative_to(place)) for p in place.rglob("*") if p.suffix != ".json")
    if effect == "labels":
        (labels,) = place.glob("runs/*/labels.csv")
        return labels.read_bytes()
    if effect == "numbers":
        return result.stdout
    return re.sub(r"[\d.]+", "#", result.stdout + result.stderr)


def test_every_option_has_a_case():
    commands = get_command(app).commands
    options = {
        (name, option.opts[0])
        for name, command in commands.items()
        if not command.hidden
        for option in command.params
        if option.opts[0].startswith("--")
    }
    assert options == CASES.keys()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("command", "option"), CASES)
def test_an_option_has_an_effect_or_is_refused(
    command, option, prepared, tmp_path, monkeypatch, record_property
):
    one, two, effect = CASES[command, option]
    assert one[0] == two[0] == command
    refused = effect not in EFFECTS
    record_property("parameters", (2, int(refused)))
    key = one, "text" if refused else effect
    if key not in SEEN:
        SEEN[key] = seen(*key, prepared, tmp_path / "one", monkeypatch)
    if not refused:
        assert SEEN[key] != seen(two, effect, prepared, tmp_path / "two", monkeypatch)
        return
    shutil.copytree(prepared, tmp_path / "two", symlinks=True)
    monkeypatch.chdir(tmp_path / "two")
    result = dcfsc(*two)
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert effect in line


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (
            (*PLAIN, "--fast", "--method", "ssc"),
            "--fast is for the method 'closed-form'; ",
        ),
        (
            (*FIT, "--fast", "--assign", "kmeans"),
            "--fast has no effect beside --representation and --assign",
        ),
        ((*FIT, "--gray"), "gray is for folders of images, and has no effect on table.npz"),
        ((*FIT, "--strict"), "strict is for folders of images"),
        ((*SHOWN, "--page", "x"), "page is 'x'; give a number, counted from 1, or all"),
        ((*SHOWN, "--channels", "1,,2"), "--channels takes numbers, counted from 1, as in 1,3"),
        ((*SHOWN, "--channels", "1,1"), "give different numbers"),
        ((*SHOWN, "--channels", "1", "--gray"), "gray has no effect where channels are read"),
        ((*PREDICT, "--to", "csv"), "unknown kind of output 'csv'"),
        ((*FIT, "--seed", "-1"), "seed=-1 is not allowed: an integer of at least 0"),
        ((*DEEP, "--steps", "-1"), "steps=-1 is not allowed: an integer of at least 0"),
        ((*FIT, "--lam", "none"), "lam='none' is not allowed: a number"),
        ((*FIT, "--assign", "kmean"), "unknown assign 'kmean'. Did you mean 'kmeans'?"),
        (
            (*VIEWS, "--pretrain-epochs", "3"),
            "has no option 'pretrain-epochs'; it belongs to dcfsc, dsc",
        ),
    ],
)
def test_a_refusal_is_one_line_that_says_why(args, said, prepared, monkeypatch, tmp_path):
    shutil.copy(prepared / "table.npz", tmp_path)
    shutil.copytree(prepared / "shades", tmp_path / "shades")
    monkeypatch.chdir(tmp_path)
    result = dcfsc(*args)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert said in line
    assert sorted(p.name for p in tmp_path.iterdir()) == ["shades", "table.npz"]
