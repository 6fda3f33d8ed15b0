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
    told = [
        f"In sums all {members} members must stay."
        if stay == members
        else f"In sums {stay} of {members} members must stay.",
        f"{agreement.dishonest} of them may be dishonest." if agreement.dishonest else "None of them may be dishonest.",
    ]
    if collector is not None:
        told.append("The relay collects, and sees totals." if collector == "relay" else "Members collect by turns.")
    if values["colluders"] is not None:
        counted = members - agreement.colluders
        told.append(f"The noise counts on {counted} {'share' if counted == 1 else 'shares'} of {members}.")
    return [" ".join(told)]


def schedule_values(agreement: Agreement) -> list[dict[str, object]]:
    """The schedules of an agreement, with what their runs charge the account that a member opens for it, in a year and in all.

    Where what one run charges cannot be planned, as the agreement has it.
    """
    from sudare.consortium.agreement.schedules import added_up
    from sudare.consortium.tasks.task_costs import run_cost

    found: list[dict[str, object]] = []
    for each in agreement.schedules:
        epsilon, delta = run_cost(agreement, each)
        a_year = each.runs_in_a_year()
        cost = {
            "year_epsilon": added_up([epsilon] * a_year),
            "year_delta": added_up([delta] * a_year),
            "epsilon": added_up([epsilon] * each.runs),
            "delta": added_up([delta] * each.runs),
        }
        found.append({"schedule": each.name, **each.to_dict(), "last": each.days[-2].isoformat(), **cost})
    return found


def schedule_lines(agreement: Agreement) -> list[str]:
    """One line about each schedule."""
    return [
        f"{each['schedule']}: {each['task']} every {each['every']}, {each['runs']} times from {each['first']} to {each['last']}; "
        f"in a year ε {each['year_epsilon']:g}, δ {each['year_delta']:g}, in all ε {each['epsilon']:g}, δ {each['delta']:g} at every member."
        for each in schedule_values(agreement)
    ]


def budget_lines(agreement: Agreement) -> list[str]:
    """A line where some members' budgets do not hold all that is agreed on; none where all do, as no task has to be run."""
    from sudare.consortium.agreement.schedules import added_up

    costs = [task.cost for task in agreement.tasks]
    names = ", ".join(each.name for each in agreement.members if not each.budget.holds(costs))
    if not names:
        return []
    epsilon, delta = added_up(cost[0] for cost in costs), added_up(cost[1] for cost in costs)
    return [
        f"All tasks and runs together cost ε {epsilon:g}, δ {delta:g} at every member, which is more than the budget of {names}: there the last of them will be refused."
    ]
