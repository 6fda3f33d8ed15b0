"""Our side of every benchmark. Each case prepares its input and returns what is timed."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.network_workloads import image_inputs, private_image_step, rows_of_two_classes, step_inputs
from benchmarks.workloads import linear_experts, overlapping_patterns, sparse_correlations, unit_rows
from sudare.dictionary.e_step import gaussian_statistics
from sudare.dictionary.graphical_lasso import graphical_lasso
from sudare.experts import MirrorAveraging
from sudare.frames.rows import Rows
from sudare.linear import PrivateLogisticRegression
from sudare.linear.losses import Logistic
from sudare.linear.solvers import Objective, minimised
from sudare.neural import per_row_clipping as network
from sudare.neural.dp_sgd import public_recipe
from sudare.neural.seeded_randomness import RunSeed
from sudare.neural.training import FullyConnected, Training, trained
from sudare.neural.training_method_base import parameters_in
from sudare.papers.p000_weak_learners.simulated_members import objective_fits
from sudare.perturbation import LaplacePerturbation, RetainReplace, SubsetSelection, UnaryEncoding
from sudare.perturbation.categorical import CategoryPerturbation
from sudare.perturbation.uniform_shuffle import shuffled
from sudare.privacy import Guarantee, Ledger
from sudare.privacy.accounting import Budget, Spent, gaussian_cost, pure_cost
from sudare.privacy.mechanisms import GammaNorm, Laplace
from sudare.privacy.noise import SystemNoise
from sudare.statistics import PrivateHistogram, PrivateMean
from sudare.sums import MemberKeys, secure_sum

Run = Callable[[], object]


def mean(rows: int, columns: int) -> Run:
    """Private means of columns in [0, 1], ε = 1."""
    table = np.random.default_rng(0).random((rows, columns))
    return lambda: PrivateMean(1.0, bounds=(0.0, 1.0)).fit(table)


def histogram(rows: int, bins: int) -> Run:
    """Private counts of numbers in [0, 1], ε = 1."""
    table = np.random.default_rng(0).random((rows, 1))
    return lambda: PrivateHistogram(1.0, bounds=(0.0, 1.0), bins=bins).fit(table)


def laplace(dimension: int) -> Run:
    """Laplace noise on a vector of sensitivity 1, ε = 1."""
    values, mechanism = np.random.default_rng(0).random(dimension), Laplace(1.0, 1.0, dimension)
    return lambda: mechanism.apply(values, SystemNoise())


def gamma_norm(dimension: int) -> Run:
    """Euclidean gamma-norm noise, sensitivity 2, ε = 1."""
    values, mechanism = np.zeros(dimension), GammaNorm(2.0, 1.0, dimension)
    return lambda: mechanism.apply(values, SystemNoise())


def charges(charges: int) -> Run:
    """Charges to a new account of one ledger, each durable when it returns."""
    folder = tempfile.TemporaryDirectory(prefix="sudare-bench-")
    ledger, numbers = Ledger(Path(folder.name) / "ledger.db"), itertools.count()
    cost, guarantee = pure_cost(0.001), Guarantee(0.001)

    def run(keep: object = folder) -> None:
        account = ledger.account(f"account-{next(numbers)}", epsilon=1.0)
        for _ in range(charges):
            account.charge(guarantee, cost, "benchmark")

    return run


def composition(charges: int) -> Run:
    """Total ε of different Gaussian charges at δ = 1e-6."""
    costs = [gaussian_cost(0.01 + 0.0001 * index, 1e-9) for index in range(charges)]
    return lambda: Budget.of(100.0, 1e-6, "gaussian").shown(Spent.of(costs))


def mirror_averaging(experts: int, rows: int) -> Run:
    """Fitting the weights of linear experts, β = 3."""
    X, labels, coefficients = linear_experts(experts, rows)
    models = []
    for row in coefficients:
        model = LogisticRegression()
        model.coef_, model.intercept_ = row[np.newaxis], np.zeros(1)
        model.classes_, model.n_features_in_ = np.array([-1.0, 1.0]), len(row)
        models.append(model)
    return lambda: MirrorAveraging(models, temperature=3.0).fit(X, labels)


def logistic(rows: int, columns: int) -> Run:
    """One private logistic regression, pure ε = 1, objective perturbation, through the estimator."""
    X, labels = unit_rows(rows, columns)
    model = PrivateLogisticRegression(1.0, classes=[0, 1], method="objective", regularization=1 / rows)
    return lambda: model.fit(X, labels)


def logistic_nodes(nodes: int, rows: int, columns: int) -> Run:
    """As many private logistic regressions, batched (a simulation: seeded noise)."""
    X, labels = unit_rows(nodes * rows, columns)
    blocks, signs = X.reshape(nodes, rows, columns), (2.0 * labels - 1).reshape(nodes, rows)
    generator = np.random.default_rng(1)
    return lambda: objective_fits(blocks, signs, 1.0, 1.0, generator)


def logistic_large(rows: int, columns: int) -> Run:
    """Logistic regression without noise to a certified gradient norm of 1e-6."""
    X, labels = unit_rows(rows, columns)
    held = Rows.held(X, (2.0 * labels - 1)[:, np.newaxis])
    objective = Objective(held, Logistic(), 1.0, np.zeros(columns), 1.0)
    return lambda: minimised(objective, 1e-6)


def graphical_lasso_cold(variables: int, rows: int, penalty: float, tolerance_of_peer: float, blocks: int = 1) -> Run:
    """The graphical lasso to a duality gap of 1e-8 nats."""
    S = sparse_correlations(variables, rows, blocks)
    return lambda: graphical_lasso(S, penalty)


def graphical_lasso_warm(variables: int, rows: int, penalty: float, tolerance_of_peer: float) -> Run:
    """The same for weights that changed by 2%, from the solution before."""
    start = graphical_lasso(sparse_correlations(variables, rows), penalty)
    S = sparse_correlations(variables, rows, disturbance=0.02)
    return lambda: graphical_lasso(S, penalty, start=start)


def expectation_maximisation(rows: int, columns: int, patterns: int, iterations: int, bits: int) -> Run:
    """EM iterations of a mixture of normal patterns, and the log-likelihood at the end."""
    X, means, precisions = overlapping_patterns(rows, columns, patterns)

    def run() -> float:
        mu, weights, choleskys = means, np.full(patterns, 1 / patterns), np.linalg.cholesky(precisions)
        for iteration in range(iterations + 1):
            log_dets = 2 * np.log(np.diagonal(choleskys, axis1=1, axis2=2)).sum(axis=1)
            dtype = np.float32 if bits == 32 else np.float64
            found = gaussian_statistics(X, np.log(weights), mu, choleskys, log_dets, dtype)
            if iteration < iterations:
                mu, weights = found.sums / found.counts[:, np.newaxis], found.counts / rows
                covariances = found.moments / found.counts[:, np.newaxis, np.newaxis]
                covariances -= mu[:, :, np.newaxis] * mu[:, np.newaxis] - 1e-6 * np.eye(columns)
                choleskys = np.linalg.cholesky(np.linalg.inv(covariances))
        return found.log_likelihood

    return run


def masked_sum(members: int, numbers: int, encrypted: int) -> Run:
    """The work of all members of a masked sum in one process, keys agreed on before; `encrypted` is the peer's number."""
    vectors = list(np.random.default_rng(0).normal(size=(members, numbers)))
    keys = [MemberKeys.generated() for _ in vectors]
    return lambda: secure_sum(vectors, keys=keys)


