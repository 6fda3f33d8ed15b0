"""The agreement: read strictly, written back the same, one hash however it is spelt, and what differs is named."""

from __future__ import annotations

import copy
import json
import math
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sudare.consortium import Agreement, Budget, Deadlines, MemberEntry, Sums, differences
from sudare.consortium.agreement.differing_fields import differing_fields, mismatch, parsed_field_digests
from sudare.consortium.tasks.definitions import (
    KINDS,
    CensusTask,
    DictionaryTask,
    LearningTask,
    ModelsTask,
    ScalerTask,
    Task,
)
from sudare.errors import AgreementError, AgreementMismatch
from sudare.schema import Number, Schema
from tests.consortium.documents import DOCUMENT
from tests.schema_strategies import schemas


def changed(*path: str, to: Any) -> dict[str, Any]:
    """The document with one field set, or removed where `to` is None."""
    document = copy.deepcopy(DOCUMENT)
    table = document
    for key in path[:-1]:
        table = table[key]
    if to is None:
        del table[path[-1]]
    else:
        table[path[-1]] = to
    return document


# Reading and writing

NAMES = st.from_regex(r"[a-z0-9][a-z0-9-]{0,8}", fullmatch=True)
EPSILONS = st.floats(1e-6, 4.0)
DELTAS = st.floats(0, 1e-3)
PARAMETERS = st.dictionaries(
    st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True),
    st.booleans() | st.integers(-1000, 1000) | st.floats(-1e300, 1e300) | st.sampled_from(["l2", "スダレ"]),
    max_size=3,
)
COUNTS = st.integers(1, 9)


@st.composite
def tasks(draw: st.DrawFn, columns: tuple[str, ...]) -> Task:
    name, parameters = draw(NAMES), draw(PARAMETERS)
    epsilon, delta, patterns = draw(EPSILONS), draw(DELTAS), draw(COUNTS)
    match draw(st.sampled_from(KINDS)):
        case "models":
            return ModelsTask(name, "PrivateRidge", epsilon, delta, parameters=parameters)
        case "dictionary":
            private = DictionaryTask(name, patterns, False, epsilon, delta or 1e-6, parameters=parameters)
            exact = DictionaryTask(name, patterns, draw(st.booleans()), parameters=parameters)
            return draw(st.sampled_from([exact, private]))
        case "learning":
            return draw(
                st.sampled_from(
                    [
                        LearningTask(name, "one-sum", epsilon, 0.0, parameters=parameters),
                        LearningTask(name, "descent", epsilon, delta or 1e-6, parameters=parameters),
                    ]
                )
            )
        case "scaler":
            return ScalerTask(name, epsilon, delta, parameters=parameters)
        case _:
            chosen = draw(st.lists(st.sampled_from(columns), min_size=1, unique=True))
            return CensusTask(name, tuple(chosen), epsilon, parameters=parameters)


@st.composite
def agreements(draw: st.DrawFn) -> Agreement:
    schema = draw(schemas())
    names = draw(st.lists(NAMES, max_size=4, unique=True))
    members = tuple(
        MemberEntry(name, f"{number + 2:064x}", Budget(4.0 + draw(EPSILONS), 0.5)) for number, name in enumerate(names)
    )
    drawn = {task.name: task for task in draw(st.lists(tasks(tuple(schema.columns)), max_size=3))}
    return Agreement(
        draw(NAMES),
        schema,
        members,
        tuple(drawn.values()),
        Sums(threshold=draw(st.none() | COUNTS), dishonest=draw(st.none() | st.integers(0, 9))),
        Deadlines(draw(st.floats(0.1, 1e4)), draw(st.floats(0.1, 1e6))),
    )


# Random schemas are filtered until their bounds fit; that is theirs to look after.
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(agreements())
def test_survives_being_written(agreement: Agreement) -> None:
    again = Agreement.from_toml(agreement.to_toml())
    assert again == agreement
    assert again.digest == agreement.digest
    assert again.canonical_bytes() == agreement.canonical_bytes()
    assert differences(agreement, again) == ()


