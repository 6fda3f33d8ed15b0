"""What the five papers print, callable on anybody's data, beside the product. The product never imports this."""

from sudare.papers.registry import STUDIES, load_study, study_names
from sudare.papers.study import Estimate, ResultTable, Study, StudyResult, write_result

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
