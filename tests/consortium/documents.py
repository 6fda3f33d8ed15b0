"""Agreements, identities and member files to test with; scrypt is slow on purpose, so few keys are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sudare.consortium import Agreement, Identity, Member, Statements

PASSPHRASE = b"correct horse battery"

DOCUMENT: dict[str, Any] = {
    "format": 1,
    "name": "three-clinics",
    "sums": {"hidden_by": "masks", "threshold": 2, "dishonest": 0},
    "deadlines": {"round_seconds": 30.0, "task_seconds": 3600.0},
    "members": {
        "east": {"key": "11" * 32, "budget": {"epsilon": 4.0, "delta": 1e-5}},
        "north": {"key": "22" * 32, "budget": {"epsilon": 3.0, "delta": 1e-5}},
        "west": {"key": "33" * 32, "budget": {"epsilon": 2.0, "delta": 1e-5}},
    },
    "tasks": {
        "models": {"kind": "models", "learner": "PrivateLogisticRegression", "epsilon": 0.5, "delta": 0.0},
        "patterns": {"kind": "dictionary", "patterns": 4, "consent": True, "parameters": {"sparsity": 0.2}},
        "risk": {"kind": "learning", "method": "descent", "epsilon": 1.0, "delta": 1e-6},
        "scale": {"kind": "scaler", "epsilon": 0.25, "delta": 0.0},
        "survey": {"kind": "census", "columns": ["age", "smoker"], "epsilon": 1.0},
        "wear": {"kind": "dictionary", "patterns": 4, "epsilon": 1.0, "delta": 1e-6},
    },
    "schema": {
        "columns": {
            "age": {"kind": "number", "low": 0, "high": 110},
            "smoker": {"kind": "category", "values": ["no", "yes"]},
            "ill": {"kind": "label", "classes": [0, 1]},
        }
    },
}


def three_identities() -> dict[str, Identity]:
    """A key for each of the three members."""
    return {name: Identity.generated() for name in DOCUMENT["members"]}


def agreement_of(identities: dict[str, Identity], **changes: Any) -> Agreement:
    """The three clinics' agreement with these keys."""
    members = {
        name: {"key": identity.public_key.hex(), "budget": {"epsilon": 4.0, "delta": 1e-5}}
        for name, identity in identities.items()
    }
    return Agreement.from_dict({**DOCUMENT, "members": members, **changes})


def signed_by_all(agreement: Agreement, identities: dict[str, Identity]) -> Statements:
    """All signatures."""
    statements = Statements()
    for name, identity in identities.items():
        statements = statements.signed(agreement, name, identity)
    return statements


MEMBER = """\
format = 1
name = "north"
agreement = "agreement.toml"
key = "key.pem"
ledger = "ledger.db"

[data]
source = "table.parquet"
"""


def member_in(folder: Path, text: str = MEMBER) -> Member:
    """A member from its file."""
    (folder / "member.toml").write_text(text)
    return Member.load(folder / "member.toml")
