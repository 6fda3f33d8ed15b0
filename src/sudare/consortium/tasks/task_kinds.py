"""What each kind of task is, as an activity, and what it leaves in the member's folder.

Everything that leaves has its line in the ledger first: a private learner charges when it is fitted, a consortium-wide model and a
private dictionary before their first share of noise, and a dictionary's exact sums are entered as a disclosure before the first of them.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from sudare.consortium.agreement.agreement import Agreement
from sudare.consortium.agreement.approvals import permit
from sudare.consortium.agreement.identity import Identity
from sudare.consortium.agreement.member_settings import Member
from sudare.consortium.network.message_dispatch import Activity
from sudare.consortium.network.session import Session
from sudare.consortium.tasks.checkpoints import FolderStore, Store
from sudare.consortium.tasks.definitions import CensusTask, DictionaryTask, LearningTask, ModelsTask, ScalerTask, Task
from sudare.consortium.tasks.release_exchange import Parties, ReleaseExchange
from sudare.consortium.tasks.result_card import dictionary_card
from sudare.consortium.tasks.sum_runner import Circle, Patience, SumRunner
from sudare.consortium.tasks.task_account import Permission, TaskAccount, entries_of, is_of_a_task
from sudare.consortium.tasks.task_defaults import LEARNING_DEFAULTS, MOST_NUMBERS
from sudare.consortium.tasks.task_learners import columns_of, dictionary_of, learner_of, promise_of
from sudare.dictionary.families import Patterns
from sudare.dictionary.private_training import PrivateTerms
from sudare.dictionary.training import trained
from sudare.errors import InvalidParameter, ReleaseError, ReleaseUntrusted
from sudare.files import make_private_folder, set_aside, write_atomically
from sudare.frames import read
from sudare.frames.rows import check_persons
from sudare.joint import (
    LearnedTogether,
    LearningTerms,
    LearningWalk,
    MemberTable,
    ModelReading,
    ScalerTerms,
    model_of,
    scaler_of,
)
from sudare.joint.dictionary_script import DictionaryWalk, TrainedDictionary
from sudare.joint.private_dictionary_script import PrivateDictionaryWalk
from sudare.joint.sum_script import Walk
from sudare.joint.terms import promised
from sudare.privacy import Account
from sudare.privacy.declared_columns import rows_per_unit
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.ledger_chain import Receipt
from sudare.privacy.release import Release, audited
from sudare.privacy.release_file import parsed
from sudare.schema import Schema
from sudare.sums.keys import MemberKeys

# The name of the run that pays, in the store of its task.
_RUN: Final = "run"
# What was in the place of a result before.
_EARLIER: Final = "earlier"
_BINS: Final = 20


@dataclass(frozen=True)
class Workplace:
    """All that a task needs at one member."""

    member: Member
    agreement: Agreement
    identity: Identity
    keys: MemberKeys
    signing_keys: Mapping[str, bytes]
    session: Session

    def store(self, task: Task) -> FolderStore:
        """Where the checkpoints of a task are."""
        return FolderStore(self.member.task_folder(self.agreement, task.name))

    def results(self, task: Task) -> Path:
        """Where what came of a task is put."""
        folder = self.member.results_folder(task.name)
        make_private_folder(folder)
        return folder

    @property
    def account(self) -> Account:
        """Who pays."""
        return self.member.account(self.agreement)

    def paying(self, permission: Permission, store: Store, *, is_resumed: bool) -> TaskAccount:
        """Who pays for one run of a task, which keeps its name in the store from before it is charged."""
        run = store.load(_RUN)
        if run is None:
            run = uuid.uuid4().hex.encode()
            store.save(_RUN, run)
        return TaskAccount(self.account, permission, run.decode(), is_resumed)


def activity_of(task: Task, place: Workplace) -> Activity:
    """The task, ready to be started at a desk. What it has to charge or disclose at once is entered here.

    Raises `NotApproved` unless it may run here; whatever it charges later is held to what was permitted now.
    """
    permission, store = permit(place.member, place.agreement, task), place.store(task)
    if isinstance(task, DictionaryTask):
        return _sums(task, place, store, _dictionary_walk(task, place, permission, store))
    if isinstance(task, LearningTask | ScalerTask):
        table, account = MemberTable(place.member.source()), place.paying(permission, store, is_resumed=False)
        return _sums(task, place, store, LearningWalk(learning_terms(task, place.agreement), table, account))
    if isinstance(task, ModelsTask | CensusTask):
        own = _own_release(task, place, permission, store)
        deadlines = place.agreement.deadlines
        parties = Parties(place.member.name, dict(place.signing_keys))
        return ReleaseExchange(
            task.name, parties, own, store, _check_of(task, place, own), deadlines.round_seconds, deadlines.task_seconds
        )
    raise InvalidParameter(f"Tasks of kind '{task.kind}' cannot be run yet.", "Upgrade sudare.")


def write_results(task: Task, activity: Activity, place: Workplace) -> list[Path]:
    """What came of a finished task, as files in the member's folder. Nothing of it leaves by itself."""
    folder = place.results(task)
    if isinstance(activity, ReleaseExchange):
        written = [_write(folder / f"{name}.sudare", content) for name, content in activity.files().items()]
        releases = activity.releases()
        if isinstance(task, CensusTask):
            return [*written, *_write_census(folder, releases)]
        return [*written, *_write_combination(folder, releases, place)]
    result = activity.result.result if isinstance(activity, SumRunner) and activity.result is not None else None
    if isinstance(result, TrainedDictionary):
        return _write_dictionary(folder, result, task, place)
    if isinstance(result, LearnedTogether):
        learner = (
            model_of(result, place.account) if isinstance(task, LearningTask) else scaler_of(result, place.account)
        )
        path = folder / f"{'model' if isinstance(task, LearningTask) else 'scaler'}.sudare"
        release = Release.of(learner)
        if path.exists() and _receipt_in(path) != release.receipt:
            set_aside(path, _EARLIER)
        if not path.exists():
            release.save(path, key=place.identity.signing_key)
        return [path]
    raise InvalidParameter(f"Task '{task.name}' has no result yet.", "Run it to its end first.")


