"""What a run may charge at most."""

from __future__ import annotations

from sudare.privacy.account_balance import Amount
from sudare.privacy.account_charges import beyond_permitted
from sudare.privacy.accounting import pure_cost


def test_a_cost_within_what_was_permitted_is_not_beyond_it() -> None:
    cost = pure_cost(0.5)
    assert beyond_permitted(cost, Amount(0.5, 0.0)) is None
    told = beyond_permitted(cost, Amount(0.4, 1e-6))
    assert told is not None
    assert told.startswith("asks for ε = 0.5, δ = 0")
    assert told.endswith("δ = 1e-06 was permitted") or "1e-6" in told
