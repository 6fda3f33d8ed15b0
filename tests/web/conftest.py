"""What tests of the page share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.web.kit import TestPage


@pytest.fixture
def page(tmp_path: Path) -> TestPage:
    """A page with an empty ledger that has one account."""
    found = TestPage(tmp_path)
    found.ledger().account("visits", epsilon=2.0, delta=1e-6)
    return found
