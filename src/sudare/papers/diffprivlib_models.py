"""diffprivlib beside our own methods in studies: fitted by another interpreter, because it needs an older scikit-learn than sudare.

The environment variable SUDARE_DIFFPRIVLIB names that interpreter; where it is not set, studies leave diffprivlib out and say so.
"""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from sudare.array_types import Floats
from sudare.errors import DataUnavailable
from sudare.papers import diffprivlib_script

VARIABLE: Final = "SUDARE_DIFFPRIVLIB"
NOT_RUN: Final = f"diffprivlib was not run: {VARIABLE} names no interpreter that has it."


def diffprivlib_interpreter() -> Path | None:
    """The interpreter that has diffprivlib; None where none is named."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else None


def logistic_coefficients(
    interpreter: Path,
    rows: Floats,
    labels: Floats,
    epsilons: Sequence[float],
    inverse_penalties: Sequence[float],
    seed: int,
    norm: float = 1.0,
) -> Floats:
    """Coefficients (repetitions × ε × C × members × features) of diffprivlib's LogisticRegression, pure ε, without intercept.

    `rows` are repetitions × members × rows × features of at most this norm, `labels` −1 and +1; C of `inverse_penalties` is 1/ρ of the summed loss + (ρ/2)‖θ‖².
    """
    asked = io.BytesIO()
    for array in map(np.asarray, (rows, labels, epsilons, inverse_penalties, norm, seed)):
        np.lib.format.write_array(asked, array, allow_pickle=False)
    script = Path(diffprivlib_script.__file__)
    try:
        finished = subprocess.run(  # noqa: S603 - whoever runs the study names the interpreter
            [str(interpreter), str(script)], input=asked.getvalue(), capture_output=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        told = bytes(getattr(error, "stderr", None) or b"").decode(errors="replace").strip().splitlines()
        raise DataUnavailable(
            f"The interpreter that {VARIABLE} names fits no models with diffprivlib: {told[-1] if told else type(error).__name__}.",
            f"Install diffprivlib there, name another one, or unset {VARIABLE} to leave diffprivlib out.",
        ) from None
    return np.asarray(np.lib.format.read_array(io.BytesIO(finished.stdout), allow_pickle=False), dtype=np.float64)
