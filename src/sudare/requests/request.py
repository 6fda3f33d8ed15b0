"""A request for a release and what may happen to it: values and pure functions, no storage and no ledger.

A request has versions: what was asked for first, and what a steward or its asker changed it to. A decision is about one version, and
only decisions about the newest one count. Everything is kept: who did what, when and why.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final, Literal

from sudare.errors import InvalidParameter, RequestError
from sudare.parsing import NotParsed, parsed_json
from sudare.privacy.accounting import Cost
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.ledger_chain import canonical_json
from sudare.requests.expected_error import ExpectedError
from sudare.requests.request_kinds import KINDS
from sudare.safe_text import name_fault, text_fault

State = Literal["asked", "approved", "denied", "running", "done", "failed", "interrupted"]
Verdict = Literal["approved", "denied"]
# As they were typed in a form or a shell, by field.
Values = Mapping[str, Sequence[str]]

FORMAT: Final = 1
# The charge's purpose has more beside it, and a ledger takes 1024 letters.
LONGEST_REASON: Final = 500
IDENTITY: Final = re.compile(r"[0-9a-f]{8}")
# What can still become a release, and what cannot any more.
OPEN_STATES: Final[tuple[State, ...]] = ("asked", "approved", "running")
ENDED_STATES: Final[tuple[State, ...]] = ("denied", "done", "failed", "interrupted")
_STATES: Final = (*OPEN_STATES, *ENDED_STATES)


@dataclass(frozen=True)
class Version:
    """What is asked for: kind and values, and what that promises and costs, from public facts.

    `schema` and `table_state` are digests of the declaration and of the table as they were when it was priced, the latter with a salt.
    """

    number: int
    kind: str
    values: Values
    guarantee: Mapping[str, Any]
    cost: Mapping[str, Any]
    expected: tuple[ExpectedError, ...]
    schema: str
    table_state: str
    who: str
    when: str
    reason: str


@dataclass(frozen=True)
class Decision:
    """What somebody decided about one version, and why."""

    version: int
    verdict: Verdict
    who: str
    when: str
    reason: str


@dataclass(frozen=True)
class Outcome:
    """What came of a run: the file of a release, or why there is none; and what it had charged by then."""

    state: State
    when: str
    epsilon: float = 0.0
    delta: float = 0.0
    file: str = ""
    error: str = ""
    problem: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class Request:
    """A request with all that happened to it."""

    identity: str
    table: str
    account: str
    who: str
    when: str
    purpose: str
    people: int
    state: State
    versions: tuple[Version, ...]
    decisions: tuple[Decision, ...] = ()
    outcome: Outcome | None = None

    @property
    def newest(self) -> Version:
        """What would be run."""
        return self.versions[-1]

    @property
    def mark(self) -> str:
        """The purpose of the charge of the newest version, which no other charge has. Nothing in it can be edited without losing the approvals."""
        return f"request {self.identity}, version {self.newest.number}"

    @property
    def digest(self) -> str:
        """SHA-256 over what the newest version asks for, of which table, what for, what it costs and how far it would be off; the ledger's entries of decisions have it."""
        version = self.newest
        asked = [
            self.identity,
            self.table,
            self.account,
            self.purpose,
            version.number,
            version.kind,
            {name: list(texts) for name, texts in version.values.items()},
            dict(version.guarantee),
            dict(version.cost),
            version.schema,
            version.table_state,
            [asdict(each) for each in version.expected],
        ]
        return hashlib.sha256(canonical_json(asked).encode()).hexdigest()

    @property
    def approvals(self) -> tuple[Decision, ...]:
        """Who approved the newest version."""
        return tuple(each for each in self.decisions if self._is_about_newest(each) and each.verdict == "approved")

    def _is_about_newest(self, decision: Decision) -> bool:
        return decision.version == self.newest.number

    def to_text(self) -> str:
        """The one text for this request."""
        return canonical_json({"format": FORMAT, **asdict(self)})


def new_request(identity: str, table: str, account: str, purpose: str, people: int, version: Version) -> Request:
    """A request as it is asked."""
    _check_person(version.who)
    _check_sentence("purpose", purpose)
    return Request(identity, table, account, version.who, version.when, purpose, people, "asked", (version,))


def requiring(request: Request, people: int) -> Request:
    """The request where at least so many people must approve: approved by fewer and not running yet, it waits for the others."""
    if people <= request.people:
        return request
    is_short = request.state == "approved" and len(request.approvals) < people
    return replace(request, people=people, state="asked" if is_short else request.state)


def changed(request: Request, version: Version) -> Request:
    """The request with another version, which is to be decided about anew. Raise RequestError once it runs or has ended."""
    _check_person(version.who)
    _check_sentence("reason", version.reason)
    if request.state not in ("asked", "approved"):
        raise _not_now(request, "be changed")
    return replace(
        request, state="asked", versions=(*request.versions, replace(version, number=request.newest.number + 1))
    )