def retain_replace(rows: int, values: int, epsilon: float) -> Run:
    """Categories by their positions, perturbed."""
    return perturbed_categories(RetainReplace, rows, values, epsilon)


def unary(rows: int, values: int, epsilon: float) -> Run:
    """Categories by their positions, as packed ticks."""
    return perturbed_categories(UnaryEncoding, rows, values, epsilon)


def subset(rows: int, values: int, epsilon: float) -> Run:
    """Categories by their positions, as packed sets."""
    return perturbed_categories(SubsetSelection, rows, values, epsilon)


def perturbed_categories(kind: type[CategoryPerturbation], rows: int, values: int, epsilon: float) -> Run:
    """The perturbation of a column."""
    column = np.random.default_rng(0).integers(0, values, rows)
    perturbation = kind(range(values), epsilon=epsilon)
    return lambda: perturbation.drawn(column, SystemNoise())


def retain_replace_shuffled(rows: int, values: int, epsilon: float) -> Run:
    """Perturbed and shuffled."""
    perturb = retain_replace(rows, values, epsilon)
    return lambda: shuffled(perturb(), SystemNoise())  # type: ignore[arg-type]


def record_laplace(rows: int, values: int, epsilon: float) -> Run:
    """Numbers clipped, rounded, perturbed and shuffled."""
    column = np.random.default_rng(0).uniform(0, values, rows)
    perturbation = LaplacePerturbation((0, values), epsilon=epsilon)
    return lambda: shuffled(perturbation.drawn(column, SystemNoise()), SystemNoise())


