"""What members agree to do together: one frozen value for each task, with the ε and δ it may cost each member."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal

from sudare.consortium.agreement.document_fields import Field, Scalar
from sudare.consortium.tasks.task_defaults import (
    DICTIONARY_DEFAULTS,
    EARLIER_DICTIONARY_NAMES,
    LEARNER_DEFAULTS,
    LEARNING_DEFAULTS,
    NETWORKS,
    current_parameters,
)
from sudare.errors import AgreementError
from sudare.privacy.ledger_chain import canonical_json

Kind = Literal["models", "dictionary", "learning", "scaler", "census"]
Method = Literal["one-sum", "descent"]
Parameters = Mapping[str, Scalar]

# Noisy sums need no search, tolerance or priors: of the estimator's parameters these are left.
PRIVATE_DICTIONARY_PARAMETERS: Final = frozenset({"dtype", "family", "private_iterations"})
PRIVATE_FAMILIES: Final = ("sparse_gaussian", "diagonal_gaussian")
# By the task's own fields, by the agreement, or by nobody: a cluster and a checkpoint's path are each member's own.
_DECIDED_ELSEWHERE: Final = frozenset({"bounds", "checkpoint", "cluster", "hide", "k", "private_iterations", "verbose"})
_METHODS: Final = ("one-sum", "descent")
# What earlier versions asked for in tasks of these kinds; the agreement's own numbers say it now (`Agreement.colluders`).
_REPLACED_FIELDS: Final = {"dictionary": "colluders", "learning": "tolerance", "scaler": "tolerance"}


@dataclass(frozen=True)
class Task:
    """One thing to do together. `parameters` are those of the learner, as public as the rest of the agreement."""

    name: str
    parameters: Parameters = field(default_factory=dict, kw_only=True)

    kind: ClassVar[Kind]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(dict(sorted(self.parameters.items()))))

    def __hash__(self) -> int:
        return hash(self.digest)

    def __reduce__(self) -> tuple[Any, ...]:
        return task_from, (self.name, Field("", self.to_dict()))

    @property
    def cost(self) -> tuple[float, float]:
        """The ε and δ that stand in the agreement; zeros for sums that are exact. What is charged: `task_learners.promise_of`."""
        return 0.0, 0.0

    @property
    def digest(self) -> str:
        """SHA-256 of name, kind and every field."""
        return hashlib.sha256(canonical_json([self.name, self.to_dict()]).encode()).hexdigest()

    @property
    def has_sums(self) -> bool:
        """Whether members add something up, with or without noise."""
        return self.has_noisy_sums

    @property
    def has_noisy_sums(self) -> bool:
        """Whether every member adds a share of noise to its sums."""
        return False

    def facts(self) -> dict[str, Any]:
        """Its own fields in plain types."""
        return {}

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
    __hash__ = Task.__hash__

    @property
    def cost(self) -> tuple[float, float]:
        return self.epsilon, self.delta

    def facts(self) -> dict[str, Any]:
        return {"learner": self.learner, "epsilon": self.epsilon, "delta": self.delta}


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
    __hash__ = Task.__hash__

    @property
    def is_private(self) -> bool:
        """Whether its sums are noisy and charged for, rather than exact and disclosed."""
        return self.epsilon is not None

    @property
    def has_sums(self) -> bool:
        return True

    @property
    def has_noisy_sums(self) -> bool:
        return self.is_private

    @property
    def cost(self) -> tuple[float, float]:
        return (0.0, 0.0) if self.epsilon is None else (self.epsilon, self.delta)

    def facts(self) -> dict[str, Any]:
        if self.epsilon is None:
            return {"patterns": self.patterns, **({"consent": True} if self.consent else {})}
        return {"patterns": self.patterns, "epsilon": self.epsilon, "delta": self.delta}


@dataclass(frozen=True)
class LearningTask(Task):
    """One private model of all members' records."""

    method: Method
    epsilon: float
    delta: float = 0.0

    kind: ClassVar[Kind] = "learning"
    __hash__ = Task.__hash__

    @property
    def has_noisy_sums(self) -> bool:
        return True

    @property
    def cost(self) -> tuple[float, float]:
        return self.epsilon, self.delta

    def facts(self) -> dict[str, Any]:
        return {"method": self.method, "epsilon": self.epsilon, "delta": self.delta}


@dataclass(frozen=True)
class ScalerTask(Task):
    """Private means and scales of all members' records."""

    epsilon: float
    delta: float = 0.0

    kind: ClassVar[Kind] = "scaler"
    __hash__ = Task.__hash__

    @property
    def has_noisy_sums(self) -> bool:
        return True

    @property
    def cost(self) -> tuple[float, float]:
        return self.epsilon, self.delta

    def facts(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "delta": self.delta}


@dataclass(frozen=True)
class CensusTask(Task):
    """Perturbed records of every member, from which all reconstruct distributions."""

    columns: tuple[str, ...]
    epsilon: float

    kind: ClassVar[Kind] = "census"
    __hash__ = Task.__hash__

    @property
    def cost(self) -> tuple[float, float]:
        return self.epsilon, 0.0

    def facts(self) -> dict[str, Any]:
        return {"columns": list(self.columns), "epsilon": self.epsilon}


