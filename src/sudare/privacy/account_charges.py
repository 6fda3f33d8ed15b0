"""What is charged: cost and guarantee in an account's own relation, and what is said where the budget does not allow it."""

from __future__ import annotations

import shlex
from dataclasses import replace

from sudare.errors import BudgetError, BudgetExceeded, InvalidCost, RelationMismatch
from sudare.privacy.account_balance import AccountState, Amount
from sudare.privacy.account_terms import Terms
from sudare.privacy.accounting import Cost, decimal_up
from sudare.privacy.guarantee import Guarantee, Neighbours, Unit, readable_down, readable_up
from sudare.privacy.source_identity import SliceIdentity, Source


def slice_of(guarantee: Guarantee, source: Source | None) -> SliceIdentity | None:
    """The slice that a charge is for; None where it is for all records.

    Rows of one person may lie in many slices, so what protects persons is charged for all records.
    """
    return None if source is None or guarantee.unit == "person" else source.part


def check_relation(name: str, terms: Terms, neighbours: Neighbours, unit: Unit, source: Source | None = None) -> None:
    """Raise RelationMismatch unless a promise in this relation, to these units, says something in the account's."""
    if terms.unit == "person" and unit != "person":
        raise RelationMismatch(
            f"Account '{name}' protects persons, the guarantee only records.",
            "Declare in the schema who a row belongs to: a section [person] with column and most_rows. "
            "A promise to records says nothing of somebody with several. Nothing was computed or spent.",
        )
    if source is not None and source.part is not None and neighbours != "add-remove":
        raise RelationMismatch(
            "How many rows a slice has is not public: a replaced record may belong to another slice.",
            'Use neighbours="add-remove", which tables by group, histograms, quantiles, synthesizers and networks take; or fit '
            "the whole table. Nothing was computed or spent.",
        )
    if terms.neighbours == "add-remove" and neighbours != "add-remove":
        raise RelationMismatch(
            f"Account '{name}' counts added and removed records. A replace-one guarantee says nothing about add/remove neighbours.",
            'Use neighbours="add-remove", which tables by group, histograms, quantiles, synthesizers and networks take; '
            "what has no such option needs an account for replaced records. Nothing was computed or spent.",
        )


def in_relation(
    name: str, terms: Terms, guarantee: Guarantee, cost: Cost, source: Source | None = None
) -> tuple[Cost, Guarantee]:
    """Cost and guarantee in the account's relation and unit; what cannot be converted is refused."""
    if guarantee.notion == "none":
        raise InvalidCost("What has no guarantee cannot be charged.", "Enter it with Account.disclose.")
    if not guarantee.valid:
        raise InvalidCost(
            "A guarantee that is not valid cannot be charged: what it pays for could never leave.",
            "Declare classes and bounds by public knowledge, and give no seed.",
        )
    if guarantee.notion == "parameter":
        raise InvalidCost(
            "A guarantee about parameters says nothing about the records of an account.",
            "Charge the guarantee that follows from it for a record.",
        )
    if asked_amount(cost) != (guarantee.epsilon, guarantee.delta):
        raise InvalidCost(
            "The cost of a charge is not the (epsilon, delta) of its guarantee.", "State what the cost pays for."
        )
    check_relation(name, terms, guarantee.neighbours, guarantee.unit, source)
    stated, paid = guarantee.to(terms.neighbours), cost.to(terms.neighbours, guarantee.neighbours)
    if slice_of(guarantee, source) is not None and terms.neighbours == "replace-one":
        paid = cost.of_moving_row()
    # What is stated is what is paid: of a Gaussian cost more is known than of any other (ε, δ).
    return paid, replace(stated, epsilon=asked_amount(paid).epsilon, delta=asked_amount(paid).delta)


def asked_amount(cost: Cost) -> Amount:
    """(ε, δ) of a cost for people to read, rounded up."""
    return Amount(decimal_up(cost.epsilon), decimal_up(cost.delta))


def beyond_permitted(cost: Cost, permitted: Amount) -> str | None:
    """What a run asks for and what was permitted, where that is less; None where the cost is within it."""
    asked = asked_amount(cost)
    # Of a converted δ the plan knows an upper limit that is rounded to nearest.
    if asked.epsilon <= permitted.epsilon and asked.delta <= permitted.delta * (1 + 1e-9):
        return None
    return (
        f"asks for ε = {readable_up(asked.epsilon)}, δ = {readable_up(asked.delta)}; "
        f"ε = {readable_up(permitted.epsilon)}, δ = {readable_up(permitted.delta)} was permitted"
    )


def budget_exceeded(name: str, what: str, guarantee: Guarantee, cost: Cost, state: AccountState) -> BudgetExceeded:
    """What is raised: what was asked for, what is left, and what would still fit; `state` is that of the slice, where one is charged."""
    asked, left, budget = (
        asked_amount(cost.to(state.terms.neighbours, guarantee.neighbours)),
        state.amount_left(),
        state.terms.budget,
    )
    delta = f", δ = {readable_up(asked.delta)}" if asked.delta else ""
    left_delta = f", δ {readable_down(left.delta)} of {readable_up(decimal_up(budget.delta))}," if asked.delta else ""
    affordable = readable_down(state.affordable_epsilon(cost, guarantee.neighbours))
    if affordable != "0":
        advice = f"Use epsilon <= {affordable}{f' at delta = {readable_up(guarantee.delta)}' if asked.delta else ''}, or have"
    elif budget.composition == "basic" and asked.delta > left.delta:
        advice = f"Use delta {f'<= {readable_down(left.delta)}' if left.delta else '= 0'}, or have"
    elif budget.lacks_reserve(state.charged(cost.to(state.terms.neighbours, guarantee.neighbours), None).spent):
        advice = (
            f"Of the account's δ {readable_up(decimal_up(budget.reserved_delta))} is reserved for what is not Gaussian, and this needs more; the reserve is "
            "set when an account is opened (reserved_delta=…). Use Gaussian noise or delta = 0, or have"
        )
    else:
        advice = "Have"
    why = "" if guarantee.neighbours == state.terms.neighbours else " (it counts replaced records, which are two steps)"
    raised = "--delta …" if advice.startswith("Use delta") else "--epsilon …"
    return BudgetExceeded(
        f"{what} asks for ε = {readable_up(asked.epsilon)}{delta} of account '{name}'{why}; "
        f"{readable_down(left.epsilon)} of {readable_up(decimal_up(budget.epsilon))}{left_delta} is left.",
        f"{advice} the steward raise the budget (`sudare budget raise {shlex.quote(name)} {raised} --reason …`). "
        "Nothing was computed or spent.",
    )


def account_closed(name: str) -> BudgetError:
    """What is raised where a closed account was to pay for something, or to be changed."""
    return BudgetError(
        f"Account '{name}' was closed by the steward.",
        "It pays for nothing any more; `sudare budget show` tells when it was closed, and why. Nothing was computed or spent.",
    )
