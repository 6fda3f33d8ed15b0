"""How many members exact sums need: what everybody learns from a sum of few comes close to what one of them put in.

From the sums of ten iterations a member of two can compute all records of the other (tests/papers/p003_decentralised/test_record_reconstruction.py).
"""

from __future__ import annotations

from typing import Final

from sudare.errors import InvalidParameter

FEWEST_MEMBERS: Final = 3
FEWEST_WITHOUT_CONSENT: Final = 5


def check_exact_sums(members: int, consent: bool) -> None:
    """Raise InvalidParameter unless so many members may train with exact sums: at least three, and below five only with consent.

    `consent` is a clause of the agreement that all have signed.
    """
    if members < 2:
        raise InvalidParameter("A consortium has at least two members.", "Train alone with fit([X]).")
    if members < FEWEST_MEMBERS:
        raise InvalidParameter(
            "Two members cannot train with exact sums: each could compute the other's records.",
            "Train with epsilon, or with at least three members.",
        )
    if members < FEWEST_WITHOUT_CONSENT and not consent:
        raise InvalidParameter(
            f"With {members} members exact sums come close to showing records, and the agreement does not consent to that.",
            "Train with epsilon, with at least five members, or write the consent into the agreement.",
        )
