"""The entry of a release for the public Differential Privacy Deployments Registry, as data and as YAML.

What a file does not know (who publishes it, what for, where) comes from a person; until then the entry is a draft that says so.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Self

from sudare.dossier.promise_texts import strength_text
from sudare.dossier.registry_fields import CURATOR_TYPES, SECTORS, tier_of
from sudare.dossier.statement import contents_text, declared_text, row_number_text, sections_of, whose_word
from sudare.dossier.statement_facts import Facts
from sudare.errors import InvalidParameter

FILE_NAME: Final = "registry_entry.yaml"
TO_FILL_IN: Final = "TO BE FILLED IN BY A PERSON"
_PRODUCT_TYPES: Final = {
    "statistics": "Summary statistics",
    "model": "Machine learning model",
    "perturbed": "Dataset",
    "synthetic": "Synthetic data",
}


@dataclass(frozen=True)
class Publication:
    """What only the publisher knows."""

    name: str = ""
    curator: str = ""
    curator_type: str = ""
    intended_use: str = ""
    region: str = ""
    sector: str = ""
    date: str = ""
    author: str = ""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """From a parsed document. Raise InvalidParameter unless it has these fields only, as texts, with words that the registry knows."""
        known = {field.name for field in fields(cls)}
        if set(document) - known or not all(isinstance(value, str) for value in document.values()):
            raise InvalidParameter(
                "The file about the publication has other fields than it should, or one that is not text.",
                f"It may have, each as text: {', '.join(sorted(known))}.",
            )
        made = cls(**document)
        if made.curator_type not in ("", *CURATOR_TYPES) or made.sector not in ("", *SECTORS):
            raise InvalidParameter(
                "The registry does not have that curator_type or sector.",
                f"curator_type: {', '.join(CURATOR_TYPES)}. sector: {', '.join(SECTORS)}.",
            )
        if made.date and not re.fullmatch(r"\d{4}-\d\d-\d\d", made.date):
            raise InvalidParameter(
                "The date of publication is not written like 2026-01-31.", "Write year, month and day."
            )
        return made

    @property
    def missing(self) -> list[str]:
        """What is still to be filled in."""
        return [field.name for field in fields(self) if not getattr(self, field.name)]


def registry_entry(facts: Facts, publication: Publication, today: datetime.date) -> dict[str, Any]:
    """The entry, in the registry's fields, of one release."""
    said = {row.heading.en: row.answer.en for section in sections_of(facts) for row in section.rows}
    entry: dict[str, Any] = {
        "url_slug": f"sudare-release-{(facts.card.digest or 'unsaved')[:12]}",
        "deployment": {
            "basic": _basic(facts, publication, today),
            "dp_variant": _variant(facts),
            "privacy_loss": _privacy_loss(facts, said),
            "deployment_model": _deployment_model(facts, said),
            "implementation": _implementation(facts, said),
            "administrative": _administrative(facts, publication),
        },
    }
    entry["deployment"]["administrative"]["tier"] = tier_of(entry)
    plain: dict[str, Any] = _without_latex(entry)
    return plain


def _without_latex(value: Any) -> Any:
    """The value with a blank between backslashes in all its texts: the registry's pages take two in a row for LaTeX, and a name may have them."""
    if isinstance(value, str):
        return re.sub(r"\\(?=\\)", r"\\ ", value)
    if isinstance(value, dict):
        return {name: _without_latex(each) for name, each in value.items()}
    return [_without_latex(each) for each in value] if isinstance(value, list) else value


def _basic(facts: Facts, publication: Publication, today: datetime.date) -> dict[str, Any]:
    return {
        "name": publication.name or TO_FILL_IN,
        "data_curators": [
            {
                "data_curator_name": publication.curator or TO_FILL_IN,
                "data_curator_type": publication.curator_type or "Industry",
            }
        ],
        "description": f"{sections_of(facts)[0].opening.en} Contents: {contents_text(facts).en} Columns: {facts.columns.en}.",
        "intended_use": publication.intended_use or TO_FILL_IN,
        "data_product_type": _PRODUCT_TYPES[facts.kind],
        "data_product_region": publication.region or TO_FILL_IN,
        **({"data_product_sector": publication.sector} if publication.sector else {}),
        "publication_date": publication.date or today.isoformat(),
    }


def _variant(facts: Facts) -> dict[str, Any]:
    card = facts.card
    return {
        "variant_name": "Pure DP" if card.delta == 0 else "Approximate DP",
        "data_domain": f"Tables with the columns {facts.columns.en}; values outside the declared bounds count as the nearest ones within.",
        "unprotected_quantities": row_number_text(facts).en if facts.rows else "None; the number of rows is protected.",
    }


def _privacy_loss(facts: Facts, said: Mapping[str, str]) -> dict[str, Any]:
    card = facts.card
    between = (
        "replace-one: two tables of the same number of rows"
        if card.neighbours == "replace-one"
        else "add/remove: two tables of which one has more rows"
    )
    return {
        "privacy_unit": "Person" if facts.is_person else "Record",
        "privacy_unit_details": f"{said['unit of privacy']} Neighbours are {between} that differ in one {card.unit}.",
        **({} if card.rows is None or facts.is_person else {"number_of_privacy_units": card.rows}),
        "privacy_parameters": {"epsilon": card.epsilon, **({"delta": card.delta} if card.delta else {})},
        "privacy_parameters_details": said["privacy parameters ε and δ"],
    }


