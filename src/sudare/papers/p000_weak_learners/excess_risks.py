"""What Algorithms 1 and 2 and the aggregate lose, measured, beside the bounds of Theorems 2.1, 2.2 and 4.1 over n, ε and M.

Rows are those of section 5.1, Θ is the unit ball: then scores lie within one, where condition (19) holds with β = e.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from sudare.array_types import Floats
from sudare.papers.p000_weak_learners import (
    bounds,
    noisy_sgd,
    perturbed_erm,
    simulated_members,
)
from sudare.papers.p000_weak_learners.learning_tasks import Task, synthetic
from sudare.papers.repetitions import Measurements, repeated
from sudare.papers.study import Cell, Figure, ResultTable, Tell, number_of, range_text
from sudare.report.plots import Panel, Series, curves

RADIUS: Final = 1.0
WIDTH: Final = 10
DELTA: Final = 1e-6
EPSILONS: Final = (0.1, 1.0, 10.0)
OBJECTIVE_ROWS: Final = (50, 200, 800, 3_200)
DESCENT_ROWS: Final = (50, 200, 800)
# Where ε varies in the pictures.
MIDDLE_ROWS: Final = 200
CONVEXITY: Final = 0.1
NODES: Final = (5, 10, 25, 50, 100, 200)
ALL_ROWS: Final = 5_000
RISK_ROWS: Final = 20_000
PAPER_LAMBDA: Final = 0.01
CHANCE: Final = 0.05
# Noise is drawn so often on each data set.
DRAWS: Final = 20
OBJECTIVE_SEED, DESCENT_SEED, AGGREGATE_SEED = 20150903, 20150904, 20150905


def one_table(generator: np.random.Generator, rows: int) -> tuple[Floats, Floats]:
    """Rows and labels of section 5.1 in one place."""
    task = synthetic(generator, nodes=1, rows=rows, test=2)
    return task.rows[0], task.labels[0]


# Theorem 2.1


def balanced_penalty(epsilon: float, delta: float) -> float:
    """Δ of the order that eqs. (6) and (7) need: √E‖b‖²/‖Θ‖, and at least what Algorithm 1 asks for."""
    return max(perturbed_erm.least_extra_penalty(epsilon), math.sqrt(squared_noise(epsilon, delta)) / RADIUS)


def squared_noise(epsilon: float, delta: float) -> float:
    """E‖b‖² of Algorithm 1."""
    if delta == 0:
        return bounds.squared_noise_a(1.0, WIDTH, epsilon)
    return bounds.squared_noise_b(perturbed_erm.algorithm_1_deviation(epsilon, delta), WIDTH)


def objective_risks(tell: Tell, repeats: int, counts: Sequence[int]) -> Measurements:
    """Excess empirical risk of Algorithm 1, with the least Δ and with the balanced one."""

    def note(found: Measurements, generator: np.random.Generator) -> None:
        for count in counts:
            rows, labels = one_table(generator, count)
            least = bounds.logistic_risk(rows, labels, bounds.ball_minimiser(rows, labels, RADIUS))
            tables = np.broadcast_to(rows, (DRAWS, *rows.shape)), np.broadcast_to(labels, (DRAWS, count))
            for epsilon in EPSILONS:
                for delta in (0.0, DELTA):
                    for name, penalty in (("least", None), ("balanced", balanced_penalty(epsilon, delta))):
                        drawn = perturbed_erm.algorithm_1(
                            *tables, epsilon, delta, generator, extra_penalty=penalty, radius=RADIUS
                        )
                        risks = [bounds.logistic_risk(rows, labels, theta) for theta in drawn]
                        found.note((name, count, delta), float(np.mean(risks)) - least, epsilon)

    return repeated(tell, "Theorem 2.1", repeats, OBJECTIVE_SEED, note)


def printed_2_1(epsilon: float, delta: float, count: int) -> float:
    """Eqs. (6) and (7) with ‖θ*‖ ≤ ‖Θ‖ and a constant of one."""
    if delta == 0:
        return bounds.theorem_2_1_a(1.0, RADIUS, WIDTH, epsilon, count)
    return bounds.theorem_2_1_b(1.0, RADIUS, WIDTH, epsilon, delta, count)


def balanced_bound_2_1(epsilon: float, delta: float, count: int) -> float:
    """What holds at the balanced Δ."""
    noise, balanced = squared_noise(epsilon, delta), balanced_penalty(epsilon, delta)
    return bounds.theorem_2_1_that_holds(noise, balanced, RADIUS, count)


def theorem_2_1_table(found: Measurements, counts: Sequence[int]) -> ResultTable:
    """Measured beside the bounds."""
    rows: list[tuple[Cell, ...]] = []
    for delta in (0.0, DELTA):
        for count in counts:
            for epsilon in EPSILONS:
                noise, least = squared_noise(epsilon, delta), perturbed_erm.least_extra_penalty(epsilon)
                rows.append(
                    (
                        delta,
                        count,
                        epsilon,
                        perturbed_erm.algorithm_1_epsilon(epsilon, delta),
                        found.at(("least", count, delta), epsilon),
                        bounds.theorem_2_1_that_holds(noise, least, RADIUS, count),
                        found.at(("balanced", count, delta), epsilon),
                        balanced_bound_2_1(epsilon, delta, count),
                        printed_2_1(epsilon, delta, count),
                    )
                )
    return ResultTable(
        "Theorem 2.1: excess empirical risk of Algorithm 1 beside its bounds",
        (
            "δ",
            "n",
            "ε asked for",
            "ε kept, replace-one",
            "measured, least Δ",
            "bound that holds",
            "measured, Δ = √E‖b‖²/‖Θ‖",
            "its bound that holds",
            "eqs. (6), (7), constant 1",
        ),
        rows,
        f"Add/remove as printed, and what that is for replace-one records; ± one standard error over {found.repeats} data sets, {DRAWS} draws of noise each; p = {WIDTH}, Θ the unit ball. {theorem_2_1_conclusion(rows)}",
    )


def theorem_2_1_conclusion(rows: Sequence[Sequence[Cell]]) -> str:
    """How far apart the columns of the table are, from its rows."""
    numbers = [[number_of(cell) for cell in row] for row in rows]
    missing = {delta: [row[5] / row[8] for row in numbers if row[0] == delta] for delta in (0.0, DELTA)}
    by_delta = " and ".join(f"{range_text(ratios)} times (δ = {delta:g})" for delta, ratios in missing.items())
    return (
        f"The bounds that hold are {range_text([row[column + 1] / row[column] for row in numbers for column in (4, 6)])} times what was measured, "
        f"and eqs. (6), (7) with a constant of one {range_text([row[8] / row[column] for row in numbers for column in (4, 6)])} times. These hold in order for Δ as large as in the "
        f"last columns; for the least Δ that Algorithm 1 allows, the bound that holds is {by_delta} the printed one."
    )


# Theorem 2.2


def descent_risks(tell: Tell, repeats: int, counts: Sequence[int]) -> Measurements:
    """Excess empirical risk of Algorithm 2 in both cases of the theorem, with the printed σ and with the one of modern accounting."""

    def note(found: Measurements, generator: np.random.Generator) -> None:
        for count in counts:
            rows, labels = one_table(generator, count)
            for convexity in (0.0, CONVEXITY):
                least = _regularised_risk(rows, labels, convexity)(
                    bounds.ball_minimiser(rows, labels, RADIUS, convexity / 2)
                )
                for epsilon in EPSILONS:
                    for name, sigma in sigmas(count, epsilon, convexity).items():
                        theta = noisy_sgd.algorithm_2(
                            rows, labels, sigma, generator, radius=RADIUS, convexity=convexity
                        )
                        loss = _regularised_risk(rows, labels, convexity)(theta) - least
                        found.note((name, count, convexity), loss, epsilon)

    return repeated(tell, "Theorem 2.2", repeats, DESCENT_SEED, note)


def _regularised_risk(rows: Floats, labels: Floats, convexity: float) -> Callable[[Floats], float]:
    return lambda theta: bounds.logistic_risk(rows, labels, theta) + convexity / 2 * float(theta @ theta)


def sigmas(count: int, epsilon: float, convexity: float) -> dict[str, float]:
    """The printed σ, and the least one by modern accounting: the ridge term is public, so only the loss counts there."""
    lipschitz = noisy_sgd.largest_gradient(convexity, RADIUS)
    return {
        "printed": noisy_sgd.printed_sigma(count, epsilon, DELTA, lipschitz),
        "modern": count * noisy_sgd.modern_multiplier(count, epsilon, DELTA),
    }


def sigma_table(counts: Sequence[int]) -> ResultTable:
    """Line 1 of Algorithm 2 beside what its n² steps need."""
    rows: list[tuple[Cell, ...]] = []
    for count in counts:
        for epsilon in EPSILONS:
            printed = noisy_sgd.printed_sigma(1, epsilon, DELTA)
            rows.append(
                (
                    count,
                    count**2,
                    epsilon,
                    printed,
                    noisy_sgd.algorithm_2_epsilon(count, printed, DELTA),
                    noisy_sgd.original_sigma(count, epsilon, DELTA) / count,
                    noisy_sgd.modern_multiplier(count, epsilon, DELTA),
                )
            )
    return ResultTable(
        "Algorithm 2: its σ, the ε it keeps, and the σ that would do",
        (
            "n",
            "steps n²",
            "ε asked for",
            "printed σ/(nL)",
            "ε it keeps",
            "σ/(nL) with log(n/δ), as in [12]",
            "σ/(nL) by modern accounting",
        ),
        rows,
        f"Replace-one records, δ = {DELTA:g}. The ε that is kept is computed by composing privacy loss distributions, rounded up. {algorithm_2_conclusion(rows)} The paper prints log(2/δ) where its source has log(n/δ).",
    )


def algorithm_2_conclusion(rows: Sequence[Sequence[Cell]]) -> str:
    """How far the printed σ is from the one that would do, from the table's rows."""
    numbers = [[number_of(cell) for cell in row] for row in rows]
    kept, needed = ([row[top] / row[below] for row in numbers] for top, below in ((4, 2), (3, 6)))
    return f"The printed σ keeps {range_text(kept)} times the ε that is asked for here, and is {range_text(needed)} times what is needed."


