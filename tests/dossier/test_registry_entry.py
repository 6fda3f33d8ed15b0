"""Entries for the public registry of deployments: accepted for every kind of release, and refused where somebody spoils them."""

from __future__ import annotations

import copy
import datetime
import json
from dataclasses import replace
from typing import Any

import pytest
import yaml

from sudare.dossier.registry_entry import FILE_NAME, Publication, registry_entry, yaml_text
from sudare.dossier.registry_fields import problems_of, tier_of
from sudare.dossier.release_product_kinds import PRODUCTS
from sudare.dossier.statement import sections_of
from sudare.errors import InvalidParameter
from sudare.neural.network_estimator import FLOAT_NOISE
from sudare.report.privacy_card import Signature
from tests.dossier.made_up_facts import PROMISES, Promise, made_up_facts

TODAY = datetime.date(2026, 11, 16)
FILLED = Publication("Ages", "A clinic", "Nonprofit", "planning", "Japan", "Healthcare", "2026-11-01", "Somebody")


def entry_of(learner: str, promise: Promise, publication: Publication = FILLED) -> dict[str, Any]:
    return registry_entry(made_up_facts(learner, promise), publication, TODAY)


@pytest.mark.parametrize("publication", [FILLED, Publication()], ids=["filled", "draft"])
@pytest.mark.parametrize("promise", PROMISES, ids=str)
@pytest.mark.parametrize("learner", PRODUCTS)
def test_every_release_has_an_entry_that_the_registry_accepts(
    learner: str, promise: Promise, publication: Publication
) -> None:
    entry = entry_of(learner, promise, publication)
    assert problems_of(entry, FILE_NAME) == []
    text = yaml_text(entry, publication)
    # As their checker reads it: YAML 1.1, no folded text.
    assert yaml.safe_load(text) == json.loads(json.dumps(entry)) == entry
    assert {token.style for token in yaml.scan(text) if isinstance(token, yaml.ScalarToken)} <= {None, '"'}
    said = entry["deployment"]
    assert said["privacy_loss"]["privacy_parameters"]["epsilon"] == promise.epsilon
    assert said["privacy_loss"]["privacy_parameters"].get("delta", 0.0) == promise.delta
    assert said["dp_variant"]["variant_name"] == ("Pure DP" if promise.delta == 0 else "Approximate DP")
    assert said["privacy_loss"]["privacy_unit"].lower() == promise.unit
    assert promise.word in said["implementation"]["justification"]
    assert said["administrative"]["status"] == "Draft"
    assert said["administrative"]["tier"] == 3


def test_a_signature_that_nobody_checked_is_nobodys_attestation() -> None:
    facts = made_up_facts("PrivateMean", PROMISES[0])
    cases: list[tuple[Signature, str, str]] = [
        ("trusted", "Authorized organizational attestation", "5647 5aa7"),
        ("unchecked", "Other public source", "5647 5aa7, a key that was NOT CHECKED"),
    ]
    for signature, kind, note in cases:
        entry = registry_entry(replace(facts, card=replace(facts.card, signature=signature)), FILLED, TODAY)
        source = entry["deployment"]["administrative"]["evidence_sources"]["release_file"]
        assert source["evidence_source_type"] == kind
        assert source["misc"]["note"].endswith(note)
        assert problems_of(entry, FILE_NAME) == []


def test_the_justification_tells_the_exception_of_delta() -> None:
    with_delta = next(each for each in PROMISES if each.delta > 0)
    said = entry_of("PrivateMean", with_delta)["deployment"]["implementation"]["justification"]
    assert "exception of probability" in said or "showing one whole row" in said


KINDS = {
    "PrivateMean": "Summary statistics",
    "PrivateRidge": "Machine learning model",
    "RecordPerturbation": "Dataset",
    "PrivateSynthesizer": "Synthetic data",
}


@pytest.mark.parametrize(("learner", "name"), KINDS.items())
def test_the_kind_of_product(learner: str, name: str) -> None:
    assert entry_of(learner, PROMISES[0])["deployment"]["basic"]["data_product_type"] == name


def test_names_are_only_ever_text() -> None:
    hostile = ('x"\n  tier: 9\n', "# no\u2028comment\x85", "'- *a &b !!c %d @e: {f}")
    entry = registry_entry(made_up_facts("PrivateMean", PROMISES[0], hostile), FILLED, TODAY)
    assert yaml.safe_load(yaml_text(entry, FILLED)) == entry


