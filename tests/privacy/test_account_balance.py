"""Running totals: what the entries of an account add up to, and what they may not be."""

from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sudare.errors import LedgerCorrupt
from sudare.privacy.account_balance import (
    AccountState,
    Amount,
    SpendingStep,
    replayed,
    spending_steps,
)
from sudare.privacy.account_terms import Terms
from sudare.privacy.accounting import (
    Budget,
    Cost,
    Spent,
    approximate_cost,
    exact,
    gaussian_cost,
    pure_cost,
)
from sudare.privacy.guarantee import Neighbours
from sudare.privacy.ledger_chain import Entry
from sudare.privacy.source_identity import Source

BASIC = Terms(Budget.of(3.0, 1e-6), "replace-one", "record", "patients")
GAUSSIAN = Terms(Budget.of(1.0, 1e-6, "gaussian", 1e-7), "add-remove", "person", "visits")


def entry(position: int, kind: Any, body: dict[str, Any], account: str = "a") -> Entry:
    return Entry(position, "", "", account, kind, body)


def charged(position: int, cost: Cost, account: str = "a") -> Entry:
    return entry(position, "charge", {"cost": cost.to_dict()}, account)


def history(*entries: Entry, terms: Terms = BASIC) -> list[Entry]:
    first = [entry(0, "ledger", {"ledger": "x"}, ""), entry(1, "open", terms.to_dict())]
    return [*first, *entries]


COSTS = [pure_cost(0.1), approximate_cost(0.2, 1e-7), gaussian_cost(0.1, 1e-7, Fraction(1, 2**60))]


class TestState:
    @pytest.mark.parametrize("terms", [BASIC, GAUSSIAN])
    @pytest.mark.parametrize("costs", [[], COSTS[:1], COSTS, COSTS * 3])
    def test_written_and_read_back(self, terms: Terms, costs: list[Cost]) -> None:
        state = AccountState(terms, Spent.of(costs), 1 + len(costs))
        assert AccountState.from_text(state.to_text()) == state

    def test_how_it_is_written(self) -> None:
        text = AccountState(BASIC, Spent.of([pure_cost(0.1)]), 2).to_text()
        values = json.loads(text)
        assert values["spent"]["epsilon"] == "1/10"
        assert set(values["spent"]) == {"epsilon", "delta", "mu_squared", "total_variation", "leaked_delta"}
        assert values["gaussian_charges"] == 0
        assert values["entries"] == 2
        assert values["terms"] == BASIC.to_dict()
        assert set(values) == {"spent", "gaussian_charges", "entries", "terms"}

    @pytest.mark.parametrize(
        "path_and_value",
        [
            (("spent", "epsilon"), "1/0"),
            (("spent", "epsilon"), "2/20"),
            (("spent", "epsilon"), "-1"),
            (("spent", "epsilon"), 0.1),
            (("spent", "epsilon"), None),
            (("spent", "bonus"), "0"),
            (("spent",), []),
            (("spent",), {}),
            (("gaussian_charges",), "0"),
            (("gaussian_charges",), 0.0),
            (("gaussian_charges",), False),
            (("entries",), "1"),
            (("entries",), True),
            (("terms", "epsilon"), "1e9"),
            (("terms", "neighbours"), "banana"),
            (("terms",), None),
            (("extra",), 1),
        ],
    )
    def test_what_cannot_be_read_is_refused(self, path_and_value: tuple[tuple[str, ...], Any]) -> None:
        path, value = path_and_value
        values = json.loads(AccountState(BASIC, Spent(), 1).to_text())
        holder = values
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = value
        with pytest.raises(LedgerCorrupt) as caught:
            AccountState.from_text(json.dumps(values, sort_keys=True, separators=(",", ":")))
        assert caught.value.problem == "An account of the ledger cannot be read."
        assert caught.value.remedy == LedgerCorrupt.help

    @pytest.mark.parametrize("text", ["", "[]", "5", "null", "{", "[" * 100_000])
    def test_other_text_is_refused(self, text: str) -> None:
        with pytest.raises(LedgerCorrupt, match="An account of the ledger cannot be read"):
            AccountState.from_text(text)

    def test_the_one_text_is_demanded(self) -> None:
        with pytest.raises(LedgerCorrupt):
            AccountState.from_text(AccountState(BASIC, Spent(), 1).to_text() + " ")

    def test_a_charge_is_added(self) -> None:
        state = AccountState(BASIC, Spent(), 1).after(charged(2, pure_cost(0.1)))
        assert state == AccountState(BASIC, Spent.of([pure_cost(0.1)]), 2)

    @pytest.mark.parametrize("kind", ["disclosure", "release"])
    def test_other_entries_are_counted(self, kind: str) -> None:
        before = AccountState(BASIC, Spent.of(COSTS), 4)
        assert before.after(entry(5, kind, {})) == AccountState(BASIC, Spent.of(COSTS), 5)

    def test_a_raise_changes_the_budget_only(self) -> None:
        larger = dataclasses.replace(BASIC, budget=Budget.of(4.0, 1e-6))
        state = AccountState(BASIC, Spent.of(COSTS), 4).after(entry(5, "raise", {**larger.to_dict(), "reason": "x"}))
        assert state == AccountState(larger, Spent.of(COSTS), 5)

    @pytest.mark.parametrize(
        "other",
        [
            BASIC,
            dataclasses.replace(BASIC, budget=Budget.of(2.0, 1e-6)),
            dataclasses.replace(BASIC, budget=Budget.of(4.0, 1e-7)),
            dataclasses.replace(BASIC, budget=Budget.of(4.0, 1e-6, "gaussian")),
            dataclasses.replace(BASIC, budget=Budget.of(4.0, 1e-6), source="another"),
            dataclasses.replace(BASIC, budget=Budget.of(4.0, 1e-6), unit="person"),
        ],
    )
    def test_a_raise_that_is_none_is_refused(self, other: Terms) -> None:
        with pytest.raises(ValueError, match=r"^not a raise$"):
            AccountState(BASIC, Spent(), 1).after(entry(2, "raise", other.to_dict()))

    @pytest.mark.parametrize("kind", ["ledger", "open", "gift"])
    def test_other_kinds_are_refused(self, kind: str) -> None:
        with pytest.raises(ValueError, match=r"^not an entry of an open account$"):
            AccountState(BASIC, Spent(), 1).after(entry(2, kind, {}))

    def test_admitted_or_not(self) -> None:
        assert AccountState(BASIC, Spent(epsilon=Fraction(3)), 1).is_admitted()
        assert not AccountState(BASIC, Spent(epsilon=Fraction(3) + Fraction(1, 10**400)), 1).is_admitted()


