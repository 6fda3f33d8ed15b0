"""How far a result would typically be off, from the law of its noise and public facts alone: no record is looked at."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sudare.languages import Language, translated, translator
from sudare.privacy.fit_plan import Calibrated
from sudare.requests.request_kinds import Kind, kind_named
from sudare.schema.columns import Number
from sudare.schema.dates import Date

if TYPE_CHECKING:
    from sudare.statistics.joint_quantiles import End, JointQuantiles

# An error is called typical that is exceeded once in three times.
TYPICAL_LEVEL: Final = 2 / 3


@dataclass(frozen=True)
class ExpectedError:
    """What would be off, by how much in which unit; where nothing can be said from public facts, `size` is None and `what` is a sentence.

    `what` is a text of ours, with gaps for `values`: names of columns and numbers. `whole` is what `size` is to be compared with: the distance between the
    declared bounds, or the records of a group. A unit is somebody's own word and never translated, unless it is ours (`is_own_unit`).
    """

    what: str
    size: float | None = None
    unit: str = ""
    whole: float | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    is_own_unit: bool = False

    def said(self, language: Language = "en") -> str:
        """What would be off, or the sentence, in the language; names stay as they are."""
        return translator(language)(self.what, **self.values) if self.values else translated(self.what, language)

    def said_unit(self, language: Language = "en") -> str:
        """The unit, translated where it is ours."""
        if not self.is_own_unit:
            return self.unit
        word = self.unit.removesuffix("²")
        return translated(word, language) + self.unit.removeprefix(word)

    def told(self, language: Language = "en") -> str:
        """Returns the text with its size: “mean of stay ±0.3 days”."""
        if self.size is None:
            return self.said(language)
        unit = self.said_unit(language)
        return f"{self.said(language)} ±{two_digits(self.size)}{f' {unit}' if unit else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values for programs, in English."""
        return {"what": self.said(), "size": self.size, "unit": self.unit, "whole": self.whole}

    def __str__(self) -> str:
        return self.told()


def expected_errors(kind: str | Kind, estimator: Any, rows: int) -> list[ExpectedError]:
    """Typical errors of what the estimator would release of so many rows: by the noise alone, exceeded once in three times.

    `rows` is a public or declared number, or one that only the owner sees. Quantiles and deviations are for values that lie evenly between their
    bounds, variances too, numbers by group for groups of equal size.
    """
    chosen = kind_named(kind) if isinstance(kind, str) else kind
    found = _BY_LEARNER.get(type(estimator).__name__)
    if found is not None and rows > 0:
        return found(estimator, rows)
    return [ExpectedError(_WORDS[chosen.name] if rows > 0 else _NO_ROWS)]


def two_digits(size: float) -> str:
    """A size in two digits, rounded up, without an exponent where it is a number of every day."""
    if size == 0 or not math.isfinite(size):
        return f"{size:g}"
    step = 10.0 ** (math.floor(math.log10(size)) - 1)
    rounded = math.ceil(size / step - 1e-9) * step
    if rounded < 1e-4 or rounded >= 1e15:
        return f"{rounded:.2g}"
    return f"{rounded:,.0f}" if rounded >= 100 else f"{float(f'{rounded:.2g}'):g}"


def _of_column(what: str, column: str, number: Number, size: float) -> ExpectedError:
    """The error of a number about one column, in its unit, beside the distance between its bounds."""
    # Dates differ by units of ours.
    is_own = isinstance(number, Date)
    unit = f"{number.unit}s" if is_own else number.unit or ""
    return ExpectedError(what, size, unit, _width(number), {"column": column}, is_own)


def _of_counts(size: float, rows: float) -> ExpectedError:
    return ExpectedError("counts", size, "records", rows, is_own_unit=True)


def _width(number: Number) -> float:
    """The distance between the bounds of a column."""
    return float(number.high - number.low)


def _numbers(declared: Any) -> Mapping[str, Number]:
    return {name: column for name, column in declared.features.items() if isinstance(column, Number)}


