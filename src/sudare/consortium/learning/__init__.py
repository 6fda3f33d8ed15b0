"""Consortium-wide private learning without a server: one model of everybody's rows, under one guarantee."""

from sudare.consortium.learning.reading import MemberTable, ModelReading, MomentReading
from sudare.consortium.learning.rehearsal import ConsortiumModel, consortium_model, learned_together
from sudare.consortium.learning.results import combination_of, model_of, scaler_of
from sudare.consortium.learning.scaler import ScalerTerms
from sudare.consortium.learning.terms import LearningTerms
from sudare.consortium.learning.walk import LearnedTogether, LearningWalk

__all__ = [
    "ConsortiumModel",
    "LearnedTogether",
    "LearningTerms",
    "LearningWalk",
    "MemberTable",
    "ModelReading",
    "MomentReading",
    "ScalerTerms",
    "combination_of",
    "consortium_model",
    "learned_together",
    "model_of",
    "scaler_of",
]
