"""The demo's scenarios. A new one adds its line here and defines `play` in its module."""

from __future__ import annotations

from typing import Final

SCENARIOS: Final[dict[str, str]] = {
    "clinic": "sudare.studies.scenarios.clinic",
    "hospitals": "sudare.studies.scenarios.hospitals",
    "factories": "sudare.studies.scenarios.factories",
    "census": "sudare.studies.scenarios.census",
}
