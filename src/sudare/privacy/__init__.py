"""The privacy core: guarantees, accounting, noise, ledger, and releases, the only way for results to leave."""

from typing import TYPE_CHECKING

from sudare.lazy_exports import opened_on_use

if TYPE_CHECKING:
    from sudare.privacy.candidate_selection import select_privately
    from sudare.privacy.guarantee import Guarantee
    from sudare.privacy.ledger import Account, Ledger
    from sudare.privacy.release import Release
else:
    __getattr__, __dir__ = opened_on_use(
        __name__,
        {
            "guarantee": "Guarantee",
            "ledger": "Account Ledger",
            "release": "Release",
            "candidate_selection": "select_privately",
        },
    )

__all__ = [
    "Account",
    "Guarantee",
    "Ledger",
    "Release",
    "select_privately",
]
