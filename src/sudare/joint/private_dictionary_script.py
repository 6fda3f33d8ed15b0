"""A private dictionary training as one member takes part in it: the same sums as in one process, charged in its own ledger first.

Noise is drawn in the step that makes an addend. Whoever runs the walk keeps the addend before anything of it is sent, and asks
again only for one that never left: one sum never has two noises.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sudare.array_types import Floats, Words
from sudare.dictionary.distributed_noise import NoisePlan
from sudare.dictionary.em import TrainingTerms, implausible, row_count
from sudare.dictionary.in_process_secure_sums import ADDENDS
from sudare.dictionary.member_tables import Records
from sudare.dictionary.private_training import PrivateTerms
from sudare.dictionary.training import trained
from sudare.errors import NotSolved
from sudare.joint.dictionary_script import DictionaryWalk, TrainedDictionary, totals_heard
from sudare.joint.single_charge import Entrance, check_present, new_mark, receipt_text
from sudare.joint.sum_script import Finished
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.ledger import Account
from sudare.privacy.noise import NoiseSource
from sudare.privacy.release import Passage
from sudare.sums.canonical_encoding import packed, unpacked


@dataclass(frozen=True)
class _Saved:
    """The state of the walk inside, the mark of the charge, and its receipt as text once it was entered."""

    walk: bytes
    mark: str
    receipt: str | None


class PrivateDictionaryWalk:
    """(ε, δ)-DP towards any t members together and everyone else, replace-one records. Proof: proofs/dictionary.md.

    With an account the whole training is charged in it immediately before the first noise is drawn. A `random_state` is for
    simulation and voids the guarantee.
    """

    is_exact: Final = False

    def __init__(
        self,
        private: PrivateTerms,
        guarantee: Guarantee,
        records: Records,
        account: Account | None = None,
        random_state: int | np.random.RandomState | None = None,
        purpose: str = "",
    ) -> None:
        """`guarantee` says the unit: a record, or a person where the schema knows persons."""
        self._private, self._records, self._purpose = private, records, purpose
        what = f"pattern dictionary of {private.terms.members} members"
        self._entrance = Entrance(account, random_state, guarantee, what)
        self._inside: DictionaryWalk | None = None

    def begun(self) -> tuple[bytes, Words]:
        """The first addend: how many records there are. Who could not pay for what follows does not even tell that."""
        rows = max(self._records.rows, len(self._private.terms.columns) + 1)
        self._entrance.check_payable(self._private.plan(rows).cost)
        state, words = self._walk(None).begun()
        return packed(_Saved(state, new_mark(self._purpose), None)), words

    def step(self, state: bytes, total: Words, included: tuple[int, ...]) -> tuple[bytes, Words | Finished]:
        """The next addend after a total, or the dictionary. A total of too few members is not used."""
        saved = unpacked(state, _Saved)
        check_present(self._private.terms.members, self._private.colluders, included)
        ADDENDS.check_total(total, len(included))
        passage = self._entered(saved, total)
        if self._inside is None:
            self._inside = self._walk(passage.noise)
        inner, answer = self._inside.step(saved.walk, total, included)
        if isinstance(answer, Finished) and isinstance(answer.result, TrainedDictionary):
            answer = Finished(replace(answer.result, guarantee=passage.guarantee, receipt=passage.receipt))
        return packed(_Saved(inner, saved.mark, receipt_text(passage))), answer

    def _entered(self, saved: _Saved, total: Words) -> Passage:
        """Through the door, once the number of all records is known: the noise of the whole training follows from it."""
        heard = (*totals_heard(saved.walk), ADDENDS.decode(total))
        return self._entrance.passed(saved.mark, saved.receipt, lambda: self._plan(heard[0]).cost)

    def _plan(self, first_total: Floats) -> NoisePlan:
        rows = rows_told(self._private.terms, first_total)
        if rows < self._records.rows:
            # Addends are bounded by the number of all records: with fewer than one's own they could saturate.
            raise implausible()
        return self._private.plan(rows)

    def _walk(self, noise: NoiseSource | None) -> DictionaryWalk:
        private = self._private
        return DictionaryWalk(lambda: trained(private), self._records, private.terms.members, noise)


def rows_told(terms: TrainingTerms, total: Floats) -> int:
    """The number of all records that the first total tells, by the script that all follow."""
    script = row_count(terms)
    question = next(script)
    try:
        script.send(total * question.limits)
    except StopIteration as end:
        return int(end.value)
    raise NotSolved("The row count asked a second question.", "Use one program version.")
