"""What every private learner shares, as users and attackers meet it."""

from __future__ import annotations

import copy
import datetime
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sudare.errors import (
    BudgetExceeded,
    ColumnMissing,
    DataError,
    InvalidCost,
    InvalidParameter,
    MissingValue,
    NotCharged,
    PersonRowsExceeded,
    RelationMismatch,
    SchemaError,
    SeededNoiseRefused,
    SourceUnreadable,
    SudareError,
    UnknownCategory,
    WrongType,
)
from sudare.privacy import Guarantee, Ledger, Release
from sudare.privacy import private_estimator as room
from sudare.privacy.accounting import pure_cost
from sudare.privacy.declared_columns import natural_bounds, written_text
from sudare.privacy.ledger_chain import canonical_json
from sudare.privacy.noise import SeededNoise, SystemNoise
from sudare.privacy.release import pass_through
from sudare.schema import Category, Label, Number, Person, Schema
from sudare.statistics import PrivateHistogram, PrivateMean, PrivateStandardScaler
from tests.privacy.test_release_parameters import mean_content
from tests.release_kit import (
    DECLARATIONS,
    KEY,
    LEARNERS,
    PERSON_SCHEMA,
    SCHEMA,
    TRUSTED,
    fitted,
    matrix,
    refused,
    table,
)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    return Ledger(tmp_path_factory.mktemp("ledger") / "ledger.db")


@pytest.fixture(scope="module")
def account(ledger):
    return ledger.account("patients", epsilon=1000.0, delta=0.5)


def learned(model) -> list[str]:
    return sorted(name for name in vars(model) if name.endswith("_") and not name.startswith("_"))


# Parameters


@pytest.mark.parametrize(
    "parameters",
    [
        {"epsilon": 0},
        {"epsilon": -1.0},
        {"epsilon": float("nan")},
        {"epsilon": float("inf")},
        {"epsilon": 5e-324},
        {"epsilon": True},
        {"epsilon": "1"},
        {"epsilon": None},
        {"epsilon": [1.0]},
        {"epsilon": 10**400},
        {"delta": "0"},
        {"delta": None},
        {"delta": 1.0},
        {"delta": -1e-9},
        {"delta": float("nan")},
        {"delta": 5e-324},
        {"delta": False},
    ],
)
@pytest.mark.parametrize("learner", LEARNERS)
def test_useless_costs(learner, parameters, account):
    before = account.entries()
    with pytest.raises(InvalidCost):
        learner(bounds=(0, 1), account=account, **parameters).fit(matrix())
    assert account.entries() == before


@pytest.mark.parametrize("epsilon", [1, np.float64(1), np.float32(1), np.int64(1)])
def test_numbers_of_any_kind(epsilon, account):
    model = PrivateMean(epsilon, bounds=(0, 1), account=account).fit(matrix())
    assert model.guarantee_ == Guarantee(1.0)
    assert type(model.guarantee_.epsilon) is float
    assert Release.of(model).manifest()["parameters"]["epsilon"] == 1.0


def test_minus_zero_is_zero(account, tmp_path):
    """Releases hold one spelling of a number."""
    model = PrivateMean(delta=-0.0, bounds=(0, 1), account=account).fit(matrix())
    Release.of(model).save(tmp_path / "a", KEY)
    assert str(Release.load(tmp_path / "a", TRUSTED).manifest()["parameters"]["delta"]) == "0.0"


def test_account_and_schema_are_what_they_should_be():
    with refused(InvalidParameter, "account must be an Account.", "Get one from Ledger(…).account(…)."):
        PrivateMean(bounds=(0, 1), account="patients").fit(matrix())
    with refused(InvalidParameter, "schema must be a Schema.", "Load one with Schema.load(…)."):
        PrivateMean(schema="patients.toml").fit(matrix())
    with refused(InvalidParameter, "Both a schema and bounds were given.", "Give one of them: the schema has bounds."):
        PrivateMean(schema=SCHEMA, bounds=(0, 1)).fit(table())


def test_words_that_are_not_known():
    class Centred(PrivateMean):
        encoding = "centered"

    with refused(InvalidParameter, "encoding must be one of scaled, centred, binned.", "Use one of these words."):
        Centred(bounds=(0, 1)).fit([[0.5]])

    class Removing(PrivateMean):
        neighbours = "add-remove"

    with refused(InvalidParameter, "neighbours must be one of replace-one.", "Use one of these words."):
        Removing(bounds=(0, 1)).fit([[0.5]])


class ReadsCentre(PrivateMean):
    """A learner with something that is read off the records where nobody declares it."""

    centre: float | None = None

    def _undeclared(self):
        return "centre" if self.centre is None else ""


