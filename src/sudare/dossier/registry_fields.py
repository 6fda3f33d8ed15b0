"""The fields of an entry in the public Differential Privacy Deployments Registry (OpenDP, proposed to be hosted by NIST), and a check of an entry against them.

Written from the fields that the registry publishes in `schemas/deployments-schema.yaml` of github.com/opendp/deployments-registry-data, as of commit
057e5d81cf60150dd3307e0cf4504b957802fb3b. Its checker (`scripts/check.py` there) asks four things of a file that can be asked without a network: that the name is lower-case, that the schema holds,
that no text is folded, and that none has two backslashes in a row, which its pages would take for LaTeX. A tier that the filled fields support is asked here too.
`python -m tests.dossier.registry_checker CHECKOUT` runs that checker itself.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

REGISTRY_COMMIT: Final = "057e5d81cf60150dd3307e0cf4504b957802fb3b"
CURATOR_TYPES: Final = ("Government", "Industry", "Nonprofit")
SECTORS: Final = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")


@dataclass(frozen=True)
class Leaf:
    """A value: the types and words it may have, and the tier whose entries have it."""

    types: tuple[type, ...] = (str,)
    words: tuple[Any, ...] = ()
    tier: int = 0
    is_date: bool = False


@dataclass(frozen=True)
class Group:
    """Named fields, no others; those that must be there."""

    fields: Mapping[str, Field]
    required: tuple[str, ...] = ()


@dataclass(frozen=True)
class Several:
    """A list of at least one."""

    of: Field


@dataclass(frozen=True)
class Sources:
    """Evidence by name: a type, and one work with fields as in BibTeX."""


Field = Leaf | Group | Several | Sources

_SOURCE_TYPES: Final = (
    "Peer-reviewed publication",
    "Formal publication by the deploying organization",
    "Authorized organizational attestation",
    "Other public source",
)
_WORKS: Final = (
    "article",
    "book",
    "booklet",
    "conference",
    "inbook",
    "incollection",
    "inproceedings",
    "manual",
    "mastersthesis",
    "misc",
    "phdthesis",
    "proceedings",
    "techreport",
    "unpublished",
)
_WORK_FIELDS: Final = (
    "address",
    "annote",
    "author",
    "booktitle",
    "chapter",
    "doi",
    "edition",
    "editor",
    "email",
    "howpublished",
    "institution",
    "issn",
    "isbn",
    "journal",
    "month",
    "note",
    "number",
    "organization",
    "pages",
    "publisher",
    "school",
    "type",
    "series",
    "title",
    "url",
    "volume",
    "year",
)
_NUMBER: Final = (int, float)
_TWO_BACKSLASHES: Final = re.compile(r"\\\\[^()]")

ENTRY: Final = Group(
    {
        "url_slug": Leaf(),
        "deployment": Group(
            {
                "basic": Group(
                    {
                        "name": Leaf(tier=1),
                        "data_curators": Several(
                            Group(
                                {"data_curator_name": Leaf(), "data_curator_type": Leaf(words=CURATOR_TYPES)},
                                ("data_curator_name", "data_curator_type"),
                            )
                        ),
                        "description": Leaf(tier=1),
                        "intended_use": Leaf(tier=1),
                        "data_product_type": Leaf(
                            words=(
                                "Summary statistics",
                                "Machine learning model",
                                "Dataset",
                                "Synthetic data",
                                "Interactive API",
                                "SQL queries",
                            ),
                            tier=1,
                        ),
                        "data_product_region": Leaf(tier=1),
                        "data_product_sector": Leaf(words=SECTORS, tier=1),
                        "publication_date": Leaf(tier=1, is_date=True),
                    },
                    (
                        "name",
                        "data_curators",
                        "description",
                        "intended_use",
                        "data_product_type",
                        "data_product_region",
                        "publication_date",
                    ),
                ),
                "dp_variant": Group(
                    {
                        "variant_name": Leaf(
                            words=("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"), tier=2
                        ),
                        "data_domain": Leaf(tier=3),
                        "unprotected_quantities": Leaf(tier=3),
                    }
                ),
                "privacy_loss": Group(
                    {
                        "privacy_unit": Leaf(tier=2),
                        "privacy_unit_details": Leaf(tier=3),
                        "number_of_privacy_units": Leaf((int,)),
                        "privacy_parameters": Group(
                            {"epsilon": Leaf(_NUMBER, tier=2), "delta": Leaf((*_NUMBER, str)), "rho": Leaf(_NUMBER)}
                        ),
                        "privacy_parameters_details": Leaf(tier=3),
                    }
                ),
                "deployment_model": Group(
                    {
                        "model_name": Leaf(words=("Local", "Central", "Shuffle", "Federated", "Varies"), tier=2),
                        "model_name_details": Leaf(tier=3),
                        "trust_assumptions": Leaf(tier=3),
                        "actors": Leaf(tier=3),
                        "release_type": Leaf(words=("One release", "Many releases"), tier=2),
                        "release_type_details": Leaf(),
                        "data_source_type": Leaf(words=("Static", "Dynamic"), tier=2),
                        "data_source_type_details": Leaf(),
                        "access_type": Leaf(words=("Interactive", "Non-interactive"), tier=2),
                        "access_type_details": Leaf(tier=3),
                    }
                ),
                "implementation": Group(
                    {
                        "preprocessing_and_hyperparameter_tuning": Leaf(tier=3),
                        "mechanisms": Leaf(tier=3),
                        "composition": Leaf(tier=3),
                        "post_processing": Leaf(tier=3),
                        "justification": Leaf(tier=3),
                        "utility": Leaf(tier=3),
                        "additional_information": Leaf(),
                    }
                ),
                "administrative": Group(
                    {
                        "evidence_sources": Sources(),
                        "status": Leaf(
                            words=(
                                "Converted",
                                "Draft",
                                "Pending",
                                "Changes Required",
                                "Approved",
                                "Approved (Update Requested)",
                                "Approved (Pending)",
                            )
                        ),
                        "registry_authors": Several(Leaf()),
                        "tier": Leaf((int,), (1, 2, 3)),
                    },
                    ("status", "registry_authors", "tier"),
                ),
            },
            ("basic", "administrative"),
        ),
    },
    ("url_slug", "deployment"),
)


def problems_of(entry: object, file_name: str = "registry_entry.yaml") -> list[str]:
    """Everything that the registry's checker would object to; empty where it would accept the entry."""
    named = (
        []
        if re.fullmatch(r"[a-z0-9_]+\.yaml", file_name)
        else ["The file's name is not lower-case letters, figures and underscores."]
    )
    found = [*named, *_problems(entry, ENTRY, "")]
    if (
        not found
        and isinstance(entry, dict)
        and (tier := entry["deployment"]["administrative"]["tier"]) != tier_of(entry)
    ):
        found.append(f"The tier is {tier}; the filled fields are those of tier {tier_of(entry)}.")
    return found


