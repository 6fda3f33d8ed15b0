"""What exact sums give away: a curious member of two computes the other's records from the totals it was shown.

Every iteration shows the other's Σ r, Σ r x and Σ r xxᵀ, at patterns that are known; the other's weights follow from its counts. After a
few iterations there are more equations than unknown numbers, and Gauss–Newton solves them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.optimize import least_squares, linear_sum_assignment
from scipy.special import logsumexp

from sudare.array_types import Floats
from sudare.dictionary.em import Dictionary, Script, TrainingTerms
from sudare.dictionary.exponential_families import Patterns, log_weights
from sudare.dictionary.gaussian_families import SparseGaussian
from sudare.dictionary.member_tables import Records
from sudare.dictionary.mixture_weights import updated_weights
from sudare.dictionary.private_sum_questions import NoisyMoments, unpacked
from sudare.dictionary.private_training import PrivateTerms
from sudare.dictionary.sum_questions import Moments, Own, PatternCounts, SumQuestion, answered
from sudare.dictionary.training import trained
from sudare.papers.repetitions import repeated_results
from sudare.papers.study import ResultTable, Tell
from sudare.privacy.noise import NoiseSource, SeededNoise

ATTACKED_ROWS: Final = 10
ATTACK_EPSILON: Final = 10.0


@dataclass(frozen=True, eq=False)
class Shown:
    """One question and the other member's answer to it, as total minus own addend."""

    question: SumQuestion
    other: Floats


@dataclass(frozen=True, eq=False)
class Equation:
    """Σ r_k (1, x, upper triangle of xxᵀ) over the other's records, at known patterns and weights."""

    patterns: Patterns
    weights: Floats
    answer: Floats


def watched(
    script: Script[Dictionary], curious: Records, other: Records, noise: NoiseSource | None = None
) -> list[Shown]:
    """Train two members and note what the curious one can compute: every answer of the other."""
    own, others, shown = Own({}), Own({}), []
    question = next(script)
    while True:
        own, addend = answered(curious, own, question, noise)
        others, hidden = answered(other, others, question, noise)
        total = addend + hidden
        shown.append(Shown(question, (total - addend) * question.limits))
        try:
            question = script.send(total * question.limits)
        except StopIteration:
            return shown


def exact_equations(shown: Sequence[Shown]) -> list[Equation]:
    """What an exact training tells about the other: one equation for every iteration."""
    equations, known = [], Own({})
    counted: tuple[PatternCounts, Floats, Floats] | None = None
    for each in shown:
        if isinstance(each.question, PatternCounts):
            question = each.question
            weights = question.branch.weights(known, len(question.patterns))
            updated = updated_weights(each.other, question.concentration)
            known = Own({**known.weights, question.branch.number: updated})
            counted = question, weights, each.other
        elif isinstance(each.question, Moments) and counted is not None:
            question, weights, counts = counted
            moments = each.other[:-3].reshape(len(counts), -1)
            equations.append(Equation(question.patterns, weights, np.hstack([counts[:, np.newaxis], moments])))
    return equations


def noisy_equations(shown: Sequence[Shown], columns: int) -> list[Equation]:
    """The same from a private training, read as if there were no noise and no clipping."""
    rows, others = np.triu_indices(columns)
    equations = []
    for each in shown:
        question = each.question
        if isinstance(question, NoisyMoments):
            counts, sums, products = unpacked(each.other, len(question.weights), columns)
            answers = []
            for k, count in enumerate(counts):
                root = np.linalg.inv(question.clip.inverses[k]) * question.clip.radius
                centre, first = question.clip.centres[k], root @ sums[k]
                second = root @ products[k] @ root.T + np.outer(centre, first) + np.outer(first, centre)
                second = second + count * np.outer(centre, centre)
                answers.append(np.concatenate([[count], first + count * centre, second[rows, others]]))
            patterns = Patterns({"means": question.means, "precisions": question.precisions})
            equations.append(Equation(patterns, question.weights, np.array(answers)))
    return equations


def solved(equations: Sequence[Equation], rows: int, generator: np.random.Generator, starts: int) -> Floats:
    """The records that fit all equations best, over several random starts."""
    columns = equations[0].patterns["means"].shape[1]
    best, cost = np.empty((rows, columns)), np.inf
    for _ in range(starts):
        start = _random_records(equations[-1], rows, generator)
        found = least_squares(
            lambda flat: _residuals(flat.reshape(rows, columns), equations),
            start.ravel(),
            jac=lambda flat: _jacobian(flat.reshape(rows, columns), equations),
            method="lm",
            xtol=1e-15,
            ftol=1e-15,
            max_nfev=400,
        )
        if found.cost < cost:
            best, cost = found.x.reshape(rows, columns), found.cost
        if cost < 1e-16:
            break
    return best


def largest_error(found: Floats, true: Floats) -> float:
    """The largest distance between a record and what was found for it, matched as well as possible."""
    distances = np.linalg.norm(found[:, np.newaxis] - true, axis=2)
    return float(distances[linear_sum_assignment(distances)].max())


