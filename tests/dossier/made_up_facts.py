"""Facts of releases of every learner with every guarantee, made without fitting anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sudare.dossier.release_product_kinds import PRODUCTS
from sudare.dossier.statement_facts import Facts, Linking
from sudare.report.privacy_card import card_of

LEDGER = "247a779a1c754edc96c238c1d62a31ab"


@dataclass(frozen=True)
class Promise:
    """A guarantee, and what it is called."""

    epsilon: float
    delta: float
    unit: str
    neighbours: str
    word: str

    def __str__(self) -> str:
        return f"{self.epsilon:g}-{self.delta:g}-{self.unit}-{self.neighbours}"


PROMISES = [
    Promise(0.5, 0.0, "record", "replace-one", "strong"),
    Promise(2.0, 1e-6, "person", "replace-one", "moderate"),
    Promise(8.0, 1e-6, "record", "add-remove", "weak"),
    Promise(40.0, 0.0, "person", "add-remove", "very weak"),
    Promise(0.5, 0.5, "record", "replace-one", "very weak"),
]
METHODS = {
    "PrivateLogisticRegression": ("method", "descent"),
    "PrivateRidge": ("method", "objective"),
    "PrivateLinearSVC": ("method", "output"),
    "PrivateSynthesizer": ("engine", "marginals"),
}


def made_up_facts(learner: str, promise: Promise, columns: tuple[str, ...] = ("age", "bmi"), **more: Any) -> Facts:
    """A release of a learner that promises this; `more` are parameters that it writes besides."""
    notion = "local" if PRODUCTS[learner].kind == "perturbed" else "central"
    parameters: dict[str, Any] = {
        "rows": 4000 if promise.neighbours == "replace-one" else None,
        "columns": [(name, {}) for name in columns],
        "delta": promise.delta,
        "person": {"column": "patient", "most_rows": 3} if promise.unit == "person" else None,
        **dict([METHODS[learner]] if learner in METHODS else []),
        **more,
    }
    manifest = {
        "learner": learner,
        "parameters": parameters,
        "guarantee": {
            "epsilon": promise.epsilon,
            "delta": promise.delta,
            "neighbours": promise.neighbours,
            "unit": promise.unit,
            "notion": notion,
            "towards": "everyone",
            "valid": True,
        },
        "receipt": {"account": "patients", "position": 3, "ledger": LEDGER, "hash": "a" * 64},
        "schema": None,
        "versions": {"sudare": "0.1.0"},
    }
    card = card_of(manifest, {"mean": 2}, signature="trusted", signed_by="5647 5aa7", digest="b" * 64)
    linking = Linking(20.0, True, 0.4, 1e-6) if notion == "local" else None
    return Facts.of(manifest, card, linking)
