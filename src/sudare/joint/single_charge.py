"""The door of a training of many sums: charged once and before the first noise, whatever happens to the process meanwhile.

A mark that no other charge ever has is kept with the first addend, before the charge. Who was killed between the charge and the
checkpoint that follows finds the charge by its mark: what it had drawn never left, so it draws anew and does not pay again. Who
has lost its state has lost the mark, and pays again: what it had drawn may have left.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

import numpy as np

from sudare.errors import BudgetExceeded, MembersMissing, NotCharged
from sudare.parsing import parsed_json
from sudare.privacy.accounting import Cost
from sudare.privacy.guarantee import Guarantee, readable_down, readable_up
from sudare.privacy.ledger import Account
from sudare.privacy.ledger_chain import Receipt, canonical_json
from sudare.privacy.release import Passage, pass_again, pass_through
from sudare.privacy.source_identity import Source


def new_mark(purpose: str) -> str:
    """What a charge is for, in words that no other charge has."""
    return f"{purpose}{', ' if purpose else ''}run {uuid.uuid4().hex}"


class Entrance:
    """Where one member gets its noise. Without an account nothing is charged; a `random_state` is for simulation and voids the guarantee.

    `source` is what is read. Raise SourceMismatch if the account is for another one.
    """

    def __init__(
        self,
        account: Account | None,
        random_state: int | np.random.RandomState | None,
        guarantee: Guarantee,
        what: str,
        source: Source | None = None,
    ) -> None:
        if account is not None:
            account.check_source(source)
        self._source = source
        self._account, self._random_state, self._guarantee, self._what = account, random_state, guarantee, what
        self._passage: Passage | None = None
        self._passed_mark = ""

    def check_payable(self, cost: Cost) -> None:
        """Raise BudgetExceeded unless the account has so much left now. To be asked before others are kept waiting; the charge itself decides."""
        if self._account is None or self._random_state is not None:
            return
        quote = self._account.quote(self._guarantee, cost)
        if not quote.admitted:
            asked, left = quote.asked, quote.left_before
            raise BudgetExceeded(
                f"{self._what} asks for ε = {readable_up(asked.epsilon)}, δ = {readable_up(asked.delta)} of account "
                f"'{self._account.name}'; ε = {readable_down(left.epsilon)}, δ = {readable_down(left.delta)} is left.",
                f"Nothing was sent or spent. {BudgetExceeded.help}",
            )

    def passed(self, mark: str, receipt: str | None, cost: Callable[[], Cost]) -> Passage:
        """Through the door: by a charge the first time, else by the charge's receipt, which is found by its mark if it was not kept.

        What was paid under one mark opens for no other.
        """
        if self._passage is None or mark != self._passed_mark:
            self._passage = self._charged(mark, cost()) if receipt is None else self._again(receipt)
            self._passed_mark = mark
        return self._passage

    def _charged(self, mark: str, cost: Cost) -> Passage:
        account, guarantee, what = self._account, self._guarantee, self._what
        if account is not None and self._random_state is None:
            entered = account.receipt_of(guarantee, cost, what, mark)
            if entered is not None:
                return pass_again(account, entered, what)
        return pass_through(account, self._random_state, guarantee, cost, what=what, purpose=mark, source=self._source)

    def _again(self, receipt: str) -> Passage:
        if self._account is None:
            raise NotCharged(
                "This training was charged to an account that is not here.", "Give the account it began with."
            )
        return pass_again(self._account, Receipt(**parsed_json(receipt)), self._what)


def receipt_text(passage: Passage) -> str | None:
    """The receipt as a walk's state keeps it."""
    return None if passage.receipt is None else canonical_json(passage.receipt.to_dict())


def check_present(members: int, colluders: int, included: tuple[int, ...]) -> None:
    """Raise MembersMissing unless those who are missing from a total, and whoever looks, are at most `colluders`.

    The sum itself is opened only for as many members as the agreement's threshold asks for, and `Agreement.colluders` counts all others.
    This stops a walk that is run among fewer.
    """
    missing = members - len(set(included))
    if missing >= colluders:
        raise MembersMissing(
            f"{missing} of {members} members are missing from a sum, and its noise allows for {colluders - 1}.",
            "Nothing of this total was used. Begin again with all, or agree on more missing members.",
        )
