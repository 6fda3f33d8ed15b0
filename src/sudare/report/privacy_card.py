"""The privacy card of a release: what is promised, in numbers and in words, and who answers for it.

Weak guarantees are called weak. The scale is public, and follows from how sure a reader can become: somebody who is
undecided (50 : 50) between two possible contents of one record can, after reading a release of ε, be sure of the right
one to at most e^ε/(1 + e^ε). Rounded up that is 74 % at ε = 1, 96 % at ε = 3, and 99.996 % at ε = 10.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from rich.cells import cell_len

from sudare.languages import Language, translated, translator
from sudare.report.number_formatting import one_in, percent_up, rounded_up, whole
from sudare.safe_text import escaped_for_terminal, quoted

STRONG_UP_TO = 1.0
MODERATE_UP_TO = 3.0
WEAK_UP_TO = 10.0
SCALE_TEXT = "ε up to 1 strong, up to 3 moderate, above 3 weak, above 10 very weak"

# What numbers of a release are called on a card, where their own name is no word.
_PART_WORDS: Final = {"base_rates": "base rates of classes", "pairs": "pairs of columns"}

# Whom a promise is made to that names nobody.
EVERYONE = "everyone"

Signature = Literal["trusted", "unchecked"]


@dataclass(frozen=True)
class Strength:
    """A word for a guarantee and the reason for it."""

    word: str
    reason: str

    @property
    def is_weak(self) -> bool:
        """Whether a reader must be warned."""
        return self.word not in ("strong", "moderate")


@dataclass(frozen=True)
class ReadBesides:
    """What a release is computed from besides the columns that it declares.

    `keys` are columns of which values were found in the records; `classes` those of a label that is predicted, `number` whether a number is (no file has the name of that column);
    `person` is the column that says whose a row is.
    """

    keys: Sequence[str] = ()
    classes: Sequence[str] = ()
    number: bool = False
    person: str | None = None


@dataclass(frozen=True)
class Card:
    """Plain values about one release. `what` is `learner: numbers; numbers …`; `signature` says whether a key that the reader named has signed it, None where that is told elsewhere."""

    what: str
    epsilon: float
    delta: float
    neighbours: str
    unit: str
    notion: str
    towards: str
    valid: bool
    rows: int | None
    columns: Sequence[str]
    account: str
    entry: int
    ledger: str
    signature: Signature | None
    signed_by: str | None = None
    digest: str | None = None
    schema_digest: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    # Further rows: what has to be said of this release and not of most.
    remarks: Sequence[tuple[str, str]] = ()
    besides: ReadBesides = ReadBesides()


def card_of(
    manifest: Mapping[str, Any],
    sizes: Mapping[str, int],
    remarks: Sequence[tuple[str, str]] = (),
    *,
    signature: Signature,
    signed_by: str | None = None,
    digest: str | None = None,
) -> Card:
    """The card of a release from its manifest, how many numbers leave under each name, and what else has to be said of it."""
    promise, receipt, parameters = manifest["guarantee"], manifest["receipt"], manifest["parameters"]
    columns = {name for name, _ in parameters["columns"]}
    numbers = "; ".join(
        f"{whole(size)} {'number' if size == 1 else 'numbers'} ({quoted(part) if part in columns else _PART_WORDS.get(part, part)})"
        for part, size in sizes.items()
    )
    return Card(
        what=f"{manifest['learner']}: {numbers}",
        epsilon=float(promise["epsilon"]),
        delta=promise["delta"],
        neighbours=promise["neighbours"],
        unit=promise["unit"],
        notion=promise["notion"],
        towards=promise["towards"],
        valid=promise["valid"],
        rows=parameters["rows"],
        columns=[name for name, _ in parameters["columns"]],
        account=receipt["account"],
        entry=receipt["position"],
        ledger=receipt["ledger"],
        signature=signature,
        signed_by=signed_by,
        digest=digest,
        schema_digest=manifest["schema"],
        versions=manifest["versions"],
        remarks=(*found_keys(parameters), *computed_from(parameters), *remarks),
        besides=read_besides(manifest["learner"], parameters),
    )


def read_besides(learner: str, parameters: Mapping[str, Any]) -> ReadBesides:
    """What a release with these parameters is computed from besides the columns that it declares."""
    person, target = parameters.get("person"), parameters.get("target")
    is_number = isinstance(target, Mapping) or learner.endswith("Regressor") or parameters.get("predicts") == "number"
    return ReadBesides(
        keys=tuple(parameters.get("keys") or ()),
        classes=() if target is None or is_number else tuple(map(_class_text, target)),
        number=target is not None and is_number,
        person=None if person is None else person["column"],
    )


def _class_text(value: object) -> str:
    """A class as a schema writes it: booleans in small letters."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def found_keys(parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(label, text) where values of columns that nobody declared leave with a release."""
    columns, found = parameters.get("keys"), len(parameters.get("found") or ())
    if not columns:
        return []
    text = f"{whole(found)} of {', '.join(map(quoted, columns))}, chosen privately: values that enough rows have. They are shown as they stand in the records"
    return [("values found in the records", text)]


