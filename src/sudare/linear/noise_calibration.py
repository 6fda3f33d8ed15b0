"""How much noise objective perturbation needs: a, σ and the penalty from ε, δ, row norm and loss. Proof: proofs/objective.md.

R bounds the Euclidean norm of a row (bias column included), R₁ the sum of its absolute values, rᵢ each of them, ρ is the penalty nΛ of the summed
loss, κ = R²/ρ. Where noise has density ∝ exp(−rate·norm of b), a row's reach is its bound in that same norm: R, R₁, or 1 for max|bᵢ|/rᵢ. Everything
that a guarantee rests on is evaluated in ball arithmetic or rounded towards more privacy.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final, Literal, get_args

from flint import arb

from sudare.ball_precision import ball_precision
from sudare.errors import InvalidParameter
from sudare.linear.losses import Loss
from sudare.privacy.accounting import gaussian_delta, rounded_down, upper_end

_BALL_BITS: Final = 192
_CALIBRATION_STEPS: Final = 80
# Of more columns a draw could leave the whole numbers that floats hold exactly.
MOST_CUBE_COLUMNS: Final = 1024


def penalty_needed(epsilon: float, norm_bound: float, loss: Loss) -> float:
    """cR²/(e^{ε/2} − 1): with it the slack of the general bound takes half of ε, and never more."""
    return loss.largest_curvature * norm_bound**2 / math.expm1(min(epsilon, 1000.0) / 2)


def laplace_is_quieter(sum_sensitivity: float, norm_sensitivity: float, size: int) -> bool:
    """Whether independent Laplace noise has the smaller variance in each of so many coordinates: √2·Δ₁ against √(size + 1)·Δ₂."""
    return math.sqrt(2) * sum_sensitivity < math.sqrt(size + 1) * norm_sensitivity


# The norm in the density of pure noise on the linear term: ‖b‖, ‖b‖₁, or max|bᵢ|/rᵢ.
NoiseNorm = Literal["euclidean", "sum", "largest"]


def expected_squares(
    norm: NoiseNorm, width: int, norm_bound: float, sum_bound: float, entry_bounds: tuple[float, ...]
) -> float:
    """E‖b‖² of noise with density ∝ exp(−norm of b/a row's reach in it); infinite where nobody declared that reach.

    p(p + 1)R², 2pR₁² and (p + 1)(p + 2)/3·Σrᵢ².
    """
    match norm:
        case "euclidean":
            return width * (width + 1) * norm_bound**2
        case "sum":
            return 2 * width * sum_bound**2
    if not entry_bounds or width > MOST_CUBE_COLUMNS or min(entry_bounds) == 0:
        return math.inf
    return (width + 1) * (width + 2) / 3 * sum(bound**2 for bound in entry_bounds)


def quietest_norm(width: int, norm_bound: float, sum_bound: float, entry_bounds: tuple[float, ...]) -> NoiseNorm:
    """The norm whose noise has the smallest expected square, by declared facts alone; the Euclidean one where all are as good."""
    squares: dict[NoiseNorm, float] = {
        norm: expected_squares(norm, width, norm_bound, sum_bound, entry_bounds) for norm in get_args(NoiseNorm)
    }
    return min(squares, key=squares.__getitem__)


def pure_loss(rate: float, norm_bound: float, penalty: float, loss: Loss, row_reach: float | None = None) -> float:
    """The ε of objective perturbation with noise density ∝ exp(−rate·‖b‖), rounded up.

    General loss with slopes up to L: 2·rate·R·L + log(1 + cκ). Logistic, where slope and curvature belong together:
    rate·R + max over g in [0, 1] of rate·R·g + log(1 + κg(1 − g)). For another norm, `row_reach` is R₁ or 1 and takes the place of R, but not in κ.
    """
    with ball_precision(_BALL_BITS):
        reach = arb(rate) * arb(norm_bound if row_reach is None else row_reach)
        ratio = arb(norm_bound) ** 2 / arb(penalty)
        if loss.joint:
            total = reach + _largest_joint_loss(reach, ratio)
        else:
            total = 2 * reach * arb(loss.largest_slope) + (1 + arb(loss.largest_curvature) * ratio).log()
        return upper_end(total)


def _largest_joint_loss(reach: arb, ratio: arb) -> arb:
    """An upper bound of max over g of h(g) = reach·g + log(1 + ratio·g(1 − g)), exact to many digits.

    h is concave on [0, 1], so its tangent at any g is above it: h ≤ h(g) + |h′(g)| everywhere.
    """
    if ratio <= reach:
        return reach
    # The stationary point: reach·(1 + κg(1 − g)) + κ(1 − 2g) = 0, the root that lies in [0, 1].
    lean = reach - 2
    place = (lean + (lean**2 + 4 * reach * (reach + ratio) / ratio).sqrt()) / (2 * reach)
    place = arb(min(1.0, max(0.0, float(place.mid()))))
    inner = 1 + ratio * place * (1 - place)
    slope = reach + ratio * (1 - 2 * place) / inner
    return reach * place + inner.log() + abs(slope)


@functools.lru_cache(maxsize=4096)
def pure_rate(
    epsilon: Fraction, norm_bound: float, penalty: float, loss: Loss, row_reach: float | None = None
) -> float:
    """The largest rate for which the noise density ∝ exp(−rate·‖b‖) keeps ε, rounded down; `row_reach` as in `pure_loss`."""
    limit = rounded_down(epsilon)
    high = limit / (2 * (norm_bound if row_reach is None else row_reach) * loss.largest_slope) * (1 + 2.0**-40)
    rate = _largest(lambda rate: pure_loss(rate, norm_bound, penalty, loss, row_reach) <= limit, high)
    if rate == 0:
        raise InvalidParameter(
            "The regularization is too small for objective perturbation at this epsilon.",
            "Use a larger regularization, or leave it out.",
        )
    return rate


def gaussian_loss_delta(deviation: float, epsilon: float, norm_bound: float, penalty: float, loss: Loss) -> float:
    """The δ of objective perturbation with noise N(0, deviation²·I) at ε, rounded up.

    The privacy loss is convex in the change of the gradient, which lies in a parallelogram: its corners decide, and each is a Gaussian
    mechanism. For the logistic loss the determinant's slack goes to the corners that are short.
    """
    reach = math.nextafter(norm_bound * loss.largest_slope / deviation, math.inf)
    with ball_precision(_BALL_BITS):
        ratio = arb(norm_bound) ** 2 / arb(penalty)
        slack = upper_end((1 + arb(loss.largest_curvature) * ratio).log())
        short_slack = upper_end(ratio + (arb(norm_bound) / arb(deviation)) ** 2 / 2 + (1 + ratio / 4).log())
    bounds = [1.0]
    if slack < epsilon:
        left = math.nextafter(epsilon - slack, 0.0)
        second = reach if loss.one_sided else math.nextafter(math.sqrt(2) * reach * (1 + 2.0**-50), math.inf)
        first_count = 1 if loss.one_sided else 2
        bounds.append(first_count * gaussian_delta(2 * reach, left) + 2 * gaussian_delta(second, left))
    if loss.joint and short_slack < epsilon:
        left = math.nextafter(epsilon - short_slack, 0.0)
        bounds.append(gaussian_delta(2 * reach, epsilon) + gaussian_delta(reach, epsilon) + gaussian_delta(reach, left))
    # Three additions of rounded numbers lose less than 2⁻⁵⁰.
    return min(1.0, min(bounds) * (1 + 2.0**-50))


@functools.lru_cache(maxsize=4096)
def gaussian_deviation(epsilon: Fraction, delta: Fraction, norm_bound: float, penalty: float, loss: Loss) -> float:
    """The smallest standard deviation (to a relative 2⁻²⁴) for which noise N(0, σ²I) keeps (ε, δ), rounded up."""
    epsilon_limit, delta_limit = rounded_down(epsilon), rounded_down(delta)

    def holds(precision: float) -> bool:
        return gaussian_loss_delta(1 / precision, epsilon_limit, norm_bound, penalty, loss) <= delta_limit

    size = norm_bound * loss.largest_slope
    precision = _largest(holds, 2.0**10 / size, steps=40)
    if precision == 0:
        raise InvalidParameter(
            "The regularization is too small for objective perturbation at this epsilon and delta.",
            "Use a larger regularization, or leave it out.",
        )
    return 1 / precision


def _largest(holds: Callable[[float], bool], high: float, steps: int = _CALIBRATION_STEPS) -> float:
    """The largest number in (0, high] (to the last bisection) up to which a predicate holds; 0 if there is none found."""
    if holds(high):
        return high
    low = high
    while not holds(low):
        low, high = low / 2, low
        if low < 2.0**-200:
            return 0.0
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
