"""Trees of parameters as a release declares them: where each array stands, its shape and type, and whether it is trained.

A release holds numbers and this declaration, and no code: whoever receives it gives the function, and either a tree of the same structure or
none, in which case texts in paths become keys of dicts and numbers become places of lists.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sudare.array_types import Floats
from sudare.errors import InvalidParameter
from sudare.neural.training_method_base import require_jax
from sudare.safe_text import text_fault

MOST_ARRAYS: Final = 10_000
_MOST_NUMBERS: Final = 2**31
_DEEPEST: Final = 64
_FLOATS: Final = ("float32", "float64")


@dataclass(frozen=True)
class Leaf:
    """One array of a tree. Trained ones are 32-bit floats."""

    path: tuple[str | int, ...]
    shape: tuple[int, ...]
    dtype: str
    trained: bool

    @property
    def name(self) -> str:
        """The path as one text, by which `trainable` is asked."""
        return "/".join(map(str, self.path))

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)

    def written(self) -> dict[str, Any]:
        """Returns the tree as a release says it."""
        return {"path": list(self.path), "shape": list(self.shape), "dtype": self.dtype, "trained": self.trained}


@dataclass(frozen=True)
class Tree:
    """The arrays of a tree beside their declaration, in JAX's order."""

    leaves: tuple[Leaf, ...]
    values: tuple[Any, ...]
    structure: Any

    def part(self, trained: bool) -> tuple[Any, ...]:
        """The arrays that are trained, or those that are not."""
        return tuple(value for leaf, value in zip(self.leaves, self.values, strict=True) if leaf.trained is trained)

    def digest(self, trained: bool) -> str | None:
        """SHA-256 of the arrays that are trained, or of those that are not, with their names; None where there are none."""
        hashed, some = hashlib.sha256(), False
        for leaf, value in zip(self.leaves, self.values, strict=True):
            if leaf.trained is trained:
                some = True
                numbers = np.ascontiguousarray(value)
                hashed.update(f"{leaf.name}\0{numbers.shape} {numbers.dtype.str}\0".encode() + numbers.tobytes())
        return hashed.hexdigest() if some else None


def tree_of(params: Any, trainable: Callable[[str], bool] | None) -> Tree:
    """The arrays of a tree. Raise InvalidParameter unless each is an array under a printable name, and one at least is trained.

    Floats of 32 or 64 bits are trained, or those of them of whose names `trainable` says so; all others are public and stay.
    """
    require_jax()
    import jax

    found, structure = jax.tree_util.tree_flatten_with_path(params)
    if not 1 <= len(found) <= MOST_ARRAYS:
        raise InvalidParameter(
            f"params must be a tree of up to {MOST_ARRAYS:,} arrays.",
            "Give what apply takes: arrays in dicts, lists or modules.",
        )
    leaves, values = [], []
    for keys, value in found:
        path = tuple(_key(key) for key in keys)
        if not hasattr(value, "shape") or not hasattr(value, "dtype"):
            raise InvalidParameter("params holds something that is no array.", "Keep functions and settings in apply.")
        name = "/".join(map(str, path))
        is_float = str(value.dtype) in _FLOATS
        trained = is_float and (trainable is None or bool(trainable(name)))
        leaves.append(Leaf(path, tuple(map(int, value.shape)), "float32" if trained else str(value.dtype), trained))
        values.append(np.asarray(value, dtype=np.float32) if trained else value)
    _check_names(leaves)
    if not any(leaf.trained and leaf.size for leaf in leaves):
        raise InvalidParameter(
            "No array of params is to be trained.", "Give 32-bit floats, and a trainable that says True of some."
        )
    return Tree(tuple(leaves), tuple(values), structure)


def _key(key: Any) -> str | int:
    for name in ("key", "idx", "name"):
        part = getattr(key, name, None)
        if isinstance(part, str) or (type(part) is int and part >= 0):
            return part
    raise InvalidParameter("A key of params is neither text nor a place.", "Use dicts with text as keys, or lists.")


def _check_names(leaves: Sequence[Leaf]) -> None:
    """Raise InvalidParameter unless paths are short, different and printable."""
    texts = [part for leaf in leaves for part in leaf.path if isinstance(part, str)]
    if len({leaf.name for leaf in leaves}) < len(leaves) or any(len(leaf.path) > _DEEPEST for leaf in leaves):
        raise InvalidParameter("Two arrays of params have one name, or lie too deep.", "Rename or flatten them.")
    if any(text_fault(text) for text in texts):
        raise InvalidParameter("A key of params is empty or cannot be printed.", "Use names of letters and digits.")


def read_leaves(written: Any) -> tuple[Leaf, ...]:
    """The leaves that a release declares. Raise TypeError, ValueError or InvalidParameter unless `Leaf.written` could have written them."""
    if not isinstance(written, list) or not 1 <= len(written) <= MOST_ARRAYS:
        raise TypeError("not a list of arrays")
    leaves = []
    for entry in written:
        leaf = Leaf(tuple(entry["path"]), tuple(entry["shape"]), entry["dtype"], entry["trained"])
        if (
            leaf.written() != entry
            or not all(type(part) is str or (type(part) is int and 0 <= part < _MOST_NUMBERS) for part in leaf.path)
            or not all(type(side) is int and 0 <= side < _MOST_NUMBERS for side in leaf.shape)
            or leaf.size >= _MOST_NUMBERS
            or type(leaf.trained) is not bool
            or (leaf.dtype != "float32" if leaf.trained else type(leaf.dtype) is not str or text_fault(leaf.dtype))
        ):
            raise ValueError("not an array of a tree")
        leaves.append(leaf)
    _check_names(leaves)
    nested(leaves, [None] * len(leaves))
    return tuple(leaves)


def trained_arrays(leaves: Sequence[Leaf], numbers: Floats) -> list[Any]:
    """The trained arrays, in 32-bit floats, that one vector holds."""
    trained = [leaf for leaf in leaves if leaf.trained]
    ends = np.cumsum([leaf.size for leaf in trained])
    parts = np.split(numbers, ends[:-1])
    return [part.astype(np.float32).reshape(leaf.shape) for leaf, part in zip(trained, parts, strict=True)]


def nested(leaves: Sequence[Leaf], values: Sequence[Any]) -> Any:
    """The values in dicts and lists by the paths of their leaves. Raise ValueError where an array stands in the way of another."""
    if len(leaves) == 1 and not leaves[0].path:
        return values[0]
    root: dict[str | int, Any] = {}
    for leaf, value in zip(leaves, values, strict=True):
        place = root
        for part in leaf.path[:-1]:
            place = place.setdefault(part, _Branch())
            if not isinstance(place, _Branch):
                raise ValueError("an array is in the place of a branch")
        if not leaf.path or leaf.path[-1] in place:
            raise ValueError("two arrays in one place")
        place[leaf.path[-1]] = value
    return _listed(root)


class _Branch(dict[str | int, Any]):
    """A branch, which no value is."""


def _listed(branch: dict[str | int, Any]) -> Any:
    """Branches whose keys are 0, 1, … become lists, others dicts."""
    held = {key: _listed(value) if isinstance(value, _Branch) else value for key, value in branch.items()}
    places = list(range(len(held)))
    return [held[place] for place in places] if set(held) == set(places) else held