def theorem_2_2_table(found: Measurements, counts: Sequence[int]) -> ResultTable:
    """Measured beside the bounds."""
    rows: list[tuple[Cell, ...]] = []
    for convexity in (0.0, CONVEXITY):
        for count in counts:
            for epsilon in EPSILONS:
                noise = sigmas(count, epsilon, convexity)
                rows.append(
                    (
                        "(b)" if convexity else "(a)",
                        count,
                        epsilon,
                        found.at(("printed", count, convexity), epsilon),
                        corrected_bound_2_2(noise["printed"], convexity, count),
                        found.at(("modern", count, convexity), epsilon),
                        corrected_bound_2_2(noise["modern"], convexity, count),
                        printed_2_2(epsilon, convexity, count),
                        printed_2_2(epsilon, convexity, count) / count,
                    )
                )
    return ResultTable(
        "Theorem 2.2: excess empirical risk of Algorithm 2 beside its bounds",
        (
            "case",
            "n",
            "ε",
            "measured, printed σ",
            "bound that holds",
            "measured, modern σ",
            "its bound that holds",
            "eqs. (8), (9), constant 1",
            "the same for the mean loss (÷ n)",
        ),
        rows,
        f"Replace-one records, δ = {DELTA:g}, ± one standard error over {found.repeats} data sets; p = {WIDTH}, Θ the unit ball; (b) has β = {CONVEXITY:g}. Printed for the mean loss, (8) and (9) are those of the sum of losses: n times too large. "
        f"Losses on this Θ differ by at most log(1 + e) − log(1 + 1/e) = 1, so bounds above one say nothing.",
    )


