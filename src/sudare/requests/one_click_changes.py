"""Changes to a request that a steward makes with one click: less ε, coarser groups."""

from __future__ import annotations

from dataclasses import dataclass

from sudare.requests.request import Values, Version


@dataclass(frozen=True)
class SuggestedChange:
    """Other values, with the reason that is entered for them: half of ε, or without a column to group by."""

    name: str
    column: str
    reason: str
    values: Values


def suggested_changes(version: Version) -> list[SuggestedChange]:
    """What could be asked for instead."""
    found = []
    epsilon = version.values.get("epsilon", [])
    if len(epsilon) == 1:
        half = f"{float(epsilon[0]) / 2:.6g}"
        found.append(SuggestedChange("half", "", "half of ε", {**version.values, "epsilon": [half]}))
    by = list(version.values.get("by", []))
    if len(by) > 1:
        for column in by:
            others = [each for each in by if each != column]
            found.append(
                SuggestedChange("without", column, f"without groups by '{column}'", {**version.values, "by": others})
            )
    return found
