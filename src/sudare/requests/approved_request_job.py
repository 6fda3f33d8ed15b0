"""Running an approved request: one charge whatever is killed when, and a file that is whole or not there.

A run that is killed before its charge begins anew; one that is killed after it goes on with the same charge, as long as nothing was computed for
it; one whose release is written already only has to publish it. In between, after the ledger has the digest of a result that is gone, no
release can be made any more: the request is marked as interrupted, with what was spent. Room for the file is held on the disk before the charge;
where it cannot be written all the same, the process that has the result tries again for ten minutes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sudare import errors
from sudare.errors import (
    DataError,
    InvalidParameter,
    LedgerBusy,
    LedgerError,
    NotCharged,
    ReleaseError,
    ReleaseExists,
    RequestError,
    RequestStopped,
    SchemaError,
    SourceUnreadable,
    SudareError,
)
from sudare.files import make_private_folder, remove_folder, space_kept, write_new
from sudare.parsing import parsed_json
from sudare.privacy.ledger import Account
from sudare.privacy.release import Release
from sudare.privacy.release_file import LARGEST_FILE_BYTES
from sudare.requests.price import estimator, is_in_state, now
from sudare.requests.request import Outcome, Request, begun, ended
from sudare.requests.request_account import (
    RequestAccount,
    caught_up,
    charged_amount,
    check_approved,
    has_result,
    permitted_amount,
    receipt_under,
)
from sudare.requests.request_actions import enter
from sudare.requests.request_store import RequestStore
from sudare.requests.steward_settings import AskableTable, RequestSettings

if TYPE_CHECKING:
    from sudare.privacy.private_estimator import PrivateEstimator

Step = Literal["reading", "computing", "signing"]
Tell = Callable[[Step], None]

SUFFIX: Final = ".sudare"
_PIECE_BYTES: Final = 1 << 20
_WAIT_SECONDS, _POLL_SECONDS = 5.0, 0.02
_WRITING_TRIES, _WRITING_SECONDS = 300, 2.0
# Errors of ours that are not about what a table holds.
_NOT_OF_TABLES: Final = frozenset(
    name
    for name, error in vars(errors).items()
    if isinstance(error, type)
    and issubclass(error, SudareError)
    and not issubclass(error, (DataError, SchemaError, InvalidParameter))
)
_NOT_IN_A_NAME: Final = re.compile(r"[^\w-]+")


def run(settings: RequestSettings, identity: str) -> Request:
    """The request after its run: done, failed or interrupted. Raise RequestError where it may not run, or another process runs it."""
    store = settings.store
    store.request(identity)
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        with store.running(identity) as is_alone:
            if is_alone:
                return _run_alone(settings, store, identity)
        # Whoever only looks whether the request is running holds the lock for a moment.
        if time.monotonic() > deadline:
            raise RequestError(f"Request {identity} is run by another process.", "Wait for its end.")
        time.sleep(_POLL_SECONDS)


def _run_alone(settings: RequestSettings, store: RequestStore, identity: str) -> Request:
    request = _begun(settings, identity)
    account = settings.account(settings.table(request.table))
    outcome = _outcome(settings, account, request, lambda step: store.tell_progress(identity, step))
    _enter_end(account, request, outcome)
    with store.changing():
        request = ended(store.request(identity), outcome)
        store.replace(request)
    if outcome.state != "failed":
        remove_folder(store.run_folder(identity))
    return request


def _begun(settings: RequestSettings, identity: str) -> Request:
    """The request, kept as one that runs. What only the ledger has of decisions counts: somebody was killed before it could be kept."""
    store = settings.store
    with store.changing():
        found = store.request(identity)
        request = begun(caught_up(settings.account(settings.table(found.table)), found))
        store.replace(request)
    return request


def _enter_end(account: Account, request: Request, outcome: Outcome) -> None:
    """Enter how a run ended. Raise RequestError where the ledger cannot be written: its own error would say that nothing was charged."""
    try:
        enter(account, request, outcome.state, request.who, _reason(outcome))
    except LedgerError:
        raise RequestError(
            f"The end of the run of request {request.identity} cannot be entered in the ledger. What it has charged stays charged.",
            "Check that the disk has space, and run it again: it is not charged twice.",
        ) from None


def _outcome(settings: RequestSettings, account: Account, request: Request, tell: Tell) -> Outcome:
    """What came of a run. Errors of ours are told in words; of others only the place, since their text may hold private values."""
    kept = settings.store.run_folder(request.identity) / release_name(request)
    error: tuple[str, str, str]
    try:
        check_approved(account, request)
        if not kept.exists():
            model = _learner(settings, account, request, tell)
            if has_result(account, request.mark) and not hasattr(model, "checkpoint"):
                return _without_file(account, request, "interrupted", ("RequestStopped", *_KILLED))
            _save_fitted(settings, request, model, kept, tell)
        _publish(kept, _own_release(settings, account, request, kept), settings.releases_folder)
    except RequestStopped as raised:
        return _without_file(account, request, "interrupted", (type(raised).__name__, raised.problem, raised.remedy))
    except SudareError as raised:
        error = type(raised).__name__, raised.problem, raised.remedy
    except Exception as raised:  # noqa: BLE001 - the text of foreign errors may hold private values
        frame = traceback.extract_tb(raised.__traceback__)[-1]
        place = f"unexpected, in {Path(frame.filename).name} line {frame.lineno}."
        error = type(raised).__name__, place, SudareError.help
    else:
        spent = charged_amount(account, request.mark)
        return Outcome("done", now(), spent.epsilon, spent.delta, file=release_name(request))
    return _without_file(account, request, "failed", error)


_KILLED: Final = (
    "The run was killed after its result was computed and before it was written; the result is gone.",
    "What it cost stays spent. Ask anew.",
)


def _without_file(
    account: Account, request: Request, state: Literal["failed", "interrupted"], error: tuple[str, str, str]
) -> Outcome:
    spent = charged_amount(account, request.mark)
    return Outcome(state, now(), spent.epsilon, spent.delta, "", *error)


def _learner(settings: RequestSettings, account: Account, request: Request, tell: Tell) -> PrivateEstimator:
    """The learner that was approved, with an account that is charged once. Raise an error where schema or table are no longer those that were."""
    table, version = settings.table(request.table), request.newest
    schema = table.schema()
    if schema.digest != version.schema:
        raise SchemaError(
            f"The schema of table '{table.name}' was changed after the request was priced. Nothing was charged.",
            "Ask anew.",
        )
    _check_table(table, request)
    model = estimator(version.kind, schema, version.values)
    permitted = permitted_amount(account, request)
    model.account = RequestAccount(account, request.mark, permitted, lambda: tell("computing"))
    if hasattr(model, "checkpoint"):
        model.checkpoint = settings.store.run_folder(request.identity) / "training"
    return model


def _check_table(table: AskableTable, request: Request) -> None:
    if not table.may_change and not is_in_state(table, request.newest.table_state):
        raise DataError(
            f"Table '{table.name}' was changed after the request was priced. Nothing more was charged.",
            "Ask anew; or have the steward set may_change = true for a table that grows every day.",
        )


def _save_fitted(settings: RequestSettings, request: Request, model: PrivateEstimator, kept: Path, tell: Tell) -> None:
    """Fit, and write the signed release into the run's own folder. All that can go wrong after a charge is looked at before it."""
    key = settings.key()
    make_private_folder(settings.releases_folder)
    # Also what would be written beside it, and links that lead nowhere.
    if any(settings.releases_folder.glob(f"{kept.stem}.*")):
        raise ReleaseExists(f"'{kept.name}' exists already.", ReleaseExists.help)
    table = settings.table(request.table)
    with _room(kept.parent, table, model):
        tell("reading")
        fitted: Any = model
        fitted.fit(table.data())
    tell("signing")
    _write(Release.of(model), kept, key, can_be_repeated=hasattr(model, "checkpoint"))


