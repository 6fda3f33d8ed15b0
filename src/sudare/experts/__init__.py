"""Combining other members' models on one's own data. All but `PrivateExponentialWeights` are for the owner only."""

from sudare.experts.estimators import AverageExperts, ExponentialWeights, MirrorAveraging, StackedExperts
from sudare.experts.own_plus_consensus import OwnPlusConsensus
from sudare.experts.private_weights import PrivateExponentialWeights

__all__ = [
    "AverageExperts",
    "ExponentialWeights",
    "MirrorAveraging",
    "OwnPlusConsensus",
    "PrivateExponentialWeights",
    "StackedExperts",
]
