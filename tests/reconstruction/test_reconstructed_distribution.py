"""What can be asked of a reconstructed distribution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sudare.errors import DataError, InvalidParameter
from sudare.reconstruction.binning import States
from sudare.reconstruction.confidence_bands import WeightedDistribution
from sudare.reconstruction.normal_mixture import Components
from sudare.reconstruction.plots import histogram_panel
from sudare.reconstruction.reconstructed_distribution import Clusters, Distribution, Layout, shares_of_cells
from sudare.report.plots import rendered


def distribution(seed=0, cells=7, atoms=(0.0, 2.5, 4.0), **kwargs):
    generator = np.random.default_rng(seed)
    edges = np.sort(np.concatenate(([0.0, 4.0], generator.uniform(0, 4, cells - 1))))
    layout = Layout(edges, np.array(atoms))
    return Distribution(layout, generator.dirichlet(np.ones(layout.size)), 1000, {"auto": 1.0}, **kwargs)


DISTRIBUTIONS = st.builds(
    distribution, st.integers(0, 300), st.integers(1, 9), st.sampled_from([(), (0.0,), (4.0,), (0.0, 2.5, 4.0)])
)


@given(found=DISTRIBUTIONS, q=st.lists(st.floats(0, 1), min_size=1, max_size=10))
def test_quantiles_invert_the_distribution_function(found, q):
    places = found.quantile(np.sort(q))
    assert np.all(np.diff(places) >= -1e-12)
    assert np.all((places >= 0) & (places <= 4))
    # P(X ≤ quantile) ≥ q, and no place clearly before it does.
    assert np.all(found.cdf(places) >= np.sort(q) - 1e-9)
    assert np.all(found.cdf(places - 1e-6) <= np.sort(q) + 1e-4)


@given(found=DISTRIBUTIONS)
def test_everything_sums_to_one(found):
    assert found.cdf(4.0) == pytest.approx(1)
    assert found.cdf(-0.1) == 0
    assert found.histogram([0.0, 4.0]).sum() == pytest.approx(1)
    # Between these the density is constant, so the sum is the integral.
    fine = np.union1d(np.linspace(0, 4, 401), found.layout.edges)
    spread = np.sum(found.density((fine[1:] + fine[:-1]) / 2) * np.diff(fine))
    assert spread + sum(found.atoms.values()) == pytest.approx(1)


@given(found=DISTRIBUTIONS, cut=st.floats(0.01, 3.99))
def test_histograms_add_up_and_agree_with_the_distribution_function(found, cut):
    both, whole = found.histogram([0, cut, 4]), found.histogram([0, 4])
    assert both.sum() == pytest.approx(whole[0])
    # A bin has its lower edge and not its upper one.
    at_cut = found.atoms.get(cut, 0.0)
    assert both[0] == pytest.approx(found.cdf(cut) - at_cut)


def test_atoms_on_edges_are_counted_as_numpy_does():
    found = distribution(atoms=(0.0, 2.0, 4.0))
    edges = np.array([0.0, 2.0, 4.0])
    sampled = np.histogram(found.layout.atoms, edges)[0]
    np.testing.assert_array_equal(found.layout.binning(edges)[:, -3:].sum(axis=1), sampled)
    assert found.histogram([0.5, 3.5]).sum() < 1


@given(found=DISTRIBUTIONS)
def test_moments_are_those_of_a_fine_histogram(found):
    edges = np.unique(np.concatenate((np.linspace(-0.001, 4.001, 8003), found.layout.edges)))
    middle = (edges[1:] + edges[:-1]) / 2
    shares = found.histogram(edges)
    assert found.mean() == pytest.approx(middle @ shares, abs=1e-3)
    assert found.variance() == pytest.approx(((middle - middle @ shares) ** 2) @ shares, abs=5e-3)


def test_samples_have_the_distribution():
    found = distribution(3)
    values = found.sample(200_000, random_state=0)
    edges = np.linspace(0, 4, 9)
    expected = found.histogram(edges)
    seen = np.histogram(values, edges)[0] / 200_000
    # Six standard deviations of a multinomial share.
    assert np.all(np.abs(seen - expected) < 6 * np.sqrt(expected * (1 - expected) / 200_000) + 1e-9)
    np.testing.assert_array_equal(values[:5], found.sample(200_000, random_state=0)[:5])


@given(seed=st.integers(0, 100))
def test_layouts_carry_distributions_without_loss(seed):
    generator = np.random.default_rng(seed)
    fine = States(np.linspace(0, 4, 9), np.array([0.0]), True, np.eye(9))
    points = States(np.arange(-0.5, 5), np.empty(0), False, np.eye(5))
    layout = Layout.of([fine, points], (0.0, 4.0))
    for states in (fine, points):
        shares = generator.dirichlet(np.ones(states.cells + len(states.atoms)))
        carried = layout.carrying(states) @ shares
        assert carried.sum() == pytest.approx(1)
        found = Distribution(layout, carried, 10, {})
        if states.spread:
            np.testing.assert_allclose(found.histogram(states.edges)[1:], shares[1:-1], atol=1e-12)
            assert found.atoms[0.0] == pytest.approx(shares[-1])
        else:
            np.testing.assert_allclose([found.atoms[float(k)] for k in range(5)], shares, atol=1e-12)


def test_shares_of_cells_are_lengths_of_overlaps():
    np.testing.assert_allclose(shares_of_cells(np.array([0.0, 1.0, 3.0]), np.array([0.5, 2.0])), [[0.5, 0.5]])


@pytest.mark.parametrize("q", [-0.1, 1.1, np.nan])
def test_quantiles_of_impossible_probabilities_are_refused(q):
    with pytest.raises(InvalidParameter, match="from 0 to 1"):
        distribution().quantile(q)


@pytest.mark.parametrize("edges", [[1.0], [2.0, 1.0], [1.0, 1.0]])
def test_edges_must_rise(edges):
    with pytest.raises(InvalidParameter):
        distribution().histogram(edges)


def with_members(**kwargs):
    plain = distribution()
    spread = np.full((plain.layout.size, 1), 0.01)
    return Distribution(
        plain.layout, plain.probabilities, 1000, {}, [WeightedDistribution(1.0, plain.probabilities, spread)], **kwargs
    )


def test_a_band_holds_its_estimate():
    found = with_members()
    edges = [0, 1, 2, 3, 4]
    for cumulative in (False, True):
        band = found.band(edges, cumulative=cumulative)
        assert band.calibrated
        assert np.all(band.low <= band.estimate)
        assert np.all(band.estimate <= band.high)
    np.testing.assert_allclose(found.band(edges, cumulative=True).estimate, np.cumsum(found.histogram(edges)))
    assert np.all(found.band(edges, 0.99).high >= found.band(edges, 0.5).high)


def test_ends_of_bins_of_a_rough_column_are_known_up_to_its_resolution():
    """Limits are those of narrower and of wider bins; ends on the bounds stay."""
    smooth, rough = with_members(), with_members(resolution=0.5)
    edges = [0, 1, 2, 3, 4]
    for cumulative in (False, True):
        plain, moved = (one.band(edges, cumulative=cumulative) for one in (smooth, rough))
        assert np.all(moved.low <= plain.low)
        assert np.all(moved.high >= plain.high)
        assert np.any(moved.high - moved.low > plain.high - plain.low + 1e-3)
    wide = rough.band([0, 4])
    np.testing.assert_allclose(wide.low, smooth.band([0, 4]).low)


def test_bands_of_quantiles_are_those_of_running_sums():
    found = with_members()
    band = found.quantile_band([0.2, 0.5, 0.8])
    assert np.all((band.low <= band.estimate) & (band.estimate <= band.high))
    np.testing.assert_allclose(band.estimate, found.quantile([0.2, 0.5, 0.8]))
    # A quantile may be as low as where the running sum may be its probability, and as high as where it must be.
    sums = found.band([0, 2], cumulative=True)
    assert found.quantile_band(sums.high[0]).low[0] == pytest.approx(2, abs=0.01)
    assert found.quantile_band(sums.low[0]).high[0] == pytest.approx(2, abs=0.01)
    assert not distribution().quantile_band(0.5).calibrated


def test_where_nothing_is_known_there_is_no_band():
    without = distribution().band([0, 2, 4])
    assert not without.calibrated
    assert without.low is None
    assert "without a measure" in without.reason
    assert with_members(unresolved="no.").band([0, 4]).reason == "no."


@pytest.mark.parametrize("level", [0.0, 0.3, 1.0, 2.0])
def test_levels_out_of_range_are_refused(level):
    with pytest.raises(InvalidParameter, match="level"):
        with_members().band([0, 4], level)


def test_clusters_are_looked_up_by_bin():
    components = Components(np.array([0.5, 0.5]), np.array([1.0, 3.0]), np.array([0.1, 0.1]))
    clusters = Clusters(components, np.empty(0), np.array([-9.0, 2.0, 9.0]), np.array([[0.9, 0.1], [0.2, 0.8]]))
    found = distribution(clusters=clusters)
    np.testing.assert_array_equal(found.predict([-5.0, 1.0, 2.5, 8.0]), [0, 0, 1, 1])
    np.testing.assert_allclose(found.responsibilities([3.0]), [[0.2, 0.8]])
    assert found.components is components
    with pytest.raises(InvalidParameter, match="no components"):
        distribution().predict([1.0])
    with pytest.raises(DataError):
        found.predict([np.nan])
    assert distribution().components is None


def test_pictures_can_be_drawn_with_and_without_a_band():
    values = np.linspace(0, 4, 50)
    drawn = rendered([histogram_panel(with_members(), [0, 1, 2, 4], original=values, perturbed=values)])
    without = rendered([histogram_panel(distribution(), [0, 1, 2, 4])])
    assert drawn.startswith(b"<?xml")
    assert without != drawn


def test_a_distribution_says_in_one_line_what_it_is():
    layout = Layout(np.array([0.0, 1.0]), np.array([0.0]))
    found = Distribution(layout, np.array([0.4, 0.6]), 12_000, {})
    assert (
        repr(found) == "Distribution(mean 0.2, quartiles 0.0 / 0.0 / 0.375, most on 0.0 (60.0%), from 12,000 records)"
    )
