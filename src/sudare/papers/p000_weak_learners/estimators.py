"""The private learners of paper 000 as estimators for own data: Algorithms 1 and 2, the recipe that was run, and output perturbation.

They protect the rows of `fit` as far as their first lines say, in real arithmetic. Their noise is made of seeded floats, so they are for studies: they have no
`guarantee_`, no account can pay for them, and `Release.of` refuses them. `sudare.linear` has learners whose models may leave.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, check_random_state

from sudare.array_types import Floats
from sudare.errors import DataError, InvalidParameter
from sudare.linear.targets import accuracy_of, checked_classes, checked_labels, class_codes
from sudare.papers.p000_weak_learners import noisy_sgd, perturbed_erm
from sudare.papers.p000_weak_learners.noisy_sgd import LossName
from sudare.parameter_checks import Numbers
from sudare.privacy.array_checks import checked_matrix

POSITIVE: Final = Numbers(0, open_low=True)


def warn_of_shortened_rows(norms: Floats, bound: float, name: str) -> None:
    """Warn where a row is longer than the bound, by more than the rounding of a row that was divided by its norm."""
    if np.any(norms > bound * (1 + 1e-9)):
        warnings.warn(
            f"Rows longer than {name} = {bound:g} were shortened to it. Give {name}=… by public knowledge "
            "(SchemaEncoder(…).norm_bound_), or scale the columns.",
            RuntimeWarning,
            stacklevel=3,
        )


class PublishedClassifier(ClassifierMixin, BaseEstimator):
    """A linear classifier sgn(⟨θ, x⟩) of two classes, without intercept: rows longer than `norm_bound` are shortened, then all divided by it.

    Attributes
    ----------
    coef_ : θ for rows as they were given, before the division.
    classes_ : both classes; the second one is y = +1.
    computed_epsilon_ : the ε that the fit keeps when one record is replaced, at the δ that was asked for; infinite where `classes` was not
        given, because `classes_` shows a class that one record alone has.
    """

    numbers: ClassVar[Mapping[str, Numbers]] = {"epsilon": POSITIVE, "norm_bound": POSITIVE}

    epsilon: float
    norm_bound: float
    classes: Sequence[Any] | None
    random_state: int | None

    coef_: Floats
    classes_: NDArray[Any]
    computed_epsilon_: float
    n_features_in_: int
    intercept_ = 0.0

    @abstractmethod
    def _parameters(self, rows: Floats, labels: Floats, generator: np.random.Generator) -> Floats:
        """θ of rows in the unit ball and labels −1 and +1."""

    @abstractmethod
    def _computed_epsilon(self, rows: int) -> float:
        """The ε that the parameters keep, as computed."""

    def fit(self, X: Any, y: Any) -> Self:
        """Learn θ. Without `classes` they are read from y, which is not private: both must be there."""
        for name, numbers in self.numbers.items():
            numbers.check(name, getattr(self, name))
        matrix = checked_matrix(self, X, reset=True)
        if y is None:
            raise DataError(
                f"This {type(self).__name__} requires y to be passed, but the target y is None.", "Give labels."
            )
        labels = checked_labels(y)
        check_classification_targets(labels)
        self.classes_ = np.unique(labels) if self.classes is None else checked_classes(self.classes)
        if len(labels) != len(matrix):
            raise DataError(f"There are {len(matrix)} rows and {len(labels)} labels.", "Give one label a row.")
        if len(self.classes_) != 2:
            kind = "one class" if len(self.classes_) == 1 else "multiclass"
            raise DataError(
                f"Only binary classification is supported. The type of the target is {kind}.", "Give two classes."
            )
        signs = np.where(class_codes(labels, self.classes_) == 1, 1.0, -1.0)
        norms = np.linalg.norm(matrix, axis=1, keepdims=True)
        warn_of_shortened_rows(norms, self.norm_bound, "norm_bound")
        lengths = np.maximum(norms, self.norm_bound)
        seed = check_random_state(self.random_state).randint(2**31)
        self.coef_ = self._parameters(matrix / lengths, signs, np.random.default_rng(seed)) / self.norm_bound
        self.computed_epsilon_ = np.inf if self.classes is None else self._computed_epsilon(len(matrix))
        return self

    def decision_function(self, X: Any) -> Floats:
        """⟨θ, x⟩ for every row: positive for the second class."""
        check_is_fitted(self)
        return np.asarray(checked_matrix(self, X, reset=False) @ self.coef_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Classes."""
        second = self.decision_function(X) > 0
        return np.asarray(self.classes_[second.astype(np.intp)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy. Exact: for the owner only."""
        return accuracy_of(y, self.predict(X), sample_weight)

    def __sklearn_tags__(self) -> Any:
        """Two classes only; noise may make it answer badly."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        return tags


@dataclass(eq=False, repr=False)
class ObjectivePerturbationClassifier(PublishedClassifier):
    """(`computed_epsilon_`, δ)-DP for two public `classes`, which is more than the ε asked for: Algorithm 1 as printed, for the logistic loss.

    Parameters
    ----------
    epsilon, delta : what the paper promises.
    extra_penalty : Δ; None for the least that the algorithm allows, 2·λ_max/ε.
    radius : of the ball Θ; None for all parameters.
    norm_bound : the largest length of a row.
    classes : both classes there can be. Learned from y where they are not given: nothing is promised then.
    random_state : seed of the noise.
    """

    numbers: ClassVar[Mapping[str, Numbers]] = {
        **PublishedClassifier.numbers,
        "delta": Numbers(0, 1, open_high=True),
        "extra_penalty": Numbers(0, open_low=True, optional=True),
        "radius": Numbers(0, open_low=True, optional=True),
    }

    epsilon: float = 1.0
    delta: float = 0.0
    _: KW_ONLY
    extra_penalty: float | None = None
    radius: float | None = None
    norm_bound: float = 1.0
    classes: Sequence[Any] | None = None
    random_state: int | None = None

    def _parameters(self, rows: Floats, labels: Floats, generator: np.random.Generator) -> Floats:
        radius = np.inf if self.radius is None else self.radius
        found: Floats = perturbed_erm.algorithm_1(
            rows[np.newaxis],
            labels[np.newaxis],
            self.epsilon,
            self.delta,
            generator,
            extra_penalty=self.extra_penalty,
            radius=radius,
        )[0]
        return found

    def _computed_epsilon(self, rows: int) -> float:
        return perturbed_erm.algorithm_1_epsilon(self.epsilon, self.delta, self.extra_penalty)


@dataclass(eq=False, repr=False)
class ChaudhuriClassifier(PublishedClassifier):
    """ε-DP for two public `classes` in real arithmetic, as computed by `computed_epsilon_`: what every node of the paper's experiments publishes.

    Parameters
    ----------
    epsilon : what is promised.
    regularization : Λ of mean loss + (Λ/2)‖θ‖²; twice the paper's λ_reg (eq. 24), which is 0.01.
    method : "objective" perturbation; "output" perturbation with noise of the same law in all directions, as in [10]; or "laplace", output perturbation
        with Laplace noise on every entry, as the paper words it (section 2.2.2, way a).
    norm_bound, classes, random_state : as in ObjectivePerturbationClassifier.
    """

    numbers: ClassVar[Mapping[str, Numbers]] = {**PublishedClassifier.numbers, "regularization": POSITIVE}

    epsilon: float = 1.0
    _: KW_ONLY
    regularization: float = 0.02
    method: Literal["objective", "output", "laplace"] = "objective"
    norm_bound: float = 1.0
    classes: Sequence[Any] | None = None
    random_state: int | None = None

    def _parameters(self, rows: Floats, labels: Floats, generator: np.random.Generator) -> Floats:
        if self.method not in ("objective", "output", "laplace"):
            raise InvalidParameter(
                f"method is 'objective', 'output' or 'laplace', got {self.method!r}.", "Use one of them."
            )
        given = rows[np.newaxis], labels[np.newaxis], self.epsilon, self.regularization, generator
        if self.method == "objective":
            return np.asarray(perturbed_erm.chaudhuri_objective(*given)[0])
        return np.asarray(perturbed_erm.chaudhuri_output(*given, by_coordinate=self.method == "laplace")[0])

    def _computed_epsilon(self, rows: int) -> float:
        if self.method == "objective":
            return perturbed_erm.chaudhuri_epsilon(self.epsilon, rows, self.regularization)
        return self.epsilon


@dataclass(eq=False, repr=False)
class GradientDescentClassifier(PublishedClassifier):
    """(`computed_epsilon_`, δ)-DP for two public `classes` in real arithmetic: Algorithm 2 with its n² noisy steps.

    Parameters
    ----------
    epsilon, delta : what is promised.
    noise : "printed" for the paper's σ, "modern" for the least one that keeps (ε, δ) by `algorithm_2_epsilon`.
    radius : of the ball Θ.
    convexity : β of the term (β/2)‖θ‖²: with it steps are those of Theorem 2.2 (b), at 0 those of (a).
    loss : "logistic" or "hinge".
    norm_bound, classes, random_state : as in ObjectivePerturbationClassifier.

    Attributes
    ----------
    sigma_ : σ of the noise on n times a gradient.
    """

    numbers: ClassVar[Mapping[str, Numbers]] = {
        **PublishedClassifier.numbers,
        "delta": Numbers(0, 1, open_low=True, open_high=True),
        "radius": POSITIVE,
        "convexity": Numbers(0),
    }

    epsilon: float = 1.0
    delta: float = 1e-6
    _: KW_ONLY
    noise: Literal["printed", "modern"] = "printed"
    radius: float = 1.0
    convexity: float = 0.0
    loss: LossName = "logistic"
    norm_bound: float = 1.0
    classes: Sequence[Any] | None = None
    random_state: int | None = None

    def _parameters(self, rows: Floats, labels: Floats, generator: np.random.Generator) -> Floats:
        if self.noise not in ("printed", "modern") or self.loss not in ("logistic", "hinge"):
            raise InvalidParameter(
                f"noise is 'printed' or 'modern' and loss 'logistic' or 'hinge', got {self.noise!r} and {self.loss!r}.",
                "Use one of them.",
            )
        count = len(rows)
        if self.noise == "printed":
            lipschitz = noisy_sgd.largest_gradient(self.convexity, self.radius)
            self.sigma_ = noisy_sgd.printed_sigma(count, self.epsilon, self.delta, lipschitz)
        else:
            self.sigma_ = count * noisy_sgd.modern_multiplier(count, self.epsilon, self.delta)
        return noisy_sgd.algorithm_2(
            rows, labels, self.sigma_, generator, radius=self.radius, convexity=self.convexity, loss=self.loss
        )

    def _computed_epsilon(self, rows: int) -> float:
        return noisy_sgd.algorithm_2_epsilon(rows, self.sigma_ / rows, self.delta)