def printed_2_2(epsilon: float, convexity: float, count: int) -> float:
    """Eq. (8), or (9) with strong convexity, with a constant of one."""
    lipschitz = noisy_sgd.largest_gradient(convexity, RADIUS)
    if convexity:
        return bounds.theorem_2_2_b(lipschitz, convexity, WIDTH, epsilon, DELTA, count)
    return bounds.theorem_2_2_a(lipschitz, 2 * RADIUS, WIDTH, epsilon, DELTA, count)


def corrected_bound_2_2(sigma: float, convexity: float, count: int) -> float:
    """What holds at this σ."""
    lipschitz = noisy_sgd.largest_gradient(convexity, RADIUS)
    if convexity:
        return bounds.theorem_2_2_b_that_holds(lipschitz, convexity, WIDTH, sigma, count)
    return bounds.theorem_2_2_a_that_holds(lipschitz, 2 * RADIUS, WIDTH, sigma, count)


# Theorem 4.1


def aggregate_risks(tell: Tell, repeats: int, nodes: Sequence[int]) -> Measurements:
    """Excess risk of the mirror average of Algorithm 1's classifiers, and how far it is above the best of them."""

    def note(found: Measurements, generator: np.random.Generator) -> None:
        for count in nodes:
            task = synthetic(generator, nodes=count, rows=ALL_ROWS, test=RISK_ROWS)
            best = bounds.ball_minimiser(task.test_rows, task.test_labels, RADIUS)
            least = bounds.logistic_risk(task.test_rows, task.test_labels, best)
            approximation = bounds.approximation_error(task.test_rows, task.test_labels, PAPER_LAMBDA, RADIUS)
            found.note(("approximation", count), approximation)
            for epsilon in EPSILONS:
                messages = regularised_messages(task, epsilon, generator)
                own = risks_of(task, messages)
                combined = risks_of(task, simulated_members.mirror_averaged(task, messages))
                others = np.where(np.eye(count, dtype=bool), np.inf, own).min(axis=1)
                found.note(("combined", count), float(combined.mean()) - least, epsilon)
                found.note(("over best", count), float((combined - others).mean()), epsilon)
                found.note(("single", count), float(own.mean()) - least, epsilon)

    return repeated(tell, "Theorem 4.1", repeats, AGGREGATE_SEED, note)


