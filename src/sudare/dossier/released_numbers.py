"""What there is to see in a release of any kind: numbers with labels, intervals and units, and what is to be said beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from sudare.errors import InvalidParameter, SudareError
from sudare.languages import Language, translated, translator
from sudare.privacy import Release
from sudare.schema import Date, Number
from sudare.schema.columns import level_text
from sudare.statistics.joint_quantiles import BESIDE_GAPS, middles_of_bins
from sudare.statistics.noise_intervals import noise_quantile

DEFAULT_LEVEL: Final = 0.95
COEFFICIENTS: Final = (
    "A coefficient is what a column adds to the score. A number counts as 0 in the middle between its bounds and as 1 at the upper one (or by its declared centre and scale), "
    "a category as 1 where it applies. Positive ones make the named class likelier, or the predicted number larger. "
    "They have noise in them, and no interval is known for it."
)
SHAPES: Final = "Every column adds its shape to the log-odds, here about the mean over its values. Shapes have noise in them, and no interval is known for it."
ALL_OTHERS: Final = "(all others)"
MISSING: Final = "(missing)"
UNKNOWN: Final = "(unknown)"
NOTHING_KNOWN: Final = "Unknown: of variances of small groups nothing is known beyond what the declared bounds allow, which their intervals are."
BELOW_ZERO: Final = "A count below 0 is noise: no exact count is, and its interval begins at 0."
SUM_BELOW_ZERO: Final = "A sum below 0 of numbers that are none is noise: its interval begins at 0."
# How a table calls a number about a column, and what people are told: {column} is the column's name.
_PARTS: Final = {
    "mean": "mean of {column}",
    "sum": "sum of {column}",
    "variance": "variance of {column}",
    "median": "median of {column}",
}
_QUANTILE: Final = "{quantile} quantile of {column}"


class OwnText(str):
    """A cell that is a text of ours, and no name or value of the table."""

    __slots__ = ()

    def said(self, language: Language) -> str:
        """The text in the language."""
        return translated(str(self), language)


class BinText(OwnText):
    """A cell that names a bin: “0 to 3”."""

    __slots__ = ()

    def said(self, language: Language) -> str:
        """The bin in signs, which need no language."""
        return self.replace(" to ", " – ")


class TermText(OwnText):
    """A cell that names a bin of a column of numbers, or that a number is missing: “age=0 to 18”, “age=missing”."""

    __slots__ = ()

    def said(self, language: Language) -> str:
        """The column's name as it is, and the bin in signs."""
        column, _, level = self.rpartition("=")
        return f"{column}={level_cell(level).said(language)}"


def level_cell(level: str) -> OwnText:
    """A bin of a column of numbers, or that one is missing, as a cell."""
    return OwnText(MISSING) if level == "missing" else BinText(level)


@dataclass(frozen=True)
class Heading:
    """What stands above a column: a text of ours, with the name of a column in its gap if it has one; or such a name alone."""

    text: str
    column: str = ""
    quantile: str = ""
    is_name: bool = False

    def said(self, language: Language) -> str:
        """The heading in the language; names stay as they are."""
        if self.is_name:
            return self.text
        if not self.column:
            return translated(self.text.replace("_", " "), language)
        return translator(language)(self.text, column=self.column, quantile=self.quantile)


@dataclass(frozen=True)
class ReleasedNumbers:
    """Columns of equal length; `units` of those that have one; `notes` are sentences; `measured` names the column to draw, if there is one, and `labels` those that say what is drawn.

    `headings` are of columns that are called otherwise than they are shown. Where a cell holds None, a value is missing; but in columns that are
    `undeclared` it stands for all keys that were not selected, and for rows without one, and in those that have intervals for a number of which nothing is known.
    """

    table: Mapping[str, list[Any]]
    units: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    measured: str | None = None
    labels: tuple[str, ...] = ()
    headings: Mapping[str, Heading] = field(default_factory=dict)
    undeclared: frozenset[str] = frozenset()

    def none_text(self, name: str) -> str:
        """What an empty cell of a column stands for, in English."""
        return UNKNOWN if self.is_measured(name) else ALL_OTHERS if name in self.undeclared else MISSING

    def is_measured(self, name: str) -> bool:
        """Whether a column holds numbers that have intervals, or their ends."""
        base = name.removesuffix("_low").removesuffix("_high")
        return all(f"{base}{end}" in self.table for end in ("", "_low", "_high"))

    def heading(self, name: str, language: Language) -> str:
        """What stands above a column, with its unit."""
        said = self.headings.get(name, Heading(name)).said(language)
        return f"{said} ({self.units[name]})" if name in self.units else said


