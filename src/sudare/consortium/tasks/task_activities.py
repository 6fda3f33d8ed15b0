"""What each kind of task is, as an activity of a node.

Everything that leaves has its line in the ledger first: a private learner charges when it is fitted, a consortium-wide model and a
private dictionary before their first share of noise, and a dictionary's exact sums are entered as a disclosure before the first of them.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sudare.consortium.agreement.agreement import Agreement
from sudare.consortium.agreement.approvals import permit
from sudare.consortium.agreement.identity import Identity
from sudare.consortium.agreement.member_settings import Member
from sudare.consortium.network.message_dispatch import Activity
from sudare.consortium.network.session import Session
from sudare.consortium.tasks.checkpoints import CheckpointStore, damaged
from sudare.consortium.tasks.definitions import CensusTask, DictionaryTask, LearningTask, ModelsTask, ScalerTask, Task
from sudare.consortium.tasks.release_exchange import ReleaseExchange
from sudare.consortium.tasks.results_folder import EARLIER
from sudare.consortium.tasks.sum_script_runner import SumGroup, SumRunner, Timeouts
from sudare.consortium.tasks.task_account import Permission, TaskAccount, is_of_a_task
from sudare.consortium.tasks.task_costs import columns_of, dictionary_of, learner_of, promise_of
from sudare.consortium.tasks.task_defaults import LEARNING_DEFAULTS, NETWORK_LEARNING_DEFAULTS
from sudare.dictionary.private_training import PrivateTerms
from sudare.dictionary.training import trained
from sudare.errors import InvalidParameter, ReleaseError, ReleaseUntrusted, StateDamaged
from sudare.files import make_private_folder, set_aside
from sudare.frames import read
from sudare.frames.person_rows import kept_persons
from sudare.joint import (
    BoostingTerms,
    LearningTerms,
    LearningWalk,
    MemberTable,
    ModelReading,
    NetworkTerms,
    ScalerTerms,
)
from sudare.joint.dictionary_script import DictionaryWalk
from sudare.joint.private_dictionary_script import PrivateDictionaryWalk
from sudare.joint.sum_script import Walk
from sudare.privacy import Account
from sudare.privacy.declared_columns import promise, rows_per_unit
from sudare.privacy.ledger_chain import Receipt
from sudare.privacy.release import Release, audited
from sudare.privacy.release_file import parsed
from sudare.privacy.run_account import entries_of
from sudare.schema import Schema
from sudare.sums.keys import MemberKeys, PublicKeys

# The name of the run that pays, in the store of its task.
_RUN: Final = "run"
_RUN_NAME: Final = re.compile(rb"[0-9a-f]{32}")


@dataclass(frozen=True)
class TaskEnvironment:
    """All that a task needs at one member. `check_wanted` raises where nothing is to be paid for it any more."""

    member: Member
    agreement: Agreement
    identity: Identity
    keys: MemberKeys
    signing_keys: Mapping[str, bytes]
    sum_keys: Mapping[str, PublicKeys]
    session: Session
    check_wanted: Callable[[], None] = lambda: None

    def store(self, task: Task) -> CheckpointStore:
        """Returns the store of a task's checkpoints."""
        return CheckpointStore(self.member.task_folder(self.agreement, task.name))

    def results(self, task: Task) -> Path:
        """Returns the folder of a task's results."""
        folder = self.member.results_folder(task.name)
        make_private_folder(folder)
        return folder

    def row_secret(self, task: Task) -> bytes:
        """What chooses the rows that are kept of persons: the same after a restart, another one for every task."""
        return self.identity.derived(b"rows of persons", f"{self.agreement.digest} {task.name}".encode())

    @property
    def account(self) -> Account:
        """Who pays."""
        return self.member.account(self.agreement)

    def paying(self, permission: Permission, store: CheckpointStore, *, is_resumed: bool) -> TaskAccount:
        """Who pays for one run of a task, which keeps its name in the store from before it is charged."""
        account = self.account
        run = _run_in(store, is_paid=lambda: bool(entries_of(permission.mark, account.entries())))
        if run is None:
            run = uuid.uuid4().hex
            store.save(_RUN, run.encode())
        return TaskAccount(account, permission, run, is_resumed, self.check_wanted)


