"""Dictionaries of generated plants beside what members could do alone or with all records in one place: mean AUC for later faults.

`python -m benchmarks.panel.plants_judged` runs the judging half, counts how often that was done, and writes plants_judged.json and the table of docs/dictionary.md.
`--seconds` times fits of 4 × 4,000 records and writes plants_seconds.json. `--tuning` runs the tuning half and writes plants_tuning.json: rules are chosen there. `--plants`, `--sizes` and `--repetitions` run a part and only print.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.mixture import GaussianMixture

from benchmarks.page_parts import write_part
from benchmarks.panel.simulated_plants import PLANTS, SIZES, Floats, Half, Member, Plant
from benchmarks.study_pages import DOCS, markdown_table
from sudare.dictionary import PatternDictionary

_EPSILON: Final = 3.0
_MOST_PATTERNS: Final = 8
# The fewer records, the more one draw differs from the next.
_REPETITIONS: Final[Mapping[int, int]] = {60: 5, 300: 3, 1200: 1}
_BOUND: Final = 40.0
_SLACK: Final = 0.01
_HEADSTART: Final = 0.03
_FOLDER: Final = Path(__file__).parent
PAGE: Final = DOCS / "dictionary.md"
PART: Final = "plants that no rule was chosen on"
_ALONE: Final = ("own Gaussian", "own mixture")

Scores = list[Floats]


def own_gaussian(members: Sequence[Member]) -> Scores:
    """Squared Mahalanobis distances from the member's own mean."""
    return [_mahalanobis(member.records, member.later) for member in members]


def _mahalanobis(records: Floats, later: Floats) -> Floats:
    covariance = np.cov(records, rowvar=False)
    covariance += 1e-6 * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    centred = later - records.mean(axis=0)
    return np.asarray(np.einsum("ij,ij->i", centred, np.linalg.solve(covariance, centred.T).T))


def own_mixture(members: Sequence[Member]) -> Scores:
    """−ln p of each member's own mixture."""
    return [-_mixture(member.records).score_samples(member.later) for member in members]


def pooled_mixture(members: Sequence[Member]) -> Scores:
    """−ln p of one mixture of all records in one place."""
    model = _mixture(np.concatenate([member.records for member in members]))
    return [-model.score_samples(member.later) for member in members]


def _mixture(records: Floats) -> Any:
    """scikit-learn's, with number of patterns and kind of covariance by BIC."""
    counts = [count for count in (1, 2, 3, 4, 6, _MOST_PATTERNS) if count < len(records) / 4]
    fits = [
        GaussianMixture(count, covariance_type=kind, reg_covar=1e-3, random_state=0).fit(records)
        for kind in ("full", "diag")
        for count in counts
    ]
    return min(fits, key=lambda fit: fit.bic(records))


def dictionary(members: Sequence[Member]) -> Scores:
    """−ln p of each member's model after a training with exact sums."""
    return _dictionary(members)


def private_dictionary(members: Sequence[Member]) -> Scores:
    """−ln p of each member's model after a private training, with seeded noise of the same law."""
    return _dictionary(members, bounds=(-_BOUND, _BOUND), epsilon=_EPSILON, random_state=0)


def _dictionary(members: Sequence[Member], **settings: Any) -> Scores:
    fitted = PatternDictionary(_MOST_PATTERNS, hide="nothing", **settings).fit([member.records for member in members])
    return [fitted.member(position).score_samples(member.later) for position, member in enumerate(members)]


METHODS: Final[Mapping[str, Callable[[Sequence[Member]], Scores]]] = {
    "own Gaussian": own_gaussian,
    "own mixture": own_mixture,
    "pooled mixture": pooled_mixture,
    "dictionary": dictionary,
    "private dictionary": private_dictionary,
}


def mean_auc(members: Sequence[Member], scores: Scores) -> float:
    """Over the members."""
    return float(np.mean([roc_auc_score(each.is_faulty, found) for each, found in zip(members, scores, strict=True)]))


