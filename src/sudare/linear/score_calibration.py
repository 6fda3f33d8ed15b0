"""From noisy sums to the line a + b·t that turns a score into log-odds, or into a target: functions of public numbers alone.

A score is that of a model that is released already; t is it, centred and scaled by released numbers, within [−1, 1]. What the sums cost: proofs/score_calibration.md.
Targets are −1 and +1 for each output (classes), or numbers in [−1, 1].
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.special import expit, ndtri

from sudare.array_types import Floats
from sudare.linear.rows import RowLayout

# Shares that are looked at, denser near 0 and 1, and the width of the interval around each.
_SHARES: Final[Floats] = expit(np.linspace(-9.0, 9.0, 361))
_WIDTHS: Final[Floats] = np.diff(np.concatenate([[0.0], (_SHARES[1:] + _SHARES[:-1]) / 2, [1.0]]))
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
# The steepest line explains this part of the variance.
_LARGEST_CORRELATION: Final = 0.95
_LEAST_VARIANCE: Final = 1e-3
_MOST_LOG_ODDS: Final = 40.0
# Level, spread and association.
_SUMS: Final = 3
# Points at which the scores of several classes are looked at: in all, and at least of each class; and how offsets are found there.
_MOST_NODES: Final = 2048
_FEWEST_NODES: Final = 64
_OFFSET_STEPS: Final = 200
# A mean probability is taken to be no smaller than the share divided by this.
_MOST_MISSED: Final = 4.0
_OFFSET_PRECISION: Final = 1e-4


@dataclass(frozen=True)
class Recipe:
    """Public constants of a calibration, found on the panel's tuning half; `benchmarks/panel/linear_choices.py` compares others with them.

    `shares` of the budget go into the level, the spread of scores and their association with the target, and of several classes also into mean probabilities, at most; never more than gives n·ε (n·μ) of `enough`.
    The scale of t is `widths` standard deviations, to whose square `doubt` standard deviations of its noise are added. An association is shrunk by `shrinkage` times
    the variance of its noise, and as one that is normal before with the `usual` correlation as its deviation would be. No slope is below `least_slope`, which keeps the order of rows and tells next to nothing of their probabilities: a direction that was
    learned from these rows is turned round by noise only. `most_explained` bounds what part of the variance of scores the classes are taken to explain. Scores of several classes are taken to lie `usual_miss` standard deviations beside normal ones, and as far as the noise of their centres tells.
    """

    shares: tuple[float, ...]
    enough: tuple[float, ...]
    widths: float = 1.5
    doubt: float = 0.4
    shrinkage: float = 3.0
    least_slope: float = 0.02
    most_explained: float = 0.3
    usual: float = math.inf
    usual_miss: float = 0.1

    @property
    def looks_at_means(self) -> bool:
        """Whether mean probabilities are asked for."""
        return len(self.shares) > _SUMS


CLASSES: Final = Recipe(shares=(0.2, 0.04, 0.08), enough=(150.0, 200.0, 400.0), usual=0.5)
SEVERAL: Final = replace(CLASSES, shares=(0.2, 0.03, 0.05, 0.05), enough=(300.0, 150.0, 250.0, 250.0))
NUMBERS: Final = Recipe(shares=(0.7, 0.05, 0.12), enough=(300.0, 300.0, 600.0), shrinkage=6.0, least_slope=0.0)


@dataclass(frozen=True, eq=False)
class Spread:
    """The place of scores by released numbers: one centre and one scale an output."""

    centre: Floats
    scale: Floats

    def of(self, scores: Floats) -> Floats:
        """Scores as t, clipped to [−1, 1]."""
        return np.asarray(np.clip((scores - self.centre) / self.scale, -1.0, 1.0))


@dataclass(frozen=True, eq=False)
class CalibrationLine:
    """Log-odds or targets as offset + slope·score, one of each an output; and, of several classes, log-odds less the offset at points of the law that scores are taken to have (classes × points × outputs) and by how much mean probabilities may miss the shares, as standard deviations."""

    offset: Floats
    slope: Floats
    modelled: Floats | None = None
    doubt: Floats | None = None


def level_values(targets: Floats) -> Floats:
    """What is added up for the level: the target of one output; with several, one for the class of the row."""
    return targets if targets.shape[1] == 1 else (targets > 0).astype(np.float64)


def spread_values(t: Floats) -> Floats:
    """What is added up for the spread: t of each output, and twice the mean of their squares less one."""
    return np.column_stack([t, 2 * np.mean(t * t, axis=1) - 1])


def association_values(t: Floats, targets: Floats) -> Floats:
    """What is added up for the association: t of each output, t·target of one output or, of several, t of the row's own class, and twice the mean of squares less one."""
    with_target = (t * targets)[:, 0] if t.shape[1] == 1 else np.sum(t * (targets > 0), axis=1)
    return np.column_stack([t, with_target, 2 * np.mean(t * t, axis=1) - 1])


