"""What people do with requests: ask, change, approve and deny. Each is an entry of the ledger before it is kept."""

from __future__ import annotations

import contextlib

from sudare.errors import SudareError
from sudare.privacy.ledger import Account
from sudare.requests.price import now, version_of
from sudare.requests.request import Request, Values, Verdict, changed, decided, new_request
from sudare.requests.request_account import caught_up, check_entered, check_newest
from sudare.requests.request_kinds import kind_in_a_sentence
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
        request = decided(caught_up(account, found), version, verdict, who, now(), reason)
        if verdict == "approved":
            check_entered(account, found)
            check_newest(account, found)
        if not dry_run:
            enter(account, request, verdict, who, reason)
            store.replace(request)
    return request


def keep_entered_decisions(settings: RequestSettings) -> None:
    """Keep decisions that only the ledger has: somebody was killed between the two. What cannot be compared with the ledger stays as it is."""
    store = settings.store
    for each in store.requests():
        if each.state == "asked":
            with contextlib.suppress(SudareError), store.changing():
                found = store.request(each.identity)
                with settings.account_to_quote(settings.table(found.table)) as account:
                    request = caught_up(account, found)
                if request.state != found.state:
                    store.replace(request)


def enter(account: Account, request: Request, event: str, who: str, reason: str) -> None:
    """Enter what happened to the newest version of a request."""
    version = request.newest
    what = f"{kind_in_a_sentence(version.kind)} of table '{request.table}'"
    account.enter_request(
        request.identity, version.number, event, who=who, what=what, purpose=reason, digest=request.digest
    )
