"""What can be asked for, as data: options of the shell and forms of the page are made from it, and estimators are.

Type, default and choices of a field come from the learner's own constructor; only the words about it are here.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from sudare.errors import InvalidParameter, SudareError, UnknownName
from sudare.privacy.learner_registry import learner_class
from sudare.requests.declared_parameters import FieldType, choices_of, type_of
from sudare.requests.parameter_help import LEFT_OUT, WORDS, FieldWords

if TYPE_CHECKING:
    from sudare.schema import Schema

Target = Literal["label", "number", "none"]
TARGET: Final = "target"


@dataclass(frozen=True)
class Field:
    """One value that can be chosen: `name` is the learner's parameter, `option` its spelling in the shell."""

    name: str
    option: str
    type: FieldType
    default: Any
    choices: tuple[str, ...]
    help: str
    # Learners that have the parameter; a kind with several chooses one by the target.
    applies: tuple[str, ...]
    # Which columns of the schema it can name: "number", "category", "any", "undeclared"; empty where it names none.
    columns: str = ""

    @property
    def is_repeated(self) -> bool:
        """Whether several values can be given."""
        return self.type.is_repeated


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of release: which learner makes it, by the target it is asked to predict, and what can be chosen."""

    name: str
    learners: Mapping[Target, str]
    title: str
    # Words that differ from those of other kinds.
    words: Mapping[str, FieldWords] = field(default_factory=dict)
    # Parameters of its learners that have one allowed value, which nobody is asked for.
    fixed: tuple[str, ...] = ()

    @property
    def is_model(self) -> bool:
        """Whether it predicts a target."""
        return "none" not in self.learners or len(self.learners) > 1

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the learners, each once."""
        return tuple(dict.fromkeys(self.learners.values()))

    def learner(self, schema: Schema) -> str:
        """The learner for this target. Raise InvalidParameter where the kind cannot predict it."""
        target = target_of(schema)
        if "none" in self.learners and not self.is_model:
            return self.learners["none"]
        if target not in self.learners:
            needs = {"label": "a label (classes)", "number": "a number", "none": "no target"}
            raise InvalidParameter(
                f"A release of kind '{self.name}' predicts {' or '.join(needs[one] for one in self.learners if one != 'none')}, and the schema declares {needs[target]} as its target.",
                "Name another column with --target, declare the target in the schema, or choose another kind.",
            )
        return self.learners[target]

    def check_target(self, schema: Schema, target: str | None) -> None:
        """Raise InvalidParameter where a column is named that the kind cannot predict, whatever it were declared as."""
        from sudare.schema.columns import Category, Label

        column = None if target is None else schema.columns.get(target)
        if isinstance(column, Category | Label) and self.is_model and "label" not in self.learners:
            raise InvalidParameter(
                f"A release of kind '{self.name}' predicts a number, and column {target!r} holds categories.",
                "Name a column of numbers with --target, or choose a kind that predicts classes.",
            )

    def targets(self, schema: Schema) -> list[str]:
        """The columns that the kind can predict; none where it predicts nothing."""
        return [name for name in schema.columns if self.is_model and self._can_predict(name, schema)]

    def _can_predict(self, name: str, schema: Schema) -> bool:
        try:
            self.check_target(schema, name)
            self.learner(with_target(schema, name))
        except SudareError:
            return False
        return True

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """What can be chosen, in the order of the constructors; the target comes first."""
        found: dict[str, Field] = {}
        if self.is_model:
            words = WORDS[TARGET]
            found[TARGET] = Field(
                TARGET, words.option, FieldType.COLUMN, None, (), words.help, self.names, words.columns
            )
        for learner in self.names:
            for each in self._fields_of(learner):
                known = found.get(each.name)
                found[each.name] = each if known is None else replace(known, applies=(*known.applies, learner))
        return tuple(found.values())

    def _fields_of(self, learner: str) -> list[Field]:
        made = learner_class(learner)
        fields = []
        for parameter in inspect.signature(made).parameters.values():
            if parameter.name in LEFT_OUT or parameter.name in self.fixed:
                continue
            words = self.words.get(parameter.name, WORDS[parameter.name])
            fields.append(
                Field(
                    parameter.name,
                    words.option,
                    type_of(parameter.name, str(parameter.annotation)),
                    parameter.default,
                    choices_of(made, parameter.name, str(parameter.annotation)),
                    words.help,
                    (learner,),
                    words.columns,
                )
            )
        return fields

    def field(self, name: str) -> Field:
        """The field of this name. Raise UnknownName where the kind has none."""
        for each in self.fields:
            if each.name == name:
                return each
        raise UnknownName(
            f"A release of kind '{self.name}' has no {_shown_option(name)}.",
            f"It takes {', '.join(each.option for each in self.fields)}.",
        )


