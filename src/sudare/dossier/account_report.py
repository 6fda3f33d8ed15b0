"""One page about an account or about chosen releases: what left, what it cost, how strong it is, and a picture of each.

It is made of the ledger, which holds no private value, and of files that left. What only an owner knows is in neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sudare import __version__
from sudare.dossier.facts_from_release import facts_of
from sudare.dossier.number_table import has_intervals, measured_rows, number_table
from sudare.dossier.released_numbers import ReleasedNumbers, numbers_or_none
from sudare.dossier.statement_facts import Facts
from sudare.languages import Language, translated
from sudare.privacy import Account, Release
from sudare.privacy.account_balance import spending_steps
from sudare.privacy.ledger_chain import Entry, Head
from sudare.privacy.ledger_export import to_be_shown, without_file_states
from sudare.report import BudgetBar, Page, PageTable, Part, Picture, picture, strength_of
from sudare.report.budget_bar import ENTRY_HEADINGS, entry_cells, time_text
from sudare.report.fonts import drawn_language
from sudare.report.number_formatting import percent_up, rounded_down, rounded_up, whole
from sudare.report.plots import inches_for_rows, interval_rows, steps
from sudare.report.privacy_card import Signature

MADE_BY: Final = f"sudare report, version {__version__}"
MOST_ROWS: Final = 200
MOST_DRAWN: Final = 40
MOST_PANELS: Final = 12
_EVERYONE: Final = "everyone"
_KINDS: Final = {
    "statistics": "Statistics: numbers over many records, with noise.",
    "model": "A model: parameters learned from many records, with noise.",
    "perturbed": "Row-level perturbed data: one row for every record, each value changed at random.",
    "synthetic": "A synthetic table: noisy counts from which rows of nobody are drawn.",
}


def report_page(
    account: Account | None,
    head: Head | None,
    releases: Sequence[tuple[Release, Signature]],
    language: Language = "en",
    title_of: Callable[[str], str] = str,
) -> Page:
    """The page: the account's parts, if there is one, then one part for each release, with numbers in the language of the reader.

    `title_of` says in words what a learner makes.
    """
    parts = [] if account is None or head is None else account_parts(account, head, language, title_of)
    parts += [release_part(release, signature, language, title_of) for release, signature in releases]
    return Page(
        title="What left, and what it cost",
        lead="Made from the ledger and from signed files. No record, and nothing that only the owner knows, is on this page.",
        parts=parts,
        made_by=MADE_BY,
    )


def account_parts(
    account: Account, head: Head, language: Language = "en", title_of: Callable[[str], str] = str
) -> list[Part]:
    """Budget, what left, and every entry."""
    entries = account.entries()
    bar = BudgetBar.from_terms(account.name, account.terms.to_dict(), account.spent(), len(entries))
    strength = strength_of(bar.epsilon_budget, bar.delta_budget)
    left = account.remaining()
    charged = [entry for entry in entries if entry.kind == "charge"]
    return [
        Part(
            title="The budget",
            result=f"{percent_up(bar.share) if bar.share else '0 %'} of what may ever be told is spent; ε = {rounded_down(left.epsilon)} is left.",
            blocks=[bar, *_history(entries)],
            how_to_read=[
                f"All that this account may ever release is together a {strength.word} guarantee: {strength.reason}.",
                "Losses add up over releases about the same records. A charge is entered before anything is computed.",
            ],
        ),
        Part(
            title="What left, and what it cost",
            result=f"{whole(len(charged))} charges, {whole(sum(entry.kind == 'release' for entry in entries))} files, "
            f"{whole(sum(entry.kind == 'disclosure' for entry in entries))} disclosures without a guarantee.",
            blocks=[
                PageTable(
                    ("entry", "what", "guarantee", "towards", "time (UTC)"), _charge_rows(entries, language, title_of)
                )
            ],
            how_to_read=[
                "A disclosure showed exact values to those named; it is not private, and is entered all the same."
            ],
        ),
        Part(
            title="The ledger",
            result=f"The chain of all {whole(head.position + 1)} entries of the ledger is intact; {whole(len(entries))} of them are of this account.",
            blocks=[
                PageTable(
                    ENTRY_HEADINGS,
                    [entry_cells(entry.to_dict(), language) for entry in entries],
                    "All entries of the account",
                    folded=True,
                ),
                PageTable(
                    ("entry", "hash"), [(str(head.position), head.hash)], "The last point of the chain", folded=True
                ),
            ],
            how_to_read=[
                "Every line carries a fingerprint of the line before it. An older copy put back is found by a head that was kept elsewhere (sudare budget verify)."
            ],
        ),
    ]


def release_part(
    release: Release, signature: Signature, language: Language = "en", title_of: Callable[[str], str] = str
) -> Part:
    """One release: what it is, its numbers with intervals, a picture of each, its card."""
    facts = facts_of(release, signature)
    numbers = numbers_or_none(release)
    drawn = None if numbers is None else _picture(numbers, drawn_language(language))
    blocks: list[Any] = [] if drawn is None else [drawn]
    if numbers is not None:
        blocks.append(_number_table(numbers, language))
    return Part(
        title=f"{title_of(facts.learner)} (entry {facts.card.entry})",
        result=_KINDS[facts.kind],
        blocks=[*blocks, facts.card],
        how_to_read=[] if numbers is None else [*_interval_texts(numbers, facts), *numbers.notes],
    )


def report_values(
    account: Account | None, head: Head | None, releases: Sequence[tuple[Release, Signature]]
) -> dict[str, Any]:
    """Returns the report as plain values."""
    about = None
    if account is not None and head is not None:
        spent, left = account.spent(), account.remaining()
        about = {
            "name": account.name,
            "terms": without_file_states(account.terms.to_dict()),
            "spent": {"epsilon": spent.epsilon, "delta": spent.delta},
            "remaining": {"epsilon": left.epsilon, "delta": left.delta},
            "entries": [to_be_shown(entry).to_dict() for entry in account.entries()],
            "chain": "intact",
            "head": vars(head),
        }
    return {"account": about, "releases": [_release_values(*each) for each in releases]}


def _release_values(release: Release, signature: Signature) -> dict[str, Any]:
    facts = facts_of(release, signature)
    numbers = numbers_or_none(release)
    return {
        "learner": facts.learner,
        "kind": facts.kind,
        "digest": release.digest,
        "signature": signature,
        "signed_by": release.signed_by,
        "guarantee": release.guarantee.to_dict(),
        "strength": {"word": facts.strength.word, "reason": facts.strength.reason},
        "receipt": release.receipt.to_dict(),
        "numbers": None if numbers is None else dict(numbers.table),
    }


def _history(entries: Sequence[Entry]) -> list[Picture]:
    """ε that was spent, and the budget, after each entry that changed one of them."""
    found = spending_steps(entries)
    if len(found) < 2:
        return []
    spent, budget = [step.epsilon_spent for step in found], [step.epsilon_budget for step in found]
    panel = steps(spent, budget, names=("spent", "budget"), x_label="charges and raises, in order", y_label="ε")
    return [picture([panel], f"Steps of ε over {len(spent) - 1} charges and raises, below the line of the budget.")]


def _charge_rows(entries: Sequence[Entry], language: Language, title_of: Callable[[str], str]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for entry in entries:
        if entry.kind not in ("charge", "disclosure"):
            continue
        promise = entry.body["guarantee"]
        if entry.kind == "disclosure":
            said = "none: exact values were shown"
        else:
            strength = strength_of(
                float(promise["epsilon"]), promise["delta"], notion=promise["notion"], valid=promise["valid"]
            )
            said = f"ε = {rounded_up(float(promise['epsilon']))}, δ = {rounded_up(promise['delta']) if promise['delta'] else '0'}: {strength.word}"
        rows.append(
            (
                str(entry.position),
                title_of(str(entry.body["what"])),
                said,
                _towards(promise, language),
                time_text(entry.time)[:16],
            )
        )
    return rows


def _towards(promise: Mapping[str, Any], language: Language) -> str:
    """To whom a promise is made: everyone, or members by their names."""
    towards = str(promise["towards"])
    return translated(towards, language) if towards == _EVERYONE else towards


def _number_table(numbers: ReleasedNumbers, language: Language) -> PageTable:
    found = number_table(numbers, language, MOST_ROWS)
    total = found.rows_in_all
    caption = (
        f"The numbers ({whole(total)} rows)"
        if total <= MOST_ROWS
        else f"The first {whole(MOST_ROWS)} of {whole(total)} rows of numbers"
    )
    return PageTable(found.headings, found.rows, caption, folded=True, is_told=True)


def _picture(numbers: ReleasedNumbers, language: Language) -> Picture | None:
    """Every number that has intervals, row by row; None where there is none, or there are too many rows."""
    drawn = [
        rows
        for rows in measured_rows(numbers, language, MOST_DRAWN)
        if rows.has_intervals and 0 < len(rows.values) <= MOST_DRAWN
    ]
    if not drawn:
        return None
    panels = [
        interval_rows(rows.labels, rows.values, rows.lows, rows.highs, x_label=rows.axis, are_dates=rows.are_dates)
        for rows in drawn[:MOST_PANELS]
    ]
    counts = [len(rows.values) for rows in drawn[:MOST_PANELS]]
    count = sum(counts)
    height = inches_for_rows(max(counts))
    return picture(panels, f"{count} numbers with their intervals.", panel_inches=height)


def _interval_texts(numbers: ReleasedNumbers, facts: Facts) -> list[str]:
    if not has_intervals(numbers):
        return []
    records = "kept records" if facts.is_person else "records"
    return [
        f"Intervals hold the exact number of the {records} with probability 0.95: they are about the noise, not about a population."
    ]
