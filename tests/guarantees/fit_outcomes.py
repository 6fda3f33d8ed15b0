"""What an onlooker sees of a fit, and labels of which one is another."""

from __future__ import annotations

from sudare.errors import SudareError


def outcome(model, account, X, y=None):
    """The name and text of a fit's error, or "fitted" and nothing; and how often the account was charged."""
    before = _charges(account)
    try:
        model.set_params(account=account).fit(X, y)
    except SudareError as error:
        return type(error).__name__, str(error), _charges(account) - before
    return "fitted", "", _charges(account) - before


def _charges(account):
    return sum(entry.kind == "charge" for entry in account.entries())


def flipped(y, row):
    """Labels 0 and 1 with that of one row turned around."""
    changed = y.copy()
    changed[row] = 1 - changed[row]
    return changed