def test_spending_step_by_step() -> None:
    larger = dataclasses.replace(BASIC, budget=Budget.of(4.0, 1e-6))
    entries = [
        entry(1, "open", BASIC.to_dict()),
        charged(2, pure_cost(0.5)),
        entry(3, "disclosure", {}),
        entry(4, "raise", {**larger.to_dict(), "reason": "x"}),
        charged(5, pure_cost(1.0)),
        entry(6, "restore", {"lost": [], "reason": "x"}),
        entry(7, "close", {"reason": "x"}),
    ]
    timed = [dataclasses.replace(each, time=f"time {each.position}") for each in entries]
    assert spending_steps(timed) == [
        SpendingStep("time 1", 0.0, 3.0),
        SpendingStep("time 2", 0.5, 3.0),
        SpendingStep("time 4", 0.5, 4.0),
        SpendingStep("time 5", 1.5, 4.0),
        SpendingStep("time 6", 4.0, 4.0),
    ]
    assert spending_steps([]) == []


class TestAmounts:
    def test_spent_and_left(self) -> None:
        state = AccountState(BASIC, Spent.of([pure_cost(0.1)] * 3), 4)
        assert state.amount_spent() == Amount(0.3, 0.0)
        assert state.amount_left() == Amount(2.7, 1e-6)
        with_delta = AccountState(BASIC, Spent.of([approximate_cost(0.1, 1e-7)] * 3), 4)
        assert with_delta.amount_left() == Amount(2.7, 7e-7)

    def test_never_below_nothing(self) -> None:
        assert AccountState(BASIC, Spent(Fraction(5), Fraction(1, 10)), 2).amount_left() == Amount(0.0, 0.0)

    def test_more_than_all_floats_leaves_nothing(self) -> None:
        assert AccountState(BASIC, Spent(Fraction(10) ** 400), 2).amount_left() == Amount(0.0, 1e-6)
        assert AccountState(
            GAUSSIAN, Spent(mu_squared=Fraction(10) ** 400, gaussian_charges=1), 2
        ).amount_left() == Amount(0.0, 1e-7)

    @given(st.lists(st.floats(0.01, 0.3), max_size=9))
    @example([0.25] * 6 + [0.2643895056352309, 0.2874718748240762])
    def test_what_is_left_in_basic_can_be_charged(self, epsilons: list[float]) -> None:
        state = AccountState(BASIC, Spent.of(map(pure_cost, epsilons)), 1)
        left = state.amount_left().epsilon
        assert exact(left) + state.spent.epsilon <= 3
        assert exact(math.nextafter(math.nextafter(left, 9), 9)) + state.spent.epsilon > 3


