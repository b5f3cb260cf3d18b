"""The check of the examples' types looks at the right lines; `make lint` runs it on all pages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "docs"))
import example_types

PAGE = """# Title

```python
import math
```

- indented:

  ```python
  math.nothing
  ```

<!-- not run: another package -->
```python
import fiftyone
```
"""


def test_lines_keep_their_numbers_and_what_is_not_run_is_left_out() -> None:
    lines = example_types.examples(PAGE).splitlines()
    assert {i + 1: line for i, line in enumerate(lines) if line} == {
        4: "import math",
        10: "math.nothing",
    }


def test_an_error_is_named_by_its_page_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("basedpyright")
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    monkeypatch.setattr(example_types, "ROOT", tmp_path)
    monkeypatch.setattr(example_types, "PAGES", [page])
    assert example_types.errors() == [
        'page.md:10: "nothing" is not a known attribute of module "math"'
    ]