def _noise(mechanism: Calibrated) -> float:
    """The typical noise on one sum."""
    from sudare.statistics.grouped_noise import InfinityNormCells
    from sudare.statistics.noise_intervals import noise_quantile

    law = mechanism.in_a_cell if isinstance(mechanism, InfinityNormCells) else mechanism
    return noise_quantile(law, TYPICAL_LEVEL)


def _of_mean(estimator: Any, rows: int) -> list[ExpectedError]:
    plan, declared = estimator.declared_plan(rows)
    share = _noise(plan.mechanism) / rows
    return [_of_column(_MEAN, name, number, share * _width(number)) for name, number in _numbers(declared).items()]


def _of_gibbs_mean(estimator: Any, rows: int) -> list[ExpectedError]:
    from scipy.stats import norm

    plan, declared = estimator.declared_plan(rows)
    share = plan.mechanism.noise_scale / 2 * float(norm.ppf((1 + TYPICAL_LEVEL) / 2)) / math.sqrt(plan.mechanism.draws)
    return [_of_column(_MEAN, name, number, share * _width(number)) for name, number in _numbers(declared).items()]


def _of_histogram(estimator: Any, rows: int) -> list[ExpectedError]:
    plan, _ = estimator.declared_plan(rows)
    return [_of_counts(_noise(plan.mechanism), float(rows))]


def _of_scaler(estimator: Any, rows: int) -> list[ExpectedError]:
    plan, declared = estimator.declared_plan(rows)
    share = _noise(plan.mechanism) / rows
    found = []
    for name, number in _numbers(declared).items():
        half = _width(number) / 2
        found.append(_of_column(_MEAN, name, number, min(share, 2.0) * half))
        # The deviation of values that lie evenly is half/√3, and a root moves by what is below it over twice the root.
        found.append(
            _of_column("standard deviation of {column}", name, number, min(share * math.sqrt(3) / 2, 1.0) * half)
        )
    return [*found, _deviations_evenly(share)]


def _deviations_evenly(share: float) -> ExpectedError:
    """What deviations are told for; and the largest error of one, for noise of that share of half the distance between the bounds.

    A variance has the noise e₂ − 2μe₁ with |μ| ≤ 1, so √5 times that of one number, and a root of at least 0 moves by the root of that at most.
    """
    most = min(math.sqrt(math.sqrt(5) * share), 1.0) / 2
    said = "Standard deviations are told for values that lie evenly between the declared bounds: where values lie close together they are off by more, up to {most} % of the distance between the bounds."
    return ExpectedError(said, values={"most": str(math.ceil(100 * most))})


def _of_quantiles(estimator: Any, rows: int) -> list[ExpectedError]:
    plan, declared = estimator.declared_plan(rows)
    # Where the number of rows is secret, all ends of intervals are drawn.
    ends = plan.mechanism.ends(rows if estimator.neighbours == "replace-one" else math.inf)
    return _quantile_errors(plan.mechanism, _numbers(declared), rows, ends, 1)


def _quantile_errors(
    mechanism: JointQuantiles, numbers: Mapping[str, Number], rows: float, ends: Sequence[End], groups: int
) -> list[ExpectedError]:
    """Typical errors of quantiles, and of these ends of their intervals, of so many rows in each of so many groups."""
    from sudare.statistics.joint_quantiles import Cells, middles_of_bins
    from sudare.statistics.noise_intervals import infinity_norm_quantile

    drawn = mechanism.columns * len(mechanism.quantiles)
    ranks = mechanism.noise_scale * infinity_norm_quantile(drawn, TYPICAL_LEVEL)
    reach = max(mechanism.end_distances(ends, rows, TYPICAL_LEVEL)) if ends else 0.0
    are_medians = mechanism.quantiles == (0.5,)
    found = []
    for name, number in numbers.items():
        # What is released is the middle of a bin, wherever in it the quantile lies.
        least = 0.0 if number.bins is None else float(np.diff(Cells(number).edges).max()) / 2
        of_ranks = _width(number) / rows
        found.append(
            _of_column(
                "medians of {column}" if are_medians else "quantiles of {column}",
                name, number, max(min(ranks, rows) * of_ranks, least),
            )
        )  # fmt: skip
        if ends:
            what = (
                "ends of 95 % intervals of medians of {column}"
                if are_medians
                else "ends of 95 % intervals of quantiles of {column}"
            )
            found.append(_of_column(what, name, number, max(reach * of_ranks, least)))
    binned = [name for name, number in numbers.items() if number.bins is not None]
    return [
        *found,
        *_wide_intervals(mechanism, ends, groups),
        ExpectedError(_EVENLY),
        *([ExpectedError(middles_of_bins(binned))] if binned else []),
    ]


