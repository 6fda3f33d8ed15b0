"""Ten small hospitals publish private models of breast cancer, exchange the files, and each combines what it got."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer

from sudare.demo.scenario_output import ResultLine, Scene, Tell
from sudare.errors import AuditFailed, NotReleasable
from sudare.experts import OwnPlusConsensus
from sudare.experts.own_plus_consensus import Consensus, own_plus_consensus
from sudare.linear import PrivateLogisticRegression
from sudare.privacy import Account, Ledger, Release
from sudare.report import PageTable, Part, TerminalLines, paired_points, picture
from sudare.report.number_formatting import nearest, rounded_up
from sudare.report.privacy_card import how_to_read_epsilon
from sudare.schema import Label, Number, Schema, encode

NAMES: Final = ("Akane", "Birch", "Cedar", "Dune", "Elm", "Fjord", "Grove", "Heath", "Iris", "Juniper")
PATIENTS: Final = 12
SEED_OF_THE_SPLIT: Final = 2015
BUDGET_EPSILON, MODEL_EPSILON = 3.0, 2.0
LABEL: Final = "malignant"
# Column of the data set with centre and scale: its rounded mean and deviation, which stand for public knowledge here.
# Values further than 1.5 scales off are cut.
MEASUREMENTS: Final = {
    "worst radius": (16.0, 4.8),
    "worst texture": (26.0, 6.1),
    "worst smoothness": (0.13, 0.023),
    "worst concave points": (0.11, 0.066),
}
REACH: Final = 1.5
SCHEMA: Final = Schema(
    {
        **{
            name: Number(centre - REACH * scale, centre + REACH * scale, centre=centre, scale=scale)
            for name, (centre, scale) in MEASUREMENTS.items()
        },
        LABEL: Label((0, 1)),
    }
)


@dataclass(frozen=True)
class Hospital:
    """One member: its patients, its budget, its key."""

    name: str
    table: pd.DataFrame
    account: Account
    key: Ed25519PrivateKey


@dataclass(frozen=True)
class HospitalResult:
    """What a hospital has in the end, measured on patients that none of them has seen."""

    hospital: Hospital
    alone: float
    combined: float


def play(folder: Path, tell: Tell) -> Scene:
    """Publish, exchange, combine."""
    tell("ten hospitals get twelve patients each")
    hospitals, unseen = _hospitals(folder)
    tell("each publishes a private model")
    for hospital in hospitals:
        model = PrivateLogisticRegression(
            MODEL_EPSILON, schema=SCHEMA, method="mean", fit_intercept=False, account=hospital.account
        ).fit(hospital.table)
        Release.of(model).save(folder / f"{hospital.name}.sudare", key=hospital.key)
    tell("each loads the others' models and combines them")
    combined = [_combined(hospital, hospitals, folder) for hospital in hospitals]
    outcomes = [
        HospitalResult(hospital, _alone(hospital.table, unseen), model.score(unseen, unseen[LABEL]))
        for hospital, model in zip(hospitals, combined, strict=True)
    ]
    refusal = _refusal(combined[0])
    alone, together = (float(np.mean([getattr(o, which) for o in outcomes])) for which in ("alone", "combined"))
    spent = max(hospital.account.spent().epsilon for hospital in hospitals)
    line = ResultLine(
        "ten hospitals",
        f"each published a private model (ε = {rounded_up(spent)} of {rounded_up(BUDGET_EPSILON)} spent); "
        f"combined accuracy {nearest(together)} against {nearest(alone)} alone (mean)",
    )
    sent = Release.load(folder / f"{NAMES[0]}.sudare", trusted=[hospitals[0].key.public_key()])
    parts = [_gain_part(outcomes, alone, together, len(unseen)), _sent_part(sent, refusal)]
    note = "The hospitals' patients are from a public data set (breast cancer, Wisconsin), always the same ones; the noise is new each time."
    return Scene([line], parts, [note])


def _hospitals(folder: Path) -> tuple[list[Hospital], pd.DataFrame]:
    """The hospitals, and everybody else's patients to test on, both kinds equally often."""
    bunch: Any = load_breast_cancer(as_frame=True)
    table = bunch.data[list(MEASUREMENTS)].assign(**{LABEL: (bunch.target == 0).astype(int)})
    shuffled = table.sample(frac=1.0, random_state=SEED_OF_THE_SPLIT)
    count = len(NAMES) * PATIENTS
    rest = shuffled.iloc[count:]
    rarest = rest[LABEL].value_counts().min()
    unseen = rest.groupby(LABEL).head(rarest)
    hospitals = []
    for number, name in enumerate(NAMES):
        source = folder / f"{name}.parquet"
        own = shuffled.iloc[number * PATIENTS : (number + 1) * PATIENTS]
        own.to_parquet(source)
        account = Ledger(folder / f"{name}.db").account("patients", epsilon=BUDGET_EPSILON, source=source)
        hospitals.append(Hospital(name, own, account, Ed25519PrivateKey.generate()))
    return hospitals, unseen


