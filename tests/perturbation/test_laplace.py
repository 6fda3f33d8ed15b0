"""Laplace noise is as wide as the paper says."""

from __future__ import annotations

import math

import pytest

from sudare.perturbation import LaplacePerturbation


@pytest.mark.parametrize(
    ("bounds", "phi"), [((17, 90), 14.05), ((0, 99_999), 19_247.53), ((1, 16), 2.88)], ids=["age", "gain", "education"]
)
def test_noise_scales_of_the_paper(bounds: tuple[float, float], phi: float) -> None:
    """Paper 004, section 5.2: k = 2 among Adult's 32,561 rows; printed with two decimals."""
    perturbation = LaplacePerturbation(bounds, k=2, n_records=32_561)
    width = bounds[1] - bounds[0]
    assert perturbation.noise_scale == pytest.approx(2 * width / math.log(32_560), rel=1e-6)
    assert abs(perturbation.noise_scale - phi) < 0.0101
    assert perturbation.epsilon == pytest.approx(width / perturbation.noise_scale, rel=1e-6)