def released_numbers(
    release: Release, by: list[str] | None = None, level: float = DEFAULT_LEVEL
) -> ReleasedNumbers:  # fmt: skip
    """The numbers of a release. Raise InvalidParameter where it has no groups, or its intervals have another level."""
    model = release.model()
    if by and release.learner != "GroupedTable":
        raise InvalidParameter(f"A {release.learner} is not grouped.", "Leave --by out.")
    if hasattr(model, "table"):
        return _of_statistic(release, model, by, level)
    if release.learner == "PrivateStandardScaler":
        return _of_scaler(model)
    if hasattr(model, "shapes"):
        return _of_additive_model(model)
    if hasattr(model, "coef_"):
        return _of_linear_model(model)
    if hasattr(model, "hidden_layer_sizes"):
        return _of_network(model)
    if hasattr(model, "leaves_"):
        return _of_tree(model)
    if release.learner == "PrivateSynthesizer":
        return _of_synthesis(model, level)
    if release.learner == "RecordPerturbation":
        return _of_perturbation(model)
    return _of_tensors(release)


def numbers_or_none(release: Release) -> ReleasedNumbers | None:
    """The numbers of a release; None where they cannot be made here, such as without a package that they need."""
    try:
        return released_numbers(release)
    except SudareError:
        return None


def _of_statistic(release: Release, model: Any, by: list[str] | None, level: float) -> ReleasedNumbers:
    is_drawn = release.learner == "PrivateQuantiles"
    if is_drawn and level != DEFAULT_LEVEL:
        raise InvalidParameter("Intervals of quantiles were drawn with them, for 0.95.", "Leave --level out.")
    table = model.table(by, level) if by else model.table() if is_drawn else model.table(level=level)
    columns = model.declared_.columns
    groups = model.groups_.columns if release.learner == "GroupedTable" else ()
    of_columns = _of_columns(columns, [name for name in table if name not in groups])
    units = {
        name: f"{unit}²" if heading.text == _PARTS["variance"] else unit
        for name, heading in of_columns.items()
        if (unit := _unit(columns[heading.column]))
    }
    names = {name: Heading(name, is_name=True) for name in groups}
    measured = next((name for name in table if f"{name}_low" in table), None)
    labels = tuple(
        name
        for name in table
        if name != "count" and f"{name}_low" not in table and not name.endswith(("_low", "_high"))
    )
    table = _with_whole_quantiles(table, columns, of_columns, is_drawn)
    shown = _with_units(_with_bins(table, columns), columns)
    drawn = columns if is_drawn else getattr(model, "quantile_of", None) or ()
    binned = [name for name in drawn if isinstance(columns[name], Number) and columns[name].bins is not None]
    notes: tuple[str, ...] = (middles_of_bins(binned),) if binned else ()
    if len(binned) < len(drawn):
        notes += (BESIDE_GAPS,)
    if any(
        None in values for name, values in table.items() if of_columns.get(name, Heading("")).text == _PARTS["variance"]
    ):
        notes += (NOTHING_KNOWN,)
    if any(count < 0 for count in table.get("count", ()) if "count_low" in table):
        notes += (BELOW_ZERO,)
    if any(
        value < 0 and columns[heading.column].low >= 0
        for name, heading in of_columns.items()
        if heading.text == _PARTS["sum"] and isinstance(columns[heading.column], Number)
        for value in table[name]
    ):
        notes += (SUM_BELOW_ZERO,)
    return ReleasedNumbers(
        shown, units, notes, measured=measured, labels=labels, headings={**of_columns, **names},
        undeclared=frozenset(name for name in groups if name not in columns),
    )  # fmt: skip


def _of_columns(columns: Mapping[str, Any], names: list[str]) -> dict[str, Heading]:
    """Headings of numbers about one column: its means, sums, variances and quantiles."""
    found = {}
    for name in names:
        part, _, column = name.partition("_")
        if part in _PARTS and column in columns:
            found[name] = Heading(_PARTS[part], column)
        elif part == "quantile" and (at := column.find("_")) >= 0 and column[at + 1 :] in columns:
            found[name] = Heading(_QUANTILE, column[at + 1 :], column[:at])
    return found


def _unit(column: object) -> str:
    """The unit that somebody declared for a column of numbers; dates are shown as dates, which have none."""
    return column.unit or "" if isinstance(column, Number) and not isinstance(column, Date) else ""


