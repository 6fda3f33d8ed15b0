"""The square wave is the published one."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.perturbation import SquareWave
from sudare.perturbation.square_wave import wave_half_width


def test_the_wave_is_as_wide_as_published() -> None:
    """Li et al. (2020): b = (εe^ε − e^ε + 1)/(2e^ε(e^ε − 1 − ε)), about 0.256 at ε = 1; the series continues it to zero."""
    assert wave_half_width(1.0) == pytest.approx(0.2561, abs=1e-4)
    assert wave_half_width(0.0099999) == pytest.approx(wave_half_width(0.0100001), abs=1e-5)
    assert wave_half_width(1e-3) == pytest.approx(0.5, abs=1e-3)


def test_square_wave_tells_more_about_the_mean_of_spread_values_than_nothing() -> None:
    """The mean of outputs is a straight line in the value: slope p − q times 2b, by the law itself."""
    wave = SquareWave((0, 1), epsilon=1.0)
    outputs = np.arange(-wave.overshoot, wave.steps + wave.overshoot + 1)
    values = wave.bounds[0] + outputs * wave.grid
    means = [
        float(np.diff(wave.steps_cdf(outputs, np.array(code)), prepend=0.0) @ values) for code in (0, wave.steps // 2, wave.steps)
    ]  # fmt: skip
    assert means[1] - means[0] == pytest.approx(means[2] - means[1], rel=1e-6)
    assert means[2] > means[0]
