"""Numbers of docs/linear.md and of the additive and joint models beside it."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean

from benchmarks.page_numbers.places import Told, result, row, told, up
from sudare.linear import method_choice as choice
from sudare.linear.descent_on_centred_targets import RECIPE as CENTRED
from sudare.linear.score_calibration import CLASSES, NUMBERS, SEVERAL
from sudare.linear.sufficient_statistics import RECIPE as STATISTICS

PAGE = "linear"


def all_told() -> Iterator[Told]:
    """What the page and its neighbours say."""
    yield from _rules()
    yield from _choices()
    yield from _noise()
    yield from _additive()
    yield from _joint()


def _rules() -> Iterator[Told]:
    """Constants of the code, by their names."""
    pure, gaussian = choice._PURE_STATISTICS, choice._GAUSSIAN_STATISTICS
    pure_several, gaussian_several = choice._PURE_STATISTICS_OF_SEVERAL, choice._GAUSSIAN_STATISTICS_OF_SEVERAL
    yield told(PAGE, "(up to {} encoded columns, without `sampling_rate`)", choice._MOST_STATISTICS)
    yield told(
        PAGE,
        '| mostly bins of numbers, two classes | below {} `"mean"` (from {} columns on `"statistics"`), from {} on `"statistics"`, from {} on `"objective"`'
        ' | below {} `"descent"` (fewer than {} rows: `"statistics"`), from {} on `"statistics"`, from {} on `"descent"` |',
        pure[0], choice._MANY_COLUMNS, *pure, gaussian[0], choice._FEW_ROWS, *gaussian,
    )  # fmt: skip
    yield told(
        PAGE,
        '| mostly bins of numbers, several classes | below {} `"mean"`, from {} on `"statistics"`, from {} on `"objective"` | below {} `"mean"`, from {} on `"statistics"`, from {} on `"descent"` |',
        pure_several[0], *pure_several, gaussian_several[0], *gaussian_several,
    )  # fmt: skip
    yield told(
        PAGE,
        '| others that are never negative | below {} `"mean"`, else `"objective"` | `"descent"`; of several classes below {} `"mean"` |',
        choice._NONNEGATIVE_MEAN_BELOW, gaussian[0],
    )  # fmt: skip
    yield told(
        PAGE, '| others, two classes | below {} `"mean"` (arrays: {})', choice._MEAN_BELOW, choice._ARRAY_MEAN_BELOW
    )
    yield told(PAGE, '| others, several classes | below {} `"mean"`', choice._SEVERAL_MEAN_BELOW)
    yield told(PAGE, 'for `PrivateLinearSVC`, it is `"mean"` below {}', choice._MEAN_BELOW)
    yield told(PAGE, 'The bound {} in the rule for `"mean"` was 6 until', choice._MEAN_BELOW)
    yield told(PAGE, '| > 0 | n·μ < {}·√p | `"statistics"` |', choice._ARRAY_DESCENT_FROM)
    yield told(PAGE, '| 0 | n·ε < {}·p | `"statistics"` |', choice._ARRAY_MEAN_FROM)
    yield told(PAGE, '| 0 | n·ε < {}·p | `"mean"` |', choice._ARRAY_OBJECTIVE_FROM)
    yield told(PAGE, "δ = 0 and n·ε from {} a column on", choice._CALIBRATED_BELOW)
    yield told(
        PAGE, 'n·ε of {} but between {} and {} of it, tells mean and spread',
        STATISTICS.enough, STATISTICS.least_target_share, STATISTICS.target_share,
    )  # fmt: skip
    yield told(
        PAGE, 'for n·ε of {} but at most {} of ε, and learns targets about that mean, clipped at {} standard deviations',
        CENTRED.enough, CENTRED.level_share, CENTRED.widths,
    )  # fmt: skip
    yield told(
        PAGE,
        "The parts are at most {}, {} and {} of ε for two classes, {}, {} and {} for numbers",
        *CLASSES.shares,
        *NUMBERS.shares,
    )
    yield told(
        PAGE,
        "the more rows there are ({}, {} and {} divided by the number of rows; {}, {} and {})",
        *CLASSES.enough,
        *NUMBERS.enough,
    )
    yield told(PAGE, "with 30,000 rows and ε = 1 they are {} % of it", 100 * sum(CLASSES.enough) / 30_000)
    yield told(
        PAGE, 'Of several classes they are {}, {} and {} ({}, {} and {}), and a fourth sum tells mean probabilities ({}, {})',
        *SEVERAL.shares[:3], *SEVERAL.enough[:3], SEVERAL.shares[3], SEVERAL.enough[3],
    )  # fmt: skip


def _choices() -> Iterator[Told]:
    """What was compared on the tuning half of the panel."""
    choices = result("benchmarks/panel/linear_choices.json")
    encodings = choices["ridge_encodings"]["from 50 on"]
    below, cases = encodings["auto's encoding more than .02 below centred"].split(" of ")
    yield told(
        PAGE,
        "in none of {} cases of the tuning half R² is more than .02 below that of centred numbers, where always binning is in {}; mean R² {} against {} of centring and {} of binning",
        int(cases),
        int(encodings["binned more than .02 below centred"].split(" of ")[0]),
        *(float(encodings[f"mean R², {way}"]) for way in ("the encoding that auto takes", "centred", "binned")),
    )
    if int(below):
        raise LookupError("Binning where auto takes it is worse in some case: mend the sentence of docs/linear.md.")
    ridge = choices["ridge"]
    pairs = [ridge[f"δ = {delta}, {method}"] for method in ("objective", "output", "mean") for delta in ("0", "1e-06")]
    yield told(
        PAGE,
        'mean R² (no case counted below −1) {} for δ = 0 and {} for δ = 1e-6, against {} and {} of `"objective"`, {} and {} of `"output"`, {} and {} of `"mean"`, {} of `"descent"`',
        ridge["δ = 0, statistics"], ridge["δ = 1e-06, statistics"], *pairs, ridge["δ = 1e-06, descent"],
    )  # fmt: skip
    arrays = choices["arrays"]
    gaussian, pure = arrays["δ = 1e-05, from 0 to inf"], arrays["δ = 0, from 0 to inf"]
    descends = [
        each for name, each in arrays.items()
        if name.startswith("δ = 1e-05") and not name.endswith("0 to inf") and float(name.split()[4]) >= choice._ARRAY_DESCENT_FROM
    ]  # fmt: skip
    yield told(PAGE, "on generated ones: {} cases for each δ", gaussian["cases"])
    yield told(
        PAGE,
        'of `"auto"` is {} for δ = 1e-5 and {} for δ = 0, against {} and {} of `"statistics"` alone, {} of `"descent"` alone ({} without what it is told of the target),'
        ' {} and {} of `"mean"`, {} and {} of `"objective"`',
        *(half[way]["mean"] for way in ("auto", "statistics") for half in (gaussian, pure)),
        *(gaussian[way]["mean"] for way in ("descent", "descent as it is")),
        *(half[way]["mean"] for way in ("mean", "objective") for half in (gaussian, pure)),
    )
    yield told(
        PAGE,
        'R² is below −.01 in {} and {} of the {} (`"statistics"`: {} and {}), and in {} of the {} in which `"auto"` descends, the lowest −{}',
        *(half["auto"]["below -.01"] for half in (gaussian, pure)),
        gaussian["cases"],
        *(half["statistics"]["below -.01"] for half in (gaussian, pure)),
        sum(each["auto"]["below -.01"] for each in descends),
        sum(each["cases"] for each in descends),
        min(each["auto"]["least"] for each in descends),
    )
    centred = choices["centred"]
    yield told(
        PAGE,
        "clipping at one standard deviation has a mean R² of {} where that in use has {} for n·μ/√p from 25 to 40, and {} against {} from 2,048 on",
        *(
            centred[f"δ = 1e-05, from {band}"][way]["mean"]
            for band in ("25 to 40", "2048 to inf")
            for way in ("widths = 1", "used")
        ),
    )
    weights = choices["weights"]
    gains = [each["weights"] - each["balanced"] for each in weights.values()]
    yield told(
        PAGE,
        '{} with weights, {} with `"balanced"` answers, {} with the likeliest class, over the {} tables',
        *(mean(each[way] for each in weights.values()) for way in ("weights", "balanced", "likeliest")), len(weights),
    )  # fmt: skip
    yield told(
        PAGE,
        "weights are ahead by {} at most (iris), behind by up to {}",
        weights["iris"]["weights"] - weights["iris"]["balanced"],
        -min(gains),
    )
    if max(gains) != weights["iris"]["weights"] - weights["iris"]["balanced"]:
        raise LookupError("Weights are ahead by most on another table than iris: mend the sentence of docs/linear.md.")
    yield told(
        PAGE,
        "({} for two classes of which one has {} %)",
        weights["unbalanced"]["noise"],
        50 / weights["unbalanced"]["noise"],
    )


def _noise() -> Iterator[Told]:
    """Infinity-norm noise of objective perturbation."""

    def both(table: str, epsilon: float = 1.0) -> list[float]:
        found = row(result("benchmarks/objective_noise.json"), table=table, epsilon=epsilon)
        return [found[way]["accuracy"] for way in ("product", "euclidean")]

    yield told(
        PAGE,
        "at ε = 1 accuracy {} against {} with Euclidean noise on breast cancer (30 columns, 398 rows)",
        *both("breast cancer"),
    )
    yield told(PAGE, "{} against {} on Pima (8 columns)", *both("pima"))
    yield told(PAGE, "{} against {} with 40 made columns and 14,000 rows", *both("made, 40 columns"))
    few = both("made, 10 columns")
    yield told(PAGE, "and {} with either for 10 made columns", few[0])
    yield told(PAGE, "{} with either for 10 made columns", few[1])
    yield told(PAGE, "At ε = .1 breast cancer has {} against {}: both are noise", *both("breast cancer", 0.1))


def _additive() -> Iterator[Told]:
    """Additive models."""
    found = result("benchmarks/additive_boosting.json")
    adult, means, constants = found["adult"], found["tuning"]["means"], found["tuning"]["constants"]
    area = {name: each["ε = 1"][1] for name, each in found["schemas"].items()}
    for epsilon, delta in (("0.1", "1e-06"), ("0.5", "1e-06"), ("1", "1e-06"), ("3", "1e-06"), ("1", "0")):
        ways = (
            f"{way}, ε = {epsilon}, δ = {delta}" for way in ("additive", "additive, finer bins", "logistic, binned")
        )
        yield told(
            PAGE, f"| {epsilon} | {delta} |" + " {} |" * 9, *(number for way in ways for number in adult[way]["mean"])
        )
    finer = adult["additive, finer bins, ε = 1, δ = 1e-06"]
    yield told(PAGE, "boosted at once for {} steps", constants["steps"])
    yield told(
        PAGE,
        "its AUC of {} (deviation of a seed {}) is above the goal of .915",
        finer["mean"][1],
        finer["deviation"][1],
    )
    yield told(PAGE, "cannot reach ({} at ε = 3)", adult["additive, ε = 3, δ = 1e-06"]["mean"][1])
    yield told(
        PAGE,
        "AUC {}, against {} of the first schema",
        area["capital gains by hundreds, education by its number"],
        area["eleven columns"],
    )
    yield told(
        PAGE, "Gains cut at every 250 dollars have {}, finer ages {} and hours {}",
        *(area[f"{what} too"] for what in ("fine capital gains", "finer ages", "finer hours")),
    )  # fmt: skip
    yield told(
        PAGE, "the country ({}), the weight of sampling ({}) and all fourteen attributes ({}; with gains by hundreds {})",
        *(area[what] for what in ("country too", "weights of sampling too", "all fourteen", "capital gains by hundreds, all fourteen")),
    )  # fmt: skip
    yield told(PAGE, "it changes nothing in the mean (AUC {} with and without)", means["chosen"][1])
    yield told(PAGE, "(AUC {} with and without)", means["penalties kept"][1])
    plain, chosen = means["logistic, binned"], means["chosen"]
    yield told(
        PAGE, "its mean AUC is {} against {}, at log losses of {} and {}", plain[1], chosen[1], plain[2], chosen[2]
    )
    better = {"rate .3", "20 steps"}
    others = [
        each[1] - chosen[1] for name, each in means.items() if name not in better | {"chosen", "logistic, binned"}
    ]
    yield told(
        PAGE, "a rate of .3 (AUC {}, log loss {}) and 20 steps ({}, {}) are better than the constants that are used, and no other that was tried is by more than {}",
        *means["rate .3"][1:], *means["20 steps"][1:], up(max(others)),
    )  # fmt: skip


def _joint() -> Iterator[Told]:
    """Additive models and networks from sums."""
    found = result("benchmarks/joint_models.json")["found"]
    for line, way in (
        ("additive model, all rows in one place", "boosting, all rows in one place"),
        ("additive model, ten members", "boosting, ten members"),
        ("network (two layers of 64), all rows in one place, sampled", "network, all rows in one place"),
        ("network, ten members, full sums", "network, ten members"),
    ):
        yield told("consortium-learning", f"| {line} | {{}} | {{}} |", *found[way]["mean"][:2])
