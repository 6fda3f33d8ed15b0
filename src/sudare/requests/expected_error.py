"""How far a result would typically be off, from the law of its noise and public facts alone: no record is looked at."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from sudare.privacy.fit_plan import Calibrated
from sudare.requests.catalogue import Kind, kind_named
from sudare.schema.columns import Number
from sudare.schema.dates import Date

# An error is called typical that is exceeded once in three times.
TYPICAL_LEVEL: Final = 2 / 3


@dataclass(frozen=True)
class ExpectedError:
    """What would be off, by how much in which unit; where nothing can be said from public facts, `size` is None and `what` is a sentence.

    `whole` is what `size` is to be compared with: the distance between the declared bounds, or the records of a group.
    """

    what: str
    size: float | None = None
    unit: str = ""
    whole: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    def __str__(self) -> str:
        if self.size is None:
            return self.what
        return f"{self.what} ±{two_digits(self.size)}{f' {self.unit}' if self.unit else ''}"


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


def _unit(number: Number) -> str:
    """The unit of differences between values of a column."""
    return f"{number.unit}s" if isinstance(number, Date) else number.unit or ""


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
    return [
        ExpectedError(f"mean of {name}", share * _width(number), _unit(number), _width(number))
        for name, number in _numbers(declared).items()
    ]


def _of_gibbs_mean(estimator: Any, rows: int) -> list[ExpectedError]:
    from scipy.stats import norm

    plan, declared = estimator.declared_plan(rows)
    share = plan.mechanism.noise_scale / 2 * float(norm.ppf((1 + TYPICAL_LEVEL) / 2)) / math.sqrt(plan.mechanism.draws)
    return [
        ExpectedError(f"mean of {name}", share * _width(number), _unit(number), _width(number))
        for name, number in _numbers(declared).items()
    ]


def _of_histogram(estimator: Any, rows: int) -> list[ExpectedError]:
    plan, _ = estimator.declared_plan(rows)
    return [ExpectedError("counts", _noise(plan.mechanism), "records", float(rows))]


def _of_scaler(estimator: Any, rows: int) -> list[ExpectedError]:
    plan, declared = estimator.declared_plan(rows)
    share = _noise(plan.mechanism) / rows
    found = []
    for name, number in _numbers(declared).items():
        half, unit = _width(number) / 2, _unit(number)
        found.append(ExpectedError(f"mean of {name}", min(share, 2.0) * half, unit, 2 * half))
        # The deviation of values that lie evenly is half/√3, and a root moves by what is below it over twice the root.
        evenly = min(share * math.sqrt(3) / 2, 1.0)
        found.append(ExpectedError(f"standard deviation of {name}", evenly * half, unit, 2 * half))
    return [*found, ExpectedError(_deviations_evenly(share))]


def _deviations_evenly(share: float) -> str:
    """What deviations are told for; and the largest error of one, for noise of that share of half the distance between the bounds.

    A variance has the noise e₂ − 2μe₁ with |μ| ≤ 1, so √5 times that of one number, and a root of at least 0 moves by the root of that at most.
    """
    most = min(math.sqrt(math.sqrt(5) * share), 1.0) / 2
    return f"Standard deviations are told for values that lie evenly between the declared bounds: where values lie close together they are off by more, up to {math.ceil(100 * most)} % of the distance between the bounds."


def _of_quantiles(estimator: Any, rows: int) -> list[ExpectedError]:
    plan, declared = estimator.declared_plan(rows)
    return _quantile_errors(plan.mechanism, _numbers(declared), rows)


def _quantile_errors(mechanism: Any, numbers: Mapping[str, Number], rows: float) -> list[ExpectedError]:
    from sudare.statistics.joint_quantiles import Cells, middles_of_bins
    from sudare.statistics.noise_intervals import infinity_norm_quantile

    drawn = mechanism.columns * len(mechanism.quantiles)
    ranks = mechanism.noise_scale * infinity_norm_quantile(drawn, TYPICAL_LEVEL)
    named = "medians" if mechanism.quantiles == (0.5,) else "quantiles"
    all_ends = mechanism.ends(math.inf)
    has_intervals = bool(all_ends) and rows > mechanism.rows_for_intervals
    found, binned = [], [name for name, number in numbers.items() if number.bins is not None]
    for name, number in numbers.items():
        # What is released is the middle of a bin, wherever in it the quantile lies.
        least = 0.0 if number.bins is None else float(np.diff(Cells(number).edges).max()) / 2
        width, unit = _width(number), _unit(number)
        found.append(ExpectedError(f"{named} of {name}", max(min(ranks / rows, 1.0) * width, least), unit, width))
        if has_intervals:
            reach = max(mechanism.reaches(all_ends)) / rows
            found.append(
                ExpectedError(f"ends of 95 % intervals of {named} of {name}", max(reach * width, least), unit, width)
            )
    if all_ends:
        found.append(ExpectedError(no_intervals_below(math.floor(mechanism.rows_for_intervals) + 1, rows)))
    return [*found, ExpectedError(_EVENLY), *([ExpectedError(middles_of_bins(binned))] if binned else [])]


def no_intervals_below(needed: int, rows: float) -> str:
    """From how many records on quantiles have intervals that say something; where there are fewer of them, what to do."""
    if rows < needed:
        return (
            f"Intervals of quantiles may be wide, on one side as far as the declared bound, where there are fewer than {needed:,} records. "
            "A larger ε, fewer groups or fewer quantiles make them narrower."
        )
    return f"Intervals of quantiles may be wide, on one side as far as the declared bound, in a group of fewer than {needed:,} records."


def _of_table(estimator: Any, rows: int) -> list[ExpectedError]:
    from sudare.statistics.grouped_noise import TableNoise
    from sudare.statistics.histogram import group_levels

    plan, declared = estimator.declared_plan(rows)
    mechanism = plan.mechanism
    moments = mechanism.moments if isinstance(mechanism, TableNoise) else mechanism
    groups = math.prod(len(group_levels(declared.columns[name])) for name in estimator.by)
    noise, in_a_group = _noise(moments), rows / groups
    found = [ExpectedError("counts", noise, "records", in_a_group)]
    needed = math.floor(_records_for_variance(estimator, moments)) + 1
    for names, word in ((estimator.mean_of, "means"), (estimator.variance_of, "variances")):
        for name in names:
            number = declared.columns[name]
            half, unit, share = _width(number) / 2, _unit(number), min(noise / in_a_group, 1.0)
            if word == "means":
                found.append(ExpectedError(f"means of {name}", share * half, unit, 2 * half))
            elif in_a_group < needed:
                found.append(ExpectedError(_unknown_variances(name, needed)))
            else:
                squared = f"{unit}²" if unit else ""
                found.append(ExpectedError(f"variances of {name}", share * half**2 / 2, squared, half**2))
    if isinstance(mechanism, TableNoise) and mechanism.quantiles is not None:
        numbers = {name: declared.columns[name] for name in estimator.quantile_of}
        found += _quantile_errors(mechanism.quantiles, numbers, in_a_group)
    if len(found) > 1 and groups > 1:
        found.append(ExpectedError(_groups_of_equal_size(groups, in_a_group)))
    return found


def _records_for_variance(estimator: Any, moments: Any) -> float:
    """Above how many records in a group its variance will be told."""
    from sudare.statistics.noise_intervals import DEFAULT_LEVEL, records_for_variance

    is_gaussian = estimator.delta > 0 and not estimator.keys
    numbers = 1 + len({*estimator.mean_of, *estimator.variance_of}) + len(estimator.variance_of)
    return records_for_variance(moments.noise_scale, 1, DEFAULT_LEVEL, None if is_gaussian else numbers)


def _unknown_variances(name: str, needed: int) -> str:
    return f"Variances of {name} will be unknown, but for the declared bounds: a group needs about {needed:,} records for one. A larger ε or fewer groups would give them."


def _groups_of_equal_size(groups: int, in_a_group: float) -> str:
    return (
        f"All but counts is told for {groups:,} groups of {math.floor(in_a_group):,} records each; "
        "in a group half as large it is off by twice as much."
    )


_BY_LEARNER: Final[Mapping[str, Callable[[Any, int], list[ExpectedError]]]] = {
    "PrivateMean": _of_mean,
    "GibbsMean": _of_gibbs_mean,
    "PrivateHistogram": _of_histogram,
    "PrivateStandardScaler": _of_scaler,
    "PrivateQuantiles": _of_quantiles,
    "GroupedTable": _of_table,
}
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