def _wide_intervals(mechanism: JointQuantiles, ends: Sequence[End], groups: int) -> list[ExpectedError]:
    """Which intervals of quantiles will reach to the declared bounds where these of their ends are drawn, and with how many records others would not."""
    most, least = (f"{math.floor(rows) + 1:,}" for rows in (mechanism.rows_for_intervals, mechanism.rows_for_any_end))
    all_ends = mechanism.ends(math.inf)
    if not all_ends or (groups == 1 and len(ends) == len(all_ends)):
        return []
    if not ends:
        said = _NO_ENDS if groups == 1 else _NO_ENDS_IN_GROUPS
        return [ExpectedError(said, values={"least": least})]
    if len(ends) < len(all_ends):
        said = _SOME_ENDS if groups == 1 else _SOME_ENDS_IN_GROUPS
        drawn, count = (str(mechanism.columns * len(each)) for each in (ends, all_ends))
        return [ExpectedError(said, values={"drawn": drawn, "count": count, "most": most})]
    if not mechanism.ends(mechanism.rows_for_intervals):
        return [ExpectedError(_NO_ENDS_IN_SMALLER_GROUPS, values={"most": most})]
    return [ExpectedError(_SOME_ENDS_IN_SMALLER_GROUPS, values={"most": most, "least": least})]


def _of_table(estimator: Any, rows: int) -> list[ExpectedError]:
    from sudare.statistics.grouped_noise import TableNoise
    from sudare.statistics.histogram import group_levels

    plan, declared = estimator.declared_plan(rows)
    mechanism = plan.mechanism
    moments = mechanism.moments if isinstance(mechanism, TableNoise) else mechanism
    groups = math.prod(len(group_levels(declared.columns[name])) for name in estimator.by)
    noise, in_a_group = _noise(moments), rows / groups
    found = [_of_counts(noise, in_a_group)]
    needed = math.floor(_records_for_variance(estimator, moments)) + 1
    for names, word in ((estimator.mean_of, "means"), (estimator.variance_of, "variances")):
        for name in names:
            number = declared.columns[name]
            half, share = _width(number) / 2, min(noise / in_a_group, 1.0)
            if word == "means":
                found.append(_of_column("means of {column}", name, number, share * half))
            elif in_a_group < needed:
                found.append(ExpectedError(_UNKNOWN_VARIANCES, values={"column": name, "needed": f"{needed:,}"}))
            else:
                of_values = _of_column("variances of {column}", name, number, share * half**2 / 2)
                unit = f"{of_values.unit}²" if of_values.unit else ""
                found.append(replace(of_values, unit=unit, whole=half**2))
    if isinstance(mechanism, TableNoise) and mechanism.quantiles is not None:
        numbers = {name: declared.columns[name] for name in estimator.quantile_of}
        ends = mechanism.quantiles.ends(in_a_group)
        found += _quantile_errors(mechanism.quantiles, numbers, in_a_group, ends, groups)
    if isinstance(mechanism, TableNoise) and mechanism.keys is not None:
        # At the threshold every other value is found.
        columns = ", ".join(estimator.keys)
        found.append(ExpectedError(_KEYS, values={"columns": columns, "needed": f"{mechanism.keys.threshold:,}"}))
    if len(found) > 1 and groups > 1:
        shown = {"groups": f"{groups:,}", "in_a_group": f"{math.floor(in_a_group):,}"}
        found.append(ExpectedError(_GROUPS_OF_EQUAL_SIZE, values=shown))
    return found