def computed_from(parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(label, text) where a release is not about all rows of its table: which slice of it was read, and how many rows of a person are kept."""
    person, where = parameters.get("person"), parameters.get("slice")
    part = (
        []
        if where is None
        else ["the rows with " + " and ".join(f"{quoted(name)} = {quoted(str(where[name]))}" for name in where)]
    )
    kept = [] if person is None else [_kept_rows_text(person)]
    return [("computed from", "; of these ".join([*part, *kept]))] if part or kept else []


def _kept_rows_text(person: Mapping[str, Any]) -> str:
    """How many rows of a person are kept, and what choosing that number took of the ε of the noise; of some persons the choice may tell more than that, and the noise then less."""
    most = person["most_rows"] if person["most_rows"] != "auto" else person["largest"]
    text = f"at most {whole(most)} {'row' if most == 1 else 'rows'} a person; further rows of a person were left out"
    spent = person.get("spent", 0)
    return f"{text}. That number was chosen privately; noise has ε = {rounded_up(spent)} less for it" if spent else text


def sureness(epsilon: float) -> float:
    """How sure of one record's content a reader can become who was undecided between two: e^ε/(1 + e^ε)."""
    return 1 / (1 + math.exp(-epsilon))


def strength_of(
    epsilon: float, delta: float = 0.0, *, rows: int | None = None, notion: str = "central", valid: bool = True
) -> Strength:
    """The word that the public scale gives to a guarantee."""
    if notion == "none" or math.isinf(epsilon):
        return Strength("none", "exact values are shown")
    if not valid:
        return Strength("not valid", "something voids it: seeded noise, or bounds or classes read from the data")
    if notion == "parameter":
        return Strength("very weak", "it protects one parameter of a model, not a record")
    if rows is not None and delta * rows >= 1:
        return Strength(
            "very weak", f"δ is {one_in(delta)} and there are {whole(rows)} rows: showing one whole row fits"
        )
    sure = percent_up(sureness(epsilon))
    if epsilon <= STRONG_UP_TO:
        return Strength("strong", f"a reader who was undecided can become {sure} sure at most")
    if epsilon <= MODERATE_UP_TO:
        return Strength("moderate", f"a reader who was undecided can become {sure} sure")
    word = "weak" if epsilon <= WEAK_UP_TO else "very weak"
    return Strength(word, f"a reader who was undecided can become {sure} sure")


def card_strength(card: Card) -> Strength:
    """The word for the guarantee on a card."""
    return strength_of(card.epsilon, card.delta, rows=card.rows, notion=card.notion, valid=card.valid)


def card_rows(card: Card, language: Language = "en") -> list[tuple[str, str]]:
    """(what a lawyer asks, the answer), in the order of asking."""
    strength, said = card_strength(card), translator(language)
    account = said(
        "account {account}, entry {entry} of ledger {ledger}…",
        account=quoted(card.account, language),
        entry=card.entry,
        ledger=card.ledger[:8],
    )
    towards = said("{towards}, whatever they know or compute", towards=towards_text(card, language))
    before = [
        ("guarantee", f"{_epsilon_text(card)}: {strength.word} ({strength.reason})"),
        ("holds between", _relation_text(card)),
        ("protects", _unit_text(card)),
    ]
    after = [
        ("exceptions", _exception_text(card)),
        ("not protected", _not_protected_text(card)),
        *card.remarks,
    ]
    rows = [
        *([] if card.signature is None else [("signature", _signature_text(card))]),
    ]
    if card.versions:
        rows.append(("made with", ", ".join(f"{name} {version}" for name, version in sorted(card.versions.items()))))
    if card.schema_digest:
        rows.append(("schema", f"SHA-256 {card.schema_digest[:16]}…"))
    if card.digest:
        rows.append(("file", f"SHA-256 {card.digest[:16]}…"))
    rows.append(("scale", SCALE_TEXT))
    told = [
        ("what leaves", _what_leaves(card, language)),
        *((label, said(text)) for label, text in before),
        ("towards", towards),
        *((label, said(text)) for label, text in after),
        ("paid by", account),
        *((label, said(text)) for label, text in rows),
    ]
    # Names in it were written by others: none of them may begin a line of its own.
    return [(translated(label, language), escaped_for_terminal(text)) for label, text in told]


def _what_leaves(card: Card, language: Language) -> str:
    """What leaves and the columns it is made of, whose names stay as they are."""
    return translator(language)(
        "{what}, from {columns}", what=numbers_text(card, language), columns=columns_text(card, language)
    )


def numbers_text(card: Card, language: Language = "en") -> str:
    """How many numbers leave, and what they are: names of columns in the language's quotation marks."""
    what = translated(card.what, language)
    for name in card.columns:
        what = what.replace(quoted(name), quoted(name, language))
    return what


def columns_text(card: Card, language: Language = "en") -> str:
    """All columns that a release is computed from: those it declares, then those of found values, the target, and the one that says whose a row is."""
    said, besides = translator(language), card.besides
    comma = "、" if language == "ja" else ", "
    return comma.join(
        [
            *(quoted(name, language) for name in card.columns),
            *(said("{column} (values found in the records)", column=quoted(name, language)) for name in besides.keys),
            *(
                [
                    said(
                        "a label column, which the file does not name (classes {classes})",
                        classes=comma.join(quoted(name, language) for name in besides.classes),
                    )
                ]
                if besides.classes
                else []
            ),
            *([said("a target column of numbers")] if besides.number else []),
            *(
                []
                if besides.person is None
                else [said("{column} (whose row it is)", column=quoted(besides.person, language))]
            ),
        ]
    )


def towards_text(card: Card, language: Language = "en") -> str:
    """To whom the promise is made: everyone, or those that the file names."""
    return translated(card.towards, language) if card.towards == EVERYONE else quoted(card.towards, language)


def card_text(card: Card, language: Language = "en") -> str:
    """The card for a terminal or a mail; wide letters count as two columns."""
    rows = card_rows(card, language)
    width = max(cell_len(label) for label, _ in rows)
    return "\n".join(f"{label}{' ' * (width - cell_len(label))}  {text}" for label, text in rows)


def how_to_read_epsilon(epsilon: float) -> str:
    """ε in words, for somebody who never saw one."""
    return (
        f"ε = {rounded_up(epsilon)} means: had any one record held something else, the same numbers would have come out, at "
        f"most {_factor_text(epsilon)} times more or less often. "
        f"Somebody who was undecided about one record can therefore be at most {percent_up(sureness(epsilon))} sure "
        "afterwards, even knowing all the other records."
    )


def _factor_text(epsilon: float) -> str:
    factor = math.exp(min(epsilon, 700))
    if factor < 100:
        return rounded_up(factor)
    return whole(math.ceil(factor)) if factor < 1e6 else f"10^{math.ceil(epsilon / math.log(10))}"


def _epsilon_text(card: Card) -> str:
    if card.notion == "none" or math.isinf(card.epsilon):
        return "none"
    kind = "" if card.notion == "central" else f"{card.notion} "
    delta = "0" if card.delta == 0 else rounded_up(card.delta)
    return f"{kind}ε = {rounded_up(card.epsilon)}, δ = {delta}"


def _relation_text(card: Card) -> str:
    if card.unit == "person":
        if card.neighbours == "replace-one":
            return "any two tables that differ in the content of one person's rows (replace-one)"
        return "any two tables of which one has one person's rows more (add/remove)"
    if card.neighbours == "replace-one":
        return "any two tables that differ in the content of one record (replace-one)"
    return "any two tables of which one has one record more (add/remove)"


def _unit_text(card: Card) -> str:
    if card.unit == "person":
        return "every person, with all rows that the schema allows one person to have"
    return "every record; somebody with several records is protected less"


def _exception_text(card: Card) -> str:
    if card.delta == 0:
        return "none (δ = 0)"
    return f"with probability {one_in(card.delta)} at most, ε may be exceeded (δ = {rounded_up(card.delta)})"


def _not_protected_text(card: Card) -> str:
    facts = "what is true of the population with or without any one record"
    if card.neighbours == "replace-one" and card.rows is not None:
        if card.unit == "person":
            return f"the number of rows that were kept ({whole(card.rows)}), which is public; how many rows a person has; {facts}"
        return f"the number of rows ({whole(card.rows)}), which is public; {facts}"
    return facts


def _signature_text(card: Card) -> str:
    if card.signature == "trusted":
        return f"by a key you trust, fingerprint {card.signed_by}"
    return (
        f"NOT CHECKED against a key you trust; it says it is by fingerprint {card.signed_by}. "
        "Compare by telephone, or give --trusted"
    )
