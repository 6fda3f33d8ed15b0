"""What docs/panel.md says of its own tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from statistics import mean
from typing import Any

from benchmarks.page_numbers.places import Told, result, row, rows_with, told, up
from benchmarks.panel.linear_claims import SINGLE_METHODS
from benchmarks.panel.peer_claims import boosting_epsilon
from benchmarks.panel.reconstruction_bands import coverage

PAGE = "panel"
LEVELS = (0.1, 0.5, 1.0, 3.0)
METHODS = ("auto", "smooth", "mixture", "bayes", "evidence")


def of(text: str) -> list[float]:
    """The numbers of "30 of 136"."""
    return [float(number) for number in text.split(" of ")]


def all_told() -> Iterator[Told]:
    """What follows from the panel's results."""
    panel = result("benchmarks/panel.json")
    summaries = {name: found["summary"] for name, found in panel.items()}
    yield from _classes(summaries["classification"], panel["classification"]["rows"])
    yield from _ridge_and_encodings(summaries["ridge"], summaries["encodings"], panel["ridge"]["rows"])
    yield from _reconstruction(summaries["reconstruction"], panel["reconstruction"]["rows"])
    yield from _bands(summaries["bands"], panel["bands"]["rows"])


def _classes(summary: dict[str, str], rows: list[dict[str, Any]]) -> Iterator[Told]:
    yield told(
        PAGE, '`"auto"` is above the private base rate in {} of {} cases, by more than .01 in {} of {}',
        *of(summary["log loss above the base rate's, auto"]), *of(summary["log loss more than .01 above the base rate's, auto"]),
    )  # fmt: skip
    lost = [each for each in rows if each["auto"]["log_loss"] - each["auto"]["base_log_loss"] > 0.01]
    classes, skewed = rows_with(lost, table="digits", epsilon=0.1), rows_with(lost, table="very skewed", epsilon=3.0)
    yield told(
        PAGE, "Of the {} that lose by more than .01, {} are ten classes at ε = .1, and {} is a very skewed table at ε = 3",
        len(lost), len(classes), len(skewed),
    )  # fmt: skip
    if any(each["auto"]["log_loss"] <= each["auto"]["base_log_loss"] for each in rows if "no signal" in each["table"]):
        raise LookupError("Not all cases of the table without signal lose: mend the sentence of docs/panel.md.")
    off = "mean probability off by more than .03 from n·ε = 500 on"
    yield told(
        PAGE, "from n·ε = 500 on are off by more than .03 in {} of {} cases, and in {} of {} of all methods",
        *of(summary[f"{off}, auto"]), *of(summary[f"{off}, all methods"]),
    )  # fmt: skip
    rare = "recall 0 where AUC is above .8, auto"
    likeliest, balanced = summary["mean recall of the rarest class there, likeliest and balanced"].split(", ")
    yield told(
        PAGE, "where AUC is above .8 the likeliest class is never the rarest in {} of {} cases", *of(summary[rare])
    )
    yield told(
        PAGE, 'With `decision="balanced"` that is so in {} of {}, and the mean recall of the rarest class is {} instead of {}',
        *of(summary[f'{rare} with decision="balanced"']), float(balanced), float(likeliest),
    )  # fmt: skip
    gaps = [
        {method: each[method]["auc"] - each["auto"]["auc"] for method in SINGLE_METHODS if method in each}
        for each in rows
    ]
    ahead = Counter(max(gap, key=lambda method: gap[method]) for gap in gaps if max(gap.values()) > 0.01)
    yield told(
        PAGE,
        '`"auto"`** is more than .01 behind the best single method in {} of {} cases, of which {} would rather have `"statistics"` and {} `"mean"`',
        *of(summary["auto more than .01 AUC below the best single method"]), ahead["statistics"], ahead["mean"],
    )  # fmt: skip

    def areas(method: str, delta: float) -> list[float]:
        return [mean(each[method]["auc"] for each in rows_with(rows, epsilon=level, delta=delta)) for level in LEVELS]

    yield told(
        PAGE,
        'below that of `"statistics"` ({}, {}, {}, {} against {}, {}, {}, {})',
        *areas("auto", 1e-6),
        *areas("statistics", 1e-6),
    )
    below = [statistics - auto for auto, statistics in zip(areas("auto", 1e-6), areas("statistics", 1e-6), strict=True)]
    yield told(PAGE, "is the highest of all or {} below that of", max(below))
    bent = row(rows, table="bent, rare label", epsilon=0.5, delta=0.0)
    yield told(
        PAGE, 'at ε = .5 it has {}, and `"statistics"` lose {} to `"mean"` on a table',
        areas("auto", 0.0)[1], bent["mean"]["auc"] - bent["statistics"]["auc"],
    )  # fmt: skip
    few = [each["statistics"]["auc"] - each["auto"]["auc"] for each in rows_with(rows, table="few rows", delta=0.0)]
    yield told(PAGE, '`"statistics"` would be better by {} to {}', min(few), max(few))
    yield told(
        PAGE,
        "{} for .1, {} for 1); it knows two classes only",
        boosting_epsilon(0.1, 1e-6),
        boosting_epsilon(1.0, 1e-6),
    )


