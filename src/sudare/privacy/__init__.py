"""The privacy core: guarantees, accounting, noise, ledger, and the one door through which everything leaves."""

from typing import TYPE_CHECKING

from sudare.rooms import opened_on_use

if TYPE_CHECKING:
    from sudare.privacy.estimators import PrivateHistogram, PrivateMean, PrivateStandardScaler
    from sudare.privacy.guarantee import Guarantee
    from sudare.privacy.ledger import Account, Ledger
    from sudare.privacy.release import Release
    from sudare.privacy.selection import select_privately
else:
    __getattr__, __dir__ = opened_on_use(
        __name__,
        {
            "estimators": "PrivateHistogram PrivateMean PrivateStandardScaler",
            "guarantee": "Guarantee",
            "ledger": "Account Ledger",
            "release": "Release",
            "selection": "select_privately",
        },
    )

__all__ = [
    "Account",
    "Guarantee",
    "Ledger",
    "PrivateHistogram",
    "PrivateMean",
    "PrivateStandardScaler",
    "Release",
    "select_privately",
]
