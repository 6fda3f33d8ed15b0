"""What every private network does: constructor, checks, reading, plan, charge, training with DP-SGD, release.

A subclass of `NetworkEstimator` says what the network and its targets are, and mixes in the way of training (`DpSgdTraining`; the approaches
of paper 002 are in `sudare.papers.p002_networks`). Constructors only store: they are those of dataclasses, and every field is a parameter in the
sense of scikit-learn.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any, ClassVar, Final, Self, cast

import numpy as np

from sudare.array_types import Floats, Singles
from sudare.errors import InvalidParameter, SchemaError
from sudare.frames.row_reader import checked_rows
from sudare.frames.rows import Arrays
from sudare.frames.sources import is_in_memory
from sudare.linear.targets import check_lengths, missing_y
from sudare.neural import checkpoint as checkpoints
from sudare.neural.dp_sgd import LARGEST_PHYSICAL_BATCH, RANGES, DpSgd, public_recipe
from sudare.neural.seeded_randomness import RunSeed, RunState
from sudare.neural.training_method_base import VACUOUS_EPSILON, TrainingMethod, check_inputs, flattened, require_jax
from sudare.parameter_checks import Numbers
from sudare.privacy.fit_plan import Plan
from sudare.privacy.guarantee import DEFAULT_DELTA, Guarantee, Neighbours, readable_up
from sudare.privacy.ledger import Account
from sudare.privacy.private_estimator import Bounds, PrivateEstimator
from sudare.privacy.release_content import Content, TensorRule, check_shapes, on_grid, unfit
from sudare.report.number_formatting import rounded_up
from sudare.schema import ENCODINGS, Encoding, Schema, encode

FLOAT_NOISE: Final = (
    "floating-point noise: drawn and added in 32-bit floats, so the guarantee is that of ideal arithmetic"
)
WHOLE_NOISE: Final = (
    "whole-numbered noise, its distance to the ideal law counted in δ; gradients were multiplied in 32-bit floats, with room "
    "for their rounding if the processor keeps to IEEE 754"
)
_ROW_COUNTS: Final = Numbers(1, 2**53 - 1, whole=True)


@dataclass(eq=False, repr=False, kw_only=True)
class NetworkEstimator(PrivateEstimator):
    """A network fitted within a privacy budget. Subclasses say what the network and its targets are, and how it is trained."""

    epsilon: float = 1.0
    delta: float = DEFAULT_DELTA
    schema: Schema | None = None
    bounds: Bounds | None = None
    neighbours: Neighbours = "replace-one"
    expected_rows: int | None = None
    encoding: Encoding = "binned"
    accept_weak_guarantee: bool = False
    account: Account | None = None
    random_state: int | np.random.RandomState | None = None

    numbers_only: ClassVar[bool] = False
    relations: ClassVar[tuple[Neighbours, ...]] = ("replace-one", "add-remove")
    extra_parameters: ClassVar[tuple[str, ...]] = (
        "approach",
        "encoding",
        "exact_noise",
        "expected_rows",
        "parameter_epsilon",
        "target",
        "vacuous",
    )
    # What a release says the way of training is.
    approach: ClassVar[str]

    # What subclasses say

    @abstractmethod
    def _facts(self, rows: int, declared: Schema) -> Any:
        """What everybody may know of a fit to so many rows, as far as is public, of these columns."""

    @abstractmethod
    def _method(self, facts: Any) -> TrainingMethod:
        """How a network is trained when so much is public."""

    @abstractmethod
    def _parameter_count(self) -> int:
        """How many numbers a release of this network holds."""

    @abstractmethod
    def _scores(self, X: Any) -> Floats:
        """What the network answers, one row of values for each row."""

    @abstractmethod
    def _network_extra(self) -> dict[str, Any]:
        """What a release says of the network itself."""

    @abstractmethod
    def _target(self) -> tuple[Any, ...]:
        """Classes, or bounds of a number."""

    @abstractmethod
    def _declare_target(self, y: object) -> None:
        """Keep what is declared about the target, or what y tells where nothing is, which voids the guarantee."""

    @abstractmethod
    def _encoded_targets(self, y: object) -> Singles:
        """Targets as the loss takes them, one column an output."""

    @abstractmethod
    def _encoded_codes(self, target: Any) -> Singles:
        """Targets from the schema's encoding of the target column."""

    @abstractmethod
    def _take_target(self, written: Any) -> None:
        """Keep the target that a release declares. Raise TypeError or InvalidParameter if it is none."""

    # Checks

    def _check_parameters(self) -> None:
        super()._check_parameters()
        replace(_ROW_COUNTS, optional=True).check("expected_rows", self.expected_rows)

    # Reading

    def _read_rows(self, X: Any, y: Any) -> tuple[Singles, Singles]:
        """Encoded rows with targets; keeps what is declared."""
        self._keep_source(X)
        if not is_in_memory(X):
            return self._read_source(X, y)
        encoded = self._read(X, reset=True)
        check_inputs(self.declared_, self.encoding)
        if self.schema is None and y is None:
            raise missing_y()
        self._declare_target(y)
        targets = self._encoded_targets(y) if y is not None else self._targets_of(X)
        check_lengths(len(encoded), len(targets))
        return encoded.astype(np.float32), targets

    def _read_source(self, source: Any, y: Any) -> tuple[Singles, Singles]:
        """Rows of a file, a database or batches, as 32-bit floats; networks see rows at random, so all are kept, where they are many in a file."""
        if self.schema is None:
            raise InvalidParameter("A data source needs a schema.", "Give schema=Schema.load(…).")
        if y is not None:
            raise InvalidParameter("y was given beside a data source.", "Declare the target in the schema.")
        self._keep(self._suited(self.schema), self.schema.digest)
        check_inputs(self.declared_, self.encoding)
        self._declare_target(None)

        def arrays_of(table: Any) -> Arrays:
            return encode(self.declared_, table, self.encoding).matrix.astype(np.float32), self._targets_of(table)

        rows, targets = checked_rows(source, arrays_of, self.schema, read_once=True).together()
        return rows, targets

    def _targets_of(self, table: Any) -> Singles:
        schema = cast(Schema, self.schema)
        if schema.target is None:
            raise SchemaError("The schema declares no target, and no y was given.", "Declare one, or give y.")
        return self._encoded_codes(schema.encode_target(table))

    # The plan: everything public, and the price

    def plan(self, rows: int, declared: Schema) -> Plan[TrainingMethod]:
        """Training method and guarantee for so many rows of these columns."""
        method = self._method(self._facts(self._public_rows(rows), declared))
        if declared.person is not None:
            raise InvalidParameter(
                "Networks protect records, and the schema declares persons with several rows.",
                "Use a model that protects persons, such as `sudare fit logistic` (PrivateLogisticRegression); or give one row a person, and declare none.",
            )
        if method.epsilon > VACUOUS_EPSILON and not self.accept_weak_guarantee:
            raise InvalidParameter(
                f"To a record this promises ε = {readable_up(method.epsilon)}, which is next to nothing.",
                "Use a smaller epsilon; or accept_weak_guarantee=True, which the card of a release then tells.",
            )
        return Plan(method, self._guarantee(declared, method.epsilon, method.delta))

    def _plan_for(self, X: Any, y: Any) -> Plan[TrainingMethod]:
        self._check_parameters()
        rows, _ = self._read_rows(X, y)
        return self.plan(len(rows), self.declared_)

    def _public_rows(self, rows: int) -> int:
        """The number of rows where it is public, else the one that was declared."""
        if self.neighbours == "replace-one":
            return rows
        if self.expected_rows is None:
            raise InvalidParameter(
                "Between add/remove neighbours the number of rows is private, and no public one was declared.",
                "Give expected_rows=…: about how many rows there are, by public knowledge.",
            )
        return int(self.expected_rows)

    # The fit: charge, then noise

    def fit(self, X: Any, y: Any = None) -> Self:
        """Charge, then train.

        `X` and `y` are arrays, with `bounds`; or `X` is a table (or the path of one, or batches of one) with a schema that declares the
        target.
        """
        self._forget()
        self._check_parameters()
        rows, targets = self._read_rows(X, y)
        plan = self.plan(len(rows), self.declared_)
        require_jax()
        method = plan.mechanism
        self.n_rows_ = len(rows) if self.neighbours == "replace-one" else None
        self.noise_scale_, self.grid_, self.exact_noise_ = method.noise_scale, method.grid, True
        self.parameter_guarantee_: Guarantee | None = method.parameter_guarantee
        self.record_epsilon_, self.record_delta_ = method.epsilon, method.delta
        arrays = self._trained(plan, rows, targets)
        self.parameters_: Floats = on_grid(flattened(arrays), method.grid)
        self._seal()
        return self

    def _trained(self, plan: Plan[TrainingMethod], rows: Singles, targets: Singles) -> Any:
        """Arrays in a tuple, or tuples of such, trained with the noise that is handed out when the charge is entered."""
        return plan.mechanism.fitted(rows, targets, self._enter(plan).noise)

    def _restate(self, epsilon: float) -> None:
        super()._restate(epsilon)
        self.record_epsilon_ = epsilon

    # The release

    @classmethod
    def card_remarks(cls, parameters: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
        """Inexact noise, and the promise to a parameter beside that to a record."""
        remarks = []
        if parameters["exact_noise"] is False:
            remarks.append(("arithmetic", FLOAT_NOISE))
        elif parameters["approach"] == "gradient":
            remarks.append(("arithmetic", WHOLE_NOISE))
        of_one_parameter = _epsilon_of_one_parameter(parameters)
        if of_one_parameter is not None:
            promised = rounded_up(of_one_parameter)
            text = f"ε = {promised} for one parameter of the model; for a record it is the guarantee above"
            remarks.append(("beside it", text))
        if parameters["vacuous"]:
            text = "the guarantee to a record says next to nothing; its owner released it all the same"
            remarks.append(("accepted", text))
        return tuple(remarks)

    def release_content(self) -> Content:
        """Parameters on their grid, and what is public about them."""
        beside = self.parameter_guarantee_
        extra = {
            "epsilon": self.record_epsilon_,
            "delta": self.record_delta_,
            "approach": self.approach,
            "encoding": self.encoding,
            "exact_noise": self.exact_noise_,
            "expected_rows": None if self.expected_rows is None else int(self.expected_rows),
            "parameter_epsilon": None if beside is None else beside.epsilon,
            "target": list(self._target()),
            "vacuous": self.record_epsilon_ > VACUOUS_EPSILON,
            **self._network_extra(),
        }
        return self._content({"parameters": self.parameters_}, {"parameters": self.grid_}, extra)

    def check_numbers(self, content: Content) -> None:
        """Raise ReleaseMalformed unless there are as many parameters as the network has; each may be any number."""
        check_shapes(content, {"parameters": TensorRule(self._parameter_count(), np.float64)})

    @classmethod
    def _arguments(cls, parameters: Mapping[str, Any]) -> dict[str, Any]:
        told = ("delta", "encoding", "epsilon", "expected_rows", "neighbours")
        return {
            **{name: parameters[name] for name in told},
            "accept_weak_guarantee": parameters["vacuous"],
        }

    def _take_extra(self, parameters: Mapping[str, Any]) -> None:
        rows, promised = parameters["expected_rows"], parameters["parameter_epsilon"]
        if not (
            parameters["approach"] == self.approach
            and parameters["vacuous"] is (parameters["epsilon"] > VACUOUS_EPSILON)
            and type(parameters["exact_noise"]) is bool
            and parameters["encoding"] in ENCODINGS
            and (rows is None or (type(rows) is int and _ROW_COUNTS.holds(rows)))
            and (promised is None or (type(promised) is float and 0 < promised < np.inf))
        ):
            raise unfit("its parameters are not those of its learner")
        self._check_parameters()
        self._take_target(parameters["target"])

    def _take(self, content: Content) -> None:
        parameters = content.parameters
        self.exact_noise_, self.grid_ = parameters["exact_noise"], content.grid("parameters")
        self.record_epsilon_, self.record_delta_ = parameters["epsilon"], parameters["delta"]
        promised = _epsilon_of_one_parameter(parameters)
        self.parameter_guarantee_ = (
            None if promised is None else Guarantee(promised, neighbours=self.neighbours, notion="parameter")
        )
        self.parameters_ = content.tensors["parameters"]


def _epsilon_of_one_parameter(parameters: Mapping[str, Any]) -> float | None:
    """What a release promises to one parameter; None where its approach promises nothing, whatever an older file says.

    Noise in every update is ε of a parameter's updates given all parameters before each, and not of its value. Proof: proofs/neural_approaches.md.
    """
    named: float | None = parameters["parameter_epsilon"]
    return None if parameters["approach"] == "anonymized_learning" else named


@dataclass(eq=False, repr=False, kw_only=True)
class DpSgdTraining(NetworkEstimator):
    """A private network that is trained by DP-SGD."""

    max_iter: int | None = None
    sampling_rate: float | None = None
    clip: float = 1.0
    learning_rate: float | None = None
    momentum: float = 0.9
    max_physical_batch_size: int | None = None
    checkpoint: str | os.PathLike[str] | None = None
    verbose: bool = False

    approach: ClassVar[str] = "gradient"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.delta == 0:
            raise InvalidParameter(f"{type(self).__name__} needs delta > 0.", "Use for example delta=1e-6.")
        for name, numbers in RANGES.items():
            replace(numbers, optional=name not in ("clip", "momentum")).check(name, getattr(self, name))

    def _largest_physical_batch(self, facts: Any) -> int:
        """The most rows that are treated at once where nobody says how many."""
        return LARGEST_PHYSICAL_BATCH

    def _method(self, facts: Any) -> DpSgd:
        epsilon, delta = float(self.epsilon), float(self.delta)
        recipe = public_recipe(
            facts.rows,
            epsilon,
            delta,
            self.neighbours,
            max_iter=self.max_iter,
            sampling_rate=self.sampling_rate,
            clip=float(self.clip),
            learning_rate=self.learning_rate,
            momentum=float(self.momentum),
            max_physical_batch_size=self.max_physical_batch_size,
            largest_physical_batch=self._largest_physical_batch(facts),
        )
        return DpSgd(facts, epsilon, delta, recipe)

    def _trained(self, plan: Plan[TrainingMethod], rows: Singles, targets: Singles) -> Any:
        method = cast(DpSgd, plan.mechanism)
        self.recipe_, self.noise_multiplier_ = method.recipe, method.noise_multiplier
        self.n_iter_ = method.recipe.max_iter
        with _progress(self.verbose, method.recipe.max_iter) as tell:
            if self.checkpoint is None:
                return method.run(rows, targets, RunSeed.drawn(self._enter(plan).noise), tell=tell)
            return self._resumed(self.checkpoint, plan, rows, targets, tell)

    def _resumed(
        self,
        path: str | os.PathLike[str],
        plan: Plan[TrainingMethod],
        rows: Singles,
        targets: Singles,
        tell: Callable[[int], None] | None,
    ) -> Any:
        """Train from where a checkpoint is, or from the beginning; the charge is entered once, and noise drawn once."""
        method = cast(DpSgd, plan.mechanism)
        declared = {
            **method.declared(),
            "guarantee": plan.guarantee.to_dict(),
            "account": None if self.account is None else [self.account.ledger.identity, self.account.name],
            # A run whose seed somebody gave cannot go on as one that nobody can repeat.
            "seeded": self.account is None and self.random_state is not None,
            # Another version may make other numbers of the same seed.
            "versions": {package: version(package) for package in ("jax", "sudare")},
        }
        kept = checkpoints.load(path)
        if kept is None:
            kept = checkpoints.new_checkpoint(rows, targets, declared)
            checkpoints.save(path, kept)
        checkpoints.check_same_run(kept, rows, targets, declared)
        passage = self._enter(plan, kept.mark)
        if kept.seed is None:
            kept = replace(kept, seed=RunSeed.drawn(passage.noise).seed)
            checkpoints.save(path, kept)

        def keep(state: RunState) -> None:
            checkpoints.save(path, replace(kept, state=state))

        return method.run(rows, targets, RunSeed(cast(bytes, kept.seed)), state=kept.state, keep=keep, tell=tell)


@contextmanager
def _progress(shown: bool, steps: int) -> Iterator[Callable[[int], None] | None]:
    """What is told the number of steps done, to show a bar; None where nothing is to be shown."""
    if not shown:
        yield None
        return
    from rich.progress import Progress

    with Progress(transient=True) as bar:
        task = bar.add_task("training", total=steps)
        yield lambda done: bar.update(task, completed=done)
