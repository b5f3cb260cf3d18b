"""A busy machine is no failure, and what several folders share is imported by its name."""

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from typer.main import get_command

sys.path.insert(0, str(Path(__file__).parent))
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture(scope="session", autouse=True)
def marks_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """That a run was made here is not kept in the home of who tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session", autouse=True)
def one_tree_of_commands() -> Iterator[None]:
    """Typer's runner builds all commands anew for each call, which takes longer than most calls."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", cache(get_command), raising=False)
        yield


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