@contextlib.contextmanager
def _room(folder: Path, table: AskableTable, model: PrivateEstimator) -> Iterator[None]:
    """Hold room on the disk for the largest release, and for rows beside it. Raise RequestError where there is none; how much would tell the table's size."""
    has_rows = model.beside_digest is not None and os.path.isfile(table.source)
    needed = LARGEST_FILE_BYTES + (os.path.getsize(table.source) if has_rows else 0)
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(space_kept(folder, needed))
        except OSError as error:
            raise RequestError(
                f"There is no room for the release ({error.strerror}). Nothing more was charged.",
                "Make room in the folder of requests, and run it again.",
            ) from None
        yield


def _write(release: Release, kept: Path, key: Ed25519PrivateKey, *, can_be_repeated: bool) -> None:
    """Save the release, which only this process has; tried again while disk or ledger cannot be written. Raise RequestStopped where it is lost."""
    for tries_left in reversed(range(_WRITING_TRIES)):
        try:
            release.save(kept, key=key)
        except (ReleaseError, LedgerError) as error:
            if type(error) not in (ReleaseError, LedgerError, LedgerBusy) or (can_be_repeated and not tries_left):
                raise
            if not tries_left:
                raise RequestStopped(
                    f"The result was computed and could not be written: {error.problem} It is gone.",
                    "What it cost stays spent. Make room on the disk, and ask anew.",
                ) from None
            # Rows that were written without their release would be in the way of both.
            for left in kept.parent.glob(f"{kept.stem}.*"):
                left.unlink()
            time.sleep(_WRITING_SECONDS)
        else:
            return