def _deployment_model(facts: Facts, said: Mapping[str, str]) -> dict[str, Any]:
    card = facts.card
    federated = facts.is_towards_members
    return {
        "model_name": "Federated" if federated else "Central",
        "model_name_details": "The curator holds the records. Each record was perturbed by itself before release: the parameters are those of a local randomiser."
        if card.notion == "local"
        else "The curator holds the records and adds the noise."
        if not federated
        else "Members add their own noise to a secure sum.",
        "trust_assumptions": said["trust model"],
        "actors": f"The curator, trusted with the records. Recipients of the release: {facts.towards.en}, not trusted, with any other knowledge.",
        "release_type": "One release",
        "release_type_details": f"One charge (entry {card.entry}) of the account {facts.account.en}, whose budget limits all releases about the same records.",
        "data_source_type": "Static",
        "data_source_type_details": "The release was computed once, from the records of one moment.",
        "access_type": "Non-interactive",
        "access_type_details": "Recipients have the signed file; nobody can query the records.",
    }


def _implementation(facts: Facts, said: Mapping[str, str]) -> dict[str, Any]:
    card = facts.card
    return {
        "preprocessing_and_hyperparameter_tuning": f"{declared_text(facts).en} Choices that sudare made from the records are part of the charge; what else was tried on them the file does not show.",
        "mechanisms": f"{said['algorithms and correctness']} Made with {', '.join(f'{name} {version}' for name, version in sorted(card.versions.items()))}. {_noise_text(facts)}",
        "composition": "Charges add up in a hash-chained ledger and are entered before noise is drawn (proofs/accounting.md of sudare).",
        "post_processing": "Everything in the file that is not noisy itself is computed from noisy numbers, private choices and public facts.",
        "justification": f"On the public scale of sudare this is {strength_text(facts).en}. Why it is acceptable is for the curator to say.",
        "utility": said["utility and bias"],
        "additional_information": f"Signed release, SHA-256 {card.digest}; receipt of entry {card.entry} in ledger {card.ledger}. {whose_word(facts).en}",
    }


def _noise_text(facts: Facts) -> str:
    """Where the noise comes from, and how exact it is: as the card says where it says so."""
    if facts.arithmetic is not None:
        return f"Noise comes from the operating system's entropy. Arithmetic: {facts.arithmetic}."
    return "Noise comes from the operating system's entropy and is drawn on a public grid, exactly or within a distance that is counted in δ."


def _administrative(facts: Facts, publication: Publication) -> dict[str, Any]:
    card = facts.card
    is_trusted = card.signature == "trusted"
    return {
        "evidence_sources": {
            "release_file": {
                # Whose word it is nobody knows before the key was checked.
                "evidence_source_type": "Authorized organizational attestation"
                if is_trusted
                else "Other public source",
                "misc": {
                    "title": f"Signed release of {facts.learner} with proof, audit and receipt",
                    "note": f"SHA-256 {card.digest}, signed by {card.signed_by}{'' if is_trusted else ', a key that was NOT CHECKED'}",
                },
            }
        },
        "status": "Draft",
        "registry_authors": [publication.author or TO_FILL_IN],
        "tier": 3,
    }


def yaml_text(entry: Mapping[str, Any], publication: Publication) -> str:
    """The entry as YAML: block style, every text in double quotes, so that nothing in a name can be anything but text."""
    comments = [
        f"Draft entry for the Differential Privacy Deployments Registry, made by sudare from a signed release (fields as of {_registry()}).",
        *(f"To be filled in by a person: {', '.join(publication.missing)}." for _ in publication.missing[:1]),
        *(
            ["data_curator_type 'Industry' and the date are placeholders."]
            if {"curator_type", "date"} & set(publication.missing)
            else []
        ),
    ]
    return "\n".join([*(f"# {line}" for line in comments), *_lines(entry, "")]) + "\n"


def _registry() -> str:
    from sudare.dossier.registry_fields import REGISTRY_COMMIT

    return f"commit {REGISTRY_COMMIT[:12]} of opendp/deployments-registry-data"


def _lines(value: Mapping[str, Any], indent: str) -> Iterator[str]:
    for name, each in value.items():
        if isinstance(each, Mapping):
            yield f"{indent}{name}:"
            yield from _lines(each, f"{indent}  ")
        elif isinstance(each, list):
            yield f"{indent}{name}:"
            for item in each:
                if isinstance(item, Mapping):
                    first, *rest = _lines(item, f"{indent}    ")
                    yield f"{indent}  - {first.strip()}"
                    yield from rest
                else:
                    yield f"{indent}  - {_scalar(item)}"
        else:
            yield f"{indent}{name}: {_scalar(each)}"


def _scalar(value: Any) -> str:
    if isinstance(value, float):
        text = repr(value)
        # YAML 1.1 takes 1e-06 for a word and 1.0e-06 for a number.
        return text.replace("e", ".0e", 1) if "e" in text and "." not in text else text
    if isinstance(value, int):
        return str(value)
    text = json.dumps(str(value), ensure_ascii=False)
    return re.sub(r"[\x7f-\x9f\u2028\u2029\ufeff]", lambda found: f"\\u{ord(found[0]):04x}", text)
