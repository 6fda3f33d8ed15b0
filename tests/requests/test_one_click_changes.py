"""Changes that a steward makes with one click."""

from __future__ import annotations

import dataclasses

from sudare.requests.one_click_changes import suggested_changes
from sudare.requests.steward_settings import RequestSettings
from tests.requests.conftest import asked


def test_half_of_epsilon_and_coarser_groups(settings: RequestSettings) -> None:
    version = dataclasses.replace(asked(settings).newest, values={"epsilon": ["0.5"], "by": ["ward", "month"]})
    half, without_ward, without_month = suggested_changes(version)
    assert half.values == {"epsilon": ["0.25"], "by": ["ward", "month"]}
    assert (without_ward.column, without_ward.values["by"]) == ("ward", ["month"])
    assert (without_month.column, without_month.values["by"]) == ("month", ["ward"])