def _random_records(equation: Equation, rows: int, generator: np.random.Generator) -> Floats:
    shares = np.maximum(equation.answer[:, 0], 0.0)
    labels = generator.choice(len(shares), rows, p=shares / shares.sum())
    roots = np.linalg.cholesky(np.linalg.inv(equation.patterns["precisions"]))
    noise = generator.standard_normal((rows, equation.patterns["means"].shape[1]))
    return np.asarray(equation.patterns["means"][labels] + np.einsum("nij,nj->ni", roots[labels], noise))


def _shares(Z: Floats, equation: Equation) -> Floats:
    joint = SparseGaussian().log_densities(Z, equation.patterns) + log_weights(equation.weights)
    return np.asarray(np.exp(joint - logsumexp(joint, axis=1, keepdims=True)))


def _statistics(Z: Floats) -> Floats:
    return np.hstack([np.ones((len(Z), 1)), SparseGaussian().statistics(Z)])


def _residuals(Z: Floats, equations: Sequence[Equation]) -> Floats:
    return np.concatenate([(_shares(Z, each).T @ _statistics(Z) - each.answer).ravel() for each in equations])


def _jacobian(Z: Floats, equations: Sequence[Equation]) -> Floats:
    """∂(r_k T)/∂x = T ∂r_k/∂x + r_k ∂T/∂x, with ∂r_k/∂x = r_k(g_k − Σ r_l g_l) and g = −Λ(x−μ)."""
    rows, columns = Z.shape
    firsts, seconds = np.triu_indices(columns)
    values = _statistics(Z)
    slopes = np.zeros((rows, values.shape[1], columns))
    slopes[:, 1 + np.arange(columns), np.arange(columns)] = 1.0
    for place, (first, second) in enumerate(zip(firsts, seconds, strict=True), start=1 + columns):
        slopes[:, place, first] += Z[:, second]
        slopes[:, place, second] += Z[:, first]
    parts = []
    for each in equations:
        shares = _shares(Z, each)
        gradients = -np.einsum("kij,nkj->nki", each.patterns["precisions"], Z[:, np.newaxis] - each.patterns["means"])
        mean = np.einsum("nk,nki->ni", shares, gradients)
        moved = shares[:, :, np.newaxis] * (gradients - mean[:, np.newaxis])
        whole = np.einsum("nki,nt->nkti", moved, values) + shares[:, :, np.newaxis, np.newaxis] * slopes[:, np.newaxis]
        parts.append(whole.transpose(1, 2, 0, 3).reshape(-1, rows * columns))
    return np.concatenate(parts)


# What it finds


def records_attack_table(repeats: int, tell: Tell) -> ResultTable:
    """How far a curious member of two comes with exact sums, and with noisy ones."""

    def errors_found(seed: int) -> tuple[float, float]:
        generator = np.random.default_rng([seed, 4])
        means = 3 * generator.normal(size=(2, 2))
        curious, other = (
            Records.of(means[generator.integers(2, size=rows)] + generator.normal(size=(rows, 2)))
            for rows in (40, ATTACKED_ROWS)
        )
        return _exact_attack_error(curious, other), _noisy_attack_error(curious, other, seed)

    runs = repeated_results(tell, "a curious member computes the other's records", repeats, errors_found)
    exact, noisy = zip(*runs, strict=True)
    rows = [
        (name, f"{sum(error < 1e-6 for error in errors)} of {repeats}", float(np.median(errors)), max(errors))
        for name, errors in (("exact sums", exact), (f"ε = {ATTACK_EPSILON:g}, δ = 1e-6", noisy))
    ]
    return ResultTable(
        f"The records of the other member ({ATTACKED_ROWS} records × 2 sensors), computed from ten iterations at S = 2",
        ("what was shown", "all found to 1e-6", "median of the largest error", "worst"),
        rows,
        "Errors are distances in the units of the sensors, whose spread is about 3. The attack is Gauss–Newton from twenty random starts on the sums a member of two can subtract itself from.",
    )


def _attack_terms() -> TrainingTerms:
    return TrainingTerms(
        ("a", "b"),
        np.full(2, -15.0),
        np.full(2, 15.0),
        2,
        SparseGaussian(),
        2,
        min_others=0.0,
        search=False,
        max_iter=10,
        tol=1e-12,
    )


def _exact_attack_error(curious: Records, other: Records) -> float:
    shown = watched(trained(_attack_terms()), curious, other)
    frame = next(each.question.frame for each in shown if isinstance(each.question, PatternCounts))
    found = solved(exact_equations(shown)[:10], other.rows, np.random.default_rng(0), starts=20)
    return largest_error(frame.undone(found), other.checked.together()[0])


def _noisy_attack_error(curious: Records, other: Records, seed: int) -> float:
    private = trained(PrivateTerms(_attack_terms(), ATTACK_EPSILON, 1e-6))
    shown = watched(private, curious, other, SeededNoise(seed))
    frame = next(each.question.frame for each in shown if isinstance(each.question, NoisyMoments))
    found = solved(noisy_equations(shown, 2), other.rows, np.random.default_rng(0), starts=3)
    return largest_error(frame.undone(found), other.checked.together()[0])