class TestAffordable:
    """The ε that an error message advises is one that would be admitted, and hardly less than the most that would."""

    @staticmethod
    def admitted(state: AccountState, cost: Cost, neighbours: Neighbours) -> bool:
        paid = cost.to(state.terms.neighbours, neighbours)
        return dataclasses.replace(state, whole=state.spent.plus(paid)).is_admitted()

    def test_basic_gives_all_that_is_left(self) -> None:
        state = AccountState(BASIC, Spent.of([pure_cost(0.1)] * 3), 4)
        assert state.affordable_epsilon(pure_cost(5.0), "replace-one") == 2.7
        assert state.affordable_epsilon(approximate_cost(5.0, 1e-6), "replace-one") == 2.7
        assert state.affordable_epsilon(gaussian_cost(5.0, 1e-6), "replace-one") == 2.7

    def test_basic_gives_half_for_add_remove(self) -> None:
        state = AccountState(BASIC, Spent.of([pure_cost(0.1)] * 3), 4)
        assert state.affordable_epsilon(pure_cost(5.0), "add-remove") == 1.35

    def test_nothing_when_delta_is_too_large(self) -> None:
        state = AccountState(BASIC, Spent.of([pure_cost(0.1)] * 3), 4)
        assert state.affordable_epsilon(approximate_cost(5.0, 1.1e-6), "replace-one") == 0.0
        assert state.affordable_epsilon(gaussian_cost(5.0, 1.1e-6), "replace-one") == 0.0

    def test_nothing_when_nothing_is_left(self) -> None:
        for spent in (Fraction(3), Fraction(4)):
            assert AccountState(BASIC, Spent(spent), 2).affordable_epsilon(pure_cost(1.0), "replace-one") == 0.0

    def test_an_epsilon_whose_delta_fits_after_conversion(self) -> None:
        # (1+e^ε)·4e-7 is within 1e-6 only while ε ≤ ln 1.5, although 3/2 would be left for ε.
        epsilon = AccountState(BASIC, Spent(), 1).affordable_epsilon(approximate_cost(5.0, 4e-7), "add-remove")
        assert epsilon == pytest.approx(math.log(1.5), rel=1e-9)
        assert epsilon <= math.log(1.5)

    def test_epsilons_so_large_that_no_delta_is_left(self) -> None:
        terms = dataclasses.replace(BASIC, budget=Budget.of(1000.0, 1e-3))
        epsilon = AccountState(terms, Spent(), 1).affordable_epsilon(approximate_cost(5.0, 1e-5), "add-remove")
        assert epsilon == pytest.approx(math.log(99), rel=1e-9)

    def test_a_sampler_that_is_not_close_enough(self) -> None:
        terms = dataclasses.replace(GAUSSIAN, budget=Budget.of(1.0, 1e-6, "gaussian", 1e-14))
        near, far = (gaussian_cost(5.0, 1e-6, Fraction(1, 2**bits)) for bits in (50, 48))
        state = AccountState(terms, Spent(), 1)
        assert state.affordable_epsilon(near, "add-remove") == pytest.approx(1.0, rel=1e-4)
        assert state.affordable_epsilon(far, "add-remove") == 0.0

    @pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
    @pytest.mark.parametrize("cost", [pure_cost(5.0), approximate_cost(5.0, 1e-8), gaussian_cost(5.0, 1e-6)])
    @pytest.mark.parametrize(
        "before",
        [[], [pure_cost(0.1)], [gaussian_cost(0.5, 1e-6)], [pure_cost(0.001)] * 300],
        ids=["new", "pure", "gaussian", "small"],
    )
    def test_gaussian_advice_would_be_admitted_and_is_not_timid(
        self, before: list[Cost], cost: Cost, neighbours: Neighbours
    ) -> None:
        terms = dataclasses.replace(GAUSSIAN, neighbours="replace-one")
        state = AccountState(terms, Spent.of(before), 1)
        epsilon = state.affordable_epsilon(cost, neighbours)

        def like(epsilon: float) -> Cost:
            if cost.mu is None:
                return Cost(exact(epsilon), cost.delta)
            return gaussian_cost(epsilon, 1e-6)

        assert epsilon > 0
        assert self.admitted(state, like(epsilon), neighbours)
        assert not self.admitted(state, like(epsilon * (1 + 1e-6)), neighbours)

    def test_nothing_when_no_gaussian_charge_fits_any_more(self) -> None:
        state = AccountState(GAUSSIAN, Spent.of([pure_cost(0.5)]), 1)
        assert state.affordable_epsilon(gaussian_cost(5.0, 1e-6), "add-remove") == 0.0

    def test_gaussian_advice_for_pure_charges_is_at_least_the_plain_rest(self) -> None:
        state = AccountState(GAUSSIAN, Spent.of([pure_cost(0.4)]), 1)
        assert state.affordable_epsilon(pure_cost(5.0), "add-remove") == pytest.approx(0.6, rel=1e-9)


