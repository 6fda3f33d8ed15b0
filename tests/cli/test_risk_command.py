"""`sudare risk`: for people, for programs, as a picture, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Sudare

QUICK = ("--trials", 500)


def test_risk_for_people(sudare: Sudare) -> None:
    told = sudare("risk", "--members", 20, "--degree", 4, *QUICK)
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


def test_the_answer_on_the_page_is_the_commands(sudare: Sudare) -> None:
    """Lines of docs/consensus.md; simulated ones may change with numpy's generators."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "consensus.md").read_text("utf-8")
    command, *printed = page.partition("```console\n$ sudare ")[2].partition("```")[0].splitlines()
    words = command.replace(" --plot risk.png", "").split()
    told = [line.rstrip() for line in sudare(*words, *QUICK).stdout.splitlines()]
    shown = [line for line in printed if line and "simulated" not in line]
    assert len(shown) > 12
    assert [line for line in shown if line not in told] == []


def test_risk_as_json(sudare: Sudare) -> None:
    values = sudare(
        "risk", "--members", 12, "--graph", "random-regular", "--degree", 3, "--colluders", 2, "--json", *QUICK
    ).values
    assert (values["members"], values["degree"], values["colluders"]) == (12, 3, 2)
    assert values["observability"] == {"recovered": 10, "of": 10}
    assert values["masks"]["breach"] == 0
    assert {"what", "one_sum", "all_sums", "low", "high"} == set(values["breaches"][0])


def test_a_seed_repeats_the_simulation(sudare: Sudare) -> None:
    words = ("risk", "--members", 10, "--json", *QUICK)
    assert sudare(*words).stdout == sudare(*words).stdout
    assert sudare(*words).stdout != sudare(*words, "--seed", 1).stdout


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml")])
def test_risk_as_a_picture(sudare: Sudare, tmp_path: Path, suffix: str, start: bytes) -> None:
    plot = tmp_path / f"plot{suffix}"
    assert sudare("risk", "--members", 9, "--plot", plot, *QUICK).exit_code == 0
    assert plot.read_bytes().startswith(start)


@pytest.mark.parametrize(
    "graph", ["cycle", "inverse-chords", "random-regular", "exponential", "hypercube", "base-k", "complete"]
)
def test_every_graph(sudare: Sudare, graph: str) -> None:
    assert sudare("risk", "--members", 8, "--graph", graph, *QUICK).exit_code == 0


def test_two_members_hide_nothing_from_each_other(sudare: Sudare) -> None:
    told = sudare("risk", "--members", 2, "--graph", "complete", *QUICK)
    assert "nothing can be hidden" in told.stdout


def test_large_consortia_are_not_attacked(sudare: Sudare) -> None:
    told = sudare("risk", "--members", 256, "--graph", "hypercube", "--trials", 100)
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
    assert sudare("risk", *words).exit_code == exit_code
