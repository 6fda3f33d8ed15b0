"""The account of one request: it is charged once, under the request's own mark, and for no more than was approved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from sudare.errors import RequestError, RequestStopped
from sudare.privacy.account_balance import Amount
from sudare.privacy.account_charges import asked_amount, in_relation
from sudare.privacy.accounting import Cost
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.ledger import Account, Charged
from sudare.privacy.ledger_chain import Entry, Receipt
from sudare.privacy.run_account import RunAccount, entries_of
from sudare.privacy.source_identity import SliceIdentity, Source
from sudare.requests.request import Decision, Request, State

_WHO_CHANGED_IT: Final = "Nothing was charged. Somebody changed the folder of requests, or put another ledger there: find out who, and ask anew."


class RequestAccount(RunAccount):
    """An account as the run of a request sees it. Whoever comes again goes on with the first charge, unless something was computed for it."""

    def __init__(
        self, account: Account, mark: str, permitted: Amount, when_charged: Callable[[], None] | None = None
    ) -> None:
        super().__init__(account, mark, permitted)
        self._when_charged = when_charged

    def __reduce__(self) -> tuple[object, ...]:
        return RequestAccount, (Account(self.ledger, self.name), self._mark, self._permitted)

    def charge(
        self,
        guarantee: Guarantee,
        cost: Cost,
        what: str,
        purpose: str = "",
        source: Source | None = None,
        answers: SliceIdentity | None = None,
    ) -> Charged:
        """Enter the charge of this request, or go on with it; or raise and leave everything as it was."""
        charged = super().charge(guarantee, cost, what, purpose, source, answers)
        if self._when_charged is not None:
            self._when_charged()
        return charged

    def _beyond(self, beyond: str) -> RequestError:
        return RequestError(f"The run {beyond}.", "Nothing was charged. Ask anew.")

    def _charged_already(self) -> RequestStopped:
        return RequestStopped(
            "This request was charged already, and what was computed for it is gone.",
            "Nothing more was charged. Ask anew.",
        )


def permitted_amount(account: Account, request: Request) -> Amount:
    """What a run of the request may charge at most: the price of the version that was approved."""
    version = request.newest
    guarantee, cost = Guarantee.from_dict(version.guarantee), Cost.from_dict(version.cost)
    return asked_amount(in_relation(account.name, account.terms, guarantee, cost)[0])


def charge_under(mark: str, entries: list[Entry]) -> Entry | None:
    """The charge with this mark, which only the account of the request's run enters; None where there is none."""
    return next((entry for entry in entries_of(mark, entries) if entry.kind == "charge"), None)


def charged_amount(account: Account, mark: str) -> Amount:
    """What was charged under a mark."""
    charge = charge_under(mark, account.entries())
    return Amount(0.0, 0.0) if charge is None else asked_amount(Cost.from_dict(charge.body["cost"]))


def receipt_under(account: Account, mark: str) -> Receipt | None:
    """The receipt of the charge with this mark; None where there is none."""
    charge = charge_under(mark, account.entries())
    return None if charge is None else Receipt(account.ledger.identity, charge.position, charge.hash, account.name)


def has_result(account: Account, mark: str) -> bool:
    """Whether something was computed for the charge with this mark."""
    receipt = receipt_under(account, mark)
    return receipt is not None and account.ledger.result_of(receipt) is not None


def check_entered(account: Account, request: Request) -> None:
    """Raise RequestError unless the ledger has the request as it stands: whoever writes to the folder of requests can change a file, and no entry."""
    as_entered(account, request)


def caught_up(account: Account, request: Request) -> Request:
    """As `as_entered`, before a request is decided about or run; as it is where the ledger has another one, which is told by whoever does so."""
    try:
        return as_entered(account, request)
    except RequestError:
        return request


