"""Values as text, each spelled exactly and by itself: whatever the type of its column, and whatever stands beside it."""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from sudare.schema.lazy_pyarrow import pa, pc

# Whole numbers in floats have no more digits than an int64 below.
_INT64_BELOW = 2.0**63


def canonical_texts(column: pa.ChunkedArray) -> pa.Array:
    """Values as bytes; numbers without exponent and without zeros behind the point, whatever their type, missing ones as null.

    So 7, 7.0 and a decimal 7.00 are "7". Text stays as it is written: "7.0" is not "7".
    """
    if pa.types.is_dictionary(column.type):
        column = pc.dictionary_decode(column)
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    if pa.types.is_floating(values.type):
        return _float_texts(values.cast(pa.float64()))
    if pa.types.is_binary(values.type) or pa.types.is_fixed_size_binary(values.type):
        return values.cast(pa.large_binary())
    texts = values.cast(pa.large_string())
    if pa.types.is_decimal(values.type):
        texts = _without_exponents(texts)
    if pa.types.is_decimal(values.type) or pa.types.is_timestamp(values.type):
        texts = _without_last_zeros(texts)
    return texts.cast(pa.large_binary())


def _float_texts(values: pa.Array) -> pa.Array:
    """Whole numbers as all of their digits; others as the shortest decimals that are read as the same float."""
    floats = np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)
    is_short = (np.abs(floats) < _INT64_BELOW) & (floats == np.floor(floats))
    digits = pa.array(np.where(is_short, floats, 0).astype(np.int64)).cast(pa.large_string())
    texts = pc.if_else(pa.array(is_short), digits, pa.array(floats).cast(pa.large_string()))
    is_long = np.isfinite(floats) & (np.abs(floats) >= _INT64_BELOW)
    if is_long.any():
        # The shortest decimals of a long float are not its digits.
        exact = pa.array([str(int(value)) for value in floats[is_long].tolist()], pa.large_string())
        texts = pc.replace_with_mask(texts, pa.array(is_long), exact)
    missing = pa.array(np.isnan(floats))
    return pc.if_else(missing, pa.scalar(None, pa.large_string()), _without_exponents(texts)).cast(pa.large_binary())


def _without_exponents(texts: pa.Array) -> pa.Array:
    """Numbers as text, none of them with an exponent."""
    has_exponent = pc.fill_null(pc.match_substring_regex(texts, "[0-9][eE]"), False)
    if not pc.any(has_exponent).as_py():
        return texts
    written = [format(Decimal(text), "f") for text in texts.filter(has_exponent).to_pylist()]
    return pc.replace_with_mask(texts, has_exponent, pa.array(written, pa.large_string()))


def _without_last_zeros(texts: pa.Array) -> pa.Array:
    has_point = pc.match_substring(texts, ".")
    return pc.if_else(has_point, pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), "."), texts)
