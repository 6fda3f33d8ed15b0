"""The study of paper 004 is registered."""

from __future__ import annotations

from sudare.papers import load_study
from sudare.papers.p004_reconstruction import own_repeats


def test_the_study_is_registered():
    study = load_study("004")
    assert study.paper.startswith("004")
    assert study.repeats >= 10
    assert study.settings(quick=True).repeats == 2
    assert len({erratum.place for erratum in study.errata}) == len(study.errata)


def test_our_own_comparisons_are_repeated_twice_at_least():
    assert [own_repeats(repeats) for repeats in (2, 10, 30)] == [2, 3, 10]
