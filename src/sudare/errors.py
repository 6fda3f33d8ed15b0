"""One error tree: every message says what was wrong, what was got and what to do, and prints no private value.

Each class carries the exit code the command line ends with and a help text, which `sudare explain` tells and the documentation has a page for.
Codes are grouped by ten: 1x input, 3x budget, 4x ledger, 5x release, 6x audit, 7x surroundings, 8x sums over members, 9x consortium.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar


class SudareError(Exception):
    """The root of all errors that sudare raises on purpose."""

    exit_code: ClassVar[int] = 1
    help: ClassVar[str] = (
        "Something sudare did not plan for. Please report it; do not paste private data into the report."
    )

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.problem} {self.remedy}"


class InvalidParameter(SudareError, ValueError):
    """A parameter is outside what the estimator or command accepts."""

    exit_code = 10
    help = "A parameter has a value that is not accepted. The message names the parameter and what it takes."


class SchemaError(SudareError, ValueError):
    """A schema is not well formed, or contradicts itself."""

    exit_code = 11
    help = "The schema file or object is not well formed. Correct the column that is named; bounds come from people, not from data."


class ColumnMissing(SchemaError):
    """The table lacks a column that the schema declares."""

    exit_code = 12
    help = "The table lacks a declared column. Rename the column in the table, or remove it from the schema."


class WrongType(SchemaError, TypeError):
    """A column holds another type than the schema declares."""

    exit_code = 13
    help = (
        "A column holds text where numbers are declared, or the reverse. Convert it, or change its kind in the schema."
    )


class UnknownCategory(SchemaError):
    """A categorical column holds a value that the schema does not list."""

    exit_code = 14
    help = "A category is not listed in the schema. Add it to `values`, or map it to a listed one before use."


class MissingValue(SchemaError):
    """A value is missing in a column whose schema says nothing about missing values."""

    exit_code = 15
    help = "A value is missing. Declare `missing` for that column in the schema, or fill the gap before use."


class PersonRowsExceeded(SchemaError):
    """A person has more rows than the schema declares."""

    exit_code = 16
    help = "Some person has more rows than `person.most_rows`. Learners leave rows out by themselves; elsewhere use sudare.frames.kept_persons first."


class DataError(SudareError, ValueError):
    """The data cannot be used: empty, not finite, or of the wrong shape."""

    exit_code = 20
    help = "The data are empty, not finite, or not shaped as declared. Nothing was computed or charged."


class SourceUnreadable(DataError):
    """A file or database with data cannot be read."""

    exit_code = 21
    help = "A data source cannot be opened or is not in the format its name promises. Check path, address and format."


class NotSolved(DataError):
    """A minimiser could not be certified to the accuracy that its guarantee needs."""

    exit_code = 22
    help = "The solver could not certify its answer, so nothing leaves. If a charge was made before, it stays charged. Use a larger regularization or fewer columns."


class ClusterFailed(SudareError):
    """The workers of a cluster could not do what they were asked."""

    exit_code = 23
    help = "Workers of the Dask cluster failed or died. See that they have sudare installed and memory for the rows (their logs say why they ended), and try again. If a charge was made before, it stays charged."


class BudgetError(SudareError):
    """A charge was refused; nothing was computed or spent."""

    exit_code = 30
    help = "The ledger refused a charge. Nothing was computed or spent."


class BudgetExceeded(BudgetError):
    """A charge asks for more than is left in the account."""

    exit_code = 31
    help = "The account does not have that much left. Ask for less, or have the steward raise the budget (`sudare budget raise`)."


class InvalidCost(BudgetError, ValueError):
    """A privacy parameter is not a usable number."""

    exit_code = 32
    help = "Epsilon must be a normal positive number and delta lie in [0, 1). Zero, subnormal, negative, infinite and NaN are refused."


class AccountMismatch(BudgetError, ValueError):
    """An account exists with other terms than those asked for."""

    exit_code = 33
    help = "The account was opened with another budget, relation, unit, composition or source. Open it by its name alone, without a budget or terms. A larger budget is the steward's to give (`sudare budget raise`)."


class SourceTaken(BudgetError):
    """The data source is bound to another account of this ledger."""

    exit_code = 34
    help = (
        "One source has one account: a second one would double the budget. Use the account that the source is bound to."
    )


class UnknownAccount(BudgetError, KeyError):
    """The ledger has no account of that name."""

    exit_code = 35
    help = "See which it has with `sudare budget show`. Giving a budget (--budget in the shell) opens a new one."

    __str__ = SudareError.__str__


class RelationMismatch(BudgetError, ValueError):
    """A guarantee for one neighbour relation or unit was offered where another is kept."""

    exit_code = 36
    help = "Add/remove guarantees convert to replace-one and person to record, never back. Use an account of the same relation and unit."


class NotCharged(BudgetError):
    """A result that no account paid for may not leave."""

    exit_code = 37
    help = "The model was fitted without an account, or changed since. Refit it with account=…; only charged results may leave."


class SeededNoiseRefused(BudgetError, ValueError):
    """Noise from a seed protects nobody, so it cannot be charged to an account."""

    exit_code = 38
    help = "Give an account or a random_state, not both: whoever knows the seed can subtract the noise."


class SourceMismatch(BudgetError, ValueError):
    """An account was to pay for another source than the one it is for."""

    exit_code = 39
    help = (
        "An account pays for one source. Use the account of the source that is read, or open one for it: another --account with --budget, "
        "source=… in Python. Not for a copy of the same records: that would double their budget."
    )


class LedgerError(SudareError):
    """The ledger cannot be used as it is."""

    exit_code = 40
    help = "The ledger cannot be used as it is. Do not delete it: spent budget would be forgotten."


class LedgerCorrupt(LedgerError):
    """The ledger was edited, or its chain of hashes is broken."""

    exit_code = 41
    help = "An entry was edited, deleted or reordered. Stop releasing, keep the file for inspection and restore a backup that verifies."


class LedgerRolledBack(LedgerError):
    """The ledger is older than a head or receipt it once gave out."""

    exit_code = 42
    help = "The ledger lacks entries it once confirmed: an older copy was put back. Restore the newest copy."


class LedgerBusy(LedgerError, TimeoutError):
    """Another process held the ledger for too long."""

    exit_code = 43
    help = "Another process held the ledger for longer than the timeout. Nothing was charged; try again."


class LedgerVersion(LedgerError):
    """The ledger was written by a newer sudare."""

    exit_code = 44
    help = "The ledger has a format this version does not know. Upgrade sudare; the ledger was not touched."


class LedgerMissing(LedgerError):
    """The ledger that a handle points to is gone or was replaced."""

    exit_code = 45
    help = (
        "If there was a ledger, bring it back: what it spent must not be forgotten. "
        "A first ledger is made when an account is opened with a budget (--budget, or epsilon=… in Python)."
    )


class ReleaseError(SudareError):
    """A release cannot be made, written or read."""

    exit_code = 50
    help = "A release cannot be made, written or read."


class ReleaseMalformed(ReleaseError, ValueError):
    """A release file is not in canonical form."""

    exit_code = 51
    help = "The file is damaged or was not written by sudare. Ask the sender for it again; nothing in it was used."


class ReleaseUntrusted(ReleaseError):
    """A release file is not signed by a trusted key."""

    exit_code = 52
    help = "The signature is missing, wrong, or by a key you do not trust. Check the sender's fingerprint by telephone."


class ReleaseVersion(ReleaseError):
    """A release file has a format this version does not know."""

    exit_code = 53
    help = "The file was written by a newer sudare. Upgrade to read it."


class NotReleasable(ReleaseError, TypeError):
    """An object of this kind can never be released."""

    exit_code = 54
    help = "Only fitted learners of sudare can be released: not searches, pipelines, or models combined with your own data."


class ReleaseExists(ReleaseError, FileExistsError):
    """A file already stands where the release would be written."""

    exit_code = 55
    help = "A release never overwrites a file. Choose another name, or move the old file away."

    __str__ = SudareError.__str__


class AuditFailed(SudareError):
    """An audit measured more privacy loss than was claimed."""

    exit_code = 60
    help = "The measured lower bound is above the claimed epsilon: the mechanism does not keep its promise. Do not release with it."


class DataUnavailable(SudareError):
    """A study needs a data set that is not here."""

    exit_code = 70
    help = (
        "Set SUDARE_DATA to a folder with the CSV files that docs/studies.md lists, or allow the download from OpenML."
    )


class ExtraMissing(SudareError, ImportError):
    """A part of sudare needs packages that are not installed."""

    exit_code = 71
    help = "This part needs an extra: pip install 'sudare[NAME]' with the name in the message."


class UnknownName(SudareError, LookupError):
    """No study, audit or learner has that name."""

    exit_code = 72
    help = "No study, audit or learner has that name. The message lists those there are."


class SumError(SudareError):
    """A sum over members cannot be made or was stopped."""

    exit_code = 80
    help = "A sum over members cannot be made or was stopped. What was sent shows nobody's addend."


class MembersMissing(SumError):
    """Too many members left for the sum to be finished by those that stayed."""

    exit_code = 81
    help = "Too many members left a sum. Wait until they are back and begin the next attempt, or agree on a lower threshold."


class MaskReused(SumError, ValueError):
    """A sum was begun again with other data: two values under one mask show their difference."""

    exit_code = 82
    help = "One input of a task is one vector: every attempt sends the same. Give changed data a new iteration."


class SecondTotalRefused(SumError):
    """A total over other members was asked for one input: two totals show the difference."""

    exit_code = 83
    help = "A member takes part in one total for each input. Finish the total that was agreed on, or begin a new iteration."


class ImplausibleTotal(SumError, ValueError):
    """A total lies outside what the declared ranges allow, so somebody's addend did too."""

    exit_code = 84
    help = "Some member added what no honest value gives; masks hide who. The task stops: find out by telephone, not by another sum."