def _run_in(store: CheckpointStore, is_paid: Callable[[], bool]) -> str | None:
    """The name of the run in a store; None where there is none, or where it is damaged and nothing was paid under it. Raise StateDamaged otherwise."""
    try:
        content = store.load(_RUN)
        if content is None or _RUN_NAME.fullmatch(content):
            return None if content is None else content.decode()
        raise damaged(_RUN)
    except StateDamaged:
        if is_paid():
            raise
    store.set_aside(_RUN)
    return None


def activity_of(task: Task, here: TaskEnvironment) -> Activity:
    """The task, ready to be started by a dispatcher. What it has to charge or disclose at once is entered here.

    Raises `NotApproved` unless it may run here; whatever it charges later is held to what was permitted now.
    """
    here.check_wanted()
    permission, store = permit(here.member, here.agreement, task), here.store(task)
    if isinstance(task, DictionaryTask):
        return _sums(task, here, store, _dictionary_walk(task, here, permission, store))
    if isinstance(task, LearningTask | ScalerTask):
        table, account = (
            MemberTable(here.member.source(), cluster=here.member.data.cluster, row_secret=here.row_secret(task)),
            here.paying(permission, store, is_resumed=False),
        )
        return _sums(task, here, store, LearningWalk(learning_terms(task, here.agreement), table, account))
    if isinstance(task, ModelsTask | CensusTask):
        own = _own_release(task, here, permission, store)
        deadlines = here.agreement.deadlines
        return ReleaseExchange(
            task.name,
            here.member.name,
            here.signing_keys,
            own,
            store,
            _check_of(task, here, own),
            deadlines.round_seconds,
            deadlines.task_seconds,
        )
    raise InvalidParameter(f"Tasks of kind '{task.kind}' cannot be run yet.", "Upgrade sudare.")


def learning_terms(
    task: LearningTask | ScalerTask, agreement: Agreement
) -> LearningTerms | ScalerTerms | BoostingTerms | NetworkTerms:
    """What the agreement says about learning together."""
    schema, members = agreement.schema, len(agreement.members)
    if isinstance(task, ScalerTask):
        return ScalerTerms(schema, task.epsilon, task.delta, members, agreement.colluders)
    if task.method == "boosting":
        return BoostingTerms(schema, task.epsilon, task.delta, members, agreement.colluders, task.max_bins)
    if task.method == "network":
        options: dict[str, Any] = {**NETWORK_LEARNING_DEFAULTS, **task.parameters}
        return NetworkTerms(schema, task.epsilon, task.delta, members, agreement.colluders, **options)
    options = {**LEARNING_DEFAULTS, **task.parameters}
    share = float(options.pop("scaler_share"))
    reading = ModelReading.of_schema(
        schema,
        options.pop("encoding"),
        fit_intercept=bool(options.pop("fit_intercept")),
        norm_bound=options.pop("norm_bound"),
    )
    if options:
        raise InvalidParameter(
            f"Learning has no parameter '{next(iter(options))}'.",
            "Use scaler_share, encoding, fit_intercept or norm_bound.",
        )
    return LearningTerms(task.method, reading, task.epsilon, task.delta, members, agreement.colluders, share)


# Sums


def _sums(task: Task, here: TaskEnvironment, store: CheckpointStore, walk: Walk) -> SumRunner:
    agreement = here.agreement
    threshold, dishonest = agreement.threshold, agreement.dishonest
    names, own = agreement.member_names, here.member.name
    group = SumGroup(
        agreement.digest, names, own, here.keys, threshold, dishonest, agreement.relay_collects, here.sum_keys
    )
    timeouts = Timeouts(agreement.deadlines.round_seconds, agreement.deadlines.task_seconds)
    return SumRunner(task.name, group, walk, store, here.session.known_publics, timeouts)


def _dictionary_walk(
    task: DictionaryTask, here: TaskEnvironment, permission: Permission, store: CheckpointStore
) -> DictionaryWalk | PrivateDictionaryWalk:
    schema, members = here.agreement.schema, len(here.agreement.members)
    estimator = dictionary_of(task, schema).set_params(cluster=here.member.data.cluster)
    if task.is_private:
        kept = kept_persons(_table_or_path(here), schema, here.row_secret(task))
        terms, records = estimator.training(kept.source, members)
        private = PrivateTerms(
            terms,
            *task.cost,
            here.agreement.colluders,
            estimator.private_iterations,
            rows_per_unit=rows_per_unit(schema),
        )
        account = here.paying(permission, store, is_resumed=False)
        return PrivateDictionaryWalk(private, promise(*task.cost, "replace-one", schema), records, account)
    most_numbers = task.most_numbers
    terms, records = estimator.training(_table_or_path(here), members)
    # Entered once: exact totals will be shown to the other members, and to a relay that collects, and at most so many numbers.
    account = here.paying(permission, store, is_resumed=True)
    account.disclose("exact sums over all members, for a pattern dictionary", here.agreement.sums_seen_by, most_numbers)
    position = here.agreement.member_names.index(here.member.name)
    return DictionaryWalk(lambda: trained(terms, most_numbers), records, members, position=position)


