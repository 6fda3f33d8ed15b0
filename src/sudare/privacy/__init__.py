"""The privacy core: guarantees, accounting, noise, ledger, and the one door through which everything leaves."""

from sudare.privacy.estimators import PrivateHistogram, PrivateMean, PrivateStandardScaler
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.ledger import Account, Ledger
from sudare.privacy.release import Release
from sudare.privacy.selection import select_privately

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