def test_a_plan_with_something_from_the_data_is_void():
    one = Schema({"x0": Number(0, 1)})
    assert PrivateMean(bounds=(0, 1)).plan(10, one).guarantee == Guarantee(1.0)
    assert ReadsCentre(bounds=(0, 1)).plan(10, one).guarantee == Guarantee(1.0, valid=False)
    assert ReadsCentre(bounds=(0, 1)).fit(matrix()).guarantee_ == Guarantee(1.0, valid=False)


def test_what_nobody_declared_is_refused_before_the_charge(account):
    before, model = account.entries(), ReadsCentre(bounds=(0, 1), account=account)
    for attempt in (model.fit, model.price):
        with refused(
            InvalidParameter,
            "ReadsCentre is to be charged to an account, and centre was not given: read off the records, it would void the "
            "guarantee, and nothing could leave. Nothing was charged.",
            "Give centre=… by public knowledge, or a schema that declares the target.",
        ):
            attempt(matrix())
    model.centre = 0.5
    assert model.fit(matrix()).guarantee_.valid
    assert len(account.entries()) == len(before) + 1


def test_a_fit_within_another_computation_has_its_noise_and_no_receipt(account):
    seeded, system = SeededNoise(0), SystemNoise()
    model = PrivateMean(bounds=(-1, 3))
    assert model._fit_within(seeded, matrix(), None).guarantee_ == Guarantee(1.0, valid=False)
    alike = PrivateMean(bounds=(-1, 3), random_state=0).fit(matrix())
    np.testing.assert_array_equal(model.mean_, alike.mean_)
    assert model._fit_within(system, matrix(), None).guarantee_ == Guarantee(1.0)
    assert model.receipt_ is None
    assert "_lent_noise" not in vars(model)
    with pytest.raises(DataError):
        model._fit_within(seeded, np.empty((0, 3)), None)
    assert "_lent_noise" not in vars(model)
    assert model.fit(matrix()).guarantee_.valid
    for own in ({"account": account}, {"random_state": 0}):
        with refused(InvalidParameter, "A fit within another has an account or a seed of its own.", "Give neither."):
            PrivateMean(bounds=(-1, 3)).set_params(**own)._fit_within(system, matrix(), None)


def test_the_outcome_of_a_larger_computation_has_its_guarantee_if_its_own_is_valid(account):
    passage = pass_through(account, None, Guarantee(3.0), pure_cost(3.0), "select_privately")
    model = PrivateMean(bounds=(-1, 3))._fit_within(SystemNoise(), matrix(), None)
    assert model._as_the_outcome_of(passage, account) is model
    assert (model.guarantee_, model.receipt_) == (Guarantee(3.0), passage.receipt)
    assert (model.epsilon, model.account) == (3.0, account)
    assert Release.of(model).guarantee == Guarantee(3.0)
    void = PrivateMean(bounds=(-1, 3))._fit_within(SeededNoise(0), matrix(), None)
    with refused(NotCharged, "The ledger does not have the charge that this fit's receipt names.", NotCharged.help):
        void._as_the_outcome_of(passage, account)
    uncharged = pass_through(None, None, Guarantee(3.0), pure_cost(3.0), "select_privately")
    void = PrivateMean(bounds=(-1, 3))._fit_within(SeededNoise(0), matrix(), None)
    assert void._as_the_outcome_of(uncharged, None).guarantee_ == Guarantee(3.0, valid=False)
    changed = PrivateMean(bounds=(-1, 3))._fit_within(SystemNoise(), matrix(), None)
    changed.mean_ = changed.mean_ + 1
    with refused(
        NotCharged,
        "This PrivateMean was changed after it was fitted.",
        "Refit it with account=…; release it as it is.",
    ):
        changed._as_the_outcome_of(passage, account)


@pytest.mark.parametrize("learner", LEARNERS)
def test_bounds_are_never_taken_from_the_data(learner):
    with refused(
        InvalidParameter,
        f"{learner.__name__} needs public bounds, got none.",
        "Give bounds=(low, high) or a schema. Do not take them from the data: that would void the guarantee.",
    ):
        learner().fit(matrix())


@pytest.mark.parametrize(
    "bounds", [5, (0,), (0, 1, 2), ("a", "b"), ([0, 0], [1, 1]), (0, [1, 1]), ([[0] * 3], [[1] * 3]), (None, 1, 2)]
)
def test_bounds_of_the_wrong_shape(bounds):
    with refused(
        InvalidParameter, "bounds must be two numbers or two sequences of 3.", "Give for example bounds=(0, 110)."
    ):
        PrivateMean(bounds=bounds).fit(matrix())


@pytest.mark.parametrize("bounds", [(1, 0), (0, 0), (0, float("inf")), (float("nan"), 1), (-1.7e308, 1.7e308)])
def test_bounds_that_bound_nothing(bounds):
    with pytest.raises(SchemaError):
        PrivateMean(bounds=bounds).fit(matrix())