def check_parameters(task: Task) -> None:
    """Raise AgreementError unless every parameter is one that the task's learner takes and the agreement leaves open."""
    if isinstance(task, ModelsTask) and task.learner not in LEARNER_DEFAULTS:
        raise AgreementError(
            f"`tasks.{task.name}.learner` is not one of {', '.join(LEARNER_DEFAULTS)}.", "Correct this field."
        )
    known = _known_parameters(task)
    learner = task.learner if isinstance(task, ModelsTask) else ""
    for name in current_parameters(task.name, learner, task.parameters):
        if name not in known:
            takes = f"It takes: {', '.join(sorted(known))}." if known else "It takes none."
            raise AgreementError(f"`tasks.{task.name}.parameters.{name}` is not a parameter of this task.", takes)
    if isinstance(task, DictionaryTask) and task.is_private:
        _check_private_values(task)
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
        Field(f"{path}.family", task.parameters["family"]).word(PRIVATE_FAMILIES)
    if "private_iterations" in task.parameters:
        Field(f"{path}.private_iterations", task.parameters["private_iterations"]).whole(1, 10_000)


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
        case LearningTask():
            return frozenset(LEARNING_DEFAULTS)
        case _:
            return frozenset()


def task_from(name: str, section: Field) -> Task:
    """The task that a section of an agreement describes."""
    # The kind is looked at first: which fields there are depends on it.
    kind = section.value.get("kind") if isinstance(section.value, Mapping) else None
    if not isinstance(kind, str) or kind not in _READERS:
        raise AgreementError(f"`{section.path}.kind` is not a kind of task.", f"Use one of {', '.join(_READERS)}.")
    replaced = _REPLACED_FIELDS.get(kind)
    if isinstance(section.value, Mapping) and replaced in section.value:
        raise AgreementError(
            f"`{section.path}.{replaced}` is no field of a task any more.",
            "Leave it out: how many shares the noise counts on follows from `threshold` and `dishonest` of [sums]. Say there how many members "
            "may be dishonest; then all sign again.",
        )
    return _READERS[kind](name, section)


def _parameters(fields: Mapping[str, Field]) -> Parameters:
    return fields["parameters"].scalars() if "parameters" in fields else {}


def _delta(fields: Mapping[str, Field]) -> float:
    return fields["delta"].delta() if "delta" in fields else 0.0


def _models(name: str, section: Field) -> Task:
    fields = section.table(("kind", "learner", "epsilon"), ("delta", "parameters"))
    learner = fields["learner"].word(LEARNER_DEFAULTS)
    return ModelsTask(name, learner, fields["epsilon"].epsilon(), _delta(fields), parameters=_parameters(fields))


def _dictionary(name: str, section: Field) -> Task:
    fields = section.table(("kind", "patterns"), ("consent", "epsilon", "delta", "parameters"))
    consent = "consent" in fields and fields["consent"].truth()
    patterns, parameters = fields["patterns"].whole(1, 10_000), _parameters(fields)
    if "epsilon" not in fields:
        if "delta" in fields:
            raise AgreementError(
                f"`{section.path}.delta` stands there without `epsilon`.",
                "Add epsilon for noisy sums, or leave delta out for exact ones.",
            )
        return DictionaryTask(name, patterns, consent, parameters=parameters)
    if consent:
        raise AgreementError(
            f"`{section.path}.consent` stands beside `epsilon`.",
            "Consent is for exact sums, and these are noisy: leave consent out.",
        )
    delta = _delta(fields)
    if delta == 0:
        raise AgreementError(
            f"`{section.path}.delta` is missing or 0.", "A private dictionary needs a δ, for example 1e-6."
        )
    return DictionaryTask(name, patterns, False, fields["epsilon"].epsilon(), delta, parameters=parameters)


def _learning(name: str, section: Field) -> Task:
    fields = section.table(("kind", "method", "epsilon"), ("delta", "parameters"))
    method: Method = "one-sum" if fields["method"].word(_METHODS) == "one-sum" else "descent"
    delta = _delta(fields)
    if method == "descent" and delta == 0:
        raise AgreementError(f"`{section.path}.delta` is missing.", "Gradient descent needs a δ, for example 1e-6.")
    if method == "one-sum" and delta != 0:
        raise AgreementError(f"`{section.path}.delta` is not 0.", "One sum has a pure ε; leave delta out.")
    return LearningTask(name, method, fields["epsilon"].epsilon(), delta, parameters=_parameters(fields))


def _scaler(name: str, section: Field) -> Task:
    fields = section.table(("kind", "epsilon"), ("delta", "parameters"))
    return ScalerTask(name, fields["epsilon"].epsilon(), _delta(fields), parameters=_parameters(fields))


def _census(name: str, section: Field) -> Task:
    fields = section.table(("kind", "columns", "epsilon"), ("parameters",))
    columns = tuple(item.text() for item in fields["columns"].items())
    if not columns or len(set(columns)) != len(columns):
        raise fields["columns"].refused("a list of different columns")
    return CensusTask(name, columns, fields["epsilon"].epsilon(), parameters=_parameters(fields))


_READERS: Final[dict[str, Callable[[str, Field], Task]]] = {
    "models": _models,
    "dictionary": _dictionary,
    "learning": _learning,
    "scaler": _scaler,
    "census": _census,
}
KINDS: Final[tuple[str, ...]] = tuple(_READERS)