def _records_for_variance(estimator: Any, moments: Any) -> float:
    """Above how many records in a group its variance will be told."""
    from sudare.statistics.noise_intervals import DEFAULT_LEVEL, records_for_variance

    is_gaussian = estimator.delta > 0 and not estimator.keys
    numbers = 1 + len({*estimator.mean_of, *estimator.variance_of}) + len(estimator.variance_of)
    return records_for_variance(moments.noise_scale, 1, DEFAULT_LEVEL, None if is_gaussian else numbers)


_BY_LEARNER: Final[Mapping[str, Callable[[Any, int], list[ExpectedError]]]] = {
    "PrivateMean": _of_mean,
    "GibbsMean": _of_gibbs_mean,
    "PrivateHistogram": _of_histogram,
    "PrivateStandardScaler": _of_scaler,
    "PrivateQuantiles": _of_quantiles,
    "GroupedTable": _of_table,
}
_MEAN: Final = "mean of {column}"
_UNKNOWN_VARIANCES: Final = "Variances of {column} will be unknown, but for the declared bounds: a group needs about {needed} records for one. A larger ε or fewer groups would give them."
_GROUPS_OF_EQUAL_SIZE: Final = "All but counts is told for {groups} groups of {in_a_group} records each; in a group half as large it is off by twice as much."
_KEYS: Final = "Values of {columns} that fewer than about {needed} records have will be among all others. How many will be found cannot be said before: errors are told as if all records had one of them."
_NO_ENDS: Final = "Intervals of quantiles will reach from one declared bound to the other. Narrower ones need {least} records, or a larger ε, fewer columns or fewer quantiles."
_NO_ENDS_IN_GROUPS: Final = "Intervals of quantiles will reach from one declared bound to the other. Narrower ones need {least} records in a group, or a larger ε, fewer groups, fewer columns or fewer quantiles."
_SOME_ENDS: Final = "Of {count} ends of intervals of quantiles {drawn} will lie within the declared bounds, and the others at them. For all within them it takes {most} records, or a larger ε, fewer columns or fewer quantiles."
_SOME_ENDS_IN_GROUPS: Final = "Of {count} ends of intervals of quantiles in a group {drawn} will lie within the declared bounds, and the others at them. For all within them it takes {most} records in a group, or a larger ε, fewer groups, fewer columns or fewer quantiles."
_NO_ENDS_IN_SMALLER_GROUPS: Final = (
    "In a group of fewer than {most} records intervals of quantiles reach from one declared bound to the other."
)
_SOME_ENDS_IN_SMALLER_GROUPS: Final = "In a group of fewer than {most} records some intervals of quantiles reach to a declared bound, and in one of fewer than {least} all reach from one to the other."
_EVENLY: Final = "Quantiles are told for values that lie evenly between the declared bounds: where few values are near, they are off by more."
_NO_ROWS: Final = "How far it would be off cannot be said without a number of rows."
_MODEL: Final = (
    "How well it will predict depends on the records, which a dry run does not use: no error can be told before. "
    "More rows, a larger ε and fewer columns make it better."
)
_WORDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("logistic", "svc", "additive", "ridge", "gibbs", "network"), _MODEL),
    **dict.fromkeys(("mean", "histogram", "table", "quantiles", "scaler"), _NO_ROWS),
    "perturbation": "A single perturbed row says little; how far a reconstructed distribution is off depends on the records, and `sudare reconstruct` tells it with intervals.",
    "synthesis": "How far counts of synthetic rows are off depends on which pairs of columns are chosen; the release tells it for the counts that were made.",
}