def test_bounds_for_all_columns_or_for_each():
    for bounds in ((-1, 3), ([-1] * 3, 3), (-1, np.array([3, 3, 3])), (np.full(3, -1.0), [3.0] * 3)):
        model = PrivateMean(bounds=bounds).fit(matrix())
        assert model.declared_ == Schema({f"x{i}": Number(-1, 3) for i in range(3)})
    each = PrivateMean(bounds=([0, 1, 2], [10, 11, 12])).fit(matrix())
    assert each.declared_ == Schema({f"x{i}": Number(i, 10 + i) for i in range(3)})
    low, high = natural_bounds(each.declared_)
    assert (low.tolist(), high.tolist()) == ([0, 1, 2], [10, 11, 12])


def test_narrowest_range():
    smallest = 2.0**-900
    assert PrivateMean(bounds=(0, smallest)).fit(matrix() * smallest).mean_.max() <= smallest
    for learner in (PrivateMean, PrivateStandardScaler):
        with refused(SchemaError, "The range of column 'x1' is below 2⁻⁹⁰⁰.", "Use another unit."):
            learner(bounds=(0, [1, smallest / 2, 1])).fit(matrix())


# Declarations


def test_schema_chooses_columns():
    mean = fitted(PrivateMean, "schema", None)
    assert mean.declared_ == Schema(
        {
            "age": Number(0, 110, unit="years", missing=55.0),
            "bmi": Number(10, 60, bins=(18.5, 25, 30)),
        }
    )
    assert mean.feature_names_in_.tolist() == ["age", "bmi"]
    assert mean.feature_names_in_.dtype == object
    assert mean.n_features_in_ == 2
    assert mean.schema_digest_ == SCHEMA.digest
    histogram = fitted(PrivateHistogram, "person", None)
    assert histogram.declared_ == Schema(
        {name: SCHEMA.columns[name] for name in ("age", "bmi", "smoker")}, Person("patient", 2)
    )
    assert histogram.n_features_in_ == 3


def test_missing_numbers_stand_where_declared():
    rows = table()
    rows.loc[3, "age"] = np.nan
    indicator = Schema({"age": Number(0, 110, missing="indicator")})
    for schema in (SCHEMA, indicator, Schema({"age": Number(0, 110, missing=20)})):
        model = PrivateMean(schema=schema).fit(rows)
        assert len(model.mean_) == len(model.declared_.columns)
    with pytest.raises(MissingValue):
        PrivateMean(schema=Schema({"age": Number(0, 110)})).fit(rows)


def test_schema_without_numbers():
    schema = Schema({"smoker": Category(("no", "yes")), "ill": Label((0, 1))})
    for learner in (PrivateMean, PrivateStandardScaler):
        with refused(
            SchemaError, f"{learner.__name__} needs a number column; the schema declares none.", "Declare one."
        ):
            learner(schema=schema).fit(table())
    assert list(PrivateHistogram(schema=schema).fit(table()).counts_) == ["smoker"]


def test_frames_of_all_kinds_mean_the_same(monkeypatch):
    rows = table()
    for data in (rows, pl.from_pandas(rows), {name: rows[name].to_numpy() for name in rows}):
        model = PrivateMean(schema=SCHEMA, random_state=0).fit(data)
        assert np.array_equal(model.mean_, PrivateMean(schema=SCHEMA, random_state=0).fit(rows).mean_)


def test_names_of_an_array_come_from_a_frame():
    frame = pd.DataFrame(matrix(), columns=["a", "b", "c"])
    model = PrivateStandardScaler(bounds=(-1, 3)).fit(frame)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.get_feature_names_out().tolist() == ["a", "b", "c"]
    assert model.schema_digest_ is None
    assert not hasattr(model.fit(matrix()), "feature_names_in_")


def test_no_rows(account):
    before = account.entries()
    for learner in LEARNERS:
        with refused(DataError, "The table has no rows.", "Give at least one row."):
            learner(schema=SCHEMA, account=account).fit(table().iloc[:0])
        with pytest.raises(DataError, match="Found array with 0 sample"):
            learner(bounds=(0, 1), account=account).fit(np.empty((0, 2)))
    assert account.entries() == before


def test_what_a_release_could_not_hold_is_not_charged(tmp_path):
    account = Ledger(tmp_path / "ledger.db").account("wide", epsilon=10.0)
    large = Schema({"code": Category(tuple(f"{index:040d}" for index in range(22_000)))})
    rows = pd.DataFrame({"code": [f"{1:040d}"]})
    with refused(
        InvalidParameter,
        "The declared columns are too many to be written into a release.",
        "Declare fewer columns, bins or categories, or fit in parts.",
    ):
        PrivateHistogram(schema=large, account=account).fit(rows)
    assert account.spent().epsilon == 0