def as_entered(account: Account, request: Request) -> Request:
    """The request with the reasons and decisions that the ledger has, and the state that follows from these, to be shown or decided about.

    Raise RequestError unless the ledger has the newest version exactly as it stands, who asked, who made each version, and each decision. Decisions that
    only the ledger has are there: somebody was killed before they could be kept, or took them out of the file.
    """
    entries = _entries_of(account, request)
    bodies = [entry.body for entry in entries]
    _check_entered(bodies, request)
    made = {body["version"]: body for body in bodies if body["event"] in ("asked", "changed")}
    people = {number: body["who"] for number, body in made.items()}
    if request.who != people.get(1) or any(each.who != people.get(each.number) for each in request.versions):
        raise _not_entered(request)
    decisions = tuple(
        Decision(entry.body["version"], entry.body["event"], entry.body["who"], entry.time, entry.body["purpose"])
        for entry in entries
        if entry.body["event"] in ("approved", "denied") and not _is_about_lost_version(entry.body, request)
    )
    entered = {(each.version, each.verdict, each.who) for each in decisions}
    if any((each.version, each.verdict, each.who) not in entered for each in request.decisions):
        raise RequestError(
            f"The decisions about request {request.identity} are not those that the ledger has.", _WHO_CHANGED_IT
        )
    versions = tuple(replace(each, reason=made[each.number]["purpose"]) for each in request.versions)
    state = _entered_state(bodies, request) if request.state == "asked" else request.state
    return replace(request, state=state, versions=versions, decisions=decisions)


def _is_about_lost_version(body: Mapping[str, Any], request: Request) -> bool:
    """Whether an entry is about a version of this number that was entered and not kept, and made anew."""
    return bool(body["version"] == request.newest.number and body["digest"] != request.digest)


def _entered_state(bodies: list[Mapping[str, Any]], request: Request) -> State:
    """The state of a request that waits, by its entries."""
    if any(body["event"] == "denied" for body in bodies):
        return "denied"
    return "approved" if len(_approving_people(bodies, request)) >= request.people else "asked"


def _approving_people(bodies: list[Mapping[str, Any]], request: Request) -> set[str]:
    """Who approved exactly the newest version. Where that must be several people, who asked and who made the version do not count."""
    number = request.newest.number
    people = {
        body["who"]
        for body in bodies
        if (body["event"], body["version"], body["digest"]) == ("approved", number, request.digest)
    }
    if request.people > 1:
        people -= {
            body["who"]
            for body in bodies
            if body["event"] == "asked" or (body["event"], body["version"]) == ("changed", number)
        }
    return people


def check_newest(account: Account, request: Request) -> None:
    """Raise RequestError where the ledger has a later version than the one that was kept."""
    _check_newest([entry.body for entry in _entries_of(account, request)], request)


def _check_newest(bodies: list[Mapping[str, Any]], request: Request) -> None:
    if any(body["event"] == "changed" and body["version"] > request.newest.number for body in bodies):
        raise RequestError(
            f"The ledger has a later version of request {request.identity}: it was changed, and the change was not kept, or somebody put an older file in its place.",
            "Nothing was charged. Change it again, or ask anew.",
        )


def check_approved(account: Account, request: Request) -> None:
    """Raise RequestError unless the ledger has this version and the approvals of as many people as are required, of exactly it, and no denial.

    Where that is more than one, who asked and who made this version do not count.
    """
    entries = [entry.body for entry in _entries_of(account, request)]
    _check_entered(entries, request)
    if any(body["event"] == "denied" for body in entries):
        raise RequestError(f"The ledger says that request {request.identity} was denied.", _WHO_CHANGED_IT)
    _check_newest(entries, request)
    if len(_approving_people(entries, request)) < request.people:
        raise RequestError(
            f"The ledger does not have the approvals of request {request.identity} as it stands.", _WHO_CHANGED_IT
        )


def _entries_of(account: Account, request: Request) -> list[Entry]:
    """What the ledger says of a request, oldest first."""
    return [each for each in account.entries() if each.kind == "request" and each.body["request"] == request.identity]


def _check_entered(entries: list[Mapping[str, Any]], request: Request) -> None:
    number = request.newest.number
    made = ("asked" if number == 1 else "changed", number)
    if not any((body["event"], body["version"]) == made and body["digest"] == request.digest for body in entries):
        raise _not_entered(request)


def _not_entered(request: Request) -> RequestError:
    number = request.newest.number
    return RequestError(
        f"Request {request.identity} is not what the ledger says was asked for in version {number}.", _WHO_CHANGED_IT
    )
