"""Inverse temperatures are those of the paper's conditions, and of the tight one."""

from __future__ import annotations

import math

from numpy.testing import assert_allclose

from sudare.papers.p001_gibbs_posteriors import temperatures
from sudare.papers.p001_gibbs_posteriors.inverse_temperatures import gaussian_beta


def test_inverse_temperatures_are_those_of_the_conditions():
    table = temperatures.logistic_table()
    for rows, regularization, epsilon, delta, printed, theorem, tight, ratio in table.rows:
        assert tight == gaussian_beta(epsilon, delta, 1.0, rows * regularization)
        assert theorem < tight
        assert (printed == "not proved") == (epsilon > 1.05) == (ratio == "–")
        if printed != "not proved":
            assert_allclose(printed, epsilon / 2 * math.sqrt(rows * regularization / (1 + 2 * math.log(1 / delta))))
    for _, _, printed, tight, _, deviation in temperatures.normal_table().rows:
        assert printed < tight
        assert 0 < deviation < 1
