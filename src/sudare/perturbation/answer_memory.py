"""First answers of persons in a file of the member's: each is drawn once, and given again in every later collection.

The file holds a key, under which persons have tags, and a batch of tags and answers for each collection. Its digests form a chain, of which the ledger
has the last one: no other file is taken. Proof: proofs/repeated_answers.md.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from sudare.array_types import Bytes, Integers, Words
from sudare.errors import DataError, InvalidParameter, SudareError
from sudare.files import FileLock, check_private, is_taken, space_kept, write_atomically, write_new
from sudare.frames.keyed_tags import BLOCK_BYTES
from sudare.parsing import parsed_json
from sudare.perturbation.column_perturbation import Perturbation
from sudare.perturbation.perturbed_table import described
from sudare.perturbation.release_format import is_same
from sudare.privacy.declared_columns import written_columns
from sudare.privacy.first_answers import AnswerStep, last_restore
from sudare.privacy.ledger import Account
from sudare.privacy.ledger_chain import Receipt, canonical_json
from sudare.schema import Schema

_MAGIC: Final = b"sudare answers 1\n"
_LENGTH_BYTES: Final = 8
_LARGEST_HEADER_BYTES: Final = 2**26
_IDENTITY: Final = re.compile("[0-9a-f]{32}")
_SECRET: Final = re.compile("[0-9a-f]{64}")
_WHAT: Final = "The memory of answers"
_UNREADABLE: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True)
class Terms:
    """What all answers of a memory have in common: who pays, the declared columns, and how each is perturbed."""

    ledger: str
    account: str
    declared: Mapping[str, Any]
    perturbations: Sequence[Mapping[str, Any]]
    width: int

    @classmethod
    def of(
        cls, ledger: str, account: str, declared: Schema, perturbations: Mapping[str, Perturbation], width: int
    ) -> Terms:
        """Those of a fit; a row of its answers has `width` bytes."""
        laws = [described(each) for each in perturbations.values()]
        return cls(ledger, account, written_columns(declared), laws, width)

    def has_laws_of(self, other: Terms) -> bool:
        """Whether answers by these terms are such as by the other ones: the same columns, perturbed by the same laws."""
        return (
            (self.declared, self.width) == (other.declared, other.width)
            and len(self.perturbations) == len(other.perturbations)
            and all(map(is_same, self.perturbations, other.perturbations))
        )


@dataclass(frozen=True, eq=False, repr=False)
class Batch:
    """The first answers of one collection: where its charge is in the ledger, the persons' tags, and a row of bytes for each."""

    position: int
    hash: str
    tags: Words
    answers: Bytes


