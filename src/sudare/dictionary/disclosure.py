"""What members learn from exact sums, said before it happens. Without ε a training is not record privacy.

From the sums of ten iterations a member of two can compute all records of the other (tests/dictionary/test_reconstruction.py). With
more members the same equations have more unknowns, and nobody has proved how many are enough.
"""

from __future__ import annotations

from dataclasses import dataclass

from sudare.privacy.ledger import Account
from sudare.privacy.ledger_chain import Receipt


@dataclass(frozen=True)
class Disclosure:
    """What a member is about to show: at most so many exact totals of its records and those of the others."""

    members: int
    records: int
    columns: int
    numbers: int

    @property
    def what(self) -> str:
        """For the ledger and for people."""
        return (
            f"exact sums of a dictionary training over {self.members} members: up to {self.numbers:,} numbers "
            f"about {self.records * self.columns:,} held here ({self.records:,} records × {self.columns} columns)"
        )

    def revealed(self, numbers: int) -> str:
        """How far a running training has got, for the status."""
        held = self.records * self.columns
        return f"{numbers:,} numbers revealed, {held:,} held ({numbers / held:.0%}); exact sums are not record privacy"

    def entered(self, account: Account) -> Receipt:
        """The line in the ledger, before anything leaves."""
        return account.disclose(
            self.what, f"the {self.members} members of the consortium", self.numbers, purpose="pattern dictionary"
        )
