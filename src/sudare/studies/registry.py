"""Studies by name. A new one adds its line here and defines `STUDY` in its module."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from sudare.errors import UnknownName
from sudare.studies.results import Study

STUDIES: Final[dict[str, str]] = {
    "000": "sudare.studies.aggregation",
    "001": "sudare.studies.posterior",
    "002": "sudare.studies.networks",
    "003": "sudare.studies.dictionary",
    "004": "sudare.studies.reconstruction",
    "core": "sudare.studies.core",
    "consortium": "sudare.studies.consortium",
}


def study_names() -> tuple[str, ...]:
    """The studies there are."""
    return tuple(STUDIES)


def load_study(name: str) -> Study:
    """The study of that name."""
    if name not in STUDIES:
        raise UnknownName(f"There is no study {name!r}.", f"Use one of: {', '.join(STUDIES)}.")
    study: Study = import_module(STUDIES[name]).STUDY
    return study