@dataclass(frozen=True, eq=False, repr=False)
class AnswerMemory:
    """A memory as it was read; nothing in it changes."""

    identity: str
    key: bytes
    terms: Terms | None = None
    batches: tuple[Batch, ...] = ()

    def digests(self) -> list[str]:
        """The digest of the memory after each collection."""
        if self.terms is None:
            return []
        opening = hashlib.sha256(_MAGIC + self.key + canonical_json([self.identity, vars(self.terms)]).encode())
        return list(accumulate(self.batches, _next_digest, initial=opening.hexdigest()))[1:]

    @cached_property
    def _in_order(self) -> tuple[Integers, Words]:
        """The places of all persons by their tags, and the tags in this order."""
        tags = np.concatenate([np.empty((0, 2), np.uint64), *(batch.tags for batch in self.batches)])
        order = np.lexsort((tags[:, 1], tags[:, 0]))
        return order, tags[order]

    def places(self, tags: Words) -> Integers:
        """Where each person is among those of all batches; −1 for who has not answered yet."""
        order, known = self._in_order
        found = np.full(len(tags), -1, np.int64)
        place = np.searchsorted(known[:, 0], tags[:, 0])
        # Of tags that begin alike one after the other is compared.
        left = np.arange(len(tags))
        while len(left):
            left = left[place[left] < len(known)]
            left = left[known[place[left], 0] == tags[left, 0]]
            same = known[place[left], 1] == tags[left, 1]
            found[left[same]] = order[place[left[same]]]
            left = left[~same]
            place[left] += 1
        return found

    def answers(self, width: int) -> Bytes:
        """The rows of all batches, of so many bytes each."""
        return np.concatenate([np.empty((0, width), np.uint8), *(batch.answers for batch in self.batches)])

    def ready(self, account: Account, asked: Terms) -> AnswerMemory:
        """The memory as a fit may use it: without a batch of a fit that was killed. Nothing was charged yet.

        Raise DataError where it is not the one that the account knows, InvalidParameter where its answers are to other questions.
        """
        known, digests = account.known_answers(self.identity), self.digests()
        if known and known not in digests:
            raise DataError(
                f"This is not the memory of answers that account '{account.name}' knows: it is an older copy, or was changed.",
                "Give the newest one; whoever answered since an older copy would answer a second time. Without it begin a new one: its first "
                "answers are charged beside the earlier ones. Nothing was charged.",
            )
        kept = digests.index(known) + 1 if known else 0
        terms = self.terms
        if terms is not None and (terms.ledger, terms.account) != (asked.ledger, asked.account):
            raise DataError(
                "This memory of answers belongs to another account or another ledger.",
                "Use that account, or begin a new memory, whose first answers are charged. Nothing was charged.",
            )
        left_over = self.batches[kept:]
        if len(left_over) > 1 or not all(_is_charged(account, batch) for batch in left_over):
            raise DataError(
                "The memory of answers has collections that the ledger does not have: the ledger is an older copy.",
                "Give the newest ledger, or begin a new memory, whose first answers are charged. Nothing was charged.",
            )
        if not kept:
            return replace(self, terms=None, batches=())
        if terms is None or not terms.has_laws_of(asked):
            raise InvalidParameter(
                "The answers in this memory are to other questions: its columns, bounds, categories, ε, split or methods are not these.",
                "Ask as before, or begin a new memory, whose first answers are charged beside the earlier ones. Nothing was charged.",
            )
        return replace(self, batches=self.batches[:kept])

    def extended(self, terms: Terms, receipt: Receipt, tags: Words, answers: Bytes) -> AnswerMemory:
        """The memory with the first answers of one more collection."""
        batch = Batch(receipt.position, receipt.hash, tags, answers)
        return replace(self, terms=self.terms or terms, batches=(*self.batches, batch))

    def step_to(self, extended: AnswerMemory) -> AnswerStep:
        """What the ledger is told of a collection."""
        return AnswerStep(self.identity, (self.digests() or [""])[-1], extended.digests()[-1])

    def content(self) -> bytes:
        """The bytes of the file."""
        header = {
            "memory": self.identity,
            "key": self.key.hex(),
            "terms": None if self.terms is None else vars(self.terms),
            "batches": [[batch.position, batch.hash, len(batch.tags)] for batch in self.batches],
        }
        written = canonical_json(header).encode()
        parts = [_MAGIC, len(written).to_bytes(_LENGTH_BYTES, "little"), written]
        for batch in self.batches:
            parts += [batch.tags.astype("<u8").tobytes(), batch.answers.tobytes()]
        return b"".join(parts)

    @classmethod
    def of(cls, content: bytes) -> AnswerMemory:
        """The memory in the bytes of a file. Raise DataError where they are not those of one."""
        try:
            memory = _parsed(content)
        except (SudareError, *_UNREADABLE):
            memory = None
        if memory is None or memory.content() != content:
            raise DataError(
                "The memory of answers cannot be read.", "Give the file as sudare wrote it. Nothing was charged."
            )
        return memory


