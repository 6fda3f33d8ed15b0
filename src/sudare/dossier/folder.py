"""A dossier as a folder: statement, registry entry, proof, audit evidence, receipt."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from sudare import __version__
from sudare.dossier.audit_evidence import audit_evidence
from sudare.dossier.bilingual_sections import Text
from sudare.dossier.promise_texts import strength_text
from sudare.dossier.proof_pages import proof_html
from sudare.dossier.registry_entry import FILE_NAME, Publication, registry_entry, yaml_text
from sudare.dossier.registry_fields import problems_of
from sudare.dossier.statement import NO_ADVICE, sections_of, whose_word
from sudare.dossier.statement_facts import Facts
from sudare.errors import InvalidParameter
from sudare.files import write_new
from sudare.languages import Language
from sudare.safe_text import escaped_for_terminal

MADE_BY: Final = f"sudare, version {__version__}"
STATEMENT: Final = "dossier.html"
LANGUAGE_NAMES: Final = {"en": "English", "ja": "日本語"}
_HEADINGS: Final = {
    "title": Text("Dossier of a release", "リリースの説明資料"),
    "proof": Text("The proofs behind this release", "このリリースの根拠となる証明"),
    "attached": Text("Attached", "添付"),
    "to_publish": Text("Draft of the publication", "公表の案文"),
    "made": Text("Made by", "作成"),
}
_ATTACHED: Final = {
    FILE_NAME: Text(
        "draft entry for the public Differential Privacy Deployments Registry (the same as registry_entry.json)",
        "公開されている差分プライバシー導入事例登録簿（Differential Privacy Deployments Registry）への登録案（registry_entry.json と同じ内容）",
    ),
    "proof.html": Text("the proofs of the mechanism, in English", "機構の証明（英語）"),
    "audit.json": Text(
        "audits and tests that guard the mechanism, with measured values", "機構を検証する監査と検査、測定値"
    ),
    "receipt.json": Text("the ledger's receipt, as in the release", "リリースに含まれる計上控え"),
}


def write_dossier(folder: Path, facts: Facts, publication: Publication, language: Language) -> list[str]:
    """Write the files of a dossier into a new or empty folder, and return their names."""
    entry = registry_entry(facts, publication, datetime.datetime.now(datetime.UTC).date())
    if problems := problems_of(entry, FILE_NAME):
        raise InvalidParameter(
            f"The registry would not accept this entry: {problems[0]}", "Correct what --about says, or leave it out."
        )
    texts = {
        STATEMENT: statement_html(facts, language),
        FILE_NAME: yaml_text(entry, publication),
        "registry_entry.json": _json(entry),
        "proof.html": proofs_html(facts, language),
        "audit.json": _json(audit_evidence(facts)),
        "receipt.json": _json(facts.receipt),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = any(folder.iterdir())
    except OSError as error:
        raise InvalidParameter(f"'{folder}' cannot be used ({error.strerror}).", "Choose a new folder.") from None
    if taken:
        raise InvalidParameter(
            f"'{folder}' is not empty.", "Choose a new folder: a dossier is never written over another."
        )
    for name, text in texts.items():
        write_new(folder / name, text.encode())
    return list(texts)


def statement_html(facts: Facts, language: Language) -> str:
    """The statement in both languages, the asked one first, as one page that loads nothing."""
    return _template("dossier.html").render(
        languages=_order(language),
        language_names=LANGUAGE_NAMES,
        headings=_HEADINGS,
        attached=_ATTACHED,
        sections=sections_of(facts),
        strength=strength_text(facts),
        facts=facts,
        no_advice=NO_ADVICE,
        whose_word=whose_word(facts),
        made_by=MADE_BY,
    )


def proofs_html(facts: Facts, language: Language) -> str:
    """All proofs behind a release as one page."""
    proofs = [(name, Markup(proof_html(name))) for name in facts.proofs]  # noqa: S704 - escaped where it is made
    return _template("proof.html").render(
        proofs=proofs, language=language, headings=_HEADINGS, facts=facts, made_by=MADE_BY
    )


def _order(language: Language) -> tuple[Language, Language]:
    return ("ja", "en") if language == "ja" else ("en", "ja")


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


@cache
def _template(name: str) -> Template:
    environment = Environment(
        loader=PackageLoader("sudare.dossier"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def _shown(value: object) -> object:
    """Text without controls and invisible marks, before it is escaped for HTML."""
    return escaped_for_terminal(value, keep="\n") if type(value) is str else value
