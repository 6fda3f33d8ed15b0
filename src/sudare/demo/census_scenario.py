"""A city asks its households: every answer is perturbed before it leaves, and the city still sees the distributions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sudare.array_types import Floats
from sudare.demo.scenario_output import ResultLine, Scene, Tell
from sudare.perturbation import PerturbedTable, RecordPerturbation
from sudare.privacy import Ledger, Release
from sudare.reconstruction import CategoricalReconstruction
from sudare.reconstruction.number_reconstruction import Reconstruction
from sudare.reconstruction.plots import histogram_panel
from sudare.report import PageTable, Part, compared_bars, picture
from sudare.report.number_formatting import nearest
from sudare.report.plots import Panel
from sudare.schema import Category, Number, Schema

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


@dataclass(frozen=True)
class Compared:
    """A column as it was, as it left and as it was reconstructed: a picture, and a row of the table."""

    panel: Panel
    row: tuple[str, str, str, str, str]


def play(folder: Path, tell: Tell) -> Scene:
    """Ask, perturb, release, reconstruct."""
    tell("a hundred thousand households answer")
    answers = _answers(np.random.default_rng(SEED))
    release = _released(folder, answers)
    tell("the city reconstructs distributions from the perturbed answers")
    table: PerturbedTable = release.model().table_
    numbers = [_number(table, answers, name) for name in NUMBERS]
    districts = _districts(table, answers)
    rows = [each.row for each in (*numbers, districts)]
    line = ResultLine(
        "a city's census",
        f"{HOUSEHOLDS:,} households' answers perturbed before they left (k = {K}); reconstructed distributions agree with the true ones by "
        f"{' / '.join(row[2] for row in rows)} percent",
    )
    parts = [
        _distributions_part([each.panel for each in numbers], districts.panel, rows),
        _promise_part(release, list(table.statement().lines)),
    ]
    return Scene(
        [line], parts, ["The census' households are made up, always the same ones; the noise is new each time."]
    )


def _released(folder: Path, answers: pd.DataFrame) -> Release:
    """The answers, perturbed and charged, as whoever received the file and trusts its key reads them."""
    source, file, key = folder / "answers.parquet", folder / "census.sudare", Ed25519PrivateKey.generate()
    answers.to_parquet(source)
    account = Ledger(folder / "ledger.db").account("households", epsilon=6.0, source=source)
    perturbation = RecordPerturbation(SCHEMA, k=K, split=SPLIT, account=account).fit(str(source))
    Release.of(perturbation).save(file, key=key)
    return Release.load(file, trusted=[key.public_key()])


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


def _agreements(true: Floats, seen: Floats, made: Floats) -> tuple[str, str]:
    """Of what left and of what was reconstructed with the truth, in percent."""
    return nearest(100 * _agreement(true, seen), 3), nearest(100 * _agreement(true, made), 3)


def _number(table: PerturbedTable, answers: pd.DataFrame, name: str) -> Compared:
    edges, unit = NUMBERS[name]
    found = Reconstruction(table.perturbations[name]).fit(table.column(name)).distribution_
    true, seen = (_shares(np.asarray(column), edges) for column in (answers[name], table.column(name)))
    made = found.histogram(edges)
    panel = histogram_panel(
        found,
        edges,
        original=answers[name],
        perturbed=table.column(name),
        x_label=f"{name}, {unit}",
        title="original: known to this demo only",
    )
    means = nearest(float(answers[name].mean()), 3), nearest(found.mean(), 3)
    return Compared(panel, (name, *_agreements(true, seen, made), *means))


def _districts(table: PerturbedTable, answers: pd.DataFrame) -> Compared:
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
    return Compared(panel, ("district", *_agreements(true, raw, made), "–", "–"))


def _distributions_part(numbers: Sequence[Panel], districts: Panel, rows: Sequence[tuple[str, ...]]) -> Part:
    return Part(
        title="A census without anybody's answers",
        result=f"The city never saw a true answer, and still knows how old its people are, how far they travel and where they live: agreement of "
        f"{', '.join(f'{row[2]} percent for {row[0]}' for row in rows)}.",
        blocks=[
            picture(
                numbers, "Densities of age and commute: true, perturbed and reconstructed, with a band.", columns=2
            ),
            picture([districts], "Bars of four districts: true and reconstructed shares."),
            PageTable(
                ("column", "perturbed", "reconstructed", "true mean", "mean found"),
                rows,
                caption="Agreement with the truth in percent: 100 minus half the summed absolute differences between shares",
                folded=True,
            ),
        ],
        how_to_read=[
            "The grey curve is what left the households: each answer was moved at random, many of them to anywhere in the range. The blue curve is computed from it alone. "
            "The dashed curve is the truth, which only this page can show, because its households are made up.",
            "The band is where the truth lies nine times in ten, bin by bin; where it could not be calibrated none is drawn.",
        ],
    )


def _promise_part(release: Release, lines: list[str]) -> Part:
    return Part(
        title="What a household was promised",
        result="Nobody can link a row of the released table to a household with more than an even chance; what that means is said in three ways, which belong together.",
        blocks=[
            release.card(),
            PageTable(("the promise",), [(line,) for line in lines], "The promise, in three ways", folded=True),
        ],
        how_to_read=[
            "The promise about linking needs the rows' order to be lost, which perturbing does. The local promise holds for every single answer even towards whoever sees it "
            "arrive; for k = 2 among a hundred thousand it is weak on its own.",
        ],
    )
