"""Limits and constants of the code that pages tell, by their names."""

from __future__ import annotations

import math
from collections.abc import Iterator

from benchmarks import scale
from benchmarks.page_numbers.places import Told, told
from sudare.consortium.certificate_expiry import WARNING_DAYS
from sudare.consortium.loop_watch import UNHEALTHY_SECONDS
from sudare.consortium.network.transport.certificates import _VALID_DAYS
from sudare.dictionary import graphical_lasso_interior_point, graphical_lasso_newton_steps
from sudare.frames.fixed_order_summation import BLOCK_ROWS
from sudare.frames.row_reader import MOST_KEPT_BYTES
from sudare.gibbs import smooth_proximal
from sudare.gibbs.mechanisms import FIXED_PROPOSALS
from sudare.neural import dp_sgd
from sudare.neural.per_row_clipping import ROWS_IN_A_PART, rounding_margin
from sudare.privacy import contribution_bound_selection as bound
from sudare.reconstruction import multivariate_normal_mixture, normal_mixture, pair_proportions
from sudare.statistics.joint_quantiles import EQUAL_CELLS
from sudare.statistics.key_selection import MOST_KEYS
from sudare.synthesis import adaptive_marginals, marginals
from sudare.web.schema_pages import LARGEST_TEXT_BYTES
from sudare.web.signed_in_request import LARGEST_FORM_BYTES
from sudare.web.timed_headers import MOST_OF_AN_ADDRESS, MOST_OPEN

GIB, MIB, KIB = 2**30, 2**20, 2**10


def all_told() -> Iterator[Told]:
    """What pages say of limits."""
    yield told("linear", "it would take more than {} GiB (`MOST_KEPT_BYTES`)", MOST_KEPT_BYTES / GIB)
    yield told("dictionary", "Rows are cut into blocks of {} and added in a fixed tree", BLOCK_ROWS)
    yield told("scale", "are added in blocks of {} rows from the first row on", BLOCK_ROWS)
    yield told("statistics", "At most {} values are found", MOST_KEYS)
    yield told("statistics", "or in {} cells of one width", EQUAL_CELLS)
    yield told("records", "({} cells besides those of the first tables)", adaptive_marginals.MOST_TREE_CELLS)
    yield told(
        "records",
        "More than {} columns take declared pairs. A table of a pair may have {} cells",
        marginals.MOST_COLUMNS,
        marginals.MOST_TABLE_CELLS,
    )
    yield told(
        "records",
        "is more than {} % from the usual one, {} pairings are drawn",
        100 * pair_proportions._NEAR_THE_LAW,
        pair_proportions._PAIRINGS,
    )
    yield told("records", "where one takes more than {} million products", pair_proportions._MOST_WORK / 10**6)
    yield told("records", "1 to {} normal components, cut off at the bounds", normal_mixture.MOST_COMPONENTS)
    yield told(
        "records",
        "weighs the technique and mixtures of 1 to {} components",
        multivariate_normal_mixture.MOST_COMPONENTS,
    )
    yield told("operations", "less than {0} days are left", WARNING_DAYS)
    yield told("operations", "once a day from {} days before; `status` says whom to ask", WARNING_DAYS)
    yield told("operations", "`sudare relay` warn from {} days before", WARNING_DAYS)
    yield told("operations", "which open the line to the relay, end after {} days", _VALID_DAYS)
    yield told("operations", "where the loop has not turned for {} seconds", UNHEALTHY_SECONDS)
    yield told(
        "dictionary", "Within {} nats of the solution hardly an entry changes", graphical_lasso_newton_steps._NEAR
    )
    # So many variables have at most so many pairs, themselves included.
    pairs = graphical_lasso_interior_point.MOST_PAIRS
    yield told("dictionary", "for up to {} variables in a block", (math.isqrt(8 * pairs + 1) - 1) // 2)
    yield told("consortium", "The node is held to {} ms for a round of ours", 1000 * scale.ROUND_SECONDS)
    yield told("proofs/smooth_samplers.md", "if {} proposals and more were refused", smooth_proximal._MOST_PROPOSALS)
    yield told(
        "proofs/smooth_samplers.md", "restricted draws; each takes {} proposals", smooth_proximal._MOST_PROPOSALS
    )
    yield told("proofs/smooth_samplers.md", "sure steps, of which {} may be planned", smooth_proximal.MOST_STEPS)
    yield told("gibbs", "proposals of the exact sampler {} a draw", FIXED_PROPOSALS)
    yield told("neural", "as much as makes {} rows expected", dp_sgd._FEWEST_EXPECTED_ROWS)
    yield told("neural", "Learning rate × steps is {}·signal", dp_sgd._LENGTH_PER_SIGNAL)
    yield told("neural", "steps are {} times its root", dp_sgd._STEPS_PER_ROOT)
    yield told(
        "proofs/persons.md",
        "Constants {}, {} and {}, the ratio {} of candidates",
        bound.PERSONS_ABOVE,
        bound.FULL_EXCESS,
        bound.BOUND_SHARE,
        bound.STEP_RATIO,
    )
    parts = [92 * 64 + 64, *3 * [64 * 64 + 64], 64 * 2 + 2]
    yield told(
        "neural",
        "for 92 inputs and four layers of 64, d = {0}, and ε = 1 of a parameter is ε = {0} of a record",
        sum(parts),
    )
    for page, piece in (
        ("sharp-edges", "are multiplied in float32, {} rows at a time"),
        ("ja/sharp-edges", "勾配そのものは {} 行ずつ float32 で乗算し"),
    ):
        yield told(page, piece, ROWS_IN_A_PART)
    # Nearly all of it is the same for networks of all sizes: here of 92 inputs and two layers of 64.
    margin = 100 * rounding_margin(64, 6, 10_242, 1.0)
    for page, piece in (
        ("sharp-edges", "rows are clipped by {} % more so that"),
        ("ja/sharp-edges", "行は {} % だけ余分に"),
        ("proofs/dp_sgd.md", "of w squares at most; about {} % |"),
    ):
        yield told(page, piece, margin)
    for page, piece in (
        ("page", "Forms end at {} KiB, schemas at {} MiB"),
        ("ja/page", "フォームは {} KiB、スキーマは {} MiB"),
    ):
        yield told(page, piece, LARGEST_FORM_BYTES / KIB, LARGEST_TEXT_BYTES / MIB)
    for page, many, few in (
        ("page", "Of more than {} connections", "more than {} of one other computer are refused"),
        ("ja/page", "接続が {} を超えると", "ほかの一つの計算機からの {} を超える接続は拒否します"),
    ):
        yield told(page, many, MOST_OPEN)
        yield told(page, few, MOST_OF_AN_ADDRESS)
