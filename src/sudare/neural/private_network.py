"""What the private networks share: reading rows, planning a route, the way through the door, and training that can be resumed."""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from numbers import Real
from typing import Any, Final, Self, cast

import numpy as np
from sklearn.base import clone

from sudare.errors import InvalidParameter, SchemaError
from sudare.frames.rows import Arrays, checked_rows, is_read_once, is_stored
from sudare.linear.targets import check_lengths, missing_y
from sudare.neural import checkpoint as checkpoints
from sudare.neural.calibration import public_recipe
from sudare.neural.dp_sgd import NoisyDescent
from sudare.neural.release_format import ReleasedLayers
from sudare.neural.seeded_randomness import RunSeed, Standing
from sudare.neural.training_methods import (
    VACUOUS_EPSILON,
    Applied,
    Facts,
    Floats,
    Layers,
    LossName,
    Route,
    Singles,
    check_inputs,
    flattened,
    layer_outputs,
    layered,
    require_jax,
)
from sudare.privacy.guarantee import Guarantee, readable_up
from sudare.privacy.private_estimator import Plan
from sudare.privacy.release_content import on_grid
from sudare.schema import Schema, encode
from sudare.text import told

_MOST_LAYERS: Final = 20
_WIDEST_LAYER: Final = 2**16


