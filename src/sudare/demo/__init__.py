"""The demo's scenarios. A new one adds its line here and defines `play` in its module."""

from __future__ import annotations

from typing import Final

SCENARIOS: Final[dict[str, str]] = {
    "clinic": "sudare.demo.clinic_scenario",
    "hospitals": "sudare.demo.hospitals_scenario",
    "factories": "sudare.demo.factories_scenario",
    "census": "sudare.demo.census_scenario",
}
