"""Five factories with the same kind of machine learn one dictionary of its ways of running, and each gets an alarm of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from sudare.demo.scenario_output import ResultLine, Scene, Tell
from sudare.dictionary import PatternDictionary
from sudare.dictionary.member_model import MemberModel, worst_columns
from sudare.privacy import Account, Ledger
from sudare.report import (
    FoldedPicture,
    PageTable,
    Part,
    curves,
    dependency_graph,
    picture,
    shaded,
    stacked_shares,
    timeline,
)
from sudare.report.number_formatting import nearest
from sudare.report.plots import Series
from sudare.schema import Number, Schema
from sudare.sums.exact_sum_minimum import check_exact_sums

NAMES: Final = ("Ando", "Brink", "Coast", "Delta", "Ember")
SENSORS: Final = ("temperature", "pressure", "vibration", "current", "speed")
SCHEMA: Final = Schema(
    {
        "temperature": Number(20.0, 120.0, unit="°C"),
        "pressure": Number(0.0, 12.0, unit="bar"),
        "vibration": Number(0.0, 16.0, unit="mm/s"),
        "current": Number(0.0, 90.0, unit="A"),
        "speed": Number(0.0, 4000.0, unit="1/min"),
    }
)
# Ways of running, in declared ranges: means, spreads, and which sensors move together (partial correlations).
MODES: Final = ("idling", "full load", "cleaning")
_MEANS: Final = np.array([[45, 2.0, 2.5, 15, 900], [85, 7.5, 7.0, 65, 2900], [60, 9.5, 4.0, 35, 400]], dtype=float)
_SPREADS: Final = np.array([5.0, 0.6, 0.8, 5.0, 180.0])
_PAIRS: Final = (((0, 3, 0.8), (2, 4, 0.8)), ((0, 2, 0.9), (3, 4, 0.7)), ((1, 3, -0.8),))
# Nobody runs in every way: Ando never cleans in the hours it recorded, Brink never idles.
_USE: Final = np.array([[0.6, 0.4, 0.0], [0.0, 0.7, 0.3], [0.5, 0.2, 0.3], [0.2, 0.5, 0.3], [0.4, 0.3, 0.3]])
_HOURS: Final = (20, 150, 150, 150, 150)
_START: Final = 6
_WATCHED: Final = 0
_FALSE_ALARMS: Final = 0.01
_NEW_HOURS, _FAULTY_FROM, _FAULTY_HOURS = 160, 110, 15
# The fault: mm/s more vibration and °C less temperature, each within what is usual for it alone.
_SHAKE, _COOL = 2.0, 12.0
SEED: Final = 1


@dataclass(frozen=True)
class Factory:
    """One member: its hours of sensor values, and its ledger."""

    name: str
    hours: pd.DataFrame
    account: Account


def play(folder: Path, tell: Tell) -> Scene:
    """Disclose, train, watch."""
    tell("five factories record their machines")
    generator = np.random.default_rng(SEED)
    factories = _factories(folder, generator)
    tell("they agree to show each other sums, and enter that in their ledgers")
    _disclose(factories)
    tell("they learn one dictionary from sums")
    dictionary = PatternDictionary(_START, schema=SCHEMA, false_alarm_rate=_FALSE_ALARMS).fit(
        [factory.hours for factory in factories]
    )
    tell("Ando watches its machine")
    model = dictionary.member(_WATCHED)
    new_hours, faulty = _new_hours(generator)
    alone = _alone(factories[_WATCHED])
    areas = [float(roc_auc_score(faulty, each.score_samples(new_hours))) for each in (model, alone)]
    found = int(np.count_nonzero(model.predict(new_hours) & faulty))
    line = ResultLine(
        "five factories",
        f"found {dictionary.n_patterns_} ways of running from sums alone; Ando, with {_HOURS[0]} hours of its own, noticed {found} of "
        f"{_FAULTY_HOURS} hours of a fault it had never seen",
    )
    parts = [
        _dictionary_part(dictionary),
        _watch_part(model, new_hours, faulty, areas),
        _shown_part(dictionary, factories),
    ]
    return Scene([line], parts, ["The factories' machines are made up, always the same ones."])


def _hours(generator: np.random.Generator, modes: NDArray[np.intp]) -> pd.DataFrame:
    """Sensor values of one hour for each named way of running."""
    roots = []
    for pairs in _PAIRS:
        precision = np.eye(len(SENSORS))
        for first, second, strength in pairs:
            precision[first, second] = precision[second, first] = -strength
        roots.append(np.linalg.cholesky(np.linalg.inv(precision)))
    noise = generator.standard_normal((len(modes), len(SENSORS)))
    values = _MEANS[modes] + _SPREADS * np.einsum("nij,nj->ni", np.stack(roots)[modes], noise)
    return pd.DataFrame(values, columns=list(SENSORS))


def _factories(folder: Path, generator: np.random.Generator) -> list[Factory]:
    factories = []
    for name, use, hours in zip(NAMES, _USE, _HOURS, strict=True):
        table = _hours(generator, generator.choice(len(MODES), hours, p=use))
        source = folder / f"{name}.parquet"
        table.to_parquet(source)
        account = Ledger(folder / f"{name}.db").account("machine hours", epsilon=1.0, source=source)
        factories.append(Factory(name, table, account))
    return factories


def _disclose(factories: list[Factory]) -> None:
    """A line in every ledger before a sum is shown: exact sums are not record privacy, and the ledger says so."""
    check_exact_sums(len(factories), consent=False)
    members, numbers = len(factories), _most_numbers()
    for factory in factories:
        rows, columns = len(factory.hours), len(SENSORS)
        factory.account.disclose(
            f"exact sums of a dictionary training over {members} members: up to {numbers:,} numbers "
            f"about {rows * columns:,} held here ({rows:,} records × {columns} columns)",
            f"the {members} members of the consortium",
            numbers,
            purpose="pattern dictionary",
        )


def _most_numbers() -> int:
    """A public bound on what a training of this size shows: every iteration's counts, sums and second moments."""
    columns = len(SENSORS)
    return 300 * 2 * _START * (1 + columns + columns * columns)