def regularised_messages(task: Task, epsilon: float, generator: np.random.Generator) -> Floats:
    """Algorithm 1 on every node, Δ as large as λ_reg = 0.01 of eq. (24) makes it, or as ε needs."""
    penalty = max(perturbed_erm.least_extra_penalty(epsilon), 2 * PAPER_LAMBDA * task.rows.shape[1])
    return perturbed_erm.algorithm_1(
        task.rows, task.labels, epsilon, 0.0, generator, extra_penalty=penalty, radius=RADIUS
    )


def risks_of(task: Task, parameters: Floats) -> Floats:
    """The risk of every row of parameters, on many test rows."""
    margins = task.test_labels[:, np.newaxis] * (task.test_rows @ parameters.T)
    return np.asarray(np.logaddexp(0.0, -margins).mean(axis=0))


def printed_4_1(found: Measurements, nodes: int, epsilon: float) -> float:
    """Eq. (25) with C₁ and C₂ as in eq. (A.11), whose own constants are taken as one."""
    return bounds.theorem_4_1(
        nodes - 1, ALL_ROWS, ALL_ROWS // nodes, epsilon, CHANCE, PAPER_LAMBDA, simulated_members.TEMPERATURE,
        found.at(("approximation", nodes)).value, *bounds.theorem_4_1_constants(RADIUS, WIDTH),
    )  # fmt: skip