class TestReplay:
    def test_an_empty_ledger_has_no_accounts(self) -> None:
        assert replayed([]) == {}
        assert replayed(history()[:1]) == {}

    def test_entries_add_up(self) -> None:
        larger = dataclasses.replace(BASIC, budget=Budget.of(4.0, 1e-6))
        entries = history(
            charged(2, pure_cost(1.0)),
            entry(3, "open", GAUSSIAN.to_dict(), "b"),
            charged(4, gaussian_cost(0.1, 1e-7), "b"),
            entry(5, "disclosure", {}),
            entry(6, "release", {"charge": 2, "content": "x"}),
            entry(7, "result", {"charge": 4, "content": "y"}, "b"),
            entry(8, "raise", {**larger.to_dict(), "reason": "x"}),
            charged(9, pure_cost(3.0)),
        )
        assert replayed(entries) == {
            "a": AccountState(larger, Spent.of([pure_cost(1.0), pure_cost(3.0)]), 6),
            "b": AccountState(GAUSSIAN, Spent.of([gaussian_cost(0.1, 1e-7)]), 3),
        }

    def test_an_account_is_bound_once(self) -> None:
        entries = history(entry(2, "bind", {"source": "/data/a.csv", "files": ["1:2:3:4"]}))
        bound = dataclasses.replace(BASIC, bound="/data/a.csv", files=("1:2:3:4",))
        assert replayed(entries) == {"a": AccountState(bound, Spent(), 2)}
        assert bound.pays_for == Source("/data/a.csv", ("1:2:3:4",))
        assert bound.sources == (bound.pays_for, Source(BASIC.source))
        assert AccountState.from_text(replayed(entries)["a"].to_text()) == replayed(entries)["a"]

    @pytest.mark.parametrize(
        ("entries", "reason"),
        [
            ([charged(2, pure_cost(3.1))], "Entry 2 of the ledger overspends its account."),
            ([charged(2, pure_cost(2.0)), charged(3, pure_cost(1.1))], "Entry 3 of the ledger overspends its account."),
            ([charged(2, pure_cost(1.0), "b")], "Entry 2 of the ledger cannot be read."),
            ([entry(2, "charge", {})], "Entry 2 of the ledger cannot be read."),
            ([entry(2, "charge", {"cost": 5})], "Entry 2 of the ledger cannot be read."),
            (
                [entry(2, "charge", {"cost": {**pure_cost(1.0).to_dict(), "epsilon": "1/0"}})],
                "Entry 2 of the ledger cannot be read.",
            ),
            (
                [entry(2, "charge", {"cost": {**pure_cost(1.0).to_dict(), "mu": "0x1p99999"}})],
                "Entry 2 of the ledger cannot be read.",
            ),
            ([entry(2, "gift", {})], "Entry 2 of the ledger cannot be read."),
            ([entry(2, "raise", BASIC.to_dict())], "Entry 2 of the ledger cannot be read."),
            ([entry(2, "open", {}, "b")], "Entry 2 of the ledger cannot be read."),
            ([entry(2, "ledger", {}, "")], "Entry 2 of the ledger is out of place."),
            (
                [entry(2, "open", GAUSSIAN.to_dict())],
                "Entry 2 of the ledger opens an account or a source a second time.",
            ),
            (
                [entry(2, "open", BASIC.to_dict(), "b")],
                "Entry 2 of the ledger opens an account or a source a second time.",
            ),
            (
                [entry(2, "release", {"charge": 1, "content": "x"})],
                "Entry 2 of the ledger releases what was not charged.",
            ),
            (
                [entry(2, "release", {"charge": 3, "content": "x"})],
                "Entry 2 of the ledger releases what was not charged.",
            ),
            ([entry(2, "release", {})], "Entry 2 of the ledger cannot be read."),
            (
                [charged(2, pure_cost(1.0)), entry(3, "release", {"charge": [], "content": "x"})],
                "Entry 3 of the ledger cannot be read.",
            ),
            (
                [
                    charged(2, pure_cost(1.0)),
                    entry(3, "release", {"charge": 2, "content": "x"}),
                    entry(4, "release", {"charge": 2, "content": "y"}),
                ],
                "Entry 4 of the ledger releases what was not charged.",
            ),
            (
                [
                    charged(2, pure_cost(1.0)),
                    entry(3, "open", GAUSSIAN.to_dict(), "b"),
                    entry(4, "release", {"charge": 2, "content": "x"}, "b"),
                ],
                "Entry 4 of the ledger releases what was not charged.",
            ),
            (
                [entry(2, "disclosure", {}), entry(3, "release", {"charge": 2, "content": "x"})],
                "Entry 3 of the ledger releases what was not charged.",
            ),
            (
                [entry(2, "disclosure", {}), entry(3, "result", {"charge": 2, "content": "x"})],
                "Entry 3 of the ledger releases what was not charged.",
            ),
            (
                [
                    charged(2, pure_cost(1.0)),
                    entry(3, "result", {"charge": 2, "content": "x"}),
                    entry(4, "result", {"charge": 2, "content": "x"}),
                ],
                "Entry 4 of the ledger releases what was not charged.",
            ),
            (
                [
                    charged(2, pure_cost(1.0)),
                    entry(3, "result", {"charge": 2, "content": "x"}),
                    entry(4, "release", {"charge": 2, "content": "y"}),
                ],
                "Entry 4 of the ledger releases what was not computed.",
            ),
            ([entry(2, "bind", {"source": "a name", "files": []})], "Entry 2 of the ledger cannot be read."),
            ([entry(2, "bind", {"source": "/data/a.csv"})], "Entry 2 of the ledger cannot be read."),
            (
                [entry(position, "bind", {"source": "/data/a.csv", "files": []}) for position in (2, 3)],
                "Entry 3 of the ledger cannot be read.",
            ),
            (
                [
                    entry(2, "bind", {"source": "/data/a.csv", "files": []}),
                    entry(3, "open", GAUSSIAN.to_dict(), "b"),
                    entry(4, "bind", {"source": "/data/a.csv", "files": []}, "b"),
                ],
                "Entry 4 of the ledger opens an account or a source a second time.",
            ),
            ([entry(2, "open", {**GAUSSIAN.to_dict(), "files": "x"}, "b")], "Entry 2 of the ledger cannot be read."),
            ([entry(2, "open", {**GAUSSIAN.to_dict(), "files": [1]}, "b")], "Entry 2 of the ledger cannot be read."),
            ([entry(2, "open", {**GAUSSIAN.to_dict(), "bound": 1}, "b")], "Entry 2 of the ledger cannot be read."),
        ],
    )
    def test_entries_that_were_never_allowed(self, entries: list[Entry], reason: str) -> None:
        with pytest.raises(LedgerCorrupt) as caught:
            replayed(history(*entries))
        assert caught.value.problem == reason
        assert caught.value.remedy == LedgerCorrupt.help

    def test_the_first_entry_begins_the_ledger(self) -> None:
        with pytest.raises(LedgerCorrupt, match="Entry 0 of the ledger is out of place"):
            replayed([entry(0, "open", BASIC.to_dict())])

    def test_exactly_full_is_not_overspent(self) -> None:
        assert replayed(history(*(charged(2 + index, pure_cost(0.1)) for index in range(30))))["a"].entries == 31
