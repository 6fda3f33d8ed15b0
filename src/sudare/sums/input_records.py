"""What a member remembers of an input: which data it was, and the one set of members whose sum it may be part of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from sudare.errors import MaskReused, SecondTotalRefused, SumError
from sudare.sums.context import Participant, SumContext
from sudare.sums.messages import Members

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class InputRecord:
    """What is remembered of one input over all attempts at its sum. `voted_for` is the bitmap of the only members that it may be added up with.

    They were voted for in attempt `voted_in`, or settled before the sum began.
    """

    input_digest: bytes
    data_tag: bytes
    voted_for: bytes | None = None
    voted_in: int | None = None

    def only_set_to_vote_for(self, context: SumContext) -> bytes:
        """The bitmap of the only members that a vote in this attempt can be for: of nobody where no vote is left, empty where any set can be."""
        if self.voted_for is None:
            return b""
        has_voted = context.is_sparse and self.voted_in not in (None, context.attempt)
        return context.bitmap(()) if has_voted else self.voted_for

    def with_vote(self, context: SumContext, included: bytes) -> InputRecord:
        """The record after a vote. Raise SecondTotalRefused after a vote for other members; on a sparse graph after any in another attempt.

        On a sparse graph a lying collector can leave a few of the set out of what it opens (proofs/neighbourhoods.md): two attempts
        over one set could show the difference.
        """
        is_other = self.voted_for not in (None, included)
        if is_other or (context.is_sparse and self.voted_in not in (None, context.attempt)):
            raise second_total_refused()
        return InputRecord(self.input_digest, self.data_tag, included, context.attempt)


def second_total_refused() -> SecondTotalRefused:
    """What is raised, and told afterwards, where a vote would be a second one."""
    return SecondTotalRefused(
        "A total over other members than those voted for was asked for the same input; two totals show the difference.",
        "Finish the total that was voted for, or begin a new iteration.",
    )


def admitted(me: Participant, words: Words, earlier: InputRecord | None, among: Members | None = None) -> InputRecord:
    """The record of this input. Raise MaskReused unless the data are those of every earlier attempt.

    `among`, where it is settled before the sum begins, are the only members that a new input is added up with.
    """
    context = me.context
    key = me.keys.own_seed(b"tag of an input", context.input_digest)
    # A keyed tag: whoever finds the record cannot use it to test guesses of the data.
    tag = AESGCM(key).encrypt(bytes(12), b"", np.ascontiguousarray(words).data.cast("B"))
    if earlier is None:
        return InputRecord(context.input_digest, tag, None if among is None else context.bitmap(among))
    if earlier.input_digest != context.input_digest:
        raise SumError("What was saved is of another input.", "Give every iteration of a task its own place.")
    if earlier.data_tag != tag:
        raise MaskReused(
            "This input was begun with other data; two values of one input show their difference.",
            "Send the same data in every attempt, or begin a new iteration.",
        )
    return earlier
