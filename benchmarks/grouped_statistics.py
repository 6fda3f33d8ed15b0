"""Statistics by group, and quantiles: how far from the exact ones, beside OpenDP's and diffprivlib's, and how often their intervals hold.

    python -m benchmarks.grouped_statistics [--repeats 1000] [--repeats-of-quartiles 1000] [--quantiles errors|intervals]

Needs Adult (SUDARE_DATA). All at ε = 1. Errors: mean absolute distance to the exact number, over groups and repeats; of counts in rows, of others in thousandths of the declared range. OpenDP splits ε evenly over what a query asks
for, and looks for quantiles of whole numbers among these, of others among points of one distance; these are moved by a part of it from repeat to repeat, because how near one happens to lie to the exact quantile is luck. Sums are taken of the column as it is and, as somebody who knows would, of the column less the middle
of its range. For quantiles of a whole column OpenDP is told how many rows there are, and is given only those of its points that it would not pass over all but once in 10¹⁷ times, so that it can answer as often as we do. Neither peer has intervals. A run with the usual number of repeats is written to benchmarks/grouped_statistics.json and to the page
docs/statistics.md; with --quantiles only errors of quantiles are measured, and of peers only those of whole columns, or only how often intervals of quartiles hold, and all other numbers stay those of the last run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.peers import OPENDP, ROOT, Environment, PeerMissing, peer_python
from sudare.papers.datasets import data
from sudare.privacy.guarantee import NEIGHBOURS, Neighbours
from sudare.schema import Category, Number, Schema
from sudare.statistics import GroupedTable, PrivateQuantiles

Floats = NDArray[np.float64]
Peers = Mapping[str, Mapping[str, float]]

REPEATS: Final = 1000
# Of everybody: medians of a whole column differ least, and a mean of a thousand answers is off by a twentieth of itself.
ANSWERS_OF_MEDIANS: Final = 4 * REPEATS
# Answers of peers about groups are fewer: each of them is slower.
PART_OF_PEERS: Final = 100
# A point that misses the rank of one quantile of D by so many records times D is accepted with probability e^(−rank/(4D)) at most (two records changed, ε = 1): less than 1e-17.
FARTHEST_RANK: Final = 160
# Where OpenDP looks for quantiles, alone and of groups.
CANDIDATES_ALONE: Final = 2**15
CANDIDATES: Final = 2**13
MEDIAN, QUARTILES = (0.5,), (0.25, 0.5, 0.75)
PEERS: Final = ("OpenDP", "OpenDP, centred", "diffprivlib")
DECILES: Final = tuple(place / 10 for place in range(1, 10))
RESULTS: Final = Path(__file__).with_name("grouped_statistics.json")
PAGE: Final = ROOT / "docs" / "statistics.md"
BEGIN, END = "<!-- grouped statistics: written by their command -->", "<!-- end of grouped statistics -->"


@dataclass(frozen=True)
class Workload:
    """A table with groups, and the column that is looked at."""

    name: str
    frame: pd.DataFrame
    by: tuple[str, ...]
    column: str
    bounds: tuple[float, float]
    whole: bool = False

    def candidates(self, number: int = CANDIDATES) -> tuple[list[float], float]:
        """Where OpenDP looks for quantiles, and how far these points are moved at most: all whole numbers where values are whole, else so many points of one distance."""
        low, high = self.bounds
        if self.whole:
            return [float(point) for point in np.arange(low, high + 1)], 0.0
        points, distance = np.linspace(low, high, number, endpoint=False, retstep=True)
        return [float(point) for point in points], float(distance)

    def with_ties_spread(self) -> Workload:
        """The same table of whole numbers, each spread evenly up to the next: no two values are equal."""
        low, high = self.bounds
        values = self.frame[self.column] + np.random.default_rng(19).random(len(self.frame))
        name = f"{self.name}, ties spread"
        return Workload(name, self.frame.assign(**{self.column: values}), self.by, self.column, (low, high + 1))

    @property
    def schema(self) -> Schema:
        """Groups are declared with all their values, and one that nobody has."""
        groups = {name: Category((*sorted(self.frame[name].unique()), "nobody")) for name in self.by}
        return Schema({**groups, self.column: Number(*self.bounds, whole=self.whole)})

    @property
    def group_count(self) -> int:
        """How many groups have rows."""
        return self.frame.groupby(list(self.by)).ngroups


def adult() -> Workload:
    """Both parts of Adult: working hours by education and sex."""
    frame = pd.concat([data("adult-train"), data("adult-test")])[["education", "sex", "hours-per-week"]]
    frame = frame.rename(columns={"hours-per-week": "hours"}).reset_index(drop=True)
    return Workload("Adult, education × sex", frame, ("education", "sex"), "hours", (0.0, 100.0), whole=True)


def generated() -> list[Workload]:
    """Five tables of other shapes, the same in every run."""
    generator = np.random.default_rng(19)

    def table(name: str, groups: Any, values: Any, bounds: tuple[float, float]) -> Workload:
        frame = pd.DataFrame({"group": [f"g{code}" for code in groups], "value": np.clip(values, *bounds)})
        return Workload(name, frame, ("group",), "value", bounds)

    sizes = 1 / np.arange(1, 9)
    return [
        table("skewed amounts, groups of 900 to 7,400", generator.choice(8, 20_000, p=sizes / sizes.sum()), generator.lognormal(3, 0.8, 20_000), (0, 200)),
        table("shares, 12 groups of 250", np.repeat(np.arange(12), 250), generator.beta(2, 5, 3000), (0, 1)),
        replace(table("yes and no, 4 groups", generator.integers(0, 4, 5000), generator.random(5000) < 0.3, (0, 1)), whole=True),
        table("normal, 100 groups of about 1,000", generator.integers(0, 100, 100_000), generator.normal(0, 1, 100_000), (-5, 5)),
        table("two peaks, 3 groups", generator.integers(0, 3, 6000), generator.normal(np.where(generator.random(6000) < 0.6, 3, 7), 0.7), (0, 10)),
    ]  # fmt: skip


# Exact numbers


def truth(work: Workload, quantiles: Sequence[float]) -> dict[str, Floats]:
    """Exact numbers of every group that has rows, in the order of its names."""
    by_group = work.frame.groupby(list(work.by))[work.column]
    found = {"count": by_group.size(), "mean": by_group.mean(), "variance": by_group.var(ddof=0)}
    for quantile in quantiles:
        found[str(quantile)] = by_group.quantile(quantile, interpolation="lower")
    return {name: values.to_numpy(dtype=np.float64) for name, values in found.items()}


class FittedAgain(GroupedTable):
    """A table that is read and added up once, and gets new noise at every fit."""

    def _scanned(self, X: object) -> Any:
        if not hasattr(self, "_kept_scan"):
            self._kept_scan = super()._scanned(X)
        # What is added up is scaled in place.
        return replace(self._kept_scan, steps=self._kept_scan.steps.copy())

    def _rows(self, X: object) -> Any:
        if not hasattr(self, "_kept_rows"):
            self._kept_rows = super()._rows(X)
        return self._kept_rows

    def _exact(self, *arguments: Any) -> Any:
        if not hasattr(self, "_kept_sums"):
            self._kept_sums = super()._exact(*arguments)
        return self._kept_sums


def ours(work: Workload, neighbours: Neighbours, repeats: int, **asked_for: Any) -> Iterator[pd.DataFrame]:
    """Our tables of the groups that have rows, in the order of their names; seeded, as a simulation."""
    model = FittedAgain(1.0, schema=work.schema, by=work.by, neighbours=neighbours, **asked_for)
    groups = work.frame.groupby(list(work.by)).size().index
    for seed in range(repeats):
        found = model.set_params(random_state=seed).fit(work.frame).table()
        yield pd.DataFrame(found).set_index(list(work.by)).loc[groups]


def column_name(quantile: float, column: str) -> str:
    """What our tables call a quantile."""
    return f"median_{column}" if quantile == 0.5 else f"quantile_{quantile:g}_{column}"


# What is compared


@dataclass(frozen=True)
class Compared:
    """Errors of one number, ours and the peers', in one relation."""

    what: str
    relation: str
    ours: float
    peers: Mapping[str, float]


