"""The three approaches of paper 002 as estimators for own data: noise before learning, after it, or in every update.

They read, charge and release as the networks of `sudare.neural` do, and take the parameters of those but for DP-SGD's; only the way
of training is another one. Of `LearningFirst…` epsilon protects one parameter, and of `AnonymizedLearning…` one parameter's updates
given all parameters before each. `guarantee_` is always the record's. `parameter_guarantee_` is what the paper promises where that is
true: of `LearningFirst…` alone. docs/neural.md compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Self

from sklearn.base import clone

from sudare.errors import InvalidParameter
from sudare.neural.estimators import FullyConnectedNetwork, NetworkClassifier, NetworkRegressor
from sudare.neural.training_method_base import Facts, TrainingMethod
from sudare.papers.p002_networks.anonymizing_first import AnonymizingFirst
from sudare.papers.p002_networks.approaches import AnonymizedLearning, Clipping, DescentName, LearningFirst
from sudare.privacy.guarantee import Guarantee
from sudare.synthesis.synthesizer import EngineName


class ApproachTraining(FullyConnectedNetwork):
    """A network that is trained by one of the approaches; its options are parameters of the estimator."""

    method: ClassVar[type[AnonymizingFirst | LearningFirst | AnonymizedLearning]]

    def _method(self, facts: Facts) -> TrainingMethod:
        # The first three fields are the facts, ε and δ.
        options = {option.name: getattr(self, option.name) for option in fields(self.method)[3:]}
        return self.method(facts, float(self.epsilon), float(self.delta), **options)

    def declared_promise(self, rows: Callable[[], int]) -> Guarantee:
        """What a fit to a table of the schema's columns promises to a record: of two approaches many times what `epsilon` says."""
        if self.schema is None:
            raise InvalidParameter("A promise without records needs a schema.", "Give schema=Schema.load(…).")
        twin: Self = clone(self)
        twin._check_parameters()
        twin._keep(twin._suited(self.schema), self.schema.digest)
        twin._declare_target(None)
        return twin.plan(rows(), twin.declared_).guarantee


@dataclass(eq=False, repr=False, kw_only=True)
class AnonymizingFirstTraining(ApproachTraining):
    """A network that is learned from synthetic rows."""

    engine: EngineName = "marginals"
    tree: Sequence[tuple[str, str]] | None = None
    groups: int = 20
    synthetic_rows: int | None = None
    epochs: int = 10
    batch_size: int = 256
    learning_rate: float = 0.1
    regularization: float = 0.0
    descent: DescentName = "averaged"

    approach: ClassVar[str] = "anonymizing_first"
    method = AnonymizingFirst


@dataclass(eq=False, repr=False, kw_only=True)
class LearningFirstTraining(ApproachTraining):
    """A network that gets noise once, after ordinary learning."""

    limit: float = 0.125
    epochs: int = 10
    batch_size: int = 256
    learning_rate: float = 0.1
    regularization: float = 0.0
    descent: DescentName = "averaged"

    approach: ClassVar[str] = "learning_first"
    method = LearningFirst


@dataclass(eq=False, repr=False, kw_only=True)
class AnonymizedLearningTraining(ApproachTraining):
    """A network that gets noise in every update."""

    epochs: int = 1
    batch_size: int | None = None
    threshold: float | None = None
    learning_rate: float | None = None
    momentum: float = 0.9
    clipping: Clipping = "example"
    regularization: float = 0.0
    descent: DescentName = "averaged"

    approach: ClassVar[str] = "anonymized_learning"
    method = AnonymizedLearning


@dataclass(eq=False, repr=False)
class AnonymizingFirstClassifier(AnonymizingFirstTraining, NetworkClassifier):
    """ε-DP or (ε, δ)-DP network of classes, learned from synthetic rows. Proof: proofs/synthesis.md."""


@dataclass(eq=False, repr=False)
class AnonymizingFirstRegressor(AnonymizingFirstTraining, NetworkRegressor):
    """ε-DP or (ε, δ)-DP network of a number, learned from synthetic rows. Proof: proofs/synthesis.md."""


@dataclass(eq=False, repr=False)
class LearningFirstClassifier(LearningFirstTraining, NetworkClassifier):
    """dε-DP network of classes with d parameters: noise once, after learning. Proof: proofs/neural_approaches.md."""


@dataclass(eq=False, repr=False)
class LearningFirstRegressor(LearningFirstTraining, NetworkRegressor):
    """dε-DP network of a number with d parameters: noise once, after learning. Proof: proofs/neural_approaches.md."""


@dataclass(eq=False, repr=False)
class AnonymizedLearningClassifier(AnonymizedLearningTraining, NetworkClassifier):
    """dε-DP network of classes with d parameters: noise in every update, replace-one. Proof: proofs/neural_approaches.md."""


@dataclass(eq=False, repr=False)
class AnonymizedLearningRegressor(AnonymizedLearningTraining, NetworkRegressor):
    """dε-DP network of a number with d parameters: noise in every update, replace-one. Proof: proofs/neural_approaches.md."""
