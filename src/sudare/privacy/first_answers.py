"""First answers of persons, which a member keeps and gives again: which charges pay for them, and which memory of them a ledger knows.

Each person's first answer is in one collection of a memory. Charges for collections are like those for slices: of one memory the largest counts. Proof: proofs/repeated_answers.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from sudare.errors import NotCharged, RelationMismatch
from sudare.privacy.account_terms import Terms
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.ledger_chain import Entry
from sudare.privacy.source_identity import SliceIdentity

# How the partition of a memory begins; those of slices of a source are digests.
_PARTITION: Final = "first-answers:"
# What the entry of a result says beside those of other fits.
_ANSWERS: Final = "answers"


@dataclass(frozen=True)
class AnswerStep:
    """What one collection made of a memory: its digest before, empty for the first collection, and after."""

    memory: str
    before: str
    after: str


def first_answers(memory: str, collection: int) -> SliceIdentity:
    """What a charge for a collection is for: the persons who give their first answer in it."""
    return SliceIdentity(f"{_PARTITION}{memory}", (("first answers", f"collection {collection}"),))


def mark_of(memory: str, collection: int, entries: Iterable[Entry]) -> str:
    """The purpose of the charge for a collection, after these entries of the account: whoever was killed after it goes on with it.

    A charge from before a copy was restored has another one: what was computed for it may have left, and the copy lacks the entry.
    """
    mark = f"first answers, memory {memory}, collection {collection}"
    restored = last_restore(entries)
    return f"{mark}, after entry {restored}" if restored else mark


def last_restore(entries: Iterable[Entry]) -> int:
    """Where a copy of the ledger was last restored; 0 where it never was."""
    return max((entry.position for entry in entries if entry.kind == "restore"), default=0)


def has_open_charge(entries: Sequence[Entry]) -> bool:
    """Whether a charge for first answers has no result among the entries of an account, so that a fit would go on with it.

    Of entries that somebody put back nobody can say whether that is so because a fit was killed: the result may be missing, and have left.
    """
    restored = last_restore(entries)
    finished = {entry.body["charge"] for entry in entries if entry.kind == "result"}
    open_charges = (entry for entry in entries if entry.kind == "charge" and entry.position not in finished)
    return any(entry.position > restored and _memory_of(entry) is not None for entry in open_charges)


def check_persons(name: str, terms: Terms, guarantee: Guarantee) -> None:
    """Raise RelationMismatch unless account and guarantee are for persons: of two rows of one person at two times a promise to records knows nothing."""
    if (terms.unit, guarantee.unit) != ("person", "person"):
        raise RelationMismatch(
            f"Answers that are kept are a promise to persons, and account '{name}' protects records.",
            'Open an account with unit="person". Nothing was computed or spent.',
        )


def known_digest(entries: Iterable[Entry], memory: str) -> str:
    """The digest of a memory after the last collection whose result was entered; empty where there was none."""
    steps = [entry.body[_ANSWERS] for entry in entries if entry.kind == "result" and _ANSWERS in entry.body]
    return next((str(step["after"]) for step in reversed(steps) if step["memory"] == memory), "")


def step_body(charge: Entry, step: AnswerStep | None, entries: Iterable[Entry]) -> dict[str, dict[str, str]]:
    """What the entry of a result says of the memory, nothing where there is none.

    Raise NotCharged unless the charge is for first answers of exactly this memory, and the step begins where the last one ended: else a person
    could have two first answers for the price of one.
    """
    if _memory_of(charge) != (None if step is None else step.memory):
        raise NotCharged("The charge behind this fit is not one for first answers of its memory.", NotCharged.help)
    if step is None:
        return {}
    if known_digest(entries, step.memory) != step.before:
        raise NotCharged(
            "Another collection was entered since the memory of answers was read.",
            "Fit again, one collection after the other. What was charged stays charged.",
        )
    return {_ANSWERS: dict(vars(step))}


def _memory_of(charge: Entry) -> str | None:
    """The memory whose first answers a charge is for; None where it is for something else."""
    partition = charge.body.get("slice", {}).get("partition", "")
    return str(partition.removeprefix(_PARTITION)) if partition.startswith(_PARTITION) else None