@dataclass(frozen=True)
class Coverage:
    """How often intervals of level .95 hold, by kind of number."""

    table: str
    shares: Mapping[str, float]


def distance(found: Any, exact: Floats) -> float:
    """The mean absolute distance."""
    return float(np.mean(np.abs(np.asarray(found, dtype=np.float64) - exact)))


def opendp(work: Workload, folder: str, wanted: Sequence[Any], relation: Neighbours, repeats: int, **other: Any) -> Any:
    """OpenDP's answers; a replaced row is one that is removed and one that is added."""
    shift = other.pop("shift", 0.0)
    path = Path(folder) / "table.parquet"
    shifted = work.frame[work.column] - shift
    work.frame.assign(**{work.column: shifted.astype(np.int64) if "sum" in wanted else shifted}).to_parquet(path)
    candidates, moved = work.candidates()
    request = {
        "file": str(path), "by": list(work.by), "column": work.column, "bounds": [end - shift for end in work.bounds],
        "wanted": list(wanted), "epsilon": 1.0, "contributions": 2 if relation == "replace-one" else 1, "candidates": candidates, "moved": moved, "repeats": repeats,
    }  # fmt: skip
    return asked(OPENDP, "benchmarks.opendp_peer", request)


def asked(environment: Environment | None, module: str, request: Mapping[str, Any]) -> Any:
    """What a peer answers in its own environment."""
    python = peer_python() if environment is None else peer_python(environment)
    command = [str(python), "-m", module]
    finished = subprocess.run(
        command, input=json.dumps(request), stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT
    )
    return json.loads(finished.stdout)


