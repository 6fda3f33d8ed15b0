"""What a statement about a release may use: plain values from its manifest, and nothing that a file does not say itself."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from sudare.dossier.bilingual_sections import Text
from sudare.dossier.release_product_kinds import PRODUCTS, Kind, audits_of, proofs_of
from sudare.report.number_formatting import one_in, percent_up, rounded_up, whole
from sudare.report.privacy_card import (
    EVERYONE,
    Card,
    Strength,
    card_strength,
    columns_text,
    sureness,
    towards_text,
)
from sudare.safe_text import quoted


@dataclass(frozen=True)
class Linking:
    """Facts about perturbed rows: how well a row can be linked to somebody, and what shuffling makes of the local promise.

    Where answers are repeated the member keeps, and gives again in other releases, what each person answered first.
    """

    k: float | None
    shuffled: bool
    central_epsilon: float | None
    central_delta: float
    is_repeated: bool = False


@dataclass(frozen=True)
class Facts:
    """A release as plain values."""

    learner: str
    kind: Kind
    card: Card
    receipt: Mapping[str, Any]
    proofs: tuple[str, ...]
    audits: tuple[str, ...]
    tests: tuple[str, ...]
    most_rows: int | None
    method: str | None
    linking: Linking | None

    @classmethod
    def of(cls, manifest: Mapping[str, Any], card: Card, linking: Linking | None = None) -> Self:
        """The facts in a manifest and on its card."""
        learner, parameters = manifest["learner"], manifest["parameters"]
        person = parameters.get("person")
        most = None if person is None else person["most_rows"] if person["most_rows"] != "auto" else person["largest"]
        method = parameters.get("method") or parameters.get("approach") or parameters.get("engine")
        return cls(
            learner=learner,
            kind=PRODUCTS[learner].kind,
            card=card,
            receipt=manifest["receipt"],
            proofs=proofs_of(learner, parameters),
            audits=audits_of(learner, parameters),
            tests=PRODUCTS[learner].tests,
            most_rows=most,
            method=method,
            linking=linking,
        )

    @property
    def strength(self) -> Strength:
        """The word of the public scale."""
        return card_strength(self.card)

    @property
    def epsilon(self) -> str:
        """ε, rounded up."""
        return rounded_up(self.card.epsilon)

    @property
    def delta(self) -> str:
        """δ, rounded up."""
        return "0" if self.card.delta == 0 else rounded_up(self.card.delta)

    @property
    def delta_in_words(self) -> str:
        """δ as one chance in so many."""
        return one_in(self.card.delta)

    @property
    def sure(self) -> str:
        """How sure of one record an undecided reader can become."""
        return percent_up(sureness(self.card.epsilon))

    @property
    def rows(self) -> str | None:
        """The number of rows, where it is public."""
        return None if self.card.rows is None else whole(self.card.rows)

    @property
    def is_person(self) -> bool:
        """Whether the guarantee is about persons."""
        return self.card.unit == "person"

    @property
    def is_towards_members(self) -> bool:
        """Whether several members made this together, each adding its own noise."""
        return self.card.towards != EVERYONE

    @property
    def arithmetic(self) -> str | None:
        """What the card says about how exact the noise is; None where it has nothing to say."""
        return dict(self.card.remarks).get("arithmetic")

    @property
    def columns(self) -> Text:
        """The columns that the release was computed from."""
        return Text(columns_text(self.card, "en"), columns_text(self.card, "ja"))

    @property
    def key_columns(self) -> Text:
        """The columns of which values were found in the records; empty where there are none."""
        return names_text(self.card.besides.keys)

    @property
    def account(self) -> Text:
        """The account that paid."""
        return names_text([self.card.account])

    @property
    def towards(self) -> Text:
        """To whom the promise is made."""
        return Text(towards_text(self.card, "en"), towards_text(self.card, "ja"))

    @property
    def slice(self) -> str | None:
        """Which rows of the table were read, and how many of a person, as the card says; None where all were."""
        return dict(self.card.remarks).get("computed from")

    @property
    def several_records_epsilon(self) -> str:
        """The ε of somebody with three records, by group privacy."""
        return rounded_up(3 * self.card.epsilon)

    @property
    def several_records_delta(self) -> str:
        """The δ of somebody with three records, by group privacy: δ·(1 + e^ε + e^2ε), and no more than 1."""
        factor = sum(math.exp(min(times * self.card.epsilon, 700)) for times in range(3))
        return rounded_up(min(1.0, self.card.delta * factor))

    @property
    def is_repeated(self) -> bool:
        """Whether these are answers that are given again in other releases."""
        return self.linking is not None and self.linking.is_repeated

    @property
    def linked_with(self) -> str:
        """The largest probability with which a perturbed row is linked to somebody."""
        if self.linking is None or self.linking.k is None:
            return "100 %"
        return percent_up(1 / self.linking.k)


def names_text(names: Sequence[str]) -> Text:
    """Names from a file, each in quotation marks that it cannot close."""
    return Text(", ".join(quoted(name, "en") for name in names), "".join(quoted(name, "ja") for name in names))
