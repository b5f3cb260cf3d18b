"""Sphinx's configuration: MyST pages, the API from the docstrings, formulas as MathML."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

from dcfsc import __version__

project = "dcfsc"
author = "The dcfsc developers"
copyright = "the dcfsc developers; MIT licence"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "mathml",
    "plain_docstrings",
]
exclude_patterns = ["_build", "_extensions", "figures"]

html_theme = "furo"
html_title = f"dcfsc {version}"
html_static_path = ["_static"]
html_css_files = ["formulas.css"]
html_show_sphinx = False
html_math_renderer = "mathml"
html_copy_source = False

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_class_signature = "mixed"
napoleon_google_docstring = True
napoleon_numpy_docstring = True
napoleon_use_rtype = False
napoleon_use_ivar = True
default_role = "code"

# Types are written for people, "ndarray (n, features)", and their words are no cross-references.
suppress_warnings = ["ref.python"]


def leave_out(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """What scikit-learn gives to every estimator is documented there."""
    return True if str(getattr(obj, "__module__", "")).startswith("sklearn") else None


def setup(app: Any) -> None:
    app.connect("autodoc-skip-member", leave_out)
