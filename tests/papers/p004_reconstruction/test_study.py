"""The study of paper 004 is registered."""

from __future__ import annotations

from sudare.papers import load_study


def test_the_study_is_registered():
    study = load_study("004")
    assert study.paper.startswith("004")
    assert study.repeats >= 10
    assert study.settings(quick=True).repeats == 2
    assert len({erratum.place for erratum in study.errata}) == len(study.errata)
