"""Whatever is offered as an agreement, a file of statements, a member file or a decision: read, or refused in our words."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.consortium import (
    Agreement,
    Identity,
    Member,
    Revocation,
    Rotation,
    Statements,
    differences,
    signature_status,
)
from sudare.consortium.agreement.approvals import parsed_event
from sudare.consortium.agreement.consortium_setup_steps import task_from_words
from sudare.consortium.agreement.differing_fields import parsed_field_digests
from sudare.consortium.ledger_rollback import parsed_head
from sudare.errors import AgreementError, InvalidParameter, SudareError
from tests.consortium.documents import DOCUMENT, MEMBER, agreement_of, signed_by_all, three_identities

IDENTITIES = three_identities()
AGREEMENT = agreement_of(IDENTITIES)


def valid_statements() -> str:
    signed = signed_by_all(AGREEMENT, IDENTITIES)
    rotation = Rotation.made(IDENTITIES["north"], Identity.generated())
    revocation = Revocation(IDENTITIES["west"].public_key.hex(), "now", "lost").signed_by(IDENTITIES["east"])
    return Statements(signed.signatures, (rotation,), (revocation,)).to_toml()


def read_agreement(text: str) -> None:
    agreement = Agreement.from_toml(text)
    assert Agreement.from_toml(agreement.to_toml()).digest == agreement.digest
    assert differences(agreement, agreement) == ()
    assert parsed_field_digests(agreement.field_digests(b"nonce"))


def read_statements(text: str) -> None:
    statements = Statements.from_toml(text)
    assert Statements.from_toml(statements.to_toml()) == statements
    found = signature_status(AGREEMENT, statements)
    assert set(found.signed) | set(found.missing) | set(found.invalid) | set(found.revoked) == set(IDENTITIES)


def read_member(text: str) -> None:
    member = Member.from_toml(text, Path("folder"))
    assert member.name
    assert member.key_path


def read_event(text: str) -> None:
    event = parsed_event(text)
    assert parsed_event(json.dumps(event.to_dict())) == event


EVENT = {
    "agreement": AGREEMENT.digest, "task": "risk", "task_digest": AGREEMENT.task("risk").digest, "state": "approved",
    "who": "steward", "when": "2026-11-15", "reason": "",
}  # fmt: skip
DOCUMENTS: dict[str, tuple[Callable[[str], Any], str]] = {
    "agreement": (read_agreement, tomli_w.dumps(DOCUMENT)),
    "statements": (read_statements, valid_statements()),
    "member": (read_member, MEMBER + "\n[policy]\nmost_epsilon = 1.0\n[transport]\nrelay = 'a:1'\n"),
    "decision": (read_event, json.dumps(EVENT)),
    "head": (parsed_head, json.dumps({"ledger": "a" * 32, "position": 3, "hash": "b" * 64})),
    "task": (task_from_words, "risk learning method=one-sum epsilon=0.5 parameters.fit_intercept=true"),
}
WORDS = [
    *"[]{}=\"'.,#\n\\?-\t\0\x1b", "inf", "nan", "-0.0", "1e400", "true", "1979-05-27", "0x10", "9" * 400, "5e-324", '""', "[[]]",
    '"\\ud800"', "kind", "epsilon", "delta", "members", "tasks", "schema", "file", "digest", "[tasks.x]\n", "parameters", "env:",
    "signatures", "[[rotations]]\n", "[[revocations]]\n", "../../etc/passwd", "null", "-1", "0", "1e-300", "\U0001f4a5",
]  # fmt: skip
DAMAGED_IN_DEFAULT_RUN = 1_000
DAMAGED_IN_LONG_RUN = 20_000


def refusal(kind: str, text: str) -> SudareError | None:
    try:
        DOCUMENTS[kind][0](text)
    except (AgreementError, InvalidParameter) as error:
        return error
    return None


def check(kind: str, text: str) -> None:
    refused = refusal(kind, text)
    assert refused is None or (refused.problem.isprintable() and refused.remedy)
    # A task is typed on a command line, the rest comes from files.
    assert not isinstance(refused, InvalidParameter) or kind == "task"


def damaged(text: str, chance: random.Random) -> str:
    for _ in range(chance.randint(1, 4)):
        place, length = chance.randrange(len(text) + 1), chance.choice([0, 1, 1, 5, 40])
        match chance.randrange(4):
            case 0:
                text = text[:place] + chance.choice(WORDS) + text[place:]
            case 1:
                text = text[:place] + text[place + length :]
            case 2:
                text = text[:place] + chance.choice(WORDS) + text[place + length :]
            case _:
                source = chance.randrange(len(text) + 1)
                text = text[:place] + text[source : source + length] + text[place:]
    return text


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_the_undamaged_document_is_read(kind: str) -> None:
    read, text = DOCUMENTS[kind]
    read(text)


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_damaged_documents(kind: str) -> None:
    chance = random.Random(kind)
    for _ in range(DAMAGED_IN_DEFAULT_RUN):
        check(kind, damaged(DOCUMENTS[kind][1], chance))


@pytest.mark.long
@pytest.mark.parametrize("kind", DOCUMENTS)
def test_many_damaged_documents(kind: str) -> None:
    chance = random.Random()
    for _ in range(DAMAGED_IN_LONG_RUN):
        check(kind, damaged(DOCUMENTS[kind][1], chance))


@pytest.mark.parametrize("kind", DOCUMENTS)
@settings(max_examples=40, deadline=None)
@given(text=st.text() | st.lists(st.sampled_from(WORDS)).map("".join))
def test_any_text(kind: str, text: str) -> None:
    check(kind, text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=70),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=80, deadline=None)
@given(JSON)
def test_any_field_digests(value: object) -> None:
    with contextlib.suppress(AgreementError):
        assert parsed_field_digests(value)


@settings(max_examples=80, deadline=None)
@given(JSON, st.sampled_from(sorted(DOCUMENT)))
def test_any_value_in_any_section_of_an_agreement(value: object, section: str) -> None:
    with contextlib.suppress(AgreementError):
        assert Agreement.from_dict({**DOCUMENT, section: value}).digest
