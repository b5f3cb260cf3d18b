"""Every code block of README.md, docs/ and research/ runs, in order, page by page.

Python blocks of a page share a namespace and a temporary folder with small inputs in it. In console
blocks the ``dcfsc`` commands run in this process; other commands are only checked to exist. A block
under ``<!-- not run: reason -->`` is left out.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from markdown_it import MarkdownIt
from PIL import Image
from typer.testing import CliRunner

import dcfsc
import dcfsc.estimators.deep
import dcfsc.io
from dcfsc.cli import app
from dcfsc.estimators import encoder_features
from dcfsc.estimators.registry import METHODS
from dcfsc.features.encoders import InputImages, TorchEncoder

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    *(p for p in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in p.parts),
    *sorted((ROOT / "research").rglob("*.md")),
]
MARKDOWN = MarkdownIt("commonmark").enable("table")
NOT_RUN = re.compile(r"<!--\s*not run:?\s*(.*?)\s*-->")
LANGUAGES = {"python", "console", "text", "{toctree}", "{eval-rst}", "{cli-reference}"}
by_page = pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))


def blocks(page: Path) -> Iterator[tuple[str, str, int, str | None]]:
    """Language, content, line, and what the comment above says about not running it."""
    comment = None
    for token in MARKDOWN.parse(page.read_text(encoding="utf-8")):
        if token.type == "html_block":
            match = NOT_RUN.search(token.content)
            comment = match[1] if match else None
            continue
        if token.type == "fence":
            assert token.map is not None
            yield token.info.strip(), token.content, token.map[0] + 1, comment
        comment = None


def commands(content: str) -> list[list[str]]:
    """The words of each command; continued lines are joined, prompts and comments dropped."""
    found = []
    for line in content.replace("\\\n", " ").splitlines():
        for command in re.split(r"\s&&\s", line):
            words = shlex.split(command.removeprefix("$ "), comments=True)
            if words:
                found.append(words)
    return found


def small_encoder(name: str | None, device: torch.device) -> TorchEncoder:
    """In place of a pretrained network, the means of the parts of an image."""
    pool = torch.nn.Sequential(torch.nn.AvgPool2d(4), torch.nn.Flatten())
    return TorchEncoder(str(name), pool, InputImages((16, 16)), device)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the blocks run: three kinds of small pictures, features, answers, small digits."""
    rng = np.random.default_rng(0)
    counts = {"my_images": 8, "new_images": 2, "my_photos": 8, "new_photos": 2}
    for name, count in counts.items():
        for kind, shape in {"across": (16, 1), "down": (1, 16), "plain": (1, 1)}.items():
            (tmp_path / name / kind).mkdir(parents=True)
            for i in range(count):
                pixels = np.broadcast_to(rng.integers(0, 200, shape), (16, 16))
                noisy = pixels + rng.integers(0, 40, (16, 16))
                Image.fromarray(noisy.astype(np.uint8)).save(tmp_path / name / kind / f"{i}.png")
    monkeypatch.setattr(encoder_features, "open_encoder", small_encoder)
    monkeypatch.setattr(encoder_features, "default_place", lambda: tmp_path / "cache")
    data = dcfsc.io.synthetic(60, 3, 3, 20, random_state=0)
    np.save(tmp_path / "features.npy", data.X)
    pd.DataFrame(data.X[:, :6]).add_prefix("x").to_excel(tmp_path / "measurements.xlsx")
    (tmp_path / "embeddings").mkdir()
    for i in range(2):
        np.save(tmp_path / "embeddings" / f"{i}.npy", data.X[30 * i : 30 * (i + 1)])
    answers = ["The bus was late.", "The soup was cold.", "The staff were kind.", None] * 8
    ids = [f"p{i}" for i in range(32)]
    pd.DataFrame({"id": ids, "answer": answers}).to_csv(tmp_path / "answers.csv", index=False)
    pd.DataFrame({"answer": answers[:3], "id": "abc"}).to_csv(tmp_path / "new_answers.csv")
    load = dcfsc.io.load

    def few(spec: Any, **options: Any) -> Any:
        full = load(spec, **options)
        if len(full) <= 200:
            return full
        y = None if full.y is None else full.y[:200]
        return replace(full, X=full.X[:200], y=y)

    monkeypatch.setattr(dcfsc.io, "load", few)
    monkeypatch.setattr(dcfsc.estimators.deep, "PRETRAIN_EPOCHS", 2)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@by_page
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_code_blocks_run(page: Path, folder: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for language, content, line, not_run in blocks(page):
        place = f"{page.relative_to(ROOT)}:{line}"
        assert language in LANGUAGES, f"{place}: a block in {language or 'no language'}"
        if not_run is not None:
            assert len(not_run) > 5, f"{place}: says 'not run' without a reason"
        elif language == "python":
            # The first line is the page's own, so that a traceback points into it.
            # without this file's __future__ imports, as a reader would run it
            code = compile("\n" * line + content, str(page), "exec", dont_inherit=True)
            exec(code, namespace)
        elif language == "console":
            for words in commands(content):
                run_command(words, place)


def run_command(words: list[str], place: str) -> None:
    program, *arguments = words
    if program in ("dcfsc", ".venv/bin/dcfsc"):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, f"{place}: {shlex.join(words)}: {result.output}"
    elif program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert set(arguments) <= set(targets), f"{place}: no such target: {shlex.join(words)}"
    elif program == "pip":
        given = [a for a in arguments if a.endswith(".txt")]
        assert all((ROOT / file).is_file() for file in given), f"{place}: {shlex.join(words)}"
    else:
        assert program in ("git", "cd"), f"{place}: {program} cannot be run here; say 'not run'"


def test_three_commands_of_the_readme_end_in_a_report(folder: Path) -> None:
    three = next(content for _, content, *_ in blocks(PAGES[0]) if content.startswith("dcfsc "))
    assert len(commands(three)) == 3
    for words in commands(three):
        run_command(words, "README.md")
    assert (folder / "runs" / "my_images-closed-form" / "report.html").is_file()


def test_readme_is_short() -> None:
    assert len(PAGES[0].read_text(encoding="utf-8").splitlines()) < 120


def test_pages_name_every_estimator_method_and_plot() -> None:
    pages = (ROOT / "docs" / name for name in ("methods.md", "python.md", "choosing_k.md"))
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    names = [name for name in dcfsc.__all__ if name != "__version__"]
    assert [name for name in [*names, *METHODS] if f"`{name}`" not in text] == []


def test_every_figure_has_a_script_and_a_page() -> None:
    pages = [*PAGES, ROOT / "CONTRIBUTING.md"]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    scripts = [p.read_text(encoding="utf-8") for p in (ROOT / "docs" / "figures").glob("*.py")]
    figures = sorted((ROOT / "docs" / "images").glob("*.svg"))
    assert figures
    for figure in figures:
        assert any(f"docs/images/{figure.name}" in script for script in scripts)
        assert f"images/{figure.name}" in text
