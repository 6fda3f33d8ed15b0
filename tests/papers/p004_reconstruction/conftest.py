"""A made-up census for the study of paper 004."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sudare.papers.p004_reconstruction import bands_table
from sudare.papers.p004_reconstruction import table2 as columns


@pytest.fixture
def census(monkeypatch):
    """A made-up census of 400 people."""
    generator = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": np.clip(generator.normal(40, 12, 400).round(), 17, 90),
            "education-num": generator.choice([9, 10, 13], 400),
            "capital-gain": np.where(generator.random(400) < 0.9, 0, 7000),
            "capital-loss": np.where(generator.random(400) < 0.9, 0, 1900),
            "hours-per-week": generator.choice([40, 50], 400),
        }
    )
    monkeypatch.setattr(columns, "data", lambda name: table)
    monkeypatch.setattr(bands_table, "data", lambda name: table)
    return table
