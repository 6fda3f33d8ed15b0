"""Gibbs linear models: samplers, draws, tables, refusals, extreme promises."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from sudare.errors import (
    BudgetExceeded,
    DataError,
    InvalidCost,
    InvalidParameter,
    NotCharged,
    NotSolved,
    SeededNoiseRefused,
)
from sudare.experts import MirrorAveraging
from sudare.frames.rows import Rows
from sudare.gibbs import GibbsLogisticRegression, GibbsRidge
from sudare.gibbs.default_penalties import public_penalty
from sudare.gibbs.gaussian_envelope import ball_cost
from sudare.gibbs.mechanisms import FIXED_PROPOSALS, LogisticDraws
from sudare.linear.losses import Logistic
from sudare.linear.mechanism import Facts
from sudare.privacy import Ledger, Release
from sudare.schema import Person, Schema
from tests.gibbs.tables import KEY, SCHEMA, patients, separable


@pytest.mark.parametrize("sampler", ["auto", "exact", "proximal"])
@pytest.mark.parametrize("classes", [2, 3])
def test_every_sampler_learns(sampler, classes):
    X, y = separable(2000, classes=classes)
    fitted = GibbsLogisticRegression(8.0, 1e-5, sampler=sampler, classes=range(classes), random_state=0).fit(X, y)
    assert fitted.score(X, y) > (0.9 if classes == 2 else 0.75)
    assert fitted.sampler_ == ("proximal" if sampler == "proximal" else "exact")
    assert 0 < fitted.acceptance_ <= 1
    assert fitted.total_variation_ == 0 if sampler == "exact" else 0 < fitted.total_variation_ <= 1e-10
    assert fitted.draws_.shape == (1, 1 if classes == 2 else 3, 4)
    assert fitted.pac_bayes_bound_ <= 1
    np.testing.assert_array_equal(fitted.parameters_, fitted.draws_[0])
    np.testing.assert_array_equal(fitted.parameters_ / fitted.grid_, np.rint(fitted.parameters_ / fitted.grid_))
    assert np.argmax(fitted.predict_proba(X), axis=1).tolist() == fitted.predict(X).tolist()


def test_several_draws_share_the_budget_and_predict_by_their_mean_score():
    X, y = separable()
    one = GibbsLogisticRegression(5.0, 1e-5, classes=[0, 1], regularization=0.1, random_state=0).fit(X, y)
    four = clone(one).set_params(draws=4).fit(X, y)
    assert four.inverse_temperature_ == pytest.approx(one.inverse_temperature_ / 4)
    assert four.guarantee_ == one.guarantee_
    assert four.total_variation_ <= one.total_variation_ * (1 + 1e-3)
    bias = four._layout(four.declared_).bias
    scores = np.mean([X @ draw[0, :-1] + bias * draw[0, -1] for draw in four.draws_], axis=0)
    np.testing.assert_allclose(four.decision_function(X), scores, atol=2 * four.grid_)


def test_the_public_rule_looks_at_public_facts_only():
    facts = Facts(1000, 5, 2.0, Logistic(), 0.0)
    assert public_penalty(facts, 1.0, 1e-5) == pytest.approx(14 * 4 / math.sqrt(0.26805), rel=1e-4)
    assert public_penalty(facts, 1.0, 1e-5, draws=16) == pytest.approx(2 * public_penalty(facts, 1.0, 1e-5))
    persons = replace(facts, rows_per_unit=4)
    assert public_penalty(persons, 1.0, 1e-5) == pytest.approx(2 * public_penalty(facts, 1.0, 1e-5))
    # With very many rows it is never so small that rounding could swallow it.
    many = replace(facts, rows=10**7)
    assert public_penalty(many, 1.0, 1e-5) > 3 * public_penalty(facts, 1.0, 1e-5)
    drawn = LogisticDraws(replace(many, penalty=public_penalty(many, 1.0, 1e-5)), 1.0, 1e-5, sampler="auto")
    assert drawn.cost.mu is not None
    assert drawn.proximal_plan is not None


def test_the_bias_counts_into_the_norm():
    X, y = separable()
    with_bias = GibbsLogisticRegression(1.0, classes=[0, 1], regularization=0.1, random_state=0).fit(X, y)
    without = clone(with_bias).set_params(fit_intercept=False).fit(X, y)
    assert with_bias.inverse_temperature_ == pytest.approx(without.inverse_temperature_ / 1.25)
    assert with_bias.intercept_ != 0


def test_fixed_work_makes_the_number_of_proposals_constant(monkeypatch):
    import sudare.gibbs.mechanisms as room

    made = []
    plain = room.exact_draws

    def counted(*arguments, **named):
        drawn = plain(*arguments, **named)
        made.append(drawn.proposals)
        return drawn

    monkeypatch.setattr(room, "exact_draws", counted)
    X, y = separable(60)
    for seed in range(3):
        model = GibbsLogisticRegression(1.0, classes=[0, 1], fixed_work=True, random_state=seed).fit(X, y)
        assert model.sampler_ == "exact"
        assert model.total_variation_ == 0
    assert made == [FIXED_PROPOSALS] * 3
    with pytest.raises(InvalidParameter, match="no fixed work"):
        GibbsLogisticRegression(classes=[0, 1], fixed_work=True, sampler="proximal").fit(X, y)


def test_the_chain_takes_over_where_the_exact_sampler_gives_up(monkeypatch):
    import sudare.gibbs.mechanisms as room

    def refuse(*arguments):
        raise NotSolved("too few.", "…")

    monkeypatch.setattr(room, "exact_draws", refuse)
    X, y = separable(60)
    model = GibbsLogisticRegression(1.0, classes=[0, 1], random_state=0).fit(X, y)
    assert model.sampler_ == "proximal"


def test_a_hopeless_posterior_is_not_tried_exactly():
    """Many columns and hardly a penalty: rejection would take for ever, the chain is planned to end."""
    random = np.random.default_rng(0)
    X = random.normal(size=(3000, 60))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = X[:, 0] > 0
    lean = GibbsLogisticRegression(2.0, 1e-5, classes=[False, True], regularization=1e-3, random_state=0)
    with pytest.raises(InvalidParameter, match="too many proposals"):
        clone(lean).set_params(sampler="exact").fit(X, y)
    rows = lean._read_rows(X, y)
    method = lean.plan(rows.count, lean.declared_).mechanism
    assert method.proximal_plan.steps < 20_000


def test_ridge_learns_in_the_unit_of_the_target():
    random = np.random.default_rng(0)
    X = random.uniform(-0.5, 0.5, size=(3000, 2))
    y = 100 + 60 * X[:, 0] - 30 * X[:, 1] + random.normal(size=3000)
    fitted = GibbsRidge(20.0, 1e-5, target_bounds=(50, 150), radius=4.0, random_state=0).fit(X, y)
    assert fitted.score(X, y) > 0.5
    assert fitted.coef_.shape == (2,)
    np.testing.assert_allclose(fitted.predict(X), X @ fitted.coef_ + fitted.intercept_)
    assert np.linalg.norm(fitted.parameters_) <= 4.0 + fitted.grid_ * 2
    assert fitted.sampler_ == "exact"
    assert not hasattr(fitted, "pac_bayes_bound_")


def test_a_small_radius_holds_the_parameters_and_costs_less_noise():
    X, y = separable()
    wide = GibbsRidge(1.0, target_bounds=(0, 1), radius=10.0, regularization=0.1, random_state=0).fit(X, y)
    narrow = clone(wide).set_params(radius=0.2).fit(X, y)
    assert np.linalg.norm(narrow.parameters_) <= 0.2 + 3 * narrow.grid_
    assert narrow.inverse_temperature_ > wide.inverse_temperature_


def test_a_table_with_a_label():
    table = patients()
    fitted = GibbsLogisticRegression(10.0, schema=SCHEMA, random_state=0).fit(table)
    assert list(fitted.classes_) == ["no", "yes"]
    assert fitted.score(table) > 0.7


def test_files_give_the_same_model_as_memory(tmp_path):
    table = patients(1500)
    path = tmp_path / "patients.parquet"
    table.to_parquet(path)
    memory, file = (
        GibbsLogisticRegression(5.0, schema=SCHEMA, encoding="binned", random_state=3).fit(source)
        for source in (table, path)
    )
    np.testing.assert_array_equal(memory.parameters_, file.parameters_)


def test_persons_pay_for_all_their_rows():
    table = patients().assign(patient=np.arange(400) // 2)
    schema = Schema(dict(SCHEMA.columns), Person("patient", 2))
    records, persons = (
        GibbsLogisticRegression(1.0, schema=one, regularization=0.1, random_state=0).fit(table)
        for one in (SCHEMA, schema)
    )
    assert persons.inverse_temperature_ == pytest.approx(records.inverse_temperature_ / 4)
    assert persons.guarantee_.unit == "person"
    # Rows of one person are not independent.
    assert math.isnan(persons.pac_bayes_bound_)


def test_without_an_account_nothing_leaves():
    X, y = separable()
    with pytest.raises(NotCharged):
        Release.of(GibbsLogisticRegression(classes=[0, 1]).fit(X, y))


def test_seeds_and_accounts_exclude_each_other(account):
    X, y = separable()
    with pytest.raises(SeededNoiseRefused):
        GibbsLogisticRegression(classes=[0, 1], account=account, random_state=0).fit(X, y)
    with pytest.raises(InvalidParameter, match="classes was not given"):
        GibbsLogisticRegression(account=account).fit(X, y)


def test_price_and_cross_validation_are_charged_as_quoted(account):
    X, y = separable()
    model = GibbsLogisticRegression(1.0, 1e-6, classes=[0, 1], account=account)
    quote = model.price(X, y)
    assert account.spent().epsilon == 0
    cross_val_score(model, X, y, cv=3)
    assert account.spent().epsilon == pytest.approx(3.0)
    assert quote is not None


@pytest.mark.parametrize("sampler", ["auto", "proximal", "exact"])
def test_gaussian_accounts_take_them(tmp_path, sampler):
    X, y = separable(100)
    ledger = Ledger(tmp_path / "ledger.db")
    account = ledger.account("patients", epsilon=3.0, delta=1e-5, composition="gaussian")
    model = GibbsLogisticRegression(1.0, 1e-5, classes=[0, 1], sampler=sampler, account=account)
    model.fit(X, y)
    model.fit(X, y)
    assert account.spent().epsilon < 2.0
    with pytest.raises(BudgetExceeded):
        GibbsLogisticRegression(5.0, 1e-5, classes=[0, 1], sampler=sampler, account=account).fit(X, y)


def test_draws_are_experts_for_others(account, tmp_path):
    X, y = separable(900)
    experts = []
    for member in range(3):
        part = slice(300 * member, 300 * member + 300)
        model = GibbsLogisticRegression(5.0, 1e-6, classes=[0, 1], account=account).fit(X[part], y[part])
        Release.of(model).save(tmp_path / f"{member}.sudare", KEY)
        experts.append(Release.load(tmp_path / f"{member}.sudare", [KEY.public_key()]))
    combined = MirrorAveraging(experts).fit(X[:100], y[:100])
    assert combined.score(X, y) > 0.8
    assert len(combined.guarantee_) == 3


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"delta": 0.0, "sampler": "proximal"}, "delta = 0"),
        ({"radius": -1.0}, "radius"),
        ({"draws": 0}, "draws"),
        ({"draws": 1.5}, "draws"),
        ({"sampler": "langevin"}, "sampler"),
        ({"fixed_work": "yes"}, "fixed_work"),
        ({"regularization": [0.1, 1.0]}, "regularization"),
        ({"regularization": 0.0}, "regularization"),
        ({"norm_bound": 0.0}, "norm_bound"),
        ({"encoding": "rotated"}, "encoding"),
    ],
)
def test_bad_parameters(options, problem, account):
    X, y = separable()
    with pytest.raises(InvalidParameter, match=problem):
        GibbsLogisticRegression(**{"classes": [0, 1], "account": account, **options}).fit(X, y)
    assert account.spent().epsilon == 0


@pytest.mark.parametrize("options", [{"radius": 0.0}, {"radius": "wide"}, {"draws": -1}])
def test_bad_parameters_of_ridge(options):
    with pytest.raises(InvalidParameter):
        GibbsRidge(**{"target_bounds": (0, 1), **options}).fit(*separable())


@pytest.mark.parametrize("classes", [[0, 1], [0, 1, 2]])
def test_pure_logistic_draws_lie_in_a_ball_and_are_charged_purely(classes, account):
    X, y = separable(classes=len(classes))
    model = GibbsLogisticRegression(3.0, 0.0, classes=classes, radius=3.0, draws=2, account=account).fit(X, y)
    assert (account.spent().epsilon, account.spent().delta) == (3.0, 0.0)
    assert (model.sampler_, model.total_variation_) == ("exact", 0.0)
    assert np.all(np.linalg.norm(model.draws_, axis=2) <= 3.0 + 4 * model.grid_)
    assert np.isnan(model.pac_bayes_bound_)
    outputs = 1 if len(classes) == 2 else len(classes)
    assert model.inverse_temperature_ == pytest.approx(3.0 / (2 * outputs * 2 * math.sqrt(1.25) * 3.0), rel=1e-6)


def test_pure_draws_learn():
    X, y = separable(2_000)
    assert GibbsLogisticRegression(1.0, 0.0, classes=[0, 1], random_state=0).fit(X, y).score(X, y) > 0.85
    ridge = GibbsRidge(1.0, 0.0, target_bounds=(-1, 1), fit_intercept=False, random_state=0)
    assert ridge.fit(X, X @ [0.6, -0.6, 0.0]).score(X, X @ [0.6, -0.6, 0.0]) > 0.7


def test_a_ball_with_delta_restricts_the_same_posterior():
    X, y = separable()
    free = GibbsLogisticRegression(1.0, 1e-6, classes=[0, 1], random_state=0).fit(X, y)
    held = GibbsLogisticRegression(1.0, 1e-6, classes=[0, 1], radius=0.5, random_state=0).fit(X, y)
    assert held.inverse_temperature_ == free.inverse_temperature_
    assert np.linalg.norm(held.parameters_) <= 0.5 + 4 * held.grid_ < np.linalg.norm(free.parameters_)


def test_bad_epsilon():
    X, y = separable()
    for epsilon in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InvalidCost):
            GibbsLogisticRegression(epsilon, classes=[0, 1]).fit(X, y)


def test_bad_data(account):
    X, y = separable()
    model = GibbsLogisticRegression(classes=[0, 1], account=account)
    for rows, targets in ((np.full((4, 2), np.nan), [0, 1, 0, 1]), (X, y[:-1]), (X[:0], y[:0]), (X, y + 5)):
        with pytest.raises(DataError):
            model.fit(rows, targets)
    assert account.spent().epsilon == 0


def test_rows_of_zeros_and_rows_that_are_all_alike():
    for rows in (np.zeros((30, 2)), np.ones((30, 2))):
        model = GibbsLogisticRegression(1.0, classes=[0, 1], fit_intercept=False, random_state=0).fit(rows, [1] * 30)
        assert np.all(np.isfinite(model.coef_))


def test_separable_data_and_almost_no_penalty():
    """The likelihood alone has no maximum; the posterior has a mode, far out, and is sampled."""
    X = np.array([[1.0], [-1.0]] * 50)
    y = [1, 0] * 50
    model = GibbsLogisticRegression(1.0, classes=[0, 1], regularization=1e-6, fit_intercept=False, random_state=0)
    assert np.isfinite(model.fit(X, y).coef_[0, 0])


def test_a_penalty_that_rounding_would_swallow_is_refused_before_the_charge(account):
    X, y = separable(400)
    with pytest.raises(InvalidParameter, match="too small"):
        GibbsLogisticRegression(1.0, classes=[0, 1], regularization=1e-13, account=account).fit(X, y)
    assert account.spent().epsilon == 0


def test_a_mode_that_floats_cannot_find_is_refused_before_the_charge():
    with pytest.raises(InvalidParameter, match="well enough"):
        LogisticDraws(Facts(10**8, 5, 2.0, Logistic(), 4e4), 1.0, 1e-5)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-300, 1e-6), (1.0, 1e-300), (1e-9, 1e-12)])
def test_extreme_promises_are_kept_or_refused(epsilon, delta):
    X, y = separable(50)
    model = GibbsLogisticRegression(epsilon, delta, classes=[0, 1], random_state=0)
    try:
        model.fit(X, y)
    except (InvalidCost, InvalidParameter):
        return
    assert np.all(np.isfinite(model.parameters_))


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 50.0, 600.0])
def test_tiny_and_huge_epsilon(epsilon):
    X, y = separable(100)
    model = GibbsLogisticRegression(epsilon, 1e-6, classes=[0, 1], random_state=0).fit(X, y)
    assert np.all(np.isfinite(model.parameters_))
    if epsilon > 1:
        assert model.score(X, y) > 0.9


@pytest.mark.parametrize("share", [0.7, 0.85, 0.95, 0.999])
def test_the_ball_costs_logistic_acceptance_little_whatever_the_records(share):
    rows = 2_000
    X, y = np.tile([1.0, 0.0], (rows, 1)), (np.arange(rows) < share * rows).astype(int)
    model = GibbsLogisticRegression(1000.0, 0.0, classes=[0, 1], radius=0.2, fit_intercept=False)
    mechanism = model._plan_for(X, y).mechanism
    posterior = mechanism.posterior(Rows.held(X, (2.0 * y - 1)[:, np.newaxis]))
    assert posterior.tilt > 0
    assert ball_cost(posterior) <= 1 + 0.125 + 1e-6