def _parsed(content: bytes) -> AnswerMemory:
    start = len(_MAGIC) + _LENGTH_BYTES
    length = int.from_bytes(content[len(_MAGIC) : start], "little")
    header = parsed_json(content[start : start + length].decode(), largest_bytes=_LARGEST_HEADER_BYTES)
    if not (_IDENTITY.fullmatch(header["memory"]) and _SECRET.fullmatch(header["key"])):
        raise ValueError("not a memory")
    terms = None if header["terms"] is None else Terms(**header["terms"])
    width, place, batches = 0 if terms is None else int(terms.width), start + length, []
    for position, entry_hash, persons in header["batches"]:
        if [type(each) for each in (position, entry_hash, persons)] != [int, str, int] or persons < 0 or terms is None:
            raise ValueError("not a batch")
        tags = np.frombuffer(content, "<u8", 2 * persons, place).astype(np.uint64).reshape(-1, 2)
        place += tags.nbytes
        answers = np.frombuffer(content, np.uint8, persons * width, place).reshape(persons, width)
        place += answers.nbytes
        batches.append(Batch(position, entry_hash, tags, answers))
    return AnswerMemory(header["memory"], bytes.fromhex(header["key"]), terms, tuple(batches))


def _next_digest(before: str, batch: Batch) -> str:
    told = json.dumps([before, batch.position, batch.hash, len(batch.tags)]).encode()
    hashed = hashlib.sha256(len(told).to_bytes(_LENGTH_BYTES, "little") + told)
    hashed.update(batch.tags.astype("<u8").tobytes())
    hashed.update(batch.answers.tobytes())
    return hashed.hexdigest()


def _is_charged(account: Account, batch: Batch) -> bool:
    """Whether the ledger has the charge of a batch, and would have its result. A restored copy may lack that."""
    receipt = Receipt(account.ledger.identity, batch.position, batch.hash, account.name)
    return account.ledger.charge_of(receipt) is not None and last_restore(account.entries()) < batch.position


def _binary(tags: Words) -> pa.Array:
    buffers = [None, pa.py_buffer(np.ascontiguousarray(tags))]
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(BLOCK_BYTES), len(tags), buffers)


def has_repeats(tags: Words) -> bool:
    """Whether a person is there twice."""
    return len(_binary(tags).unique()) < len(tags)


class MemoryFile:
    """The file of a memory, wherever links lead."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path).resolve()

    def read(self) -> AnswerMemory | None:
        """The memory; None where there is no file yet. Raise IdentityError where others may read the file: it has the key and the answers."""
        try:
            if not is_taken(self._path):
                return None
            check_private(self._path, _WHAT)
            content = self._path.read_bytes()
        except OSError as error:
            raise _unusable(error) from None
        return AnswerMemory.of(content)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Held by one fit at a time. Raise DataError where another one holds it."""
        try:
            lock = FileLock(self._path.with_name(f".{self._path.name}.lock"))
        except OSError as error:
            raise _unusable(error) from None
        try:
            if not lock.take():
                raise DataError("The memory of answers is in use by another fit.", "Wait for it. Nothing was charged.")
            yield
        finally:
            lock.release()

    def begun(self, key: bytes) -> AnswerMemory:
        """The memory; a new one under this key where there is none. Raise DataError where it has another key: somebody began it meanwhile."""
        memory = self.read()
        if memory is None:
            memory = AnswerMemory(os.urandom(16).hex(), key)
            try:
                write_new(self._path, memory.content())
            except OSError as error:
                raise _unusable(error) from None
        if memory.key != key:
            raise DataError("The memory of answers was replaced meanwhile.", "Fit again. Nothing was charged.")
        return memory

    def check_room(self, memory: AnswerMemory, persons: int, width: int) -> None:
        """Raise InvalidParameter unless there is room for the memory and so many persons more."""
        size = len(memory.content()) + persons * (BLOCK_BYTES + width) + 2**20
        try:
            with space_kept(self._path.parent, size):
                pass
        except OSError as error:
            raise _unusable(error) from None

    def write(self, memory: AnswerMemory) -> None:
        """Replace the file: whoever reads after a crash sees the old one or the new one."""
        try:
            write_atomically(self._path, memory.content())
        except OSError as error:
            raise DataError(
                f"The memory of answers cannot be written ({error.strerror}).",
                "Make room and fit again: the collection goes on with what was charged.",
            ) from None


def _unusable(error: OSError) -> InvalidParameter:
    return InvalidParameter(
        f"The memory of answers cannot be used ({error.strerror}).",
        "Check path, rights and space. Nothing was charged.",
    )
