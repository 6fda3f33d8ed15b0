"""What members agree to do together: one frozen value for each task, with the ε and δ it may cost each member."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal

from sudare.consortium.agreement.document_fields import Field, ParameterValue, Reader, whole
from sudare.consortium.tasks.task_defaults import (
    DICTIONARY_DEFAULTS,
    DICTIONARY_FAMILIES,
    EARLIER_DICTIONARY_NAMES,
    LEARNER_DEFAULTS,
    LEARNING_DEFAULTS,
    MOST_NUMBERS,
    NETWORKS,
    current_parameters,
)
from sudare.errors import AgreementError
from sudare.privacy.ledger_chain import canonical_json
from sudare.schema import ENCODINGS

Kind = Literal["models", "dictionary", "learning", "scaler", "census"]
Method = Literal["one-sum", "descent", "boosting", "network"]
Parameters = Mapping[str, ParameterValue]

# Noisy sums need no search, tolerance or priors: of the estimator's parameters these are left.
PRIVATE_DICTIONARY_PARAMETERS: Final = frozenset({"dtype", "family", "private_iterations"})
# By the task's own fields, by the agreement, or by nobody: a cluster and a checkpoint's path are each member's own.
_DECIDED_ELSEWHERE: Final = frozenset(
    {"bounds", "checkpoint", "cluster", "hide", "k", "memory", "private_iterations", "verbose"}
)
# As `sudare.neural.training_method_base.check_widths` has it, which a node that waits does not load.
_MOST_LAYERS: Final = 20
_WIDEST_LAYER: Final = 2**16
_METHODS: Final = ("one-sum", "descent", "boosting", "network")
# What earlier versions asked for in tasks of these kinds; the agreement's own numbers say it now (`Agreement.colluders`).
_REPLACED_FIELDS: Final = {"dictionary": "colluders", "learning": "tolerance", "scaler": "tolerance"}


@dataclass(frozen=True)
class Task:
    """One thing to do together. `parameters` are those of the learner, as public as the rest of the agreement."""

    name: str
    parameters: Parameters = field(default_factory=dict, kw_only=True, hash=False)

    kind: ClassVar[Kind]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(dict(sorted(self.parameters.items()))))

    def __reduce__(self) -> tuple[Any, ...]:
        return task_from, (self.name, Field("", self.to_dict()))

    @property
    def cost(self) -> tuple[float, float]:
        """The ε and δ that stand in the agreement; zeros for sums that are exact. What is charged: `task_costs.promise_of`."""
        epsilon: float | None = getattr(self, "epsilon", None)
        return (0.0, 0.0) if epsilon is None else (epsilon, getattr(self, "delta", 0.0))

    @property
    def digest(self) -> str:
        """SHA-256 of name, kind and every field."""
        return hashlib.sha256(canonical_json([self.name, self.to_dict()]).encode()).hexdigest()

    @property
    def has_sums(self) -> bool:
        """Whether members add something up, with or without noise."""
        return self.has_noisy_sums or isinstance(self, DictionaryTask)

    @property
    def has_noisy_sums(self) -> bool:
        """Whether every member adds a share of noise to its sums."""
        return isinstance(self, LearningTask | ScalerTask) or (isinstance(self, DictionaryTask) and self.is_private)

    def facts(self) -> dict[str, Any]:
        """Its own fields in plain types."""
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in ("name", "parameters")}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in own.items()}

    def to_dict(self) -> dict[str, Any]:
        """The section of an agreement that describes it."""
        return {"kind": self.kind, **self.facts(), **({"parameters": dict(self.parameters)} if self.parameters else {})}


@dataclass(frozen=True)
class ModelsTask(Task):
    """Every member releases a private model of its own; all fetch, verify and combine them."""

    learner: str
    epsilon: float
    delta: float = 0.0

    kind: ClassVar[Kind] = "models"


@dataclass(frozen=True)
class DictionaryTask(Task):
    """A pattern dictionary of all members' records: from noisy sums with `epsilon`, else from exact ones that are disclosed to all.

    `consent`: all who sign know that exact sums over fewer than five members come close to showing records.
    """

    patterns: int
    consent: bool = False
    epsilon: float | None = None
    delta: float = 0.0

    kind: ClassVar[Kind] = "dictionary"

    @property
    def is_private(self) -> bool:
        """Whether its sums are noisy and charged for, rather than exact and disclosed."""
        return self.epsilon is not None

    @property
    def most_numbers(self) -> int:
        """How many numbers exact sums may show to members."""
        return _agreed_most_numbers(self)

    def facts(self) -> dict[str, Any]:
        if self.epsilon is None:
            return {"patterns": self.patterns, **({"consent": True} if self.consent else {})}
        return {"patterns": self.patterns, "epsilon": self.epsilon, "delta": self.delta}


@dataclass(frozen=True)
class LearningTask(Task):
    """One private model of all members' records: linear, additive by boosting, or a network."""

    method: Method
    epsilon: float
    delta: float = 0.0

    kind: ClassVar[Kind] = "learning"

    @property
    def max_bins(self) -> int | None:
        """Into how many bins boosting cuts the range of a number. Raise AgreementError unless that is a whole number, or left out."""
        if "max_bins" not in self.parameters:
            return None
        found: int = Field(f"tasks.{self.name}.parameters.max_bins", self.parameters["max_bins"]).whole(2, 10_000)
        return found