def test_longest_declaration(account, monkeypatch, tmp_path):
    assert room.LARGEST_DECLARATION_BYTES == 2**20 - 2**16
    model = fitted(PrivateMean, "bounds", account)
    size = len(canonical_json(written_text(model.declared_)))
    monkeypatch.setattr(room, "LARGEST_DECLARATION_BYTES", size)
    fitted(PrivateMean, "bounds", account)
    monkeypatch.setattr(room, "LARGEST_DECLARATION_BYTES", size - 1)
    with pytest.raises(InvalidParameter):
        fitted(PrivateMean, "bounds", account)
    assert fitted(PrivateMean, "bounds", None).receipt_ is None


# Fitting


@pytest.mark.parametrize("learner", LEARNERS)
def test_every_fit_is_one_charge(learner, account):
    before = len(account.entries())
    model = learner(0.25, 1e-6, bounds=(-1, 3), account=account).fit(matrix())
    entry, result = account.entries()[before:]
    assert (entry.kind, entry.body["what"]) == ("charge", learner.__name__)
    assert (result.kind, result.body["charge"], result.body["seal"]) == ("result", entry.position, model.seal_)
    assert (result.body["learner"], result.body["content"]) == (learner.__name__, model.release_content().digest())
    assert entry.body["guarantee"] == Guarantee(0.25, 1e-6).to_dict()
    assert model.guarantee_ == Guarantee(0.25, 1e-6)
    assert (model.receipt_.position, model.receipt_.hash) == (entry.position, entry.hash)
    assert model.fit(matrix()).receipt_.position == entry.position + 2


def test_a_marked_passage_is_paid_once(ledger):
    """By whoever comes again with the same mark, and by nobody without an account or with a seed."""
    account = ledger.account("marked", epsilon=10.0)
    model = PrivateMean(bounds=(-1, 3), account=account)
    plan = model.plan(40, Schema({"x0": Number(-1, 3)}))
    first, again, other, unmarked = (model._enter(plan, mark) for mark in ("run 1", "run 1", "run 2", ""))
    assert again.receipt == first.receipt
    assert again.guarantee == first.guarantee
    assert len({passage.receipt.position for passage in (first, other, unmarked)}) == 3
    assert model.receipt_ == unmarked.receipt
    assert [entry.body["purpose"] for entry in account.entries() if entry.kind == "charge"] == ["run 1", "run 2", ""]
    assert model.set_params(account=None)._enter(plan, "run 1").receipt is None
    with pytest.raises(SeededNoiseRefused):
        model.set_params(account=account, random_state=0)._enter(plan, "run 1")


@pytest.mark.parametrize("learner", LEARNERS)
def test_without_an_account_there_is_no_receipt(learner):
    assert fitted(learner, "bounds", None).receipt_ is None
    assert fitted(learner, "bounds", None).guarantee_ == Guarantee(1.0)
    assert fitted(learner, "bounds", None, random_state=0).guarantee_ == Guarantee(1.0, valid=False)


@pytest.mark.parametrize("learner", LEARNERS)
def test_account_and_seed(learner, account):
    before = account.entries()
    model = learner(bounds=(-1, 3), account=account, random_state=0)
    with pytest.raises(SeededNoiseRefused):
        model.fit(matrix())
    assert account.entries() == before
    with pytest.raises(NotFittedError):
        model.score(matrix())


@pytest.mark.parametrize(
    ("problem", "rows"),
    [
        (DataError, np.full((3, 2), np.nan)),
        (DataError, np.full((3, 2), np.inf)),
        (DataError, np.zeros(3)),
        (DataError, np.zeros((0, 2))),
        (WrongType, [[{}]]),
    ],
)
@pytest.mark.parametrize("learner", LEARNERS)
def test_a_fit_that_fails_in_validation_charges_nothing(learner, problem, rows, account):
    before = account.entries()
    with pytest.raises(problem):
        learner(bounds=(-1, 3), account=account).fit(rows)
    assert account.entries() == before


@pytest.mark.parametrize("learner", LEARNERS)
def test_budget_exceeded_changes_nothing(learner, tmp_path):
    account = Ledger(tmp_path / "ledger.db").account("small", epsilon=1.0)
    model = learner(0.75, bounds=(-1, 3), account=account).fit(matrix())
    before = account.entries()
    with pytest.raises(BudgetExceeded):
        model.fit(matrix())
    assert account.entries() == before
    assert account.spent().epsilon == 0.75
    with pytest.raises(NotFittedError):
        model.score(matrix())
    with pytest.raises(NotFittedError):
        Release.of(model)
    assert {"guarantee_", "receipt_", "seal_", "mean_", "counts_", "scale_"}.isdisjoint(learned(model))
    assert Release.of(model.set_params(epsilon=0.25).fit(matrix())).guarantee == Guarantee(0.25)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize(
    ("rows", "problem"), [(np.full((3, 3), np.nan), DataError), ("a path, and no schema", InvalidParameter)]
)
def test_a_failed_refit_leaves_nothing_of_the_first(learner, rows, problem, account):
    model = fitted(learner, "bounds", account)
    with pytest.raises(problem):
        model.set_params(epsilon=0.01).fit(rows)
    assert learned(model) == []
    with pytest.raises(NotFittedError):
        Release.of(model)


