"""`sudare risk sums` and `sudare risk chunks`: for people, for programs, as a picture, and what they refuse."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sudare.errors import InvalidParameter
from sudare.sums.neighbour_graph import neighbourhood
from tests.cli.conftest import Sudare
from tests.languages.english_left import english_left

QUICK = ("--trials", 500)
DOCS = Path(__file__).resolve().parents[2] / "docs"
LARGE = ("--members", 10_000, "--dishonest", 500, "--leaving", 500)


# Secure sums


def test_sums_for_people(sudare: Sudare) -> None:
    told = sudare("risk", "sums", *LARGE)
    assert told.exit_code == 0
    for text in (
        "500 of them and the collector may be dishonest",
        "votes t       9,500",
        "neighbours k  55",
        "shares t_k    32",
        "at most 2^-77",
        "at most 2^-42",
        "What they can learn: one sum",
        "leave out up to 500",
        "Up to 500 may leave",
    ):
        assert text in told.stdout
    assert told.stderr == ""


def test_the_explanation_on_the_page_is_the_commands(sudare: Sudare) -> None:
    page = (DOCS / "scale.md").read_text("utf-8")
    command, *printed = page.partition("```console\n$ sudare risk ")[2].partition("```")[0].splitlines()
    told = sudare("risk", *command.split()).stdout.splitlines()
    assert [line.rstrip() for line in told] == printed


@pytest.mark.parametrize(
    "sizes", [range(1_001), pytest.param(range(1_001, 1_000_000), marks=pytest.mark.long)], ids=["small", "large"]
)
def test_the_table_on_the_page_is_the_codes(sizes: range) -> None:
    """k and t_k of docs/scale.md; "all" where everybody is everybody's neighbour."""
    page = (DOCS / "scale.md").read_text("utf-8")
    rows = [
        [cell.strip() for cell in line.strip("| ").split("|")]
        for line in page.partition("Dishonest, leaving:\n\n")[2].partition("\n\n")[0].splitlines()
    ]
    shares = [[int(part.removesuffix(" %")) for part in cell.split(", ")] for cell in rows[0][1:]]
    found_sizes = {int(name.replace(",", "")): cells for name, *cells in rows[2:]}
    assert len(set(found_sizes) & set(sizes)) > 2
    for members, cells in found_sizes.items():
        if members not in sizes:
            continue
        for cell, (corrupt, gone) in zip(cells, shares, strict=True):
            dishonest, leaving = members * corrupt // 100, members * gone // 100
            found = neighbourhood(members, dishonest, leaving, (members + dishonest) // 2 + 1)
            assert cell == ("all" if found.is_complete(members) else f"{found.degree}, {found.threshold}")


def test_who_collects_is_said_and_refused_where_nobody_does(sudare: Sudare) -> None:
    some = ("--members", 5, "--leaving", 1)
    assert sudare("risk", "sums", *some, "--json").values["collector"] == "member"
    assert sudare("risk", "sums", *some, "--collector", "relay", "--json").values["collector"] == "relay"
    assert sudare("risk", "sums", "--members", 5, "--json").values["collector"] is None
    refused = sudare("risk", "sums", "--members", 5, "--collector", "relay")
    assert refused.exit_code == InvalidParameter.exit_code
    assert "has no collector" in refused.stderr


def test_sums_as_json(sudare: Sudare) -> None:
    values = sudare("risk", "sums", *LARGE, "--threshold", 9_500, "--json").values
    assert (values["threshold"], values["degree"], values["share_threshold"]) == (9_500, 55, 32)
    assert values["honest_addends"] == 9_000 - values["most_separated"]
    assert values["privacy_failure_log2"] <= -40
    assert values["liveness_failure_log2"] <= -40
    assert (values["complete"], values["serverless"]) == (False, False)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--members", 5, "--dishonest", 1, "--leaving", 1), "everybody masks with everybody"),
        (("--members", 5, "--dishonest", 0, "--leaving", 1), "; the collector may be dishonest"),
        (("--members", 5, "--leaving", 1), "Members collect by turns"),
        (("--members", 5, "--leaving", 1, "--collector", "relay"), "The relay, who is no member, collects every sum"),
        (("--members", 5, "--threshold", 5), "no collector, one total or none"),
        (("--members", 5, "--dishonest", 0, "--threshold", 5), "nobody may be dishonest; nobody may leave"),
        (("--members", 3), "at least 2 honest members' addends"),
        (("--members", 5, "--dishonest", 1, "--leaving", 1), "Up to 1 may leave at any moment. With"),
        (("--members", 500, "--dishonest", 5, "--leaving", 5), "if who leaves does not depend on who picked whom"),
    ],
)
def test_small_and_special_sums(sudare: Sudare, words: tuple[object, ...], says: str) -> None:
    told = sudare("risk", "sums", *words)
    assert told.exit_code == 0
    assert says in told.stdout


@pytest.mark.parametrize(
    ("words", "exit_code", "says"),
    [
        ((), 2, "--members"),
        (("--members", 1), 2, "--members"),
        (
            ("--members", 10, "--dishonest", 4, "--leaving", 3),
            10,
            "Or let at most 2 leave. Or expect at most 3 dishonest ones.",
        ),
        (("--members", 10, "--dishonest", 4, "--threshold", 7), 10, "from 8 to 10"),
        (("--members", 10, "--leaving", 2, "--threshold", 9), 10, "at most 8"),
        (("--members", 10, "--threshold", 11), 10, "more than the 10 members there are"),
        (("--members", 3, "--dishonest", 2), 10, "fewer than two honest members hides nothing"),
    ],
)
def test_sums_that_cannot_be(sudare: Sudare, words: tuple[object, ...], exit_code: int, says: str) -> None:
    refused = sudare("risk", "sums", *words)
    assert refused.exit_code == exit_code
    assert says in refused.stderr