COLUMNS = {"a": Number(0, 1), "b": Number(0, 2)}
FEW_AGREEMENTS = st.builds(
    Agreement,
    name=st.sampled_from(["one", "two"]),
    schema=st.sampled_from([Schema(COLUMNS), Schema(dict(reversed(COLUMNS.items())))]),
    members=st.sampled_from([(), (MemberEntry("east", "22" * 32, Budget(4.0)),)]),
    tasks=st.sampled_from([(), (DictionaryTask("t", 2),), (DictionaryTask("t", 2, parameters={"search": True}),)]),
    sums=st.sampled_from([Sums(), Sums(threshold=1), Sums(dishonest=0)]),
)


@settings(max_examples=150, deadline=None)
@given(FEW_AGREEMENTS, FEW_AGREEMENTS)
def test_two_agreements_differ_in_some_field_exactly_if_their_hashes_do(one: Agreement, other: Agreement) -> None:
    assert (differences(one, other) == ()) == (one.digest == other.digest)
    assert (one == other) == (one.digest == other.digest)
    assert (one.digest == other.digest) == (one.to_toml() == other.to_toml())


def test_the_hash_does_not_depend_on_the_order_of_sections_or_on_how_numbers_are_spelt() -> None:
    agreement = Agreement.from_dict(DOCUMENT)
    turned = {key: DOCUMENT[key] for key in reversed(DOCUMENT)}
    turned["members"] = {key: DOCUMENT["members"][key] for key in reversed(DOCUMENT["members"])}
    turned["tasks"] = {key: DOCUMENT["tasks"][key] for key in reversed(DOCUMENT["tasks"])}
    assert Agreement.from_dict(turned).digest == agreement.digest
    assert Agreement.from_dict(changed("members", "east", "budget", "epsilon", to=4)).digest == agreement.digest
    assert Agreement.from_dict(changed("tasks", "models", "delta", to=None)).digest == agreement.digest
    assert agreement.member_names == ("east", "north", "west")


def test_the_order_of_columns_is_agreed_on() -> None:
    columns = DOCUMENT["schema"]["columns"]
    turned = changed("schema", "columns", to={key: columns[key] for key in reversed(columns)})
    agreement, other = Agreement.from_dict(DOCUMENT), Agreement.from_dict(turned)
    assert agreement.digest != other.digest
    assert differences(agreement, other) == ("schema.column_order",)


def test_a_schema_in_a_file_beside_it_gives_the_same_hash(tmp_path: Path) -> None:
    agreement = Agreement.from_dict(DOCUMENT)
    agreement.schema.save(tmp_path / "schema.toml")
    beside = {**DOCUMENT, "schema": {"file": "schema.toml", "digest": agreement.schema.digest}}
    (tmp_path / "agreement.toml").write_text(tomli_w.dumps(beside))
    assert Agreement.load(tmp_path / "agreement.toml").digest == agreement.digest


def test_another_schema_than_the_one_meant_is_refused(tmp_path: Path) -> None:
    Schema.from_dict({"columns": {"age": {"kind": "number", "low": 0, "high": 99}}}).save(tmp_path / "schema.toml")
    beside = {**DOCUMENT, "schema": {"file": "schema.toml", "digest": "0" * 64}}
    with pytest.raises(AgreementError, match=r"`schema\.digest` is not that of"):
        Agreement.from_dict(beside, tmp_path)


@pytest.mark.parametrize("name", ["../schema.toml", "/etc/passwd", "a/b.toml", "..", "."])
def test_an_agreement_names_no_file_of_this_machine(name: str, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "schema.toml").write_text("[columns]\n")
    with pytest.raises(AgreementError):
        Agreement.from_dict({**DOCUMENT, "schema": {"file": name, "digest": "0" * 64}}, tmp_path / "inner")


def test_saved_and_loaded(tmp_path: Path) -> None:
    agreement = Agreement.from_dict(DOCUMENT)
    agreement.save(tmp_path / "agreement.toml")
    assert Agreement.load(tmp_path / "agreement.toml") == agreement
    assert [path.name for path in tmp_path.iterdir()] == ["agreement.toml"]


def test_copies_are_equal() -> None:
    agreement = Agreement.from_dict(DOCUMENT)
    for again in (pickle.loads(pickle.dumps(agreement)), copy.deepcopy(agreement)):
        assert again == agreement
        assert hash(again) == hash(agreement)