def _with_bins(table: Mapping[str, list[Any]], columns: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The table with bins of numbers known as such, where rows are grouped by them or counted in them."""

    def shown(name: str, row: int, value: Any) -> Any:
        column = columns.get(table["column"][row] if name == "value" and "column" in table else name)
        return BinText(value) if isinstance(value, str) and isinstance(column, Number) else value

    return {name: [shown(name, row, value) for row, value in enumerate(values)] for name, values in table.items()}


def _with_whole_quantiles(
    table: Mapping[str, list[Any]], columns: Mapping[str, Any], of_columns: Mapping[str, Heading], is_drawn: bool
) -> dict[str, list[Any]]:
    """The table with quantiles of whole columns, and the ends of their intervals, as whole numbers; the middle of a bin may lie between two of them."""

    def is_whole(name: str) -> bool:
        return isinstance(columns.get(name), Number) and bool(columns[name].whole)

    def shown(name: str, row: int, value: Any) -> Any:
        base = name.removesuffix("_low").removesuffix("_high")
        heading = of_columns.get(base, Heading(""))
        about = table["column"][row] if is_drawn else heading.column
        is_quantile = base == "value" if is_drawn else heading.text in (_PARTS["median"], _QUANTILE)
        counts = is_quantile and is_whole(about) and isinstance(value, float) and value.is_integer()
        return int(value) if counts else value

    return {name: [shown(name, row, value) for row, value in enumerate(values)] for name, values in table.items()}


def _with_units(table: Mapping[str, list[Any]], columns: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The table with a column of units after its column of columns, where one of them has a unit."""
    named = table.get("column")
    units = [] if named is None else [_unit(columns.get(name)) for name in named]
    if not any(units):
        return dict(table)
    return {
        "column": list(named or []),
        "unit": units,
        **{name: values for name, values in table.items() if name != "column"},
    }


def _of_scaler(model: Any) -> ReleasedNumbers:
    table = {
        "column": list(model.declared_.features),
        "mean": model.mean_.tolist(),
        "standard_deviation": model.scale_.tolist(),
    }
    columns = model.declared_.columns
    # Means of dates are not shown as dates here: they belong to deviations in the same unit.
    units = [
        _since_first(column) if isinstance(column, Date) else _unit(column)
        for column in map(columns.get, table["column"])
    ]
    shown = {"column": table.pop("column"), **({"unit": units} if any(units) else {}), **table}
    return ReleasedNumbers(shown, notes=(_noise_of_scaler(model),), measured="mean", labels=("column",))


def _noise_of_scaler(model: Any) -> str:
    """That there are no intervals, and how large the noise of a mean is, in per cent of half the width of its column's bounds."""
    rows = model.n_rows_ or 1
    share = 100 * noise_quantile(model.plan(rows, model.declared_).mechanism, DEFAULT_LEVEL) / rows
    percent = f"{share:.2g}" if share < 100 else "100"
    return f"Means and standard deviations have noise in them, and no intervals are shown: with probability 0.95 the noise of a mean is about {percent} % of half the width of its column's bounds at most."


def _since_first(column: Date) -> OwnText:
    """What a number of units of a column of dates counts."""
    units = f"{column.unit}s"
    return OwnText(f"{units} since {column.first}")


def coefficient_names(model: Any) -> list[str]:
    """Names of the encoded columns of a linear model or network, in their order."""
    declared = model.declared_
    return list(
        declared.names(getattr(model, "used_encoding", model.encoding))
        if model.schema_digest_ is not None
        else declared.features
    )


def _of_linear_model(model: Any) -> ReleasedNumbers:
    coefficients = np.atleast_2d(model.coef_)
    intercepts = np.atleast_1d(model.intercept_)
    terms = [OwnText("(intercept)"), *_terms(model)]
    rows = [[float(intercept), *map(float, line)] for intercept, line in zip(intercepts, coefficients, strict=True)]
    labels = _labels(model, len(rows))
    table: dict[str, list[Any]] = {} if labels is None else {"class": [one for one in labels for _ in terms]}
    table |= {"term": terms * len(rows), "coefficient": [value for line in rows for value in line]}
    return ReleasedNumbers(table, notes=(COEFFICIENTS,), measured="coefficient", labels=tuple(table)[:-1])


def _terms(model: Any) -> list[str]:
    """The encoded columns as cells: bins of numbers, and that one is missing, are words of ours."""
    numbers = tuple(f"{name}=" for name, column in model.declared_.features.items() if isinstance(column, Number))
    return [TermText(name) if name.startswith(numbers) else name for name in coefficient_names(model)]


def _of_additive_model(model: Any) -> ReleasedNumbers:
    labels = _labels(model, len(model.parameters_)) or []
    table: dict[str, list[Any]] = {"class": [], "column": [], "value": [], "log_odds": []}
    for place, label in enumerate(labels):
        for name, shape in model.shapes(place).items():
            table["class"] += [label] * len(shape.bins)
            table["column"] += [name] * len(shape.bins)
            is_number = isinstance(model.declared_.columns[name], Number)
            table["value"] += [level_cell(level) for level in shape.bins] if is_number else shape.bins
            table["log_odds"] += shape.values.tolist()
    return ReleasedNumbers(table, notes=(SHAPES,), measured="log_odds", labels=("class", "column", "value"))


def _labels(model: Any, outputs: int) -> list[str] | None:
    """The class that each row of coefficients is for; None where they predict a number."""
    classes = getattr(model, "classes_", None)
    if classes is None:
        return None
    # As the schema writes them: booleans in small letters.
    return [level_text(label) for label in np.asarray(classes)[0 if outputs > 1 else 1 :].tolist()]


def layers_of(model: Any) -> tuple[tuple[Any, Any], ...]:
    """Weights and biases of a network's layers, first layer first."""
    from sudare.neural.training_method_base import layered

    outputs = len(model.classes_) if hasattr(model, "classes_") else 1
    sizes = (len(coefficient_names(model)), *map(int, model.hidden_layer_sizes), outputs)
    layers: tuple[tuple[Any, Any], ...] = layered(model.parameters_, sizes)
    return layers


def _of_network(model: Any) -> ReleasedNumbers:
    layers = layers_of(model)
    names = [*(OwnText(f"hidden {number + 1}") for number in range(len(layers) - 1)), OwnText("output")]
    table: dict[str, list[Any]] = {
        "layer": names,
        "inputs": [len(weights) for weights, _ in layers],
        "neurons": [len(bias) for _, bias in layers],
        "parameters": [weights.size + bias.size for weights, bias in layers],
    }
    return ReleasedNumbers(
        table, notes=("Inputs are encoded columns; the numbers themselves are in `sudare inspect --json`.",)
    )


def _of_tree(model: Any) -> ReleasedNumbers:
    trained = [leaf for leaf in model.leaves_ if leaf.trained]
    table: dict[str, list[Any]] = {
        "array": [leaf.name for leaf in trained],
        "shape": [" × ".join(map(str, leaf.shape)) for leaf in trained],
        "parameters": [leaf.size for leaf in trained],
    }
    return ReleasedNumbers(table, notes=("The numbers themselves are in `sudare inspect --json`.",))


def _of_synthesis(model: Any, level: float) -> ReleasedNumbers:
    drawn = "Rows are drawn with `sudare sample`."
    if model.engine == "adaptive":
        errors = model.pair_errors(level)
        counted = [OwnText("yes" if each else "no") for each in errors["counted"]]
        table = {**{name: errors[name].tolist() for name in errors}, "counted": counted}
        said = f"A distance is an estimate of the share of rows that would have to change for the pair to be right; all bounds hold together with probability {level:.4g}."
        return ReleasedNumbers(table, notes=(said, drawn), measured="bound", labels=("first", "second"))
    pairs = [tuple(pair) for pair in model.pairs_]
    table = {"first": [first for first, _ in pairs], "second": [second for _, second in pairs]}
    noise = f"Noise on a count has the scale {model.noise_scale_:.3g}, if it had the whole budget."
    return ReleasedNumbers(table, notes=("Pairs of columns that were counted together.", noise, drawn))


def _of_perturbation(model: Any) -> ReleasedNumbers:
    perturbed = model.table_
    found = {name: perturbed.perturbation(name) for name in perturbed.names}
    table = {
        "column": list(found),
        "noise": [each.kind for each in found.values()],
        "epsilon": [float(each.epsilon) for each in found.values()],
    }
    rows = f"{perturbed.rows:,} perturbed rows. Their distribution is reconstructed with `sudare reconstruct`."
    return ReleasedNumbers(table, notes=(rows, *model.statement().lines))


def _of_tensors(release: Release) -> ReleasedNumbers:
    tensors = release.content.tensors
    table = {
        "tensor": list(tensors),
        "shape": [" × ".join(map(str, tensor.shape)) for tensor in tensors.values()],
        "type": [str(tensor.dtype) for tensor in tensors.values()],
    }
    return ReleasedNumbers(table, notes=("The numbers themselves are in `sudare inspect --json`.",))