def _ridge_and_encodings(
    ridge: dict[str, str], encodings: dict[str, str], rows: list[dict[str, Any]]
) -> Iterator[Told]:
    lost = [each for each in rows if min(each["centred"], each["binned"]) < -0.01]
    yield told(
        PAGE, "is below −.01 in {} of {} cases, all at ε = {} with {} or {} rows",
        *of(ridge["R² below −.01 (either encoding)"]), max(each["epsilon"] for each in lost), *sorted({each["rows"] for each in lost}),
    )  # fmt: skip
    yield told(PAGE, "more than .02 in {} of {}, where a line is all", *of(ridge["binned more than .02 below centred"]))
    yield told(
        PAGE, "is in {} of {}, and its mean R² ({}) is above that of both ({}, {})",
        *of(ridge["auto's encoding more than .02 below centred"]),
        *(float(ridge[f"mean R², {which}"]) for which in ("the encoding that auto takes", "centred", "binned")),
    )  # fmt: skip
    yield told(
        PAGE, "the rule's mean AUC ({}) is above that of always centring ({}) and always binning ({}), and the other encoding is better by more than .01 in {} of {} cases",
        *(float(encodings[f"mean AUC, {which}"]) for which in ("the rule's", "centred", "binned")),
        *of(encodings["the rule's more than .01 AUC below the other"]),
    )  # fmt: skip


def _reconstruction(summary: dict[str, str], rows: list[dict[str, Any]]) -> Iterator[Told]:
    yield told(
        PAGE, 'is more than 1.0 below the best single method in {} of {} cases, where the former average (`"evidence"`) was in {} of {}',
        *of(summary["auto more than 1.0 below the best single method"]), *of(summary["evidence more than 1.0 below the best single method"]),
    )  # fmt: skip
    lines = {(each["noise"], each["privacy"], each["records"]): None for each in rows}
    highest = [
        max(METHODS, key=lambda method: mean(each[method] for each in rows_with(rows, noise=noise, privacy=privacy, records=records)))
        for noise, privacy, records in lines
    ]  # fmt: skip
    yield told(PAGE, "it has the highest mean in {} of the {} lines", highest.count("auto"), len(lines))
    yield told(PAGE, "is ahead by up to {} points", float(summary["auto: mean and largest such gap"].split(", ")[1]))
    sharp = rows_with(rows, noise="square wave", privacy="k = 2", records=100_000)
    yield told(
        PAGE, "With a square wave for k = 2 and 100,000 records no column is farther off than {}",
        up(max(max(each[method] for method in ("smooth", "mixture", "bayes")) - each["auto"] for each in sharp)),
    )  # fmt: skip
    hours = row(sharp, column="adult hours-per-week")
    yield told(
        PAGE,
        'working hours of Adult have {} there, as `"bayes"`, and {} by `"evidence"`',
        hours["auto"],
        hours["evidence"],
    )
    yield told(PAGE, 'have {} there, as `"bayes"`', hours["bayes"])


def _bands(summary: dict[str, float], rows: list[dict[str, Any]]) -> Iterator[Told]:
    yield told(
        PAGE, "hold in {} % of bins with more than .2 % of the records, of running sums in {} % and of quantiles in {} %",
        *(summary[f"coverage of {part}, %"] for part in ("bins", "running sums", "quantiles")),
    )  # fmt: skip

    def share(part: str, **keys: object) -> float:
        return coverage(rows_with(rows, **keys), part)

    humps = [share("bins", column=name) for name in ("four humps", "part of the range", "sawtooth")]
    yield told(PAGE, "a sawtooth behind wide noise ({} to {} of bins)", min(humps), max(humps))
    yield told(
        PAGE, "working hours and glucose of Adult and Pima ({} and {})",
        share("bins", column="adult hours-per-week"), share("bins", column="pima glucose"),
    )  # fmt: skip
    yield told(PAGE, "quantiles of wages beside many zeros hold in {}", share("quantiles", column="zeros and wages"))
    wide = [share("bins", noise="square wave", records=300), share("bins", noise="Laplace", records=3_000)]
    yield told(PAGE, "bins hold in {} to {}", min(wide), max(wide))
    without = [each for each in rows if "bins" not in each]
    yield told(
        PAGE, "One fit in {} (working hours, square wave, {} records", len(rows) / len(without), without[0]["records"]
    )