def _combined(hospital: Hospital, hospitals: Sequence[Hospital], folder: Path) -> OwnPlusConsensus:
    """A model from the others' files and own patients."""
    others = [
        Release.load(folder / f"{other.name}.sudare", trusted=[other.key.public_key()])
        for other in hospitals
        if other is not hospital
    ]
    return OwnPlusConsensus(others, fit_intercept=False).fit(hospital.table, hospital.table[LABEL])


def _alone(own: pd.DataFrame, unseen: pd.DataFrame) -> float:
    """Accuracy of the same receiver without messages."""
    features = Schema(dict(SCHEMA.features))

    def matrix(table: pd.DataFrame) -> NDArray[np.float64]:
        return encode(features, table, "centred").matrix

    design, signs = matrix(own)[np.newaxis], np.where(own[LABEL] == 1, 1.0, -1.0)[np.newaxis]
    nothing = Consensus(np.zeros((1, design.shape[2])), np.ones(1))
    theta = own_plus_consensus(design, signs, nothing)[0][0]
    return float(np.mean((matrix(unseen) @ theta > 0) == (unseen[LABEL] == 1)))


def _refusal(combined: OwnPlusConsensus) -> str:
    try:
        Release.of(combined)
    except NotReleasable as refusal:
        return f"{type(refusal).__name__}: {refusal}"
    raise AuditFailed("What must not work did: a combined model was released.", "Do not release with this version.")


def _gain_part(outcomes: Sequence[HospitalResult], alone: float, together: float, tested: int) -> Part:
    names = [outcome.hospital.name for outcome in outcomes]
    better = sum(outcome.combined > outcome.alone for outcome in outcomes)
    drawn = paired_points(
        names,
        [100 * outcome.alone for outcome in outcomes],
        [100 * outcome.combined for outcome in outcomes],
        names=("own patients only", "with the others' models"),
        x_label="hospital",
        y_label="right answers, percent",
    )
    rows = [
        (
            outcome.hospital.name,
            str(len(outcome.hospital.table)),
            nearest(100 * outcome.alone),
            nearest(100 * outcome.combined),
            f"{100 * (outcome.combined - outcome.alone):+.1f}",
            f"ε {rounded_up(outcome.hospital.account.spent().epsilon)} of {rounded_up(BUDGET_EPSILON)}",
        )
        for outcome in outcomes
    ]
    alt = (
        f"Points of ten hospitals' percentage of right answers, with own patients only and with the others' models: on average "
        f"{100 * alone:.1f} and {100 * together:.1f} percent."
    )
    return Part(
        title="Ten hospitals learn from each other",
        result=f"With the others' models {better} of ten hospitals tell malignant from benign better than with their own {PATIENTS} patients "
        f"alone: {100 * together:.1f} instead of {100 * alone:.1f} percent right, on average.",
        blocks=[
            picture([drawn], alt),
            PageTable(
                ("hospital", "patients", "alone, %", "combined, %", "gain", "spent"),
                rows,
                "Hospital by hospital",
                folded=True,
            ),
        ],
        how_to_read=[
            f"Every hospital had {PATIENTS} patients and published one model of four numbers, made noisy before anybody saw it. Each then took the other nine "
            "files and its own patients to make a better model. “Alone” is the best it could do without the files, by the same method.",
            f"Percentages are of {tested} patients that no hospital had seen, half of them ill. With other noise, and with so few patients, single hospitals "
            "gain or lose by chance; the average is what to look at.",
            "Few patients and few measurements were chosen for this page because there others' models help. With forty patients and thirty measurements each "
            "the same models add almost nothing: see sudare study 000.",
            how_to_read_epsilon(MODEL_EPSILON),
        ],
    )


def _sent_part(release: Release, refusal: str) -> Part:
    return Part(
        title="What each hospital sent, and what it kept",
        result="A file with four noisy numbers left each hospital; the combined model stays at home.",
        blocks=[
            release.card(),
            TerminalLines([">>> Release.of(combined)", refusal], "What happens when somebody tries to send it"),
        ],
        how_to_read=[
            "The combined model was fitted to the hospital's own patients without noise, so it may know too much about them. The others stay protected in it "
            "by the noise of their own files, whatever is done with them.",
        ],
    )
