"""sudare: organisations learn together without showing each other their records.

The names below are those most people need, loaded when first used; each room has more.
"""

from importlib.metadata import version
from typing import TYPE_CHECKING

from sudare.lazy_exports import opened_on_use

if TYPE_CHECKING:
    from sudare.dictionary import PatternDictionary
    from sudare.experts import MirrorAveraging, OwnPlusConsensus
    from sudare.linear import PrivateLogisticRegression, PrivateRidge
    from sudare.neural import PrivateMLPClassifier
    from sudare.perturbation import RecordPerturbation
    from sudare.privacy import Ledger, Release
    from sudare.reconstruction import Reconstruction
    from sudare.schema import Schema
    from sudare.statistics import PrivateHistogram, PrivateMean
    from sudare.sums import secure_sum
    from sudare.synthesis import PrivateSynthesizer
else:
    __getattr__, __dir__ = opened_on_use(
        __name__,
        {
            "dictionary": "PatternDictionary",
            "experts": "MirrorAveraging OwnPlusConsensus",
            "linear": "PrivateLogisticRegression PrivateRidge",
            "neural": "PrivateMLPClassifier",
            "perturbation": "RecordPerturbation",
            "privacy": "Ledger Release",
            "reconstruction": "Reconstruction",
            "schema": "Schema",
            "statistics": "PrivateHistogram PrivateMean",
            "sums": "secure_sum",
            "synthesis": "PrivateSynthesizer",
        },
    )

__version__ = version("sudare")

__all__ = [
    "Ledger",
    "MirrorAveraging",
    "OwnPlusConsensus",
    "PatternDictionary",
    "PrivateHistogram",
    "PrivateLogisticRegression",
    "PrivateMLPClassifier",
    "PrivateMean",
    "PrivateRidge",
    "PrivateSynthesizer",
    "RecordPerturbation",
    "Reconstruction",
    "Release",
    "Schema",
    "secure_sum",
]
