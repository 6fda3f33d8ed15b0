"""What people do with requests: ask, change, approve and deny. Each is an entry of the ledger before it is kept."""

from __future__ import annotations

from sudare.privacy.ledger import Account
from sudare.requests.price import now, version_of
from sudare.requests.request import Request, Values, Verdict, changed, decided, new_request
from sudare.requests.request_account import check_entered
from sudare.requests.steward_settings import RequestSettings


def ask(
    settings: RequestSettings,
    table: str,
    kind: str,
    values: Values,
    *,
    who: str,
    purpose: str,
    dry_run: bool = False,
    is_owner: bool = False,
) -> Request:
    """A new request, entered and kept. Nothing is charged; in a dry run nothing is entered and kept either.

    What is wrong with the table is told where `is_owner` says that who asks may see it.
    """
    found, store = settings.table(table), settings.store
    version = version_of(settings, found, kind, values, who, purpose, is_owner=is_owner)
    request = new_request(store.new_identity(), table, found.account, purpose, settings.people, version)
    if not dry_run:
        enter(settings.account(found), request, "asked", who, purpose)
        store.add(request)
    return request


def change(
    settings: RequestSettings,
    identity: str,
    kind: str,
    values: Values,
    *,
    who: str,
    reason: str,
    dry_run: bool = False,
    is_owner: bool = False,
) -> Request:
    """The request with another version, which is to be decided about anew."""
    store = settings.store
    table = settings.table(store.request(identity).table)
    version = version_of(settings, table, kind, values, who, reason, is_owner=is_owner)
    with store.changing():
        request = changed(store.request(identity), version)
        if not dry_run:
            enter(settings.account(table), request, "changed", who, reason)
            store.replace(request)
    return request


def decide(
    settings: RequestSettings,
    identity: str,
    version: int,
    verdict: Verdict,
    *,
    who: str,
    reason: str,
    dry_run: bool = False,
) -> Request:
    """The request after a decision about the version that was looked at."""
    store = settings.store
    with store.changing():
        found = store.request(identity)
        account = settings.account(settings.table(found.table))
        request = decided(found, version, verdict, who, now(), reason)
        if verdict == "approved":
            check_entered(account, found)
        if not dry_run:
            enter(account, request, verdict, who, reason)
            store.replace(request)
    return request


def enter(account: Account, request: Request, event: str, who: str, reason: str) -> None:
    """Enter what happened to the newest version of a request."""
    version = request.newest
    kind = "grouped table" if version.kind == "table" else version.kind
    what = f"{kind} of table '{request.table}'"
    account.enter_request(
        request.identity, version.number, event, who=who, what=what, purpose=reason, digest=request.digest
    )
