"""A dictionary of patterns that members learn together, and anomaly scores from it."""

from sudare.dictionary.drift import ChangeDetector, PatternChanges, pattern_changes
from sudare.dictionary.estimators import PatternDictionary
from sudare.dictionary.graphical_lasso import GraphicalLassoResult, graphical_lasso
from sudare.dictionary.member_model import MemberModel

__all__ = [
    "ChangeDetector",
    "GraphicalLassoResult",
    "MemberModel",
    "PatternChanges",
    "PatternDictionary",
    "graphical_lasso",
    "pattern_changes",
]