def _statistic(name: str, learner: str, title: str, delta: str | None = None, fixed: tuple[str, ...] = ()) -> Kind:
    """A kind without a target; `delta` says what its δ is for where that is no Gaussian noise alone."""
    words = {} if delta is None else {"delta": FieldWords("--delta", delta)}
    return Kind(name, MappingProxyType({"none": learner}), title, words, fixed)


def _model(name: str, title: str, words: Mapping[str, FieldWords] | None = None, **learners: str) -> Kind:
    chosen: Any = MappingProxyType(learners)
    return Kind(name, chosen, title, words or {})


KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            _statistic(
                "mean", "PrivateMean", "Means of all declared number columns",
                delta="The δ of the guarantee; above 0 the noise is Gaussian where columns are many. It is charged whatever the noise is.",
            ),
            _statistic("histogram", "PrivateHistogram", "How often each value or bin of every declared column occurs"),
            _statistic(
                "table", "GroupedTable", "Counts, means, variances and quantiles by group",
                delta="The δ of the guarantee; above 0 the noise is Gaussian, or δ pays for finding the values of columns that nobody declared.",
            ),
            # Quantiles are drawn with a pure ε: their learner takes no other δ than 0.
            _statistic("quantiles", "PrivateQuantiles", "Medians and other quantiles, with intervals", fixed=("delta",)),
            _statistic("scaler", "PrivateStandardScaler", "Means and standard deviations, to scale columns with"),
            _model("logistic", "Logistic regression: the probability of each class", label="PrivateLogisticRegression"),
            _model("svc", "Linear classifier with a smoothed hinge loss", label="PrivateLinearSVC"),
            _model(
                "additive", "Additive classifier: a shape for every column, whose sum tells the probability of each class",
                label="PrivateAdditiveClassifier",
            ),
            _model("ridge", "Ridge regression of a number", number="PrivateRidge"),
            _model(
                "gibbs", "One draw from a Gibbs posterior: of a classifier, a regression, or means where there is no target",
                label="GibbsLogisticRegression", number="GibbsRidge", none="GibbsMean",
            ),
            _model(
                "network", "Neural network, trained with noise in every step",
                label="PrivateMLPClassifier", number="PrivateMLPRegressor",
            ),
            Kind(
                "perturbation", MappingProxyType({"none": "RecordPerturbation"}), "Every record, randomised before it leaves",
                MappingProxyType({"epsilon": FieldWords("--epsilon", "The local ε of a record, instead of --k.")}),
            ),
            _statistic("synthesis", "PrivateSynthesizer", "A synthetic table, to draw rows of nobody from"),
        )
    }
)  # fmt: skip

# What is asked for, within a sentence.
_KIND_IN_A_SENTENCE: Final = {
    "mean": "column means",
    "histogram": "value counts",
    "table": "grouped table",
    "scaler": "means and deviations",
    "logistic": "logistic regression",
    "svc": "linear classifier",
    "additive": "additive classifier",
    "ridge": "ridge regression",
    "gibbs": "Gibbs draw",
    "network": "neural network",
    "perturbation": "perturbed records",
    "synthesis": "synthetic table",
}


