"""What PyTorch says, however often it has said it."""

import pytest
import torch


@pytest.fixture
def every_warning():
    """PyTorch says some things once a process only, unless it is told otherwise."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(before)