def test_backslashes_in_names_are_no_latex() -> None:
    entry = registry_entry(made_up_facts("PrivateMean", PROMISES[0], (r"\\alpha", r"a\\\b")), FILLED, TODAY)
    assert problems_of(entry) == []
    assert r"\ \alpha" in entry["deployment"]["basic"]["description"]


def spoiled(path: str, value: object) -> dict[str, Any]:
    entry = copy.deepcopy(entry_of("PrivateMean", PROMISES[0]))
    place: Any = entry
    *above, last = path.split(".")
    for name in above:
        place = place[name]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return entry


SPOILED: list[tuple[str, Any]] = [
    ("url_slug", None),
    ("surprise", "x"),
    ("deployment.basic.name", None),
    ("deployment.basic.name", 3),
    ("deployment.basic.data_curators", []),
    ("deployment.basic.data_curators", [{"data_curator_name": "x", "data_curator_type": "Club"}]),
    ("deployment.basic.data_product_type", "surprise"),
    ("deployment.basic.publication_date", "1/1/2026"),
    ("deployment.basic.publication_date", "2026-02-30"),
    ("deployment.basic.publication_date", datetime.date(2026, 1, 1)),
    ("deployment.basic.author", "x"),
    ("deployment.dp_variant.variant_name", "DP"),
    ("deployment.privacy_loss.privacy_parameters.epsilon", "1"),
    ("deployment.privacy_loss.number_of_privacy_units", 1.5),
    ("deployment.privacy_loss.number_of_privacy_units", True),
    ("deployment.administrative.status", None),
    ("deployment.administrative.tier", 0),
    ("deployment.administrative.tier", 2),
    ("deployment.administrative.registry_authors", []),
    ("deployment.administrative.evidence_sources", {"a": {"evidence_source_type": "hearsay", "misc": {}}}),
    (
        "deployment.administrative.evidence_sources",
        {"a": {"evidence_source_type": "Other public source", "film": {}}},
    ),
    (
        "deployment.administrative.evidence_sources",
        {"a": {"evidence_source_type": "Other public source", "misc": {"actor": "x"}}},
    ),
    ("deployment.basic", "x"),
    ("deployment.dp_variant.data_domain", ""),
    ("deployment.basic.name", r"rows \\alpha"),
]


@pytest.mark.parametrize(("path", "value"), SPOILED)
def test_spoiled_entries_are_refused(path: str, value: object) -> None:
    assert problems_of(spoiled(path, value), FILE_NAME)


def test_a_name_with_a_hyphen_is_refused() -> None:
    assert problems_of(entry_of("PrivateMean", PROMISES[0]), "registry-entry.yaml")


def test_the_tier_is_that_of_the_filled_fields() -> None:
    entry = entry_of("PrivateMean", PROMISES[0])
    assert tier_of(entry) == 3
    entry["deployment"]["implementation"]["utility"] = ""
    assert tier_of(entry) == 2
    del entry["deployment"]["dp_variant"]["variant_name"]
    assert tier_of(entry) == 1


@pytest.mark.parametrize(
    "document", [{"curator_type": "Club"}, {"sector": "Fishing"}, {"date": "yesterday"}, {"name": 3}, {"colour": "red"}]
)
def test_what_a_person_says_is_checked(document: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        Publication.of(document)
    assert Publication.of({"name": "Ages"}).missing == [
        "curator",
        "curator_type",
        "intended_use",
        "region",
        "sector",
        "date",
        "author",
    ]


def test_noise_that_is_not_exact_is_called_so() -> None:
    facts = made_up_facts("PrivateMLPClassifier", PROMISES[1])
    inexact = replace(facts, card=replace(facts.card, remarks=(("arithmetic", FLOAT_NOISE),)))
    told = registry_entry(inexact, FILLED, TODAY)["deployment"]["implementation"]["mechanisms"]
    assert FLOAT_NOISE in told
    assert "exactly or within" not in told
    answers = [row.answer for section in sections_of(inexact) for row in section.rows]
    assert any(FLOAT_NOISE in answer.en for answer in answers)
    assert any("理想的な算術" in answer.ja for answer in answers)
