"""Sphinx's configuration: MyST pages, the API from the docstrings, formulas as MathML."""

from __future__ import annotations

import logging
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

# Threads that spin while they wait cost a multiple of the time where anything else runs.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

import results_page
from results_page import ROOT

from dcfsc import __version__

results_page.PAGE.write_text(results_page.page(), encoding="utf-8")

project = "dcfsc"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REPOSITORY = PROJECT["urls"]["Source"]
author = "The dcfsc developers"
copyright = "the dcfsc developers; MIT license"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "cli_reference",
    "mathml",
    "formulas",
]
exclude_patterns = ["_build", "_extensions", "figures", "gallery"]

# The scripts of gallery/ run in every build, and an error in one fails it. Pages go to examples/.
ORDER = [
    "light",
    "digits",
    "table",
    "photographs",
    "texts",
    "motion",
    "methods",
    "many_points",
    "affinity",
]
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",
    "within_subsection_order": [f"plot_{name}.py" for name in ORDER].index,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_signature": False,
    "write_computation_times": False,
    "image_scrapers": ("matplotlib",),
}

html_theme = "furo"
html_title = f"dcfsc {version}"
html_static_path = ["_static"]
html_css_files = ["formulas.css"]
html_show_sphinx = False
html_math_renderer = "mathml"
html_copy_source = False
smartquotes = False  # it makes one dash of the two before an option

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_class_signature = "mixed"
numpydoc_show_class_members = False  # autodoc lists them
default_role = "code"

# The examples' progress is not news; some package of theirs lets it through.
logging.getLogger("dcfsc").setLevel(logging.WARNING)

# Types are written for people, "ndarray (n, features)", and their words are no cross-references.
suppress_warnings = ["ref.python"]


def leave_out(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """What scikit-learn gives to every estimator is documented there."""
    return True if str(getattr(obj, "__module__", "")).startswith("sklearn") else None


def link_to_the_repository(app: Any, name: str, source: list[str]) -> None:
    """The pages of research/ and those at the top are no part of the site."""
    for place in ("research/", "CONTRIBUTING.md"):
        source[0] = source[0].replace(f"](../{place}", f"]({REPOSITORY}/blob/main/{place}")


def setup(app: Any) -> None:
    app.connect("source-read", link_to_the_repository)
    app.connect("autodoc-skip-member", leave_out)