def learning_terms(task: LearningTask | ScalerTask, agreement: Agreement) -> LearningTerms | ScalerTerms:
    """What the agreement says about learning together."""
    schema, members = agreement.schema, len(agreement.members)
    if isinstance(task, ScalerTask):
        return ScalerTerms(schema, task.epsilon, task.delta, members, agreement.colluders)
    options: dict[str, Any] = {**LEARNING_DEFAULTS, **task.parameters}
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


def _sums(task: Task, place: Workplace, store: Store, walk: Walk) -> SumRunner:
    agreement = place.agreement
    threshold, dishonest = agreement.threshold, agreement.dishonest
    names, own = agreement.member_names, place.member.name
    circle = Circle(agreement.digest, names, own, place.keys, threshold, dishonest)
    patience = Patience(agreement.deadlines.round_seconds, agreement.deadlines.task_seconds)
    return SumRunner(task.name, circle, walk, store, place.session.known_publics, patience)


def _dictionary_walk(
    task: DictionaryTask, place: Workplace, permission: Permission, store: Store
) -> DictionaryWalk | PrivateDictionaryWalk:
    schema, members = place.agreement.schema, len(place.agreement.members)
    estimator = dictionary_of(task, schema)
    if task.is_private:
        check_persons(place.member.source(), schema)
        terms, records = estimator.training(_table_or_path(place), members)
        private = PrivateTerms(
            terms,
            *task.cost,
            place.agreement.colluders,
            estimator.private_iterations,
            rows_per_unit=rows_per_unit(schema),
        )
        account = place.paying(permission, store, is_resumed=False)
        return PrivateDictionaryWalk(private, promised(*task.cost, schema), records, account)
    most_numbers = int(task.parameters.get("most_numbers", MOST_NUMBERS))
    terms, records = estimator.training(_table_or_path(place), members)
    towards = f"the {members} members of {place.agreement.name}"
    # Entered once: exact totals will be shown to the other members, and at most so many numbers.
    account = place.paying(permission, store, is_resumed=True)
    account.disclose("exact sums over all members, for a pattern dictionary", towards, most_numbers)
    position = place.agreement.member_names.index(place.member.name)
    return DictionaryWalk(lambda: trained(terms, most_numbers), records, members, position=position)


def _table_or_path(place: Workplace) -> object:
    """A file is read anew for every sum; the answer to a query is held, because a database may change meanwhile."""
    source = place.member.source()
    return source if isinstance(source, str) else read(source, schema=place.agreement.schema)


def _write_dictionary(folder: Path, found: TrainedDictionary, task: Task, place: Workplace) -> list[Path]:
    written = [_write(folder / "dictionary.json", _json(_dictionary_values(found, place)))]
    if isinstance(task, DictionaryTask) and found.guarantee is not None and found.receipt is not None:
        text = dictionary_card(found, found.guarantee, found.receipt, place.agreement)
        written.append(_write(folder / "card.txt", text.encode()))
    return written