class MessageMalformed(SumError, ValueError):
    """A message or saved state of a sum is not in the form that it must have."""

    exit_code = 85
    help = "A message or saved state is damaged or was not written by sudare. Nothing in it was used."


class StatementsContradict(SumError):
    """Members were told different things about one sum; signed statements show it."""

    exit_code = 86
    help = "Somebody said different things about one sum to different members. No total was used: `sudare consortium blame` shows who signed what."


class ConsortiumError(SudareError):
    """Members cannot work together as things are."""

    exit_code = 90
    help = "Something between members is not as agreed. Nothing was sent; the message says what to settle."


class AgreementError(ConsortiumError, ValueError):
    """An agreement, a member file or a signed statement is not well formed, or contradicts itself."""

    exit_code = 91
    help = "The file that is named is not well formed. Correct the field that the message gives by its path."


class AgreementMismatch(ConsortiumError):
    """Two members hold different agreements, or not all have signed the one there is."""

    exit_code = 92
    help = "Members talk only under one agreement that all have signed. Settle the fields that differ, then sign again."


class IdentityError(ConsortiumError):
    """A key cannot be used: locked, readable by others, or not the one that was agreed on."""

    exit_code = 93
    help = "A key file cannot be opened or is not the one agreed on. Keys are Ed25519, encrypted, and readable by their owner only."


