"""`sudare fit`: from a table to a signed release, charged to an account; one command for each kind of release."""

from __future__ import annotations

import inspect
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from sudare.cli import charged_commands as paying
from sudare.cli.command_output import answer, progress, reported, tell_error
from sudare.cli.language import Told, spoken_language, told
from sudare.cli.option_names_in_errors import ASKED
from sudare.cli.options import (
    AccountOrTableName,
    Checkpoint,
    Cluster,
    SchemaOfAllColumns,
    Slices,
    TableFile,
    sliced,
)
from sudare.requests.declared_parameters import FieldType
from sudare.requests.parameter_help import WORDS
from sudare.requests.request_kinds import KINDS, Field, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping, Sequence

    from sudare.privacy.ledger import Account
    from sudare.requests.expected_error import ExpectedError

# Records that leave one by one, or as a table of nobody, have commands of their own.
FITTED: Final = tuple(name for name in KINDS if name not in ("perturbation", "synthesis"))
# What others call a kind: with δ > 0 the shapes of an additive model are boosted.
OTHER_NAMES: Final = {"boosted": "additive"}
_TYPES: Final[Mapping[FieldType, Any]] = {
    FieldType.NUMBER: float,
    FieldType.WHOLE: int,
    FieldType.FLAG: bool,
    FieldType.CHOICE: str,
    FieldType.COLUMN: str,
}


class FitCommand(TyperCommand):
    """The command of one kind; options of other kinds are refused in words."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the words apart. End with the exit code of a wrong parameter where an option belongs to another kind."""
        own = {written for parameter in self.params for written in (*parameter.opts, *parameter.secondary_opts)}
        others = {words.option for words in WORDS.values()} - own
        for word in args:
            option = word.partition("=")[0]
            if option in others:
                kinds = [name for name in FITTED if option in {each.option for each in KINDS[name].fields}]
                elsewhere = f"It is for: `{'`, `'.join(kinds)}`." if kinds else "No kind of `sudare fit` has it."
                error = 10
                tell_error(
                    "InvalidParameter", f"`sudare fit {self.name}` has no {option}.",
                    f"Leave {option} out. {elsewhere}", error, "--json" in args,
                )  # fmt: skip
                raise typer.Exit(error)
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


class FitGroup(TyperGroup):
    """Commands of all kinds, each made when it is asked for: learners are slow to import."""

    @cached_property
    def _made(self) -> dict[str, Any]:
        return {}

    @property
    def commands(self) -> MutableMapping[str, Any]:
        """All commands by name."""
        return {name: self.get_command(None, name) for name in FITTED}

    @commands.setter
    def commands(self, commands: MutableMapping[str, Any]) -> None:
        """Commands are made from the kinds of release; none can be set."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of the kinds."""
        return list(FITTED)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a kind, by its name or another one; None where there is no such kind."""
        cmd_name = OTHER_NAMES.get(cmd_name, cmd_name)
        if cmd_name not in FITTED:
            return None
        if cmd_name not in self._made:
            self._made[cmd_name] = _command(KINDS[cmd_name])
        return self._made[cmd_name]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the kinds with their titles, without importing any learner."""
        with formatter.section("Commands"):
            others = {name: other for other, name in OTHER_NAMES.items()}
            shown = [(f"{name}, {others[name]}" if name in others else name, KINDS[name].title) for name in FITTED]
            formatter.write_dl(shown)


app = typer.Typer(
    cls=FitGroup, no_args_is_help=True, rich_markup_mode=None,
    help="Charge an account, compute a private statistic or model of a table, and write it as a signed release.",
)  # fmt: skip


@app.callback()
def fit() -> None:
    """Charge an account, compute a private statistic or model of a table, and write it as a signed release."""


def _command(kind: Kind) -> Any:
    """The command of a kind, with an option for each of its fields."""
    single = typer.Typer(rich_markup_mode=None, add_completion=False)
    single.command(kind.name, cls=FitCommand, help=f"{kind.title}, as a signed release.")(_function(kind))
    command = typer.main.get_command(single)
    command.name = kind.name
    return command


