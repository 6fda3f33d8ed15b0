"""What came of a finished task, as files in the member's folder. Nothing of it leaves by itself."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from sudare.consortium.agreement.agreement import Agreement
from sudare.consortium.network.message_dispatch import Activity
from sudare.consortium.tasks.definitions import CensusTask, DictionaryTask, LearningTask, Task
from sudare.consortium.tasks.release_exchange import ReleaseExchange
from sudare.consortium.tasks.results_folder import EARLIER, make_room
from sudare.consortium.tasks.sum_script_runner import SumRunner
from sudare.consortium.tasks.task_activities import TaskEnvironment, receipt_in
from sudare.dictionary.exponential_families import Patterns
from sudare.errors import InvalidParameter
from sudare.files import set_aside, write_atomically
from sudare.frames import read
from sudare.joint import LearnedTogether, model_of, scaler_of
from sudare.joint.dictionary_script import TrainedDictionary
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.ledger_chain import Receipt
from sudare.privacy.release import Release
from sudare.report.number_formatting import whole
from sudare.report.privacy_card import Card, card_rows
from sudare.schema import Number

_BINS: Final = 20


def write_results(task: Task, activity: Activity, here: TaskEnvironment) -> list[Path]:
    """The files that a finished task leaves. Those of the same name from another version of the agreement are set aside. Raise InvalidParameter unless it has a result."""
    folder = here.results(task)
    make_room(folder, here.agreement.digest)
    if isinstance(activity, ReleaseExchange):
        written = [_write(folder / f"{name}.sudare", content) for name, content in activity.files().items()]
        releases = activity.releases()
        if isinstance(task, CensusTask):
            return [*written, *_write_census(folder, releases)]
        return [*written, *_write_combination(folder, releases, here)]
    result = activity.result.result if isinstance(activity, SumRunner) and activity.result is not None else None
    if isinstance(result, TrainedDictionary):
        return _write_dictionary(folder, result, task, here)
    if isinstance(result, LearnedTogether):
        learner = model_of(result, here.account) if isinstance(task, LearningTask) else scaler_of(result, here.account)
        path = folder / f"{'model' if isinstance(task, LearningTask) else 'scaler'}.sudare"
        release = Release.of(learner)
        if path.exists() and receipt_in(path) != release.receipt:
            set_aside(path, EARLIER)
        if not path.exists():
            release.save(path, key=here.identity.signing_key)
        return [path]
    raise InvalidParameter(f"Task '{task.name}' has no result yet.", "Run it to its end first.")


def _write_dictionary(folder: Path, found: TrainedDictionary, task: Task, here: TaskEnvironment) -> list[Path]:
    written = [_write(folder / "dictionary.json", _json(_dictionary_values(found, here)))]
    if isinstance(task, DictionaryTask) and found.guarantee is not None and found.receipt is not None:
        text = dictionary_card(found, found.guarantee, found.receipt, here.agreement)
        written.append(_write(folder / "card.txt", text.encode()))
    return written


def _dictionary_values(found: TrainedDictionary, here: TaskEnvironment) -> dict[str, Any]:
    dictionary, own_part = found.dictionary, found.own_part
    own = own_part.patterns
    exact = Guarantee.none(here.agreement.sums_seen_by)
    return {
        "family": dictionary.family.name,
        "patterns": _lists(dictionary.natural()),
        "own_weights": own_part.weights.tolist(),
        "own_patterns": None if own is None else {"weights": own_part.pattern_weights.tolist(), **_lists(own)},
        "sums": found.sums,
        "numbers": found.numbers,
        "objective": list(dictionary.history),
        "guarantee": (found.guarantee or exact).to_dict(),
        "receipt": None if found.receipt is None else found.receipt.to_dict(),
    }


def _lists(patterns: Patterns) -> dict[str, Any]:
    return {name: np.asarray(values).tolist() for name, values in patterns.arrays.items()}


def _write_combination(folder: Path, releases: Mapping[str, Release], here: TaskEnvironment) -> list[Path]:
    """Weights by which this member mixes everyone's models, learned on its own rows: for itself only."""
    from sudare.experts import MirrorAveraging

    schema = here.agreement.schema
    models = [release.model() for release in releases.values()]
    if not all(hasattr(model, "predict") for model in models):
        return []
    table = read(here.member.source(), schema=schema)
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


def dictionary_card(found: TrainedDictionary, guarantee: Guarantee, receipt: Receipt, agreement: Agreement) -> str:
    """The card of a private dictionary as one member holds it."""
    dictionary, members = found.dictionary, len(agreement.members)
    columns = [name for name, column in agreement.schema.features.items() if isinstance(column, Number)]
    patterns = len(dictionary.patterns)
    card = Card(
        # The first of the sums is the number of rows, which is public.
        what=f"PatternDictionary: {whole(found.numbers - 1)} noisy totals in {found.sums - 1} sums, {patterns} "
        f"{'pattern' if patterns == 1 else 'patterns'} computed from them",
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        neighbours=guarantee.neighbours,
        unit=guarantee.unit,
        notion=guarantee.notion,
        towards=guarantee.towards,
        valid=guarantee.valid,
        rows=math.floor(dictionary.overall.rows),
        columns=columns,
        account=receipt.account,
        entry=receipt.position,
        ledger=receipt.ledger,
        signature="unchecked",
        schema_digest=agreement.schema.digest,
        remarks=(
            (
                "members",
                f"{members}, each with a share of the noise; {agreement.colluders} of the shares may be known to whoever looks (its own is) or missing",
            ),
            (
                "not covered",
                "this member's own weights (own_weights in dictionary.json): exact functions of its records, which must stay here",
            ),
        ),
    )
    # The document beside it is this member's own and nobody has signed it.
    rows = [(label, text) for label, text in card_rows(card) if label != "signature"]
    width = max(len(label) for label, _ in rows)
    return "".join(f"{label:<{width}}  {text}\n" for label, text in rows)


def _json(values: Mapping[str, Any]) -> bytes:
    return (json.dumps(values, ensure_ascii=False, indent=1) + "\n").encode()


def _write(path: Path, content: bytes) -> Path:
    write_atomically(path, content)
    return path