def _new_hours(generator: np.random.Generator) -> tuple[pd.DataFrame, NDArray[np.bool_]]:
    """What Ando's machine does next: as usual, but for some hours of full load its bearing shakes and its temperature does not follow."""
    modes = generator.choice(len(MODES), _NEW_HOURS, p=_USE[_WATCHED])
    faulty = np.zeros(_NEW_HOURS, dtype=bool)
    faulty[_FAULTY_FROM : _FAULTY_FROM + _FAULTY_HOURS] = True
    modes[faulty] = MODES.index("full load")
    table = _hours(generator, modes)
    table.loc[faulty, "vibration"] += _SHAKE
    table.loc[faulty, "temperature"] -= _COOL
    return table, faulty


def _alone(factory: Factory) -> MemberModel:
    """The same method on own records only."""
    return PatternDictionary(_START, schema=SCHEMA, false_alarm_rate=_FALSE_ALARMS).fit([factory.hours]).member(0)


def _dictionary_part(dictionary: PatternDictionary) -> Part:
    count = dictionary.n_patterns_
    labels = [f"pattern {index + 1}" for index in range(count)]
    weights = picture(
        [stacked_shares(NAMES, dictionary.weights_, labels, y_label="share of the hours", title="Who runs how")],
        f"Stacked bars: how often each of five factories uses each of {count} patterns.",
    )
    correlations = dictionary.member(0).partial_correlations
    graphs = picture(
        [dependency_graph(SENSORS, correlations[index], title=labels[index]) for index in range(count)],
        f"{count} graphs of five sensors; lines join sensors that move together directly.",
    )
    steps = list(range(1, len(dictionary.history_) + 1))
    convergence = picture(
        [
            curves(
                steps,
                [Series("objective", list(dictionary.history_))],
                x_label="iteration on the way that was kept",
                y_label="objective",
                title="Every step went up",
            )
        ],
        "A curve that rises with every iteration.",
    )
    means = PageTable(
        ("pattern", *(f"{name}, {SCHEMA.columns[name].unit}" for name in SENSORS)),  # type: ignore[union-attr]
        [
            (label, *(f"{value:.3g}" if value < 1000 else f"{value:.0f}" for value in mean))
            for label, mean in zip(labels, dictionary.means_, strict=True)
        ],
        caption="Means of the patterns",
        folded=True,
    )
    return Part(
        title="Five factories, one dictionary",
        result=f"Five factories found {count} ways in which their machines run, although no factory has seen them all, and none has shown an hour of its records.",
        blocks=[
            weights,
            means,
            FoldedPicture("Which sensors move together", graphs),
            FoldedPicture("How the training went", convergence),
        ],
        how_to_read=[
            "A pattern is a way of running: typical values of the sensors, and which of them move together. Patterns are shared; how often each occurs is a factory's own "
            "business. (This page shows all shares because the demo plays all five.)",
            "A line between two sensors: knowing all the others, one still tells something about the other. Blue: they rise together; dashed: one falls as the other rises.",
            f"The training began with {_START} patterns at public places in the declared ranges and removed what the sums did not support. The last curve is its yardstick: how well "
            "the patterns fit all hours together. If a step ever led down, the training would stop: some factory would have sent nonsense.",
        ],
    )


