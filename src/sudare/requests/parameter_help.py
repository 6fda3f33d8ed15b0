"""Words about parameters of learners: their options, what they are for; and why some are no fields."""

from __future__ import annotations

from typing import Final, NamedTuple


class FieldWords(NamedTuple):
    """How a parameter is spelled in the shell, what it is for, and which columns it names."""

    option: str
    help: str
    columns: str = ""


WORDS: Final[dict[str, FieldWords]] = {
    "target": FieldWords("--target", "The column to predict; without it the schema's target.", "any"),
    "epsilon": FieldWords("--epsilon", "The ε of the guarantee, charged to the account."),
    "delta": FieldWords("--delta", "The δ of the guarantee; above 0 the noise is Gaussian."),
    "neighbours": FieldWords("--neighbours", "replace-one, or add-remove where the number of rows is secret."),
    "by": FieldWords("--by", "A column to group by.", "category"),
    "keys": FieldWords(
        "--key-column", "A column to group by though nobody declared its values; needs δ.", "undeclared"
    ),
    "mean_of": FieldWords("--mean-of", "A column whose means are wanted.", "number"),
    "variance_of": FieldWords("--variance-of", "A column whose variances are wanted, and means with them.", "number"),
    "quantile_of": FieldWords("--quantile-of", "A column whose quantiles are wanted.", "number"),
    "quantiles": FieldWords("--quantile", "Which quantile, the median (0.5) if none is given."),
    "intervals": FieldWords("--intervals", "Whether quantiles come with intervals."),
    "bins": FieldWords("--bins", "In how many equal bins a number is counted, or the edges of its bins."),
    "max_bins": FieldWords(
        "--max-bins", "Into how many equal bins the range of a number is cut, beside its declared bins."
    ),
    "monotone": FieldWords("--monotone", "A column whose shape must go one way: increasing or decreasing.", "number"),
    "regularization": FieldWords("--regularization", "Λ of the penalty; a public rule chooses it where none is given."),
    "smoothing": FieldWords("--smoothing", "How wide the corner of the hinge loss is rounded."),
    "residual_cap": FieldWords("--residual-cap", "The largest residual that counts, in halves of the target's range."),
    "fit_intercept": FieldWords("--fit-intercept", "Whether a constant is added to the columns."),
    "encoding": FieldWords("--encode-as", "How columns become numbers."),
    "method": FieldWords("--method", "How the model is made private; auto chooses from public facts."),
    "sampling_rate": FieldWords("--sampling-rate", "With which public probability a step of training sees a row."),
    "decision": FieldWords(
        "--decision",
        "Which class is answered: the likeliest, or balanced: the one that is likelier than usual, which finds rare ones.",
    ),
    "radius": FieldWords("--radius", "The largest norm of what is drawn."),
    "prior_scale": FieldWords("--prior-scale", "How wide the prior is."),
    "draws": FieldWords("--draws", "How many draws share the ε."),
    "sampler": FieldWords("--sampler", "How it is drawn; auto is exact where that is possible."),
    "fixed_work": FieldWords("--fixed-work", "Whether drawing takes the same work whatever the records are."),
    "hidden_layer_sizes": FieldWords("--hidden-layer-size", "Neurons of a hidden layer; one value for each layer."),
    "expected_rows": FieldWords("--expected-rows", "About how many rows there are, where their number is secret."),
    "accept_weak_guarantee": FieldWords("--accept-weak-guarantee", "Train though the guarantee is weak (large ε)."),
    "max_iter": FieldWords("--max-iter", "How many steps of training; a public rule chooses it where none is given."),
    "clip": FieldWords("--clip", "The largest norm of a record's gradient; larger ones are cut to it."),
    "learning_rate": FieldWords("--learning-rate", "The step size; a public rule chooses it where none is given."),
    "momentum": FieldWords("--momentum", "How much of the last step is kept."),
    "max_physical_batch_size": FieldWords(
        "--max-physical-batch-size", "Rows at once in memory; the result is the same."
    ),
    "k": FieldWords("--k", "No row may be linked to a record with probability above 1/k."),
    "n_records": FieldWords("--n-records", "Among how many rows k holds; all of them without this."),
    "one_column": FieldWords(
        "--one-column",
        "Every record answers one column, drawn at random, with the whole ε; how columns go together is then not told.",
    ),
    "split": FieldWords("--split", "A column's share of ε; give all columns or none (equal shares).", "any"),
    "methods": FieldWords(
        "--method",
        "square-wave (the default) or laplace for numbers; retain-replace, unary or subset for categories.",
        "any",
    ),
    "label": FieldWords("--label", "The column to predict later; without it the schema's target.", "any"),
    "engine": FieldWords(
        "--engine",
        "Noisy counts of columns and pairs; pairs chosen one after another; or noisy means of groups (Sei and Ohsuga).",
    ),
    "tree": FieldWords(
        "--pair", "Columns publicly known to belong together. Without it pairs are chosen, within ε.", "any"
    ),
    "groups": FieldWords("--groups", "For microaggregation: into how many groups a class is cut."),
    "shuffle": FieldWords("--shuffle", "Whether rows leave in random order; the central promise counts on it."),
}

# Parameters that nobody asks for, and why not.
LEFT_OUT: Final[dict[str, str]] = {
    "account": "who pays is decided by the steward, not by the request",
    "schema": "the request is about a schema; it is not one of its values",
    "bounds": "the schema declares them",
    "norm_bound": "with a schema the bound follows from it",
    "classes": "the schema declares them",
    "target_bounds": "the schema declares them",
    "random_state": "seeded noise protects nobody: a fit with an account refuses it",
    "cluster": "where it is computed is up to whoever runs it (`--cluster` in the shell)",
    "checkpoint": "where a training can go on after a kill is up to whoever runs it (`--checkpoint` in the shell)",
    "memory": "where a member keeps first answers is up to whoever runs it (`--memory` in the shell)",
    "verbose": "progress is shown by shell and page themselves",
}
