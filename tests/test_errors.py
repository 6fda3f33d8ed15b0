"""The error tree: codes, help, pages, and messages that say what was wrong and what to do."""

from __future__ import annotations

import ast
import copy
import importlib.util
import pickle
import re
from pathlib import Path

import pytest

from sudare import errors
from sudare.errors import SudareError, every_error

ROOT = Path(__file__).resolve().parent.parent
EVERY_ERROR = pytest.mark.parametrize("error", list(every_error()), ids=lambda error: error.__name__)


@pytest.fixture(scope="module")
def error_pages() -> dict[str, str]:
    """Name of the error → its page, as the documentation's hook makes it."""
    specification = importlib.util.spec_from_file_location("documentation_hooks", ROOT / "docs" / "hooks.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return {error.__name__: module.error_page(error) for error in every_error()}


def classes_in_the_module() -> set[type[SudareError]]:
    return {value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, SudareError)}


def test_every_error_lists_each_class_of_the_module_once() -> None:
    listed = list(every_error())
    assert len(listed) == len(set(listed))
    assert set(listed) == classes_in_the_module()


def test_no_other_module_defines_errors() -> None:
    strangers = [
        (path.name, node.name)
        for path in sorted((ROOT / "src").rglob("*.py"))
        if path.name != "errors.py"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef) and any(is_error_name(base) for base in node.bases)
    ]
    # Signals that no user ever sees: the exact sampler needs more bits; an expert is to be left out; a text is not to be parsed, which
    # whoever wanted it parsed turns into an error of ours; a database leaves a doubt, and the reader reads its rows; a function of rows cannot
    # be taken apart by rows, which becomes an error of ours; a node's local socket is not used, and its files are read.
    assert set(strangers) == {
        ("database_sums.py", "_MustBeRead"),
        ("rejection_decisions.py", "Undecided"),
        ("expert_set.py", "CannotBeScored"),
        ("local_socket.py", "_Refused"),
        ("parsing.py", "NotParsed"),
        ("row_gradients.py", "RowsNotSeparable"),
    }


def is_error_name(base: ast.expr) -> bool:
    name = ast.unparse(base).rpartition(".")[2]
    return name.endswith(("Error", "Exception")) or name in {error.__name__ for error in every_error()}


def test_exit_codes_are_unique_and_outside_those_of_the_shell() -> None:
    codes = [error.exit_code for error in every_error()]
    assert len(codes) == len(set(codes))
    # 0 is success, 2 is a wrong command line, 126 and above belong to the shell.
    assert all(code == 1 or 10 <= code <= 125 for code in codes)
    assert codes == sorted(codes)


def test_exit_codes_are_in_the_group_of_their_parent() -> None:
    below = [error for error in every_error() if SudareError not in (error, *error.__bases__)]
    assert below
    for error in below:
        parent = error.__bases__[0]
        assert issubclass(parent, SudareError)
        assert parent.exit_code // 10 == error.exit_code // 10
        assert parent.exit_code < error.exit_code


@EVERY_ERROR
def test_documented(error: type[SudareError], error_pages: dict[str, str]) -> None:
    assert "help" in vars(error)
    assert "exit_code" in vars(error)
    assert re.fullmatch(r"[A-Z].*\.", error.help, re.DOTALL)
    assert error.__doc__ is not None
    assert re.fullmatch(r"[A-Z].*\.", error.__doc__)
    page = error_pages[error.__name__]
    assert error.help in page
    assert error.__doc__ in page
    assert f": {error.exit_code}." in page


@EVERY_ERROR
def test_message_is_problem_then_remedy(error: type[SudareError]) -> None:
    raised = error("The box was empty.", "Fill it.")
    assert str(raised) == "The box was empty. Fill it."
    assert (raised.problem, raised.remedy) == ("The box was empty.", "Fill it.")
    with pytest.raises(TypeError):
        error("The box was empty.")  # type: ignore[call-arg]


@EVERY_ERROR
@pytest.mark.parametrize("copied", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy])
def test_survives_the_way_back_from_a_worker(error: type[SudareError], copied: object) -> None:
    raised = error("The box was empty.", "Fill it.")
    assert callable(copied)
    returned = copied(raised)
    assert type(returned) is error
    assert str(returned) == str(raised)
    assert (returned.problem, returned.remedy) == (raised.problem, raised.remedy)


def test_builtin_parents_let_ordinary_code_catch_them() -> None:
    expected = {
        "InvalidParameter": ValueError,
        "SchemaError": ValueError,
        "WrongType": TypeError,
        "DataError": ValueError,
        "InvalidCost": ValueError,
        "UnknownAccount": KeyError,
        "LedgerBusy": TimeoutError,
        "ReleaseExists": FileExistsError,
        "NotReleasable": TypeError,
        "ExtraMissing": ImportError,
        "UnknownName": LookupError,
    }
    for name, builtin in expected.items():
        with pytest.raises(builtin):
            raise getattr(errors, name)("The box was empty.", "Fill it.")


def raises_of_our_errors() -> list[tuple[str, ast.Call]]:
    names = {error.__name__ for error in every_error()}
    return [
        (f"{path.relative_to(ROOT)}:{node.lineno}", node)
        for path in sorted((ROOT / "src").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names
    ]


def last_text(node: ast.expr) -> str | None:
    """How a literal message ends, or None where it ends in a value or is put together elsewhere."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return last_text(node.values[-1])
    return None


def test_messages_in_the_code_are_sentences() -> None:
    """Each literal problem and remedy ends as a sentence; a remedy may also end with a command to copy, after a colon."""
    found = raises_of_our_errors()
    assert found, "no place that raises was found: this test looks in the wrong folder"
    unfinished = [
        place
        for place, call in found
        for position, argument in enumerate(call.args)
        if (text := last_text(argument)) is not None
        and not text.rstrip().endswith((".", "!", "?", ")"))
        and not (position == 1 and ": " in text)
    ]
    assert unfinished == []


def test_every_raise_has_a_problem_and_a_remedy() -> None:
    incomplete = [
        place
        for place, call in raises_of_our_errors()
        if len(call.args) + len(call.keywords) != 2 and not any(isinstance(a, ast.Starred) for a in call.args)
    ]
    assert incomplete == []
