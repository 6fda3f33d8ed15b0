"""`sudare consortium blame`: which signed statements about a task's sums contradict each other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sudare.cli.command_output import AsJson, answer, reported
from sudare.cli.key_files import MemberFile

if TYPE_CHECKING:
    from sudare.sums.blame import Contradiction, Reason, Transcript
    from sudare.sums.context import SumContext

_SHOWN_DIGITS = 16


@reported
def blame(
    task: Annotated[str, typer.Argument(metavar="TASK", help="A task of the agreement, by its name.")],
    member: MemberFile = Path("member.toml"),
    others: Annotated[
        list[Path] | None,
        typer.Option(
            "--with",
            metavar="FILE",
            help="Transcripts that another member wrote with --output, or a relay with `sudare relay transcripts`; may be repeated.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", metavar="FILE", help="Write this member's transcripts, for other members to give with --with."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Which signed statements about a task's sums contradict each other, and whom that proves to have lied. Ends with exit code 86 if any do."""
    from sudare.consortium.agreement.member_settings import Member
    from sudare.consortium.tasks.sum_transcripts import own_transcripts, write_transcripts
    from sudare.errors import StatementsContradict
    from sudare.sums.blame import contradictions

    own = Member.load(member)
    agreement = own.agreement()
    agreement.task(task)
    transcripts = own_transcripts(own.task_folder(agreement, task))
    received = [each for path in others or [] for each in _received(path, transcripts[0].context)]
    found = contradictions([*transcripts, *received])
    if output is not None:
        write_transcripts(output, transcripts)
    names = transcripts[0].context.names
    values = {
        "task": task,
        "agreement": agreement.digest,
        "sums": len({each.iteration for each in (*transcripts, *received)}),
        "files": len(others or []),
        "contradictions": [_values(each, names) for each in found],
        "output": None if output is None else str(output),
    }
    lines = [
        f"{task}: looked at what was signed in {values['sums']} sums, as this member kept it"
        + (f", and at the transcripts in {values['files']} files." if others else "."),
        *(line for each in found for line in _lines(each, names, task)),
        *([] if found else ["No signed statements contradict each other."]),
        *([] if output is None else [f"Wrote {output}: signed statements only, for members of this agreement."]),
    ]
    answer(values, as_json, *lines)
    if found:
        raise typer.Exit(StatementsContradict.exit_code)


def _received(path: Path, own: SumContext) -> list[Transcript]:
    """Another member's transcripts. Raise InvalidParameter where they are of another task, IdentityError where of members with other keys."""
    from sudare.consortium.tasks.sum_transcripts import received_transcripts
    from sudare.errors import IdentityError, InvalidParameter

    found = received_transcripts(path)
    for each in found:
        context = each.context
        if (context.agreement, context.task, context.names) != (own.agreement, own.task, own.names):
            raise InvalidParameter(
                f"'{path}' holds transcripts of another agreement or task.", "Give files of the task that is named."
            )
        pairs = zip(own.names, own.publics, context.publics, strict=True)
        strangers = [name for name, known, given in pairs if known != given]
        if strangers:
            raise IdentityError(
                f"'{path}' names other keys than this member knows for: {', '.join(strangers)}. "
                "They showed two keys, or the file is false; that is not signed.",
                "Compare keys by telephone. Leave the file out to look at the rest.",
            )
    return found


# Words


def _lines(found: Contradiction, names: tuple[str, ...], task: str) -> list[str]:
    """Who, what, which sum, which statements, and what to do."""
    from sudare.sums.blame import MEANINGS

    meaning, place = MEANINGS[found.reason], _place(found, task)
    if found.liar is not None:
        head = f"{found.liar} lied ({place}): {'it ' if found.reason in _OF_ONE else ''}{meaning}."
        todo = (
            f"Its own signatures prove it, or that somebody else has its key. Show the others (--output), ask {found.liar} by telephone; "
            f"they can put its key out of force: sudare key revoke --of {found.liar}"
        )
    else:
        head = f"Not attributable ({place}): {meaning}. At least one of these lied: {', '.join(found.among)}."
        todo = _OPEN_QUESTIONS[found.reason]
    return [head, *(f"  {_side(side, names)}" for side in found.sides), f"  {todo}"]


def _place(found: Contradiction, task: str) -> str:
    attempts = " and ".join(map(str, found.attempts))
    return f"{task}, iteration {found.iteration}" + (f", attempt {attempts}" if attempts else "")


def _side(side: tuple[Any, ...], names: tuple[str, ...]) -> str:
    """Who signed the same thing, with the digest of each statement."""
    return "; ".join(f'{names[each.signer]} signed "{each.kind}" {each.digest[:_SHOWN_DIGITS]}' for each in side)


_OF_ONE = frozenset({"two statements", "impossible statement", "own statements differ", "two sets", "two histories"})
_ASK = "Ask them for their transcripts (--output) and give them with --with"
_OPEN_QUESTIONS: dict[Reason, str] = {
    "collector and member differ": f"{_ASK}: a member that is honest holds the collector's statement that it was sent.",
    "dealers differ": f"{_ASK}. A collector does not sign who has dealt: without two statements of one member it stays open who lied.",
    "totals differ": f"{_ASK}: a member that is honest holds the collector's statement on the total that it was sent.",
    "totals differ without a collector": "What members pass on to each other there is not signed: who changed it cannot be found out. "
    "No total was used. Settle by telephone with whom to go on.",
    "copied keys": "Both signed them: who was first cannot be told from signatures.",
    "shares do not fit": "Shares are dealt in sealed boxes: whether it was dealt or given out falsely cannot be told from signatures.",
    "histories differ": f"{_ASK}: the sum before shows who told different totals.",
}


def _values(found: Contradiction, names: tuple[str, ...]) -> dict[str, Any]:
    from sudare.sums.blame import MEANINGS

    return {
        "liar": found.liar,
        "among": list(found.among),
        "reason": found.reason,
        "meaning": MEANINGS[found.reason],
        "iteration": found.iteration,
        "attempts": list(found.attempts),
        "sides": [
            [{"signer": names[each.signer], "kind": each.kind, "digest": each.digest} for each in side]
            for side in found.sides
        ],
    }