@dataclass(frozen=True)
class ScalerTask(Task):
    """Private means and scales of all members' records."""

    epsilon: float
    delta: float = 0.0

    kind: ClassVar[Kind] = "scaler"


@dataclass(frozen=True)
class CensusTask(Task):
    """Perturbed records of every member, from which all reconstruct distributions."""

    columns: tuple[str, ...]
    epsilon: float

    kind: ClassVar[Kind] = "census"


def check_parameters(task: Task) -> None:
    """Raise AgreementError unless every parameter is one that the task's learner takes and the agreement leaves open."""
    if isinstance(task, ModelsTask) and task.learner not in LEARNER_DEFAULTS:
        raise AgreementError(
            f"`tasks.{task.name}.learner` is not one of {', '.join(LEARNER_DEFAULTS)}.", "Correct this field."
        )
    known = _known_parameters(task)
    learner = task.learner if isinstance(task, ModelsTask) else ""
    current = known - set(EARLIER_DICTIONARY_NAMES)
    for name in current_parameters(task.name, learner, task.parameters):
        if name not in known:
            takes = f"It takes: {', '.join(sorted(current))}." if current else "It takes none."
            raise AgreementError(f"`tasks.{task.name}.parameters.{name}` is not a parameter of this task.", takes)
    for old, new in EARLIER_DICTIONARY_NAMES.items() if isinstance(task, DictionaryTask) else ():
        if old in task.parameters and new in task.parameters:
            raise AgreementError(
                f"`tasks.{task.name}.parameters` has `{old}` and `{new}`, which are one parameter.", f"Keep `{new}`."
            )
    if isinstance(task, DictionaryTask) and task.is_private:
        _check_private_values(task)
    if isinstance(task, DictionaryTask):
        _agreed_most_numbers(task)
    if isinstance(task, LearningTask):
        _check_learning_values(task)
    if isinstance(task, ModelsTask) and task.delta == 0 and _needs_delta(task):
        raise AgreementError(
            f"`tasks.{task.name}.delta` is missing or 0.",
            f"{task.learner} needs a δ that all agree on, for example 1e-6.",
        )


def _needs_delta(task: ModelsTask) -> bool:
    return task.learner in NETWORKS or "draws" in LEARNER_DEFAULTS[task.learner]


def _check_private_values(task: DictionaryTask) -> None:
    """A value that would stop every member once they have begun is refused before anybody signs."""
    path = f"tasks.{task.name}.parameters"
    if "family" in task.parameters:
        Field(f"{path}.family", task.parameters["family"]).word(DICTIONARY_FAMILIES)
    if "private_iterations" in task.parameters:
        Field(f"{path}.private_iterations", task.parameters["private_iterations"]).whole(1, 10_000)


def _check_learning_values(task: LearningTask) -> None:
    """Bins, encoding and layers likewise: what cannot be trained is refused before anybody signs."""
    path, _ = f"tasks.{task.name}.parameters", task.max_bins
    if "encoding" in task.parameters:
        Field(f"{path}.encoding", task.parameters["encoding"]).word(ENCODINGS)
    if "hidden_layer_sizes" in task.parameters:
        field = Field(f"{path}.hidden_layer_sizes", task.parameters["hidden_layer_sizes"])
        if len(widths := field.items()) > _MOST_LAYERS:
            raise field.refused(f"a list of at most {_MOST_LAYERS} widths")
        for width in widths:
            width.whole(1, _WIDEST_LAYER)


def _parameters(field: Field) -> dict[str, ParameterValue]:
    """Parameters as they stand in an agreement."""
    return field.parameters(listed=("hidden_layer_sizes",))


def _agreed_most_numbers(task: DictionaryTask) -> int:
    """How many numbers an agreement lets exact sums show. Raise AgreementError unless that is a whole number from 1 on."""
    agreed = task.parameters.get("most_numbers", MOST_NUMBERS)
    if not isinstance(agreed, int) or isinstance(agreed, bool) or agreed < 1:
        raise AgreementError(f"`tasks.{task.name}.parameters.most_numbers` is not a whole number.", "Use 1 or more.")
    return agreed


