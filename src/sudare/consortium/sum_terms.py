"""What an agreement says about its sums, as values and in a few words: who must stay, who may lie, which noise is counted on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sudare.consortium import Agreement, Task


def sums_values(agreement: Agreement, tasks: Iterable[Task]) -> dict[str, int | str | None] | None:
    """Numbers of the sums of these tasks, and who collects them; None if they add nothing up.

    `colluders`, the members whose share of the noise is not counted on, is None where sums have no noise, or cannot be made; `collector` is None
    where all must stay.
    """
    from sudare.errors import AgreementError

    summing = [task for task in tasks if task.has_sums]
    if not summing:
        return None
    colluders = None
    if any(task.has_noisy_sums for task in summing):
        try:
            colluders = agreement.colluders
        except AgreementError:
            colluders = None
    return {
        "members": len(agreement.members),
        "threshold": agreement.threshold,
        "dishonest": agreement.dishonest,
        "colluders": colluders,
        "collector": None if agreement.threshold == len(agreement.members) else agreement.sums.collector,
    }


def sums_lines(agreement: Agreement, tasks: Iterable[Task]) -> list[str]:
    """One line about the sums of these tasks; none if they add nothing up."""
    from sudare.errors import AgreementError

    values = sums_values(agreement, tasks)
    if values is None:
        return []
    try:
        agreement.check_sums()
    except AgreementError as misfit:
        return [f"Sums cannot be made as things are: {misfit.problem}"]
    members, stay, collector = len(agreement.members), agreement.threshold, values["collector"]
    must = f"all {members} members must stay" if stay == members else f"{stay} of {members} members must stay"
    text = f"In sums {must}; {agreement.dishonest or 'none'} may be dishonest"
    if collector is not None:
        text += "; the relay collects, and sees totals" if collector == "relay" else "; members collect by turns"
    if values["colluders"] is not None:
        counted = members - agreement.colluders
        text += f"; the noise counts on {counted} {'share' if counted == 1 else 'shares'} of {members}"
    return [f"{text}."]
