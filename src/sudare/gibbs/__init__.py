"""Gibbs posteriors: sampling once from exp(−β Σ loss)·prior is a release, with exact sampling and honest constants."""

from sudare.gibbs.custom_losses import GibbsPosterior
from sudare.gibbs.linear_models import GibbsLogisticRegression, GibbsRidge
from sudare.gibbs.mean import GibbsMean
from sudare.gibbs.priors import LogConcavePrior, NormalPrior
from sudare.gibbs.softmax import softmax_posterior

__all__ = [
    "GibbsLogisticRegression",
    "GibbsMean",
    "GibbsPosterior",
    "GibbsRidge",
    "LogConcavePrior",
    "NormalPrior",
    "softmax_posterior",
]