def _function(kind: Kind) -> Any:
    run = reported(paying.charging(_of_kind(_fit, kind)))
    run.__name__ = f"fit_{kind.name}"
    return run


_NO_SLICES: Final = Annotated[
    list[str] | None,
    typer.Option(
        "--slice",
        metavar="COLUMN=VALUE",
        help="Not for this kind: slices are of accounts for added and removed records. Whoever gives it is told so.",
    ),
]


def _of_kind(function: Any, kind: Kind) -> Any:
    """The function for this kind, with the kind's fields as options in place of its `asked`."""

    def of_kind(**given: Any) -> None:
        asked = {each.name: given.pop(_variable(each)) for each in kind.fields}
        function(kind, asked=asked, **given)

    own = dict(inspect.signature(function, eval_str=True).parameters)
    places = [own["table"], own["schema"]]
    fields = [_parameter(each) for each in kind.fields]
    if not _takes(kind, "neighbours"):
        # A slice can be taken only where records are added and removed.
        own["slices"] = own["slices"].replace(annotation=_NO_SLICES)
    held = ["account", "slices", *(name for name in ("cluster", "checkpoint") if _takes(kind, name))]
    ordered = [
        *places, *sorted(fields, key=lambda each: each.default is not inspect.Parameter.empty),
        *(own[name] for name in held),
    ]  # fmt: skip
    plain = [each.replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD) for each in ordered]
    of_kind.__signature__ = inspect.Signature([*plain, own["charge"]])  # type: ignore[attr-defined]
    return of_kind


def _variable(field: Field) -> str:
    """The name of a field's variable in a command, where `encoding` is that of a file."""
    return f"{ASKED}{field.name}"


def _takes(kind: Kind, name: str) -> bool:
    from sudare.privacy.learner_registry import learner_class

    return any(name in inspect.signature(learner_class(learner)).parameters for learner in kind.names)


def _parameter(field: Field) -> inspect.Parameter:
    """A field as a parameter of a command. It is None unless given, so that defaults are those of the learner."""
    written = f"{field.option}/--no-{field.option[2:]}" if field.type is FieldType.FLAG else field.option
    told = f"{field.help} One of: {', '.join(field.choices)}." if field.choices else field.help
    repeated = " May be repeated, or have commas." if field.is_repeated else ""
    column = "COLUMN" if field.columns else None
    kind: Any = list[str] if field.is_repeated else _TYPES[field.type]
    is_needed = field.name == "epsilon"
    option = typer.Option(
        written, help=f"{told}{repeated}", metavar=column if field.is_repeated or field.columns else None,
        show_default=_shown_default(field),
    )  # fmt: skip
    return inspect.Parameter(
        _variable(field), inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=inspect.Parameter.empty if is_needed else None,
        annotation=Annotated[kind if is_needed else kind | None, option],
    )  # fmt: skip


def _shown_default(field: Field) -> Any:
    if field.name == "epsilon" or field.default in (None, (), ""):
        return False
    if isinstance(field.default, tuple):
        return ", ".join(map(str, field.default))
    if isinstance(field.default, bool):
        return "yes" if field.default else "no"
    return str(field.default)


