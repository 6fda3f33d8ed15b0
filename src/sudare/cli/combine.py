"""`sudare combine`: other members' models, weighted on own data. The result is for its owner and can never be released."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from sudare.cli.command_output import AsJson, answer, progress, reported, write_new_private
from sudare.cli.inspect import read_release, signature_lines
from sudare.cli.options import CsvFacts, Encoding, HasHeader, TableFile, TrustedKeys, table_source
from sudare.errors import InvalidParameter, SudareError

if TYPE_CHECKING:
    from sudare.experts.combined_experts import CombinedExperts
    from sudare.privacy import Release
    from sudare.report.privacy_card import Signature
    from sudare.schema import Schema
    from sudare.schema.table_from_any_frame import Table

_STAYS: Final = "The combined model is learned from your records without noise: it can never be released. Use it with `sudare predict`."


@reported
def combine(
    table: TableFile,
    releases: Annotated[
        list[Path], typer.Argument(metavar="RELEASES", help="Released models of other members, two or more.")
    ],
    schema: Annotated[
        Path, typer.Option("--schema", metavar="FILE", help="The schema of the own table, with its target (TOML).")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The combined model to write, for you alone.")
    ],
    method: Annotated[
        str,
        typer.Option(
            "--method",
            help="mirror-averaging, exponential-weights, average, stacking, or own-plus-consensus (linear models).",
        ),
    ] = "mirror-averaging",
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="COLUMN", help="The column to predict; without it the schema's target."),
    ] = None,
    has_header: HasHeader = None,
    encoding: Encoding = None,
    csv: CsvFacts = None,
    trusted: TrustedKeys = None,
    as_json: AsJson = False,
) -> None:
    """Combine other members' released models with weights learned on your own table, and write the result for yourself.

    It costs nothing: their records are protected by their releases, and yours do not leave. The result is no release.
    """
    from sudare.experts.combined_model_file import combination, combined_model_bytes
    from sudare.frames import read
    from sudare.requests.request_kinds import with_target
    from sudare.schema import Schema

    declared = with_target(Schema.load(schema), target)
    if os.path.lexists(output) or not output.absolute().parent.is_dir():
        raise InvalidParameter(
            f"'{output}' exists, or its folder does not.", "Choose a new file in a folder that exists."
        )
    opened = [_expert(file, trusted) for file in releases]
    _check_one_schema(releases, [release for release, _ in opened])
    model = combination(method, [release for release, _ in opened])
    with progress(as_json) as tell:
        tell("weighting the models on your own table")
        with warnings.catch_warnings():
            # Who was left out is told below.
            warnings.simplefilter("ignore", RuntimeWarning)
            _fit(model, read(table_source(table, has_header, encoding, csv), schema=declared), declared)
    write_new_private(output, combined_model_bytes(model, [file.read_bytes() for file in releases]))
    signature = "trusted" if all(seen == "trusted" for _, seen in opened) else "unchecked"
    weights = _weights(model)
    answer(
        {
            "output": str(output), "method": method, "experts": [str(file) for file in releases], "weights": weights,
            "left_out": [str(releases[number]) for number in model.left_out_], "signature": signature, "release": False,
        },
        as_json,
        *_lines(releases, weights, model), f"Wrote {output}; only you can read it.", _STAYS, *signature_lines(signature),
    )  # fmt: skip


def _expert(file: Path, trusted: list[Path] | None) -> tuple[Release, Signature]:
    """A released model. Raise an error that names the file, since there are several."""
    try:
        release, signature = read_release(file, trusted)
        if not hasattr(release.model(), "predict"):
            raise InvalidParameter(f"A {release.learner} predicts nothing.", "Give released models.")
    except SudareError as error:
        if file.name in error.problem:
            raise
        raise type(error)(f"{file.name}: {error.problem}", error.remedy) from None
    return release, signature


def _check_one_schema(files: list[Path], releases: list[Release]) -> None:
    """Raise InvalidParameter that names the files which are of another schema than the first one is."""
    others = [
        file.name
        for file, release in zip(files, releases, strict=True)
        if release.schema_digest != releases[0].schema_digest
    ]
    if others:
        raise InvalidParameter(
            f"Models of other schemas than that of {files[0].name}: {', '.join(others)}.",
            "Ask for models of one schema, with the same target, or leave out who differs.",
        )


def _fit(model: CombinedExperts, own: Table, declared: Schema) -> None:
    if declared.target is None:
        raise InvalidParameter("The schema declares no target.", "Name the column to predict with --target.")
    codes = declared.encode_target(own)
    targets = codes if declared.label is None else declared.decode_label(codes)
    model.fit(own.select(list(declared.features)), targets)


def _weights(model: CombinedExperts) -> list[Any] | None:
    """One weight for each expert; None where own data choose coefficients instead."""
    found = getattr(model, "weights_", None)
    return None if found is None else found.tolist()


def _lines(releases: list[Path], weights: list[Any] | None, model: CombinedExperts) -> list[str]:
    lines = []
    if weights is not None and all(isinstance(weight, float) for weight in weights):
        lines = [f"{file.name}: weight {weight:.3f}" for file, weight in zip(releases, weights, strict=True)]
    if model.left_out_:
        names = ", ".join(releases[number].name for number in model.left_out_)
        lines.append(f"Left out, because their answers are not finite or too large: {names}.")
    return lines
