"""A city asks its households: every answer is perturbed before it leaves, and the city still sees the distributions."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from sudare.privacy import Ledger, Release
from sudare.records import CategoricalReconstruction, PerturbedTable, RecordPerturbation
from sudare.records.reconstruct import Reconstruction
from sudare.report import Part, Table, compared_bars, picture
from sudare.report.card import card_of
from sudare.report.distributions import shaded_densities
from sudare.report.numbers import nearest
from sudare.report.plots import Panel
from sudare.schema import Category, Number, Schema
from sudare.studies.scenarios.scene import Line, Scene, Tell

Floats = NDArray[np.float64]

HOUSEHOLDS: Final = 100_000
K: Final = 2
# Shares of ε: a category needs less of it than a number.
SPLIT: Final = {"age": 0.4, "commute": 0.45, "district": 0.15}
DISTRICTS: Final = ("harbour", "hill", "river", "station")
SCHEMA: Final = Schema(
    {
        "age": Number(16.0, 96.0, unit="years"),
        "commute": Number(0.0, 120.0, unit="minutes"),
        "district": Category(DISTRICTS),
    }
)
NUMBERS: Final = {"age": (np.linspace(16, 96, 33), "years"), "commute": (np.linspace(0, 120, 31), "minutes")}
_SHARES: Final = (0.4, 0.15, 0.25, 0.2)
SEED: Final = 4


def play(folder: Path, tell: Tell) -> Scene:
    """Ask, perturb, release, reconstruct."""
    tell("a hundred thousand households answer")
    answers = _answers(np.random.default_rng(SEED))
    source = folder / "answers.parquet"
    answers.to_parquet(source)
    ledger = Ledger(folder / "ledger.db")
    perturbation = RecordPerturbation(
        SCHEMA, k=K, split=SPLIT, account=ledger.account("households", epsilon=6.0, source=source)
    ).fit(str(source))
    key = Ed25519PrivateKey.generate()
    file = folder / "census.sudare"
    Release.of(perturbation).save(file, key=key)
    tell("the city reconstructs distributions from the perturbed answers")
    release = Release.load(file, trusted=[key.public_key()])
    table: PerturbedTable = release.model().table_
    pictures, rows = [], []
    for name, (edges, unit) in NUMBERS.items():
        found = Reconstruction(table.perturbations[name]).fit(table.column(name)).distribution_  # type: ignore[arg-type]
        true, seen = (_shares(np.asarray(column), edges) for column in (answers[name], table.column(name)))
        made = found.histogram(edges)
        band = found.band(edges)
        pictures.append(
            shaded_densities(
                edges,
                {"true (demo only)": true, "perturbed": seen, "reconstructed": made},
                None if band.low is None or band.high is None else (band.low, band.high),
                x_label=f"{name}, {unit}",
                y_label="share of households",
            )
        )
        rows.append(
            (
                name,
                nearest(100 * _agreement(true, seen), 3),
                nearest(100 * _agreement(true, made), 3),
                nearest(float(answers[name].mean()), 3),
                nearest(found.mean(), 3),
            )
        )
    districts, district_row = _districts(table, answers)
    rows.append(district_row)
    statement = table.statement()
    line = Line(
        "a city's census",
        f"{HOUSEHOLDS:,} households' answers perturbed before they left (k = {K}); reconstructed distributions agree with the true ones by "
        f"{' / '.join(row[2] for row in rows)} percent",
    )
    parts = [
        Part(
            title="A census without anybody's answers",
            result=f"The city never saw a true answer, and still knows how old its people are, how far they travel and where they live: agreement of "
            f"{', '.join(f'{row[2]} percent for {row[0]}' for row in rows)}.",
            blocks=[
                picture(pictures, "Densities of age and commute: true, perturbed and reconstructed, with a band."),
                picture([districts], "Bars of four districts: true and reconstructed shares."),
                Table(
                    ("column", "perturbed agrees, %", "reconstructed agrees, %", "true mean", "reconstructed mean"),
                    rows,
                    caption="Agreement is 100 minus half the summed absolute differences between shares",
                ),
            ],
            how_to_read=[
                "The grey curve is what left the households: each answer was moved by noise as wide as the whole range allows. The blue curve is computed from it alone. "
                "The dashed curve is the truth, which only this page can show, because its households are made up.",
                "The band is where the truth lies nine times in ten, bin by bin; where it could not be calibrated none is drawn.",
            ],
        ),
        _promise_part(release, list(statement.lines)),
    ]
    return Scene(
        [line], parts, ["The census' households are made up, always the same ones; the noise is new each time."]
    )


def _answers(generator: np.random.Generator) -> pd.DataFrame:
    """Made-up households: students, families and pensioners; many work at home."""
    kind = generator.choice(3, HOUSEHOLDS, p=(0.25, 0.5, 0.25))
    age = generator.normal(np.array([24.0, 42.0, 70.0])[kind], np.array([4.0, 9.0, 8.0])[kind])
    commute = generator.gamma(3.0, 12.0, HOUSEHOLDS)
    return pd.DataFrame(
        {
            "age": np.clip(age, 16, 96),
            "commute": np.clip(np.where(generator.random(HOUSEHOLDS) < 0.2, 0.0, commute), 0, 120),
            "district": generator.choice(DISTRICTS, HOUSEHOLDS, p=_SHARES),
        }
    )


def _shares(values: Floats, edges: Floats) -> Floats:
    """Shares of the bins; what noise has moved out of the range is in none."""
    return np.histogram(values, edges)[0] / len(values)


def _agreement(true: Floats, other: Floats) -> float:
    return float(1 - np.abs(true - other).sum() / 2)


def _districts(table: PerturbedTable, answers: pd.DataFrame) -> tuple[Panel, tuple[str, str, str, str, str]]:
    perturbation = table.perturbations["district"]
    seen = table.column("district")
    found = CategoricalReconstruction(perturbation).fit(seen)  # type: ignore[arg-type]
    true = np.array([float(np.mean(answers["district"] == name)) for name in DISTRICTS])
    raw = np.array([float(np.mean(seen == name)) for name in DISTRICTS])
    made = np.asarray(found.probabilities_)
    panel = compared_bars(
        DISTRICTS,
        true.tolist(),
        made.tolist(),
        names=("true (demo only)", "reconstructed"),
        x_label="district",
        y_label="share of households",
    )
    row = ("district", nearest(100 * _agreement(true, raw), 3), nearest(100 * _agreement(true, made), 3), "–", "–")
    return panel, row


def _promise_part(release: Release, lines: list[str]) -> Part:
    sizes = {name: int(tensor.size) for name, tensor in release.content.tensors.items()}
    card = card_of(release.manifest(), sizes, signature="trusted", signed_by=release.signed_by, digest=release.digest)
    return Part(
        title="What a household was promised",
        result="Nobody can link a row of the released table to a household with more than an even chance; what that means is said in three ways, which belong together.",
        blocks=[card, Table(("the promise",), [(line,) for line in lines])],
        how_to_read=[
            "The promise about linking needs the rows' order to be lost, which perturbing does. The local promise holds for every single answer even towards whoever sees it "
            "arrive; for k = 2 among a hundred thousand it is weak on its own.",
        ],
    )