def _watch_part(model: MemberModel, hours: pd.DataFrame, faulty: NDArray[np.bool_], areas: list[float]) -> Part:
    scores, threshold = model.score_samples(hours), model.threshold()
    attributions = model.attribution(hours)
    alarms = scores > threshold
    worst = worst_columns(attributions, SENSORS)
    blamed = (
        float(np.mean(np.isin(worst[alarms & faulty], ("vibration", "temperature"))))
        if np.any(alarms & faulty)
        else 0.0
    )
    drawn = picture(
        [
            timeline(
                scores,
                threshold,
                x_label="hour",
                y_label="strangeness, −ln p",
                title="Ando's machine, hour by hour",
                marked=(_FAULTY_FROM, _FAULTY_FROM + _FAULTY_HOURS, "the fault"),
            ),
            shaded(
                SENSORS,
                attributions.T,
                x_label="hour",
                scale_label="strangeness, −ln p of the sensor",
                title="Which sensor was strange, given the others",
            ),
        ],
        f"A line of scores with a threshold; the hours from {_FAULTY_FROM} on stand out, and in the lower picture the rows of temperature and vibration.",
    )
    false_alarms = int(np.count_nonzero(alarms & ~faulty))
    return Part(
        title="One factory watches its machine",
        result=f"{int(np.count_nonzero(alarms & faulty))} of {_FAULTY_HOURS} faulty hours raised an alarm, {false_alarms} of {int(np.count_nonzero(~faulty))} usual ones did; "
        f"in {100 * blamed:.0f} percent of the right alarms vibration or temperature was named first.",
        blocks=[
            drawn,
            PageTable(
                ("model", "faulty above usual, %"),
                [("dictionary of five", nearest(100 * areas[0], 3)), ("own hours only", nearest(100 * areas[1], 3))],
                caption="How often a faulty hour is stranger than a usual one (area under the curve)",
            ),
        ],
        how_to_read=[
            f"The threshold is set for one false alarm in {round(1 / _FALSE_ALARMS)} usual hours if the model is right. The fault was made for this page: at full load vibration rises by {_SHAKE:g} mm/s while the temperature falls by {_COOL:g} °C. Each alone would be nothing unusual; together "
            "they never happen in a sound machine, and that is known from the other factories.",
            "The lower picture is the same for each sensor, given all the others: bright is strange. It is what to look at first when the alarm rings.",
        ],
    )


def _shown_part(dictionary: PatternDictionary, factories: list[Factory]) -> Part:
    held = sum(factory.hours.size for factory in factories)
    entries = factories[_WATCHED].account.entries()
    disclosed = next(entry for entry in entries if entry.kind == "disclosure")
    return Part(
        title="What the factories showed each other",
        result=f"In {dictionary.n_sums_:,} sums every factory saw {dictionary.n_numbers_:,} totals over all five; together they hold {held:,} numbers. "
        "Exact totals are not record privacy.",
        blocks=[
            PageTable(
                ("ledger entry", "towards", "guarantee"),
                [
                    (
                        str(disclosed.body["what"]),
                        str(disclosed.body["guarantee"]["towards"]),
                        str(disclosed.body["guarantee"]["notion"]),
                    )
                ],
                caption="Ando's ledger, before the first sum",
                folded=True,
            )
        ],
        how_to_read=[
            "Addends are hidden by masks that cancel in the sum, so nobody sees another's; but all see the totals, many times over, and with few members totals tell a lot about "
            "records. Two members may never do this, and fewer than five only if their agreement says so.",
            "With epsilon=… every total gets noise that no member knows alone, and records are protected. sudare study 003 shows what that costs.",
        ],
    )
