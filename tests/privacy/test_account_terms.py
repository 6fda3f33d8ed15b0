"""What an account is opened with: written and read back, defaults, and which terms are the same."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from sudare.errors import AccountMismatch, InvalidCost, InvalidParameter, UnknownAccount
from sudare.privacy.account_terms import AskedTerms, Terms, is_raise
from sudare.privacy.accounting import Budget

BASIC = Terms(Budget.of(3.0, 1e-6), "replace-one", "record", "patients")
GAUSSIAN = Terms(Budget.of(1.0, 1e-6, "gaussian", 1e-7), "add-remove", "person", "visits")
NOTHING_ASKED: dict[str, Any] = dict.fromkeys(
    ("epsilon", "delta", "neighbours", "unit", "composition", "reserved_delta", "source")
)


def asked(**terms: Any) -> AskedTerms:
    return AskedTerms(**{**NOTHING_ASKED, **terms})


class TestTerms:
    @pytest.mark.parametrize("terms", [BASIC, GAUSSIAN])
    def test_written_and_read_back(self, terms: Terms) -> None:
        assert Terms.from_dict(json.loads(json.dumps(terms.to_dict()))) == terms

    def test_how_they_are_written(self) -> None:
        assert GAUSSIAN.to_dict() == {
            "epsilon": "1",
            "delta": "1/1000000",
            "composition": "gaussian",
            "reserved_delta": "1/10000000",
            "neighbours": "add-remove",
            "unit": "person",
            "source": "visits",
        }

    @pytest.mark.parametrize("change", [{"neighbours": "banana"}, {"unit": "family"}])
    def test_unknown_words_are_refused(self, change: dict[str, Any]) -> None:
        with pytest.raises(InvalidParameter) as caught:
            dataclasses.replace(BASIC, **change)
        assert (
            caught.value.problem == "neighbours must be one of replace-one, add-remove and unit one of record, person."
        )
        assert caught.value.remedy == "Use these words."


class TestAskedTerms:
    def test_a_new_account_has_defaults(self) -> None:
        assert asked(epsilon=3.0).for_new("patients") == Terms(Budget.of(3.0), "replace-one", "record", "patients")

    def test_a_new_account_gets_what_was_asked(self) -> None:
        terms = asked(
            epsilon=1.0,
            delta=1e-6,
            neighbours="add-remove",
            unit="person",
            composition="gaussian",
            reserved_delta=1e-7,
            source="visits",
        )
        assert terms.for_new("v") == GAUSSIAN

    def test_a_new_account_needs_a_budget(self) -> None:
        with pytest.raises(UnknownAccount) as caught:
            asked(delta=1e-6).for_new("patients")
        assert caught.value.problem == "The ledger has no account 'patients', and no budget was given to open it with."
        assert caught.value.remedy == UnknownAccount.help

    @pytest.mark.parametrize(
        "terms",
        [
            {"epsilon": 0.0},
            {"epsilon": True},
            {"epsilon": 1.0, "delta": False},
            {"epsilon": 1.0, "delta": math.nan},
            {"epsilon": 1.0, "composition": ""},
            {"epsilon": 1.0, "reserved_delta": 1e-6},
        ],
    )
    def test_a_new_account_needs_a_usable_budget(self, terms: dict[str, Any]) -> None:
        with pytest.raises(InvalidCost):
            asked(**terms).for_new("patients")

    @pytest.mark.parametrize("terms", [{"neighbours": ""}, {"unit": "family"}])
    def test_a_new_account_needs_known_words(self, terms: dict[str, Any]) -> None:
        with pytest.raises(InvalidParameter):
            asked(epsilon=1.0, **terms).for_new("patients")

    @pytest.mark.parametrize(
        "terms",
        [
            {},
            {"epsilon": 1.0, "delta": 1e-6},
            {"delta": 1e-6},
            {"neighbours": "add-remove"},
            {"unit": "person"},
            {"composition": "gaussian"},
            {"reserved_delta": 1e-7},
            {"source": "visits"},
            {"source": " visits "},
        ],
    )
    def test_the_same_terms_are_accepted(self, terms: dict[str, Any]) -> None:
        asked(**terms).check_same("visits", GAUSSIAN)

    @pytest.mark.parametrize(
        ("terms", "named"),
        [
            ({"epsilon": 2.0, "delta": 1e-6}, "epsilon"),
            ({"epsilon": 1.0}, "delta"),
            ({"delta": 1e-7}, "delta"),
            ({"epsilon": 2.0, "delta": 1e-7}, "epsilon and delta"),
            ({"neighbours": "replace-one"}, "neighbours"),
            ({"unit": "record"}, "unit"),
            ({"composition": "basic"}, "composition"),
            ({"reserved_delta": 0.0}, "reserved_delta"),
            ({"source": "patients"}, "source"),
        ],
    )
    def test_other_terms_are_refused(self, terms: dict[str, Any], named: str) -> None:
        with pytest.raises(AccountMismatch) as caught:
            asked(**terms).check_same("visits", GAUSSIAN)
        assert caught.value.problem == (
            f"Account 'visits' was opened with another {named}: it has ε = 1, δ = 1e-06, add-remove person, "
            "gaussian composition."
        )
        assert caught.value.remedy.startswith("Open it by its name alone")

    def test_an_epsilon_alone_means_that_delta_is_zero(self) -> None:
        asked(epsilon=3.0).check_same("p", dataclasses.replace(BASIC, budget=Budget.of(3.0)))

    @pytest.mark.parametrize(
        "terms", [{"epsilon": math.nan}, {"delta": -1.0}, {"reserved_delta": math.nan}, {"reserved_delta": True}]
    )
    def test_unusable_numbers_are_refused(self, terms: dict[str, Any]) -> None:
        with pytest.raises(InvalidCost, match=f"^{next(iter(terms))} must be"):
            asked(**terms).check_same("visits", GAUSSIAN)


def test_a_name_that_is_a_path_is_the_source_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "table").write_text("x")
    monkeypatch.chdir(tmp_path)
    assert asked(epsilon=1.0).for_new("table").source == os.path.realpath("table")


def test_what_is_a_raise() -> None:
    old = Budget.of(1.0, 1e-6, "gaussian", 1e-7)
    assert is_raise(old, Budget.of(1.1, 1e-6, "gaussian", 1e-7))
    assert is_raise(old, Budget.of(1.0, 1e-5, "gaussian", 1e-7))
    assert is_raise(old, Budget.of(2.0, 1e-5, "gaussian", 1e-7))
    assert not is_raise(old, old)
    assert not is_raise(old, Budget.of(0.9, 1e-5, "gaussian", 1e-7))
    assert not is_raise(old, Budget.of(1.1, 9e-7, "gaussian", 1e-7))
    assert not is_raise(old, Budget.of(1.1, 1e-6, "gaussian", 2e-7))
    assert not is_raise(Budget.of(1.0, 1e-6), Budget.of(1.1, 1e-6, "gaussian", 0.0))
