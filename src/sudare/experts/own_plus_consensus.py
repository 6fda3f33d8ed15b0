"""Own plus consensus: a receiver starts from what the others' linear models agree on and corrects it with its own data.

The parameters are θ = s·μ + d, where μ is the mean of the others' messages, of length one. Own data choose s and d under the
penalty (τ/2)(‖d‖² + κs²), and τ by cross-validation. κ = (1 − ρ)/ρ is the doubt about μ: ρ estimates its squared cosine with
what the messages would say without noise, from how well they agree. A mean that could as well be noise is not followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, Literal

import numpy as np

from sudare.array_types import Floats
from sudare.errors import DataError
from sudare.experts.batched_ridge_cross_validation import batch_fitted
from sudare.experts.combined_experts import CombinedExperts, one_vs_rest_targets, positive
from sudare.experts.expert_set import Task
from sudare.linear.targets import one_vs_rest_probabilities

PENALTIES: Final = tuple(float(penalty) for penalty in np.geomspace(1e2, 1e-4, 7))
LEAST_DOUBT: Final = 1e-6
MOST_DOUBT: Final = 1e9


@dataclass(frozen=True)
class Consensus:
    """The direction that messages agree on (of length one, or zero) for each receiver, and the doubt κ about it."""

    directions: Floats
    doubts: Floats


def consensus_of(messages: Floats) -> Consensus:
    """One receiver's consensus of messages (experts × coefficients); or one for each output (experts × outputs × coefficients)."""
    by_output = messages.reshape(len(messages), -1, messages.shape[-1])
    mean = by_output.mean(axis=0)
    return _consensus(mean, ((by_output - mean) ** 2).sum(axis=(0, 2)), len(messages))


def consensus_without_each(messages: Floats) -> Consensus:
    """Returns for each sender the consensus of all the others (senders × coefficients)."""
    count = len(messages) - 1
    means = (messages.sum(axis=0) - messages) / count
    squares = (messages**2).sum(axis=1)
    spreads = squares.sum() - squares - count * (means**2).sum(axis=1)
    return _consensus(means, np.maximum(spreads, 0.0), count)


def _consensus(means: Floats, spreads: Floats, count: int) -> Consensus:
    """ρ = 1 − (squared standard error of the mean)/‖mean‖², at least 0. One message says nothing about its noise: ρ = ½."""
    norms = (means**2).sum(axis=1)
    reliability = np.full(len(means), 0.5)
    if count > 1:
        errors = spreads / (count * (count - 1))
        reliability = 1 - np.divide(errors, norms, out=np.ones(len(norms)), where=norms > 0)
    positive_part = np.clip(reliability, 1 / (1 + MOST_DOUBT), 1.0)
    doubts = np.maximum((1 - positive_part) / positive_part, LEAST_DOUBT)
    lengths = np.sqrt(norms)[:, np.newaxis]
    return Consensus(np.divide(means, lengths, out=np.zeros_like(means), where=lengths > 0), doubts)


def own_plus_consensus(
    designs: Floats,
    targets: Floats,
    consensus: Consensus,
    penalties: Sequence[float] = PENALTIES,
    task: Task = "classification",
) -> tuple[Floats, Floats]:
    """θ = s·μ + d for many receivers (receivers × rows × columns), and the penalties τ that cross-validation chose."""
    columns = designs.shape[2]
    along = designs @ consensus.directions[:, :, np.newaxis]
    relative = np.column_stack([np.ones((len(designs), columns)), consensus.doubts])
    fitted = batch_fitted(np.concatenate([designs, along], axis=2), targets, penalties, relative, task)
    own, scale = fitted.coefficients[:, :columns], fitted.coefficients[:, columns:]
    return np.asarray(own + scale * consensus.directions), fitted.penalties


@dataclass(eq=False, repr=False)
class OwnPlusConsensus(CombinedExperts):
    """θ = s·μ + d fitted on own data with the penalty (τ/2)(‖d‖² + κs²); μ is the mean of linear experts' coefficients.

    κ, the doubt about μ, is computed from how well the experts agree (docs/experts.md).

    Parameters
    ----------
    experts : fitted linear models or releases of such: classifiers, or regressors. With three classes or more each has a θ of its own, fitted
        against the rest, and a κ of its own.
    penalty : τ, or "cross-validation" to choose it on own data. With fewer than ten rows the largest is taken.
    doubt : κ where it is known, as for one model whose noise is public; None computes it from how well the experts agree.
    fit_intercept : whether θ has an intercept, which own data and messages set like any other coefficient. Without it the
        features must be centred by public facts, and the messages' intercepts are not used.

    Attributes
    ----------
    coef_, intercept_ : θ, or one row and one number a class. Learned from own data: for the owner only.
    penalty_ : τ, or those of the classes.
    guarantee_ : what each sender promised about its own records, in the order of the experts.
    """

    experts: Sequence[Any] = ()
    _: KW_ONLY
    penalty: float | Literal["cross-validation"] = "cross-validation"
    doubt: float | None = None
    fit_intercept: bool = True

    def _learn(self, rows: Any, targets: Floats) -> None:
        matrix = self.expert_set_.matrix(rows)
        coefficients, intercepts = self.expert_set_.messages()
        if matrix.shape[1] != coefficients.shape[2]:
            raise DataError(
                f"The rows have {matrix.shape[1]} features; the experts have {coefficients.shape[2]} coefficients.",
                "Use the same schema.",
            )
        messages = (
            np.concatenate([coefficients, intercepts[:, :, np.newaxis]], axis=2) if self.fit_intercept else coefficients
        )
        design = np.column_stack([matrix, np.ones(len(matrix))]) if self.fit_intercept else matrix
        penalties = PENALTIES if self.penalty == "cross-validation" else (positive("penalty", self.penalty),)
        consensus, outputs = consensus_of(messages), self.expert_set_.outputs
        if self.doubt is not None:
            known = min(max(positive("doubt", self.doubt), LEAST_DOUBT), MOST_DOUBT)
            consensus = Consensus(consensus.directions, np.full(outputs, known))
        designs = np.broadcast_to(design, (outputs, *design.shape))
        theta, chosen = own_plus_consensus(
            designs, one_vs_rest_targets(targets, outputs), consensus, penalties, self.expert_set_.task
        )
        own, constants = theta[:, : matrix.shape[1]], theta[:, -1] if self.fit_intercept else np.zeros(outputs)
        if outputs == 1:
            self.coef_, self.intercept_, self.penalty_ = own[0], float(constants[0]), float(chosen[0])
        else:
            self.coef_, self.intercept_, self.penalty_ = own, constants, chosen

    def _values(self, rows: Any) -> Floats:
        return np.asarray(self.expert_set_.matrix(rows) @ self.coef_.T + self.intercept_)

    def _class_probabilities(self, scores: Floats) -> Floats:
        return one_vs_rest_probabilities(scores)
