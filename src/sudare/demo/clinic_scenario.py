"""A clinic tells others how old and how heavy its patients are, and nothing about any one of them."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from sudare.demo.neural_network_scenario import play_network
from sudare.demo.scenario_output import ResultLine, Scene, Tell
from sudare.errors import AuditFailed, SudareError
from sudare.privacy import Account, Ledger, Release
from sudare.report import BudgetBar, PageTable, Part, TerminalLines, compared_bars, picture
from sudare.report.budget_bar import ENTRY_HEADINGS, entry_cells
from sudare.report.number_formatting import nearest, percent_up, rounded_up, whole
from sudare.report.privacy_card import SCALE_TEXT, how_to_read_epsilon
from sudare.schema import Schema
from sudare.statistics import PrivateHistogram, PrivateMean

PATIENTS: Final = 4_000
SEED_OF_THE_TABLE: Final = 2026
BUDGET_EPSILON, BUDGET_DELTA = 3.0, 1e-6
HISTOGRAM_EPSILON, MEAN_EPSILON, REFUSED_EPSILON = 1.0, 0.5, 5.0

SCHEMA: Final = """\
# What everybody may know about such a table. Nothing here was read from it.
[columns.age]
kind = "number"
low = 0
high = 110
bins = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
unit = "years"

[columns.bmi]
kind = "number"
low = 10
high = 60
bins = [18.5, 25, 30, 35]
unit = "kg/m²"

[columns.systolic]
kind = "number"
low = 70
high = 230
unit = "mmHg"

[columns.smoker]
kind = "category"
values = ["no", "yes", "former"]
missing = "no answer"
"""


@dataclass(frozen=True)
class House:
    """Everything the clinic has."""

    folder: Path
    table: pd.DataFrame
    schema: Schema
    ledger: Ledger
    account: Account
    key: Ed25519PrivateKey


@dataclass(frozen=True)
class RefusedAttempt:
    """Something that must not work, and the error that answered it."""

    what: str
    refusal: SudareError

    @property
    def answer(self) -> str:
        """The error's name and its words."""
        return f"{type(self.refusal).__name__}: {self.refusal}"


def play(folder: Path, tell: Tell) -> Scene:
    """The clinic publishes a histogram and means; somebody tries to overspend, to edit and to roll back."""
    tell("a clinic writes down its table and the public facts about it")
    house = _house(folder)
    tell("it releases two statistics")
    histogram = PrivateHistogram(HISTOGRAM_EPSILON, schema=house.schema, account=house.account).fit(house.table)
    counts = _released(house, histogram, "ages.sudare")
    house.ledger.backup(folder / "ledger-before-the-means.db")
    mean = PrivateMean(MEAN_EPSILON, schema=house.schema, account=house.account).fit(house.table)
    means = _released(house, mean, "means.sudare")
    tell("somebody tries what must not work")
    refused, noticed = _refused(house), _noticed(house, counts, means)
    tell("it trains a network")
    network = play_network(folder, house.ledger, house.key)
    tell("drawing")
    off = int(np.abs(counts.model().counts_["age"] - _exact_age_counts(house)).max())
    spent = house.account.spent().epsilon
    lines = [
        ResultLine(
            "one clinic",
            f"told others about {whole(PATIENTS)} patients (ε = {rounded_up(spent)} of {rounded_up(BUDGET_EPSILON)} spent); "
            f"no age group off by more than {off}",
        ),
        ResultLine(
            "refused",
            f"{len(refused)} of {len(refused)}: a request beyond the budget, a result nobody paid for; nothing was spent",
        ),
        ResultLine(
            "noticed",
            f"{len(noticed)} of {len(noticed)}: an edited ledger, an older one put back (two ways to find it), a changed file, a foreign signature",
        ),
        network.line,
    ]
    parts = [
        _ages_part(house, counts, off),
        _means_part(house, means),
        _cost_part(house),
        _refused_part(refused),
        _noticed_part(noticed),
        network.part,
    ]
    notes = [
        "The table is made up (always the same one); the noise is drawn anew from the operating system each time.",
        f"Look at a release yourself: sudare inspect {folder / 'ages.sudare'} --trusted {folder / 'public.pem'}",
    ]
    return Scene(lines, parts, notes)


# The house