def by_group(answer: Mapping[str, list[Any]], by: Sequence[str]) -> pd.DataFrame:
    """A peer's table in the order of the groups' names."""
    return pd.DataFrame(answer).set_index(list(by)).sort_index()


def counts_and_means(work: Workload, relation: Neighbours, repeats: int, folder: str) -> list[Compared]:
    """Counts and means of all groups from one ε."""
    exact, span = truth(work, ()), work.bounds[1] - work.bounds[0]
    tables = list(ours(work, relation, repeats, mean_of=[work.column]))
    lost = [len(table) for table in tables if len(table) != work.group_count]
    if lost:
        raise RuntimeError("A group was lost.")
    errors: dict[str, dict[str, float]] = {"count": {}, "mean": {}}
    middle = sum(work.bounds) / 2
    for name, shift in (("OpenDP", 0.0), ("OpenDP, centred", middle)):
        answers = [
            by_group(answer, work.by)
            for answer in opendp(work, folder, ("count", "sum"), relation, repeats // PART_OF_PEERS, shift=shift)
        ]
        errors["count"][name] = distance([answer["count"] for answer in answers], exact["count"])
        means = [np.clip(shift + answer["sum"] / np.maximum(answer["count"], 1), *work.bounds) for answer in answers]
        errors["mean"][name] = distance(means, exact["mean"]) / span * 1e3
    return [
        Compared("count of rows", relation, distance([table["count"] for table in tables], exact["count"]), errors["count"]),
        Compared(f"mean {work.column}", relation, distance([table[f"mean_{work.column}"] for table in tables], exact["mean"]) / span * 1e3, errors["mean"]),
    ]  # fmt: skip


def quantiles_by_group(work: Workload, quantiles: Sequence[float], repeats: int, folder: str, known: Peers) -> Compared:
    """Quantiles of all groups with counts, from one ε; ours with intervals. Peers that are `known` are not asked again."""
    exact, span = truth(work, quantiles), work.bounds[1] - work.bounds[0]
    wanted = np.stack([exact[str(quantile)] for quantile in quantiles])
    names = [column_name(one, work.column) for one in quantiles]
    tables = ours(work, "replace-one", repeats // 4, quantile_of=[work.column], quantiles=quantiles)
    found = [table[names].to_numpy().T for table in tables]
    what = f"{named(quantiles)} by group, with counts ({work.name})"
    if (peers := known.get(what)) is None:
        answers = opendp(work, folder, ("count", *quantiles), "replace-one", repeats // PART_OF_PEERS)
        theirs = [by_group(answer, work.by)[[str(one) for one in quantiles]].to_numpy().T for answer in answers]
        peers = {"OpenDP": distance(theirs, wanted) / span * 1e3}
    return Compared(what, "replace-one", distance(found, wanted) / span * 1e3, peers)


def quantiles_alone(work: Workload, quantiles: Sequence[float], repeats: int, folder: str) -> list[Compared]:
    """Quantiles of a whole column from one ε, ours without intervals, as the peers', and with them."""
    values, span = work.frame[work.column].to_numpy(dtype=np.float64), work.bounds[1] - work.bounds[0]
    exact = np.quantile(values, quantiles, method="inverted_cdf")
    peers = peers_alone(work, values, quantiles, exact, repeats, folder)
    schema, found = Schema({work.column: work.schema.columns[work.column]}), []
    for intervals in (False, True):
        learner = PrivateQuantiles(1.0, quantiles=quantiles, intervals=intervals, schema=schema)
        drawn = [
            learner.set_params(random_state=seed).fit(work.frame).quantiles_[work.column] for seed in range(repeats)
        ]
        what = f"{named(quantiles)}{', with intervals' if intervals else ''} ({work.name})"
        found.append(Compared(what, "replace-one", distance(drawn, exact) / span * 1e3, peers))
    return found


def peers_alone(
    work: Workload, values: Floats, quantiles: Sequence[float], exact: Floats, repeats: int, folder: str
) -> dict[str, float]:
    """The peers' errors, in thousandths of the range."""
    file = f"{folder}/values.npy"
    np.save(file, values)
    points, moved = work.candidates(CANDIDATES_ALONE)
    rising, farthest = np.sort(values), FARTHEST_RANK * len(quantiles)
    places = [int(one * len(values)) for one in quantiles]
    ends = [rising[np.clip([place - farthest, place + farthest], 0, len(values) - 1)] for place in places]
    candidates = [[point for point in points if low - moved <= point <= high] for low, high in ends]
    request: dict[str, Any] = {"file": file, "wanted": list(quantiles), "epsilon": 1.0, "repeats": repeats}
    of_opendp = {**request, "contributions": 2, "candidates": candidates, "moved": moved}
    errors = {"OpenDP": distance(asked(OPENDP, "benchmarks.opendp_peer", of_opendp), exact)}
    theirs = asked(None, "benchmarks.diffprivlib_peer", {**request, "bounds": list(work.bounds)})
    if theirs is not None:
        # It answers with a fraction above the value that it means.
        errors["diffprivlib"] = distance(np.floor(theirs) if work.whole else theirs, exact)
    return {name: error / (work.bounds[1] - work.bounds[0]) * 1e3 for name, error in errors.items()}


def named(quantiles: Sequence[float]) -> str:
    """What people call these quantiles."""
    return {1: "median", 3: "quartiles", 9: "deciles"}[len(quantiles)]


def coverage(work: Workload, repeats: int, of_quartiles: int) -> Coverage:
    """How often intervals of all numbers of a table hold: counts and means from one ε, then variances and quartiles with counts from one."""
    exact = truth(work, ())
    asked_for = {"mean_of": {"counts": "count", "means": "mean"}, "variance_of": {"variances": "variance"}}
    held: dict[str, float] = {}
    for argument, kinds in asked_for.items():
        tables = [
            table
            for relation in NEIGHBOURS
            for table in ours(work, relation, repeats // 2, **{argument: [work.column]})
        ]
        for kind, number in kinds.items():
            name = number if number == "count" else f"{number}_{work.column}"
            held[kind] = float(np.mean([_held(table, name, exact[number]) for table in tables]))
    return Coverage(work.name, {**held, **coverage_of_quartiles(work, of_quartiles)})


def coverage_of_quartiles(work: Workload, repeats: int) -> dict[str, float]:
    """How often intervals of quartiles by group hold, and how often the quartiles are exact themselves: no interval around them holds less often."""
    exact = truth(work, QUARTILES)
    names = {column_name(one, work.column): exact[str(one)] for one in QUARTILES}
    found = np.mean(
        [
            [(_held(table, name, values), np.mean(table[name] == values)) for name, values in names.items()]
            for neighbours in NEIGHBOURS
            for table in ours(work, neighbours, repeats // 2, quantile_of=[work.column], quantiles=QUARTILES)
        ],
        axis=(0, 1),
    )
    return dict(zip(("quartiles", "quartiles that are exact"), found.tolist(), strict=True))


def _held(table: pd.DataFrame, name: str, exact: Floats) -> float:
    """The share of groups whose interval holds the exact number."""
    return float(np.mean((table[f"{name}_low"] <= exact) & (exact <= table[f"{name}_high"])))


def seconds_of_a_table(work: Workload) -> float:
    """Processor seconds of one table with means, charged to nobody: the least of five."""
    taken = []
    for _ in range(5):
        start = time.process_time()
        GroupedTable(1.0, schema=work.schema, by=work.by, mean_of=[work.column]).fit(work.frame).table()
        taken.append(time.process_time() - start)
    return min(taken)


# How it is told


def told(compared: Sequence[Compared]) -> str:
    """Lines of the first table."""
    lines = []
    for one in compared:
        shown = [f"{one.peers[peer]:.3g}" if peer in one.peers else "–" for peer in PEERS]
        lines.append(f"| {one.what} | {one.relation} | {one.ours:.3g} | {' | '.join(shown)} |")
    return "\n".join(lines)


def markdown(
    compared: Sequence[Compared], covered: Sequence[Coverage], seconds: float, repeats: int, of_quartiles: int
) -> str:
    """The tables for the page; `of_quartiles` is how often quartiles were drawn."""
    kinds = list(covered[0].shares)
    lines = [
        "| mean absolute error, ε = 1 | relation | ours | OpenDP 0.16 | the same, centred by hand | diffprivlib 0.6.6 |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
        told(compared),
        "",
        f"| share of intervals that hold, {repeats:,} repeats ({of_quartiles:,} of quartiles) | {' | '.join(kinds)} |",
        f"| --- |{' ---: |' * len(kinds)}",
        *(
            f"| {one.table} | {' | '.join(f'{one.shares[kind]:.3f}' if kind in one.shares else '–' for kind in kinds)} |"
            for one in covered
        ),
        "",
        f"Counts and means of Adult's groups take {seconds:.2g} s of processor time.",
    ]
    return "\n".join(lines)


def write_page(text: str, page: Path = PAGE) -> None:
    """Replace the part between the marks."""
    before, _, rest = page.read_text("utf-8").partition(BEGIN)
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}", "utf-8")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.grouped_statistics", description=__doc__)
    parser.add_argument(
        "--repeats", type=int, default=REPEATS, help="of ours; other than the usual, nothing is written"
    )
    parser.add_argument("--repeats-of-quartiles", type=int, default=REPEATS, help="to see how often intervals hold")
    parser.add_argument("--quantiles", choices=("errors", "intervals"), help="measure this only")
    asked_for = parser.parse_args()
    repeats, of_quartiles, work, others = asked_for.repeats, asked_for.repeats_of_quartiles, adult(), generated()
    spread = [each.with_ties_spread() for each in (work, *others) if each.whole]
    compared, covered, with_quartiles = [], [], spread
    if asked_for.quantiles != "intervals":
        compared = comparisons(work, others, repeats, peers_of_last_run() if asked_for.quantiles else None)
    if asked_for.quantiles is None:
        covered = [coverage(each, repeats, of_quartiles) for each in (work, *others)]
    else:
        with_quartiles = [work, *others, *spread] if asked_for.quantiles == "intervals" else []
    covered += [Coverage(each.name, coverage_of_quartiles(each, of_quartiles)) for each in with_quartiles]
    if asked_for.quantiles:
        compared, covered, seconds = put_into_last_run(compared, covered)
        if asked_for.quantiles == "errors":
            of_quartiles = json.loads(RESULTS.read_text("utf-8"))["repeats_of_quartiles"]
    else:
        seconds = seconds_of_a_table(work)
    text = markdown(compared, covered, seconds, repeats, of_quartiles)
    print(text)
    if repeats == REPEATS:
        written = {
            "repeats": repeats,
            "repeats_of_quartiles": of_quartiles,
            "compared": [asdict(one) for one in compared],
            "coverage": [asdict(one) for one in covered],
            "seconds": seconds,
        }
        RESULTS.write_text(json.dumps(written, indent=2, ensure_ascii=False) + "\n", "utf-8")
        write_page(text)


def put_into_last_run(
    compared: Sequence[Compared], covered: Sequence[Coverage]
) -> tuple[list[Compared], list[Coverage], float]:
    """What was measured last, with these numbers in place of those about the same things; and the seconds of a table."""
    last = json.loads(RESULTS.read_text("utf-8"))
    new, shares = {one.what: one for one in compared}, {one.table: one.shares for one in covered}
    return (
        [new.get(one["what"]) or Compared(**one) for one in last["compared"]],
        [Coverage(one["table"], {**one["shares"], **shares.get(one["table"], {})}) for one in last["coverage"]],
        last["seconds"],
    )


def peers_of_last_run() -> Peers:
    """Peers' errors by what was compared."""
    last = json.loads(RESULTS.read_text("utf-8"))["compared"]
    return {one["what"]: one["peers"] for one in last}


def comparisons(work: Workload, others: Sequence[Workload], repeats: int, known: Peers | None) -> list[Compared]:
    """Errors of ours and of the peers; of quantiles only where the peers' of groups are `known`."""
    compared: list[Compared] = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            for relation in NEIGHBOURS if known is None else ():
                compared += counts_and_means(work, relation, repeats, folder)
            print(told(compared), flush=True)
            known = known or {}
            compared += [quantiles_by_group(each, QUARTILES, repeats, folder, known) for each in (work, others[0])]
            print(told(compared[-2:]), flush=True)
            for each in (work, others[0]):
                of_medians = ANSWERS_OF_MEDIANS if repeats == REPEATS else repeats
                for wanted, answers in ((MEDIAN, of_medians), (QUARTILES, repeats // 4), (DECILES, repeats // 4)):
                    compared += quantiles_alone(each, wanted, answers, folder)
                    print(told(compared[-2:]), flush=True)
    except PeerMissing as reason:
        sys.exit(f"A peer is not there: {reason}")
    return compared


if __name__ == "__main__":
    main()
