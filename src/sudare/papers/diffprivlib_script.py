"""Logistic regressions of diffprivlib for studies; runs in an interpreter of its own, which has numpy and diffprivlib and not sudare.

Reads the arrays of `sudare.papers.diffprivlib_models` from standard input, one after the other as npy, and writes coefficients to standard output, as npy.
"""

from __future__ import annotations

import io
import sys
from typing import Any


def main() -> None:
    """Fit a model to the rows of every member, at every ε and C, in every repetition."""
    import numpy as np
    from diffprivlib.models import LogisticRegression

    given = io.BytesIO(sys.stdin.buffer.read())
    rows, labels, epsilons, inverse_penalties, norm, seed = (
        np.lib.format.read_array(given, allow_pickle=False) for _ in range(6)
    )
    generator = np.random.default_rng(int(seed))

    def coefficients(epsilon: float, inverse_penalty: float, member_rows: Any, member_labels: Any) -> Any:
        model = LogisticRegression(
            epsilon=float(epsilon),
            data_norm=float(norm),
            C=float(inverse_penalty),
            fit_intercept=False,
            max_iter=1000,
            random_state=int(generator.integers(2**31)),
        )
        return model.fit(member_rows, member_labels).coef_[0]

    found = [
        [
            [[coefficients(epsilon, C, *member) for member in zip(*repetition, strict=True)] for C in inverse_penalties]
            for epsilon in epsilons
        ]
        for repetition in zip(rows, labels, strict=True)
    ]
    np.save(sys.stdout.buffer, np.array(found))


if __name__ == "__main__":
    main()