@pytest.mark.parametrize("learner", LEARNERS)
def test_noise_that_fails_after_the_charge_leaves_nothing_to_release(learner, account, monkeypatch):
    model = learner(bounds=(-1, 3), account=account)

    def broken(*_):
        raise MemoryError

    for mechanism in ("Laplace", "Gaussian", "GammaNorm", "InfinityNorm"):
        monkeypatch.setattr(f"sudare.privacy.mechanisms.{mechanism}.apply", broken)
    with pytest.raises(MemoryError):
        model.fit(matrix())
    with pytest.raises(NotFittedError):
        Release.of(model)
    with pytest.raises(NotFittedError):
        model.score(matrix())


def test_a_persons_rows_above_the_bound_are_left_out(account):
    schema = Schema(dict(SCHEMA.columns), Person("patient", 1))
    persons = table().patient.nunique()
    for learner in LEARNERS:
        model = learner(schema=schema, account=account).fit(table())
        assert model.n_rows_ == persons
        assert model.cut_rows_ == len(table()) - persons
        assert "cut_rows_" not in pickle.loads(pickle.dumps(model)).__dict__
        assert "most_rows" in str(model.release_content().parameters["person"])


@pytest.mark.parametrize("most_rows", [1, "auto"])
def test_an_array_does_not_say_whose_a_row_is(most_rows, ledger):
    person = Person("patient", most_rows, None if most_rows == 1 else 9)
    account = ledger.account("arrays", epsilon=1.0, unit="person")
    model = PrivateMean(1.0, schema=Schema({"x": Number(0, 1)}, person), account=account)
    for rows in (np.array([[0.1], [0.2]]), [[0.1], [0.2]], ((0.1,), (0.2,)), iter([np.array([[0.1], [0.2]])])):
        with pytest.raises((DataError, ColumnMissing)):
            model.fit(rows)
    assert account.spent().epsilon == 0


@pytest.mark.parametrize("learner", LEARNERS)
def test_person_level_noise_is_larger_by_the_most_rows(learner, account):
    for delta in (0.0, 1e-6):
        record = fitted(learner, "schema", account, delta=delta)
        person = fitted(learner, "person", account, delta=delta)
        assert person.noise_scale_ == pytest.approx(2 * record.noise_scale_, rel=1e-6)
        assert record.guarantee_ == Guarantee(1.0, delta)
        assert person.guarantee_ == Guarantee(1.0, delta, unit="person")


def test_account_of_persons_refuses_guarantees_for_records(ledger):
    account = ledger.account("persons", epsilon=10.0, unit="person")
    assert fitted(PrivateMean, "person", account).guarantee_.unit == "person"
    with pytest.raises(RelationMismatch):
        fitted(PrivateMean, "schema", account)


def test_relations_of_accounts(ledger):
    add_remove = ledger.account("add-remove", epsilon=10.0, delta=0.1, neighbours="add-remove")
    histogram = PrivateHistogram(0.5, 1e-6, bounds=(-1, 3), neighbours="add-remove", account=add_remove).fit(matrix())
    assert histogram.guarantee_ == Guarantee(0.5, 1e-6, neighbours="add-remove")
    assert add_remove.spent() == (0.5, 1e-6)
    before = add_remove.entries()
    for learner in LEARNERS:
        with pytest.raises(RelationMismatch):
            fitted(learner, "bounds", add_remove)
    assert add_remove.entries() == before
    replace_one = ledger.account("replace-one", epsilon=10.0, delta=0.1)
    model = PrivateHistogram(0.5, bounds=(-1, 3), neighbours="add-remove", account=replace_one).fit(matrix())
    assert replace_one.spent() == (1.0, 0.0)
    assert model.guarantee_.neighbours == "replace-one"
    assert model.guarantee_.epsilon == pytest.approx(1.0)


# Prices


@pytest.mark.parametrize("parameters", [{}, {"delta": 1e-6}, {"epsilon": 0.1}])
@pytest.mark.parametrize("declared", DECLARATIONS)
@pytest.mark.parametrize("learner", LEARNERS)
def test_price_is_what_fit_charges(learner, declared, parameters, ledger):
    account = ledger.account(f"{learner.__name__}-{declared}-{parameters}", epsilon=1.5, delta=1e-5)
    model = learner(account=account, **DECLARATIONS[declared], **parameters)
    rows = matrix() if declared == "bounds" else table()
    quote = model.price(rows)
    assert account.spent() == (0.0, 0.0)
    assert len(account.entries()) == 1
    assert learned(model) == []
    model.fit(rows)
    assert account.spent() == quote.asked
    assert quote.left_before == (1.5, 1e-5)
    assert account.remaining() == quote.left_after
    assert quote.admitted
    assert not model.set_params(epsilon=1.6).price(rows).admitted


