"""What tests of the ledger share: a quick folder, a ledger with some of everything in it, and shorter calls."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sudare.privacy import ledger as ledger_room
from sudare.privacy import ledger_tables as tables
from sudare.privacy.accounting import approximate_cost, gaussian_cost, pure_cost
from sudare.privacy.guarantee import Guarantee
from sudare.privacy.ledger import Account, Charged, Ledger
from sudare.privacy.ledger_chain import Receipt, next_entry
from sudare.privacy.ledger_storage import Storage

# The identity and the first entry of a ledger.
LEDGER = "1" * 32
FIRST = next_entry(None, "now", "", "ledger", {"ledger": LEDGER})

_MEMORY = Path("/dev/shm")


def fork() -> int:
    """`os.fork`, without warnings of threads that other tests started: the child uses none and leaves by `os._exit`."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*\bfork\(\)")
        return os.fork()


@contextlib.contextmanager
def quick_folder() -> Iterator[Path]:
    """A folder in memory where there is such a thing: waiting for disks is for the tests that need one."""
    place = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place, prefix="sudare-test-") as folder:
        yield Path(folder)


def started_storage(folder: Path) -> Storage:
    """The storage of a ledger with its first entry."""
    created = Storage(folder / "ledger.db", 60.0)
    created.create_file_if_absent()
    with created.transaction() as connection:
        tables.create_tables_if_absent(connection)
        tables.start(connection, LEDGER, FIRST)
    return created


def charge(account: Account, epsilon: float, delta: float = 0.0, **changes: Any) -> Charged:
    """A pure or approximate charge with the guarantee that goes with it."""
    cost = approximate_cost(epsilon, delta) if delta else pure_cost(epsilon)
    return account.charge(Guarantee(epsilon, delta, **changes), cost, "a test")


def charge_gaussian(account: Account, epsilon: float, delta: float) -> Charged:
    """A Gaussian charge."""
    return account.charge(Guarantee(epsilon, delta), gaussian_cost(epsilon, delta), "a test")


def compute(ledger: Ledger, receipt: Receipt, content: str) -> None:
    """Enter a result for a charge, as a learner does at the end of its fit."""
    promised = ledger.promised(receipt)
    assert promised is not None
    ledger._enter_result(receipt, promised, ledger_room.Result("PrivateMean", content, "5" * 64))


def release(ledger: Ledger, receipt: Receipt, content: str) -> None:
    """Enter a result for a charge, and that it leaves."""
    compute(ledger, receipt, content)
    ledger.enter_release(receipt, content)


def busy_ledger(path: Path) -> tuple[Ledger, list[Receipt]]:
    """A ledger with two accounts and an entry of every kind, and the receipts it gave out."""
    ledger = Ledger(path)
    patients = ledger.account("patients", epsilon=3.0, delta=1e-6)
    visits = ledger.account("visits", epsilon=1.0, delta=1e-6, composition="gaussian", reserved_delta=1e-7)
    receipts = [
        charge(patients, 1.0).receipt,
        charge_gaussian(visits, 0.1, 1e-7).receipt,
        patients.disclose("sums", towards="the members", numbers=7, purpose="a sum"),
        charge(patients, 0.5, 1e-7).receipt,
    ]
    release(ledger, receipts[0], "c" * 64)
    ledger.raise_budget("patients", epsilon=4.0, reason="a second study")
    return ledger, receipts


