"""The softmax posterior of several classes: its loss, with the constants that `GibbsPosterior` needs. Proof: proofs/gibbs.md."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp, softmax

from sudare.array_types import Floats
from sudare.gibbs.custom_losses import GibbsPosterior
from sudare.parameter_checks import Numbers


@dataclass(frozen=True)
class SoftmaxLoss:
    """log Σ exp(θ_cᵀx) − θ_yᵀx for classes y = 0, …, k − 1; θ is k vectors, one after the other."""

    classes: int

    def __call__(self, theta: Floats, X: Floats, y: Floats) -> Floats:
        """One loss a row."""
        scores = X @ theta.reshape(self.classes, -1).T
        return np.asarray(logsumexp(scores, axis=1) - scores[np.arange(len(X)), np.rint(y).astype(int)])

    def gradient(self, theta: Floats, X: Floats, y: Floats) -> Floats:
        """That of the sum."""
        shares = softmax(X @ theta.reshape(self.classes, -1).T, axis=1)
        shares[np.arange(len(X)), np.rint(y).astype(int)] -= 1
        return np.asarray((shares.T @ X).ravel())


def softmax_posterior(columns: int, classes: int, *, norm_bound: float = 1.0, **options: Any) -> GibbsPosterior:
    """(ε, δ)-DP GibbsPosterior of k classes at once, for rows of norm ≤ R and y = 0, …, k − 1, replace-one rows. Proof: proofs/gibbs.md.

    A gradient is x times (shares − label), of norm √2·R at most; the softmax bends by ½ at most in any direction, and by 1 − 1/k in all together. Other parameters are those of
    GibbsPosterior; `parameters_` are k rows of coefficients.
    """
    Numbers(1, whole=True).check("columns", columns)
    Numbers(2, whole=True).check("classes", classes)
    Numbers(2.0**-100, 2.0**100).check("norm_bound", norm_bound)
    loss = SoftmaxLoss(classes)
    return GibbsPosterior(
        loss,
        loss.gradient,
        lipschitz=math.sqrt(2) * norm_bound * (1 + 2.0**-40),
        smoothness=norm_bound**2 / 2,
        laplacian=norm_bound**2 * (1 - 1 / classes),
        dimension=columns * classes,
        norm_bound=norm_bound,
        target_bounds=(0, classes - 1),
        **options,
    )