def network_step(batch: int, inputs: int, width: int) -> Run:
    """A private step of a network with two hidden layers, on rows that are already on the device; its noise is drawn, too."""
    given = step_inputs(batch, inputs, width)
    seed, parameters = RunSeed(bytes(32)), parameters_in((inputs, width, width, 2))

    def step() -> object:
        # As in training: noise is drawn while the device is at work.
        blocks = network.row_parts(given.state.parameters, given.x, given.targets, None, "cross_entropy")
        noise = seed.noise(0, parameters)
        with jax.enable_x64(True):
            return jax.block_until_ready(
                network.sampled_step(given.state, None, blocks, given.kept, noise, given.settings)
            )

    return step


def convolution_step(batch: int, side: int, channels: int, width: int) -> Run:
    """A private step of a network with convolutions, written in plain JAX; its noise is drawn, too."""
    given, seed = image_inputs(batch, side, channels, width), RunSeed(bytes(32))
    return lambda: jax.block_until_ready(private_image_step(given, seed.noise(0, given.parameters)))


def network_epoch(rows: int, batch: int, inputs: int, width: int) -> Run:
    """As many private steps as make an epoch, each on a fresh Poisson sample, from seeds of the system's entropy."""
    x, targets = rows_of_two_classes(rows, inputs)
    recipe = public_recipe(rows, 1.0, 1e-5, "add-remove", max_iter=max(1, rows // batch), sampling_rate=batch / rows)
    training, layers = Training(recipe, 1.0, float(batch)), FullyConnected((inputs, width, width, 2), "cross_entropy")
    return lambda: trained(training, layers, x, targets, RunSeed.drawn(SystemNoise()))


CASES = {
    "mean": mean,
    "histogram": histogram,
    "laplace": laplace,
    "gamma_norm": gamma_norm,
    "charges": charges,
    "composition": composition,
    "logistic": logistic,
    "logistic_nodes": logistic_nodes,
    "logistic_large": logistic_large,
    "mirror_averaging": mirror_averaging,
    "masked_sum": masked_sum,
    "graphical_lasso": graphical_lasso_cold,
    "graphical_lasso_warm": graphical_lasso_warm,
    "expectation_maximisation": expectation_maximisation,
    "network_step": network_step,
    "network_epoch": network_epoch,
    "convolution_step": convolution_step,
    "retain_replace": retain_replace,
    "retain_replace_shuffled": retain_replace_shuffled,
    "record_laplace": record_laplace,
    "unary": unary,
    "subset": subset,
}