def test_price_in_the_relation_of_the_account(ledger):
    account = ledger.account("price of add-remove", epsilon=10.0)
    model = PrivateHistogram(0.5, bounds=(-1, 3), neighbours="add-remove", account=account)
    assert model.price(matrix()).asked == (1.0, 0.0)


def test_what_is_declared_tells_the_promise_without_records():
    def never():
        raise AssertionError("the promise does not depend on the rows")

    assert PrivateMean(0.5, 1e-7, schema=SCHEMA).declared_promise(never) == Guarantee(0.5, 1e-7)
    by_person = PrivateHistogram(0.5, schema=PERSON_SCHEMA, neighbours="add-remove").declared_promise(never)
    assert by_person == Guarantee(0.5, neighbours="add-remove", unit="person")
    with refused(InvalidParameter, "A promise without records needs a schema.", "Give schema=Schema.load(…)."):
        PrivateMean(bounds=(0, 1)).declared_promise(never)
    with pytest.raises(InvalidCost, match="epsilon"):
        PrivateMean(0.0, schema=SCHEMA).declared_promise(never)


def test_what_is_declared_tells_the_plan_without_records():
    model = PrivateMean(0.5, 1e-7, schema=SCHEMA)
    plan, declared = model.declared_plan(100)
    assert plan == model.plan(100, declared)
    assert plan.guarantee == Guarantee(0.5, 1e-7)
    with refused(InvalidParameter, "A plan without records needs a schema.", "Give schema=Schema.load(…)."):
        PrivateMean(bounds=(0, 1)).declared_plan(100)
    with pytest.raises(InvalidCost, match="epsilon"):
        PrivateMean(0.0, schema=SCHEMA).declared_plan(100)


def test_price_needs_an_account_and_a_valid_table(account):
    with refused(InvalidParameter, "A price needs an account.", "Give account=…."):
        PrivateMean(bounds=(0, 1)).price(matrix())
    with pytest.raises(DataError):
        PrivateMean(bounds=(0, 1), account=account).price(np.full((2, 2), np.nan))
    with pytest.raises(InvalidParameter):
        PrivateHistogram(bounds=(0, 1), account=account, neighbours="next door").price(matrix())


def test_price_leaves_a_fitted_model_as_it_is(account):
    model = fitted(PrivateMean, "bounds", account)
    before = copy.deepcopy({name: value for name, value in vars(model).items() if name.endswith("_")})
    model.price(matrix(seed=5))
    assert model.mean_.tolist() == before["mean_"].tolist()
    assert learned(model) == sorted(before)
    Release.of(model)


# Looking at other data


@pytest.mark.parametrize("learner", LEARNERS)
def test_unfitted_models_say_so(learner):
    with pytest.raises(NotFittedError):
        learner(bounds=(0, 1)).score(matrix())


@pytest.mark.parametrize("learner", LEARNERS)
def test_scoring_changes_nothing(learner):
    model = fitted(learner, "schema", None)
    before = {name: id(value) for name, value in vars(model).items()}
    model.score(table(seed=3))
    assert {name: id(value) for name, value in vars(model).items()} == before


def test_wrong_width():
    model = fitted(PrivateMean, "bounds", None)
    with pytest.raises(DataError, match="X has 2 features, but PrivateMean is expecting 3 features"):
        model.score(matrix(columns=2))
    with pytest.raises(ColumnMissing):
        fitted(PrivateMean, "schema", None).score(table().drop(columns="age"))


def test_what_was_declared_at_fit_is_what_counts():
    model = fitted(PrivateStandardScaler, "schema", None)
    expected = model.transform(table())
    model.set_params(schema=None, bounds=(0, 1))
    assert np.array_equal(model.transform(table()), expected)
    by_bounds = fitted(PrivateStandardScaler, "bounds", None)
    expected = by_bounds.transform(matrix())
    by_bounds.set_params(schema=SCHEMA, bounds=None)
    assert np.array_equal(by_bounds.transform(matrix()), expected)


# Copies


def test_clip_counts_stay_where_the_data_were():
    rows = table()
    rows.loc[[1, 2], "age"] = 1e6
    rows.loc[5, "bmi"] = -1.0
    model = PrivateMean(schema=SCHEMA).fit(rows)
    assert model.clipped_ == {"age": 2, "bmi": 1}
    for copied in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert not hasattr(copied, "clipped_")
        assert copied.score(table()) == model.score(table())
        assert set(learned(model)) - set(learned(copied)) == {"clipped_"}
    assert model.score(table(seed=9)) is not None
    assert model.clipped_ == {"age": 2, "bmi": 1}


