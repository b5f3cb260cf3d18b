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
