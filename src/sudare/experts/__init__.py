"""Combining other members' models on one's own data; the result is for the owner only."""

from sudare.experts.estimators import AverageExperts, ExponentialWeights, MirrorAveraging, StackedExperts
from sudare.experts.own_plus_consensus import OwnPlusConsensus

__all__ = ["AverageExperts", "ExponentialWeights", "MirrorAveraging", "OwnPlusConsensus", "StackedExperts"]
