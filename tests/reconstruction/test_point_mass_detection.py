"""Atoms: declared anywhere, detected on the bounds."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.errors import InvalidParameter
from sudare.perturbation.laplace import LaplacePerturbation
from sudare.reconstruction.binning import counted
from sudare.reconstruction.point_mass_detection import declared_atoms, detected_atoms

SIZE = 30_000
PERTURBATION = LaplacePerturbation((0, 10), k=2, n_records=SIZE)


def found(column, seed=0):
    y = PERTURBATION.perturb(np.clip(column, 0, 10), random_state=seed)
    return detected_atoms(PERTURBATION, counted(PERTURBATION, y, 240), 240).tolist()


@pytest.mark.parametrize("seed", range(3))
def test_an_atom_on_a_bound_is_found(seed):
    generator = np.random.default_rng(seed)
    zero_inflated = np.where(generator.random(SIZE) < 0.6, 0.0, generator.gamma(4.0, 1.0, SIZE))
    assert found(zero_inflated, seed) == [0.0, 10.0]
    assert found(10 - zero_inflated, seed) == [0.0, 10.0]


@pytest.mark.parametrize("seed", range(2))
def test_columns_without_atoms_get_none(seed):
    generator = np.random.default_rng(seed)
    assert found(generator.normal(5, 1.5, SIZE), seed) == []
    assert found(generator.exponential(2.0, SIZE), seed) == []
    assert found(generator.uniform(0, 10, SIZE), seed) == []


def test_declared_atoms_are_sorted():
    np.testing.assert_array_equal(declared_atoms(PERTURBATION, (10, 0, 2.5)), [0, 2.5, 10])
    assert len(declared_atoms(PERTURBATION, ())) == 0


@pytest.mark.parametrize("atoms", [(-1,), (11,), (1, 1), ("zero",), (np.nan,), None, object()])
def test_atoms_that_make_no_sense_are_refused(atoms):
    with pytest.raises(InvalidParameter, match="atoms must be different numbers from 0 to 10"):
        declared_atoms(PERTURBATION, atoms)
