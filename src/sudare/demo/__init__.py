"""The demo's scenarios. A new one adds its line here and defines `play` in its module."""

from __future__ import annotations

from typing import Final

SCENARIOS: Final[dict[str, str]] = {
    "clinic": "sudare.demo.clinic",
    "hospitals": "sudare.demo.hospitals",
    "factories": "sudare.demo.factories",
    "census": "sudare.demo.census",
}
