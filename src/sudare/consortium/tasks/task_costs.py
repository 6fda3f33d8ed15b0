"""The learner that a task describes, what one run of it promises, and what that will charge one member: from public facts alone.

What an agreement does not say has the value in `task_defaults`: what a learner's own constructor would take instead never matters.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sudare.consortium.agreement.agreement import Agreement
from sudare.consortium.agreement.member_settings import Member
from sudare.consortium.agreement.schedules import Schedule
from sudare.consortium.tasks.definitions import CensusTask, DictionaryTask, LearningTask, ModelsTask, ScalerTask, Task
from sudare.consortium.tasks.task_defaults import (
    DICTIONARY_DEFAULTS,
    EARLIER_DICTIONARY_NAMES,
    LEARNER_DEFAULTS,
    NETWORK_LEARNING_DEFAULTS,
    current_parameters,
)
from sudare.errors import AgreementError, InvalidParameter, LedgerMissing, SudareError, UnknownAccount
from sudare.privacy.account_balance import Amount
from sudare.privacy.account_charges import asked_amount, in_relation
from sudare.privacy.account_terms import Terms
from sudare.privacy.accounting import Budget, approximate_cost, pure_cost
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.learner_registry import learner_class
from sudare.privacy.ledger import Account
from sudare.privacy.ledger_chain import Entry
from sudare.schema import Schema

if TYPE_CHECKING:
    from sudare.dictionary import PatternDictionary


# For how many records a task is planned where no member's own are looked at.
USUAL_ROWS, MANY_ROWS = 1000, 1_000_000


def learner_of(task: ModelsTask | CensusTask, schema: Schema, account: Account | None) -> Any:
    """The unfitted learner of a task, with the agreed value of every parameter or that of `LEARNER_DEFAULTS`."""
    name = "RecordPerturbation" if isinstance(task, CensusTask) else task.learner
    declared = columns_of(schema, task.columns) if isinstance(task, CensusTask) else schema
    epsilon, delta = task.cost
    agreed = {"epsilon": epsilon, "delta": delta, "schema": declared, "account": account, "random_state": None}
    learner = learner_class(name)
    if "delta" not in inspect.signature(learner).parameters:
        if delta != 0:
            raise InvalidParameter(f"{name} has a pure ε; the task agrees on a δ.", "Leave delta out of the task.")
        del agreed["delta"]
    parameters = current_parameters(task.name, name, task.parameters)
    return _built(learner, {**LEARNER_DEFAULTS[name], **parameters, **agreed})


def dictionary_of(task: DictionaryTask, schema: Schema) -> PatternDictionary:
    """The untrained dictionary of a task, with agreed or default parameters. It is built without ε: `PrivateDictionaryWalk` draws the noise and charges for it (`Agreement.colluders`)."""
    from sudare.dictionary import PatternDictionary

    parameters = {
        EARLIER_DICTIONARY_NAMES.get(name, name): value
        for name, value in task.parameters.items()
        if name != "most_numbers"
    }
    agreed = {"n_patterns": task.patterns, "epsilon": None, "delta": None, "colluders": 1}
    here = {"schema": schema, "account": None, "random_state": None}
    built: PatternDictionary = _built(PatternDictionary, {**DICTIONARY_DEFAULTS, **parameters, **agreed, **here})
    return built


def columns_of(schema: Schema, columns: tuple[str, ...]) -> Schema:
    """The schema of some of the columns."""
    missing = [name for name in columns if name not in schema.columns]
    if missing:
        raise InvalidParameter(f"The agreement's schema has no column '{missing[0]}'.", "Correct the task's columns.")
    return Schema({name: schema.columns[name] for name in columns}, schema.person)


def promise_of(task: Task, schema: Schema, rows: Callable[[], int]) -> Guarantee | None:
    """What one run of a task promises and is charged for at a member with so many rows; None where its sums are exact.

    From public facts alone. The rows are asked for only where the promise depends on their number.
    """
    match task:
        case ModelsTask() | CensusTask() if not task.parameters:
            # With the constants of `task_defaults` all promise what stands in the agreement: no learner needs to be loaded.
            return _stated_promise(task, schema)
        case ModelsTask() | CensusTask():
            promise: Guarantee = learner_of(task, schema, None).declared_promise(rows)
            return promise
        case LearningTask() | ScalerTask():
            return _stated_promise(task, schema)
        case DictionaryTask() if task.is_private:
            if "family" in task.parameters:
                dictionary_of(task, schema).check_declared_bounds()
            return _stated_promise(task, schema)
        case DictionaryTask():
            return None
        case _:
            raise InvalidParameter(f"Tasks of kind '{task.kind}' cannot be priced yet.", "Upgrade sudare.")


def _stated_promise(task: Task, schema: Schema) -> Guarantee:
    epsilon, delta = task.cost
    promise = Guarantee(epsilon, delta)
    return promise if schema.person is None else replace(promise, unit="person")


def _built(learner: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """The learner, if there is a value for every parameter that it takes, and no other."""
    takes = set(inspect.signature(learner).parameters)
    differing = sorted(takes.symmetric_difference(values))
    if differing:
        raise InvalidParameter(
            f"`{differing[0]}` is not a parameter that agreements of this version give this learner, or is given under two names.",
            "See `sudare consortium check` for the parameters that a task takes.",
        )
    return learner(**values)


# What it costs


def planned_amount(task: Task, agreement: Agreement, terms: Terms, rows: Callable[[], int]) -> Amount | None:
    """The ε and δ that one run charges an account with these terms, at a member with so many rows; None where sums are exact."""
    promise = promise_of(task, agreement.schema, rows)
    if promise is None:
        return None
    cost = approximate_cost(promise.epsilon, promise.delta) if promise.delta else pure_cost(promise.epsilon)
    paid, _ = in_relation(task.name, terms, promise, cost)
    return asked_amount(paid)


def cost_at(member: Member, agreement: Agreement, task: Task) -> Amount | None:
    """What one run of a task charges at this member."""
    return planned_amount(task, agreement, terms_at(member, agreement), lambda: rows_at(member, agreement))


def planned_for_new_member(task: Task, agreement: Agreement, rows: int) -> Amount:
    """What one run charges the new account of a member with so many rows."""
    return planned_amount(task, agreement, new_terms(agreement), lambda: rows) or Amount(0.0, 0.0)


def check_plannable(agreement: Agreement) -> None:
    """Raise AgreementError unless every task can be planned for a member with few records or with many, every network can be trained, and budgets hold what schedules will charge."""
    for task in agreement.tasks:
        if isinstance(task, LearningTask) and task.method == "network":
            _check_network(task, agreement.schema)
    for task in agreement.tasks if any(task.parameters for task in agreement.tasks) else ():
        try:
            planned_for_new_member(task, agreement, USUAL_ROWS)
        except SudareError as error:
            try:
                planned_for_new_member(task, agreement, MANY_ROWS)
            except SudareError:
                raise AgreementError(
                    f"`tasks.{task.name}` cannot run as it stands: {error.problem}",
                    f"{error.remedy} All members then join and sign anew.",
                ) from None
    agreement.check_schedules(partial(run_cost, agreement))


def run_cost(agreement: Agreement, schedule: Schedule) -> Amount:
    """What one run of a schedule charges the account that a member opens for it; where that cannot be planned, as the agreement has it."""
    task = agreement.task(schedule.task)
    try:
        return planned_for_new_member(task, agreement, USUAL_ROWS)
    except SudareError:
        return Amount(*task.cost)


def _check_network(task: LearningTask, schema: Schema) -> None:
    """Raise AgreementError where the layers together are more than members can add up, or cannot be trained for another public reason."""
    from sudare.joint.network_training_terms import NetworkTerms

    options: dict[str, Any] = {**NETWORK_LEARNING_DEFAULTS, **task.parameters}
    try:
        # How many members there are decides the noise, and nothing of the network.
        NetworkTerms(schema, task.epsilon, task.delta, 2, **options)
    except SudareError as error:
        raise AgreementError(f"`tasks.{task.name}` cannot run as it stands: {error.problem}", error.remedy) from None


def opened_account(member: Member) -> Account | None:
    """The member's account, if it was opened."""
    try:
        return member.ledger(create=False).account(member.account_name)
    except (LedgerMissing, UnknownAccount):
        return None


def entries_at(member: Member) -> list[Entry]:
    """The entries of the member's ledger, of all accounts: a task is paid for once, whichever paid. None before there is a ledger."""
    try:
        return member.ledger(create=False).entries()
    except LedgerMissing:
        return []


def terms_at(member: Member, agreement: Agreement) -> Terms:
    """The terms of the member's account, or those that it will be opened with."""
    account = opened_account(member)
    return new_terms(agreement) if account is None else account.terms


def new_terms(agreement: Agreement) -> Terms:
    """The terms with which members' accounts are opened. Their budget and source are no part of a price, and are not told."""
    return Terms(Budget.of(1.0), "replace-one", "record" if agreement.schema.person is None else "person", "")


def rows_at(member: Member, agreement: Agreement) -> int:
    """How many records the member holds, as far as they are kept where persons have many."""
    # What reads tables takes 45 MB, and a node that waits asks here only what was paid for.
    from sudare.frames.person_rows import used_row_count

    return used_row_count(member.source(), agreement.schema)