def made_up_patients(rows: int) -> pd.DataFrame:
    """A table that looks like one of a clinic; a few values lie outside the declared bounds, as in real life."""
    random = np.random.default_rng(SEED_OF_THE_TABLE)
    young = random.random(rows) < 0.3
    age = np.where(young, random.normal(24, 9, rows), random.normal(63, 14, rows)).clip(0, 104).round()
    bmi = (20 + 0.09 * age - 0.0007 * (age - 55) ** 2 + random.gamma(4, 1.1, rows)).round(1)
    systolic = (104 + 0.45 * age + random.normal(0, 13, rows)).round()
    bmi[:3], systolic[-2:] = 64.2, 240.0
    smoker = random.choice(["no", "yes", "former"], rows, p=[0.58, 0.22, 0.2]).astype(object)
    smoker[random.random(rows) < 0.03] = None
    return pd.DataFrame({"age": age, "bmi": bmi, "systolic": systolic, "smoker": smoker})


def _house(folder: Path) -> House:
    table = made_up_patients(PATIENTS)
    table.to_parquet(folder / "patients.parquet")
    (folder / "patients.toml").write_text(SCHEMA, "utf-8")
    ledger = Ledger(folder / "ledger.db")
    account = ledger.account(
        "patients-2026", epsilon=BUDGET_EPSILON, delta=BUDGET_DELTA, source=folder / "patients.parquet"
    )
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    private_path = folder / "key.pem"
    private_path.touch(mode=0o600)
    private_path.write_bytes(private)
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / "public.pem").write_bytes(public)
    return House(folder, table, Schema.load(folder / "patients.toml"), ledger, account, key)


def _released(house: House, model: Any, name: str) -> Release:
    """What the receiver has after the file was written, sent and loaded with the clinic's public key."""
    Release.of(model).save(house.folder / name, key=house.key)
    return Release.load(house.folder / name, trusted=[house.key.public_key()])


# What must not work


def _attempt(what: str, act: Callable[[], object]) -> RefusedAttempt:
    try:
        act()
    except SudareError as refusal:
        return RefusedAttempt(what, refusal)
    raise AuditFailed(f"What must not work did: {what}.", "Do not release with this version; please report it.")


def _refused(house: House) -> list[RefusedAttempt]:
    """Requests that the door turns away."""
    greedy = PrivateMean(REFUSED_EPSILON, schema=house.schema, account=house.account)
    unpaid = PrivateMean(MEAN_EPSILON, schema=house.schema).fit(house.table)
    return [
        _attempt(
            f"PrivateMean(epsilon={REFUSED_EPSILON}, schema=schema, account=account).fit(table)",
            lambda: greedy.fit(house.table),
        ),
        _attempt("Release.of(PrivateMean(epsilon=0.5, schema=schema).fit(table))", lambda: Release.of(unpaid)),
    ]


def _noticed(house: House, counts: Release, means: Release) -> list[RefusedAttempt]:
    """Changes after the fact, each made to a copy."""
    folder, head = house.folder, house.ledger.head()
    shutil.copy(folder / "ledger.db", folder / "edited.db")
    _make_cheaper(folder / "edited.db", counts.receipt.position)
    older = Ledger(folder / "ledger-before-the-means.db")
    altered = bytearray((folder / "ages.sudare").read_bytes())
    altered[-8] ^= 1
    (folder / "altered.sudare").write_bytes(altered)
    foreign = Ed25519PrivateKey.generate().public_key()
    return [
        _attempt("an entry of the ledger edited to look cheaper", Ledger(folder / "edited.db").verify),
        _attempt("an older copy of the ledger put back, found by the noted head", lambda: older.verify([head])),
        _attempt("the same, found by the receipt inside a release", lambda: older.verify([means.receipt])),
        _attempt(
            "one bit of a release changed",
            lambda: Release.load(folder / "altered.sudare", trusted=[house.key.public_key()]),
        ),
        _attempt(
            "a release signed by somebody the reader does not trust",
            lambda: Release.load(folder / "ages.sudare", trusted=[foreign]),
        ),
    ]


def _make_cheaper(path: Path, position: int) -> None:
    """What somebody with the file and a database tool could do."""
    with closing(sqlite3.connect(path)) as connection, connection:
        cheaper = """UPDATE entries SET body = replace(body, '"epsilon":"1"', '"epsilon":"1/10"') WHERE position = ?"""
        connection.execute(cheaper, (position,))


# What the page says


def _exact_age_counts(house: House) -> np.ndarray[Any, np.dtype[np.int64]]:
    edges = [0, *range(10, 101, 10), 110]
    return np.histogram(house.table["age"], edges)[0]