def kind_in_a_sentence(name: str) -> str:
    """What a request of this kind asks for; the name itself where there is no such kind."""
    return _KIND_IN_A_SENTENCE.get(name, name)


def kinds_for(schema: Schema) -> Mapping[str, Kind]:
    """The kinds of release that a schema allows: networks protect records, and no persons."""
    return {name: kind for name, kind in KINDS.items() if name != "network" or schema.person is None}


def epsilon_fields(kind: Kind) -> tuple[str, ...]:
    """The fields that say how much a release may reveal: ε, or k where linking is what counts."""
    return tuple(each.name for each in kind.fields if each.name in ("epsilon", "k"))


def kind_named(name: str) -> Kind:
    """The kind of this name. Raise UnknownName where there is none."""
    if name not in KINDS:
        raise UnknownName(f"No kind of release is called {name[:64]!r}.", f"There are: {', '.join(KINDS)}.")
    return KINDS[name]


def title_of(learner: str) -> str:
    """What a learner makes, in the words of its kind; its name where it is of none."""
    return next((kind.title for kind in KINDS.values() if learner in kind.names), learner)


def target_of(schema: Schema) -> Target:
    """What the schema's target is: a label, a number, or none."""
    if schema.target is None:
        return "none"
    return "label" if schema.label is not None else "number"


def with_target(schema: Schema, target: str | None) -> Schema:
    """The schema with this target: a category becomes the label, an earlier label a category. Raise SchemaError where the column cannot be one."""
    from sudare.errors import SchemaError
    from sudare.schema.columns import Category, Label

    if target is None or target == schema.target:
        return schema
    if target not in schema.columns:
        raise SchemaError(f"The schema declares no column {target[:64]!r}.", "Name a declared column as the target.")
    columns = dict(schema.columns)
    for name, column in schema.columns.items():
        if isinstance(column, Label):
            columns[name] = Category(column.classes, column.missing)
    chosen = columns[target]
    if isinstance(chosen, Category):
        if chosen.other is not None:
            raise SchemaError(
                f"The target {target!r} has a value for all others, which classes cannot have.",
                "Declare the column as a label in the schema.",
            )
        columns[target] = Label(chosen.values, chosen.missing)
    # What is predicted is determined by no column any more.
    maps = {name: values for name, values in schema.maps.items() if name != target}
    return replace(schema, columns=columns, target=target, maps=maps)


def make(kind: str | Kind, schema: Schema, values: Mapping[str, Any], **held: Any) -> Any:
    """An unfitted estimator of this kind with these values; `held` is what no request says: account, cluster, checkpoint.

    Raise UnknownName or InvalidParameter where a value belongs to another kind or target.
    """
    chosen = kind_named(kind) if isinstance(kind, str) else kind
    given = {name: value for name, value in values.items() if value is not None}
    for name in given:
        chosen.field(name)
    if chosen.name not in kinds_for(schema):
        raise InvalidParameter(
            "Networks protect records, and the schema declares persons with several rows.",
            "Use a model that protects persons, such as `sudare fit logistic`; or give one row a person, and declare none.",
        )
    chosen.check_target(schema, given.get(TARGET))
    declared = with_target(schema, given.pop(TARGET, None))
    learner = chosen.learner(declared)
    for name, value in list(given.items()):
        asked = chosen.field(name)
        if learner not in asked.applies:
            raise InvalidParameter(
                f"{asked.option} does not apply here: a release of kind '{chosen.name}' with this target is a {learner}.",
                f"Leave {asked.option} out.",
            )
        if asked.type in (FieldType.ONE_OR_SEVERAL, FieldType.BINS) and isinstance(value, list) and len(value) == 1:
            given[name] = value[0]
    if "quantiles" in given:
        given["quantiles"] = sorted(given["quantiles"])
    return learner_class(learner)(schema=declared, **given, **held)


def _shown_option(name: str) -> str:
    words = WORDS.get(name)
    return words.option if words is not None else f"value {name[:64]!r}"
