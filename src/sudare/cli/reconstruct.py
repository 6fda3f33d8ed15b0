"""`sudare reconstruct`: the distribution of a column from a release of perturbed records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sudare.cli.command_output import AsJson, answer, progress, reported
from sudare.cli.inspect import read_release, signature_lines
from sudare.cli.language import spoken_language
from sudare.cli.options import TrustedKeys
from sudare.cli.plot_files import check_picture, draw
from sudare.errors import InvalidParameter, NotReleasable, SudareError
from sudare.languages import translated

if TYPE_CHECKING:
    from sudare.perturbation import PerturbedTable
    from sudare.reconstruction import CategoricalReconstruction
    from sudare.schema import Column, Date, Schema

ReleaseFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="A release of perturbed records, usually NAME.sudare.")
]
ReleaseFiles = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...",
        help="A release of perturbed records, usually NAME.sudare; or several with the same column, which are then taken together.",
    ),
]


@reported
def reconstruct(
    files: ReleaseFiles,
    column: Annotated[
        str | None,
        typer.Option(
            "--column", metavar="NAME", help="The column whose distribution is wanted; not needed for --parquet."
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            help="For numbers auto, smooth, mixture or bayes; for categories shrinkage, likelihood or inversion. Without it, what is best for the kind of column.",
        ),
    ] = None,
    bins: Annotated[
        int | None,
        typer.Option(
            "--bins",
            min=1,
            max=100_000,
            help="In how many equal bins a number is shown; without it, in 10 to 50 between round numbers.",
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the distribution into a PNG or SVG file.")
    ] = None,
    parquet: Annotated[
        Path | None,
        typer.Option("--parquet", metavar="FILE", help="Write all perturbed rows to a new Parquet file."),
    ] = None,
    trusted: TrustedKeys = None,
    as_json: AsJson = False,
) -> None:
    """Reconstruct the distribution of one column, or write all perturbed rows as Parquet. Releases alone are used, so it costs nothing."""
    check_picture(plot)
    if column is None and (parquet is None or plot is not None):
        raise InvalidParameter(
            "Which column is wanted was not said.", "Give --column NAME, or --parquet FILE for all rows."
        )
    if parquet is not None and len(files) > 1:
        raise InvalidParameter(
            f"--parquet writes the rows of one release, and {len(files)} were given.",
            "Write those of one after the other.",
        )
    found = [_perturbed(file, trusted) for file in files]
    opened = [(table, signature) for _, table, signature in found]
    tables = [table for table, _ in opened]
    _check_apart(tables)
    values: dict[str, Any] = {}
    lines: list[str] = []
    if column is not None:
        with progress(as_json) as tell:
            tell(f"reconstructing {column}")
            perturbations = _perturbations(files, tables, column)
            facts = found[0][0].columns.get(column)
            values, lines, panel = _distribution(tables, column, perturbations, method, bins, facts)
        if plot is not None:
            draw(panel, file=plot)
    if parquet is not None:
        tables[0].to_parquet(parquet)
        lines.append(f"Wrote {tables[0].rows:,} perturbed rows to {parquet}.")
    told = [
        {"file": str(file), "signature": signature, "statement": table.statement().to_dict()}
        for file, (table, signature) in zip(files, opened, strict=True)
    ]
    of_releases = told[0] if len(files) == 1 else {"releases": told}
    answer(
        {**of_releases, "column": column, **values},
        as_json,
        *lines,
        *(line for each in zip(files, opened, strict=True) for line in _release_lines(*each, several=len(files) > 1)),
    )


def _check_apart(tables: Sequence[PerturbedTable]) -> None:
    """Raise InvalidParameter where releases have answers in common: they are taken to be independent."""
    memories = [table.memory for table in tables if table.memory is not None]
    if len(set(memories)) < len(memories):
        raise InvalidParameter(
            "Releases of one memory give the same answers again, so together they tell less than as many others.",
            "Give the newest of them alone.",
        )


def _release_lines(file: Path, opened: tuple[PerturbedTable, str], *, several: bool) -> list[str]:
    """What a release promises, and whose it is; with its name where there are several."""
    table, signature = opened
    return [*([f"{file}:"] if several else []), *table.statement().lines, *signature_lines(signature)]


def perturbed_table(file: Path, trusted: list[Path] | None) -> tuple[PerturbedTable, str]:
    """The perturbed table in a release, and whether its signature was checked against a trusted key."""
    _, table, signature = _perturbed(file, trusted)
    return table, signature


def _perturbed(file: Path, trusted: list[Path] | None) -> tuple[Schema, PerturbedTable, str]:
    """What a release declares, its perturbed table, and whether its signature was checked against a trusted key."""
    release, signature = read_release(file, trusted)
    if release.learner != "RecordPerturbation":
        raise NotReleasable(
            f"'{file.name}' holds a {release.learner}, not perturbed records.", "Look at it with `sudare inspect`."
        )
    model = release.model()
    table: PerturbedTable = model.table_
    if not release.content.tensors:
        from sudare.cli.perturb import rows_file

        table = table.opened(rows_file(file))
    return model.declared_, table, signature


def _perturbations(files: Sequence[Path], tables: Sequence[PerturbedTable], column: str) -> list[Any]:
    """What the column went through in each release. Raise an error that names the file where there are several, or unless all have numbers or all categories."""
    from sudare.perturbation.categorical import CategoryPerturbation

    found = []
    for file, table in zip(files, tables, strict=True):
        try:
            found.append(table.perturbation(column))
        except SudareError as error:
            if len(files) == 1:
                raise
            raise type(error)(f"{file.name}: {error.problem}", error.remedy) from None
    if len({isinstance(perturbation, CategoryPerturbation) for perturbation in found}) > 1:
        raise InvalidParameter(
            "The releases do not declare the column alike: it is a number in one and a category in another.",
            "Reconstruct each on its own, and compare.",
        )
    return found


def _distribution(
    tables: Sequence[PerturbedTable],
    column: str,
    perturbations: Sequence[Any],
    method: str | None,
    bins: int | None,
    facts: Column | None,
) -> tuple[dict[str, Any], list[str], Any]:
    """Plain values, lines to print, and a panel to draw."""
    from sudare.perturbation.categorical import CategoryPerturbation

    if isinstance(perturbations[0], CategoryPerturbation):
        return _of_categories(tables, column, perturbations, method)
    return _of_numbers(tables, column, perturbations, method, bins, facts)


def _of_categories(
    tables: Sequence[PerturbedTable], column: str, perturbations: Any, method: str | None
) -> tuple[dict[str, Any], list[str], Any]:
    from sudare.reconstruction import CategoricalReconstruction
    from sudare.report import compared_bars
    from sudare.schema.columns import level_text

    options: dict[str, Any] = {} if method is None else {"method": method}
    columns = [table.column(column) for table in tables]
    found: CategoricalReconstruction = CategoricalReconstruction(perturbations, **options).fit(columns)
    labels = [level_text(value) for value in found.values_]
    # Of several releases the picture has the answers of the first: those of different noise cannot be compared.
    first = perturbations[0]
    ticked = first.ticks(first.unpacked(tables[0].outputs(column))).mean(axis=0)
    panel = compared_bars(
        labels,
        (ticked / ticked.sum()).tolist(),
        found.probabilities_.tolist(),
        names=("perturbed", "reconstructed"),
        x_label=column,
        y_label="share of records",
    )
    return found.to_dict(), str(found).splitlines(), panel


def _of_numbers(
    tables: Sequence[PerturbedTable],
    column: str,
    perturbations: Any,
    method: Any,
    bins: int | None,
    facts: Column | None,
) -> tuple[dict[str, Any], list[str], Any]:
    import numpy as np

    from sudare.reconstruction import Reconstruction
    from sudare.reconstruction.plots import histogram_panel
    from sudare.reconstruction.round_bin_edges import round_edges
    from sudare.schema import Date

    date = facts if isinstance(facts, Date) else None
    options: dict[str, Any] = {} if method is None else {"method": method}
    columns = [table.column(column) for table in tables]
    found = Reconstruction(perturbations, **options).fit(columns).distribution_
    low, high = perturbations[0].bounds
    edges = np.array(round_edges(low, high)) if bins is None else np.linspace(low, high, bins + 1)
    band = found.band(edges)
    shares = found.histogram(edges).tolist()
    panel = histogram_panel(found, edges, perturbed=columns[0], x_label=_axis(column, date))
    values = {
        "edges": edges.tolist(),
        "probabilities": shares,
        "band": {
            "level": band.level,
            "low": _listed(band.low),
            "high": _listed(band.high),
            "reason": band.reason or None,
        },
        "mean": found.mean(),
        "quartiles": found.quantile([0.25, 0.5, 0.75]).tolist(),
        "atoms": found.atoms,
        "methods": dict(found.method_weights),
        "records": found.records,
    }
    return values, _number_lines(values, date), panel


def _axis(column: str, date: Date | None) -> str:
    """What an axis is called: of dates also what its numbers count."""
    if date is None:
        return column
    units = f"{date.unit}s"
    counted = translated(f"{units} since {date.first}", spoken_language())
    return f"{column} ({counted})"


def _listed(limits: Any) -> list[float] | None:
    return None if limits is None else [float(limit) for limit in limits]


def _number_lines(values: dict[str, Any], date: Date | None) -> list[str]:
    """Shares of bins with their bands, mean and median; bounds of dates as dates."""
    from sudare.report.number_formatting import nearest

    told_value = nearest if date is None else date.value_text
    band = values["band"]
    limits = (
        zip(band["low"], band["high"], strict=True)
        if band["low"] is not None
        else [None] * len(values["probabilities"])
    )
    lines = [
        f"{told_value(left):>8} – {told_value(right):<8}  {share:7.4f}"
        + (f"  ({limit[0]:.4f} – {limit[1]:.4f})" if limit else "")
        for left, right, share, limit in zip(
            values["edges"][:-1], values["edges"][1:], values["probabilities"], limits, strict=True
        )
    ]
    median, mean = told_value(values["quartiles"][1]), told_value(values["mean"])
    told = f"{band['level']:.0%} bands in brackets" if not band["reason"] else f"no bands: {band['reason']}"
    return [*lines, f"mean {mean}, median {median}", told]