def tier_of(entry: Mapping[str, Any]) -> int:
    """The highest tier all of whose fields are filled."""
    empty = {leaf.tier for leaf, value in _leaves(entry, ENTRY) if leaf.tier and value in (None, "")}
    return min(empty) - 1 if empty - {1} else 3


def _leaves(value: Any, field: Field) -> Iterator[tuple[Leaf, Any]]:
    """All values that the fields have room for, those that are not there as None."""
    if isinstance(field, Leaf):
        yield field, value
    elif isinstance(field, Group):
        for name, inner in field.fields.items():
            yield from _leaves(value.get(name) if isinstance(value, Mapping) else None, inner)


def _problems(value: object, field: Field, path: str) -> Iterator[str]:
    match field:
        case Leaf():
            yield from _leaf_problems(value, field, path)
        case Several():
            if not isinstance(value, list) or not value:
                yield f"{path}: not a list of at least one."
                return
            for place, each in enumerate(value):
                yield from _problems(each, field.of, f"{path}.{place}")
        case Group():
            if not isinstance(value, dict):
                yield f"{path}: not a group of fields."
                return
            yield from (f"{path}.{name}: must be there." for name in field.required if name not in value)
            yield from (f"{path}.{name}: no such field." for name in value if name not in field.fields)
            for name, inner in field.fields.items():
                if name in value:
                    yield from _problems(value[name], inner, f"{path}.{name}")
        case Sources():
            yield from _source_problems(value, path)


def _leaf_problems(value: object, leaf: Leaf, path: str) -> Iterator[str]:
    if isinstance(value, bool) or not isinstance(value, leaf.types):
        yield f"{path}: a {type(value).__name__}."
    elif leaf.words and value not in leaf.words:
        yield f"{path}: not one of {', '.join(map(str, leaf.words))}."
    elif isinstance(value, str) and _TWO_BACKSLASHES.search(value):
        yield f"{path}: two backslashes in a row."
    elif leaf.is_date and not _is_date(str(value)):
        yield f"{path}: not a date like 2026-01-31."


def _is_date(text: str) -> bool:
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return bool(re.fullmatch(r"\d{4}-\d\d-\d\d", text))


def _source_problems(value: object, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: not a group of sources."
        return
    for name, source in value.items():
        works = [] if not isinstance(source, dict) else [each for each in source if each != "evidence_source_type"]
        if len(works) != 1 or works[0] not in _WORKS or source.get("evidence_source_type") not in _SOURCE_TYPES:
            yield f"{path}.{name}: not one work with its type."
        elif any(each not in _WORK_FIELDS for each in source[works[0]]):
            yield f"{path}.{name}: a field that BibTeX does not have."
