"""What PyTorch says, however often it has said it."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.append(str(Path(__file__).parent))


@pytest.fixture
def every_warning():
    """PyTorch says some things once a process only, unless it is told otherwise."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(before)


def pytest_terminal_summary(terminalreporter):
    """How many parameters were tried, and how many of them refused."""
    found = [
        value
        for report in terminalreporter.stats.get("passed", ())
        for key, value in getattr(report, "user_properties", ())
        if key == "parameters" and report.when == "call"
    ]
    if found:
        tried, refused = map(sum, zip(*found, strict=True))
        terminalreporter.line(f"parameters and options: {tried} values tried, {refused} refused")