def _ages_part(house: House, counts: Release, off: int) -> Part:
    released = counts.model().counts_["age"]
    exact = _exact_age_counts(house)
    labels = [f"{start}s" for start in range(0, 100, 10)] + ["100+"]
    drawn = compared_bars(
        labels,
        exact.tolist(),
        released.tolist(),
        names=("in the clinic's own table", "what everybody can see"),
        x_label="age in decades",
        y_label="patients",
    )
    alt = (
        f"Bars of the number of patients in eleven age groups, once as in the clinic's table and once as published; "
        f"the two differ by at most {off} of {whole(PATIENTS)} patients."
    )
    return Part(
        title="What others see",
        result=f"Everybody may now know how old this clinic's {whole(PATIENTS)} patients are, "
        "and still nobody can tell much about any one of them.",
        blocks=[picture([drawn], alt), counts.card()],
        how_to_read=[
            f"The hatched bars never left the clinic. The blue bars did: each was moved by a random amount before anybody saw it, here by at most {off} "
            "patients, so that it would look much the same if any one patient were of another age.",
            how_to_read_epsilon(HISTOGRAM_EPSILON),
            f"How strong is that? On sudare's public scale: {SCALE_TEXT}.",
        ],
    )


def _means_part(house: House, means: Release) -> Part:
    model = means.model()
    columns = list(model.declared_.features.items())
    exact = [float(house.table[name].clip(facts.low, facts.high).mean()) for name, facts in columns]
    rows = [
        (name, facts.unit or "", nearest(own), nearest(float(shown)), nearest(abs(own - float(shown)), 2))
        for (name, facts), own, shown in zip(columns, exact, model.mean_, strict=True)
    ]
    return Part(
        title="Averages",
        result="The published averages are close to the true ones, because averages over many people hide each of them well.",
        blocks=[PageTable(("column", "unit", "own table", "published", "off by"), rows), means.card()],
        how_to_read=[
            "The column “own table” is shown here because the data are made up. A real report for others would not have it: the difference to the exact "
            "average is exactly what must not be known.",
            "A few values lay outside what the schema declares possible. They were counted as the nearest possible value; how many they were is told to "
            "the clinic only.",
        ],
    )


def _cost_part(house: House) -> Part:
    account = house.account
    entries = account.entries()
    bar = BudgetBar.from_terms(account.name, account.terms.to_dict(), account.spent(), len(entries))
    return Part(
        title="What it cost",
        result=f"{percent_up(bar.share)} of what may ever be told about these patients has been told; the rest is still there.",
        blocks=[
            bar,
            PageTable(
                ENTRY_HEADINGS,
                [entry_cells(entry.to_dict()) for entry in entries],
                "The ledger, line by line",
                folded=True,
            ),
        ],
        how_to_read=[
            "Each time something is told about the patients, a little can be learned about each of them, and these amounts add up. The clinic's steward "
            f"decided beforehand how much that may be in total: ε = {rounded_up(BUDGET_EPSILON)}. A “charge” is written before anything is computed, a “release” "
            "when a file is written.",
            "If the computer fails after a charge, the amount counts as spent although nothing was told. The other way round cannot happen.",
        ],
    )


def _refused_part(refused: Sequence[RefusedAttempt]) -> Part:
    lines = [line for attempt in refused for line in (f">>> {attempt.what}", attempt.answer, "")]
    return Part(
        title="What was refused",
        result="Asking for more than is left is turned down before anything is computed, and so is sending what nobody paid for.",
        blocks=[TerminalLines(lines[:-1], "What was typed, and the answers")],
        how_to_read=[
            "Lines that begin with >>> were typed; below each stands the answer, word for word. Every answer says what was wrong and what to do about it.",
        ],
    )


def _noticed_part(noticed: Sequence[RefusedAttempt]) -> Part:
    return Part(
        title="What was noticed",
        result="Whoever edits the books afterwards, puts old books back, or changes a file on its way is found out.",
        blocks=[
            PageTable(
                ("done", "answer"),
                [(attempt.what, attempt.answer) for attempt in noticed],
                "What was done, and the answers",
                folded=True,
            )
        ],
        how_to_read=[
            "Every line of the ledger carries a fingerprint of the line before it, so that an edit breaks the chain. An older copy is a whole chain, only shorter; "
            "it is found because a noted head (sudare budget head) and the receipts inside releases name lines it lacks.",
        ],
    )