@contextlib.contextmanager
def edited(path: Path) -> Iterator[sqlite3.Connection]:
    """A plain connection to a ledger's file, as somebody without sudare would open it."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        yield connection
        connection.commit()


# PostgreSQL


@contextlib.contextmanager
def postgresql_server() -> Iterator[str]:
    """The address of a PostgreSQL server that runs meanwhile, without a database's name; the test is skipped where there is no program.

    A server refuses to run as root. It runs as `nobody` then, in a private folder of its own: no user is created, no mode of any
    other folder is changed, and nothing is left. The programs are those of the package `pgserver`, whose own way of starting them does both.
    """
    programs = _postgresql_programs()
    if programs is None:
        pytest.skip("pgserver not installed")
    user = _server_user()
    with _server_folder(user) as folder:
        if not _succeeds(user, folder, programs / "initdb", "--version"):
            programs = _copied_programs(programs, folder)
        data = str(folder / "data")
        options = ("-U", "postgres", "--auth=trust", "--no-sync", "-E", "UTF8")
        _as_user(user, folder, programs / "initdb", "-D", data, *options)
        # No power cut is tested here, and syncing is most of what starting and stopping takes.
        settings = ("-c", "listen_addresses=", "-c", f"unix_socket_directories={folder}", "-c", "fsync=off")
        command = [programs / "postgres", "-D", data, *settings]
        # A child of this process and no daemon, so that nothing is left of it, whoever reaps orphans on this machine.
        with subprocess.Popen(command, **_options(user, folder)) as running:
            try:
                _wait_until_ready(user, folder, programs, running)
                yield f"postgresql://postgres@/postgres?host={folder}"
            finally:
                running.send_signal(signal.SIGINT)


def _wait_until_ready(
    user: pwd.struct_passwd | None, folder: Path, programs: Path, running: subprocess.Popen[bytes]
) -> None:
    while running.poll() is None:
        with contextlib.suppress(subprocess.CalledProcessError):
            _as_user(user, folder, programs / "pg_isready", "-q", "-h", str(folder))
            return
        threading.Event().wait(0.02)
    raise RuntimeError(f"the server ended with {running.returncode} before it was ready")


def _postgresql_programs() -> Path | None:
    """Where initdb and pg_ctl are. The package is looked for, not imported: importing it makes folders."""
    found = importlib.util.find_spec("pgserver")
    places = [Path(place) / "pginstall" / "bin" for place in (found.submodule_search_locations or [] if found else [])]
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").is_file()), None)


def _copied_programs(programs: Path, folder: Path) -> Path:
    """A copy of pgserver's programs, which are where this user may not look, with the libraries that they find beside their package."""
    package = programs.parents[1]
    for part in (package, package.with_name("pgserver.libs")):
        if part.is_dir():
            shutil.copytree(part, folder / "program" / part.name, symlinks=True)
    return folder / "program" / programs.relative_to(package.parent)


def _server_user() -> pwd.struct_passwd | None:
    """Who the server runs as: None for whoever runs the tests, unless that is root."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


@contextlib.contextmanager
def _server_folder(user: pwd.struct_passwd | None) -> Iterator[Path]:
    """A private folder that the user can reach, with a path that is short enough for a socket's name."""
    for place in dict.fromkeys([tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"]):
        with tempfile.TemporaryDirectory(dir=place, prefix="sudare-postgresql-") as name:
            folder = Path(name)
            if user is not None:
                os.chown(folder, user.pw_uid, user.pw_gid)
            if len(name) < 80 and _succeeds(user, folder, Path("/bin/sh"), "-c", 'cd "$1" && test -w .', "sh", name):
                yield folder
                return
    raise RuntimeError(f"no folder for temporary files can be reached by {user.pw_name if user else 'this user'}")


def _succeeds(user: pwd.struct_passwd | None, folder: Path, program: Path, *words: str) -> bool:
    try:
        _as_user(user, folder, program, *words)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def _as_user(user: pwd.struct_passwd | None, folder: Path, program: Path, *words: str) -> None:
    subprocess.run([program, *words], check=True, timeout=120, **_options(user, folder))


def _options(user: pwd.struct_passwd | None, folder: Path) -> dict[str, Any]:
    """Of a process without rights, without a terminal, and without anything of this one's environment."""
    dropped: dict[str, Any] = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    environment = {"PATH": os.defpath, "LC_ALL": "C", "HOME": str(folder)}
    return {**dropped, **quiet, "cwd": folder, "env": environment}
