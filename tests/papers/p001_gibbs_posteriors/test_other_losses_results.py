"""What tables of other losses say in words."""

from __future__ import annotations

import pytest

from sudare.papers.p001_gibbs_posteriors.other_losses_results import EPSILONS, places_ahead
from sudare.papers.repetitions import Measurements


@pytest.mark.parametrize(
    ("ahead", "words"),
    [((), "at no ε"), (EPSILONS, "at every ε"), (EPSILONS[:2], f"at ε = {EPSILONS[0]:g}, {EPSILONS[1]:g}")],
)
def test_who_is_ahead_is_read_off_the_numbers(ahead, words):
    found = Measurements()
    for epsilon in EPSILONS:
        for value in (0.4, 0.6):
            found.note("one", value + (epsilon in ahead), epsilon)
            found.note("other", value + 0.5, epsilon)
    assert places_ahead(found, "one", "other") == words
