"""What the five papers print, callable on anybody's data, beside the product. The product never imports this."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from sudare.errors import UnknownName
from sudare.papers.study import (
    Erratum,
    Estimate,
    Figure,
    ResultTable,
    Study,
    StudyResult,
    StudySettings,
    write_result,
)

# A new study adds its line here and defines `STUDY` in its module.
STUDIES: Final[dict[str, str]] = {
    "000": "sudare.papers.p000_weak_learners",
    "001": "sudare.papers.p001_gibbs_posteriors",
    "002": "sudare.papers.p002_networks",
    "003": "sudare.papers.p003_decentralised",
    "004": "sudare.papers.p004_reconstruction",
    "core": "sudare.papers.own_studies.privacy_core",
    "consortium": "sudare.papers.own_studies.joint_learning",
}


def load_study(name: str) -> Study:
    """The study of that name."""
    if name not in STUDIES:
        raise UnknownName(f"There is no study {name!r}.", f"Use one of: {', '.join(STUDIES)}.")
    study: Study = import_module(STUDIES[name]).STUDY
    return study


__all__ = [
    "STUDIES",
    "Erratum",
    "Estimate",
    "Figure",
    "ResultTable",
    "Study",
    "StudyResult",
    "StudySettings",
    "load_study",
    "write_result",
]
