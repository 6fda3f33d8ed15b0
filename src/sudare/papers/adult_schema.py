"""What everybody may know about the columns of the Adult census data: bounds, edges and categories, none taken from the data.

Ages, working hours and the Census Bureau's codes are general knowledge; edges are round numbers of everyday talk (life
stages, part time and full time, school degrees) and of the income tax (capital gains are zero for most).
"""

from __future__ import annotations

from typing import Final

import pandas as pd

from sudare.schema import Category, Label, Number, Schema

LABEL: Final = "income"

_WORKCLASSES: Final = (
    "Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov", "Without-pay",
    "Never-worked",
)  # fmt: skip
_EDUCATIONS: Final = (
    "Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad", "Some-college",
    "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school", "Doctorate",
)  # fmt: skip
_MARITAL: Final = (
    "Married-civ-spouse", "Divorced", "Never-married", "Separated", "Widowed", "Married-spouse-absent",
    "Married-AF-spouse",
)  # fmt: skip
_OCCUPATIONS: Final = (
    "Tech-support", "Craft-repair", "Other-service", "Sales", "Exec-managerial", "Prof-specialty",
    "Handlers-cleaners", "Machine-op-inspct", "Adm-clerical", "Farming-fishing", "Transport-moving",
    "Priv-house-serv", "Protective-serv", "Armed-Forces",
)  # fmt: skip
_RELATIONSHIPS: Final = ("Wife", "Own-child", "Husband", "Not-in-family", "Other-relative", "Unmarried")
_RACES: Final = ("White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black")

ADULT_SCHEMA: Final = Schema(
    {
        "age": Number(17, 90, centre=40, scale=40, bins=(22, 26, 30, 35, 40, 45, 50, 55, 60, 65), unit="years"),
        "workclass": Category(_WORKCLASSES, missing="unknown"),
        "education": Category(_EDUCATIONS),
        "marital-status": Category(_MARITAL),
        "occupation": Category(_OCCUPATIONS, missing="unknown"),
        "relationship": Category(_RELATIONSHIPS),
        "race": Category(_RACES),
        "sex": Category(("Female", "Male")),
        "capital-gain": Number(
            0, 20_000, centre=0, scale=20_000, bins=(1, 3_000, 5_000, 7_000, 10_000, 15_000), unit="dollars"
        ),
        "capital-loss": Number(0, 3_000, centre=0, scale=3_000, bins=(1, 1_500, 1_800, 2_000, 2_200), unit="dollars"),
        "hours-per-week": Number(1, 99, centre=40, scale=60, bins=(20, 30, 38, 41, 46, 51, 60), unit="hours"),
        LABEL: Label(("<=50K", ">50K")),
    }
)


def with_known_columns(table: pd.DataFrame) -> pd.DataFrame:
    """The columns that the schema declares; the sampling weight, the second coding of education and the country are left out."""
    return table[list(ADULT_SCHEMA.columns)]