def decided(request: Request, version: int, verdict: Verdict, who: str, when: str, reason: str) -> Request:
    """The request after a decision about a version. Raise RequestError where that is not the newest, or another person has to decide.

    It is approved once as many people as it needs have approved the newest version; where that is more than one, not by the one who asks
    or who made that version.
    """
    _check_person(who)
    _check_sentence("reason", reason)
    if version != request.newest.number:
        raise RequestError(
            f"Request {request.identity} was changed: its version is {request.newest.number}, not {version}.",
            "Look at the new version first.",
        )
    if request.state != "asked" and not (request.state == "approved" and verdict == "denied"):
        raise _not_now(request, f"be {verdict}")
    if verdict == "approved" and (fault := approval_fault(request, who)) is not None:
        raise fault
    made = replace(request, decisions=(*request.decisions, Decision(version, verdict, who, when, reason)))
    if verdict == "denied":
        return replace(made, state="denied")
    return replace(made, state="approved" if len(made.approvals) >= request.people else "asked")


def begun(request: Request) -> Request:
    """The request while it runs, for the first time or again. Raise RequestError unless it was approved.

    One that failed may be run again: what it has charged by then it goes on with, and is not charged twice.
    """
    if request.state not in ("approved", "running", "failed"):
        raise _not_now(request, "be run")
    return replace(request, state="running", outcome=None)


def ended(request: Request, outcome: Outcome) -> Request:
    """The request after its run. Raise RequestError unless it was running."""
    if request.state != "running":
        raise _not_now(request, "end")
    return replace(request, state=outcome.state, outcome=outcome)


def parsed_request(text: str | bytes, identity: str) -> Request:
    """The request of this name that `to_text` wrote. Raise RequestError for anything else."""
    try:
        values = parsed_json(text)
        if values.pop("format") != FORMAT:
            raise ValueError("another format")
        values["versions"] = tuple(map(_parsed_version, values["versions"]))
        values["decisions"] = tuple(Decision(**each) for each in values["decisions"])
        values["outcome"] = None if values["outcome"] is None else Outcome(**values["outcome"])
        request = Request(**values)
        _check_fields(request, *request.versions, *request.decisions)
        expected = [each for version in request.versions for each in version.expected]
        _check_fields(*expected)
        for each in expected:
            each.said()
        if request.outcome is not None:
            _check_fields(request.outcome)
        Guarantee.from_dict(request.newest.guarantee)
        Cost.from_dict(request.newest.cost)
        is_request = request.identity == identity and request.versions != ()
    except (NotParsed, ValueError, KeyError, TypeError, AttributeError, IndexError):
        is_request = False
    if not is_request:
        raise RequestError("A request in the folder of requests cannot be read.", "Restore it from a backup.")
    return request


def _check_fields(*parts: Request | Version | ExpectedError | Decision | Outcome) -> None:
    """Raise ValueError where a field holds a value of another type than its own, or a kind is none that can be asked for."""
    for part in parts:
        if not all(_FITS[each.type](getattr(part, each.name)) for each in fields(part) if each.type in _FITS):
            raise ValueError
        if isinstance(part, Version) and part.kind not in KINDS:
            raise ValueError


def _is_amount(value: object) -> bool:
    return type(value) in (int, float) and value >= 0  # type: ignore[operator]


def _are_values(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(texts, list) and all(isinstance(text, str) for text in texts) for texts in value.values()
    )


# By the type that a field is declared with; fields of other types are checked by whoever parses them.
_FITS: Final[Mapping[Any, Callable[[Any], bool]]] = {
    "str": lambda value: isinstance(value, str),
    "int": lambda value: type(value) is int and value >= 1,
    "float": _is_amount,
    "float | None": lambda value: value is None or _is_amount(value),
    "Verdict": lambda value: value in ("approved", "denied"),
    "State": lambda value: value in _STATES,
    "Values": _are_values,
    "bool": lambda value: isinstance(value, bool),
    "Mapping[str, str]": lambda value: (
        isinstance(value, dict) and all(isinstance(each, str) for each in value.values())
    ),
}


def _parsed_version(values: dict[str, Any]) -> Version:
    return Version(**{**values, "expected": tuple(ExpectedError(**each) for each in values["expected"])})


def approval_fault(request: Request, who: str) -> RequestError | None:
    """Why this person may not approve the newest version; None where nothing is against it."""
    if request.people > 1 and who == request.who:
        return RequestError("Who asks may not approve where two people are required.", "Have two others approve it.")
    if request.people > 1 and who == request.newest.who:
        return RequestError(
            "Who changed a request may not approve that version where two people are required.",
            "Have two others approve it.",
        )
    if any(each.who == who for each in request.approvals):
        return RequestError(
            f"You have approved request {request.identity} already; another person is required.",
            "Have another steward look at it.",
        )
    return None


def _not_now(request: Request, act: str) -> RequestError:
    return RequestError(
        f"Request {request.identity} is {request.state} and cannot {act}.", "Look at it again: somebody was faster."
    )


def _check_person(who: str) -> None:
    fault = name_fault(who)
    if fault is not None:
        raise InvalidParameter(f"The name of a person {fault}.", "Use plain text, such as 'sato'.")


def _check_sentence(what: Literal["purpose", "reason"], text: str) -> None:
    fault = "is empty" if isinstance(text, str) and not text.strip() else text_fault(text, LONGEST_REASON)
    if fault is not None:
        problem = f"The purpose {fault}." if what == "purpose" else f"The reason {fault}."
        raise InvalidParameter(problem, "Say it in a sentence; it stays in the ledger.")