class PrivateNetwork(ReleasedLayers):
    """A network fitted within a privacy budget. Subclasses say what the targets are and which loss is used."""

    steps: int | None
    sampling_rate: float | None
    clip: float
    rate: float | None
    momentum: float
    physical_batch: int | None
    accept_parameter_guarantee: bool
    approach_options: Mapping[str, Any] | None
    checkpoint: str | os.PathLike[str] | None
    progress: bool

    noise_scale_: float

    @abstractmethod
    def _loss(self) -> LossName:
        """The loss."""

    @abstractmethod
    def _declare_target(self, y: object) -> None:
        """Keep what is declared about the target, or what y tells where nothing is, which voids the guarantee."""

    @abstractmethod
    def _encoded_targets(self, y: object) -> Singles:
        """Targets as the loss takes them, one column an output."""

    @abstractmethod
    def _encoded_codes(self, target: Any) -> Singles:
        """Targets from the schema's encoding of the target column."""

    # Fitting

    def fit(self, X: Any, y: Any = None) -> Self:
        """Charge, then train.

        `X` and `y` are arrays, with `bounds`; or `X` is a table (or the path of one, or batches of one) with a schema that declares the
        target. With `checkpoint` a run that was killed goes on where it was, without paying again.
        """
        self._forget()
        self._check_parameters()
        rows, targets = self._read_rows(X, y)
        route = self._route(len(rows), self.declared_)
        plan = self._planned(route, self.declared_)
        require_jax()
        self.n_rows_ = len(rows) if self.neighbours == "replace-one" else None
        self._keep_public(route)
        layers = self._trained(route, plan, rows, targets)
        self._set_parameters(on_grid(flattened(layers), route.grid))
        self._seal()
        return self

    def plan(self, rows: int, declared: Schema) -> Plan[Applied]:
        """Route and guarantee for so many rows of these columns."""
        return self._planned(self._route(rows, declared), declared)

    def declared_promise(self, rows: Callable[[], int]) -> Guarantee:
        """What a record is promised: of approaches with noise on parameters many times their ε."""
        if self.schema is None or self.approach == "gradient":
            return super().declared_promise(rows)
        twin: Self = clone(self)
        twin._check_parameters()
        twin._keep(twin._suited(self.schema), self.schema.digest)
        twin._declare_target(None)
        return twin.plan(rows(), twin.declared_).guarantee

    def _plan_for(self, X: Any, y: Any) -> Plan[Applied]:
        self._check_parameters()
        rows, _ = self._read_rows(X, y)
        return self.plan(len(rows), self.declared_)

    def _route(self, rows: int, declared: Schema) -> Route:
        check_inputs(declared, self.encoding)
        epsilon, delta = float(self.epsilon), float(self.delta)
        facts = Facts(
            rows=self._public_rows(rows),
            sizes=self._sizes(declared),
            loss=self._loss(),
            neighbours=self.neighbours,
            declared=declared,
            encoding=self.encoding,
            target=self._target(),
        )
        options = dict(self.approach_options or {})
        if self.approach != "gradient":
            from sudare.papers.p002_networks import approaches

            return approaches.planned(self.approach, facts, epsilon, delta, **options)
        if options:
            raise InvalidParameter('approach_options are for other approaches than "gradient".', "Leave them out.")
        if delta == 0:
            raise InvalidParameter('approach="gradient" needs delta > 0.', "Use for example delta=1e-6.")
        recipe = public_recipe(
            facts.rows,
            epsilon,
            delta,
            self.neighbours,
            steps=self.steps,
            sampling_rate=self.sampling_rate,
            clip=float(self.clip),
            rate=self.rate,
            momentum=float(self.momentum),
            physical_batch=self.physical_batch,
        )
        return NoisyDescent(facts, epsilon, delta, recipe)

    def _planned(self, route: Route, declared: Schema) -> Plan[Applied]:
        if declared.person is not None:
            raise InvalidParameter(
                "Networks protect records, and the schema declares persons with several rows.",
                "Leave the person column out, or use PrivateLogisticRegression.",
            )
        if route.epsilon > VACUOUS_EPSILON and not self.accept_parameter_guarantee:
            raise InvalidParameter(
                f"To a record this promises ε = {readable_up(route.epsilon)}, which is next to nothing.",
                "Use a smaller epsilon; or accept_parameter_guarantee=True, which the card of a release then tells.",
            )
        guarantee = self._guarantee(declared, route.epsilon, route.delta)
        return Plan(Applied(route, self._outputs()), guarantee)

    def _keep_public(self, route: Route) -> None:
        """What is public about the fit."""
        self.approach_, self.noise_scale_, self.grid_ = self.approach, route.noise_scale, route.grid
        self.parameter_guarantee_ = route.parameter_guarantee
        self.exact_noise_ = route.exact_noise
        self.record_epsilon_, self.record_delta_ = route.epsilon, route.delta
        if isinstance(route, NoisyDescent):
            self.recipe_, self.noise_multiplier_ = route.recipe, route.noise_multiplier

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

    # Training

    def _trained(self, route: Route, plan: Plan[Applied], rows: Singles, targets: Singles) -> Layers:
        if not isinstance(route, NoisyDescent):
            return route.fitted(rows, targets, self._enter(plan).noise)
        with self._telling(route.recipe.steps) as tell:
            if self.checkpoint is None:
                return route.run(rows, targets, RunSeed.drawn(self._enter(plan).noise), tell=tell)
            return self._resumed(self.checkpoint, route, plan, rows, targets, tell)

    def _resumed(
        self,
        path: str | os.PathLike[str],
        route: NoisyDescent,
        plan: Plan[Applied],
        rows: Singles,
        targets: Singles,
        tell: Any,
    ) -> Layers:
        """Train from where a checkpoint stands, or from the beginning; the charge is entered once, and noise drawn once."""
        # Another version may make other numbers of the same seed.
        versions = {package: version(package) for package in ("jax", "sudare")}
        payer = None if self.account is None else [self.account.ledger.identity, self.account.name]
        # A run whose seed somebody gave cannot go on as one that nobody can repeat.
        seeded = self.account is None and self.random_state is not None
        promised = {"guarantee": plan.guarantee.to_dict(), "account": payer, "seeded": seeded, "versions": versions}
        declared = {**route.declared(), **promised}
        kept = checkpoints.load(path)
        if kept is None:
            kept = checkpoints.begun(rows, targets, declared)
            checkpoints.save(path, kept)
        else:
            kept = checkpoints.of_this_run(kept, rows, targets, declared)
        passage = self._enter(plan, kept.mark)
        if kept.seed is None:
            kept = replace(kept, seed=RunSeed.drawn(passage.noise).seed)
            checkpoints.save(path, kept)

        def keep(standing: Standing) -> None:
            checkpoints.save(path, replace(kept, standing=standing))

        return route.run(rows, targets, RunSeed(cast(bytes, kept.seed)), begun=kept.standing, keep=keep, tell=tell)

    @contextmanager
    def _telling(self, steps: int) -> Iterator[Any]:
        """What is told the number of steps done: a progress bar, or nothing."""
        if not self.progress:
            yield None
            return
        from rich.progress import Progress

        with Progress(transient=True) as bar:
            task = bar.add_task("training", total=steps)
            yield lambda done: bar.update(task, completed=done)

    # Reading

    def _read_rows(self, X: Any, y: Any) -> tuple[Singles, Singles]:
        """Encoded rows with targets; keeps what is declared."""
        self._keep_source(X)
        if is_stored(X) or is_read_once(X):
            return self._read_source(X, y)
        encoded = self._read(X, reset=True)
        check_inputs(self.declared_, self.encoding)
        matrix = encoded.astype(np.float32)
        if self.schema is None and y is None:
            raise missing_y()
        self._declare_target(y)
        targets = self._encoded_targets(y) if y is not None else self._targets_of(X)
        check_lengths(len(matrix), len(targets))
        return matrix, targets

    def _read_source(self, source: Any, y: Any) -> tuple[Singles, Singles]:
        """Rows of a file, a database or batches: networks see rows at random, so all are held in memory, as 32-bit floats."""
        if self.schema is None:
            raise InvalidParameter("A data source needs a schema.", "Give schema=Schema.load(…).")
        if y is not None:
            raise InvalidParameter("y was given beside a data source.", "Declare the target in the schema.")
        self._keep(self._suited(self.schema), self.schema.digest)
        check_inputs(self.declared_, self.encoding)
        self._declare_target(None)

        def arrays_of(table: Any) -> Arrays:
            return encode(self.declared_, table, self.encoding).matrix.astype(np.float32), self._targets_of(table)

        rows, targets = checked_rows(source, arrays_of, self.schema, in_memory=True).together()
        return rows, targets

    def _targets_of(self, table: Any) -> Singles:
        schema = cast(Schema, self.schema)
        if schema.target is None:
            raise SchemaError("The schema declares no target, and no y was given.", "Declare one, or give y.")
        return self._encoded_codes(schema.encode_target(table))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.approach not in approach_names():
            raise InvalidParameter(
                f"approach must be one of {', '.join(approach_names())}, got {told(self.approach)}.", 'Use "gradient".'
            )
        widths = self.hidden if isinstance(self.hidden, Sequence) and not isinstance(self.hidden, str) else (None,)
        if len(widths) > _MOST_LAYERS or not all(_is_whole(width, _WIDEST_LAYER) for width in widths):
            raise InvalidParameter("hidden must list the widths of the hidden layers.", "Use for example (64, 64).")
        for name, most in (("expected_rows", 2**53), ("steps", 2**53), ("physical_batch", 2**53)):
            if getattr(self, name) is not None and not _is_whole(getattr(self, name), most):
                raise InvalidParameter(f"{name} must be a positive whole number, or None.", "Leave it out.")
        for name in ("sampling_rate", "clip", "rate", "momentum"):
            value = getattr(self, name)
            optional = name in ("sampling_rate", "rate") and value is None
            if not optional and (isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value)):
                raise InvalidParameter(f"{name} must be a number, got {value!r}.", "Leave it out.")

    # Prediction

    def _scores(self, X: Any) -> Floats:
        """The last layer's values."""
        matrix = self._read(X, reset=False)
        return layer_outputs(layered(self.parameters_, self._sizes(self.declared_)), matrix)


def approach_names() -> tuple[str, ...]:
    """All approaches there are."""
    from sudare.papers.p002_networks.approaches import APPROACHES

    return ("gradient", *APPROACHES)


def _is_whole(value: object, most: int) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and 1 <= int(value) <= most