# What is refused


def tables(document: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for key, value in document.items():
        if isinstance(value, dict):
            yield from tables(value, (*path, key))


OPEN_TABLES = {("members",), ("tasks",), ("tasks", "patterns", "parameters"), ("schema", "columns")}


@pytest.mark.parametrize("path", [path for path in tables(DOCUMENT) if path not in OPEN_TABLES], ids=".".join)
def test_unknown_fields_are_refused_by_their_path(path: tuple[str, ...]) -> None:
    with pytest.raises(AgreementError, match=r"unknown|names no") as refused:
        Agreement.from_dict(changed(*path, "epsilonn", to=1))
    if path and path[0] != "schema":
        assert f"`{'.'.join(path)}`" in refused.value.problem


BAD = [
    (("format",), 2, "`format` is not 1"),
    (("format",), True, "`format`"),
    (("name",), "Three Clinics", "`name`"),
    (("name",), "", "`name`"),
    (("members", "north", "key"), "22" * 31, r"`members\.north\.key` is not 64"),
    (("members", "north", "key"), "2G" * 32, r"`members\.north\.key` is not 64"),
    (("members", "north", "key"), "11" * 32, "same public key"),
    (("members", "north", "key"), "00" * 32, r"`members\.north\.key` is not a key that only its owner"),
    (("members", "north", "budget"), 3.0, r"`members\.north\.budget` is not a table"),
    (("members", "north", "budget", "epsilon"), 0, r"`members\.north\.budget\.epsilon`"),
    (("members", "north", "budget", "epsilon"), math.inf, r"`members\.north\.budget\.epsilon`"),
    (("members", "north", "budget", "epsilon"), math.nan, r"`members\.north\.budget\.epsilon`"),
    (("members", "north", "budget", "epsilon"), True, r"`members\.north\.budget\.epsilon`"),
    (("members", "north", "budget", "epsilon"), "3", r"`members\.north\.budget\.epsilon`"),
    (("members", "north", "budget", "epsilon"), 5e-324, r"`members\.north\.budget\.epsilon`"),
    (("members", "north", "budget", "epsilon"), 0.9, r"`tasks\.risk` costs more than `members\.north\.budget`"),
    (("members", "north", "budget", "delta"), 1, r"`members\.north\.budget\.delta`"),
    (("members", "north", "budget", "delta"), -0.1, r"`members\.north\.budget\.delta`"),
    (("members", "north", "budget", "delta"), 0.0, r"`tasks\.risk` costs more .* holds: δ = 1e-06, and there is 0\."),
    (("members", "North"), {"key": "44" * 32, "budget": {"epsilon": 9}}, "the name `North`"),
    (("members", "n" * 64), {"key": "44" * 32, "budget": {"epsilon": 9}}, "the name"),
    (("sums", "hidden_by"), "nothing", r"`sums\.hidden_by` is not one of masks"),
    (("sums", "threshold"), 0, r"`sums\.threshold`"),
    (("sums", "threshold"), 2.0, r"`sums\.threshold`"),
    (("sums", "dishonest"), -1, r"`sums\.dishonest`"),
    (("sums", "dishonest"), "one", r"`sums\.dishonest`"),
    (("deadlines", "round_seconds"), 0, r"`deadlines\.round_seconds`"),
    (("deadlines", "task_seconds"), math.inf, r"`deadlines\.task_seconds`"),
    (("tasks", "risk", "kind"), "magic", r"`tasks\.risk\.kind` is not a kind of task"),
    (("tasks", "risk"), 3, r"`tasks\.risk\.kind`"),
    (("tasks", "risk", "method"), "guess", r"`tasks\.risk\.method` is not one of one-sum, descent"),
    (("tasks", "risk", "method"), "one-sum", r"`tasks\.risk\.delta` is not 0"),
    (("tasks", "risk", "delta"), 0.0, r"`tasks\.risk\.delta` is missing"),
    (
        ("tasks", "risk", "tolerance"),
        2,
        r"`tasks\.risk\.tolerance` is no field of a task any more.*`dishonest` of \[sums\]",
    ),
    (("tasks", "scale", "tolerance"), 2, r"`tasks\.scale\.tolerance` is no field of a task any more"),
    (("tasks", "risk", "colluders"), 2, "has the unknown field `colluders`"),
    (("tasks", "patterns", "patterns"), 0, r"`tasks\.patterns\.patterns`"),
    (("tasks", "patterns", "epsilon"), 1.0, r"`tasks\.patterns\.consent` stands beside `epsilon`"),
    (("tasks", "patterns", "delta"), 1e-6, r"`tasks\.patterns\.delta` stands there without `epsilon`"),
    (("tasks", "patterns", "colluders"), 1, r"`tasks\.patterns\.colluders` is no field of a task any more"),
    (("tasks", "wear", "epsilon"), 0, r"`tasks\.wear\.epsilon`"),
    (("tasks", "wear", "epsilon"), "1", r"`tasks\.wear\.epsilon`"),
    (("tasks", "wear", "epsilon"), 2.5, r"`tasks\.wear` costs more than `members\.west\.budget`"),
    (("tasks", "wear", "delta"), None, r"`tasks\.wear\.delta` is missing or 0"),
    (("tasks", "wear", "delta"), 0, r"`tasks\.wear\.delta` is missing or 0"),
    (("tasks", "wear", "delta"), 1.0, r"`tasks\.wear\.delta`"),
    (("tasks", "wear", "delta"), 2e-5, r"`tasks\.wear` costs more"),
    (("tasks", "wear", "colluders"), 2, r"`tasks\.wear\.colluders` is no field of a task any more"),
    (("tasks", "patterns", "parameters", "sparsity"), [1], r"`tasks\.patterns\.parameters\.sparsity`"),
    (("tasks", "patterns", "parameters", "Sparsity"), 1, r"`tasks\.patterns\.parameters\.Sparsity`"),
    (("tasks", "patterns", "parameters", "n"), 2**60, r"`tasks\.patterns\.parameters\.n`"),
    (("tasks", "patterns", "parameters", "n"), math.nan, r"`tasks\.patterns\.parameters\.n`"),
    (("tasks", "models", "learner"), "os.system", r"`tasks\.models\.learner` is not one of"),
    (("tasks", "survey", "columns"), ["age", "age"], r"`tasks\.survey\.columns`"),
    (("tasks", "survey", "columns"), [], r"`tasks\.survey\.columns`"),
    (("tasks", "survey", "columns"), "age", r"`tasks\.survey\.columns` is not a list"),
    (("tasks", "survey", "columns"), ["weight"], "columns that the schema lacks"),
    (("schema",), {}, "`schema`: "),
    (("schema",), 1, "`schema`: "),
    (("schema", "columns", "age", "low"), 200, "`schema`: "),
]


@pytest.mark.parametrize(
    ("path", "value", "message"), BAD, ids=[f"{'.'.join(each[0])}={each[1]!r:.30}" for each in BAD]
)
def test_bad_fields_are_refused_by_their_path(path: tuple[str, ...], value: Any, message: str) -> None:
    with pytest.raises(AgreementError, match=message) as refused:
        Agreement.from_dict(changed(*path, to=value))
    assert refused.value.remedy


@pytest.mark.parametrize(
    "path",
    [("format",), ("name",), ("schema",), ("members", "north", "key"), ("tasks", "risk", "method")],
    ids=".".join,
)
def test_missing_fields_are_named(path: tuple[str, ...]) -> None:
    with pytest.raises(AgreementError, match=rf"lacks the field `{path[-1]}`"):
        Agreement.from_dict(changed(*path, to=None))


def test_a_near_miss_gets_a_hint() -> None:
    with pytest.raises(AgreementError, match="Did you mean `threshold`"):
        Agreement.from_dict(changed("sums", "treshold", to=2))


def test_what_somebody_else_wrote_is_not_quoted() -> None:
    """A key can hold anything: control characters would steer the terminal, and data opened by mistake would be shown."""
    with pytest.raises(AgreementError) as refused:
        Agreement.from_dict(changed("sums", "\x1b[2J", to=2))
    assert "\x1b" not in str(refused.value)
    with pytest.raises(AgreementError) as refused:
        Agreement.from_toml('name = "patient Miller, born 1950\n')
    assert "Miller" not in str(refused.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(AgreementError, match="cannot be read"):
        Agreement.load(tmp_path / "none.toml")
    with pytest.raises(AgreementError, match="is not a file"):
        Agreement.load(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    with pytest.raises(AgreementError, match="UTF-8"):
        Agreement.load(tmp_path / "latin.toml")
    (tmp_path / "large.toml").write_bytes(b"#" * (2**22 + 1))
    with pytest.raises(AgreementError, match="larger than"):
        Agreement.load(tmp_path / "large.toml")


# What can be signed

COMPLETE = [
    (("members",), {"east": DOCUMENT["members"]["east"]}, "1 of at least 2 members"),
    (("tasks",), {}, "no task"),
    (("sums", "threshold"), 1, "from 2 to 3"),
    (("sums", "threshold"), 4, r"`sums\.threshold`: .* more than the 3 members there are. Use 3 .* or less"),
    (("sums", "dishonest"), 1, "of which 1 may be dishonest.* Use the threshold 3 .nobody may leave., or expect fewer"),
    (("sums", "dishonest"), 2, r"`sums\.dishonest`: .* fewer than two honest members hides nothing. Expect 0 to 1"),
    (("tasks", "wear", "parameters"), {"family": "weibull"}, r"`tasks\.wear\.parameters\.family` is not one of"),
    (("tasks", "wear", "parameters"), {"private_iterations": 0}, r"parameters\.private_iterations` is not a whole"),
    (("tasks", "patterns", "consent"), False, "Give the task an epsilon"),
]


@pytest.mark.parametrize(("path", "value", "message"), COMPLETE, ids=[".".join(each[0]) for each in COMPLETE])
def test_what_does_not_fit_together_cannot_be_signed(path: tuple[str, ...], value: Any, message: str) -> None:
    agreement = Agreement.from_dict(changed(*path, to=value))
    with pytest.raises(AgreementError, match=message):
        agreement.check_complete()


PARAMETERS_OF = [
    ("models", "regularization", 0.1, True),
    ("models", "random_state", 1, False),
    ("models", "epsilon", 9.0, False),
    ("models", "account", "mine", False),
    ("models", "sparsity", 1.0, False),
    ("patterns", "sparsity", 0.2, True),
    ("patterns", "most_numbers", 1000, True),
    ("patterns", "hide", "nothing", False),
    ("patterns", "epsilon", 1.0, False),
    ("patterns", "private_iterations", 8, False),
    ("wear", "family", "diagonal_gaussian", True),
    ("wear", "family", "poisson", True),
    ("wear", "private_iterations", 8, True),
    ("wear", "dtype", "float32", True),
    ("wear", "search", True, False),
    ("wear", "most_numbers", 1000, False),
    ("wear", "epsilon", 1.0, False),
    ("risk", "norm_bound", 1.0, True),
    ("risk", "steps", 3, False),
    ("scale", "anything", 1, False),
    ("survey", "anything", 1, False),
]


@pytest.mark.parametrize(("task", "name", "value", "is_one"), PARAMETERS_OF)
def test_only_parameters_that_the_learner_takes_can_be_signed(task: str, name: str, value: Any, is_one: bool) -> None:
    agreement = Agreement.from_dict(changed("tasks", task, "parameters", to={name: value}))
    if is_one:
        agreement.check_complete()
        return
    with pytest.raises(AgreementError, match=rf"`tasks\.{task}\.parameters\.{name}` is not a parameter"):
        agreement.check_complete()


def test_a_parameter_may_be_a_short_list() -> None:
    """The widths of a network's hidden layers; the same after a round through the document."""
    network = {"kind": "models", "learner": "PrivateMLPClassifier", "epsilon": 1.0, "delta": 1e-6}
    asked = {**network, "parameters": {"hidden_layer_sizes": [8, 4]}}
    agreement = Agreement.from_dict(changed("tasks", "models", to=asked))
    agreement.check_complete()
    assert agreement.task("models").parameters == {"hidden_layer_sizes": (8, 4)}
    again = Agreement.from_dict(json.loads(json.dumps(agreement.to_dict())))
    assert again.digest == agreement.digest
    for wrong in ([], [1] * 65, [[1]], [None]):
        asked["parameters"] = {"hidden_layer_sizes": wrong}
        with pytest.raises(AgreementError, match="hidden_layer_sizes"):
            Agreement.from_dict(changed("tasks", "models", to=asked))


@pytest.mark.parametrize("value", ["many", 0, -1, 2.5, True])
def test_how_many_numbers_may_be_shown_is_a_whole_number(value: Any) -> None:
    agreement = Agreement.from_dict(changed("tasks", "patterns", "parameters", to={"most_numbers": value}))
    with pytest.raises(AgreementError, match="most_numbers` is not a whole number"):
        agreement.check_complete()


def test_one_parameter_under_two_names_cannot_be_signed() -> None:
    both = {"most_iterations": 50, "max_iter": 60}
    agreement = Agreement.from_dict(changed("tasks", "patterns", "parameters", to=both))
    with pytest.raises(AgreementError, match="which are one parameter"):
        agreement.check_complete()


def test_a_private_dictionary_needs_no_consent_not_even_of_two() -> None:
    """What two or three members may not do with exact sums they may do with noisy ones."""
    document = changed("sums", "threshold", to=None)
    document["tasks"] = {"wear": {"kind": "dictionary", "patterns": 4, "epsilon": 1, "delta": 1e-6}}
    del document["members"]["west"]
    agreement = Agreement.from_dict(document)
    agreement.check_complete()
    task = agreement.task("wear")
    assert isinstance(task, DictionaryTask)
    assert task.is_private
    assert (task.epsilon, task.delta, task.cost, agreement.colluders) == (1.0, 1e-6, (1.0, 1e-6), 1)
    assert task.to_dict() == {"kind": "dictionary", "patterns": 4, "epsilon": 1.0, "delta": 1e-6}


def test_a_private_dictionary_needs_number_columns() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["tasks"] = {"wear": document["tasks"]["wear"]}
    document["schema"]["columns"] = {"smoker": {"kind": "category", "values": ["no", "yes"]}}
    with pytest.raises(AgreementError, match="needs columns that are numbers"):
        Agreement.from_dict(document).check_complete()


def test_without_a_threshold_all_must_stay() -> None:
    agreement = Agreement.from_dict(changed("sums", "threshold", to=None))
    assert agreement.threshold == 3
    agreement.check_complete()
    Agreement.from_dict(DOCUMENT).check_complete()


def test_one_of_three_or_more_members_may_be_dishonest_unless_something_else_is_agreed() -> None:
    document = changed("sums", "dishonest", to=None)
    assert Agreement.from_dict(document).dishonest == 1
    del document["members"]["west"]
    assert Agreement.from_dict(document).dishonest == 0
    assert Agreement.from_dict(DOCUMENT).dishonest == 0


@pytest.mark.parametrize(
    ("members", "threshold", "dishonest", "fits"),
    [(4, 3, 1, True), (4, 3, 2, False), (5, 4, 2, True), (5, 3, 0, True), (5, 3, 1, False), (5, 5, 3, True)],
)
def test_any_two_groups_that_finish_a_sum_share_an_honest_member(
    members: int, threshold: int, dishonest: int, fits: bool
) -> None:
    document = copy.deepcopy(DOCUMENT)
    document["members"] = {
        f"member-{place}": {**DOCUMENT["members"]["east"], "key": f"{place + 2:064x}"} for place in range(members)
    }
    document["sums"] |= {"threshold": threshold, "dishonest": dishonest}
    document["tasks"] = {"scale": DOCUMENT["tasks"]["scale"]}
    agreement = Agreement.from_dict(document)
    if not fits:
        with pytest.raises(AgreementError, match=r"`sums\.threshold`: A threshold of . does not fit"):
            agreement.check_complete()
        with pytest.raises(AgreementError, match=r"`sums\.threshold`: A threshold of . does not fit"):
            _ = agreement.colluders
        return
    agreement.check_complete()
    assert agreement.colluders == members - threshold + dishonest + 1


def test_shares_are_not_counted_among_too_few_members() -> None:
    with pytest.raises(AgreementError, match="1 of at least 2 members"):
        _ = Agreement.from_dict(changed("members", to={"east": DOCUMENT["members"]["east"]})).colluders


def test_agreements_without_noisy_sums_keep_the_hash_under_which_signatures_stand() -> None:
    """From before tasks with noisy sums lost a field."""
    document = copy.deepcopy(DOCUMENT)
    for name in ("risk", "scale", "wear"):
        del document["tasks"][name]
    assert Agreement.from_dict(document).digest == "398e1ea645ce016cd798b80c914794df1f161e6a42b674cf34818ad21fcf8a5e"


def test_members_and_tasks_by_name() -> None:
    agreement = Agreement.from_dict(DOCUMENT)
    assert agreement.member("west").public_key == b"\x33" * 32
    assert agreement.task("risk").cost == (1.0, 1e-6)
    assert agreement.task("patterns").cost == (0.0, 0.0)
    with pytest.raises(AgreementError, match="it has: east, north, west"):
        agreement.member("south")
    with pytest.raises(AgreementError, match="it has: models, patterns, risk, scale, survey"):
        agreement.task("none")
    other = agreement.with_member(MemberEntry("west", "55" * 32, Budget(9.0, 0.5)))
    assert len(other.members) == 3
    assert differences(agreement, other) == (
        "members.west.budget.delta",
        "members.west.budget.epsilon",
        "members.west.key",
    )


# What differs


def leaves(document: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in document.items():
        if isinstance(value, dict):
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key)


OTHER = {
    "name": "others",
    "threshold": 3,
    "dishonest": 1,
    "key": "77" * 32,
    "learner": "PrivateRidge",
    "patterns": 7,
    "sparsity": 0.3,
    "columns": ["age"],
    "values": ["no", "yes", "was"],
    "classes": [0, 1, 2],
    "low": 1,
    "high": 111,
    "round_seconds": 31.0,
    "task_seconds": 3601.0,
    "epsilon": 1.9,
    "delta": 2e-6,
}


@pytest.mark.parametrize("path", [each for each in leaves(DOCUMENT) if each[-1] in OTHER], ids=".".join)
def test_one_changed_field_changes_the_hash_and_is_named(path: tuple[str, ...]) -> None:
    agreement, other = Agreement.from_dict(DOCUMENT), Agreement.from_dict(changed(*path, to=OTHER[path[-1]]))
    assert agreement.digest != other.digest
    assert differences(agreement, other) == (".".join(path),)
    nonce = b"of this conversation"
    assert differing_fields(agreement.field_digests(nonce), other.field_digests(nonce)) == (".".join(path),)


def test_every_field_has_a_digest_that_another_nonce_changes() -> None:
    agreement = Agreement.from_dict(DOCUMENT)
    one, two = agreement.field_digests(b"1"), agreement.field_digests(b"2")
    assert {".".join(path) for path in leaves(DOCUMENT)} <= set(one) | {"format"}
    assert set(one) == set(two)
    assert not set(one.values()) & set(two.values())
    assert parsed_field_digests(one) == one


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"a": 1},
        {"a": "0" * 63},
        {1: "0" * 64},
        {"\x1b": "0" * 64},
        {"a" * 301: "0" * 64},
        {"a": "G" * 64},
    ],
)
def test_field_digests_from_elsewhere_are_audited(value: object) -> None:
    with pytest.raises(AgreementError):
        parsed_field_digests(value)


