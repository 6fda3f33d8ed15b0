"""The clinic hands a trained network to a doctor's practice, which uses it on patients that nobody else has seen."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sudare.demo.scenario_output import ResultLine
from sudare.neural import PrivateMLPClassifier
from sudare.privacy import Ledger, Release
from sudare.report import PageTable, Part, compared_bars, picture
from sudare.report.number_formatting import nearest, rounded_up, whole
from sudare.report.privacy_card import how_to_read_epsilon
from sudare.schema import Category, Label, Number, Schema

SCREENED, VISITORS = 6_000, 2_000
SEED_OF_THE_TABLES: Final = 2016
BUDGET_EPSILON, BUDGET_DELTA = 3.0, 1e-5
NETWORK_EPSILON, NETWORK_DELTA = 1.0, 1e-6
HIDDEN: Final = (16, 16)
LABEL: Final = "call back"
SCHEMA: Final = Schema(
    {
        "age": Number(0, 110, bins=(20, 30, 40, 50, 60, 70, 80), unit="years"),
        "bmi": Number(10, 60, bins=(18.5, 25, 30, 35), unit="kg/m²"),
        "systolic": Number(70, 230, bins=(110, 125, 140, 155, 170), unit="mmHg"),
        "smoker": Category(("no", "yes", "former")),
        LABEL: Label(("no", "yes")),
    }
)


class NetworkScene(NamedTuple):
    """What the network adds to the clinic's scene."""

    line: ResultLine
    part: Part


def play_network(folder: Path, ledger: Ledger, key: Ed25519PrivateKey) -> NetworkScene:
    """Train, release, load and use."""
    screened, visitors = made_up_screening(SCREENED, 0), made_up_screening(VISITORS, 1)
    source = folder / "screening.parquet"
    screened.to_parquet(source)
    account = ledger.account("screening-2026", epsilon=BUDGET_EPSILON, delta=BUDGET_DELTA, source=source)
    network = PrivateMLPClassifier(
        hidden_layer_sizes=HIDDEN, epsilon=NETWORK_EPSILON, delta=NETWORK_DELTA, schema=SCHEMA, account=account
    ).fit(screened)
    Release.of(network).save(folder / "network.sudare", key=key)
    received = Release.load(folder / "network.sudare", trusted=[key.public_key()])
    answers = received.model().predict(visitors)
    right = float(np.mean(answers == visitors[LABEL]))
    usual = float(np.mean(visitors[LABEL] == "no"))
    line = ResultLine(
        "its network",
        f"learned from {whole(SCREENED)} people (ε = {rounded_up(NETWORK_EPSILON)} of {rounded_up(BUDGET_EPSILON)} spent) is right for "
        f"{nearest(100 * right)} % of a practice's patients; always answering “no” for {nearest(100 * usual)} %",
    )
    return NetworkScene(line, _part(received, visitors, answers, right, usual))


def made_up_screening(rows: int, which: int) -> pd.DataFrame:
    """People who are called back for reasons that add up to no straight line: heavy and old, or smoking with high pressure."""
    random = np.random.default_rng((SEED_OF_THE_TABLES, which))
    age = random.normal(52, 18, rows).clip(0, 104).round()
    bmi = (19 + 0.07 * age + random.gamma(4, 1.3, rows)).round(1)
    systolic = (104 + 0.45 * age + random.normal(0, 15, rows)).round()
    smoker = random.choice(["no", "yes", "former"], rows, p=[0.58, 0.24, 0.18])
    reason = ((age >= 60) & (bmi >= 30)) | ((smoker == "yes") & (systolic >= 125))
    called = np.where(random.random(rows) < 0.05, ~reason, reason)
    return pd.DataFrame(
        {"age": age, "bmi": bmi, "systolic": systolic, "smoker": smoker, LABEL: np.where(called, "yes", "no")}
    )


def _part(received: Release, visitors: pd.DataFrame, answers: np.ndarray, right: float, usual: float) -> Part:
    decades = (visitors["age"] // 10).clip(2, 8).astype(int)
    groups = sorted(decades.unique())
    truth = [100 * float(np.mean(visitors[LABEL][decades == group] == "yes")) for group in groups]
    told = [100 * float(np.mean(answers[decades == group] == "yes")) for group in groups]
    drawn = compared_bars(
        ["below 30", *(f"{10 * group}s" for group in groups[1:-1]), "80+"],
        truth,
        told,
        names=("called back", "called back by the network"),
        x_label="age in decades",
        y_label="percent",
    )
    return Part(
        title="A network for the practice next door",
        result=f"A doctor who has never seen the clinic's patients can ask its network whom to call back: it is right for {nearest(100 * right)} percent.",
        blocks=[
            picture(
                [drawn],
                f"Bars of the percentage called back by age, in truth and by the network; it is right for {nearest(100 * right)} percent of {whole(len(visitors))} patients.",
            ),
            PageTable(
                ("", "right, %"),
                [("the network", nearest(100 * right)), ("always the more frequent answer", nearest(100 * usual))],
            ),
            received.card(),
        ],
        how_to_read=[
            f"The network was trained on {whole(SCREENED)} people. In every step each of them pulled a little, no one by more than a fixed length, and noise was added to the sum, so that the "
            "network would be much the same without any one of them.",
            how_to_read_epsilon(NETWORK_EPSILON),
            "The card says “whole-numbered noise”: it is added to whole numbers, and how far its law is from the ideal one is counted in δ. Gradients are multiplied in ordinary computer numbers, with room for their rounding.",
        ],
    )
