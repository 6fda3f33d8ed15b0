"""A fit in a process of its own that is killed, really, when a checkpoint was saved so many times or the charge was entered.

python -m tests.neural.killed_run FOLDER SAVES|charged
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from sudare.neural import PrivateMLPClassifier, checkpoint
from sudare.privacy import Account, Ledger
from tests.neural.tables import crossed

STEPS = 110


def account_in(folder: Path) -> Account:
    return Ledger(folder / "ledger.db").account("rows", epsilon=10.0, delta=1e-3)


def model(folder: Path, **changed: Any) -> PrivateMLPClassifier:
    parameters = {
        "epsilon": 2.0,
        "bounds": (-1, 1),
        "classes": [0, 1],
        "hidden_layer_sizes": (4,),
        "max_iter": STEPS,
        **changed,
    }
    return PrivateMLPClassifier(account=account_in(folder), checkpoint=folder / "run", **parameters)


def killed_when(moment: str) -> None:
    saves = 0

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    honest_save, honest_charge = checkpoint.save, Account.charge

    def save(*arguments: Any) -> None:
        nonlocal saves
        honest_save(*arguments)
        saves += 1
        if str(saves) == moment:
            die()

    def charge(*arguments: Any, **named: Any) -> Any:
        charged = honest_charge(*arguments, **named)
        if moment == "charged":
            die()
        return charged

    checkpoint.save, Account.charge = save, charge  # type: ignore[method-assign]


if __name__ == "__main__":
    killed_when(sys.argv[2])
    model(Path(sys.argv[1])).fit(*crossed())