def _dictionary_values(found: TrainedDictionary, place: Workplace) -> dict[str, Any]:
    dictionary, own_part = found.dictionary, found.own_part
    own = None if own_part.pattern is None else dictionary.family.natural(own_part.pattern, dictionary.frame)
    exact = Guarantee.none(f"the {len(place.agreement.members)} members of {place.agreement.name}")
    return {
        "family": dictionary.family.name,
        "patterns": _lists(dictionary.natural()),
        "own_weights": own_part.weights.tolist(),
        "own_pattern": None if own is None else {"weight": own_part.pattern_weight, **_lists(own)},
        "sums": found.sums,
        "numbers": found.numbers,
        "objective": list(dictionary.history),
        "guarantee": (found.guarantee or exact).to_dict(),
        "receipt": None if found.receipt is None else found.receipt.to_dict(),
    }


def _lists(patterns: Patterns) -> dict[str, Any]:
    return {name: np.asarray(values).tolist() for name, values in patterns.arrays.items()}


# Releases


def _own_release(task: ModelsTask | CensusTask, place: Workplace, permission: Permission, store: Store) -> bytes:
    """This member's release: made, charged and entered the first time, and the same file ever after."""
    place.results(task)
    path = place.member.own_release(task.name)
    if path.exists() and _is_of_another_task(path, permission, place.account):
        set_aside(path, _EARLIER)
    if not path.exists():
        schema, source = place.agreement.schema, place.member.source()
        columns = _columns_read(schema, task.columns) if isinstance(task, CensusTask) else None
        learner = learner_of(task, schema, place.paying(permission, store, is_resumed=True))
        learner.fit(read(source, columns, schema))
        Release.of(learner).save(path, key=place.identity.signing_key)
    return path.read_bytes()


def _receipt_in(path: Path) -> Receipt | None:
    """The receipt that a release file carries; None where it has none or cannot be read."""
    try:
        return audited(parsed(path.read_bytes())).receipt
    except (OSError, ReleaseError):
        return None


def _is_of_another_task(path: Path, permission: Permission, account: Account) -> bool:
    """Whether a release in this task's place was paid for by a task of another agreement that had the same name."""
    receipt = _receipt_in(path)
    charge = None if receipt is None else account.ledger.charge_of(receipt)
    return charge is not None and is_of_a_task(charge) and not entries_of(permission.mark, [charge])


def _check_of(task: ModelsTask | CensusTask, place: Workplace, own: bytes) -> Callable[[Release], None]:
    """What a release of this task must be: its learner, schema and promise, for as many rows as it says it was made of.

    `own` is this member's, made of the same declarations: what is declared in the others is compared with it, not with what they say.
    """
    schema, declared = place.agreement.schema, _declared_in(audited(parsed(own)))
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


def _write_combination(folder: Path, releases: Mapping[str, Release], place: Workplace) -> list[Path]:
    """Weights by which this member mixes everyone's models, learned on its own rows: for itself only."""
    from sudare.experts import MirrorAveraging

    schema = place.agreement.schema
    models = [release.model() for release in releases.values()]
    if not all(hasattr(model, "predict") for model in models):
        return []
    table = read(place.member.source(), schema=schema)
    truth = schema.encode_target(table)
    targets = truth if schema.label is None else schema.decode_label(truth)
    rows = table.arrow.to_pandas()
    mixed = MirrorAveraging(models).fit(rows, targets)
    weights = dict(zip(releases, mixed.weights_.tolist(), strict=True))
    values = {"weights": weights, "score_on_own_rows": mixed.score(rows, targets)}
    return [_write(folder / "combination.json", _json(values))]


def _write_census(folder: Path, releases: Mapping[str, Release]) -> list[Path]:
    """The distribution of every column over all members' records, reconstructed from the perturbed ones."""
    from sudare.perturbation.categorical import CategoryPerturbation
    from sudare.reconstruction import CategoricalReconstruction, Reconstruction

    tables = [release.model().table_ for release in releases.values()]
    columns: dict[str, Any] = {}
    for name in tables[0].names:
        perturbation = tables[0].perturbation(name)
        values = np.concatenate([table.column(name) for table in tables])
        if isinstance(perturbation, CategoryPerturbation):
            columns[name] = CategoricalReconstruction(perturbation).fit(values).to_dict()
        else:
            low, high = perturbation.bounds
            edges = np.linspace(low, high, _BINS + 1)
            found = Reconstruction(perturbation).fit(values).distribution_
            columns[name] = {"edges": edges.tolist(), "shares": found.histogram(edges).tolist(), "mean": found.mean()}
    rows = sum(table.rows for table in tables)
    return [_write(folder / "census.json", _json({"records": rows, "members": len(tables), "columns": columns}))]


def _json(values: Mapping[str, Any]) -> bytes:
    return (json.dumps(values, ensure_ascii=False, indent=1) + "\n").encode()


def _write(path: Path, content: bytes) -> Path:
    write_atomically(path, content)
    return path
