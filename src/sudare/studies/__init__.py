"""The papers' figures and tables beside our own numbers, and the demo's scenarios."""

from sudare.studies.registry import STUDIES, load_study, study_names
from sudare.studies.results import Estimate, ResultTable, Study, StudyResult, write_result

__all__ = [
    "STUDIES",
    "Estimate",
    "ResultTable",
    "Study",
    "StudyResult",
    "load_study",
    "study_names",
    "write_result",
]
