"""Numbers of docs/records.md, docs/statistics.md and docs/schema.md, and of noise that formulas tell."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from benchmarks import grouped_statistics
from benchmarks.page_numbers.places import Told, down, result, row, rows_with, study_rows, told, up
from sudare.linear.noise_calibration import expected_squares
from sudare.privacy.accounting import gaussian_mu_within, mu_of_pure
from sudare.privacy.guarantee import NEIGHBOURS
from sudare.privacy.mechanisms import GammaNorm, InfinityNorm, Laplace
from sudare.statistics.grouped_table import KEY_SHARE
from sudare.statistics.joint_quantiles import JointQuantiles
from sudare.statistics.key_selection import KeySelection
from sudare.statistics.quantiles import LEVEL


def all_told() -> Iterator[Told]:
    """What the pages say."""
    yield from _records()
    yield from _synthesis()
    yield from _statistics()
    yield from _noise()
    yield from _rows_needed()


def _records() -> Iterator[Told]:
    """Perturbed records."""
    local = math.log(32_560 / (2 - 1)) / 2
    yield told("records", "With k = 2 among 32,561 rows the local ε is {}", local)
    yield told("records", "can be {} % sure of a suspicion", 100 / (1 + math.exp(-local)))
    yield told(
        "records",
        "At ε = {} its randomised response has the law of ours",
        max(each["epsilon"] for each in result("benchmarks/accuracy.json")),
    )
    gaps = [
        each["evidence"]["value"] - each["auto"]["value"] for width in ("1", "0.5", "0.1") for each in study_rows("004", f"Figure 2: L1 accuracy in bins of {width}")
    ]  # fmt: skip
    yield told("records", 'On these columns `"auto"` is up to {} points behind `"evidence"`', max(gaps))
    variances = []
    for epsilon, records in ((0.2, 10_000), (2.0, 1_000)):
        kept = 1 / (1 + math.exp(-epsilon))
        variances.append(kept * (1 - kept) / (2 * kept - 1) ** 2 / records)
    yield told(
        "records",
        "With ten columns and ε = 2 the variance of a share of a category of two values is {} times smaller",
        variances[0] / variances[1],
    )


def _synthesis() -> Iterator[Told]:
    """Synthetic tables, and AIM beside them."""
    found = result("benchmarks/synthesis.json")
    fitted, theirs = [each for each in found["results"] if "epsilon" in each], found["aim"]

    def adaptive(table: str, epsilon: float) -> dict[str, Any]:
        return row(fitted, table=table, epsilon=epsilon, engine="adaptive")

    def beside_aim(table: str, epsilon: float, what: str) -> float:
        """How much larger ours is."""
        return float(adaptive(table, epsilon)[what]) - float(row(theirs, table=table, epsilon=epsilon)[what])

    adult, pima, pairs = "adult, 15 columns", "pima", "more determined pairs"
    both = [
        (each, row(fitted, table=each["table"], epsilon=each["epsilon"], engine="marginals"))
        for each in rows_with(fitted, engine="adaptive")
    ]
    lost = [one["auc"] - each["auc"] for each, one in both if one["auc"] - each["auc"] > 0.01]
    (most,) = lost
    yield told(
        "records",
        'AUCs are within .01 of each other or better in all but one case ("more categories", ε = 0.1: {} behind)',
        most,
    )
    yield told(
        "records",
        "a fraction of a second on Adult ({} s and {} s at ε = 1 and 10)",
        *(adaptive(adult, epsilon)["seconds"] for epsilon in (1.0, 10.0)),
    )
    yield told(
        "records",
        "behind on Adult by {} there (its worst pair by {})",
        beside_aim(adult, 0.1, "mean"),
        beside_aim(adult, 0.1, "worst"),
    )
    known = found["adult, known"]
    assert not any(sum(each["rows that contradict, drawn"]) for each in known), "the page says none"
    yield told(
        "records",
        "though {} of the data's {} have one (a female husband, two male wives)",
        sum(known[0]["rows that contradict, data"]),
        known[0]["rows"],
    )
    yield told(
        "records",
        "the mean pair is {}, {} and {} off, the worst {}, {} and {}, and the AUC is {}, {} and {}",
        *(each[what] for what in ("mean", "worst", "auc") for each in known),
    )
    beside = [row(known, epsilon=1.0)[what] - adaptive(adult, 1.0)[what] for what in ("mean", "worst")]
    yield told("records", "the mean is {} and the worst pair {} farther", *beside)
    yield told(
        "records", 'behind on "more spikes" at ε = 10 by {}, on "more determined pairs" at ε = 1 by {}, on Pima at ε = 1 by {}, and on Adult at ε = 1 by {}',
        beside_aim("more spikes", 10.0, "mean"), *(beside_aim(table, 1.0, "mean") for table in (pairs, pima, adult)),
    )  # fmt: skip
    yield told(
        "records", 'The worst pair is above AIM\'s on "more spikes" by {} and on "more categories" by {} at ε = 10',
        *(beside_aim(table, 10.0, "worst") for table in ("more spikes", "more categories")),
    )  # fmt: skip
    yield told(
        "records", "by up to {} on Pima and Adult at ε = 1 and on Pima at ε = 10",
        max(beside_aim(table, epsilon, "worst") for table, epsilon in ((pima, 1.0), (adult, 1.0), (pima, 10.0))),
    )  # fmt: skip
    times = {
        (each["table"], each["epsilon"]): each["seconds"] / adaptive(each["table"], each["epsilon"])["seconds"]
        for each in theirs
        if adaptive(each["table"], each["epsilon"])["seconds"]
    }
    yield told("records", "with its authors' settings ({} MB,", max(each["megabytes"] for each in theirs))
    slowest = times.pop((adult, 1.0))
    yield told(
        "records",
        "It takes 1/{} of AIM's processor time on Adult at ε = 1 and 1/{} or less elsewhere",
        slowest,
        down(min(times.values())),
    )
    yield told(
        "records", "{}, {} and {} of 32,561 rows at ε = 0.1, 1 and 10 have a pair that the data do not have",
        *(each["rows with an impossible pair"] for each in found["adult, determined"]),
    )  # fmt: skip


def _statistics() -> Iterator[Told]:
    """Persons, quantiles, groups, and bounds that were found."""
    ratios = [sum(each["errors"]) / sum(each["best errors"]) for each in result("benchmarks/persons.json")["judged"]]
    yield told(
        "statistics", "made up before the last but one of these and judged with both since: {}, {} and {}", *ratios[3:]
    )
    yield told(
        "statistics",
        "a choice costs {} to {} % more than the best number",
        *(100 * (each(ratios) - 1) for each in (min, max)),
    )
    gaps = result("benchmarks/quantile_gaps.json")
    near, far = (row(gaps, **{"records between median and gap": records})["replace-one"] for records in ("3", "30"))
    yield told(
        "statistics", "a median that lay 3 records from one held in {} of draws, 30 records from it in {}", near, far
    )
    yield told(
        "statistics", "Errors are means over {} runs for medians of a whole column (off by a fiftieth: for skewed amounts those with intervals and OpenDP's are alike), over {} for its other quantiles",
        grouped_statistics.ANSWERS_OF_MEDIANS, grouped_statistics.REPEATS // 4,
    )  # fmt: skip
    bounds = [each["ratio"] for each in result("benchmarks/found_bounds.json")["columns"].values()]
    usual = [each for each in bounds if each <= 1.2]
    yield told(
        "schema", "At ε = .1 the error is at most 1.2 times that with the exact range on {} of the {} columns, and {}, {} and {} times on three",
        len(usual), len(bounds), *sorted(each for each in bounds if each > 1.2),
    )  # fmt: skip
    yield told("proofs/discovery.md", "of the column of 98 % zeros changed, to {}", max(bounds))


def _noise() -> Iterator[Told]:
    """What formulas of the proofs come to."""
    shares = [math.sqrt((columns + 1) * (columns + 2) / 3 / (2 * columns**2)) for columns in (2, 10, 30)]
    yield told("statistics", "whose deviation for 2, 10 and 30 columns is {}, {} and {} of that", *shares)
    ratios = []
    for columns in (2, 10, 30):
        laplace = Laplace(float(columns), 1.0, columns).variance
        gamma = GammaNorm(math.sqrt(columns), 1.0, columns).variance
        largest = InfinityNorm(1.0, 1.0, columns).variance
        ratios.append((math.sqrt(laplace / gamma), math.sqrt(largest / gamma)))
    yield told(
        "proofs/infinity_norm.md",
        "| deviation over gamma-norm's, d = 2, 10, 30 | {}, {}, {} | 1 | {}, {}, {} | |",
        *(ratio[noise] for noise in (0, 1) for ratio in ratios),
    )
    mu = gaussian_mu_within(1.0, 1e-6)
    yield told("proofs/infinity_norm.md", "costs ({}/{})² times as much at ε = 1", mu_of_pure(Fraction(1)), mu)
    quieter = next(columns for columns in range(1, 1_000) if columns / mu**2 < (columns + 1) * (columns + 2) / 3)
    yield told("statistics", "Gaussian noise where columns are many (at ε = 1 and δ = 1e-6 from {} on)", quieter)
    yield told("proofs/infinity_norm.md", "at ε = 1, δ = 1e-6 that is Gaussian from {} columns on", quieter)
    cube = []
    for columns in (9, 30):
        width = columns + 1
        bounds = width, math.sqrt(width), width, (1.0,) * width
        cube.append(math.sqrt(expected_squares("largest", *bounds) / expected_squares("euclidean", *bounds)))
    yield told(
        "linear",
        "whose deviation is {} of that of Euclidean noise for nine columns (and the constant one) and {} for thirty",
        *cube,
    )
    ten = row(result("benchmarks/repeated_runs.json"), run="descent, q = 1/8, 50 steps")
    yield told(
        "linear",
        "ten runs of (0.5, 1e-6) without calibration cost ε = {} at δ = 1e-5 there, not {}",
        ten["after"],
        ten["before"],
    )
    network = row(result("benchmarks/repeated_runs.json"), run="network, q = 1/8, 400 steps", neighbours="add-remove")
    yield told("neural", "ten runs of (0.5, 1e-6) cost ε = {} at δ = 1e-5", network["after"])


def _rows_needed() -> Iterator[Told]:
    """How many rows a value, or an end of an interval, needs."""
    found = [KeySelection(float(KEY_SHARE), 1e-6, neighbours, 1).threshold for neighbours in NEIGHBOURS]
    yield told(
        "statistics",
        "one row a person a value needs {} rows to be found more often than not (replaced records; {} under add/remove)",
        max(found),
        min(found),
    )
    # Three quartiles and the count of a group share ε evenly.
    quartiles = JointQuantiles((0.25, 0.5, 0.75), 1, 3 / 4, "replace-one", grouped=True, level=LEVEL)
    yield told("statistics", "(fewer than {} for quartiles of one column at ε = 1", up(quartiles.rows_for_any_end))
