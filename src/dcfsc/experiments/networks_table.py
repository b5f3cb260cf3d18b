"""The paper's three network tables, counted from the networks that the library builds."""

from __future__ import annotations