def theorem_4_1_table(found: Measurements, nodes: Sequence[int]) -> ResultTable:
    """Measured beside the bounds."""
    return ResultTable(
        "Theorem 4.1: excess risk of the aggregate beside its bound",
        (
            "M + 1",
            "n₀",
            "ε",
            "one private weak learner",
            "aggregated",
            "eq. (25)",
            "aggregated, above the best weak learner",
            "β·log M/n₀ (Theorem 3.1)",
        ),
        [
            (
                count,
                ALL_ROWS // count,
                epsilon,
                found.at(("single", count), epsilon),
                found.at(("combined", count), epsilon),
                printed_4_1(found, count, epsilon),
                found.at(("over best", count), epsilon),
                bounds.theorem_3_1(simulated_members.TEMPERATURE, count - 1, ALL_ROWS // count),
            )
            for count in nodes
            for epsilon in EPSILONS
        ],
        f"Add/remove as printed, pure ε; ± one standard error over {found.repeats} data sets of {ALL_ROWS:,} rows, dealt out evenly; logistic risk on {RISK_ROWS:,} rows; λ_reg = {PAPER_LAMBDA:g}, β = {simulated_members.TEMPERATURE:g}, α = {CHANCE:g}, "
        "Θ the unit ball; constants of (A.11) taken as one. Eq. (25) says nothing here: with λ_reg = 0.01 its second term alone is above 10, and no risk of this Θ is above log(1 + e). It grows with M at fixed n, and so does what is measured: "
        "more nodes with fewer rows each lose more. The oracle inequality of Theorem 3.1 holds everywhere, within a factor of four at many places.",
    )


# Pictures


def bounds_figures(
    objective: Measurements, descent: Measurements, aggregate: Measurements,
    objective_rows: Sequence[int], descent_rows: Sequence[int], nodes: Sequence[int],
) -> list[Figure]:  # fmt: skip
    """One figure for each theorem: against n (or M) at ε = 1, and against ε."""
    differs = "The paper states these bounds and measures none of them."

    def objective_lines(places: Sequence[tuple[int, float]]) -> list[Series]:
        return [
            Series("measured, least Δ", [objective.at(("least", n, 0.0), e).value for n, e in places]),
            Series("measured, balanced Δ", [objective.at(("balanced", n, 0.0), e).value for n, e in places]),
            Series("eq. (6), constant 1", [printed_2_1(e, 0.0, n) for n, e in places], dashed=True),
            Series("bound that holds, balanced Δ", [balanced_bound_2_1(e, 0.0, n) for n, e in places], dashed=True),
        ]

    def descent_lines(places: Sequence[tuple[int, float]]) -> list[Series]:
        return [
            Series("measured, printed σ", [descent.at(("printed", n, 0.0), e).value for n, e in places]),
            Series("measured, modern σ", [descent.at(("modern", n, 0.0), e).value for n, e in places]),
            Series("eq. (8) ÷ n, constant 1", [printed_2_2(e, 0.0, n) / n for n, e in places], dashed=True),
            Series(
                "bound that holds, modern σ",
                [corrected_bound_2_2(sigmas(n, e, 0.0)["modern"], 0.0, n) for n, e in places],
                dashed=True,
            ),
        ]

    def aggregate_lines(places: Sequence[tuple[int, float]]) -> list[Series]:
        return [
            Series("aggregated, measured", [aggregate.at(("combined", m), e).value for m, e in places]),
            Series("one weak learner, measured", [aggregate.at(("single", m), e).value for m, e in places]),
            Series("eq. (25)", [printed_4_1(aggregate, m, e) for m, e in places], dashed=True),
        ]

    return [
        Figure(
            "Theorem 2.1",
            f"Excess empirical risk of Algorithm 1 (δ = 0) at ε = 1 against n, and at n = {MIDDLE_ROWS} against ε.",
            [
                _panel("n", objective_rows, objective_lines([(n, 1.0) for n in objective_rows]), "ε = 1"),
                _panel("ε", EPSILONS, objective_lines([(MIDDLE_ROWS, e) for e in EPSILONS]), f"n = {MIDDLE_ROWS}"),
            ],
            differs,
        ),
        Figure(
            "Theorem 2.2",
            f"Excess empirical risk of Algorithm 2, case (a), δ = {DELTA:g}, at ε = 1 against n, and at n = {MIDDLE_ROWS} against ε.",
            [
                _panel("n", descent_rows, descent_lines([(n, 1.0) for n in descent_rows]), "ε = 1"),
                _panel("ε", EPSILONS, descent_lines([(MIDDLE_ROWS, e) for e in EPSILONS]), f"n = {MIDDLE_ROWS}"),
            ],
            differs,
        ),
        Figure(
            "Theorem 4.1",
            f"Excess risk of the aggregate, {ALL_ROWS:,} rows in all, at ε = 1 against the number of nodes, and with {nodes[-2]} nodes against ε.",
            [
                _panel("M + 1", nodes, aggregate_lines([(m, 1.0) for m in nodes]), "ε = 1"),
                _panel("ε", EPSILONS, aggregate_lines([(nodes[-2], e) for e in EPSILONS]), f"{nodes[-2]} nodes"),
            ],
            differs,
        ),
    ]


def _panel(x_label: str, x: Sequence[float], lines: Sequence[Series], title: str) -> Panel:
    return curves(x, lines, x_label=x_label, y_label="excess risk", title=title, logarithmic=True)
