"""What is refused before a fit begins: an estimator that another thread is fitting, and one with a method that was replaced."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sudare.errors import InvalidParameter
from sudare.privacy.release import replaced_methods

# Which thread is fitting an estimator, by the estimator's identity.
_FITTING: Final[dict[int, int]] = {}


@contextmanager
def no_other_thread_fits(model: object) -> Iterator[None]:
    """Raise InvalidParameter if another thread is fitting this estimator, before anything is charged; until the end no other one may.

    Two fits of one object at once would seal the numbers of one under the guarantee and the charge of the other.
    """
    here = threading.get_ident()
    within = _FITTING.get(id(model)) == here
    if _FITTING.setdefault(id(model), here) != here:
        raise InvalidParameter(
            f"This {type(model).__name__} is being fitted by another thread; nothing was charged.",
            "Fit a clone of it (sklearn.base.clone) in every thread.",
        )
    try:
        yield
    finally:
        if not within:
            del _FITTING[id(model)]


def check_methods(model: object) -> None:
    """Raise InvalidParameter where an object has something of its own in place of a method of its class."""
    replaced = replaced_methods(model)
    if replaced:
        raise InvalidParameter(
            f"Of this {type(model).__name__} {', '.join(sorted(replaced))} was replaced: what another method computes has no proof, and "
            "nothing could leave. Nothing was charged.",
            "Make a new one, or leave account out.",
        )
