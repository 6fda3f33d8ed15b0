"""Public tables: those in scikit-learn, and Adult and Pima from the folder that SUDARE_DATA names (else OpenML). Bounds are general knowledge about what columns mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

from benchmarks.panel.table_definition import PanelTable
from sudare.papers.adult_schema import ADULT_SCHEMA, with_known_columns
from sudare.papers.datasets import data
from sudare.schema import Category, Label, Number, Schema

# Of cell nuclei on a slide: radius, texture, perimeter, area, smoothness, compactness, concavity, concave points, symmetry, fractal dimension.
_CANCER_MEANS = (30, 40, 200, 2_500, 0.2, 0.4, 0.5, 0.25, 0.4, 0.1)
_CANCER_ERRORS = (3, 5, 20, 500, 0.03, 0.15, 0.4, 0.05, 0.08, 0.03)
_CANCER_WORST = (40, 50, 250, 4_000, 0.25, 1, 1.2, 0.3, 0.7, 0.2)
_WINE = (
    (10, 16), (0, 6), (1, 4), (10, 30), (60, 180), (0, 4), (0, 6), (0, 1), (0, 4), (0, 15), (0, 2), (1, 5), (200, 1_800),
)  # fmt: skip
_IRIS = ((4, 8), (2, 5), (0, 8), (0, 3))
_DIABETES = {
    "age": Number(18, 90), "sex": Number(1, 2), "bmi": Number(15, 50), "bp": Number(50, 150), "s1": Number(80, 350),
    "s2": Number(30, 280), "s3": Number(15, 120), "s4": Number(1, 10), "s5": Number(3, 7), "s6": Number(50, 150),
    "y": Number(0, 400),
}  # fmt: skip
_PIMA = {
    "pregnancies": Number(0, 20, whole=True), "glucose": Number(0, 250, whole=True), "blood-pressure": Number(0, 150, whole=True),
    "skin-thickness": Number(0, 100, whole=True), "insulin": Number(0, 1_000, whole=True), "bmi": Number(0, 70),
    "pedigree": Number(0, 3), "age": Number(18, 90, whole=True), "diabetes": Label((0, 1)),
}  # fmt: skip
_EDUCATION_NUMBERS = Number(1, 16, whole=True)


def _bundled(name: str, about: str, load: Callable[..., Any], bounds: Sequence[tuple[float, float]]) -> PanelTable:
    """A table of scikit-learn: columns x0, x1, … and its classes."""

    def make() -> pd.DataFrame:
        found = load()
        return pd.DataFrame(found.data, columns=[f"x{place}" for place in range(len(bounds))]).assign(y=found.target)

    columns: dict[str, Any] = {f"x{place}": Number(low, high) for place, (low, high) in enumerate(bounds)}
    classes = {"breast cancer": 2, "digits": 10}.get(name, 3)
    return PanelTable(name, about, Schema({**columns, "y": Label(tuple(range(classes)))}), make)


def _diabetes() -> pd.DataFrame:
    found: Any = load_diabetes(scaled=False)
    return pd.DataFrame(found.data, columns=list(_DIABETES)[:-1]).assign(y=found.target)


def _adult_with_both_educations() -> pd.DataFrame:
    table = data("adult-train")
    return with_known_columns(table).assign(**{"education-num": table["education-num"]})


def _adult_hours() -> pd.DataFrame:
    return with_known_columns(data("adult-train"))


_HOURS_COLUMNS = {
    **{
        name: Category(facts.levels) if isinstance(facts, Label) else facts
        for name, facts in ADULT_SCHEMA.columns.items()
    },
    "hours-per-week": Number(1, 99, whole=True),
}

PUBLIC_TABLES = (
    _bundled(
        "breast cancer",
        "569 tumours, 30 numbers, two classes",
        load_breast_cancer,
        [(0, high) for high in (*_CANCER_MEANS, *_CANCER_ERRORS, *_CANCER_WORST)],
    ),
    _bundled("wine", "178 wines, 13 numbers, three classes", load_wine, _WINE),
    _bundled("iris", "150 flowers, 4 numbers, three classes", load_iris, _IRIS),
    _bundled("digits", "1,797 digits, 64 pixels, ten classes", load_digits, [(0, 16)] * 64),
    PanelTable("diabetes", "442 patients, ten numbers, progression", Schema(_DIABETES, target="y"), _diabetes),
    PanelTable("pima", "768 women, eight numbers, diabetes or not", Schema(_PIMA), lambda: data("pima")),
    PanelTable(
        "adult",
        "32,561 people, 12 columns of which education determines education-num, income above 50,000 or not",
        Schema({**ADULT_SCHEMA.columns, "education-num": _EDUCATION_NUMBERS}),
        _adult_with_both_educations,
    ),
    PanelTable(
        "adult hours",
        "32,561 people, working hours a week",
        Schema(_HOURS_COLUMNS, target="hours-per-week"),
        _adult_hours,
    ),
)