def _table_or_path(here: TaskEnvironment) -> object:
    """A file is read anew for every sum; the answer to a query is held, because a database may change meanwhile."""
    source = here.member.source()
    return source if isinstance(source, str) else read(source, schema=here.agreement.schema)


# Releases


def _own_release(
    task: ModelsTask | CensusTask, here: TaskEnvironment, permission: Permission, store: CheckpointStore
) -> bytes:
    """This member's release: made, charged and entered the first time, and the same file ever after."""
    here.results(task)
    path = here.member.own_release(task.name)
    if path.exists() and _is_of_another_task(path, permission, here.account):
        set_aside(path, EARLIER)
    if not path.exists():
        schema, source = here.agreement.schema, here.member.source()
        columns = _columns_read(schema, task.columns) if isinstance(task, CensusTask) else None
        learner = learner_of(task, schema, here.paying(permission, store, is_resumed=True))
        cluster = here.member.data.cluster
        if cluster is not None and "cluster" in learner.get_params(deep=False):
            learner.set_params(cluster=cluster).fit(source)
        else:
            learner.fit(read(source, columns, schema))
        Release.of(learner).save(path, key=here.identity.signing_key)
    try:
        return path.read_bytes()
    except OSError as error:
        raise StateDamaged(
            f"The member's own release '{path.name}' cannot be read ({error.strerror}).", StateDamaged.help
        ) from None


def receipt_in(path: Path) -> Receipt | None:
    """The receipt that a release file carries; None where it has none or cannot be read."""
    try:
        return audited(parsed(path.read_bytes())).receipt
    except (OSError, ReleaseError):
        return None


def _is_of_another_task(path: Path, permission: Permission, account: Account) -> bool:
    """Whether a release in this task's place was paid for by a task of another agreement that had the same name."""
    receipt = receipt_in(path)
    charge = None if receipt is None else account.ledger.charge_of(receipt)
    return charge is not None and is_of_a_task(charge) and not entries_of(permission.mark, [charge])


def _check_of(task: ModelsTask | CensusTask, here: TaskEnvironment, own: bytes) -> Callable[[Release], None]:
    """What a release of this task must be: its learner, schema and promise, for as many rows as it says it was made of.

    `own` is this member's, made of the same declarations: what is declared in the others is compared with it, not with what they say.
    """
    schema, declared = here.agreement.schema, _declared_in(audited(parsed(own)))
    learner, expected = (
        ("RecordPerturbation", columns_of(schema, task.columns))
        if isinstance(task, CensusTask)
        else (task.learner, schema)
    )

    def check(release: Release) -> None:
        same_kind = (release.learner, release.schema_digest) == (learner, expected.digest)
        if not same_kind or _declared_in(release) != declared or not _is_promise_of(task, schema, release):
            raise ReleaseUntrusted("It is signed, but not what the task asks for.", "Ask its sender what it published.")

    return check


def _declared_in(release: Release) -> dict[str, Any]:
    """The columns, persons and classes or bounds of the target that a release says it was made of."""
    parameters = release.content.parameters
    return {name: parameters[name] for name in ("columns", "person", "target") if name in parameters}


def _is_promise_of(task: ModelsTask | CensusTask, schema: Schema, release: Release) -> bool:
    """Whether a release promises what the task does, in the relation of its sender's account."""
    rows, stated = release.content.parameters["rows"], release.guarantee
    agreed = promise_of(task, schema, lambda: rows or 1)
    if agreed is None:
        return False
    converted = agreed.to(stated.neighbours)
    # Of Gaussian noise a ledger knows more than of any other (ε, δ).
    return stated.epsilon == converted.epsilon and agreed.delta <= stated.delta <= converted.delta * (1 + 1e-9)


def _columns_read(schema: Schema, columns: tuple[str, ...]) -> tuple[str, ...]:
    """The columns and, where the schema names persons, who a row is about."""
    return columns if schema.person is None else (*columns, schema.person.column)
