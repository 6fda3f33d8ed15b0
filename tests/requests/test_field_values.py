"""Values of fields from typed texts."""

from __future__ import annotations

import pytest

from sudare.errors import InvalidParameter
from sudare.requests.field_values import values_of_texts
from sudare.requests.request_kinds import kind_named
from sudare.schema import Number, Schema

SCHEMA = Schema({"age": Number(0, 110)})


def test_numbers_are_read_and_blanks_keep_the_default() -> None:
    assert values_of_texts(kind_named("mean"), SCHEMA, {"epsilon": [" 0.5 "], "delta": [" "]}) == {"epsilon": 0.5}


def test_candidates_are_few() -> None:
    schema = Schema({"age": Number(0, 110), "pay": Number(0, 9)})
    many = {"regularization": [", ".join(["0.1"] * 101)]}
    with pytest.raises(InvalidParameter, match="--regularization has more than 100 values"):
        values_of_texts(kind_named("ridge"), schema, many)
    assert (
        len(values_of_texts(kind_named("ridge"), schema, {"regularization": ["0.1,"] * 100})["regularization"]) == 100
    )


@pytest.mark.parametrize("text", ["a lot", "1." + "0" * 5000, "1,5", "1_0"])
def test_what_is_no_number_is_refused_with_the_option(text: str) -> None:
    with pytest.raises(InvalidParameter, match="--epsilon must be a number"):
        values_of_texts(kind_named("mean"), SCHEMA, {"epsilon": [text]})