def _known_parameters(task: Task) -> frozenset[str]:
    match task:
        case ModelsTask():
            return frozenset(LEARNER_DEFAULTS[task.learner]) - _DECIDED_ELSEWHERE
        case CensusTask():
            return frozenset(LEARNER_DEFAULTS["RecordPerturbation"]) - _DECIDED_ELSEWHERE
        case DictionaryTask() if task.is_private:
            return PRIVATE_DICTIONARY_PARAMETERS
        case DictionaryTask():
            return (frozenset({*DICTIONARY_DEFAULTS, *EARLIER_DICTIONARY_NAMES}) - _DECIDED_ELSEWHERE) | {
                "most_numbers"
            }
        case LearningTask(method="boosting"):
            return frozenset({"max_bins"})
        case LearningTask(method="network"):
            return frozenset({"encoding", "hidden_layer_sizes"})
        case LearningTask():
            return frozenset(LEARNING_DEFAULTS)
        case _:
            return frozenset()


def task_from(name: str, section: Field) -> Task:
    """The task that a section of an agreement describes. Raise AgreementError unless it describes one."""
    # The kind is looked at first: which fields there are depends on it.
    values = section.value if isinstance(section.value, Mapping) else {}
    kind = values.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise AgreementError(f"`{section.path}.kind` is not a kind of task.", f"Use one of {', '.join(KINDS)}.")
    replaced = _REPLACED_FIELDS.get(kind)
    if replaced in values:
        raise AgreementError(
            f"`{section.path}.{replaced}` is no field of a task any more.",
            "Leave it out: how many shares the noise counts on follows from `threshold` and `dishonest` of [sums]. Say there how many members "
            "may be dishonest; then all sign again.",
        )
    make, required, optional = _READERS[kind]
    task = section.built(
        lambda kind, **fields: make(name, **fields),
        {"kind": Field.text, **required},
        {**optional, "parameters": _parameters},
    )
    _check_delta(task, section.path, is_given="delta" in values)
    return task


def _check_delta(task: Task, path: str, *, is_given: bool) -> None:
    """Raise AgreementError unless there is a δ where the task needs one, and none where it is of no use."""
    needs_delta, faults = "is missing or 0", list[tuple[bool, str, str]]()
    if isinstance(task, DictionaryTask) and task.is_private:
        faults = [
            (
                task.consent,
                "consent` stands beside `epsilon`",
                "Consent is for exact sums, and these are noisy: leave consent out.",
            ),
            (task.delta == 0, f"delta` {needs_delta}", "A private dictionary needs a δ, for example 1e-6."),
        ]
    elif isinstance(task, DictionaryTask):
        remedy = "Add epsilon for noisy sums, or leave delta out for exact ones."
        faults = [(is_given, "delta` stands there without `epsilon`", remedy)]
    elif isinstance(task, LearningTask) and task.method != "one-sum":
        remedy = "Every method but one-sum needs a δ, for example 1e-6."
        faults = [(task.delta == 0, f"delta` {needs_delta}", remedy)]
    elif isinstance(task, LearningTask):
        faults = [(task.delta != 0, "delta` is not 0", "One sum has a pure ε; leave delta out.")]
    for is_fault, problem, remedy in faults:
        if is_fault:
            raise AgreementError(f"`{path}.{problem}.", remedy)


def _columns(value: Field) -> tuple[str, ...]:
    columns = tuple(item.text() for item in value.items())
    if not columns or len(set(columns)) != len(columns):
        raise value.refused("a list of different columns")
    return columns


_EPSILON: Final[dict[str, Reader]] = {"epsilon": Field.epsilon}
_DELTA: Final[dict[str, Reader]] = {"delta": Field.delta}
# Of each kind its class, and the readers of the fields that it must and may have beside `parameters`.
_READERS: Final[dict[str, tuple[Callable[..., Task], dict[str, Reader], dict[str, Reader]]]] = {
    "models": (ModelsTask, {"learner": lambda value: value.word(LEARNER_DEFAULTS), **_EPSILON}, _DELTA),
    "dictionary": (DictionaryTask, {"patterns": whole(1, 10_000)}, {"consent": Field.truth, **_EPSILON, **_DELTA}),
    "learning": (LearningTask, {"method": lambda value: value.word(_METHODS), **_EPSILON}, _DELTA),
    "scaler": (ScalerTask, _EPSILON, _DELTA),
    "census": (CensusTask, {"columns": _columns, **_EPSILON}, {}),
}
KINDS: Final[tuple[str, ...]] = tuple(_READERS)
