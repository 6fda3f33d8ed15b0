"""An account that is opened by its first charge, so that a request that is refused leaves nothing in the ledger."""

from __future__ import annotations

from collections.abc import Callable

from sudare.privacy import Account
from sudare.privacy.accounting import Cost
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.ledger import Charged
from sudare.privacy.source_identity import SliceIdentity, Source


class AccountToOpen(Account):
    """An account in a copy of the ledger until it is charged. A charge that the copy refuses never reaches the ledger itself."""

    def __init__(self, in_copy: Account, open_it: Callable[[], Account]) -> None:
        super().__init__(in_copy.ledger, in_copy.name)
        self._open_it: Callable[[], Account] | None = open_it

    def charge(
        self,
        guarantee: Guarantee,
        cost: Cost,
        what: str,
        purpose: str = "",
        source: Source | None = None,
        answers: SliceIdentity | None = None,
    ) -> Charged:
        """Enter a charge, the first time after the account was opened; or raise and leave everything as it was."""
        if self._open_it is not None:
            super().charge(guarantee, cost, what, purpose, source, answers)
            self.ledger, self._open_it = self._open_it().ledger, None
        return super().charge(guarantee, cost, what, purpose, source, answers)