def _fit(
    kind: Kind,
    table: TableFile,
    schema: SchemaOfAllColumns,
    *,
    asked: dict[str, Any],
    account: AccountOrTableName = None,
    slices: Slices = None,
    cluster: Cluster = None,
    checkpoint: Checkpoint = None,
    charge: paying.ChargedOptions,
) -> None:
    from sudare.requests.request_kinds import make, with_target
    from sudare.schema import Schema

    loaded = Schema.load(schema)
    values = _values(kind, loaded, asked)
    kind.check_target(loaded, values.get("target"))
    declared = with_target(loaded, values.pop("target", None))
    neighbours = values.get("neighbours", "replace-one")
    held = {name: value for name, value in (("cluster", cluster), ("checkpoint", checkpoint)) if value is not None}
    signing, source = charge.signing(), sliced(charge.source(table), declared, slices)
    payment = charge.payment(charge.account_of(account, table), table, neighbours)
    with progress(charge.as_json) as tell:
        tell("looking through the table" if signing is None else "looking through the table, then charging")
        model = paying.fitted_or_planned(
            payment, declared, source, signing,
            make=lambda payer: make(kind, declared, values, account=payer, **held),
            tell_plan=partial(_tell_price, kind, source=source, neighbours=neighbours, as_json=charge.as_json),
        )  # fmt: skip
    if signing is not None:
        _save(model, signing, neighbours, charge.as_json)


def _values(kind: Kind, schema: Any, asked: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, as values of the learner's parameters."""
    from sudare.requests.field_values import values_of_texts

    given = {name: value for name, value in asked.items() if value is not None and value != []}
    texts = {name: value if isinstance(value, list) else [value] for name, value in given.items() if _is_text(value)}
    return {
        **{name: value for name, value in given.items() if name not in texts},
        **values_of_texts(kind, schema, texts),
    }


def _is_text(value: object) -> bool:
    return isinstance(value, str | list)


_OF_OWN_ROWS: Final = "This is told for the number of rows that the table has, which is secret with --neighbours add-remove: only you see it."


def _tell_price(kind: Kind, model: Any, source: object, neighbours: str, as_json: bool) -> None:
    from sudare.frames.person_rows import used_row_count
    from sudare.report import strength_of
    from sudare.requests.expected_error import expected_errors

    payer: Account | None = model.account
    if payer is None:
        promise = model.declared_promise(lambda: 0)
        word = strength_of(promise.epsilon, promise.delta).word
        values: dict[str, Any] = {"guarantee": promise.to_dict()}
        lines = [
            f"This would cost ε = {promise.epsilon:g} ({word}). No account was named, and none is called like the table."
        ]
    else:
        quote = model.price(source)
        word = strength_of(*quote.asked).word
        values = paying.quoted(quote, payer.name)
        lines = [paying.price_text(quote, payer.name, word), *paying.relation_lines(payer, neighbours)]
    rows = used_row_count(source, model.schema)
    errors = expected_errors(kind.name, model, rows)
    depends = list(map(str, errors)) != list(map(str, expected_errors(kind.name, model, 2 * rows)))
    of_rows = [_OF_OWN_ROWS] if model.neighbours == "add-remove" and depends else []
    answer(
        {"dry_run": True, **values, "strength": word, "expected_errors": [error.to_dict() for error in errors]},
        as_json, *lines, *error_lines(errors), *of_rows, "Dry run: nothing was computed, charged or written.",
    )  # fmt: skip


def error_lines(errors: Sequence[ExpectedError]) -> list[str]:
    """What would be off, in the language in use: sizes in one line, then sentences."""
    language = spoken_language()
    sizes = ("；" if language == "ja" else "; ").join(
        error.told(language) for error in errors if error.size is not None
    )
    words = [Told(error.told(language)) for error in errors if error.size is None]
    if not sizes:
        return [*words]
    return [told("Typical error, by the noise alone: {sizes}.", sizes=sizes), *words]


def _save(model: Any, signing: paying.Signing, neighbours: str, as_json: bool) -> None:
    from sudare.privacy import Release
    from sudare.report import strength_of

    Release.of(model).save(signing.output, key=signing.key)
    promise = model.guarantee_
    word = strength_of(promise.epsilon, promise.delta).word
    values = {"output": str(signing.output), "guarantee": promise.to_dict(), "strength": word, **paying.paid(model)}
    lines = [*paying.paid_lines(model), *paying.relation_lines(model.account, neighbours)]
    answer(values, as_json, f"Wrote {signing.output}: {promise} ({word}).", *lines)
