"""The charge of a request is its own: none that somebody else made is taken for it, and none is made twice."""

from __future__ import annotations

import pytest

from sudare import PrivateMean
from sudare.errors import InvalidParameter
from sudare.privacy.accounting import pure_cost
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.ledger import Account, Ledger
from sudare.requests.approved_request_job import run
from sudare.requests.request_account import charge_under, receipt_under
from sudare.requests.steward_settings import RequestSettings
from tests.requests.conftest import approved


def account_of(settings: RequestSettings) -> Account:
    return Ledger(settings.ledger, create=False).account("visits")


@pytest.mark.parametrize("epsilon", [0.01, 0.5])
def test_a_charge_with_the_purpose_of_a_request_is_refused(settings: RequestSettings, epsilon: float) -> None:
    request, account = approved(settings), account_of(settings)
    with pytest.raises(InvalidParameter, match="by the run of that request only"):
        account.charge(Guarantee(epsilon), pure_cost(epsilon), "PrivateMean", request.mark)
    assert run(settings, request.identity).state == "done"
    assert account.spent() == (0.5, 0.0)


@pytest.mark.parametrize(("epsilon", "state", "spent"), [(0.01, "interrupted", 0.01), (0.5, "done", 0.5)])
def test_a_ledger_in_which_it_is_all_the_same_publishes_nothing_unpaid(
    settings: RequestSettings, monkeypatch: pytest.MonkeyPatch, epsilon: float, state: str, spent: float
) -> None:
    """As an earlier build could have let it in. A charge of the same promise for the same learner has paid; a smaller one ends the request."""
    request, account = approved(settings), account_of(settings)
    with monkeypatch.context() as before:
        before.setattr(Account, "_check_purpose", lambda self, purpose: None)
        account.charge(Guarantee(epsilon), pure_cost(epsilon), "PrivateMean", request.mark)
    ended = run(settings, request.identity)
    assert ended.state == state, ended.outcome
    assert len(list(settings.releases_folder.glob("*.sudare"))) == (1 if state == "done" else 0)
    assert account.spent() == (spent, 0.0)


def test_equal_requests_pay_each_for_itself(settings: RequestSettings) -> None:
    first, second = approved(settings), approved(settings)
    for request in (first, second):
        assert run(settings, request.identity).state == "done"
    account = account_of(settings)
    assert account.spent() == (1.0, 0.0)
    assert receipt_under(account, first.mark) != receipt_under(account, second.mark)


def test_a_fit_of_the_same_promise_is_not_taken_for_the_request(settings: RequestSettings) -> None:
    request, account = approved(settings), account_of(settings)
    table = settings.tables["visits"]
    PrivateMean(0.5, schema=table.schema(), account=account).fit(table.data())
    assert charge_under(request.mark, account.entries()) is None
    assert run(settings, request.identity).state == "done"
    assert account.spent() == (1.0, 0.0)
