"""Audits of combinations of experts that may be released: draws again and again, for two tables that differ in one label."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from sudare.array_types import Floats
from sudare.audit.claimed_and_measured_epsilon import AuditedMechanism, NamedAudit
from sudare.experts import PrivateExponentialWeights
from sudare.privacy.discrete_exponential_mechanism import GibbsDraws
from sudare.privacy.guarantee import Guarantee

Labelled = tuple[Floats, NDArray[np.intp]]

_EXPERTS: Final = 20
_DRAWS: Final = 2


@dataclass(frozen=True)
class ConstantExpert:
    """A classifier of two classes that always says the same one."""

    says: int
    classes_: tuple[int, int] = (0, 1)

    def predict(self, rows: Any) -> NDArray[np.intp]:
        """Returns one class for every row."""
        return np.full(len(rows), self.says)


# One row, of the class that one of the experts says, or of that which all others say: every loss moves by one.
_PAIR: Final[tuple[Labelled, Labelled]] = ((np.zeros((1, 1)), np.array([1])), (np.zeros((1, 1)), np.array([0])))


def law_epsilon(mechanism: GibbsDraws, first: Floats, second: Floats) -> float:
    """The largest privacy loss of draws with these summed losses: that of drawing one expert every time."""
    laws = [-mechanism.rate * losses for losses in (first, second)]
    logarithms = [law - np.logaddexp.reduce(law) for law in laws]
    return mechanism.draws * float(np.abs(logarithms[0] - logarithms[1]).max())


def _audited(epsilon: float) -> AuditedMechanism:
    experts = [ConstantExpert(int(place == 0)) for place in range(_EXPERTS)]
    model = PrivateExponentialWeights(experts, epsilon, draws=_DRAWS)

    def counts(labelled: Labelled) -> Floats:
        # Of all experts but the first nothing can be told apart: they say the same.
        return np.asarray(clone(model).fit(*labelled).counts_[:1], dtype=np.float64)

    wrong = [np.array([np.sum(labels != expert.says) for expert in experts], dtype=np.float64) for _, labels in _PAIR]
    computed = law_epsilon(GibbsDraws(epsilon, _DRAWS, 1), *wrong)
    return AuditedMechanism(Guarantee(epsilon), counts, _PAIR, math.nextafter(computed, 0), batched=False)


AUDITS: Final[dict[str, NamedAudit]] = {
    "PrivateExponentialWeights": NamedAudit(
        f"{_DRAWS} draws among {_EXPERTS} experts, one of which says what the others do not", 2_000, _audited
    ),
}