class KeyRevoked(IdentityError):
    """A member's key was revoked, so nothing that it signs counts any more."""

    exit_code = 94
    help = "The key was revoked. Its owner makes a new one, and all sign an agreement that names it."


class NotApproved(ConsortiumError):
    """A task may not run here: not approved, denied, dearer than policy or steward allow, or run already."""

    exit_code = 95
    help = "The member's policy or steward does not let the task run. See `sudare status`, then `sudare approve TASK` or `sudare deny TASK`."


class NotConnected(ConsortiumError, TimeoutError):
    """Other members, or the relay, could not be reached in time, or do not accept this member."""

    exit_code = 96
    help = "The members that are named did not answer in time. Check relay, proxy and certificates; what was begun goes on when they are back."


class TaskStopped(ConsortiumError):
    """Another member stopped a task. Why is known to that member only."""

    exit_code = 97
    help = (
        "Another member stopped the task and keeps its reason to itself. "
        "Ask it by telephone. Nodes that run go on with it once it runs the task again; where none is running, run it again too."
    )


class StateDamaged(ConsortiumError):
    """A file that a member's node keeps of a task cannot be read, or is not what the node wrote."""

    exit_code = 98
    help = (
        "A file in the member's state or results folder was damaged or replaced. Put the folder back as it was, from a backup made since the task began, "
        "and run the task again; where there is none, agree on a new task. Nothing is paid twice."
    )


class RequestError(SudareError):
    """A request for a release is not in a state in which this can be done, or somebody else has to do it."""

    exit_code = 100
    help = "Requests are asked, approved or denied, and run, in this order; the one who asks may not be the one who approves. `sudare request show` tells how things stand."


class RequestStopped(RequestError):
    """A request was approved and run, and no release came of it: the run failed, or was killed after its result was computed."""

    exit_code = 101
    help = "The run ended without a file. What it had charged stays charged; `sudare request show` says how much. Ask anew."


def every_error() -> Iterator[type[SudareError]]:
    """All error classes, the root first, in the order of their exit codes."""
    found: list[type[SudareError]] = [SudareError]
    for error in found:
        found.extend(error.__subclasses__())
    return iter(sorted(found, key=lambda error: error.exit_code))