def test_copies_of_a_charged_model_are_the_same_release(account):
    model = fitted(PrivateMean, "bounds", account)
    for copied in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert Release.of(copied) == Release.of(model)
    with pytest.raises(NotFittedError):
        Release.of(clone(model))


# Errors tell no values

TEXT = "Xylander-7731"
NUMBER = 918273645.546372
SECRETS = (TEXT, "918273645", "9.18273")


def planted(value) -> list[list[object]]:
    return [[1.0, 2.0], [value, 3.0]]


class Ragged:
    """Not a table."""

    def __repr__(self) -> str:
        return TEXT


TROUBLES = {
    "text among numbers": planted(TEXT),
    "text in an array": np.array(planted(TEXT), dtype=object),
    "text in a frame": pd.DataFrame(planted(TEXT)),
    "text in a polars frame": pl.DataFrame({"a": [TEXT, "1"], "b": [1.0, 2.0]}),
    "categories": pd.DataFrame({"a": pd.Categorical([TEXT, "b"]), "b": [1.0, NUMBER]}),
    "dates": pd.DataFrame({"a": [datetime.datetime(2001, 1, 1), TEXT], "b": [1.0, NUMBER]}),
    "bytes": planted(TEXT.encode()),
    "dictionary": planted({TEXT: NUMBER}),
    "object": planted(Ragged()),
    "too large": planted(int("918273645" + "0" * 400)),
    "nan": planted(float("nan")) + [[NUMBER, NUMBER]],
    "infinity": planted(float("inf")) + [[NUMBER, NUMBER]],
    "one dimension": [NUMBER, 2.0],
    "no dimension": NUMBER,
    "three dimensions": [planted(NUMBER)],
    "ragged": [[NUMBER, 1.0], [2.0]],
    "complex": np.array(planted(NUMBER + 1j)),
    "sparse": scipy.sparse.csr_matrix(planted(NUMBER)),
    "text alone": TEXT,
    "series": pd.Series([NUMBER, 2.0]),
    "mixed names": pd.DataFrame({"a": [NUMBER], 1: [2.0]}),
    "no columns": np.empty((3, 0)),
}


def texts_of(error: BaseException | None) -> list[str]:
    """What an error and everything in its chain would print."""
    if error is None:
        return []
    own = [str(error), repr(error), *map(str, error.args)]
    return [*own, *texts_of(error.__cause__), *texts_of(error.__context__)]


def assert_tells_nothing(caught) -> None:
    for text in texts_of(caught.value):
        for secret in SECRETS:
            assert secret not in text


@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize("rows", TROUBLES.values(), ids=TROUBLES)
@pytest.mark.parametrize("learner", LEARNERS)
def test_errors_about_arrays_tell_no_values(learner, rows, account):
    before = account.entries()
    with pytest.raises(SudareError) as caught:
        learner(bounds=(0, 1), account=account).fit(rows)
    assert_tells_nothing(caught)
    assert account.entries() == before
    model = learner(bounds=(0, 1)).fit(np.zeros((3, 2)))
    with pytest.raises(SudareError) as caught:
        model.score(rows)
    assert_tells_nothing(caught)


def table_with(**columns) -> pd.DataFrame:
    return table(4).assign(**columns)


SCHEMA_TROUBLES = {
    "unknown category": (UnknownCategory, table_with(smoker=["no", "no", TEXT, "yes"])),
    "text among numbers": (WrongType, table_with(age=[1.0, NUMBER, TEXT, 2.0])),
    "text": (WrongType, table_with(age=[TEXT] * 4)),
    "missing": (MissingValue, table_with(bmi=[NUMBER, np.nan, 3.0, 4.0])),
    "too many rows, and a category": (UnknownCategory, table_with(patient=[TEXT] * 4, smoker=[TEXT] * 4)),
    "too many rows, and text": (WrongType, table_with(patient=[NUMBER] * 4, age=[TEXT] * 4)),
    "no person": (ColumnMissing, table(4).drop(columns="patient")),
    "no column": (ColumnMissing, table_with(age=[NUMBER] * 4).drop(columns="bmi")),
    "person missing": (MissingValue, table_with(patient=[TEXT, None, TEXT, None])),
    "array": (DataError, np.full((2, 9), NUMBER)),
    # A text alone is a path, and paths are told.
    "texts instead": (DataError, [TEXT]),
}


