"""An account for the tests of Gibbs estimators."""

from __future__ import annotations

import pytest

from sudare.privacy import Ledger


@pytest.fixture
def account(tmp_path):
    return Ledger(tmp_path / "ledger.db").account("patients", epsilon=100.0, delta=1e-3)