def narrower(whole: Spread, means: Floats, deviation: float, recipe: Recipe) -> Spread:
    """Returns where scores lie within `whole`, from noisy means of `spread_values` whose noise has this standard deviation."""
    centre = np.clip(means[:-1], -1.0, 1.0)
    variance = (means[-1] + 1) / 2 - np.mean(centre**2)
    doubt = recipe.doubt * deviation * (0.5 + 2 * np.mean(np.abs(centre)))
    spread = math.sqrt(min(1.0, max(variance, 0.0) + doubt + 1e-8))
    return Spread(whole.centre + whole.scale * centre, recipe.widths * spread * whole.scale)


def expected_shares(noisy: Floats, deviation: float) -> Floats:
    """Shares of classes given ones with Laplace noise of this standard deviation, all shares being alike likely before: never 0 or 1, and they add up to one.

    For two classes `noisy` has one entry, that of the second, and so has the result.
    """
    misses = np.abs(noisy[:, np.newaxis] - _SHARES) / deviation
    exponents = -math.sqrt(2) * misses
    others = len(noisy) - 2 if len(noisy) > 1 else 0
    weights = np.exp(exponents - exponents.max(axis=1, keepdims=True)) * _WIDTHS * (1 - _SHARES) ** others
    shares: Floats = weights @ _SHARES / weights.sum(axis=1)
    return shares if len(shares) == 1 else shares / shares.sum()


def shrunk(value: float, variance: float) -> float:
    """The value less what noise of this variance is likely to have added; zero where it is no larger than that (James and Stein 1961)."""
    return value * max(0.0, 1 - variance / value**2) if value else 0.0


def log_odds_line(
    shares: Floats,
    means: Floats,
    deviation: float,
    rows: int,
    spread: Spread,
    recipe: Recipe,
    likeness: Floats | None = None,
) -> CalibrationLine:
    """Log-odds of each output from the shares of classes and noisy means of `association_values`; one slope for all.

    The slope is that of normal scores with one variance within classes (Fisher's linear discriminant): the difference of the classes' means over that variance, which is what of the whole
    variance the classes do not explain. Offsets give each class its share on the mean, for normal scores; those of several classes are solved together, so that it is the mean of what is left
    after division by the sum. `likeness` are the correlations of their scores within a class (`score_likeness`); none where it is not given.
    """
    centre, variance, association = _moments(means, 2 * shares - 1, deviation, 4 * shares * (1 - shares), rows, recipe)
    spread_of_target = float(np.mean(shares * (1 - shares)))
    most = _LARGEST_CORRELATION * math.sqrt(variance / spread_of_target)
    difference = min(association / 2 / spread_of_target, most)
    explained = min(difference**2 * spread_of_target / variance, recipe.most_explained)
    slope = max(recipe.least_slope, difference / (variance * (1 - explained)))
    offsets = np.array(
        [
            _offset(share, slope * (middle + math.sqrt(variance) * _NODES))
            for share, middle in zip(shares.tolist(), centre.tolist(), strict=True)
        ]
    )
    if len(shares) > 1:
        within = max(variance - difference**2 * spread_of_target, variance * (1 - _LARGEST_CORRELATION**2))
        normal = _normal_nodes(len(shares), np.eye(len(shares)) if likeness is None else likeness)
        # What a row of each class has: scores about the centre of all, its own above that and the others below.
        shifts = difference * (np.eye(len(shares)) - shares)
        scores = centre + shifts[:, np.newaxis] + math.sqrt(within) * normal
        modelled = slope * (scores + spread.centre / spread.scale)
        line = _of_scores(offsets, slope, spread)
        doubt = slope * shares * (1 - shares) * math.hypot(deviation, recipe.usual_miss * math.sqrt(variance))
        return CalibrationLine(_offsets_together(shares, modelled, line.offset), line.slope, modelled, doubt)
    return _of_scores(offsets, slope, spread)


def with_means(line: CalibrationLine, shares: Floats, noisy: Floats, deviation: float) -> CalibrationLine:
    """The line of several classes with offsets such that mean probabilities are the shares, given noisy ones (of this standard deviation) that the line has.

    Scores are taken to lie where offsets other than the line's would give the noisy means, shrunk by their noise; the line's are moved by the difference.
    """
    if line.modelled is None or line.doubt is None:
        return line
    trust = line.doubt**2 / (line.doubt**2 + deviation**2)
    means = np.clip(shares + trust * (noisy - shares), shares / _MOST_MISSED, 1.0)
    told = _offsets_together(means / means.sum(), line.modelled, line.offset)
    return replace(line, offset=2 * line.offset - told)


def target_line(
    level: float, means: Floats, deviation: float, rows: int, spread: Spread, recipe: Recipe
) -> CalibrationLine:
    """The target, in [−1, 1], from its noisy mean and noisy means of `association_values`."""
    mean = np.clip(np.array([level]), -1.0, 1.0)
    centre, variance, association = _moments(means, mean, deviation, 1 - mean**2, rows, recipe)
    most = _LARGEST_CORRELATION * math.sqrt(variance)
    slope = max(0.0, min(association, most)) / variance
    return _of_scores(mean - slope * centre, slope, spread)


