"""The account of one run that somebody permitted: it can be charged once, and for no more than was permitted.

Every entry of a run begins with its mark. The ledger is asked for such an entry inside the transaction that would write another, so what was paid
for once is known wherever approvals, state and results went meanwhile.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext

from sudare.errors import SudareError
from sudare.privacy.account_balance import Amount
from sudare.privacy.account_charges import beyond_permitted
from sudare.privacy.accounting import Cost
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.ledger import Account, Charged
from sudare.privacy.ledger_chain import Entry, Receipt
from sudare.privacy.source_identity import SliceIdentity, Source


def entries_of(mark: str, entries: Iterable[Entry]) -> list[Entry]:
    """The charges and disclosures that were entered under this mark."""
    return [entry for entry in entries if entry.kind in ("charge", "disclosure") and _is_marked(mark, entry)]


def _is_marked(mark: str, entry: Entry) -> bool:
    purpose = entry.body.get("purpose")
    return isinstance(purpose, str) and (purpose == mark or purpose.startswith(f"{mark},"))


class RunAccount(Account):
    """An account as one run sees it. `mark` is how the purposes of its entries begin, which no other entry has.

    Where `is_resumed`, whoever comes again goes on with the first charge, unless its result was entered already: of one charge there is one result.
    """

    def __init__(self, account: Account, mark: str, permitted: Amount, *, is_resumed: bool = True) -> None:
        super().__init__(account.ledger, account.name)
        self._mark, self._permitted, self._is_resumed = mark, permitted, is_resumed

    def charge(
        self,
        guarantee: Guarantee,
        cost: Cost,
        what: str,
        purpose: str = "",
        source: Source | None = None,
        answers: SliceIdentity | None = None,
    ) -> Charged:
        """Enter the charge of this run, or go on with it; or raise and leave everything as it was."""
        marked = self._marked(purpose)
        with self._undenied():
            begun = self.begun(guarantee, cost, what, marked) if self._is_resumed else None
            return super().charge(guarantee, cost, what, marked, source, answers) if begun is None else begun

    def receipt_of(self, guarantee: Guarantee, cost: Cost, what: str, mark: str) -> Receipt | None:
        """The receipt of the charge that was entered under this mark of this run; None where there is none."""
        return super().receipt_of(guarantee, cost, what, self._marked(mark))

    def _marked(self, purpose: str) -> str:
        """The purpose of an entry of this run: its mark alone, unless a run has several entries."""
        return self._mark

    def _undenied(self) -> AbstractContextManager[None]:
        """Held while something is entered: raises where the run was denied since it was permitted."""
        return nullcontext()

    @abstractmethod
    def _beyond(self, beyond: str) -> SudareError:
        """The refusal to charge more than was permitted; `beyond` says how much more."""

    @abstractmethod
    def _charged_already(self) -> SudareError:
        """The refusal to pay a second time."""

    def _check_purpose(self, purpose: str) -> None:
        """Its purposes are its marks."""

    def _check_entry(self, cost: Cost | None, entries: Callable[[], list[Entry]]) -> None:
        beyond = None if cost is None else beyond_permitted(cost, self._permitted)
        if beyond is not None:
            raise self._beyond(beyond)
        if entries_of(self._mark, entries()):
            raise self._charged_already()
