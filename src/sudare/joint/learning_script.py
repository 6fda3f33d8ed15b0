"""One member's walk through a training: what it heard in, its next addend out. What it was charged for is charged once.

The script is deterministic, so the totals heard so far lead to the same next request after a restart. Noise is drawn in the step
that makes an addend; whoever runs the walk keeps the addend, and never asks again for one that may have left.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Protocol

import numpy as np

from sudare.array_types import Words
from sudare.errors import ImplausibleTotal, NotCharged, NotSolved
from sudare.joint.additive_boosting import BoostingTerms, LearnedShapes, boosted
from sudare.joint.descent import learned
from sudare.joint.member_rows import MemberTable
from sudare.joint.network_training_terms import LearnedNetwork, NetworkTerms
from sudare.joint.one_sum import Learned
from sudare.joint.scaler import CommonScales, ScalerTerms, Script, scaled
from sudare.joint.single_charge import Entrance, check_present, new_mark, receipt_text
from sudare.joint.sum_requests import RowCount, SumRequest, answered
from sudare.joint.sum_script import Finished
from sudare.joint.training_terms import LearningTerms
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.ledger import Account
from sudare.privacy.ledger_chain import Receipt, canonical_json
from sudare.privacy.release import Passage
from sudare.sums.canonical_encoding import packed, unpacked
from sudare.sums.sum_script_replay import ScriptReplay

Terms = LearningTerms | ScalerTerms | BoostingTerms | NetworkTerms
Outcome = Learned | CommonScales | LearnedShapes | LearnedNetwork


@dataclass(frozen=True, eq=False)
class LearnedTogether:
    """What a member has in the end: the common outcome, and what it was promised and charged for it.

    `seal` is written by the walk that made it, and no longer matches when anything of it is changed.
    """

    terms: Terms
    outcome: Outcome
    guarantee: Guarantee
    receipt: Receipt | None
    seal: str = ""

    def check_unchanged(self) -> None:
        """Raise NotCharged unless this is as a walk left it."""
        if self.seal != seal_of(self):
            raise NotCharged(
                "What was learned together was changed after the last sum.", "Use it as the training gave it."
            )


def seal_of(found: LearnedTogether) -> str:
    """SHA-256 of the terms, all numbers of the outcome, the guarantee and the receipt."""
    numbers = {
        each.name: value.tobytes().hex() if isinstance(value, np.ndarray) else repr(value)
        for each in fields(found.outcome)
        for value in [getattr(found.outcome, each.name)]
    }
    paid = None if found.receipt is None else found.receipt.to_dict()
    text = canonical_json([repr(found.terms), numbers, found.guarantee.to_dict(), paid])
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class _Saved:
    """Totals heard, or what is kept of them, the mark of the charge, and its receipt as text once it was entered."""

    heard: tuple[Words, ...]
    mark: str
    receipt: str | None


class TrainingReplay(Protocol):
    """What follows the totals heard so far, and what of them is kept for that."""

    def after(self, heard: tuple[Words, ...]) -> SumRequest | Outcome:
        """The next request, or what the training ends with."""

    def kept(self, heard: tuple[Words, ...]) -> tuple[Words, ...]:
        """What leads to the same as these totals."""


def replay_of(terms: Terms) -> TrainingReplay:
    """The way of all members through a training."""
    if isinstance(terms, NetworkTerms):
        # Brings compilers that no other training needs.
        from sudare.joint.network_training import NetworkReplay

        return NetworkReplay(terms)
    replay: ScriptReplay[SumRequest, Outcome] = ScriptReplay(lambda: script_of(terms))
    return replay


def script_of(terms: LearningTerms | ScalerTerms | BoostingTerms) -> Script[Any]:
    """The script that all members follow."""
    match terms:
        case LearningTerms():
            return learned(terms)
        case BoostingTerms():
            return boosted(terms)
        case _:
            return scaled(terms)


class LearningWalk:
    """A member's part of a consortium-wide training, as `sudare.consortium.tasks.sum_script_runner` walks it.

    With an account the whole training is charged in it immediately before the first noise is drawn. A `random_state` is for
    simulation and voids the guarantee.
    """

    is_exact: Final = False

    def __init__(
        self,
        terms: Terms,
        table: MemberTable,
        account: Account | None = None,
        random_state: int | np.random.RandomState | None = None,
        purpose: str = "",
    ) -> None:
        self._terms, self._table, self._purpose = terms, table, purpose
        self._entrance = Entrance(account, random_state, terms.guarantee, _what(terms), table.source)
        self._script = replay_of(terms)

    def begun(self) -> tuple[bytes, Words]:
        """The first addend: how many rows there are."""
        return self._following(_Saved((), new_mark(self._purpose), None), self._script.after(()))

    def step(self, state: bytes, total: Words, included: tuple[int, ...]) -> tuple[bytes, Words | Finished]:
        """The next addend after a total, or the model. A total of too few members is not used."""
        saved = unpacked(state, _Saved)
        check_present(self._terms.members, self._terms.colluders, included)
        heard = replace(saved, heard=(*saved.heard, np.array(total, dtype=np.uint64)))
        following = self._script.after(heard.heard)
        if len(heard.heard) == 1:
            self._check_row_count(int(heard.heard[0][0]), included)
        heard = replace(heard, heard=self._script.kept(heard.heard))
        if isinstance(following, SumRequest):
            return self._following(heard, following)
        passage = self._entered(heard)
        found = LearnedTogether(self._terms, following, passage.guarantee, passage.receipt)
        return packed(heard), Finished(replace(found, seal=seal_of(found)))

    def _check_row_count(self, rows: int, included: tuple[int, ...]) -> None:
        """Raise ImplausibleTotal, before anything is charged, where all members' rows are fewer than this one's. A total without some may be."""
        question = self._script.after(())
        if (
            len(included) == self._terms.members
            and isinstance(question, RowCount)
            and rows < self._table.count_read(question.reading)
        ):
            raise ImplausibleTotal(
                "The total of all members' rows is below this member's own.",
                "Some member did not keep to the script, and masks hide which. Nothing was charged; ask the members.",
            )

    def _following(self, saved: _Saved, request: SumRequest | Outcome) -> tuple[bytes, Words]:
        if not isinstance(request, SumRequest):
            raise NotSolved("The training ended without a request.", "Begin a new training.")
        if isinstance(request, RowCount):
            return packed(saved), answered(self._table, request, None)
        passage = self._entered(saved)
        saved = replace(saved, receipt=receipt_text(passage))
        return packed(saved), answered(self._table, request, passage.noise)

    def _entered(self, saved: _Saved) -> Passage:
        """Through the door, once the number of all rows is known: the noise of the whole training follows from it."""
        return self._entrance.passed(saved.mark, saved.receipt, lambda: self._terms.plan(int(saved.heard[0][0])).cost)


def _what(terms: Terms) -> str:
    match terms:
        case LearningTerms():
            return f"consortium-wide model of {terms.members} members"
        case BoostingTerms():
            return f"consortium-wide additive model of {terms.members} members"
        case NetworkTerms():
            return f"consortium-wide network of {terms.members} members"
        case _:
            return f"consortium-wide scaler of {terms.members} members"