def test_strange_column_names_still_give_paths_that_pass() -> None:
    columns = {"a.b": {"kind": "number", "low": 0, "high": 1}, "a": {"kind": "number", "low": 0, "high": 1}}
    columns |= {"年齢": columns["a"], '"' * 200: columns["a"]}
    agreement = Agreement.from_dict({**DOCUMENT, "tasks": {}, "schema": {"columns": columns}})
    digests = agreement.field_digests(b"")
    assert 'schema.columns."a.b".low' in digests
    assert "schema.columns.年齢.low" in digests or 'schema.columns."年齢".low' in digests
    assert parsed_field_digests(digests) == digests


def test_the_mismatch_names_fields() -> None:
    error = mismatch(tuple(f"field{number}" for number in range(10)))
    assert isinstance(error, AgreementMismatch)
    assert "field0, field1" in error.problem
    assert "and 2 more" in error.problem
    assert "its hash" in mismatch(()).problem


# A relay that collects

RELAY_KEY = "44" * 32


def relayed(key: str = RELAY_KEY, **sums: Any) -> dict[str, Any]:
    return {**DOCUMENT, "relay": {"key": key}, "sums": {**DOCUMENT["sums"], "collector": "relay", **sums}}


def test_the_relay_s_key_and_part_are_agreed_on() -> None:
    agreement = Agreement.from_dict(relayed())
    agreement.check_complete()
    assert agreement.relay_collects
    assert agreement.pinned_keys == {"east": "11" * 32, "north": "22" * 32, "west": "33" * 32, "relay": RELAY_KEY}
    assert Agreement.from_toml(agreement.to_toml()) == agreement
    assert differences(agreement, Agreement.from_dict(relayed("55" * 32))) == ("relay.key",)
    assert differences(agreement, Agreement.from_dict(DOCUMENT)) == ("relay.key", "sums.collector")


