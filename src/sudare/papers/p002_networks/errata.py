"""What is printed in paper 002 and does not hold, as functions that show it. tests/papers/p002_networks/test_errata.py runs them all.

The approaches of `sudare.papers.p002_networks.approaches` are built as meant, without these slips.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from sudare.array_types import Floats
from sudare.papers.study import Erratum

# Complete rows of Adult, and those of them who earn more.
PEOPLE, RICHER = 45_222, 11_208


def lemma_1_as_printed(values: Floats, low: float, high: float) -> Floats:
    """min(f_min, max(f_max, value)): always f_min."""
    return np.minimum(low, np.maximum(high, values))


def lemma_1_as_meant(values: Floats, low: float, high: float) -> Floats:
    """min(f_max, max(f_min, value))."""
    return np.minimum(high, np.maximum(low, values))


def equation_13_as_printed(value: float, high: float, sensitivity: float, epsilon: float) -> float:
    """½·exp(−(ε/Δ)(f(D) − f_max)): above ½ wherever f(D) < f_max, and above 1 where the distance is Δ and ε > log 2."""
    return 0.5 * math.exp(-epsilon / sensitivity * (value - high))


def equation_13_as_meant(value: float, high: float, sensitivity: float, epsilon: float) -> float:
    """The Laplace law's mass beyond f_max: ½·exp(−(ε/Δ)(f_max − f(D)))."""
    return 0.5 * math.exp(-epsilon / sensitivity * (high - value))


def update_as_printed(weight: float, noise: float, high: float) -> float:
    """min(Δmax, min(Δmax, w + noise)): the weight where its change is meant, and no lower threshold."""
    return min(high, high, weight + noise)


def equation_3_as_printed(weights: Floats, slopes: Floats) -> Floats:
    """Σⱼ w_jk δⱼ: the sum runs over the first index of w, and the unit that the slope is of does not occur."""
    return slopes @ weights


def equation_3_as_meant(weights: Floats, slopes: Floats) -> Floats:
    """Σⱼ w_ij δⱼ of the next layer, for every unit i."""
    return weights @ slopes


def equation_4_as_printed(inputs: Floats, slopes: Floats, row: int) -> Floats:
    """One row's input times the slopes summed over the batch."""
    return np.outer(inputs[row], slopes.sum(axis=0))


def equation_4_as_meant(inputs: Floats, slopes: Floats) -> Floats:
    """The sum over the batch of each row's input times its own slope."""
    return inputs.T @ slopes


def largest_f_measure(accuracy: float, people: int = PEOPLE, positive: int = RICHER) -> float:
    """The largest F-measure of the positive class that an accuracy leaves room for: every mistake a false alarm."""
    mistakes = (1 - accuracy) * people
    return 2 * positive / (2 * positive + mistakes)


_TESTS: Final = "tests/papers/p002_networks/test_errata.py::"
ERRATA: Final = (
    Erratum(
        "Theorem 2, section 4-1",
        "ε for each parameter is the guarantee that is looked for",
        "a record has part in all d parameters, which leave together: it is promised dε",
        f"{_TESTS}test_parameter_based_epsilon_is_no_promise_to_a_record",
    ),
    Erratum(
        "section 4-2 (1), AnonymizingFirst",
        "microaggregated data (references 7 and 28) are ε-differentially private",
        "rows keep their groups, and which groups meet in a row is shown without noise: no ε holds for a record",
        f"{_TESTS}test_microaggregation_shows_which_groups_meet_in_a_row",
    ),
    Erratum(
        "eq. 3",
        "the slope of unit i is Σⱼ w_jk δⱼ",
        "Σⱼ w_ij δⱼ with the weights of the next layer",
        f"{_TESTS}test_equation_3_sums_over_the_wrong_index",
    ),
    Erratum(
        "eq. 4",
        "the change is one row's y times the slopes summed over the batch",
        "the sum over the batch of products; both are the same only if all rows have the same y",
        f"{_TESTS}test_equation_4_multiplies_a_sum_by_one_row",
    ),
    Erratum(
        "Lemma 1",
        "min(f_min, max(f_max, ·)) is the clipped value",
        "that is f_min whatever the data: min and max are swapped",
        f"{_TESTS}test_lemma_1_has_min_and_max_swapped",
    ),
    Erratum(
        "eq. 13 and eq. 14",
        "the integral from f(D) − f_max on is ½ exp(−(ε/Δ)(f(D) − t_max)), a probability",
        "t_max is f_max; it is the integral from f_max − f(D) on, and the sign of the exponent is wrong: as printed it is above 1 at distance Δ from ε = log 2 on",
        f"{_TESTS}test_equation_13_has_the_wrong_sign",
    ),
    Erratum(
        "eq. 21",
        "max(y) = max(x) is never negative",
        "it is for a unit that is never active, and turns the next interval around: max(x, 0)",
        "tests/papers/p002_networks/test_parameter_intervals.py::test_a_unit_that_can_never_be_active_moves_nothing",
    ),
    Erratum(
        "eq. 22",
        "the slopes δ^(l) lie within −1 and 1",
        "those of the output layer 𝓛 do, which is meant; those of layers before it, by (23), need not",
        f"{_TESTS}test_equation_22_is_about_the_output_layer",
    ),
    Erratum(
        "section 4-2 (3), the noisy change",
        "min(Δw_max, min(Δw_max, w + noise))",
        "the data do not enter: Δw is meant where w is printed, and max(Δw_min, ·) for the second min",
        f"{_TESTS}test_the_printed_update_does_not_see_the_data",
    ),
    Erratum(
        "section 4-2 (3), thresholds",
        "thresholds on the sum over a batch reduce the noise",
        "noise and largest signal are the same for one row and for a thousand; clipped row by row the signal grows with the batch",
        "tests/papers/p002_networks/test_anonymized_learning.py::test_noise_of_a_summed_batch_does_not_know_its_size_and_that_of_rows_is_drowned_by_more_rows",
    ),
    Erratum(
        "Theorem 4",
        "AnonymizedLearning is parameter-based ε-DP",
        "changes of later batches depend on all earlier parameters: one parameter of one epoch of four batches shows more than ε",
        f"{_TESTS}test_theorem_4_does_not_follow",
    ),
    Erratum(
        "section 5-1, layers",
        "four hidden layers, five layers in all with input and output",
        "four hidden layers are six in all; four hidden ones are taken here",
        f"{_TESTS}test_four_hidden_layers_are_six_in_all",
    ),
    Erratum(
        "section 5-1, F-measure",
        "accuracy .85 and F-measure .79",
        "no F-measure of the class that earns more is as large at this accuracy: it is the mean of both classes'",
        f"{_TESTS}test_an_f_measure_of_079_is_not_that_of_one_class",
    ),
)
