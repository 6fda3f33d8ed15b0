"""ρ₀ chosen by how well faults are found, where some are labelled: what section 1.5.3 recommends instead of tests of independence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from sudare.errors import DataError, InvalidParameter
from sudare.papers.p003_decentralised.algorithm1 import CollaborativeDictionary


@dataclass(frozen=True, eq=False)
class RhoChoice:
    """Candidates, the mean AUC of the members' scores at each, and the dictionaries."""

    rho0s: tuple[float, ...]
    areas: tuple[float, ...]
    fitted: tuple[CollaborativeDictionary, ...]

    @property
    def best(self) -> CollaborativeDictionary:
        """The dictionary at the chosen ρ₀; ties go to the larger one, which is sparser."""
        return self.fitted[max(range(len(self.areas)), key=lambda index: (self.areas[index], index))]

    @property
    def rho0(self) -> float:
        """The chosen one."""
        return float(self.best.rho0)


def rho0_by_detection(
    model: CollaborativeDictionary,
    tables: Sequence[object],
    labelled: Sequence[tuple[object, ArrayLike]],
    rho0s: Sequence[float] = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
) -> RhoChoice:
    """No privacy for a record. Fit at every ρ₀ and keep the dictionary whose scores (1.89) find the labelled faults best.

    `labelled` has one pair for each member: records that were not used in training, and 1 for a fault, 0 for none.
    """
    if len(labelled) != len(tables):
        raise DataError("There are not as many labelled tables as members.", "Give each member one pair (X, labels).")
    candidates = sorted(set(map(float, rho0s)))
    if not candidates:
        raise InvalidParameter("There is no ρ₀ to choose from.", "Give rho0s at least one number.")
    fitted = [clone(model).set_params(rho0=rho0).fit(tables) for rho0 in candidates]
    return RhoChoice(tuple(candidates), tuple(mean_auc(each, labelled) for each in fitted), tuple(fitted))


def mean_auc(model: CollaborativeDictionary, labelled: Sequence[tuple[object, ArrayLike]]) -> float:
    """The AUC of a member's scores, averaged over the members."""
    areas = [
        float(roc_auc_score(np.asarray(labels), model.member(position).score_samples(records)))
        for position, (records, labels) in enumerate(labelled)
    ]
    return float(np.mean(areas))