def measured(plant: Plant, size: int, repetitions: int) -> dict[str, Any]:
    """Mean AUC and seconds of every method for one plant and size, and how far the dictionaries are from the floors."""
    areas: dict[str, list[float]] = {name: [] for name in METHODS}
    seconds = dict.fromkeys(METHODS, 0.0)
    for repetition in range(repetitions):
        members = plant.drawn(size, repetition)
        for name, method in METHODS.items():
            started = time.process_time()
            areas[name].append(mean_auc(members, method(members)))
            seconds[name] += (time.process_time() - started) / repetitions
    means = {name: round(float(np.mean(values)), 4) for name, values in areas.items()}
    alone = max(means[name] for name in _ALONE)
    best = max(alone, means["pooled mixture"])
    over_alone = np.array(areas["dictionary"]) - np.maximum(*(np.array(areas[name]) for name in _ALONE))
    return {
        "plant": plant.name,
        "size": size,
        "repetitions": repetitions,
        "auc": means,
        "seconds": {name: round(value, 2) for name, value in seconds.items()},
        "over_best": round(means["dictionary"] - best, 4),
        "over_alone": round(means["dictionary"] - alone, 4),
        "over_alone_error": round(float(np.std(over_alone) / np.sqrt(repetitions)), 4),
        "private_over_alone": round(means["private dictionary"] - alone, 4),
        "floors": {
            "not below the best": means["dictionary"] >= best - _SLACK,
            "private not below alone": means["private dictionary"] >= alone - _SLACK,
            **(
                {"ahead where alike": means["dictionary"] >= alone + _HEADSTART}
                if size == 60 and plant.name.startswith("alike")
                else {}
            ),
        },
    }


def line(row: Mapping[str, Any]) -> str:
    """One row of the table as text."""
    areas = "  ".join(f"{value:.3f}" for value in row["auc"].values())
    missed = [name for name, holds in row["floors"].items() if not holds]
    took = row["seconds"]["dictionary"]
    return f"{row['plant']:22s} {row['size']:5d}  {areas}  {row['over_best']:+.3f} {row['private_over_alone']:+.3f} {took:6.1f} s  {', '.join(missed)}"


def table(rows: Iterable[Mapping[str, Any]]) -> str:
    """AUC of every plant, size and method, as the page has it."""
    headings = ["plant", "records a member", *METHODS]
    headings[-1] = f"dictionary, ε = {_EPSILON:g}"
    return markdown_table(
        headings,
        [[row["plant"], f"{row['size']}", *(f"{row['auc'][name]:.3f}" for name in METHODS)] for row in rows],
    )


def run(
    half: Half, plants: Iterable[str] = (), sizes: Iterable[int] = SIZES, repetitions: int | None = None
) -> list[dict[str, Any]]:
    """The rows of a half, printed as they are found."""
    print(" " * 30 + "  ".join(METHODS), flush=True)
    wanted, rows = set(plants), []
    for plant in PLANTS[half]:
        for size in sizes if not wanted or plant.name in wanted else ():
            rows.append(measured(plant, size, repetitions or _REPETITIONS[size]))
            print(line(rows[-1]), flush=True)
    return rows


def seconds_of_fits() -> list[dict[str, Any]]:
    """Processor seconds of fits of 4 × 4,000 records of tuning plants, compiled loops warm."""
    dictionary(PLANTS["tuning"][0].drawn(60, 0))
    rows = []
    for plant in (each for each in PLANTS["tuning"] if each.members == 4):
        members = plant.drawn(4000, 0)
        started = time.process_time()
        dictionary(members)
        rows.append(
            {
                "plant": plant.name,
                "records": [len(each.records) for each in members],
                "seconds": round(time.process_time() - started, 1),
            }
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Run a half, and keep its rows where it was run as a whole."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tuning", action="store_true")
    parser.add_argument("--plants", nargs="*", default=[])
    parser.add_argument("--sizes", nargs="*", type=int, default=[])
    parser.add_argument("--repetitions", type=int)
    parser.add_argument("--seconds", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.seconds:
        (_FOLDER / "plants_seconds.json").write_text(json.dumps(seconds_of_fits(), indent=1) + "\n")
        return
    half: Half = "tuning" if given.tuning else "judging"
    is_whole = not (given.plants or given.sizes or given.repetitions)
    if not is_whole and half == "judging":
        parser.error("The judging half is run as a whole, so that its runs can be counted.")
    rows = run(half, given.plants, given.sizes or SIZES, given.repetitions)
    if is_whole:
        file = _FOLDER / ("plants_tuning.json" if given.tuning else "plants_judged.json")
        before = json.loads(file.read_text())["times_run"] if file.exists() else 0
        file.write_text(
            json.dumps({"half": half, "times_run": before + 1, "epsilon": _EPSILON, "rows": rows}, indent=1) + "\n"
        )
        if half == "judging":
            write_part(PAGE, PART, table(rows))


if __name__ == "__main__":
    main()