def _own_release(settings: RequestSettings, account: Account, request: Request, kept: Path) -> Release:
    """The release in a run's own folder. Raise RequestError unless it is signed here and is what was charged for this request."""
    key = settings.key().public_key()
    try:
        release = Release.load(kept, trusted=[key])
        is_own = release.receipt == receipt_under(account, request.mark)
        release.check_entered(account.ledger)
    except (ReleaseError, NotCharged, SourceUnreadable):
        is_own = False
    if not is_own:
        raise RequestError(
            f"The file in the folder of request {request.identity} is not the release that was charged for it.",
            "It was not published. Find out who put it there, remove it, and run the request again.",
        )
    return release


def _publish(kept: Path, release: Release, releases: Path) -> None:
    """Put what a run wrote among the releases: the file that the release names first, the release last, each whole, and nothing else."""
    make_private_folder(releases)
    beside = [] if release.beside_digest is None else [_file_of_digest(kept, release.beside_digest)]
    for file in (*beside, kept):
        target = releases / file.name
        try:
            write_new(target, _pieces(file))
        except FileExistsError:
            if not target.is_file() or _digest(target) != _digest(file):
                raise ReleaseExists(f"'{target.name}' exists already.", ReleaseExists.help) from None
        except OSError as error:
            raise RequestError(
                f"The release is computed and kept, and cannot be put into the folder of releases ({error.strerror}).",
                "Make room there or give rights to it, and run it again: it is not charged twice.",
            ) from None


def _file_of_digest(kept: Path, digest: str) -> Path:
    """The file beside a release with this SHA-256. Raise RequestError where there is none."""
    for file in kept.parent.glob(f"{kept.stem}.*"):
        if file != kept and file.is_file() and _digest(file) == digest:
            return file
    raise RequestError(
        "The file that the release names is not beside it as it was written.",
        "Nothing was published. Somebody changed the folder of requests: find out who, and ask anew.",
    )


def _pieces(file: Path) -> Iterator[bytes]:
    with file.open("rb") as stream:
        while piece := stream.read(_PIECE_BYTES):
            yield piece


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def release_name(request: Request) -> str:
    """The name of the file of a request's release."""
    return f"{_NOT_IN_A_NAME.sub('-', request.table)}-{request.identity}{SUFFIX}"


def _reason(outcome: Outcome) -> str:
    """What the entry tells of a run. Not why it failed: that may depend on the table, and entries are exported; nor which error of a table it was."""
    if outcome.state == "done":
        return outcome.file
    return outcome.error if outcome.error in _NOT_OF_TABLES else DataError.__name__


# In a process of its own


def start(settings: RequestSettings, identity: str) -> subprocess.Popen[bytes]:
    """A process that runs the request, whatever becomes of this one. Raise RequestError where it may not run, or cannot be started.

    That it runs is kept first: killed on the way, it is known to be gone on with.
    """
    _begun(settings, identity)
    try:
        with tempfile.TemporaryFile() as asked:
            asked.write(json.dumps({"settings": settings.to_dict(), "request": identity}).encode())
            asked.seek(0)
            return subprocess.Popen(
                # Without -P a file in the page's working folder could stand for a module, and would be run.
                [sys.executable, "-P", "-m", "sudare.requests.approved_request_job"],
                stdin=asked,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
    except OSError as error:
        raise RequestError(
            f"The run of request {identity} cannot be started ({error.strerror}). Nothing more was charged.",
            "Make room in the folder of temporary files, and run it again.",
        ) from None


def resume(settings: RequestSettings) -> dict[str, subprocess.Popen[bytes]]:
    """Start those requests again that were running in a process that is gone; their new processes by name."""
    store = settings.store
    started = {}
    for request in store.requests():
        if store.was_left(request):
            # Whoever looks at it sees that it was left, and is told why when it is started again.
            with contextlib.suppress(SudareError):
                started[request.identity] = start(settings, request.identity)
    return started


def main() -> None:
    """Run the request that standard input names."""
    asked = parsed_json(sys.stdin.read())
    run(RequestSettings.from_dict(asked["settings"]), asked["request"])


if __name__ == "__main__":
    main()
