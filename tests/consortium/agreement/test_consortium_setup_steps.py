"""The steps by which a consortium comes about: what a member signs, and that it knows what it has signed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sudare.consortium import CensusTask, LearningTask, Statements
from sudare.consortium.agreement.amendments import Amendment, amended, proposal_path
from sudare.consortium.agreement.consortium_setup_steps import other_signed_version, revoked, signed, task_from_words
from sudare.consortium.agreement.signed_statements import signature_status
from sudare.errors import AgreementError, InvalidParameter
from tests.consortium.clinics import IDENTITIES, founded

RISK = LearningTask("risk", "one-sum", 1.0)


def test_another_version_of_one_number_is_not_signed_without_a_word(tmp_path: Path) -> None:
    member = founded(tmp_path, RISK)[0]
    first, statements, path = member.agreement(), member.statements(), proposal_path(member.agreement_path)
    one = amended(first, statements, Amendment())
    other = amended(first, statements, Amendment(tasks=(LearningTask("more", "one-sum", 0.5),)))
    proposed = replace(member, agreement_path=path)
    for _ in range(2):
        one.save(path)
        signed(proposed, IDENTITIES["east"])
    other.save(path)
    assert other_signed_version(proposed, other) == one.digest
    with pytest.raises(AgreementError, match=f"another version 2 .{one.digest[:12]}"):
        signed(proposed, IDENTITIES["east"])
    assert "east" not in signature_status(other, Statements.load(path)).signed
    assert "east" in signature_status(other, signed(proposed, IDENTITIES["east"], instead=True)).signed
    assert other_signed_version(proposed, other) is None
    assert other_signed_version(proposed, one) == other.digest


def test_a_first_version_that_was_changed_is_signed_again(tmp_path: Path) -> None:
    """Nodes take none by themselves, and members sign it until all are content."""
    member = founded(tmp_path, RISK)[0]
    signed(member, IDENTITIES["east"])
    changed = replace(member.agreement(), tasks=(replace(RISK, epsilon=0.5),))
    changed.save(member.agreement_path)
    assert other_signed_version(member, changed) is not None
    assert "east" in signature_status(changed, signed(member, IDENTITIES["east"])).signed


def test_members_that_say_so_apart_revoke_a_key_together(tmp_path: Path) -> None:
    members = founded(tmp_path, RISK)
    agreement, key, together = members[0].agreement(), IDENTITIES["west"].public_key.hex(), Statements()
    for member in members[:2]:
        together = together.merged(
            Statements(revocations=(revoked(member, IDENTITIES[member.name], key, f"says {member.name}"),)), agreement
        )
        Statements().save(member.agreement_path)
    assert signature_status(agreement, together).revoked == ("west",)


@pytest.mark.parametrize(
    "columns",
    [
        '["age","shift"]',
        '["age", "shift"]',
        "['age', 'shift']",
        # What is left of the first two where a shell has taken the inner quotes away.
        "[age,shift]",
        "[age, shift]",
    ],
)
def test_a_list_is_written_in_brackets_however_a_shell_quotes_it(columns: str) -> None:
    assert task_from_words(f"shifts census columns={columns} epsilon=1.0") == CensusTask(
        "shifts", ("age", "shift"), 1.0
    )


def test_numbers_in_a_list_stay_numbers_and_a_value_may_have_spaces_in_quotes() -> None:
    sizes = "units learning method=network epsilon=1.0 delta=1e-6 parameters.hidden_layer_sizes=[8, 4]"
    assert task_from_words(sizes).parameters == {"hidden_layer_sizes": (8, 4)}  # type: ignore[attr-defined]
    assert task_from_words('shifts census columns=["night shift"] epsilon=1.0').columns == ("night shift",)  # type: ignore[attr-defined]


def test_what_is_no_list_or_has_no_sign_is_told_how_lists_are_written() -> None:
    with pytest.raises(
        AgreementError, match=r"`tasks\.shifts\.columns` is not a list, such as \[\"first\", \"second\"\]"
    ):
        task_from_words("shifts census columns=shift epsilon=1.0")
    with pytest.raises(InvalidParameter, match=r"lists as field=\[first,second\]"):
        task_from_words("shifts census columns=age, shift epsilon=1.0")
    with pytest.raises(AgreementError):
        task_from_words(f"shifts census columns={'[' * 5000}x{']' * 5000} epsilon=1.0")