@pytest.mark.parametrize(("problem", "rows"), SCHEMA_TROUBLES.values(), ids=SCHEMA_TROUBLES)
def test_errors_about_tables_tell_no_values(problem, rows, account):
    before = account.entries()
    with pytest.raises(problem) as caught:
        PrivateHistogram(schema=PERSON_SCHEMA, account=account).fit(rows)
    assert_tells_nothing(caught)
    assert account.entries() == before


def test_errors_at_the_door_tell_no_values(tmp_path):
    account = Ledger(tmp_path / "ledger.db").account("small", epsilon=0.5)
    rows = np.full((3, 2), NUMBER)
    for learner in LEARNERS:
        with pytest.raises(BudgetExceeded) as caught:
            learner(bounds=(0, 1e9), account=account).fit(rows)
        assert_tells_nothing(caught)
        with pytest.raises(NotCharged) as caught:
            Release.of(learner(bounds=(0, 1e9)).fit(rows))
        assert_tells_nothing(caught)


# Models from releases


def test_model_from_content_by_bounds():
    model = PrivateMean.from_release(mean_content(epsilon=0.5, delta=1e-6), None)
    assert model.get_params() == {
        "epsilon": 0.5,
        "delta": 1e-6,
        "bounds": ((0.0, 0.0), (1.0, 2.0)),
        "schema": None,
        "account": None,
        "random_state": None,
        "cluster": None,
    }
    assert model.declared_ == Schema({"x0": Number(0, 1), "x1": Number(0, 2)})
    assert model.mean_.tolist() == [0.5, 1.5]
    assert (model.grid_, model.n_rows_, model.n_features_in_, model.schema_digest_) == (0.25, 7, 2, None)
    assert not hasattr(model, "feature_names_in_")


def test_model_from_content_by_schema():
    model = PrivateMean.from_release(mean_content(), "0" * 64)
    assert model.schema == model.declared_ == Schema({"x0": Number(0, 1), "x1": Number(0, 2)})
    assert model.bounds is None
    assert model.schema_digest_ == "0" * 64
    assert model.feature_names_in_.tolist() == ["x0", "x1"]
    assert model.n_features_in_ == 2


class Client:
    """A client of a cluster, which is of its process."""

    def __deepcopy__(self, memo):
        raise TypeError("clients cannot be copied")

    def __reduce__(self):
        raise TypeError("clients cannot be pickled")


def test_clones_share_a_cluster_and_pickles_have_its_address_only():
    client = Client()
    model = PrivateMean(0.5, bounds=(0, 1), cluster=client)
    made = clone(model)
    assert made is not model
    assert made.cluster is model.cluster is client
    assert made.epsilon == 0.5
    assert pickle.loads(pickle.dumps(model)).cluster is None
    by_address = PrivateMean(cluster="tcp://scheduler:8786")
    assert clone(by_address).cluster == pickle.loads(pickle.dumps(by_address)).cluster == "tcp://scheduler:8786"
    assert clone(PrivateMean()).cluster is None


def test_a_file_is_read_by_its_schema_and_one_without_rows_is_refused(tmp_path):
    schema = Schema({"age": Number(0, 110)}, Person("who", 1))
    table = pd.DataFrame({"age": [20.0, 40.0, 60.0], "who": [1, 2, 3]})
    table.to_parquet(tmp_path / "people.parquet")
    table.head(0).to_parquet(tmp_path / "nobody.parquet")
    scaler = PrivateStandardScaler(schema=schema, random_state=0)
    of_file = clone(scaler).fit(tmp_path / "people.parquet")
    np.testing.assert_array_equal(of_file.mean_, clone(scaler).fit(table).mean_)
    np.testing.assert_array_equal(of_file.transform(tmp_path / "people.parquet"), of_file.transform(table))
    for empty in (tmp_path / "nobody.parquet", table.head(0)):
        with pytest.raises(DataError):
            clone(scaler).fit(empty)
    with pytest.raises(SourceUnreadable):
        clone(scaler).fit(tmp_path / "none.parquet")


def test_a_matrix_for_a_fit_is_read_from_a_file_and_its_persons_are_counted(tmp_path):
    schema = Schema({"age": Number(0, 110)}, Person("who", 1))
    table = pd.DataFrame({"age": [20.0, 40.0, 60.0], "who": [1, 2, 3]})
    table.to_parquet(tmp_path / "people.parquet")
    table.assign(who=1).to_parquet(tmp_path / "one.parquet")
    table.head(0).to_parquet(tmp_path / "nobody.parquet")
    model = PrivateMean(schema=schema)
    assert model._read(tmp_path / "people.parquet", reset=True).shape == (3, 1)
    with pytest.raises(PersonRowsExceeded):
        model._read(tmp_path / "one.parquet", reset=True)
    with pytest.raises(DataError):
        model._read(tmp_path / "nobody.parquet", reset=True)
    with pytest.raises(DataError):
        model._read(table.head(0), reset=True)