# Random chunks


def test_risk_for_people(sudare: Sudare) -> None:
    told = sudare("risk", "chunks", "--members", 20, "--degree", 4, *QUICK)
    assert told.exit_code == 0
    for text in (
        "20 members",
        "(1.34)",
        "(1.35)",
        "simulated",
        "Masks instead: exact in 5 rounds",
        "19 of 19",
        "50 sums",
    ):
        assert text in told.stdout
    assert told.stderr == ""


@pytest.mark.parametrize("colluders", [1, 3])
def test_risk_in_japanese(sudare: Sudare, colluders: int) -> None:
    told = sudare("--lang", "ja", "risk", "chunks", "--members", 12, "--colluders", colluders, *QUICK)
    assert "一つの和の 99 % 区間" in told.stdout
    assert english_left(told.stdout) == []
    refused = sudare("--lang", "ja", "risk", "chunks", "--members", 12, "--graph", "star").stderr
    assert "グラフ 'star' はありません。" in refused


def test_the_answer_on_the_page_is_the_commands(sudare: Sudare) -> None:
    """Lines of docs/papers/003.md, those of the simulation with its default number of sums and seed, and what is said of them below."""
    page = (DOCS / "papers" / "003.md").read_text("utf-8")
    command, *printed = page.partition("```console\n$ sudare ")[2].partition("```")[0].splitlines()
    words = command.replace(" --plot risk.png", "").split()
    told = [line.rstrip() for line in sudare(*words).stdout.splitlines()]
    shown = [line for line in printed if line]
    assert len(shown) > 14
    assert [line for line in shown if line not in told] == []
    rows = {name: cells for name, *cells in (re.split(r"  +", line) for line in shown) if "simulated" in name}
    assert f"in {rows['anybody, 3 colluders: simulated'][0].removeprefix('0')} of all sums" in page
    one_sum, all_sums = (float(cell) for cell in rows["anybody: simulated"][:2])
    assert f"turn {100 * one_sum:.0f} % into {100 * all_sums:.0f} %" in page


def test_risk_as_json(sudare: Sudare) -> None:
    values = sudare(
        "risk",
        "chunks",
        "--members",
        12,
        "--graph",
        "random-regular",
        "--degree",
        3,
        "--colluders",
        2,
        "--json",
        *QUICK,
    ).values
    assert (values["members"], values["degree"], values["colluders"]) == (12, 3, 2)
    assert values["observability"] == {"recovered": 10, "of": 10}
    assert values["masks"]["breach"] == 0
    assert {"what", "one_sum", "all_sums", "low", "high"} == set(values["breaches"][0])


def test_a_seed_repeats_the_simulation(sudare: Sudare) -> None:
    words = ("risk", "chunks", "--members", 10, "--json", *QUICK)
    assert sudare(*words).stdout == sudare(*words).stdout
    assert sudare(*words).stdout != sudare(*words, "--seed", 1).stdout


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml")])
def test_risk_as_a_picture(sudare: Sudare, tmp_path: Path, suffix: str, start: bytes) -> None:
    plot = tmp_path / f"plot{suffix}"
    assert sudare("risk", "chunks", "--members", 9, "--plot", plot, *QUICK).exit_code == 0
    assert plot.read_bytes().startswith(start)


@pytest.mark.parametrize(
    "graph", ["cycle", "inverse-chords", "random-regular", "exponential", "hypercube", "base-k", "complete"]
)
def test_every_graph(sudare: Sudare, graph: str) -> None:
    assert sudare("risk", "chunks", "--members", 8, "--graph", graph, *QUICK).exit_code == 0


def test_two_members_hide_nothing_from_each_other(sudare: Sudare) -> None:
    told = sudare("risk", "chunks", "--members", 2, "--graph", "complete", *QUICK)
    assert "nothing can be hidden" in told.stdout


def test_large_consortia_are_not_attacked(sudare: Sudare) -> None:
    told = sudare("risk", "chunks", "--members", 256, "--graph", "hypercube", "--trials", 100)
    assert told.exit_code == 0
    assert "was not simulated" in told.stdout


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [
        ((), 2),
        (("--members", 1), 2),
        (("--members", 9, "--trials", 5), 2),
        (("--members", 9, "--graph", "star"), 10),
        (("--members", 12, "--graph", "hypercube"), 10),
        (("--members", 9, "--degree", 3), 10),
        (("--members", 9, "--graph", "random-regular", "--degree", 3), 10),
        (("--members", 9, "--colluders", 9), 10),
        (("--members", 9, "--tolerance", 0), 10),
        (("--members", 9, "--plot", "x.jpg"), 10),
        (("--members", 9, "--plot", "no/folder.png", *QUICK), 10),
    ],
)
def test_refusals(sudare: Sudare, words: tuple[object, ...], exit_code: int) -> None:
    assert sudare("risk", "chunks", *words).exit_code == exit_code