def test_an_agreement_that_names_no_relay_keeps_its_hash() -> None:
    agreement = Agreement.from_dict(DOCUMENT)
    assert not agreement.relay_collects
    assert Agreement.from_dict(changed("sums", "collector", to="member")).digest == agreement.digest
    assert "relay" not in agreement.to_toml()
    # A key alone chooses nothing.
    assert not Agreement.from_dict({**DOCUMENT, "relay": {"key": RELAY_KEY}}).relay_collects


NO_KEYS = ["", "44", "zz" * 32, "00" * 32, "01" + "00" * 31, "ec" + "ff" * 30 + "7f", 44]


@pytest.mark.parametrize("key", NO_KEYS)
def test_a_relay_s_key_is_one_that_only_its_owner_signs_with(key: Any) -> None:
    with pytest.raises(AgreementError, match=r"`relay\.key` is not"):
        Agreement.from_dict(relayed(key))


def test_a_relay_that_cannot_collect_is_refused_with_the_reason() -> None:
    without = changed("sums", "collector", to="relay")
    with pytest.raises(AgreementError, match=r"names no key of the relay.*section \[relay\]"):
        Agreement.from_dict(without)
    with pytest.raises(AgreementError, match="the public key of 'north'"):
        Agreement.from_dict(relayed("22" * 32))
    with pytest.raises(AgreementError, match="one of member, relay"):
        Agreement.from_dict(relayed(collector="server"))
    with pytest.raises(AgreementError, match="lacks the field `key`"):
        Agreement.from_dict({**DOCUMENT, "relay": {}})
    named = {**DOCUMENT["members"], "relay": {"key": "66" * 32, "budget": {"epsilon": 4.0, "delta": 1e-5}}}
    with pytest.raises(AgreementError, match="can have the name 'relay'"):
        Agreement.from_dict({**relayed(), "members": named})
    assert "relay" in Agreement.from_dict({**DOCUMENT, "members": named}).member_names
    everyone = Agreement.from_dict(relayed(threshold=3))
    with pytest.raises(AgreementError, match=r"`sums\.collector`.*has no collector"):
        everyone.check_complete()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("hidden_layer_sizes", [width]) for width in (True, "a", 0, -5, 2.5, 2**16 + 1)),
        ("hidden_layer_sizes", [8] * 21),
        ("encoding", "nonsense"),
        ("encoding", 5),
    ],
)
def test_a_network_that_cannot_be_trained_together_cannot_be_signed(name: str, value: Any) -> None:
    task = {"kind": "learning", "method": "network", "epsilon": 1.0, "delta": 1e-6}
    task["parameters"] = {"hidden_layer_sizes": [2**16, 1], "encoding": "scaled"}
    Agreement.from_dict(changed("tasks", "risk", to=task)).check_complete()
    task["parameters"] |= {name: value}
    with pytest.raises(AgreementError, match=rf"tasks\.risk\.parameters\.{name}"):
        Agreement.from_dict(changed("tasks", "risk", to=task)).check_complete()
