"""What there is to see in a release of any kind: numbers with labels, intervals and units, and what is to be said beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from sudare.errors import InvalidParameter, SudareError
from sudare.privacy import Release
from sudare.schema import Number

DEFAULT_LEVEL: Final = 0.95
COEFFICIENTS: Final = "Coefficients are of encoded columns: docs/linear.md says how they are encoded. They have noise in them, and no interval is known for it."
SHAPES: Final = "Every column adds its shape to the log-odds, here about the mean over its values. Shapes have noise in them, and no interval is known for it."
_PARTS: Final = ("mean", "sum", "variance", "median", "value")


@dataclass(frozen=True)
class ReleasedNumbers:
    """Columns of equal length; `units` of those that have one; `notes` are sentences; `measured` names the column to draw, if there is one, and `labels` those that say what is drawn."""

    table: Mapping[str, list[Any]]
    units: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    measured: str | None = None
    labels: tuple[str, ...] = ()


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
        return _of_synthesis(model)
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
    units = {
        name: column.unit
        for name in table
        for part in _PARTS
        for known, column in columns.items()
        if name == f"{part}_{known}" and isinstance(column, Number) and column.unit and part != "variance"
    }
    measured = next((name for name in table if f"{name}_low" in table), None)
    labels = tuple(
        name
        for name in table
        if name != "count" and f"{name}_low" not in table and not name.endswith(("_low", "_high"))
    )
    return ReleasedNumbers(_with_units(table, columns), units, measured=measured, labels=labels)


def _with_units(table: Mapping[str, list[Any]], columns: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The table with a column of units after its column of columns, where one of them has a unit."""
    named = table.get("column")
    units = [] if named is None else [getattr(columns.get(name), "unit", None) or "" for name in named]
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
    return ReleasedNumbers(_with_units(table, model.declared_.columns), measured="mean", labels=("column",))


def coefficient_names(model: Any) -> list[str]:
    """Names of the encoded columns of a linear model or network, in their order."""
    declared = model.declared_
    return list(declared.names(model.encoding) if model.schema_digest_ is not None else declared.features)


def _of_linear_model(model: Any) -> ReleasedNumbers:
    coefficients = np.atleast_2d(model.coef_)
    intercepts = np.atleast_1d(model.intercept_)
    terms = ["(intercept)", *coefficient_names(model)]
    rows = [[float(intercept), *map(float, line)] for intercept, line in zip(intercepts, coefficients, strict=True)]
    labels = _labels(model, len(rows))
    table: dict[str, list[Any]] = {} if labels is None else {"class": [one for one in labels for _ in terms]}
    table |= {"term": terms * len(rows), "coefficient": [value for line in rows for value in line]}
    return ReleasedNumbers(table, notes=(COEFFICIENTS,), measured="coefficient", labels=tuple(table)[:-1])


def _of_additive_model(model: Any) -> ReleasedNumbers:
    labels = _labels(model, len(model.parameters_)) or []
    table: dict[str, list[Any]] = {"class": [], "column": [], "value": [], "log_odds": []}
    for place, label in enumerate(labels):
        for name, shape in model.shapes(place).items():
            table["class"] += [label] * len(shape.bins)
            table["column"] += [name] * len(shape.bins)
            table["value"] += shape.bins
            table["log_odds"] += shape.values.tolist()
    return ReleasedNumbers(table, notes=(SHAPES,), measured="log_odds", labels=("class", "column", "value"))


def _labels(model: Any, outputs: int) -> list[str] | None:
    """The class that each row of coefficients is for; None where they predict a number."""
    classes = getattr(model, "classes_", None)
    if classes is None:
        return None
    return [str(label) for label in (classes if outputs > 1 else classes[1:])]


def layers_of(model: Any) -> tuple[tuple[Any, Any], ...]:
    """Weights and biases of a network's layers, first layer first."""
    from sudare.neural.training_methods import layered

    outputs = len(model.classes_) if hasattr(model, "classes_") else 1
    sizes = (len(coefficient_names(model)), *map(int, model.hidden_layer_sizes), outputs)
    layers: tuple[tuple[Any, Any], ...] = layered(model.parameters_, sizes)
    return layers


def _of_network(model: Any) -> ReleasedNumbers:
    layers = layers_of(model)
    names = [*(f"hidden {number + 1}" for number in range(len(layers) - 1)), "output"]
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


def _of_synthesis(model: Any) -> ReleasedNumbers:
    pairs = [tuple(pair) for pair in model.pairs_]
    table = {"first": [first for first, _ in pairs], "second": [second for _, second in pairs]}
    noise = f"Noise on a count has the scale {model.noise_scale_:.3g}, if it had the whole budget."
    return ReleasedNumbers(
        table, notes=("Pairs of columns that were counted together.", noise, "Rows are drawn with `sudare sample`.")
    )


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
