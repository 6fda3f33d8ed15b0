"""Private selection as users meet it: one charge, a releasable winner, clear refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from sudare.errors import BudgetExceeded, DataError, InvalidParameter, NotCharged, SeededNoiseRefused, SourceMismatch
from sudare.experts import PrivateExponentialWeights
from sudare.frames import read
from sudare.gibbs import GibbsPosterior
from sudare.perturbation import RecordPerturbation
from sudare.privacy import Guarantee, Ledger, Release
from sudare.privacy import candidate_selection as room
from sudare.privacy.accounting import decimal_up, exact
from sudare.privacy.candidate_selection import select_privately, selection_plan
from sudare.privacy.fit_plan import Plan
from sudare.privacy.noise import SeededNoise, SystemNoise
from sudare.schema import Number, Person, Schema
from sudare.statistics import PrivateHistogram, PrivateMean


@pytest.fixture
def account(tmp_path):
    return Ledger(tmp_path / "ledger.db").account("table", epsilon=3.0)


def table(rows: int = 200) -> np.ndarray:
    return np.random.default_rng(0).uniform(0, 100, size=(rows, 1))


def candidates(*bins: int) -> list[PrivateHistogram]:
    return [PrivateHistogram(bounds=(0, 100), bins=count) for count in bins]


def more_bins_are_better(model, X, y):
    return np.full(len(X), len(model.counts_["x0"]) / 10)


class CostsMore(PrivateMean):
    """Promises a record three times what its epsilon says."""

    def plan(self, rows, declared):
        tripled = decimal_up(3 * exact(self.epsilon))
        return Plan(PrivateMean(tripled).plan(rows, declared).mechanism, self._guarantee(declared, tripled))


class NotPure(PrivateMean):
    """Plans with a delta that its parameter does not tell."""

    def plan(self, rows, declared):
        return PrivateMean(self.epsilon, 1e-6).plan(rows, declared)


class Undeclared(PrivateMean):
    """Something of it is read off the records."""

    def _undeclared(self):
        return "centre"


def test_charged_once_and_releasable(account, tmp_path):
    selected = select_privately(
        candidates(2, 4, 8), table(), epsilon=1.5, row_scores=more_bins_are_better, account=account
    )
    assert account.spent() == (1.5, 0.0)
    charges = [entry for entry in account.entries() if entry.kind == "charge"]
    assert len(charges) == 1
    assert charges[0].body["what"] == "select_privately"
    assert charges[0].body["purpose"] == "choice among 3 candidates"
    assert selected.guarantee == selected.model.guarantee_ == Guarantee(1.5)
    assert len(selected.model.counts_["x0"]) == (2, 4, 8)[selected.candidate]
    assert selected.model.epsilon == 1.5
    assert selected.model.account is account
    key = Ed25519PrivateKey.generate()
    Release.of(selected.model).save(tmp_path / "winner.sudare", key=key)
    assert Release.load(tmp_path / "winner.sudare", trusted=[key.public_key()]).guarantee == Guarantee(1.5)


def test_a_model_is_only_looked_at_while_it_is_scored(account):
    def changed(model, X, y):
        model.counts_ = {name: counts + 1 for name, counts in model.counts_.items()}
        return np.ones(len(X))

    with pytest.raises(NotCharged, match="row_scores changed the model"):
        select_privately(candidates(2, 4), table(), epsilon=1.5, row_scores=changed, account=account)
    assert [entry.kind for entry in account.entries()] == ["open", "charge"]


def test_clear_winner_wins():
    """With scores 0 and 1 on 2,000 rows noise does not turn the order; only all tries on the worse one do: 15 in 100."""
    wins = [
        select_privately(
            candidates(2, 10),
            table(2000),
            epsilon=4.0,
            row_scores=lambda model, X, y: np.full(len(X), float(len(model.counts_["x0"]) == 10)),
            tries_parameter=100,
            random_state=seed,
        ).candidate
        for seed in range(20)
    ]
    assert sum(wins) >= 12


def test_each_try_gets_its_share(monkeypatch):
    seen = []
    original = PrivateHistogram.fit

    def recorded(self, X, y=None):
        seen.append((self.epsilon, self.account))
        return original(self, X, y)

    monkeypatch.setattr(PrivateHistogram, "fit", recorded)
    made = []
    monkeypatch.setattr(
        room, "Laplace", lambda *arguments, **named: made.append(arguments) or Laplace(*arguments, **named)
    )
    from sudare.privacy.mechanisms import Laplace

    select_privately(
        candidates(2), table(), epsilon=1.0, row_scores=more_bins_are_better, score_share=0.2, random_state=1
    )
    assert set(seen) == {(0.4, None)}
    assert made == [(1.0, 0.1)]


def test_without_account_it_works_but_does_not_leave():
    selected = select_privately(candidates(2, 4), table(), epsilon=1.0, row_scores=more_bins_are_better)
    assert selected.guarantee.valid
    with pytest.raises(NotCharged):
        Release.of(selected.model)


def test_seeded_is_reproducible_and_not_valid():
    first, second = (
        select_privately(candidates(2, 4, 8), table(), epsilon=1.0, row_scores=more_bins_are_better, random_state=7)
        for _ in range(2)
    )
    assert first.candidate == second.candidate
    np.testing.assert_array_equal(first.model.counts_["x0"], second.model.counts_["x0"])
    assert not first.guarantee.valid


def test_person_level():
    schema = Schema({"age": Number(0, 100)}, person=Person("who", 3))
    frame = pd.DataFrame({"age": table()[:, 0], "who": np.arange(200) // 3})
    selected = select_privately(
        [PrivateMean(schema=schema)], frame, epsilon=1.0, row_scores=lambda model, X, y: np.ones(len(X)), random_state=0
    )
    assert selected.guarantee.unit == "person"


def test_score_noise_covers_a_persons_rows_on_the_grid_of_the_sums():
    noise = room.ScoreNoise(200, 3, 0.5)
    assert noise.mechanism.noise_scale == pytest.approx(6.0)
    assert noise.mechanism.grid == noise.step == 2.0**-30


@pytest.mark.parametrize(("person", "rows"), [(None, 1), (Person("who", 3), 3)])
def test_score_noise_knows_the_unit(monkeypatch, person, rows):
    made = []
    original = room.ScoreNoise
    monkeypatch.setattr(room, "ScoreNoise", lambda *arguments: made.append(arguments) or original(*arguments))
    frame = pd.DataFrame({"age": table()[:, 0], "who": np.arange(200) // 3})
    select_privately(
        [PrivateMean(schema=Schema({"age": Number(0, 100)}, person=person))],
        frame,
        epsilon=1.0,
        row_scores=lambda model, X, y: np.ones(len(X)),
        random_state=0,
    )
    assert made == [(200, rows, 0.25)]


def test_scores_are_clipped_and_nan_is_zero():
    noise = room.ScoreNoise(4, 1, 1e12)
    assert noise.noisy_sum(["2.0", "-1.0", "nan", "0.5"], SeededNoise(0)) == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"candidates": []}, "There is no candidate to choose from. Give at least one estimator."),
        (
            {"candidates": [PrivateHistogram(delta=1e-6, bounds=(0, 1))]},
            "A candidate has delta > 0; selection is for pure guarantees. Set delta=0.",
        ),
        (
            {"candidates": [PrivateHistogram(neighbours="add-remove", bounds=(0, 1))]},
            'A candidate is not for replace-one neighbours. Set neighbours="replace-one".',
        ),
        (
            {"candidates": [PrivateMean(bounds=(0, 1)), PrivateMean(schema=Schema({"x": Number(0, 1)}))]},
            "The candidates have different schemas. Give all of them the same one.",
        ),
        (
            {"candidates": [make_pipeline(PrivateMean(bounds=(0, 1)))]},
            "A candidate is not a private estimator of sudare. Give estimators themselves: no pipelines, no searches.",
        ),
        (
            {"candidates": [RecordPerturbation(bounds=(0, 100), epsilon=1.0)]},
            "RecordPerturbation has a local guarantee for replace-one neighbours; choosing by scores of the whole table keeps "
            "a central one for replaced rows only. Leave it out.",
        ),
        (
            {"candidates": [CostsMore(bounds=(0, 100)), PrivateMean(bounds=(0, 100))]},
            "All tries together would promise a record ε = 2, and 1 was asked for: a candidate's ε is not that of a record. "
            "Leave out candidates whose epsilon protects less than a record. Nothing was charged.",
        ),
        (
            {"candidates": [NotPure(bounds=(0, 100))]},
            "NotPure is not pure: its plan has delta > 0. Choose among pure guarantees.",
        ),
        (
            {"candidates": [PrivateMean(bounds=(0, 100)), Undeclared(bounds=(0, 100))]},
            "Undeclared is to be charged to an account, and centre was not given: read off the records, it would void the "
            "guarantee, and nothing could leave. Nothing was charged. Give centre=… by public knowledge, or a schema that "
            "declares the target.",
        ),
        *(
            ({"X": rows}, "Choosing among candidates needs the rows in memory. Give a table.")
            for rows in ("table.csv", iter([table()]), 7)
        ),
        ({"score_share": 0.0}, "score_share must lie between 0 and 1, got 0.0. Use for example 0.5."),
        ({"score_share": 1.0}, "score_share must lie between 0 and 1, got 1.0. Use for example 0.5."),
        ({"tries_parameter": 1}, "tries_parameter must be a whole number, at least 2. Use for example 20."),
        ({"tries_parameter": 2.5}, "tries_parameter must be a whole number, at least 2. Use for example 20."),
        ({"tries_parameter": True}, "tries_parameter must be a whole number, at least 2. Use for example 20."),
    ],
)
def test_refusals_charge_nothing(account, change, message):
    arguments = {
        "candidates": candidates(2),
        "X": table(),
        "epsilon": 1.0,
        "row_scores": more_bins_are_better,
        **change,
    }
    with pytest.raises(InvalidParameter) as refusal:
        select_privately(account=account, **arguments)
    assert str(refusal.value) == message
    assert account.spent() == (0.0, 0.0)


class Scripted:
    """A source whose whole numbers are written down beforehand."""

    valid = False

    def __init__(self, *numbers):
        self.numbers = list(numbers)
        self.limits = []

    def integer_below(self, limit):
        self.limits.append(limit)
        return self.numbers.pop(0)


@pytest.mark.parametrize(
    ("numbers", "tries", "limits"),
    [
        ([0, 0], 1, [9, 1]),
        ([3, 1, 0, 0], 3, [9, 9, 9, 3]),
        ([4, 0, 1, 5, 5, 0, 2, 0, 0], 1, [9, 9, 2, 9, 9, 9, 3, 9, 1]),
    ],
)
def test_draw_is_a_geometric_number_kept_with_one_over_itself(numbers, tries, limits):
    noise = Scripted(*numbers)
    assert room.logarithmic_draw(9, noise) == tries
    assert noise.limits == limits
    assert noise.numbers == []


def test_best_score_wins_whatever_its_place(monkeypatch):
    """Three tries on candidates 1, 0, 2; the noise is too small to matter and candidate 0 scores best."""
    monkeypatch.setattr(room, "logarithmic_draw", lambda parameter, noise: 3)
    order = iter([1, 0, 2])

    def below(self, limit):
        return next(order) if limit == 3 else 5

    monkeypatch.setattr(SeededNoise, "integer_below", below)
    score = {2: 1.0, 4: 0.2, 8: 0.4}
    selected = select_privately(
        candidates(2, 4, 8),
        table(),
        epsilon=1e6,
        row_scores=lambda model, X, y: np.full(len(X), score[len(model.counts_["x0"])]),
        random_state=0,
    )
    assert selected.candidate == 0


def test_data_and_targets_reach_fit_and_score(monkeypatch):
    seen = []
    original = PrivateHistogram.fit

    def recorded(self, X, y=None):
        seen.append(("fit", len(X), y, self.account, self.random_state))
        return original(self, X, y)

    monkeypatch.setattr(PrivateHistogram, "fit", recorded)

    def scores(model, X, y):
        seen.append(("score", len(X), y, None, None))
        return np.ones(len(X))

    monkeypatch.setattr(room, "logarithmic_draw", lambda parameter, noise: 1)
    with_own_seed = PrivateHistogram(bounds=(0, 100), random_state=3)
    selected = select_privately([with_own_seed], table(), "targets", epsilon=1.0, row_scores=scores)
    assert seen == [("fit", 200, "targets", None, None), ("score", 200, "targets", None, None)]
    assert selected.model.random_state is None


def test_a_candidates_own_account_is_not_charged(account, tmp_path):
    other = Ledger(tmp_path / "other.db").account("other", epsilon=1.0)
    select_privately(
        [PrivateHistogram(bounds=(0, 100), account=other)],
        table(),
        epsilon=1.0,
        row_scores=more_bins_are_better,
        account=account,
    )
    assert other.spent() == (0.0, 0.0)


def test_tries_draw_from_the_noise_of_the_selection(monkeypatch):
    """One stream for all: a seed repeats the whole selection, and no try has a seed or noise of its own."""
    lent, drawn = [], []
    original = PrivateHistogram.fit

    def recorded(self, X, y=None):
        assert self.random_state is None
        lent.append(self._lent_noise)
        fitted = original(self, X, y)
        drawn.append(tuple(fitted.counts_["x0"].tolist()))
        return fitted

    monkeypatch.setattr(PrivateHistogram, "fit", recorded)
    monkeypatch.setattr(room, "logarithmic_draw", lambda parameter, noise: 30)
    selected = select_privately(
        candidates(2), table(), epsilon=0.01, row_scores=more_bins_are_better, random_state=np.random.RandomState(1)
    )
    assert len(set(drawn)) == 30
    assert all(noise is lent[0] and isinstance(noise, SeededNoise) for noise in lent)
    assert selected.model.random_state is None


def test_a_valid_selection_draws_from_the_operating_system(monkeypatch):
    seen = []
    original = PrivateHistogram._passage

    def recorded(self, plan, mark, purpose):
        passage = original(self, plan, mark, purpose)
        seen.append((type(passage.noise), passage.guarantee.valid, passage.receipt))
        return passage

    monkeypatch.setattr(PrivateHistogram, "_passage", recorded)
    select_privately(candidates(2), table(), epsilon=1.0, row_scores=more_bins_are_better)
    assert set(seen) == {(SystemNoise, True, None)}


def test_a_table_of_columns_has_as_many_rows_as_a_column():
    schema = Schema({"age": Number(0, 100), "height": Number(0, 2)})
    columns = {"age": table()[:, 0], "height": np.ones(200)}
    plan = selection_plan([PrivateMean(schema=schema)], columns, epsilon=1.0)
    assert plan.mechanism.scores.rows == 200
    for nothing in ({}, [], table(0)):
        with pytest.raises(DataError, match="no rows"):
            selection_plan([PrivateMean(schema=schema)], nothing, epsilon=1.0)


def test_a_plan_tells_what_all_tries_promise():
    plan = selection_plan(candidates(2, 4), table(), epsilon=0.7, score_share=0.3)
    selection = plan.mechanism
    assert plan.guarantee == Guarantee(0.7)
    assert selection.cost.epsilon == exact(0.7)
    fit, score = selection.candidates[0].epsilon, selection.scores.mechanism.epsilon
    assert selection.composed_epsilon == 2 * (exact(fit) + exact(score)) <= exact(0.7)
    assert selection.noise_scale == pytest.approx(1 / score)
    voided = selection_plan([PrivateMean(bounds=(0, 1)), Undeclared(bounds=(0, 1))], table(), epsilon=1.0)
    assert voided.guarantee == Guarantee(1.0, valid=False)


def test_one_void_try_voids_the_whole():
    chosen = select_privately(
        [PrivateMean(bounds=(0, 100)), Undeclared(bounds=(0, 100))],
        table(),
        epsilon=1.0,
        row_scores=lambda model, X, y: np.full(len(X), float(type(model) is PrivateMean)),
        tries_parameter=1000,
    )
    assert chosen.guarantee == chosen.model.guarantee_ == Guarantee(1.0, valid=False)


@pytest.mark.parametrize("data", [np.ones((3, 1)), "targets", None, {"a": [1.0]}])
def test_a_copy_shares_nothing(data):
    copied = room.own_copy(data)
    assert type(copied) is type(data)
    assert str(copied) == str(data)
    assert copied is data if data is None or isinstance(data, str) else copied is not data


def test_a_table_that_cannot_be_copied_costs_nothing(account):
    class Stuck(np.ndarray):
        def __deepcopy__(self, memo):
            raise TypeError("no")

    with pytest.raises(InvalidParameter, match="a table that can be copied; nothing was charged"):
        select_privately(
            candidates(2), table().view(Stuck), epsilon=1.0, row_scores=more_bins_are_better, account=account
        )
    assert account.spent() == (0.0, 0.0)


def test_a_derived_class_is_no_candidate_of_an_account(account):
    class Derived(PrivateMean):
        """Computes whatever it likes."""

    arguments = {"epsilon": 1.0, "row_scores": lambda model, X, y: np.ones(len(X))}
    with pytest.raises(InvalidParameter, match="Derived is not a learner of sudare itself"):
        select_privately([Derived(bounds=(0, 100))], table(), account=account, **arguments)
    assert account.spent() == (0.0, 0.0)
    assert select_privately([Derived(bounds=(0, 100))], table(), **arguments).guarantee.valid


def test_what_scores_a_model_reaches_neither_it_nor_the_rows_of_the_fits(monkeypatch):
    monkeypatch.setattr(room, "logarithmic_draw", lambda parameter, noise: 5)
    X, shown = table(), []

    def scores(model, rows, targets):
        rows[:] = 0.0
        shown.append(model)
        return np.ones(len(rows))

    chosen = select_privately([PrivateMean(bounds=(0, 100))], X, epsilon=1e6, row_scores=scores, random_state=0)
    assert chosen.model.mean_ == pytest.approx(table().mean(axis=0), abs=0.01)
    assert chosen.model not in shown
    assert np.all(X == 0.0)


def test_a_try_that_was_not_chosen_has_no_receipt(account):
    kept = []
    chosen = select_privately(
        candidates(2),
        table(),
        epsilon=1.0,
        row_scores=lambda model, X, y: kept.append(model) or np.ones(len(X)),
        tries_parameter=100,
        account=account,
    )
    for model in kept:
        if model is not chosen.model:
            assert model.receipt_ is None
            with pytest.raises(NotCharged):
                Release.of(model.set_params(account=account))


def test_smallest_tries_parameter_is_taken():
    select_privately(
        candidates(2), table(), epsilon=1.0, row_scores=more_bins_are_better, tries_parameter=2, random_state=0
    )


def test_wrong_number_of_scores():
    with pytest.raises(DataError) as refusal:
        select_privately(candidates(2), table(), epsilon=1.0, row_scores=lambda *_: np.ones(3), random_state=0)
    message = "row_scores must give one number a row (200). Return an array with one score a row."
    assert str(refusal.value) == message


def test_over_budget_and_seed_with_account(account):
    with pytest.raises(BudgetExceeded):
        select_privately(candidates(2), table(), epsilon=4.0, row_scores=more_bins_are_better, account=account)
    with pytest.raises(SeededNoiseRefused):
        select_privately(
            candidates(2), table(), epsilon=1.0, row_scores=more_bins_are_better, account=account, random_state=0
        )
    assert account.spent() == (0.0, 0.0)


def test_default_number_of_tries(monkeypatch):
    seen = []
    monkeypatch.setattr(room, "logarithmic_draw", lambda parameter, noise: seen.append(parameter) or 1)
    select_privately(candidates(2, 3, 4), table(), epsilon=1.0, row_scores=more_bins_are_better, random_state=0)
    assert seen == [12]


def test_an_account_pays_for_choices_from_its_own_source_only(tmp_path):
    for name in ("own", "other"):
        pd.DataFrame({"age": [20.0, 30.0, 40.0]}).to_parquet(tmp_path / f"{name}.parquet")
    account = Ledger(tmp_path / "ledger.db").account("own", epsilon=3.0, source=tmp_path / "own.parquet")
    schema = Schema({"age": Number(0, 110)})
    means = [PrivateMean(schema=schema)]
    with pytest.raises(SourceMismatch):
        select_privately(
            means, read(tmp_path / "other.parquet"), epsilon=1.0, row_scores=lambda *_: np.ones(3), account=account
        )
    assert account.spent() == (0.0, 0.0)
    select_privately(
        means, read(tmp_path / "own.parquet"), epsilon=1.0, row_scores=lambda *_: np.ones(3), account=account
    )
    assert account.spent() == (1.0, 0.0)


def squared_distance(theta, X):
    return 0.5 * ((theta - X) ** 2).sum(axis=1)


def summed_pull(theta, X):
    return (theta - X).sum(axis=0)


def test_what_a_candidate_asks_for_with_an_account_is_asked_for_when_the_selection_has_one(account):
    X = np.zeros((20, 1))
    rough = GibbsPosterior(squared_distance, summed_pull, delta=0.0, loss_range=(0, 2), radius=1.0)
    with pytest.raises(InvalidParameter, match="smoothness"):
        select_privately([rough], X, epsilon=1.0, row_scores=lambda model, X, y: np.zeros(len(X)), account=account)
    y = np.arange(20) % 2
    own = PrivateExponentialWeights([DecisionTreeClassifier().fit(X, y)])
    with pytest.raises(InvalidParameter, match="not a release"):
        select_privately([own], X, y, epsilon=1.0, row_scores=lambda model, X, y: np.zeros(len(X)), account=account)
    assert account.spent().epsilon == 0
