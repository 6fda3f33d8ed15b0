"""Numbers of pages that have few of them: papers, dependencies, mutation testing."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import numpy as np
from sklearn.base import clone

from benchmarks.page_numbers.places import Told, result, study, study_rows, study_says, told
from benchmarks.peers import ROOT
from sudare.audit.linear_audits import CASES
from sudare.audit.linear_output_laws import step_weights
from sudare.linear.descent import GradientDescent


def all_told() -> Iterator[Told]:
    """What the pages say."""
    yield from _mutation()
    yield _parquet_lines()
    yield from _versions()
    yield from _first_levels()
    yield _level_with_descent()
    yield _shown_by_average()


def _mutation() -> Iterator[Told]:
    """Scores follow from counts, caught ones from the others, and the last line from those above it."""
    for modules in result("benchmarks/mutation.json").values():
        rows = [
            (name, *(found[what] for what in ("mutants", "survived", "not run"))) for name, found in modules.items()
        ]
        totals = [sum(row[column] for row in rows) for column in (1, 2, 3)]
        if totals[2]:
            yield told("mutation", "all but {} mutants that time did not allow for", totals[2])
        for name, mutants, survived, idle in (*rows, ("**all**", *totals)):
            caught = mutants - survived - idle
            # Both tables may have a line of a module: the first count tells which.
            yield told(
                "mutation",
                f"| {name} | {mutants:,} | {{}} | {{}} | {{}} | {{}} % |",
                caught,
                survived,
                idle,
                100 * caught / mutants,
            )


def _parquet_lines() -> Told:
    modules = ("parquet_writer", "parquet_columns", "thrift_compact_writer")
    lines = [len((ROOT / "src/sudare/perturbation" / f"{name}.py").read_text("utf-8").splitlines()) for name in modules]
    return told("dependencies", "`thrift_compact_writer`: {} lines)", sum(lines))


def pinned(file: str, package: str) -> str:
    """The version of a package in a file of requirements."""
    text = (ROOT / "benchmarks" / file).read_text("utf-8")
    (version,) = re.findall(rf"^{re.escape(package)}==(\S+)", text, re.MULTILINE)
    return str(version)


def _versions() -> Iterator[Told]:
    """Peers as they were measured."""
    diffprivlib, perturbing = pinned("peers.lock", "diffprivlib"), pinned("peers.lock", "multi-freq-ldpy")
    for page in ("README.md", "README.ja.md"):
        yield told(page, "| diffprivlib {} |", diffprivlib)
        yield told(page, "| Opacus {} |", pinned("opacus.in", "opacus"))
    yield told("benchmarks", "in turns with multi-freq-ldpy {}", perturbing)
    yield told("records", "of multi-freq-ldpy {} the best of ten", perturbing)
    yield told("records", "(`mbi` {})", pinned("aim.in", "mbi"))
    flower = pinned("flower.lock", "flwr")
    yield told("benchmarks", "runs one sum by Flower {} in one process", flower)
    yield told("benchmarks", "| | Flower {} | file, function |", flower)
    yield told("benchmarks", "On one NVIDIA H200 with JAX {}", result("benchmarks/gpu_results.jsonl")[0]["jax"])
    (files,) = (
        each for each in result("benchmarks/perturbing_at_scale.json") if each["name"].startswith("two numbers")
    )
    libraries = 100 * files["bytes_before"] / files["peak_bytes"]
    yield told("benchmarks", "the libraries (in brackets) are {} %", libraries)
    (torch,) = (each["torch"] for each in result("benchmarks/gpu_images.jsonl") if "torch" in each)
    yield told("benchmarks", "(PyTorch {}) on the same network", torch.rpartition(".")[0])


def first_level(curve: dict[float, float], line: dict[float, float] | float) -> float:
    """From which ε on a curve is above a line, or another curve."""
    lines = line if isinstance(line, dict) else dict.fromkeys(curve, line)
    return min(level for level in curve if all(curve[each] > lines[each] for each in curve if each >= level))


def _first_levels_of_studies() -> Iterator[Told]:
    """From which ε on messages of others are worth something."""
    hospitals = study(
        "consortium", "Breast cancer, ten hospitals: the consortium-wide model, and with each hospital's own patients"
    )
    own, shared = (
        {level: cells[f"common scales: {way}"] for level, cells in hospitals.items()}
        for way in ("own only", "with own")
    )
    gained = {level: shared[level]["value"] - own[level]["value"] for level in own}
    doubt = {level: own[level]["standard_error"] + shared[level]["standard_error"] for level in own}
    worth = [level for level in own if gained[level] > doubt[level]]
    nothing = [level for level in own if abs(gained[level]) <= doubt[level]]
    yield told(
        "consortium-learning",
        "is worth something from ε = {}; at ε = {} and {} with common scales it is worth nothing",
        min(worth),
        *nothing,
    )
    private = study("003", "The dictionary with ε: ten members, 1,000 records each, four sensors, three patterns")
    alone = private["own mixture, nothing shared"]["gap, nats"]["value"]
    gaps = {level: -cells["gap, nats"]["value"] for level, cells in private.items() if isinstance(level, float)}
    first = first_level(gaps, -alone)
    yield told(
        "dictionary",
        "From ε = {} on the private dictionary is better than members alone; at ε = {} and below",
        first,
        max(level for level in gaps if level < first),
    )
    ages = study("000", "Future work: age, numbers from 17 to 90")
    released = {
        float(name.rpartition("= ")[2]): cells["R², 100 own rows"]["value"]
        for name, cells in ages.items()
        if name.startswith("released")
    }
    yield told(
        "experts",
        "of numbers it is no worse than these from ε = {} on",
        first_level(released, ages["own data only"]["R², 100 own rows"]["value"]),
    )
    (step,) = (
        each["ratio"]
        for each in result("benchmarks/results.json")
        if each["name"].endswith("(both: ours; the peer is the same step without privacy)")
    )
    yield told("neural", "two layers of 64 on 1,024 rows takes {} times as long as an ordinary one on a CPU", 1 / step)


def _first_levels() -> Iterator[Told]:
    """From which ε on something is better."""
    pima = study("000", "Figure 5: diabetes (Pima)")
    aggregated = {level: cells["aggregated (mirror averaging)"]["value"] for level, cells in pima.items()}
    # The lines of the local classifier stand in the text below the table, with a free intercept and tuned.
    free, tuned = (
        float(number)
        for number in re.findall(r"(0\.\d+) ± [\d.]+(?:,| \()", study_says("000", "Figure 5: diabetes (Pima)"))
    )
    yield told(
        "papers/000",
        "above it from ε = {} on, and above a tuned one from {} on",
        first_level(aggregated, free),
        first_level(aggregated, tuned),
    )
    behind = [
        level for level in aggregated
        if 1 <= (free - aggregated[level]) / pima[level]["aggregated (mirror averaging)"]["standard_error"] < 2
    ]  # fmt: skip
    yield told("papers/000", "behind by one to two standard errors at {} and {}", *behind)
    yield from _first_levels_of_studies()
    adult = study("001", "Accuracy of one draw: Adult")
    draw, peer = (
        {level: cells[way]["value"] for level, cells in adult.items()}
        for way in ("one draw, public rule", "diffprivlib, pure ε, best C")
    )
    yield told("gibbs", "From ε = {} on Adult a draw is behind diffprivlib at its best C", first_level(peer, draw))
    figure = study_rows("002", "Figure 5: the three approaches in the printed setting")
    (majority,) = (each["accuracy"]["value"] for each in figure if each["approach"] == "majority")
    first = []
    for approach in ("AnonymizingFirst", "LearningFirst", "AnonymizedLearning"):
        own = [each for each in figure if each["approach"] == approach]
        first.append(
            first_level({each["ε as the paper counts it"]: each["accuracy"]["value"] for each in own}, majority)
        )
    yield told(
        "papers/002",
        "it holds here for AnonymizingFirst from ε = {} on and for the other two from ε = {} on",
        first[0],
        max(first[1:]),
    )


def _level_with_descent() -> Told:
    """From which ε on networks are not behind logistic regression at the same guarantee by more than both standard errors."""
    rows = study_rows("002", "Adult at one ε for records")
    network, logistic = (
        {float(each["ε, add/remove"]): each["accuracy"] for each in rows if each["method"] == method}
        for method in ("noisy descent, binned", "logistic, replace-one as converted")
    )
    gained = {level: found["value"] - logistic[level]["value"] for level, found in network.items()}
    doubt = {level: -found["standard_error"] - logistic[level]["standard_error"] for level, found in network.items()}
    return told(
        "papers/002",
        "by accuracy DP-SGD is within the errors of it or ahead from ε = {} (add/remove) on",
        first_level(gained, doubt),
    )


def _shown_by_average() -> Told:
    """How much of all steps' distance the average of the iterates has, in the audit of ridge regression by descent."""
    case = CASES["PrivateRidge-descent"]
    model = clone(case.model(1.0)).fit(*case.pair[0])
    method = model.plan(model.n_rows_, model.declared_).mechanism
    if not isinstance(method, GradientDescent):
        raise TypeError("The audit of descent is one of another method.")
    weights = step_weights(method.recipe)
    share = weights.sum() / np.linalg.norm(weights) / math.sqrt(len(weights))
    return told("audits", "weighs the steps unequally and shows {} of what all of them would", float(share))
