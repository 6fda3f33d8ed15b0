"""The chapter's open issue, measured: how far members end from the mean when messages are lost or late and links come and go."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from sudare.papers.p003_decentralised.averaging_figures import NOT_PRIVATE, root_mean_square, uniform_values
from sudare.papers.p003_decentralised.chunked_sum_plots import on_logarithmic_height
from sudare.papers.p003_decentralised.graphs import random_regular
from sudare.papers.p003_decentralised.lossy_averaging import (
    Averaging,
    Links,
    dynamic_consensus,
    expected_square_error,
    gossip,
    push_sum,
    robust_push_sum,
    rounds_until,
)
from sudare.papers.study import Cell, Estimate, ResultTable, Tell
from sudare.report.plots import Panel, Series

MEMBERS: Final = 20
DEGREE: Final = 4
ROUNDS: Final = 100
ERROR: Final = 0.01
LINKS_SEED: Final = 1600

WAYS: Final[dict[str, Averaging]] = {
    "dynamic consensus (1.27)": dynamic_consensus,
    "gossip": gossip,
    "push-sum": push_sum,
    "running sums": robust_push_sum,
}


def conditions() -> dict[str, Links]:
    """Links that get worse and worse."""
    whole = Links(random_regular(MEMBERS, DEGREE))
    return {
        "nothing is lost": whole,
        "10 % lost": replace(whole, loss=0.1),
        "30 % lost": replace(whole, loss=0.3),
        "50 % lost": replace(whole, loss=0.5),
        "up to 5 rounds late": replace(whole, latest=5),
        "30 % lost, up to 5 rounds late": replace(whole, loss=0.3, latest=5),
        "every eighth link down, 30 % lost": replace(whole, loss=0.3, down=whole.graph.edges[::8]),
        "other neighbours in every round": replace(whole, changing=True),
        "other neighbours in every round, 30 % lost, up to 5 late": replace(whole, loss=0.3, latest=5, changing=True),
        "no clock": replace(whole, asynchronous=True),
        "no clock, 30 % lost": replace(whole, loss=0.3, asynchronous=True),
    }


def lost_messages_table(repeats: int, tell: Tell) -> ResultTable:
    """Errors in the end by link and method, the drift that was to be expected, and rounds of running sums."""
    rows: list[Sequence[Cell]] = []
    for name, links in conditions().items():
        found: dict[str, list[float]] = {way: [] for way in WAYS}
        expected, needed = [], []
        for seed in range(repeats):
            tell(f"averaging, {name}, repetition {seed + 1} of {repeats}")
            values = uniform_values(MEMBERS, np.random.default_rng([LINKS_SEED, seed]))
            for way, averaging in WAYS.items():
                if suits(way, links):
                    found[way].append(relative_error(averaging, links, values, seed))
            needed.append(_rounds_needed(links, values, seed))
            if not (links.latest or links.changing or links.down or links.asynchronous):
                square = expected_square_error(values, links.graph, links.loss, ROUNDS)[1]
                expected.append(math.sqrt(max(square, 0.0)) / root_mean_square(values, values.mean(axis=0)))
        rows.append(
            (
                name,
                *(Estimate.of(errors) if errors else None for errors in found.values()),
                float(np.sqrt(np.mean(np.square(expected)))) if expected else None,
                Estimate.of(needed),
            )
        )
    return ResultTable(
        "Lost and late messages: error left after averaging, as a share of the first disagreement",
        ("links", *WAYS, "dynamic consensus, expected", f"running sums: rounds to {ERROR:g}"),
        rows,
        f"{MEMBERS} members on a random {DEGREE}-regular graph, first values uniform in ±10, {ROUNDS} rounds, ± one standard error over {repeats} seeds. Without a clock a round is {MEMBERS} messages of random "
        "members, else every member sends to all its neighbours; gossip needs no clock and is measured without one only. Expected: the root of the exact mean square. Where messages are lost, members agree on a "
        f"wrong number, whatever they do later, unless messages say how much was ever sent. {NOT_PRIVATE}",
    )


def suits(way: str, links: Links) -> bool:
    """Whether a way is measured on such links: (1.27) has a common clock, gossip has none."""
    return not (way == "dynamic consensus (1.27)" and links.asynchronous) and not (
        way == "gossip" and not links.asynchronous
    )


def relative_error(averaging: Averaging, links: Links, values: np.ndarray, seed: int) -> float:
    """The root mean squared distance from the mean in the end, over that of the first values."""
    *_, last = averaging(values, links, ROUNDS, np.random.default_rng([LINKS_SEED, seed, 1]))
    mean = values.mean(axis=0)
    return root_mean_square(last, mean) / root_mean_square(values, mean)


def _rounds_needed(links: Links, values: np.ndarray, seed: int) -> float:
    states = robust_push_sum(values, links, 20 * ROUNDS, np.random.default_rng([LINKS_SEED, seed, 1]))
    found = rounds_until(states, ERROR)
    return math.nan if found is None else float(found)


def lost_messages_panel(name: str = "30 % lost, up to 5 rounds late", seed: int = 0) -> Panel:
    """Error against rounds for one of the links, one run of each way."""
    links = conditions()[name]
    values = uniform_values(MEMBERS, np.random.default_rng([LINKS_SEED, seed]))
    mean = values.mean(axis=0)
    series = [
        Series(
            way,
            [
                root_mean_square(state, mean)
                for state in averaging(
                    values,
                    replace(links, asynchronous=way == "gossip"),
                    ROUNDS,
                    np.random.default_rng([LINKS_SEED, seed, 1]),
                )
            ],
        )
        for way, averaging in WAYS.items()
    ]
    return on_logarithmic_height(
        list(range(ROUNDS + 1)), series, x_label=f"rounds ({name})", y_label="root mean squared error"
    )