def with_line(parameters: Floats, line: CalibrationLine, layout: RowLayout) -> Floats:
    """Parameters whose scores are offset + slope·score of these."""
    found = parameters * line.slope[:, np.newaxis]
    if layout.bias:
        found[:, -1] += line.offset / layout.bias
    else:
        start, stop = layout.one_hot
        found[:, start:stop] += line.offset[:, np.newaxis]
    return found


def _moments(
    means: Floats, targets: Floats, deviation: float, target_variance: Floats, rows: int, recipe: Recipe
) -> tuple[Floats, float, float]:
    """Mean and variance of t, and its covariance with the target, shrunk by its noise and by what so few rows have by chance."""
    outputs = len(targets)
    centre = np.clip(means[:outputs], -1.0, 1.0)
    noise_of_variance = deviation * (0.5 + 2 * float(np.mean(np.abs(centre))))
    variance = (means[-1] + 1) / 2 - float(np.mean(centre**2))
    variance = min(1.0, max(variance, noise_of_variance, _LEAST_VARIANCE))
    if outputs == 1:
        covariance, by_noise = float(means[1] - centre[0] * targets[0]), deviation**2 * (1 + float(targets[0] ** 2))
    else:
        # What a row's own class has above the mean of all is, over half of the outputs, the mean of the covariances of t with targets.
        shares, unit = (1 + targets) / 2, 2 / outputs
        covariance = unit * float(means[outputs] - centre @ shares)
        by_noise = (unit * deviation) ** 2 * (1 + float(shares @ shares))
    by_chance = variance * float(np.mean(target_variance)) / (rows * outputs)
    usual = recipe.usual**2 * variance * float(np.mean(target_variance))
    kept = usual / (usual + by_noise) if math.isfinite(usual) else 1.0
    return centre, variance, kept * shrunk(covariance, recipe.shrinkage * (by_noise + by_chance))


def _offset(share: float, log_odds: Floats) -> float:
    """What has to be added to log-odds at the nodes of a normal law so that the mean probability is the share."""
    low, high = -_MOST_LOG_ODDS, _MOST_LOG_ODDS
    weights = _WEIGHTS / _WEIGHTS.sum()
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if float(weights @ expit(middle + log_odds)) < share else (low, middle)
    return (low + high) / 2


def score_likeness(parameters: Floats, layout: RowLayout) -> Floats:
    """Correlations of the scores of outputs by their parameters, for columns that are independent and alike likely everywhere within what is declared."""
    features = parameters[:, : layout.features].copy()
    if layout.block_starts:
        low, high = np.array(layout.low), np.array(layout.high)
        features *= np.where(high > low, high - low, high)
    for start, stop in layout.one_hot_blocks:
        features[:, start:stop] -= features[:, start:stop].mean(axis=1, keepdims=True)
        features[:, start:stop] *= math.sqrt(12 / (stop - start))
    norms = np.linalg.norm(features, axis=1, keepdims=True)
    unit = np.divide(features, norms, out=np.zeros_like(features), where=norms > 0)
    found = unit @ unit.T
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)


def _normal_nodes(outputs: int, likeness: Floats) -> Floats:
    """Points of a normal law with these correlations, a whole number a class: the same at every call (classes × points × outputs)."""
    count = max(_FEWEST_NODES, _MOST_NODES // outputs)
    # Multiples of powers of a number that is a root of x^(d+1) = x + 1 are spread evenly over the cube (Roberts 2018).
    ratio = 2.0
    for _ in range(64):
        ratio = (1 + ratio) ** (1 / (outputs + 1))
    steps = ratio ** -np.arange(1.0, outputs + 1)
    places = np.arange(1, outputs * count + 1)[:, np.newaxis] * steps % 1.0
    values, vectors = np.linalg.eigh(likeness)
    normal = ndtri(np.clip(places, 1e-9, 1 - 1e-9)) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    return np.asarray(normal.reshape(outputs, count, outputs))


def _offsets_together(shares: Floats, log_odds: Floats, start: Floats) -> Floats:
    """What has to be added to log-odds at points of each class (classes × points × outputs) so that the mean of each probability, after division by their sum, is the share."""
    weights = np.repeat(shares / log_odds.shape[1], log_odds.shape[1])
    points, offsets = log_odds.reshape(len(weights), -1), start
    for _ in range(_OFFSET_STEPS):
        chances = expit(points + offsets)
        means = weights @ (chances / chances.sum(axis=1, keepdims=True))
        step = np.log(shares / np.maximum(means, 1e-300))
        offsets = np.clip(offsets + step, -_MOST_LOG_ODDS, _MOST_LOG_ODDS)
        if np.abs(step).max() < _OFFSET_PRECISION:
            break
    return np.asarray(offsets)


def _of_scores(offsets: Floats, slope: float, spread: Spread) -> CalibrationLine:
    """The line of scores that is offsets + slope·t where t is not clipped."""
    return CalibrationLine(offsets - slope * spread.centre / spread.scale, slope / spread.scale)
